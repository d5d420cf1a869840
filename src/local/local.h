/* SPDX-License-Identifier: MIT
 *
 * The same-host engine: carries a connection, reliable or not, between two processes of one host through memory.
 *
 * RDMA WRITE, RDMA READ and (where the memory is shared) atomics are executed wholly by the initiator: it looks the key
 * up in the target's published table and copies into or out of the target's memory; the target runs no instruction.
 * SEND, WRITE with immediate and other atomics are records in the initiator's ring, executed by the target when it
 * looks. Order within a queue pair: a direct access waits until the records before it are executed.
 *
 * Whether a queue pair goes this way is agreed without a word on the wire: each side shows at RTR what it offers, and
 * what both offer holds. Until the peer has shown itself, work waits (UNDECIDED), as packets to a peer that is not
 * ready would not be answered; it fails with RETRY_EXC as they would. Everything odd is left to the wire.
 *
 * UC goes the same way, and waits for nothing: what cannot be delivered is lost (unreliable.c). So does XRC, whose requests say for which
 * SRQ of the target they are (xrc.c).
 *
 * Like every engine it calls no OS: struct vb_local_host does. The peer's segment is hostile (local/segment.h).
 */
#ifndef VB_LOCAL_LOCAL_H
#define VB_LOCAL_LOCAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/time.h"
#include "local/segment.h"
#include "queue/qp.h"

struct vb_local;
struct vb_local_peer;

struct vb_local_host {
	/* Copy all of it between our spans and the peer's memory. 0, or -EFAULT (not mapped there), -ESRCH (gone),
	 * -EPERM. The last bytes become visible last. */
	int (*write)(struct vb_local_peer *peer, const struct iovec *ours, unsigned count, const struct vb_record_piece *theirs,
		     unsigned pieces);
	int (*read)(struct vb_local_peer *peer, const struct iovec *ours, unsigned count, const struct vb_record_piece *theirs,
		    unsigned pieces);
	/* Our address of a range of the peer's memory that both share, for loads and stores; NULL: not shared (or not
	 * known to be, yet: ask each time), use the above. `generation` tells one registration from every other of that
	 * table: a key comes again after a while, and so does an address (the owner numbers its registrations, bindings
	 * and reregistrations). The copy word of that key must be shown before the call and until the last byte is
	 * moved: what it points to stays for that long and no longer, unless *mappings of the peer says so. It leads to
	 * all of region_start, region_length. Not for regions without plain bytes (null, on-demand). */
	void *(*shared)(struct vb_local_peer *peer, uint32_t table, uint32_t key, uint64_t generation, uint64_t region_start,
			uint64_t region_length, uint64_t address, uint64_t length);
	/* The peer is asleep and something was left for it. */
	void (*wake)(struct vb_local_peer *peer);
	/* A queue pair that fails or goes waits for the end of the peer's copies on its behalf: give it some time (a
	 * tenth of a millisecond), and see whether the peer has ended (`gone`). NULL: the processor is given away
	 * instead. Under qp->lock. */
	void (*pause)(struct vb_local_peer *peer);
};

/* Another process, or this one. Made by links/memory, which keeps what else it needs behind it. */
struct vb_local_peer {
	const struct vb_segment *segment;  /* mapped whole, read-only, for as long as the peer object lives */
	const struct vb_local_host *host;
	/* Atomic: a number that changes before anything goes that `shared` returned, and before the copy words are
	 * looked at for it. NULL: ask each time. */
	const uint64_t *mappings;
	uint32_t slot;
	bool gone;                         /* atomic: the process has ended */
};

enum vb_local_path { VB_LOCAL_UNDECIDED, VB_LOCAL_TAKEN, VB_LOCAL_DECLINED };

/* The indices of a segment's queue pairs, for its owner alone. Where one that was given back could be had again at
 * once, a peer that is late in looking how it ended (records.c) would find nothing any more: many others are given back
 * in between. A process that makes and ends queue pairs without end needs no more of its segment for it than for those
 * few. */
enum { VB_LOCAL_INDICES_RESTING = 256 };

struct vb_local_qp_indices {
	uint32_t made;                     /* that a queue pair has had */
	uint32_t first, resting;           /* of `rest`, a ring: those given back, the longest ago first */
	uint16_t rest[VB_SEGMENT_QPS];
};

/* Before a peer can hear of a queue pair with this number: it gets an index in our segment. After its end: it gives it
 * back. One call at a time. */
void vb_local_assign_index(struct vb_segment *own, uint32_t qpn, struct vb_local_qp_indices *indices);
void vb_local_release_index(struct vb_segment *own, uint32_t qpn, struct vb_local_qp_indices *indices);

