/* SPDX-License-Identifier: MIT
 *
 * A host of the simulator with its daemon: the connection manager that verbenad runs (src/connect), whose MADs travel as packets of queue
 * pair 1 over the same network as all others; or verbenad itself (hosted.h). The daemon dies without a word, and another one begins
 * with nothing.
 */
#ifndef VB_TESTS_SIM_MACHINE_H
#define VB_TESTS_SIM_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include "connect/connect.h"
#include "sim/sim.h"
#include "wire/cm_command.h"

struct hosted;

struct machine {
	struct sim *sim;
	struct sim_host *host;
	struct hosted *hosted;           /* verbenad itself; NULL: its connection manager alone */
	struct vb_connect *daemon;       /* NULL: dead, or hosted */
	vb_time started;                 /* when it began */
	unsigned deaths;
	bool refuses;                    /* while it is dead, the host's kernel says that nothing is at the port (ICMP) */
	vb_time armed;                   /* for its next deadline */
	uint32_t psn;
	/* What it tells a process. May give no command. */
	void (*tell)(struct vb_connect_owner *owner, const struct vb_cm_event *event);
};

void machine_open(struct machine *machine, struct sim *sim, bool ipv6, bool is_hosted,
		  void (*tell)(struct vb_connect_owner *owner, const struct vb_cm_event *event));
void machine_close(struct machine *machine);

void machine_start_daemon(struct machine *machine);
void machine_kill_daemon(struct machine *machine);
bool machine_has_daemon(const struct machine *machine);
/* There is one, and it runs. */
bool machine_answers(const struct machine *machine);
/* Verbenad alone does. */
void machine_stand_still(struct machine *machine, vb_time until);

/* A process tells a daemon that lives of itself. False: it has no answer yet. */
bool machine_link(struct machine *machine, struct vb_connect_owner *owner);
/* What the process calls the queue pair with that number of the simulator's. */
uint32_t machine_qpn(const struct machine *machine, const struct vb_connect_owner *owner, uint32_t number);
/* Of a process, to a daemon that lives. Returns the errno of the reply. */
int machine_command(struct machine *machine, struct vb_connect_owner *owner, struct vb_cm_command *command, struct vb_cm_reply *reply);
/* The daemon, which is verbenad, dies before it has answered: the caller kills it now. */
void machine_command_unanswered(struct machine *machine, struct vb_connect_owner *owner, struct vb_cm_command *command);
/* The process has ended. `linked`: the daemon that lives knew it, and sees that. */
void machine_process_ended(struct machine *machine, struct vb_connect_owner *owner, bool linked);

/* Everything has had its time. `empty`: nor is any process left. */
void machine_check(struct machine *machine, bool empty);

struct vb_cm_address machine_address(const struct machine *machine, uint16_t port);

#endif
