/* SPDX-License-Identifier: MIT
 *
 * Cables of memory at the process with the switches (io/frame_ring.h, io/memory_cable.h): processes of this machine and user plug them in,
 * and what they send and receive by them are the datagrams that else go by UDP. A cable is looked at while something comes by it; before
 * it is not, its process is told to ring.
 */
#ifndef VB_CLI_FABRIC_CABLES_H
#define VB_CLI_FABRIC_CABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/time.h"

struct vb_fabric_cables;
struct vb_fabric_hosts;

/* `sent`: what a datagram has caused is to leave, before its bytes are overwritten. NULL: there are none, all goes by UDP. */
struct vb_fabric_cables *vb_fabric_cables_open(int poller, struct vb_fabric_hosts *hosts, uint16_t port, void (*sent)(void *context),
	void *context);
void vb_fabric_cables_close(struct vb_fabric_cables *cables);

/* The poller reports this tag, which is one of ours. */
void vb_fabric_cables_serve(struct vb_fabric_cables *cables, vb_time now, const void *tag);
/* Take in what has come. True: there may be more already. */
bool vb_fabric_cables_drain(struct vb_fabric_cables *cables, vb_time now);

/* By the cable of that number: one datagram of two parts, or some of one length. What a full one does not take is lost. */
void vb_fabric_cables_send(struct vb_fabric_cables *cables, uint16_t number, const void *head, size_t head_length, const void *body,
	size_t body_length);
void vb_fabric_cables_send_run(struct vb_fabric_cables *cables, uint16_t number, const uint8_t *bytes, size_t segment, unsigned count);

#endif
