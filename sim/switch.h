/* SPDX-License-Identifier: MIT
 *
 * A switch with output queues and one buffer for all: the model of the public RDMA simulators, so that results compare.
 *
 *   arrival   a packet is charged to the port it came in by: to that port's reserve, then to the shared buffer up to the PFC
 *             threshold, which is a fraction of what is free; beyond that to the port's headroom, which is for what was under way when
 *             the peer was told to pause. What fits none of them is lost
 *   PFC       XOFF when the threshold is reached or headroom is in use; XON when it is that much lower again
 *   ECN       as a packet leaves: by the length of the queue behind it, never below kmin, linearly up to pmax at kmax, always above
 *   ECMP      among the ports that lead there by a shortest way, by a hash of addresses and source port
 *   watchdog  a queue that is paused and has not moved for long is given up: what it holds and what comes for it is dropped, until it
 *             has not been paused for a while
 *
 * Without PFC there are no headrooms; a packet for a queue that holds more than what is free is lost.
 */
#ifndef VB_SIM_SWITCH_H
#define VB_SIM_SWITCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"

struct sim;
struct sim_packet;
struct sim_port;

struct sim_switch_settings {
	uint64_t buffer;                 /* bytes */
	bool pfc;
	uint32_t reserve;                /* of each port and priority */
	uint32_t shift;                  /* PFC threshold: what is free >> shift */
	uint32_t resume;                 /* XON so far below XOFF */
	uint64_t kmin, kmax;             /* bytes; kmax 0: no marks */
	double pmax;
	vb_time watchdog_poll, watchdog_detect, watchdog_restore; /* poll 0: no watchdog */
	uint32_t loses_every;            /* of data packets, one in so many; 0: none */
};

struct sim_switch {
	struct sim *sim;
	struct sim_switch *next;
	const struct sim_switch_settings *settings;
	char name[16];
	unsigned number, tier;           /* tier 0: hosts are attached */
	struct sim_port **ports;
	unsigned port_count, port_room;
	uint16_t *route;                 /* by host: the group of ports that leads there */
	uint16_t (*group)[64];           /* [0] is how many */
	unsigned group_count, group_room;
	uint64_t shared;                 /* in use, beyond reserves */
	uint64_t shared_size;            /* buffer without reserves and headrooms */
	uint64_t data_seen, drops, watchdog_drops;
	unsigned watchdog_fired;
};

struct sim_switch *sim_switch_new(struct sim *sim, const struct sim_switch_settings *settings, const char *name);
void sim_switch_free(struct sim_switch *self);
void sim_switch_attach(struct sim_switch *self, struct sim_port *port);
/* All ports are there: divide the buffer, start the watchdog. */
void sim_switch_start(struct sim_switch *self);

/* Which port a packet takes. NULL: none leads there. */
struct sim_port *sim_switch_route(struct sim_switch *self, const struct sim_packet *packet);

#endif
