/* SPDX-License-Identifier: MIT
 *
 * The engine's state of one queue pair, kept behind struct vb_qp, and what the files of this room call of each other.
 *
 *   iwarp.c       beginning, states, time, the end
 *   first.c       who speaks first
 *   introduction.c  which queue pair of this host the peer is
 *   past.c        WRITEs and READs past the stream
 *   receive.c     the stream becomes FPDUs: length, header, payload, trailer, CRC
 *   place.c       where the bytes of a payload go
 *   one_pass.c    CRC and copy at once, where that is safe
 *   deliver.c     what a message means: checks before its payload, and what happens when it is whole
 *   sender.c      work requests and answers become FPDUs
 *   output.c      FPDUs become spans
 *   reads.c       READs and atomics: ours, and the peer's
 *   terminate.c   how a stream ends: TERMINATE in both directions, and every other way
 *
 * An FPDU that has come is looked at in this order: receive.c (length, CRC), deliver.c (versions, opcode, queue, MSN, MO, rights),
 * place.c, deliver.c again.
 */
#ifndef VB_IWARP_ENGINE_H
#define VB_IWARP_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/counters.h"
#include "iwarp/iwarp.h"
#include "memory/place.h"
#include "queue/bypass.h"
#include "queue/qp.h"
#include "queue/work.h"
#include "wire/ddp.h"
#include "wire/fpdu.h"
#include "wire/rdmap_opcode.h"
#include "wire/terminate.h"

/* A WRITE or READ is made of messages of this many bytes, so that answers and requests take turns. */
#define VB_IWARP_MESSAGE (1u << 20)
/* So many requests of READs leave together, if of as many that were asked for before so many bytes are to come. */
#define VB_IWARP_TOGETHER 8u
#define VB_IWARP_MUCH (256u << 10)
/* How long a message waits for a receive before the stream is ended. */
#define VB_IWARP_PATIENCE VB_SECONDS(5)
/* How often to see whether a peer on this host has ended its copy through a window. */
#define VB_IWARP_LOCAL_RETRY VB_MICROSECONDS(100)
/* In the place of the key of our READs' targets: the peer is told no key of ours, and what comes back is known by its offset. */
#define VB_IWARP_SINK_STAG 0x00000100u
/* Zero-length WRITEs name no memory. */
#define VB_IWARP_GREETING_STAG 1u

enum {
	VB_IWARP_TAIL = 64,              /* read behind a payload that goes to its place: its trailer and the next header */
	VB_IWARP_DIRECT = 8 << 10,       /* so much of a payload must be to come for that */
	VB_IWARP_HEAD = 64,              /* read alone where a long payload is expected behind it: trailer, any header */
	VB_IWARP_COPIED = 4 << 10,       /* payloads up to this are copied between their headers: cheaper than a span each */
};

/* ---- in ---- */

enum vb_iwarp_phase {
	VB_IWARP_HEADER,                 /* collecting length and headers */
	VB_IWARP_PAYLOAD,
	VB_IWARP_TRAILER,
	VB_IWARP_WHOLE,                  /* CRC in use: `fpdu` is collected, or waits for a receive */
	VB_IWARP_DEAF,                   /* nothing more is looked at */
};

struct vb_iwarp_receiver {
	enum vb_iwarp_phase phase;
	bool heard;                      /* an FPDU was whole */
	uint64_t fpdus;                  /* so many were, and what they asked for is done */
	bool stalled;                    /* its message needs a receive, and there is none */
	uint32_t wanted;                 /* between want and got: bytes that may go to their place */
	vb_time give_up_at;              /* while stalled */

	/* The FPDU under way. */
	uint8_t head[VB_FPDU_LENGTH_FIELD + VB_DDP_UNTAGGED_LENGTH + VB_TERMINATE_MOST];
	uint32_t have;                   /* bytes of head, or of fpdu */
	uint32_t ulpdu;                  /* its ULPDU_Length */
	uint32_t left;                   /* bytes of its payload, or of its trailer, still to come */
	uint32_t placed;                 /* bytes of its payload that are in their place */
	uint8_t *fpdu;                   /* CRC in use and not all there: the beginning; made when needed */
	struct vb_ddp_header header;
	const struct vb_rdmap_opcode *op;

