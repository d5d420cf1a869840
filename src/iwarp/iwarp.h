/* SPDX-License-Identifier: MIT
 *
 * The iWARP engine: RDMAP over DDP over MPA (RFC 5040, 5041, 5044; atomics and immediate data of RFC 7306), for RC
 * queue pairs in a stream of bytes. Sans-I/O: never calls the OS, reads no clock, takes no lock. Its link owns the
 * socket, on which the two MPA frames have been exchanged before.
 *
 *   begin:  vb_iwarp_begin     MPA has agreed: the queue pair is in RTS
 *   in:     vb_iwarp_take      bytes of the stream, however cut; or vb_iwarp_want and vb_iwarp_got: straight into their place
 *   out:    vb_iwarp_send      what may be sent now, then vb_iwarp_sent: how much of it the socket took
 *   time:   vb_iwarp_next_deadline, vb_iwarp_expire
 *   end:    vb_iwarp_wish      what the engine wants of the connection; vb_iwarp_ended: what has become of it
 *
 * The caller holds qp->lock, from vb_iwarp_send to vb_iwarp_sent and from vb_iwarp_want to vb_iwarp_got without a
 * break. After take, got, expire, post or modify there may be something to send: call send until it returns false and
 * everything was taken, or until the socket takes no more. Then ask for the deadline and the wish.
 */
#ifndef VB_IWARP_IWARP_H
#define VB_IWARP_IWARP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/time.h"
#include "memory/place.h"
#include "queue/transport.h"

struct vb_qp;

extern const struct vb_transport vb_iwarp_transport;

/* ---- begin ---- */

/* The ready-to-receive message of peer-to-peer mode (RFC 6581 9): zero bytes long, the first thing that the initiator sends. */
enum vb_iwarp_ready { VB_IWARP_READY_NONE, VB_IWARP_READY_SEND, VB_IWARP_READY_WRITE, VB_IWARP_READY_READ };

/* What the MPA frames agreed on. */
struct vb_iwarp_terms {
	bool initiator;                  /* who sent the MPA request; else the responder */
	bool crc;                        /* in use, in both directions */
	enum vb_iwarp_ready ready;       /* NONE: not peer-to-peer */
	bool attentive;                  /* the peer is one of ours and misses nothing: no greeting, nothing held back (first.c) */
	uint32_t mulpdu;                 /* bytes of a ULPDU that we send, at most (wire/fpdu.h) */
	uint32_t ird, ord;               /* READs and atomics: answered at once, asked at once */
	/* Responder: it sends nothing before it has received something (RFC 5044 7.1.2, 4), or so long after begin;
	 * VB_TIME_NEVER: to the letter. */
	vb_time hold;
	/* Both are on one host: who has a WRITE or READ says which queue pair it is, with this number, which was drawn for it
	 * (introduction.c). 0: not. */
	uint64_t nonce;
};

/* INIT or RTR to RTS. 0; -EINVAL: another state, or terms that cannot be. */
int vb_iwarp_begin(struct vb_qp *qp, vb_time now, const struct vb_iwarp_terms *terms);

/* ---- in ---- */

/* The next bytes of the stream. Returns how many were taken: fewer than all if a message has to wait for a receive (RFC
 * 5041 7.1). The caller keeps the rest, reads no more, and comes with it again, if only with nothing, when receives
 * were posted to the queue pair or to its shared queue. */
size_t vb_iwarp_take(struct vb_qp *qp, vb_time now, const void *bytes, size_t length);
/* Of `most` bytes that could be read for take: so many. With CRC they end with an FPDU if the next are as long as the last was: what is
 * read of one that is not whole is copied once more. Without, a long one is expected behind another: its header is enough, so that the
 * rest need not be copied at all (vb_iwarp_want). */
size_t vb_iwarp_take_at_once(const struct vb_qp *qp, size_t most);
bool vb_iwarp_is_stalled(const struct vb_qp *qp);

/* Where the next bytes belong, if much of a payload is to come: at most `room` spans (two are enough), the last of them
 * the engine's own, for what follows. 0: read into memory of the caller's, and take. Else read once (recvmsg), and say
 * how many bytes came, 0 for none. */
unsigned vb_iwarp_want(struct vb_qp *qp, struct iovec *spans, unsigned room);
void vb_iwarp_got(struct vb_qp *qp, vb_time now, size_t length);

/* Has the peer said which queue pair of this host it is, to one that said so itself? The connection has a number that both know. */
bool vb_iwarp_is_introduced(const struct vb_qp *qp, uint32_t *peer_qpn, uint64_t *connection);

/* ---- out ---- */

