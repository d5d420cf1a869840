/* SPDX-License-Identifier: MIT
 *
 * The engine's state of one queue pair, and what the files of this room call of each other.
 *
 *   local.c       attaching, what is shown, what the peer shows, and the one call that serves
 *   ring.c        records: leaving them, finding them
 *   doorbells.c   telling a peer with many queue pairs for which of them
 *   records.c     our records: leaving them, what the peer shows of them
 *   initiator.c   the send queue: what becomes a record, what is completed, failed
 *   direct.c      WRITE, READ and atomics that do not need the peer to run
 *   target.c      the peer's records executed
 *   fast_path.c   the fast path past all of these, for what is most common
 *   copies.c      waiting for those who copy
 *   spans.c       where the bytes of a scatter/gather list are
 *   clock.c       giving up
 *   unreliable.c  what UC makes of all that RC waits for or fails by
 *   xrc.c         XRC: for which SRQ, and by whose rights
 *   bypass.c      direct accesses for queue pairs that their wire carries
 *
 * Fields marked "hint" are read by vb_local_has_work without a lock: they are written atomically.
 */
#ifndef VB_LOCAL_ENGINE_H
#define VB_LOCAL_ENGINE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/inline.h"
#include "base/sequence_lock.h"
#include "local/local.h"
#include "memory/foreign.h"
#include "memory/place.h"
#include "profiles/limits.h"
#include "queue/bypass.h"
#include "queue/work.h"

/* What it keeps of a send WQE. */
struct vb_local_note {
	uint32_t record;                 /* number of the record that the work was left as, low half */
	uint32_t place;                  /* of that record in our ring, if it is by reference */
};
_Static_assert(sizeof(struct vb_local_note) == VB_LOCAL_NOTE_SIZE, "room for another note was asked for");

static inline struct vb_local_note *vb_local_note(const struct vb_send_wqe *wqe)
{
	return vb_send_wqe_note(wqe, sizeof(struct vb_local_note));
}

/* What is moved without looking up again whether it may be: a deregistration waits for no more than that. */
#define VB_LOCAL_PIECE (1u << 20)

enum {
	VB_LOCAL_BOUNCE = 16 << 10,      /* for memory without a plain pointer, on the stack */
	VB_LOCAL_BATCH = 64,             /* records executed, elements started in one call */
	VB_LOCAL_PIECES = 4,             /* of long messages pulled in one call, where none polls */
	VB_LOCAL_PUBLISH = 16,           /* records after which the peer is told */
	VB_LOCAL_COUNT = 16,             /* messages that are counted together */
	VB_LOCAL_CACHED_KEYS = 4,        /* of regions that are shared, kept by key */
};

struct vb_local_initiator {
	uint64_t produced;               /* number of the last record */
	uint64_t head;                   /* where the next begins, in bytes, free running */
	uint64_t consumed;               /* as the peer showed it last; hint */
	uint64_t released;
	uint64_t stalled;                /* hint */
	uint64_t pulled;
	uint64_t ordered;                /* the last record that a direct access must not overtake */
	uint64_t atomics, atomics_done;  /* left as records; answered */
	uint32_t next;                   /* element to start */
	uint32_t lonely;                 /* records in succession for which the ring was empty */
	uint32_t sent, written, fetched, operated; /* SENDs, WRITEs, READs, atomics, not counted yet */
	uint32_t moved;                  /* bytes of that element, if it is a direct access under way */
	uint32_t srqn;                   /* XRC: named by the last record that names one; all others: 0 */
	bool open;                       /* the peer takes what we ask of it */
	bool touched;                    /* something was moved directly */
	bool greeted;                    /* a HELLO was left */
	bool stores;                     /* the last direct access was a WRITE, and went well; not of XRC */
	bool unreachable;                /* its memory cannot be had any more; UC: or that generation of it takes nothing any more */
	/* UC (unreliable.c): `open` is `reaches`, and neither is the peer silent nor has it no receives. */
	bool reaches;                    /* the peer takes what we send */
	bool silent;                     /* it has not looked for long */
	bool again;                      /* what waits may go on, or is lost */
	uint64_t silent_at;              /* `consumed` when it became silent */
	struct vb_work_failure failure;

