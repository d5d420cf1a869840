/* SPDX-License-Identifier: MIT
 *
 * Accesses to the peer's memory that do not need the peer to run. In this order, which the peer's deregistration and
 * its way to the error state rely on (memory/foreign.h, local.c):
 *
 *   show the key by which we copy, and for which queue pair  ->  is that queue pair still what it was?  ->  look the key up in the
 *   peer's table  ->  copy a piece  ->  show nothing
 *
 * Where a key was found in shared memory is kept (struct vb_local_cached_key). It is as good as a lookup if, after the
 * key was shown, the same registration stands in its entry and no mapping was given up since: both say so before they
 * wait for those who show a key.
 *
 * A refusal is left for the peer as a record: it has to fail as the responder of a refused request does, and answers
 * with the NAK that fails our side. Refused is what the wire's responder would refuse (roce/responder_checks.c), in its
 * order.
 */
#include <errno.h>
#include <string.h>

#include "local/engine.h"
#include "memory/foreign.h"
#include "memory/key.h"

/* An access: what is asked of the peer, and what is ours to move. */
struct access {
	struct vb_local *local;
	struct vb_send_wqe *wqe;
	uint64_t address, length;        /* of the whole */
	uint32_t key, rights;
	uint64_t offset, bytes;          /* of this piece */
	bool reads;
	bool plain;                      /* `spans` are held; else by the ordinary access */
	struct vb_local_spans spans;
	struct vb_fault_record why;
};

enum moved { MOVED, MOVE_REFUSED, MOVE_LOCAL_FAULT, MOVE_UNREACHABLE, MOVE_LATER };

/* Field by field: four KiB of spans need no zeros. */
static void begin(struct access *access, struct vb_local *local, struct vb_send_wqe *wqe, uint64_t address, uint32_t key)
{
	access->local = local;
	access->wqe = wqe;
	access->address = address;
	access->length = wqe->length;
	access->key = key;
	access->rights = vb_work(wqe->opcode)->right;
	access->offset = 0;
	access->bytes = wqe->length;
	access->reads = access->rights != IBV_ACCESS_REMOTE_WRITE;
	access->spans.count = 0;
}

/* ---- showing what we copy by ---- */

