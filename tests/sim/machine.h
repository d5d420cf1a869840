/* SPDX-License-Identifier: MIT
 *
 * A host of the simulator with its daemon: the connection manager that verbenad runs (src/connect), whose MADs travel as packets of queue
 * pair 1 over the same network as all others. The daemon dies without a word, and another one begins with nothing.
 */
#ifndef VB_TESTS_SIM_MACHINE_H
#define VB_TESTS_SIM_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include "connect/connect.h"
#include "sim/sim.h"
#include "wire/cm_command.h"

struct machine {
	struct sim *sim;
	struct sim_host *host;
	struct vb_connect *daemon;       /* NULL: dead */
	vb_time started;                 /* when it began */
	unsigned deaths;
	bool refuses;                    /* while it is dead, the host's kernel says that nothing is at the port (ICMP) */
	vb_time armed;                   /* for its next deadline */
	uint32_t psn;
	/* What it tells a process. May give no command. */
	void (*tell)(struct vb_connect_owner *owner, const struct vb_cm_event *event);
};

void machine_open(struct machine *machine, struct sim *sim, bool ipv6,
		  void (*tell)(struct vb_connect_owner *owner, const struct vb_cm_event *event));
void machine_close(struct machine *machine);

void machine_start_daemon(struct machine *machine);
void machine_kill_daemon(struct machine *machine);

/* Of a process, to a daemon that lives. Returns the errno of the reply. */
int machine_command(struct machine *machine, struct vb_connect_owner *owner, struct vb_cm_command *command, struct vb_cm_reply *reply);
/* The daemon sees that the process has ended. */
void machine_owner_gone(struct machine *machine, struct vb_connect_owner *owner);

struct vb_cm_address machine_address(const struct machine *machine, uint16_t port);

#endif