	vb_time stalled_since;           /* 0: it was not when we last looked */
	vb_time waiting_since;           /* last progress, or when the oldest work began to wait */
	vb_time look_at;                 /* VB_TIME_NEVER: not at all */
	bool waits;                      /* something does; else the above means nothing */
	bool progressed;                 /* since look_at was set */
};

struct vb_local_target {
	uint64_t consumed;               /* hint */
	uint64_t position;               /* of the next record in the peer's ring, in bytes, free running; hint */
	uint64_t shown;                  /* `consumed` as the peer can see it */
	uint64_t pulled_total;
	uint64_t atomics;
	uint32_t pulled;                 /* bytes of the record under way */
	uint32_t srqn;                   /* XRC: for which SRQ the records that follow are */
	bool ended;                      /* a NAK was given, or the peer cannot be reached: nothing more is executed */
	bool has_receive;                /* `taken` belongs to the record under way */
	bool stalled;                    /* it waits for a receive; hint */
	vb_time retry_at, give_up_at;    /* while stalled */
	uint32_t received;               /* messages, in this call */
	uint64_t answered;               /* records that we had left when the last message was received in short */
	uint64_t starved;                /* UC: `consumed` behind the last message that found no receive */
	struct vb_hold placing;          /* where the last one went: the next often goes near it; not longer than a call */
	struct vb_taken_receive taken;
};

/* A region of the peer that is shared, where it was last found: used again while nothing has changed (direct.c). */
struct vb_local_cached_key {
	uint64_t iova, length;           /* what the key names */
	uint8_t *bytes;                  /* ours, of `iova`; NULL: none is known */
	uint64_t mappings;               /* the peer's number, read before that */
	const void *entry;               /* of the registration */
	uint64_t generation;
	uint32_t key, access;
};

/* What vb_local_has_work looks at. */
enum {
	VB_LOCAL_WATCHES_WORD = 1,
	VB_LOCAL_WATCHES_RING = 2,
	VB_LOCAL_WATCHES_ACKNOWLEDGEMENTS = 4,
	VB_LOCAL_WATCHES_INDEX = 8,      /* the peer's number may come to stand for another queue pair: nothing has passed yet */
};

struct vb_local {
	struct vb_segment *own;
	struct vb_segment_qp *mine;
	const struct vb_segment_qp *theirs; /* hint, as are their_ring and their_answers: follow() in local.c */
	uint8_t *ring;                   /* but for what is near: segment.h */
	const uint8_t *their_ring;
	uint64_t *answers;
	const uint64_t *their_answers;
	struct vb_local_peer *peer;
	struct vb_qp *qp;
	uint64_t generation;             /* ours */
	uint64_t peer_generation;        /* of the peer, that we took; 0: none */
	uint64_t seen_word, seen_taken;  /* hints */
	uint32_t path;                 /* enum vb_local_path; hint */
	uint32_t lane;                   /* in which we ring for the peer */
	uint32_t watches;                /* hint: what vb_local_has_work looks at */
	enum ibv_qp_state shown_state;
	bool hearing;                    /* the peer's records are for us */
	bool kick;                       /* something was left for the peer since it was last told */
	bool fenced;                     /* the peer cannot have us execute a fence, nor we it (base/sleep_flag.h) */
	bool restarted;                  /* UC: this is not the first generation since RTR */

	/* Of the peer's generation, copied out. */
	uint32_t peer_qpn, peer_table, peer_receive_psn;
	uint32_t peer_pd;                /* XRC: of the SRQ that was named last */
	uint32_t peer_domain;            /* XRC */
	struct vb_foreign_hint hint;
	struct vb_local_cached_key cached[VB_LOCAL_CACHED_KEYS];

	struct vb_local_initiator initiator;
	struct vb_local_target target;
};

