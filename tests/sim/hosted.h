/* SPDX-License-Identifier: MIT
 *
 * A machine whose daemon is verbenad itself, in a network namespace of its own: its loop, its Unix socket, its slots and the steering
 * of port 4791. Processes speak with it as libibverbs and librdmacm do, and receive the packets of their queue pairs at the
 * sockets of their slots:
 *
 *   simulated network -> raw socket -> kernel, steering -> socket of a slot -> engine
 *                                                       -> verbenad's socket -> connection manager -> Unix socket -> process
 *   process -> Unix socket -> verbenad -> seam of vb_udp_send_run -> simulated network
 *
 * What a process does with a slot is that of world_daemon.c.
 */
#ifndef VB_TESTS_SIM_HOSTED_H
#define VB_TESTS_SIM_HOSTED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"

struct hosted;
struct machine;
struct sim;
struct vb_cm_command;
struct vb_cm_reply;
struct vb_connect_owner;

/* Once in a program: networks for that many machines. */
void hosted_enter(unsigned machines);
/* Are just a few slots to be had, so that the same are given again and again? */
void hosted_narrow(bool is_narrow);
/* Time, chance and the network are that simulator's from now on; NULL: no more. */
void hosted_use(struct sim *sim);

void hosted_open(struct machine *machine);
void hosted_close(struct machine *machine);
void hosted_start_daemon(struct machine *machine);
void hosted_kill_daemon(struct machine *machine);
bool hosted_has_daemon(const struct machine *machine);
/* It does not run, and what is said to it waits. */
void hosted_stand_still(struct machine *machine, vb_time until);
bool hosted_is_still(const struct machine *machine);

/* The process asks for a slot, or shows the one it has. False: it has no answer yet. */
bool hosted_link(struct machine *machine, struct vb_connect_owner *owner);
/* Of a process that has one. */
uint32_t hosted_slot(const struct machine *machine, const struct vb_connect_owner *owner);
/* How many its processes have. */
unsigned hosted_lanes(const struct machine *machine);
void hosted_command(struct machine *machine, struct vb_connect_owner *owner, const struct vb_cm_command *command,
		    struct vb_cm_reply *reply);
/* The same, and verbenad is about to die: it may have carried it out. */
void hosted_command_unanswered(struct machine *machine, struct vb_connect_owner *owner, const struct vb_cm_command *command);
/* Its descriptors are closed, by and by. */
void hosted_process_ended(struct machine *machine, const struct vb_connect_owner *owner);

/* All processes have a slot, no two the same, and what is sent there reaches them. */
void hosted_check(struct machine *machine);
/* No process is left: nor is anything that verbenad had for one. */
void hosted_check_empty(struct machine *machine);

#endif