/* False: there is nothing that vb_iwarp_send could send or complete. */
bool vb_iwarp_has_output(const struct vb_qp *qp);
/* The last WRITE or READ went past the stream, and the one that was posted last can. */
bool vb_iwarp_goes_past(const struct vb_qp *qp);
/* Nothing is to be sent but a few requests of READs, and much that was asked for before is still to come: they may
 * leave together with those that are posted next, and no answer comes the later for it. */
bool vb_iwarp_reads_may_wait(const struct vb_qp *qp);

/* What is offered to the socket at once. Zeroed before its first use; large, so not for the stack. */
enum {
	VB_IWARP_SPANS = 1024,           /* IOV_MAX */
	VB_IWARP_HOLDS = 64,
	VB_IWARP_MARKS = 1024,
	VB_IWARP_BYTES = 1 << 20,
	VB_IWARP_ARENA = 256 << 10,
};

/* Where the sender stands between two FPDUs (sender.c). */
struct vb_iwarp_cursor {
	uint32_t request;                /* element of the send queue: the next, or the one under way */
	uint32_t answer;                 /* READ or atomic of the peer, free running: the next to answer, or under way */
	uint32_t asked;                  /* our READs and atomics, free running */
	uint32_t request_offset, answer_offset; /* bytes of these that are sent */
	uint32_t send_msn, read_msn, atomic_msn; /* the next of queues 0, 1 and 3 */
	uint8_t underway;                /* enum vb_iwarp_underway: whose message has begun and not ended */
	uint8_t greetings;               /* first FPDUs sent (first.c) */
	uint64_t fpdus;                  /* made so far, */
	uint64_t receives;               /* up to the last of them that needs a receive of the peer */
	bool introduced;                 /* we have said who we are */
	bool answers_first;              /* whose turn it is */
	bool immediate_next;             /* a WRITE with immediate: all but the immediate data is sent */
	bool terminated;                 /* the TERMINATE is sent, and nothing after it */
};

struct vb_iwarp_mark {
	size_t end;                      /* of an FPDU in the bytes offered */
	struct vb_iwarp_cursor after;
};

struct vb_iwarp_out {
	struct iovec spans[VB_IWARP_SPANS];
	unsigned count;                  /* of spans; 0: there is nothing to send */
	size_t bytes;                    /* in all */
	/* The engine's. */
	unsigned marks, holds;
	size_t used;                     /* of the arena */
	struct vb_iwarp_mark mark[VB_IWARP_MARKS];
	struct vb_hold hold[VB_IWARP_HOLDS];
	uint8_t arena[VB_IWARP_ARENA];
};

/* What there is to send, in order: headers, and spans into registered memory, which stays there until vb_iwarp_sent.
 * True: there is more than `out` has room for, call again when all of this was taken. */
bool vb_iwarp_send(struct vb_qp *qp, vb_time now, struct vb_iwarp_out *out);
/* The socket took the first `length` bytes of it, 0 for none. Called after each vb_iwarp_send that offered something.
 * The rest is offered again next time: the same bytes where the peer has seen a part of their FPDU. */
void vb_iwarp_sent(struct vb_qp *qp, vb_time now, struct vb_iwarp_out *out, size_t length);

/* ---- time ---- */

/* When expire must be called at the latest; VB_TIME_NEVER: no timer runs. */
vb_time vb_iwarp_next_deadline(const struct vb_qp *qp);
void vb_iwarp_expire(struct vb_qp *qp, vb_time now);
/* A responder that has received nothing yet sends nothing. Before its time is up (vb_iwarp_expire) the link sees that
 * the peer's TCP has acknowledged the MPA reply (SIOCOUTQ 0), and waits a little longer if not: an FPDU too soon behind
 * a reply breaks siw's connect. */
bool vb_iwarp_holds_back(const struct vb_qp *qp);
/* Has an FPDU come? With a ready-to-receive message agreed on, the connection is established from then on. */
bool vb_iwarp_has_heard(const struct vb_qp *qp);

/* ---- end ---- */

enum vb_iwarp_wish {
	VB_IWARP_CARRY_ON,
	VB_IWARP_SHUT,                   /* nothing more will be sent: shutdown(SHUT_WR), read to the end of the stream, close */
	VB_IWARP_ABORT,                  /* close at once, with RST */
};
enum vb_iwarp_wish vb_iwarp_wish(const struct vb_qp *qp);

/* How the stream ended. Everything that came before was taken. */
enum vb_iwarp_end { VB_IWARP_END_FIN, VB_IWARP_END_RESET, VB_IWARP_END_TIMEOUT };
void vb_iwarp_ended(struct vb_qp *qp, vb_time now, enum vb_iwarp_end how);

/* The transport's query: positions are MSNs and READs. */
void vb_iwarp_query(const struct vb_qp *qp, struct vb_transport_status *status);

#endif