	/* Messages under way: one of each kind, which may be interleaved. */
	uint32_t send_msn, read_msn, atomic_msn; /* expected next of queues 0, 1 and 3 */
	uint32_t send_received;          /* bytes of the SEND that has begun; its receive is `taken` */
	uint32_t write_received;         /* of the WRITE, or of the last one as long as nothing came behind it */
	uint32_t write_stag;             /* of the WRITE that has begun; how many bytes its last segment had, and where its next goes */
	uint32_t write_segment;
	uint64_t write_next;
	bool send_underway, write_underway, has_receive;
	struct vb_taken_receive taken;

	struct vb_hold placing;          /* no longer than a call */
	uint8_t tail[VB_IWARP_TAIL];     /* what was read with a payload */
	uint8_t tail_at, tail_end;
};

/* ---- READs and atomics ---- */

/* One of ours that was asked for and is not answered. */
struct vb_iwarp_asked {
	uint32_t element;                /* of the send queue */
	uint32_t offset, size;           /* which bytes of it */
	uint32_t received;
	bool ends;                       /* it is the last of its element */
	bool greeting;                   /* of no element: the ready-to-receive message */
};

/* One of the peer's, to be answered. */
struct vb_iwarp_owed {
	bool is_atomic;
	uint32_t sink_stag, size, key, id, msn;
	uint64_t sink_offset, address, original;
};

struct vb_iwarp_reads {
	struct vb_iwarp_asked *asked;    /* ORD of them; NULL until the first */
	uint32_t done;                   /* answered, free running: asked up to cursor.asked */
	struct vb_iwarp_owed *owed;      /* IRD of them; NULL until the first */
	uint32_t owed_head;              /* free running: answered up to cursor.answer */
};

/* ---- out ---- */

enum vb_iwarp_underway { VB_IWARP_UNDERWAY_NOTHING, VB_IWARP_UNDERWAY_REQUEST, VB_IWARP_UNDERWAY_ANSWER };

struct vb_iwarp_sender {
	struct vb_iwarp_cursor cursor;   /* up to here the socket has taken everything */
	/* The rest of an FPDU of which the socket took a part. */
	uint8_t *kept;
	uint32_t kept_at, kept_length;
	struct vb_iwarp_cursor kept_after;
	uint32_t past;                   /* bytes of the request under way that were moved past the stream (past.c) */
	bool went_past;                  /* the last that could has gone past it */
	uint32_t alone;                  /* requests before this one are moved one by one: a row of them could not be */
	vb_time held_since;              /* 0: no request waits for the peer to have taken in the stream */
	vb_time held_next;               /* none does before */
	vb_time local_retry_at;          /* 0: nothing waits for a peer on this host: its copies through a window, or the stream (past.c) */
	struct vb_work_failure failure;
};

/* ---- who speaks first ---- */

struct vb_iwarp_first {
	bool holds_back;                 /* responder: until something came or until `at` */
	uint8_t owed;                    /* greetings, against cursor.greetings */
	uint8_t repeats;
	uint32_t request;                /* cursor.request before anything was said */
	vb_time began, at;               /* the next greeting, or the end of holding back; VB_TIME_NEVER: none */
};

/* ---- past the stream ---- */

struct vb_iwarp_introduction {
	bool wanted;                     /* we have something that could go past the stream */
	bool heard;                      /* the peer's has come */
	uint32_t peer_qpn;
	uint64_t peer_nonce;
};

/* ---- the end ---- */

enum vb_iwarp_stage {
	VB_IWARP_CLOSED,                 /* no stream, or none any more */
	VB_IWARP_OPEN,
	VB_IWARP_CLOSING,                /* by the application: what is posted is sent, then the stream is shut */
	VB_IWARP_TERMINATING,            /* TERMINATE is owed or sent; everything else is over */
	VB_IWARP_TERMINATED,             /* by the peer */
	VB_IWARP_ABORTED,
};

