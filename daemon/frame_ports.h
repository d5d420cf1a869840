/* SPDX-License-Identifier: MIT
 *
 * Processes' sockets for frames of their queue pairs (wire/frame_port.h): one for each slot that uses the host's InfiniBand adapter.
 * What is for a process is gathered until the end of a turn, or until a message is full; a process that does not read loses it.
 *
 * Beside it each has a UDP socket and a page, by which it does without us where it can.
 */
#ifndef VB_DAEMON_FRAME_PORTS_H
#define VB_DAEMON_FRAME_PORTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/time.h"
#include "fabric/cable.h"
#include "fabric/counters.h"
#include "wire/frame_port.h"

struct vb_frame_ports {
	int poller;
	struct vb_list ports;
	uint64_t lost;                     /* messages that a process was too slow for */
	uint8_t *incoming;                 /* room for a message; made with the first port */
	struct vb_cable_address fabric;    /* what the UDP sockets are connected to */
	uint32_t cable_key, source;
	uint32_t generation, generations;  /* 0: there is no cable; how many there were */
	struct vb_fabric_counters gone;    /* of ports that were closed, not collected yet */
	vb_time next_announcement;
};

/* What a process gets: the socket, and the other two or -1. */
enum { VB_FRAME_PORT_SOCKET, VB_FRAME_PORT_UDP, VB_FRAME_PORT_PAGE, VB_FRAME_PORT_DESCRIPTORS };


void vb_frame_ports_init(struct vb_frame_ports *ports, int poller);
void vb_frame_ports_fini(struct vb_frame_ports *ports);

/* For the slot, in the place of what it had: the process's ends, which are the caller's to close. 0 or -errno. */
int vb_frame_ports_open(struct vb_frame_ports *ports, uint32_t slot, uint32_t key, int ends[VB_FRAME_PORT_DESCRIPTORS]);

/* The adapter has joined the fabric there (cable_key 0: it has none), and the LIDs of its port are those (vb_frame_page.source). */
void vb_frame_ports_follow(struct vb_frame_ports *ports, const struct vb_cable_address *fabric, uint32_t cable_key, uint32_t source);
/* Tell the fabric of the slots, again and again: by `send`, which is the cable's. */
typedef void vb_frame_ports_send(void *context, const struct vb_cable_address *to, const void *head, size_t head_length, const void *body,
				 size_t body_length);
vb_time vb_frame_ports_deadline(const struct vb_frame_ports *ports);
void vb_frame_ports_announce(struct vb_frame_ports *ports, vb_time now, vb_frame_ports_send *send, void *context);
/* Add what processes have sent and received since the last time. */
void vb_frame_ports_collect(struct vb_frame_ports *ports, struct vb_fabric_counters *counters);
/* A frame that is to go to the process whose queue pair it names, or, of a group, to all. */
void vb_frame_ports_deliver(struct vb_frame_ports *ports, const uint8_t *frame, size_t length);
/* What was gathered leaves; sockets that were closed go. */
void vb_frame_ports_flush(struct vb_frame_ports *ports);

/* The poller reports this tag: each frame that the process sends is given to `take`. False: it is not one of ours. */
typedef void vb_frame_ports_take(void *context, uint8_t *frame, size_t length);
bool vb_frame_ports_serve(struct vb_frame_ports *ports, const void *tag, vb_frame_ports_take *take, void *context);

#endif