static inline uint32_t vb_local_uncounted(const struct vb_local_initiator *initiator)
{
	return initiator->sent + initiator->written + initiator->fetched + initiator->operated;
}

#define VB_LOCAL_HINT(field, value) __atomic_store_n(&(field), (value), __ATOMIC_RELAXED)

static inline bool vb_local_sends(const struct vb_qp *qp)
{
	return qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD;
}

static inline bool vb_local_receives(const struct vb_qp *qp)
{
	return qp->state >= IBV_QPS_RTR && qp->state <= IBV_QPS_SQE;
}

/* ---- local.c ---- */

/* What does not follow from the queue pair when a generation of it begins. */
struct vb_local_terms {
	uint64_t connection;
	uint32_t table, peer_qpn;
	uint16_t service;
	bool offers_local;
};

/* A queue pair's index in that segment, or -1: there is no such queue pair. */
int vb_local_index_of(uint32_t qpn, const struct vb_segment *segment);
/* A new generation stands, which has that number. */
uint64_t vb_local_begin_generation(const struct vb_qp *qp, struct vb_segment *own, const struct vb_local_terms *terms);
/* The flags of its word, and what else may change while it is connected. */
uint64_t vb_local_bits_of(const struct vb_qp *qp);
void vb_local_show_attributes(const struct vb_qp *qp, struct vb_segment_qp *mine);
/* The peer gets to know of what was left for it. */
void vb_local_tell(struct vb_local *local);

/* ---- copies.c ---- */

/* Wait for threads of the peer that copy on behalf of this queue pair, after what they look at then was changed. */
void vb_local_wait_for_copies(const struct vb_qp *qp, struct vb_local_peer *peer);

/* ---- ring.c ---- */

/* What a record says, copied out; `body` is in the peer's memory still. */
struct vb_local_record {
	uint8_t kind, flags;
	uint16_t pieces;
	uint32_t length, immediate;
};

/* Room for a record with so many bytes of body: where those go, or NULL. Nothing is left before it is published. */
uint8_t *vb_local_ring_reserve(struct vb_local *local, uint32_t body);
void vb_local_ring_publish(struct vb_local *local, uint32_t body, const struct vb_local_record *record);
bool vb_local_ring_has_room(const struct vb_local *local, uint32_t bytes);
/* A record by reference that was left there is none any more; what a peer read of its bytes after this call, it finds that out. */
void vb_local_ring_withdraw(struct vb_local *local, uint32_t place);

enum vb_local_found { VB_FOUND_NOTHING, VB_FOUND_RECORD, VB_FOUND_NONSENSE };
enum vb_local_found vb_local_ring_find(struct vb_local *local, struct vb_local_record *record, const uint8_t **body);
void vb_local_ring_consume(struct vb_local *local, const struct vb_local_record *record);
bool vb_local_ring_has_work(const struct vb_local *local);
/* Was the record that was found last withdrawn meanwhile? Asked after its bytes were read. */
bool vb_local_ring_is_withdrawn(const struct vb_local *local);

/* ---- records.c ---- */

/* What the peer shows of our records. */
struct vb_local_shown {
	uint64_t consumed, released, stalled;
	uint32_t nak;
};

/* Leave a record with the body that stands where reserve said; note it in the element. */
void vb_local_records_leave(struct vb_local *local, struct vb_send_wqe *wqe, uint32_t body, const struct vb_local_record *record);
/* False: it does not speak of us. */
bool vb_local_records_read(const struct vb_local *local, struct vb_local_shown *shown);
bool vb_local_records_are_possible(const struct vb_local_initiator *initiator, const struct vb_local_shown *shown);
/* True: something new. */
bool vb_local_records_accept(struct vb_local *local, const struct vb_local_shown *shown);
/* All three: what has the peer acknowledged? True: something new. */
bool vb_local_records_look(struct vb_local *local);

/* ---- starting an element of the send queue ---- */