struct vb_iwarp_engine {
	struct vb_iwarp_terms terms;
	enum vb_iwarp_stage stage;
	struct vb_terminate terminate;   /* TERMINATING: what is sent */
	struct vb_iwarp_first first;
	struct vb_iwarp_introduction introduction;
	struct vb_bypass *bypass;        /* NULL: there is no way past the stream */
	struct vb_iwarp_receiver receiver;
	struct vb_iwarp_reads reads;
	struct vb_iwarp_sender sender;
};

static inline struct vb_iwarp_engine *vb_iwarp_engine(struct vb_qp *qp)
{
	return vb_qp_engine(qp);
}

static inline const struct vb_iwarp_engine *vb_iwarp_engine_of(const struct vb_qp *qp)
{
	return (const void *)(qp + 1);
}

/* Does the queue pair take part in the protocol? */
static inline bool vb_iwarp_is_alive(const struct vb_qp *qp)
{
	return qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD;
}

/* Has it ended, or begun to? */
static inline bool vb_iwarp_is_over(const struct vb_iwarp_engine *engine)
{
	return engine->stage != VB_IWARP_OPEN && engine->stage != VB_IWARP_CLOSING;
}

/* Local work sends nothing that would move a cursor past it. */
static inline void vb_iwarp_cursor_catch_up(const struct vb_qp *qp, struct vb_iwarp_cursor *at)
{
	if ((int32_t)(at->request - qp->send.tail) < 0)
		at->request = qp->send.tail;
}

/* ---- invariants.c ---- */
/* Every entry ends here; builds with the option `invariants` check. */
void vb_iwarp_check_invariants(const struct vb_qp *qp);

/* ---- first.c ---- */
void vb_iwarp_first_begin(struct vb_iwarp_engine *engine, vb_time now);
/* An FPDU has come. */
void vb_iwarp_first_heard(struct vb_iwarp_engine *engine);
vb_time vb_iwarp_first_deadline(const struct vb_iwarp_engine *engine);
void vb_iwarp_first_expire(struct vb_iwarp_engine *engine, vb_time now);

/* ---- introduction.c ---- */
bool vb_iwarp_introduction_is_owed(const struct vb_iwarp_engine *engine, const struct vb_iwarp_cursor *cursor);
struct vb_ddp_header vb_iwarp_introduction_header(const struct vb_qp *qp);
/* A WRITE of no bytes has come. */
void vb_iwarp_introduction_heard(struct vb_iwarp_engine *engine, const struct vb_ddp_header *header);

/* ---- past.c ---- */
enum vb_iwarp_past { VB_IWARP_PAST_NOT, VB_IWARP_PAST_DONE, VB_IWARP_PAST_MORE, VB_IWARP_PAST_WAITS };

/* May the request that is next, seen from there, go past the stream? Then it has: it is done, or has had its share of `budget`; or it will
 * in a moment. */
enum vb_iwarp_past vb_iwarp_past(struct vb_qp *qp, vb_time now, const struct vb_iwarp_cursor *at, struct vb_send_wqe *wqe,
				 uint32_t *budget);
/* Requests that follow one another and may be moved at once. */
struct vb_iwarp_row {
	struct vb_send_wqe *wqe[VB_BYPASS_ROW];
	unsigned count, elements;
	uint32_t bytes;
};
/* Is it the turn of the request that is next, seen from there, and is it worth looking for others to be moved with it? */
bool vb_iwarp_past_begins_row(struct vb_qp *qp, vb_time now, const struct vb_iwarp_cursor *at, const struct vb_send_wqe *wqe);
/* Does it go with those in the row? So many bytes may be moved. */
bool vb_iwarp_past_row_takes(const struct vb_iwarp_row *row, const struct vb_send_wqe *wqe, uint32_t budget);
void vb_iwarp_past_row_add(struct vb_iwarp_row *row, struct vb_send_wqe *wqe);
/* The row begins with the request that is next. They are done, or each is tried alone. */
void vb_iwarp_past_row(struct vb_qp *qp, const struct vb_iwarp_cursor *at, const struct vb_iwarp_row *row, uint32_t *budget);
void vb_iwarp_bypassed(struct vb_qp *qp, struct vb_bypass *bypass);
/* An FPDU of the peer is done with. */
void vb_iwarp_past_took(struct vb_iwarp_engine *engine);

