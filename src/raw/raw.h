/* SPDX-License-Identifier: MIT
 *
 * The engine of raw packet queue pairs (IBV_QPT_RAW_PACKET): a send is an Ethernet frame as the program wrote it, from its first address to
 * its last byte of payload, without the frame check sequence; a frame that a flow rule gives to the queue pair uses up a receive.
 *
 *   program ─ post_send ─▶ vb_raw_fill ─▶ its link sends ─▶ vb_raw_sent        completions say that the system has the frames
 *   its link receives ─▶ flow table (queue/flow.h) ─▶ vb_raw_receive
 *
 * There is no protocol: nothing is numbered or answered. A rate limit (IBV_QP_RATE_LIMIT, kilobits a second of frames without what the
 * wire adds) spaces frames out: one leaves when those before it have had their time, or within the burst that the program allows.
 *
 * Caller holds qp->lock.
 */
#ifndef VB_RAW_RAW_H
#define VB_RAW_RAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/time.h"
#include "queue/transport.h"

struct vb_flow_key;
struct vb_flow_rule;
struct vb_qp;

enum {
	VB_RAW_FRAMES = 32,              /* of one batch */
	VB_RAW_MAX_FRAME = 65536 + 18,   /* the loopback's MTU, addresses, type and a tag: no interface takes more */
	VB_RAW_STAGING = 2 * VB_RAW_MAX_FRAME,
};

extern const struct vb_transport vb_raw_transport;

/* Frames on their way out, copied from the program's memory: gathering them costs less than the call that sends them. */
struct vb_raw_batch {
	unsigned frames;
	uint32_t length[VB_RAW_FRAMES];
	const uint8_t *frame[VB_RAW_FRAMES];
	uint8_t bytes[VB_RAW_STAGING];
};

/* The frames that are due, as many as there is room for; work that fails before them is completed. */
void vb_raw_fill(struct vb_qp *qp, struct vb_raw_batch *batch, vb_time now);
/* The system has taken the first `frames` of a batch, or they are lost like others on a wire. */
void vb_raw_sent(struct vb_qp *qp, unsigned frames, vb_time now);
/* When the rate limit lets the next frame go, if one waits for that; else VB_TIME_NEVER. */
vb_time vb_raw_due(const struct vb_qp *qp);
/* The next one is longer than the interface takes. */
void vb_raw_too_long(struct vb_qp *qp, vb_time now);

/* Can a frame be taken, of which it is not known yet whether it is for the queue pair? Without a receive it would be lost. */
bool vb_raw_has_receive(struct vb_qp *qp);
/* A frame that `rule` gives to the queue pair, or to one of its work queues. `key`: what there is to see of it. */
void vb_raw_receive(struct vb_qp *qp, const uint8_t *frame, size_t length, const struct vb_flow_key *key, const struct vb_flow_rule *rule,
		    vb_time now);

#endif