enum vb_local_step {
	VB_STEP_DONE,                    /* the element is on its way: to the next */
	VB_STEP_WAIT,                    /* until the peer does something */
	VB_STEP_MORE,                    /* not done, but it can go on at once */
	VB_STEP_FAILED,
};

/* The element that is being started has failed. */
static inline enum vb_local_step vb_local_initiator_fail(struct vb_local *local, enum ibv_wc_status status,
							 const struct vb_fault_record *why)
{
	vb_work_fail(&local->initiator.failure, local->qp, local->initiator.next, status, why, local->qp->attr.sq_psn);
	return VB_STEP_FAILED;
}

/* ---- initiator.c ---- */

/* True: something was done. */
bool vb_local_initiator_run(struct vb_local *local, vb_time now, bool *more);
/* Count what was sent. If not all, then some at a time while others are under way: all threads of the process count in
 * one place. */
void vb_local_initiator_count(struct vb_local *local, bool all);
/* Complete, in order, what is done; tell failures, NAKs and the end of a drain whose turn has come. */
bool vb_local_initiator_retire(struct vb_local *local, vb_time now);
/* Is the oldest element done, and was it a SEND? */
bool vb_local_initiator_oldest_is_sent(const struct vb_local *local);

/* ---- unreliable.c ---- */

/* What update_peer (local.c) found: is the peer's queue pair, in the generation that we go with, there to receive? */
void vb_local_unreliable_update(struct vb_local *local, bool there);
/* The peer told, or tells no more, that a message waits for a receive. */
void vb_local_unreliable_starved(struct vb_local *local);
bool vb_local_unreliable_is_by_reference(const struct vb_send_wqe *wqe);
/* What is known of the peer has changed: is the way to it open? */
void vb_local_unreliable_settle(struct vb_local *local);
/* What was left counts as sent. */
void vb_local_unreliable_let_go(struct vb_local *local, bool of_long_ones_too);
/* It completes, and nothing comes of it. */
enum vb_local_step vb_local_unreliable_lose(struct vb_local *local, struct vb_send_wqe *wqe);
/* This generation of the peer takes nothing any more, and what was left for it is lost. */
void vb_local_unreliable_write_off(struct vb_local *local);
/* The error state: what was left was sent, and completes so. */
void vb_local_unreliable_complete_left(struct vb_local *local, vb_time now);

/* ---- unreliable_send.c ---- */

/* Not `open`: may work begin? VB_STEP_MORE: try it, and say with `tried` what came of it. */
enum vb_local_step vb_local_unreliable_begin(struct vb_local *local, struct vb_send_wqe *wqe);
enum vb_local_step vb_local_unreliable_tried(struct vb_local *local, struct vb_send_wqe *wqe, enum vb_local_step step);

/* ---- xrc.c ---- */

enum { VB_LOCAL_NO_SRQ = UINT32_MAX };   /* no number: they have 24 bits */

/* Before a record of this work is left. False: there is no room to say which SRQ it is for. */
bool vb_local_xrc_leave_name(struct vb_local *local, const struct vb_send_wqe *wqe);
/* Before a direct access: may it name that SRQ of the peer? Its rights are those of the SRQ's PD from now on. The key by which it goes must
 * be shown already. */
bool vb_local_xrc_choose(struct vb_local *local, uint32_t srqn);
/* The target's: its PD, CQ and receives are those of the SRQ that was named. False: its domain has none of that number. */
bool vb_local_xrc_use_named(struct vb_local *local);

static inline bool vb_local_names(struct vb_local *local, const struct vb_send_wqe *wqe)
{
	return wqe->srqn == local->initiator.srqn || vb_local_xrc_leave_name(local, wqe);
}

/* ---- direct.c ---- */
enum vb_local_step vb_local_direct_move(struct vb_local *local, struct vb_send_wqe *wqe);
/* A WRITE of few bytes, if the last direct access was one, too. False: it is as if nothing was done, and goes the ordinary way. */
bool vb_local_direct_store(struct vb_local *local, uint64_t address, uint32_t key, const void *bytes, uint32_t length);
/* The same of many bytes, into shared memory alone and in no order with what was posted. */
bool vb_local_direct_place(struct vb_local *local, uint64_t address, uint32_t key, const struct iovec *spans, unsigned count);
/* VB_STEP_MORE: not that way, leave a record. */
enum vb_local_step vb_local_direct_atomic(struct vb_local *local, struct vb_send_wqe *wqe);