/* ---- receive.c ---- */
void vb_iwarp_receive_begin(struct vb_iwarp_receiver *receiver);
/* Nothing more is looked at. */
void vb_iwarp_receive_end(struct vb_iwarp_receiver *receiver);
/* Is the stream between two FPDUs, and no message under way? */
bool vb_iwarp_receive_is_between(const struct vb_iwarp_receiver *receiver);
/* A message has waited for a receive for too long? */
void vb_iwarp_receive_expire(struct vb_qp *qp, vb_time now);

/* ---- place.c ---- */
/* Where the payload of the FPDU under way goes from `receiver->placed` on, in one piece of at most *length bytes, which becomes what
 * there is. NULL: by the ordinary, checked access. */
uint8_t *vb_iwarp_place_at(struct vb_qp *qp, uint32_t *length);
/* Put the next bytes of the payload in their place. False: the stream was ended. */
bool vb_iwarp_place(struct vb_qp *qp, vb_time now, const uint8_t *bytes, uint32_t length);

/* ---- deliver.c ---- */
enum vb_iwarp_result { VB_IWARP_GO_ON, VB_IWARP_WAIT, VB_IWARP_REFUSED };

/* The DDP header is decoded. REFUSED: the stream was ended. */
enum vb_iwarp_result vb_iwarp_deliver_check(struct vb_qp *qp, vb_time now);
/* All headers are there (`body`: behind the DDP header), the payload of so many bytes follows. WAIT: for a receive. */
enum vb_iwarp_result vb_iwarp_deliver_begin(struct vb_qp *qp, vb_time now, uint32_t payload);
/* A payload of so many bytes behind this header, which is decoded, is what must come next of a message, and nothing else can be: true.
 * Changes nothing. */
bool vb_iwarp_deliver_is_next(struct vb_qp *qp, uint32_t payload);
/* The FPDU is whole. False: the stream was ended. */
bool vb_iwarp_deliver_end(struct vb_qp *qp, vb_time now, const uint8_t *body, uint32_t length);

/* ---- one_pass.c ---- */
enum vb_iwarp_passed { VB_IWARP_PASSED_NOTHING, VB_IWARP_PASSED_WRONG, VB_IWARP_PASSED_RIGHT };

/* A whole FPDU with its CRC. RIGHT: its payload is in its place, and it can be delivered. NOTHING: not to be done in one pass. */
enum vb_iwarp_passed vb_iwarp_one_pass(struct vb_qp *qp, const uint8_t *fpdu, uint32_t length);

/* ---- reads.c ---- */
void vb_iwarp_reads_clear(struct vb_iwarp_reads *reads);
static inline struct vb_iwarp_asked *vb_iwarp_asked(const struct vb_iwarp_engine *engine, uint32_t index)
{
	return &engine->reads.asked[index % engine->terms.ord];
}
static inline struct vb_iwarp_owed *vb_iwarp_owed(const struct vb_iwarp_engine *engine, uint32_t index)
{
	return &engine->reads.owed[index % engine->terms.ird];
}
/* Make room for what may be asked at once. False: there is no memory. */
bool vb_iwarp_reads_provide(struct vb_iwarp_engine *engine);
/* May another be asked for, seen from there? */
static inline bool vb_iwarp_reads_have_room(const struct vb_iwarp_engine *engine, const struct vb_iwarp_cursor *cursor)
{
	return cursor->asked - engine->reads.done < engine->terms.ord;
}
/* The oldest one that waits for an answer; NULL: none does. */
struct vb_iwarp_asked *vb_iwarp_reads_oldest(const struct vb_iwarp_engine *engine);
/* It is answered. */
void vb_iwarp_reads_answered(struct vb_qp *qp, vb_time now);
/* The peer asks. False: the stream was ended. */
bool vb_iwarp_reads_take(struct vb_qp *qp, vb_time now, const struct vb_rdmap_read *read);
bool vb_iwarp_reads_take_atomic(struct vb_qp *qp, vb_time now, const struct vb_rdmap_atomic *atomic);