/* One of the copy words, each used by one thread at a time; -1: all are taken. */
static int show_copy(struct vb_local *local, uint32_t key)
{
	struct vb_segment_header *header = &local->own->header;
	uint64_t word = vb_segment_copy_word(local->peer_qpn, local->peer_table, key);

	for (unsigned i = 0; i < VB_SEGMENT_COPIES; i++) {
		unsigned at = (local->qp->qpn + i) % VB_SEGMENT_COPIES;
		uint64_t free = 0;

		if (__atomic_compare_exchange_n(&header->copying[at], &free, word, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
			return (int)at;
	}
	return -1;
}

static void unshow_copy(struct vb_local *local, int at)
{
	/* Release: our copies happen before whatever the one waiting for us does next. */
	__atomic_store_n(&local->own->header.copying[at], 0, __ATOMIC_RELEASE);
}

/* Partner of the store of the word in vb_local_modified. */
static bool peer_is_unchanged(const struct vb_local *local)
{
	return __atomic_load_n(&local->theirs->word, __ATOMIC_SEQ_CST) == local->seen_word;
}

/* XRC: may it go by the rights of the SRQ that it names? */
static bool may_name(struct access *access)
{
	if (access->local->qp->type != IBV_QPT_XRC_SEND || vb_local_xrc_choose(access->local, access->wqe->srqn))
		return true;
	access->why = (struct vb_fault_record){.fault = VB_FAULT_XRC_SRQ, .key = access->wqe->srqn};
	return false;
}

static bool find(const struct access *access, struct vb_foreign_range *range, struct vb_fault_record *why)
{
	struct vb_local *local = access->local;
	const struct vb_foreign_asker who = {.pd = local->peer_pd, .qpn = local->peer_qpn, .rights = access->rights,
					     .hint = &local->hint};

	return vb_foreign_find(local->peer->segment->table[local->peer_table], VB_SEGMENT_TABLE_BYTES, access->key, &who, access->address,
			       access->length, range, why);
}

/* ---- memory that is shared ---- */

static struct vb_local_cached_key *cached_key(struct vb_local *local, uint32_t key)
{
	return &local->cached[(key >> VB_KEY_TAG_BITS) % VB_LOCAL_CACHED_KEYS];
}

/* Our address of the next piece, if it is where it was. The key is shown, and the peer's queue pair unchanged: so its
 * table is there. */
static void *known_at(const struct access *access)
{
	const struct vb_local_cached_key *cached = cached_key(access->local, access->key);
	uint64_t offset = access->address - cached->iova;

	if (!cached->bytes || cached->key != access->key || (access->rights & ~cached->access) || offset > cached->length ||
	    access->length > cached->length - offset || !vb_foreign_stands(cached->entry, cached->key, cached->generation) ||
	    __atomic_load_n(access->local->peer->mappings, __ATOMIC_SEQ_CST) != cached->mappings)
		return NULL;
	return cached->bytes + offset + access->offset;
}

static void *shared_at(const struct access *access, const struct vb_foreign_range *range, uint64_t bytes)
{
	struct vb_local_peer *peer = access->local->peer;
	uint64_t mappings = peer->mappings ? __atomic_load_n(peer->mappings, __ATOMIC_SEQ_CST) : 0;
	uint8_t *at;

	if (!peer->host->shared || range->checked)
		return NULL;
	at = peer->host->shared(peer, access->local->peer_table, access->key, range->generation, range->region_start,
				range->region_length, range->theirs + access->offset, bytes);
	if (at && peer->mappings)
		*cached_key(access->local, access->key) = (struct vb_local_cached_key){
			.iova = access->address - (range->theirs - range->region_start),
			.length = range->region_length,
			.bytes = at - access->offset - (range->theirs - range->region_start),
			.mappings = mappings,
			.entry = range->entry,
			.generation = range->generation,
			.key = access->key,
			.access = range->access,
		};
	return at;
}

/* ---- moving bytes ---- */

static void load_shared(const struct access *access, const uint8_t *from)
{
	for (unsigned i = 0; i < access->spans.count; i++) {
		const struct iovec *span = &access->spans.span[i];

		vb_hold_place(span->iov_base, from, span->iov_len);
		from += span->iov_len;
	}
}

static void store_shared(const struct access *access, uint8_t *to)
{
	for (unsigned i = 0; i < access->spans.count; i++) {
		const struct iovec *span = &access->spans.span[i];

		vb_hold_place(to, span->iov_base, span->iov_len);
		to += span->iov_len;
	}
}

static void move_shared(const struct access *access, void *shared)
{
	if (access->reads)
		load_shared(access, shared);
	else
		store_shared(access, shared);
}

static int move_plain(const struct access *access, const struct vb_foreign_range *range)
{
	struct vb_local_peer *peer = access->local->peer;
	const struct vb_record_piece piece = {range->theirs + access->offset, access->bytes};
	void *shared = shared_at(access, range, access->bytes);

	if (shared) {
		move_shared(access, shared);
		return 0;
	}
	if (access->reads)
		return peer->host->read(peer, access->spans.span, access->spans.count, &piece, 1);
	return peer->host->write(peer, access->spans.span, access->spans.count, &piece, 1);
}

static void fill_zeros(const struct access *access)
{
	for (unsigned i = 0; i < access->spans.count; i++)
		memset(access->spans.span[i].iov_base, 0, access->spans.span[i].iov_len);
}

/* Our memory has no plain pointer (on-demand, null): in steps through a buffer. */
static enum moved move_bounced(struct access *access, const struct vb_foreign_range *range, int *rc)
{
	struct vb_local_peer *peer = access->local->peer;
	const struct vb_send_wqe *wqe = access->wqe;
	struct vb_qp *qp = access->local->qp;
	uint8_t buffer[VB_LOCAL_BOUNCE];

	for (uint64_t done = 0; done < access->bytes && *rc == 0; done += VB_LOCAL_BOUNCE) {
		uint64_t offset = access->offset + done, left = access->bytes - done;
		struct iovec span = {buffer, left < VB_LOCAL_BOUNCE ? left : VB_LOCAL_BOUNCE};
		const struct vb_record_piece piece = {range->theirs + offset, span.iov_len};

		if (!access->reads) {
			if (!vb_memory_gather(qp->host->memory, qp->pd, qp->qpn, wqe->list, wqe->sge_count, offset, buffer,
					      span.iov_len, &access->why))
				return MOVE_LOCAL_FAULT;
			if (!range->null)
				*rc = peer->host->write(peer, &span, 1, &piece, 1);
			continue;
		}
		if (range->null)
			memset(buffer, 0, span.iov_len);
		else
			*rc = peer->host->read(peer, &span, 1, &piece, 1);
		if (*rc == 0 && !vb_memory_scatter(qp->host->memory, qp->pd, qp->qpn, wqe->list, wqe->sge_count, offset,
						   buffer, span.iov_len, &access->why))
			return MOVE_LOCAL_FAULT;
	}
	return MOVED;
}

static enum moved move_found(struct access *access, const struct vb_foreign_range *range)
{
	enum moved moved = MOVED;
	int rc = 0;

	if (!access->plain)
		moved = move_bounced(access, range, &rc);
	else if (!range->null)
		rc = move_plain(access, range);
	else if (access->reads)
		fill_zeros(access);
	if (moved != MOVED || rc == 0)
		return moved;
	if (rc != -EFAULT)
		return MOVE_UNREACHABLE;
	access->why = (struct vb_fault_record){
		.fault = VB_FAULT_UNMAPPED,
		.key = access->key,
		.address = access->address,
		.length = access->length,
		.rights_asked = access->rights,
		.rights_granted = range->access,
	};
	return MOVE_REFUSED;
}

/* One piece. What is ours is held already. */
static enum moved move_piece(struct access *access)
{
	struct vb_local *local = access->local;
	struct vb_foreign_range range;
	enum moved moved = MOVED;
	int copy = show_copy(local, access->key);
	void *shared;

	if (copy < 0)
		return MOVE_LATER;
	if (!peer_is_unchanged(local))
		moved = MOVE_LATER;
	else if (!may_name(access))
		moved = MOVE_REFUSED;
	else if (access->plain && (shared = known_at(access)) != NULL)
		move_shared(access, shared);
	else if (!find(access, &range, &access->why))
		moved = MOVE_REFUSED;
	else
		moved = move_found(access, &range);
	unshow_copy(local, copy);
	local->initiator.stores = moved == MOVED && !access->reads && local->qp->type != IBV_QPT_XRC_SEND;
	return moved;
}

/* Hold our side of the next piece. False: it is at fault. */
static bool hold_piece(struct access *access, uint32_t done)
{
	struct vb_send_wqe *wqe = access->wqe;
	struct vb_qp *qp = access->local->qp;
	uint32_t rights = access->reads ? IBV_ACCESS_LOCAL_WRITE : 0;

	access->offset = done;
	access->bytes = access->length - done < VB_LOCAL_PIECE ? access->length - done : VB_LOCAL_PIECE;
	access->spans.count = 0;
	access->plain = true;
	if (wqe->is_inline) {
		access->spans.span[0] = (struct iovec){vb_send_wqe_inline(wqe), wqe->length};
		access->spans.count = 1;
		access->spans.hold[0].entry = NULL;
		return true;
	}
	if (vb_local_spans_open(qp, qp->pd, wqe->list, wqe->sge_count, access->offset, access->bytes, rights, &access->spans))
		return done > 0 || access->bytes == access->length ||
		       vb_memory_check_list(qp->host->memory, qp->pd, qp->qpn, wqe->list, wqe->sge_count, rights, &access->why);
	access->plain = false;
	return vb_memory_check_list(qp->host->memory, qp->pd, qp->qpn, wqe->list, wqe->sge_count, rights, &access->why);
}

/* ---- refusing ---- */

/* The peer is to fail; what it says fails us. */
static enum vb_local_step refuse(struct access *access, enum vb_fault fault)
{
	struct vb_local *local = access->local;
	const struct vb_local_record record = {
		.kind = VB_RECORD_FAULT,
		/* A WRITE with immediate of one packet has its receive when its key is looked at (responder_checks.c). */
		.flags = access->wqe->opcode == IBV_WR_RDMA_WRITE_WITH_IMM && fault != VB_FAULT_QP_RIGHTS &&
					 access->length <= local->qp->path_mtu ?
				 VB_RECORD_TAKES_RECEIVE :
				 0,
	};
	const struct vb_record_fault body = {
		.fault = fault,
		.key = access->key,
		.rights = access->rights,
		.address = access->address,
		.length = access->length,
	};
	uint8_t *at;

	/* A UC queue pair drops what it refuses, and goes on (roce/unreliable.c). */
	if (!vb_qp_is_reliable(local->qp))
		return vb_local_unreliable_lose(local, access->wqe);
	at = vb_local_names(local, access->wqe) ? vb_local_ring_reserve(local, sizeof(body)) : NULL;
	if (!at)
		return VB_STEP_WAIT;
	memcpy(at, &body, sizeof(body));
	vb_local_records_leave(local, access->wqe, sizeof(body), &record);
	return VB_STEP_DONE;
}

/* What the responder asks before it looks at memory (IBA 9.7.4.1): NONE, or what it finds wrong. */
static enum vb_fault check_request(const struct access *access)
{
	const struct vb_segment_qp *theirs = access->local->theirs;

	if (access->rights & ~__atomic_load_n(&theirs->receive_access, __ATOMIC_RELAXED))
		return VB_FAULT_QP_RIGHTS;
	if (access->reads && __atomic_load_n(&theirs->max_reads, __ATOMIC_RELAXED) == 0)
		return VB_FAULT_TOO_MANY_READS;
	return VB_FAULT_NONE;
}

/* ---- WRITE and READ ---- */

/* Room for what a direct access may have to leave: a HELLO, the name of an SRQ, and the record that ends it. */
enum { MAY_LEAVE = 4 * VB_RECORD_ALIGN };

/* May it be executed now? What was left before it is executed, as its order asks. */
static bool is_its_turn(struct vb_local *local)
{
	const struct vb_local_initiator *initiator = &local->initiator;

	if (initiator->consumed >= initiator->ordered && vb_local_ring_has_room(local, MAY_LEAVE))
		return true;
	vb_local_records_look(local);
	return initiator->consumed >= initiator->ordered && vb_local_ring_has_room(local, MAY_LEAVE);
}

/* The peer's application may wait to hear that its peer is there (IBA 11.6.3.2, COMM_EST): that needs the peer. No thread
 * of ours waits for it, and it is not woken for it. */
static void greet(struct vb_local *local)
{
	const struct vb_local_record hello = {.kind = VB_RECORD_HELLO};
	bool kick = local->kick;

	local->initiator.touched = true;
	if (local->initiator.greeted || (local->seen_word & VB_WORD_SENDS))
		return;
	local->initiator.greeted = true;
	if (vb_local_ring_reserve(local, 0))
		vb_local_ring_publish(local, 0, &hello);
	local->kick = kick;
}

static enum vb_local_step finish(struct access *access)
{
	struct vb_send_wqe *wqe = access->wqe;
	struct vb_local_record record = {
		.kind = VB_RECORD_WRITE_IMMEDIATE,
		.flags = VB_RECORD_HAS_IMMEDIATE | (wqe->send_flags & IBV_SEND_SOLICITED ? VB_RECORD_SOLICITED : 0),
		.length = wqe->length,
	};

	access->local->initiator.moved = 0;
	if (wqe->opcode != IBV_WR_RDMA_WRITE_WITH_IMM) {
		greet(access->local);
		wqe->done = true;
		return VB_STEP_DONE;
	}
	memcpy(&record.immediate, &wqe->immediate, sizeof(record.immediate));
	/* There is room: is_its_turn() looked. */
	if (!vb_local_names(access->local, wqe) || !vb_local_ring_reserve(access->local, 0))
		return VB_STEP_WAIT;
	vb_local_records_leave(access->local, wqe, 0, &record);
	return VB_STEP_DONE;
}

enum vb_local_step vb_local_direct_move(struct vb_local *local, struct vb_send_wqe *wqe)
{
	uint32_t *moved = &local->initiator.moved;
	struct access access;
	enum vb_fault fault;
	enum moved outcome;

	if (!is_its_turn(local))
		return VB_STEP_WAIT;
	begin(&access, local, wqe, wqe->rdma.address, wqe->rdma.rkey);
	if (access.length > 0 && !hold_piece(&access, *moved)) {
		vb_local_spans_close(&access.spans);
		return vb_local_initiator_fail(local, IBV_WC_LOC_PROT_ERR, &access.why);
	}
	fault = check_request(&access);
	/* No bytes, no key (IBA C9-88). */
	if (fault == VB_FAULT_NONE && access.length == 0)
		return may_name(&access) ? finish(&access) : refuse(&access, access.why.fault);
	outcome = fault == VB_FAULT_NONE ? move_piece(&access) : MOVE_REFUSED;
	vb_local_spans_close(&access.spans);
	switch (outcome) {
	case MOVE_REFUSED:
		return refuse(&access, fault != VB_FAULT_NONE ? fault : access.why.fault);
	case MOVE_LOCAL_FAULT:
		return vb_local_initiator_fail(local, IBV_WC_LOC_PROT_ERR, &access.why);
	case MOVE_UNREACHABLE:
		local->initiator.unreachable = true;
		local->initiator.open = false;
		if (vb_qp_is_reliable(local->qp))
			return VB_STEP_WAIT;
		vb_local_unreliable_write_off(local);
		return vb_local_unreliable_lose(local, wqe);
	case MOVE_LATER:
		return VB_STEP_MORE;
	case MOVED:
		break;
	}
	*moved += (uint32_t)access.bytes;
	if (*moved == access.length)
		return finish(&access);
	wqe->started = true;
	local->initiator.touched = true;
	return VB_STEP_MORE;
}

bool vb_local_direct_try(struct vb_local *local, struct vb_send_wqe *wqe, uint32_t offset, uint32_t *moved)
{
	struct access access;
	bool done;

	begin(&access, local, wqe, wqe->rdma.address, wqe->rdma.rkey);
	done = hold_piece(&access, offset) && check_request(&access) == VB_FAULT_NONE && move_piece(&access) == MOVED;
	vb_local_spans_close(&access.spans);
	*moved = (uint32_t)access.bytes;
	return done;
}

/* ---- a row of them ---- */

static bool hold_row(struct access *access, struct vb_send_wqe *const row[], unsigned count)
{
	struct vb_local_spans *spans = &access->spans;
	struct vb_qp *qp = access->local->qp;

	for (unsigned i = 0; i < count; i++) {
		struct vb_send_wqe *wqe = row[i];

		if (wqe->is_inline) {
			spans->span[spans->count] = (struct iovec){vb_send_wqe_inline(wqe), wqe->length};
			spans->hold[spans->count++].entry = NULL;
		} else if (!vb_local_spans_add(qp, qp->pd, wqe->list, wqe->sge_count, 0, wqe->length,
					       access->reads ? IBV_ACCESS_LOCAL_WRITE : 0, spans)) {
			return false;
		}
	}
	return true;
}

/* Where each of them goes, or comes from; the key is shown. False also where memory is shared: stores take no system call. */
static bool find_row(struct access *access, struct vb_send_wqe *const row[], unsigned count, struct vb_record_piece piece[])
{
	struct vb_foreign_range range;

	for (unsigned i = 0; i < count; i++) {
		access->address = row[i]->rdma.address;
		access->length = access->bytes = row[i]->length;
		if (known_at(access) || !find(access, &range, &access->why) || range.null || shared_at(access, &range, access->bytes))
			return false;
		piece[i] = (struct vb_record_piece){range.theirs, access->bytes};
	}
	return true;
}

bool vb_local_direct_try_row(struct vb_local *local, struct vb_send_wqe *const row[], unsigned count)
{
	struct vb_local_peer *peer = local->peer;
	struct vb_record_piece piece[VB_BYPASS_ROW];
	struct access access;
	int copy, rc = -EAGAIN;

	begin(&access, local, row[0], row[0]->rdma.address, row[0]->rdma.rkey);
	copy = check_request(&access) == VB_FAULT_NONE ? show_copy(local, access.key) : -1;
	if (copy < 0)
		return false;
	if (peer_is_unchanged(local) && find_row(&access, row, count, piece) && hold_row(&access, row, count))
		rc = access.reads ? peer->host->read(peer, access.spans.span, access.spans.count, piece, count)
				  : peer->host->write(peer, access.spans.span, access.spans.count, piece, count);
	unshow_copy(local, copy);
	vb_local_spans_close(&access.spans);
	return rc == 0;
}

/* Few bytes to where they belong in the peer's memory, which may be shared. The key is shown. */
static bool store(const struct access *access, const void *bytes)
{
	struct vb_local_peer *peer = access->local->peer;
	const struct iovec span = {(void *)(uintptr_t)bytes, access->length};
	struct vb_record_piece piece;
	struct vb_foreign_range range;
	struct vb_fault_record ignored;
	void *at = known_at(access);

	if (!at && find(access, &range, &ignored)) {
		if (range.null)
			return false;
		piece = (struct vb_record_piece){range.theirs, access->length};
		at = shared_at(access, &range, access->length);
		if (!at)
			return peer->host->write(peer, &span, 1, &piece, 1) == 0;
	}
	if (at)
		vb_hold_place(at, bytes, access->length);
	return at != NULL;
}

/* Whether there is anything to say to the peer first, or about this access, is found out the long way. */
bool vb_local_direct_store(struct vb_local *local, uint64_t address, uint32_t key, const void *bytes, uint32_t length)
{
	const struct vb_local_initiator *initiator = &local->initiator;
	struct access access;
	bool stored;
	int copy;

	access.local = local;
	access.address = address;
	access.length = access.bytes = length;
	access.key = key;
	access.rights = IBV_ACCESS_REMOTE_WRITE;
	access.offset = 0;
	access.reads = false;
	if (!initiator->stores || !(initiator->greeted || (local->seen_word & VB_WORD_SENDS)) ||
	    check_request(&access) != VB_FAULT_NONE || !is_its_turn(local))
		return false;
	copy = show_copy(local, key);
	if (copy < 0)
		return false;
	stored = peer_is_unchanged(local) && store(&access, bytes);
	unshow_copy(local, copy);
	return stored;
}

/* Where that is in the peer's memory as we have it mapped, if it is shared. The key is shown. */
static uint8_t *find_shared(const struct access *access)
{
	struct vb_foreign_range range;
	struct vb_fault_record ignored;
	void *at = known_at(access);

	if (at || !find(access, &range, &ignored) || range.null)
		return at;
	return shared_at(access, &range, access->length);
}

bool vb_local_direct_place(struct vb_local *local, uint64_t address, uint32_t key, const struct iovec *spans, unsigned count)
{
	struct access access = {.local = local, .address = address, .key = key, .rights = IBV_ACCESS_REMOTE_WRITE};
	uint8_t *at;
	int copy;

	for (unsigned i = 0; i < count; i++)
		access.length += spans[i].iov_len;
	access.bytes = access.length;
	if (!local->initiator.stores || check_request(&access) != VB_FAULT_NONE)
		return false;
	copy = show_copy(local, key);
	if (copy < 0)
		return false;
	at = peer_is_unchanged(local) ? find_shared(&access) : NULL;
	for (unsigned i = 0; at && i < count; i++) {
		vb_hold_place(at, spans[i].iov_base, spans[i].iov_len);
		at += spans[i].iov_len;
	}
	unshow_copy(local, copy);
	return at != NULL;
}

/* ---- atomics ---- */

static uint64_t operate(uint64_t *at, const struct vb_send_wqe *wqe)
{
	uint64_t compare = wqe->atomic.compare_or_add;

	if (wqe->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		return __atomic_fetch_add(at, wqe->atomic.compare_or_add, __ATOMIC_SEQ_CST);
	if (wqe->opcode == IBV_WR_ATOMIC_WRITE)
		return __atomic_exchange_n(at, wqe->atomic.swap, __ATOMIC_SEQ_CST);
	/* On failure `compare` becomes what was there; on success it was there. */
	__atomic_compare_exchange_n(at, &compare, wqe->atomic.swap, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	return compare;
}

enum vb_local_step vb_local_direct_atomic(struct vb_local *local, struct vb_send_wqe *wqe)
{
	struct vb_qp *qp = local->qp;
	struct access access;
	struct vb_foreign_range range;
	enum vb_local_step step = VB_STEP_MORE;
	uint64_t *at = NULL, original;
	int copy;

	begin(&access, local, wqe, wqe->atomic.address, wqe->atomic.rkey);
	/* Also an ATOMIC WRITE counts as a read: it is answered like one. */
	access.reads = true;
	/* Whatever is not plain success is the peer's to say. */
	if (!local->peer->host->shared || check_request(&access) != VB_FAULT_NONE || access.address % 8 != 0)
		return VB_STEP_MORE;
	copy = show_copy(local, access.key);
	if (copy < 0)
		return VB_STEP_MORE;
	if (peer_is_unchanged(local) && may_name(&access)) {
		at = known_at(&access);
		if (!at && find(&access, &range, &access.why) && !range.null)
			at = shared_at(&access, &range, 8);
	}
	if ((uintptr_t)at % 8 != 0)
		at = NULL;
	if (at && !is_its_turn(local)) {
		step = VB_STEP_WAIT;
	} else if (at) {
		original = operate(at, wqe);
		step = VB_STEP_DONE;
	}
	unshow_copy(local, copy);
	if (step != VB_STEP_DONE)
		return step;
	greet(local);
	if (wqe->opcode != IBV_WR_ATOMIC_WRITE &&
	    !vb_memory_scatter(qp->host->memory, qp->pd, qp->qpn, wqe->list, wqe->sge_count, 0, &original, 8, &access.why))
		return vb_local_initiator_fail(local, IBV_WC_LOC_PROT_ERR, &access.why);
	wqe->done = true;
	return VB_STEP_DONE;
}