/* Some bytes of a WRITE or READ from `offset` on, *moved of them. False: it is refused, or not now, and nothing was told to anyone. */
bool vb_local_direct_try(struct vb_local *local, struct vb_send_wqe *wqe, uint32_t offset, uint32_t *moved);

/* A row of WRITEs, or of READs, that name one key, by one copy (queue/bypass.h). False likewise. */
bool vb_local_direct_try_row(struct vb_local *local, struct vb_send_wqe *const row[], unsigned count);

/* ---- target.c ---- */
bool vb_local_target_run(struct vb_local *local, vb_time now, bool polled, bool *more);
/* The peer is gone: what it left is waited for no more. */
void vb_local_target_forget(struct vb_local *local);
/* Show how far we are. */
void vb_local_target_publish(struct vb_local *local);
/* Count what was received. */
void vb_local_target_count(struct vb_local *local);
/* The queue pair is at its end. */
void vb_local_target_flush(struct vb_local *local, vb_time now);

/* Does the record that was just read still stand? */
static inline bool vb_local_sender_stands(const struct vb_local *local)
{
	/* What was read of its ring and memory was read before this. */
	return vb_sequence_stands(&local->theirs->word, local->seen_word);
}

/* Of a receive that the record filled. In line: it often goes straight into an ibv_wc. */
VB_INLINE struct vb_completion vb_local_completion_of(const struct vb_local *local, uint64_t wr_id,
						      const struct vb_local_record *record, enum ibv_wc_opcode opcode,
						      vb_time now)
{
	struct vb_completion completion = {
		.wr_id = wr_id,
		.status = IBV_WC_SUCCESS,
		.opcode = opcode,
		.byte_length = record->length,
		.qpn = local->qp->qpn,
		.source_qpn = local->peer_qpn,
		.solicited = record->flags & VB_RECORD_SOLICITED,
		.timestamp = now,
	};

	if (record->flags & VB_RECORD_HAS_IMMEDIATE)
		completion.wc_flags |= IBV_WC_WITH_IMM;
	else if (record->flags & VB_RECORD_INVALIDATES)
		completion.wc_flags |= IBV_WC_WITH_INV;
	if (completion.wc_flags != 0)
		completion.immediate = record->immediate;
	return completion;
}

/* ---- spans.c ---- */

enum { VB_LOCAL_SPANS = VB_BYPASS_ROW };
_Static_assert((unsigned)VB_LOCAL_SPANS >= VB_MAX_SGE, "as many as a work request has");

struct vb_local_spans {
	unsigned count;
	struct iovec span[VB_LOCAL_SPANS];
	struct vb_hold hold[VB_LOCAL_SPANS];
};

/* Hold `length` bytes of a list from `offset` on. False: refused, or some have no address here: go by the ordinary access. */
bool vb_local_spans_open(const struct vb_qp *qp, struct vb_pd *pd, const struct ibv_sge *list, unsigned count, uint64_t offset,
			 uint64_t length, uint32_t rights, struct vb_local_spans *spans);
/* The same, behind those that are held already, for which there is room. False: none is held any more. */
bool vb_local_spans_add(const struct vb_qp *qp, struct vb_pd *pd, const struct ibv_sge *list, unsigned count, uint64_t offset,
			uint64_t length, uint32_t rights, struct vb_local_spans *spans);
void vb_local_spans_close(struct vb_local_spans *spans);

/* ---- clock.c ---- */
void vb_local_clock_run(struct vb_local *local, vb_time now, bool progress);
/* Timeouts that have gone by since the last progress. */
uint32_t vb_local_clock_retries(const struct vb_local *local);

#endif
