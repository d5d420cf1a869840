/* SPDX-License-Identifier: MIT
 *
 * Processes' sockets for frames of their queue pairs (wire/frame_port.h): one for each slot that uses the host's InfiniBand adapter.
 * What is for a process is gathered until the end of a turn, or until a message is full; a process that does not read loses it.
 */
#ifndef VB_DAEMON_FRAME_PORTS_H
#define VB_DAEMON_FRAME_PORTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "wire/frame_port.h"

struct vb_frame_ports {
	int poller;
	struct vb_list ports;
	uint64_t lost;                     /* messages that a process was too slow for */
	uint8_t *incoming;                 /* room for a message; made with the first port */
};

void vb_frame_ports_init(struct vb_frame_ports *ports, int poller);
void vb_frame_ports_fini(struct vb_frame_ports *ports);

/* A socket for the slot, in the place of the one that it had. The process's end, or -errno. */
int vb_frame_ports_open(struct vb_frame_ports *ports, uint32_t slot);
/* A frame that is to go to the process whose queue pair it names, or, of a group, to all. */
void vb_frame_ports_deliver(struct vb_frame_ports *ports, const uint8_t *frame, size_t length);
/* What was gathered leaves; sockets that were closed go. */
void vb_frame_ports_flush(struct vb_frame_ports *ports);

/* The poller reports this tag: each frame that the process sends is given to `take`. False: it is not one of ours. */
typedef void vb_frame_ports_take(void *context, uint8_t *frame, size_t length);
bool vb_frame_ports_serve(struct vb_frame_ports *ports, const void *tag, vb_frame_ports_take *take, void *context);

#endif