/* At RTR, for every RC, UC and XRC queue pair of a process that has a segment. `peer` NULL, or without such a queue pair: the wire
 * is offered, and only that is shown (*local is NULL then). `own` is our segment, `table` the index of the region table
 * of this queue pair's device. 0 or -ENOMEM. Caller holds qp->lock; qp is in RTR already. */
int vb_local_attach(struct vb_qp *qp, struct vb_segment *own, uint32_t own_slot, uint32_t table, struct vb_local_peer *peer,
		    vb_time now, struct vb_local **local);
/* RESET or destruction: shows nothing any more, and no peer copies on behalf of this queue pair after it. Caller holds
 * qp->lock. local may be NULL. */
void vb_local_detach(struct vb_qp *qp, struct vb_segment *own, struct vb_local *local);
/* XRC. Before a peer can hear of an SRQ, and before it leaves its domain: what peers go by that name it. `table` as above,
 * domain and pd are handles. */
void vb_local_show_srq(struct vb_segment *own, uint32_t number, uint32_t table, uint32_t domain, uint32_t pd);
void vb_local_hide_srq(struct vb_segment *own, uint32_t number);
/* It leaves its domain, of which the queue pair is: no peer copies by its rights after this. Caller holds qp->lock. */
void vb_local_srq_gone(struct vb_qp *qp, struct vb_local *local, const struct vb_srq *srq);

/* State or attributes changed (RTS, SQD, SQE, ERR, access flags, timers). Caller holds qp->lock. Best called from the
 * transport's `modified`, which may be in the middle of vb_local_serve. The wire engine must not be asked about (nor
 * told of states of) a queue pair that is TAKEN: its work leaves the send queue without it. */
void vb_local_modified(struct vb_qp *qp, struct vb_local *local, vb_time now);

enum vb_local_path vb_local_path(const struct vb_local *local);
const struct vb_local_peer *vb_local_peer_of(const struct vb_local *local);

/* Everything that can be done now: decide, execute the peer's records, retire our work, start more of it, wake the
 * peer. Bounded: returns with `more` set when there is more to do at once. True: something was done. Caller holds
 * qp->lock. `polled`: for a thread that polls, and is not kept for longer than one copy. */
bool vb_local_serve(struct vb_qp *qp, struct vb_local *local, vb_time now, bool polled, bool *more);
/* Is there something to serve? No lock needed; a hint that is never wrong for long. */
bool vb_local_has_work(const struct vb_local *local);

/* ---- the fast path (fast_path.c) ----
 *
 * Each does all that vb_local_serve would, or nothing: false and 0 mean that it has to be called. Caller holds
 * qp->lock, but for has_work. */

/* Which of the two may post this request? */
enum vb_local_fast_way { VB_FAST_NONE, VB_FAST_SEND, VB_FAST_WRITE };
enum vb_local_fast_way vb_local_fast_way(const struct vb_qp *qp, const struct ibv_send_wr *wr);
/* `now` of a WRITE: when it completed; not asked for if it is not signaled. */
bool vb_local_fast_send(struct vb_qp *qp, struct vb_local *local, const struct ibv_send_wr *wr, vb_time now);
bool vb_local_fast_write(struct vb_qp *qp, struct vb_local *local, const struct ibv_send_wr *wr, vb_time now);
/* Bytes of ours, of no region, to where the peer lets us write, at once: into memory that it shares, or not at all. */
bool vb_local_place(struct vb_qp *qp, struct vb_local *local, uint64_t address, uint32_t key, const struct iovec *spans, unsigned count);
/* Is there something that a poll of its send_cq, of its recv_cq would find? No lock needed; a hint. */
bool vb_local_fast_has_work(const struct vb_local *local, bool sends, bool receives);
/* Completions for that completion queue, which is empty and wants no event for them: how many of at most `room`. */
int vb_local_fast_poll(struct vb_qp *qp, struct vb_local *local, const struct vb_cq *cq, int room, struct ibv_wc *wc, vb_time now);

/* A record of the peer waits for a receive: serve when one is posted (next_deadline looks again too, a thousand times a
 * second). No lock needed. */
bool vb_local_is_stalled(const struct vb_local *local);

/* When vb_local_serve must be called even if there is no work (giving up, a stalled receive), or VB_TIME_NEVER. Caller
 * holds qp->lock. */
vb_time vb_local_next_deadline(const struct vb_local *local);

/* Of what it notes on each send WQE (queue/transport.h). */
enum { VB_LOCAL_NOTE_SIZE = 8 };

/* How it stands: positions are numbers of records of this connection, beginning with 1. Caller holds qp->lock. */
void vb_local_query(const struct vb_local *local, struct vb_transport_status *status);

/* Deregistration: is a peer copying by that key of ours? */
bool vb_local_is_copying(const struct vb_local_peer *peer, uint32_t own_slot, uint32_t table, uint32_t key);

#endif
