/* SPDX-License-Identifier: MIT
 *
 * The RoCE engine: RC, UC and UD queue pairs in packets. Sans-I/O: never calls the OS, reads no clock, takes no lock.
 *
 *   in:    vb_roce_receive   a decoded packet for this QP
 *   out:   vb_roce_send      fills a burst with what may be sent now
 *   time:  vb_roce_next_deadline, vb_roce_expire
 *
 * The caller holds qp->lock. After receive, expire, post or modify there may be something to send: call send until
 * it returns false.
 */
#ifndef VB_ROCE_ROCE_H
#define VB_ROCE_ROCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/time.h"
#include "queue/transport.h"
#include "wire/psn.h"

struct vb_burst;
struct vb_icrc_prefix;
struct vb_path;
struct vb_qp;
struct vb_roce_packet;
struct vb_send_wqe;

extern const struct vb_transport vb_roce_transport;

void vb_roce_receive(struct vb_qp *qp, vb_time now, const struct vb_roce_packet *packet);

/* The rest of a bundle, of which a packet for this QP came before: raw datagrams of one size and path. Those that are
 * what must come next of a message under way are taken, ICRC and all (roce/bulk_receive.c), up to the first that is not
 * or that is damaged; that one and what follows is the caller's, a damaged one is done with. */
struct vb_roce_bulk {
	const uint8_t *bytes;            /* BTH of the first */
	size_t length, segment;          /* from there to the end of the last; of each */
	size_t stride;                   /* from one to the next: more than `segment` where headers of the link stand before each */
	unsigned index;                  /* of the first, in the bundle */
	unsigned taken, damaged;         /* set by vb_roce_receive_bulk */
};
void vb_roce_receive_bulk(struct vb_qp *qp, vb_time now, const struct vb_path *from, struct vb_icrc_prefix *prefix,
			    struct vb_roce_bulk *got);

/* Append packets to `out` until nothing may be sent or the burst is full. True: there is more, call again with an
 * empty burst. */
bool vb_roce_send(struct vb_qp *qp, vb_time now, struct vb_burst *out);

/* All there is to send is an acknowledgement of what went well: it may wait a little, for others or for an answer to go with; one that
 * no completion waits for (late.c) even until the next deadline. */
enum vb_roce_patience { VB_CANNOT_WAIT, VB_CAN_WAIT_FOR_A_PASS, VB_CAN_WAIT_FOR_DEADLINE };
enum vb_roce_patience vb_roce_can_wait(struct vb_qp *qp);
/* The application looks at its memory and may answer: does the acknowledgement await that, until the next deadline? */
bool vb_roce_await_answer(struct vb_qp *qp, vb_time now);
/* That one, and one that waits for the peer to ask again (responder.c), leave with the next vb_roce_send. True: there is something. */
bool vb_roce_hurry(struct vb_qp *qp);

/* Is its peer one of our own, for certain? */
bool vb_roce_knows_peer(const struct vb_qp *qp);

/* Does it owe a NAK? */
bool vb_roce_complains(const struct vb_qp *qp);
/* Were packets lost a moment ago? Then it is better to hear what the peer says of it between any two bursts. */
bool vb_roce_is_losing(const struct vb_qp *qp, vb_time now);
/* Of what there is to send, something answers a read, and would share a run with answers to what may be asked next. */
bool vb_roce_answers_reads(const struct vb_qp *qp);

/* When expire must be called at the latest; VB_TIME_NEVER: no timer runs. */
vb_time vb_roce_next_deadline(const struct vb_qp *qp);
void vb_roce_expire(struct vb_qp *qp, vb_time now);
/* Would expire end this QP for want of an answer? Then read first all that has come in. */
bool vb_roce_gives_up(const struct vb_qp *qp, vb_time now);
/* It waits for so much longer from the retransmission that is due, unless there is progress; 0: it ends now. Returns how much longer than
 * the application asked for that is in all. */
vb_time vb_roce_extend_wait(struct vb_qp *qp, vb_time more);
bool vb_roce_wait_is_extended(const struct vb_qp *qp);

/* UC and UD: its receiver has been silent for an eighth of the time for which it is waited for. Who that is. */
bool vb_roce_misses_receiver(const struct vb_qp *qp, struct vb_path *path, uint32_t *qpn);
/* Is it known of that receiver that it lives, and does not run? Then it is waited for as long again, ten seconds at most. */
void vb_roce_receiver_lives(struct vb_qp *qp, bool lives);

/* The transport's query: positions are PSNs. */
void vb_roce_query(const struct vb_qp *qp, struct vb_transport_status *status);

/* The work whose request has that PSN, or NULL: newest first, as far as it has been started. Unreliable work is retired
 * before its packets are sent, but its slot is still as it was. Caller holds qp->lock. */
const struct vb_send_wqe *vb_roce_work_of(const struct vb_qp *qp, struct psn psn);

#endif
