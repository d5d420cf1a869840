/* SPDX-License-Identifier: MIT
 *
 * One end of a line: eight queues by priority, and one for PFC frames, which nothing stops. A packet leaves when the one before it is
 * through, and is at the other end a delay later. A port obeys PFC: a priority that was told to pause waits until it is told to
 * go on, or until the time that a pause frame can ask for is over.
 *
 *   switch or NIC --add--> queues --(pause, strict priority)--> line --delay--> the peer's owner
 */
#ifndef VB_SIM_PORT_H
#define VB_SIM_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "sim/events.h"
#include "sim/packet.h"

struct sim;
struct sim_host;
struct sim_port;
struct sim_switch;

enum {
	SIM_PRIORITIES = 8,
	SIM_QUEUES = SIM_PRIORITIES + 1, /* the last is of PFC frames */
	SIM_DATA = 3,                    /* the priority of RoCE, as is usual */
	SIM_CNP = 6,
	SIM_PAUSE_QUANTA = 65535,        /* of 512 bit times each */
	/* Ethernet with preamble and gap, IPv4, UDP: what a datagram has around it. */
	SIM_AROUND = 14 + 4 + 20 + 20 + 8,
	SIM_PAUSE_SIZE = 64 + 20,
};

/* A cache line each: a packet's way through a port touches its own priority and no other. */
struct sim_port_priority {
	/* Leaving. */
	struct sim_queue queue;
	vb_time paused_until;            /* 0: not paused */
	vb_time paused_since;
	vb_time moved_at;                /* last packet that left */
	uint32_t queued;                 /* bytes */
	/* Entering, of a switch: what came in here and has not left the switch. */
	uint32_t held, headroom;
	bool stopped;                    /* we have told the peer to pause */
	bool discards;                   /* the watchdog has given this queue up */
} __attribute__((aligned(SIM_CACHE_LINE)));

/* What a switch and a host's adapter do with a port of theirs. */
struct sim_port_owner {
	/* A packet has come, and is the owner's from now on. */
	void (*receive)(struct sim_port *port, struct sim_packet *packet);
	/* The same packet will come: fetch what is needed then into the cache. */
	void (*expect)(const struct sim_port *port, const struct sim_packet *packet);
	/* A packet leaves by the port, or leaves its queue for good. NULL: it need not be told. */
	void (*sent)(struct sim_port *port, struct sim_packet *packet);
	/* The line can take a packet: put one into a queue, if there is any. NULL: they come by themselves. */
	void (*refill)(struct sim_port *port);
};

struct sim_port {
	struct sim_queue line;           /* on their way to the peer */
	struct sim_port *peer;
	struct sim_switch *at;           /* NULL: of a host */
	struct sim *sim;
	const struct sim_port_owner *owner;
	uint64_t rate;                   /* bits a second */
	vb_time delay;

	/* Leaving. */
	vb_time free_at;                 /* the line takes the next packet */
	uint32_t rest;                   /* picoseconds that free_at leaves out */
	uint16_t waiting;                /* bit i: queue i is not empty */
	bool wake_planned;
	struct sim_host *host;           /* NULL: of a switch */
	struct vb_list ready;            /* of a host: its QPs may have something to send */
	unsigned number;                 /* within its owner */
	bool renewing;                   /* a pause that we asked for, before it is over */

	struct sim_port_priority of[SIM_QUEUES];

	/* Counters. */
	uint64_t packets, bytes;         /* sent, without PFC frames */
	uint64_t pauses_sent, pauses_got, marks, drops;
	vb_time paused_time;             /* of SIM_DATA */
};

/* For the cache: the packet that arrives next and where it arrives; then the way it goes on. */
void sim_port_fetch(const struct sim_port *port);
void sim_port_fetch_route(const struct sim_port *port);

sim_handler sim_port_arrive;
struct sim_port *sim_port_new(struct sim *sim, uint64_t rate, vb_time delay);
void sim_port_free(struct sim_port *port);
void sim_port_connect(struct sim_port *a, struct sim_port *b);

/* To the end of its queue. */
void sim_port_add(struct sim_port *port, struct sim_packet *packet);
/* Send if the line is free and something may leave. */
void sim_port_kick(struct sim_port *port);
/* A pause frame has come. */
void sim_port_paused(struct sim_port *port, unsigned priority, bool pause);
bool sim_port_is_paused(const struct sim_port *port, unsigned priority);
/* Tell the peer. */
void sim_port_send_pause(struct sim_port *port, unsigned priority, bool pause);
/* How long a pause frame holds, on this line. */
vb_time sim_port_pause_time(const struct sim_port *port);
/* Everything that waits in a queue is lost; returns how many. */
unsigned sim_port_flush(struct sim_port *port, unsigned priority);

#endif
