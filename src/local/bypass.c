/* SPDX-License-Identifier: MIT
 *
 * See bypass.h. What is shown, and how it is looked at, is as with queue pairs that go through memory altogether (local.c); what is
 * copied, by direct.c.
 */
#include "local/bypass.h"

#include <stdlib.h>

#include "base/generation.h"
#include "local/engine.h"

#define SHOWN(field) VB_SEQUENCE_GET(field)

struct vb_local_bypass {
	struct vb_bypass way;            /* first: the wire's engine hands this back */
	struct vb_local local;           /* what direct.c needs of it */
	uint64_t connection;
	bool leads;                      /* as seen_word says */
};

static struct vb_local_bypass *bypass_of(struct vb_bypass *way)
{
	return (struct vb_local_bypass *)way;
}

/* Does what the peer shows under that word mean us? */
static bool goes_with_us(struct vb_local_bypass *bypass, uint64_t word)
{
	struct vb_local *local = &bypass->local;
	const struct vb_segment_qp *theirs = local->theirs;
	uint32_t pd = SHOWN(theirs->pd), table = SHOWN(theirs->table);
	bool fits = SHOWN(theirs->service) == VB_SEGMENT_BYPASS && SHOWN(theirs->offer) == VB_OFFER_LOCAL &&
		    SHOWN(theirs->peer_qpn) == local->qp->qpn && SHOWN(theirs->connection) == bypass->connection;

	if (!fits || table >= VB_SEGMENT_TABLES || !vb_generation_stands(&theirs->word, vb_generation_of(word)) ||
	    vb_local_index_of(local->peer_qpn, local->peer->segment) != theirs - local->peer->segment->qp)
		return false;
	local->peer_pd = pd;
	local->peer_table = table;
	return true;
}

bool vb_local_bypass_leads(struct vb_local_bypass *bypass)
{
	struct vb_local *local = &bypass->local;
	uint64_t word = vb_generation_read(&local->theirs->word);

	vb_lock_assert_held(&local->qp->lock);
	if (word != local->seen_word) {
		local->seen_word = word;
		bypass->leads = (word & VB_WORD_RECEIVES) && goes_with_us(bypass, word);
	}
	return bypass->leads;
}

/* The count is loaded before direct.c looks whether the word is still the one that we saw: so it is of that generation. */
static bool taken(struct vb_bypass *way, uint64_t *count)
{
	struct vb_local_bypass *bypass = bypass_of(way);

	if (!vb_local_bypass_leads(bypass))
		return false;
	*count = __atomic_load_n(&bypass->local.theirs->consumed, __ATOMIC_ACQUIRE);
	return true;
}

static bool move(struct vb_bypass *way, struct vb_send_wqe *wqe, uint32_t offset, uint32_t *moved)
{
	return vb_local_direct_try(&bypass_of(way)->local, wqe, offset, moved);
}

_Static_assert((unsigned)VB_BYPASS_ROW_BYTES <= VB_LOCAL_PIECE, "a deregistration waits for no more");

static bool move_row(struct vb_bypass *way, struct vb_send_wqe *const row[], unsigned count)
{
	return vb_local_direct_try_row(&bypass_of(way)->local, row, count);
}

/* Release: what was executed, and placed, is seen by a peer that sees the count. */
static void took(struct vb_bypass *way, uint64_t count)
{
	__atomic_store_n(&bypass_of(way)->local.mine->consumed, count, __ATOMIC_RELEASE);
}

/* The wire between the two orders them on every machine; this says so to the compiler, and to those who look for races. */
static void sends(struct vb_bypass *way)
{
	struct vb_segment_qp *mine = bypass_of(way)->local.mine;

	__atomic_store_n(&mine->produced, mine->produced + 1, __ATOMIC_RELEASE);
}

static void hears(struct vb_bypass *way)
{
	(void)__atomic_load_n(&bypass_of(way)->local.theirs->produced, __ATOMIC_ACQUIRE);
}

struct vb_local_bypass *vb_local_bypass_open(struct vb_qp *qp, struct vb_segment *own, struct vb_local_peer *peer,
					     const struct vb_local_meeting *meeting)
{
	const struct vb_local_terms terms = {
		.table = meeting->table,
		.peer_qpn = meeting->peer_qpn,
		.service = VB_SEGMENT_BYPASS,
		.connection = meeting->connection,
		.offers_local = true,
	};
	int index = vb_local_index_of(qp->qpn, own), theirs = vb_local_index_of(meeting->peer_qpn, peer->segment);
	struct vb_local_bypass *bypass;

	vb_lock_assert_held(&qp->lock);
	bypass = index >= 0 && theirs >= 0 ? calloc(1, sizeof(*bypass)) : NULL;
	if (!bypass)
		return NULL;
	bypass->way = (struct vb_bypass){
		.taken = taken,
		.move = move,
		.move_row = move_row,
		.took = took,
		.sends = sends,
		.hears = hears,
	};
	bypass->connection = meeting->connection;
	bypass->local.own = own;
	bypass->local.mine = &own->qp[index];
	bypass->local.theirs = &peer->segment->qp[theirs];
	bypass->local.peer = peer;
	bypass->local.peer_qpn = meeting->peer_qpn;
	bypass->local.qp = qp;
	bypass->local.seen_word = ~UINT64_C(0);
	bypass->local.generation = vb_local_begin_generation(qp, own, &terms);
	return bypass;
}

struct vb_bypass *vb_local_bypass_way(struct vb_local_bypass *bypass)
{
	return &bypass->way;
}

void vb_local_bypass_modified(struct vb_local_bypass *bypass)
{
	struct vb_local *local = &bypass->local;
	bool received = SHOWN(local->mine->word) & VB_WORD_RECEIVES;

	vb_local_show_attributes(local->qp, local->mine);
	vb_generation_show(&local->mine->word, local->generation, vb_local_bits_of(local->qp));
	if (received && !vb_local_receives(local->qp))
		vb_local_wait_for_copies(local->qp, local->peer);
}

void vb_local_bypass_close(struct vb_local_bypass *bypass)
{
	struct vb_local *local = &bypass->local;

	vb_generation_show(&local->mine->word, local->generation, 0);
	vb_local_wait_for_copies(local->qp, local->peer);
	free(bypass);
}
