/* SPDX-License-Identifier: MIT
 *
 * The reliable multi-packet protocol (IBA 13.6): a message of many segments, acknowledged, in a window that the receiver opens.
 *
 *   sender    DATA 1, waits for ACK; then all up to NewWindowLast; after a timeout again from the first one not acknowledged
 *   receiver  ACK of the first segment, of the last one of the window, of the last one of all, and of whatever comes out of order
 *
 * Where the answer has many segments, too (13.6.6.3), the sender of the question acknowledges the last ACK with an ACK of segment 0, which
 * opens the window for the first segment of the answer. Our own senders do not wait for it: they begin with that window.
 *
 * A segment has 220 bytes behind the RMPP header. All that the class has before its data (20 bytes of SA) stands in
 * each segment, is counted by PayloadLength in each, and once in the message. Messages are as ib_umad shows them: the
 * headers of the first segment, then all data.
 */
#ifndef VB_FABRIC_RMPP_H
#define VB_FABRIC_RMPP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/time.h"
#include "wire/mad.h"

enum {
	VB_RMPP_WINDOW = 64,
	VB_RMPP_MAX_MESSAGE = 64 * 1024 * 1024,
};

/* ---- sending ---- */

struct vb_rmpp_sender {
	uint8_t *message;                  /* owned */
	size_t length, offset;             /* of data of the class */
	uint32_t segments, acked, sent, window_last;
	vb_time deadline, timeout;
	unsigned retries_left, retries;
};

enum vb_rmpp_result { VB_RMPP_GOES_ON, VB_RMPP_DONE, VB_RMPP_FAILED };

/* Copies the message, which begins with the headers of its class. 0 or -errno: -EINVAL too short, -EMSGSIZE, -ENOMEM. */
int vb_rmpp_sender_init(struct vb_rmpp_sender *sender, const void *message, size_t length, vb_time now, vb_time timeout, unsigned retries);
void vb_rmpp_sender_fini(struct vb_rmpp_sender *sender);
/* The next segment that may be sent, if there is one. */
bool vb_rmpp_sender_next(struct vb_rmpp_sender *sender, struct vb_mad *out);
/* ACK, STOP or ABORT. */
enum vb_rmpp_result vb_rmpp_sender_receive(struct vb_rmpp_sender *sender, vb_time now, const struct vb_mad *mad);
/* The ACK of segment 0 for the ACK of a question's last segment. */
void vb_rmpp_turn_round(const struct vb_mad *last, struct vb_mad *out);
enum vb_rmpp_result vb_rmpp_sender_expire(struct vb_rmpp_sender *sender, vb_time now);

/* ---- receiving ---- */

struct vb_rmpp_receiver {
	uint8_t *message;                  /* what has come: headers and data */
	size_t length, room, offset;
	uint32_t received, window_last;
	bool complete;
};

void vb_rmpp_receiver_init(struct vb_rmpp_receiver *receiver, uint8_t mgmt_class);
void vb_rmpp_receiver_fini(struct vb_rmpp_receiver *receiver);
/* A DATA segment. `reply` is an ACK or ABORT to send if *has_reply. After VB_RMPP_DONE the message is there. A
 * segment that comes again after that
 * is acknowledged again. */
enum vb_rmpp_result vb_rmpp_receiver_receive(struct vb_rmpp_receiver *receiver, const struct vb_mad *mad, struct vb_mad *reply,
					     bool *has_reply);

static inline bool vb_rmpp_is_active(const struct vb_mad *mad)
{
	const struct vb_rmpp *rmpp = (const struct vb_rmpp *)(const void *)mad;

	return vb_mad_class_has_rmpp(mad->mgmt_class) && (rmpp->time_flags & VB_RMPP_ACTIVE) != 0;
}

#endif