/* ---- sender.c ---- */
void vb_iwarp_sender_begin(struct vb_qp *qp);
void vb_iwarp_sender_end(struct vb_qp *qp);
/* Is everything sent and answered? */
bool vb_iwarp_sender_is_idle(const struct vb_qp *qp);

/* ---- retire.c ---- */
/* Complete, in order, what is done; tell a failure whose turn has come. */
void vb_iwarp_sender_retire(struct vb_qp *qp, vb_time now);

/* ---- output.c ---- */
enum vb_iwarp_made { VB_IWARP_MADE, VB_IWARP_NO_ROOM, VB_IWARP_FAULT };

/* Where the bytes of a payload are: a list of ours, bytes in a work request, or a range that the peer may read. */
struct vb_iwarp_source {
	const struct ibv_sge *list;
	uint32_t count;
	const uint8_t *bytes;            /* not NULL: these */
	uint32_t key;                    /* count 0 and bytes NULL: this range */
	uint64_t address;
};

void vb_iwarp_output_reset(struct vb_iwarp_out *out);
/* One FPDU: DDP header, a body behind it, and `length` bytes of the source from `offset` on. FAULT: *why. */
enum vb_iwarp_made vb_iwarp_output_fpdu(struct vb_qp *qp, struct vb_iwarp_out *out, const struct vb_ddp_header *header, const uint8_t *body,
					uint32_t body_length, const struct vb_iwarp_source *source, uint64_t offset, uint32_t length,
					struct vb_fault_record *why);
/* Bytes that were made before. */
void vb_iwarp_output_kept(struct vb_iwarp_out *out, uint8_t *bytes, uint32_t length);
/* The FPDU ends here, and the sender stands there. */
void vb_iwarp_output_mark(struct vb_iwarp_out *out, const struct vb_iwarp_cursor *after);
void vb_iwarp_output_let_go(struct vb_iwarp_out *out);

/* ---- terminate.c ---- */

/* Ending a stream: what the peer is told, and what the application. */
struct vb_iwarp_fall {
	struct vb_terminate_cause cause;
	bool names_message;              /* the TERMINATE carries the header of the FPDU under way */
	const struct vb_iwarp_owed *read; /* or of this READ */
	bool fails_receive, fails_send;  /* the receive in hand, or the oldest work request, completes with `status` */
	enum ibv_wc_status status;
	bool has_event;
	enum ibv_event_type event;
};
/* The peer did something that ends the stream: TERMINATE is owed, the queue pair fails. */
void vb_iwarp_fall(struct vb_qp *qp, vb_time now, const struct vb_iwarp_fall *fall, const struct vb_fault_record *why);
/* The usual ones: QP_FATAL, with the header at fault. */
void vb_iwarp_fall_by(struct vb_qp *qp, vb_time now, unsigned layer, unsigned type, unsigned code, enum vb_fault fault);
/* An access to memory was refused: for a READ or an atomic, or for a WRITE. */
struct vb_terminate_cause vb_iwarp_cause_of(const struct vb_fault_record *why, bool is_read);
/* Something of ours failed: it has its own completion, the peer learns 0/0/ff. Call before the queue pair fails. */
void vb_iwarp_fall_local(struct vb_qp *qp);
/* The peer's TERMINATE. */
void vb_iwarp_terminated(struct vb_qp *qp, vb_time now, const struct vb_terminate *terminate);
/* The oldest work request fails by name, with an event beside its completion. */
void vb_iwarp_fail_oldest(struct vb_qp *qp, vb_time now, enum ibv_wc_status status, struct vb_fault_record *why);

/* ---- end.c ---- */
/* The queue pair is in the error state: what becomes of the stream? */
void vb_iwarp_entered_error(struct vb_qp *qp, vb_time now);

#endif
