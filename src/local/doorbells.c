/* SPDX-License-Identifier: MIT
 *
 * See doorbells.h. A doorbell is a number, counted up in its lane and beginning with 1, and the QPN it rings for, in
 * one word: the number says whether it is of this round.
 */
#include "local/doorbells.h"

enum { QPN_BITS = 24, SLOT_SHIFT = 14 };

#define NUMBERS (UINT64_MAX >> QPN_BITS)
#define QPNS ((UINT32_C(1) << QPN_BITS) - 1)

_Static_assert(VB_SEGMENT_QPS == 1 << SLOT_SHIFT, "a QPN is a slot and an index");

void vb_doorbells_ring(struct vb_segment *own, uint32_t qpn, unsigned lane)
{
	struct vb_segment_doorbells *doorbells =
		&own->doorbells[(qpn >> SLOT_SHIFT) % VB_SEGMENT_DOORBELL_RINGS][lane % VB_SEGMENT_LANES];
	uint64_t number = __atomic_add_fetch(&doorbells->rung, 1, __ATOMIC_RELAXED);

	/* Release: the thread that hears it finds what was left. */
	__atomic_store_n(&doorbells->doorbell[number % VB_SEGMENT_DOORBELLS], number << QPN_BITS | (qpn & QPNS), __ATOMIC_RELEASE);
}

void vb_doorbells_attend(const struct vb_segment *theirs, uint32_t own_slot, struct vb_doorbells_heard *heard)
{
	const struct vb_segment_doorbells *doorbells = theirs->doorbells[own_slot % VB_SEGMENT_DOORBELL_RINGS];

	for (unsigned lane = 0; lane < VB_SEGMENT_LANES; lane++)
		heard->next[lane] = __atomic_load_n(&doorbells[lane].rung, __ATOMIC_ACQUIRE) + 1;
}

unsigned vb_doorbells_hear(const struct vb_segment *theirs, uint32_t own_slot, struct vb_doorbells_heard *heard, uint32_t *qpn,
			   unsigned room, bool *missed)
{
	const struct vb_segment_doorbells *doorbells = theirs->doorbells[own_slot % VB_SEGMENT_DOORBELL_RINGS];
	unsigned count = 0;

	for (unsigned lane = 0; lane < VB_SEGMENT_LANES; lane++)
		while (count < room) {
			uint64_t next = heard->next[lane];
			uint64_t doorbell = __atomic_load_n(&doorbells[lane].doorbell[next % VB_SEGMENT_DOORBELLS], __ATOMIC_ACQUIRE);
			uint64_t ahead = ((doorbell >> QPN_BITS) - next) & NUMBERS;

			/* Of the round before. */
			if (ahead > NUMBERS / 2)
				break;
			*missed |= ahead != 0;
			heard->next[lane] = next + ahead + 1;
			qpn[count++] = (uint32_t)doorbell & QPNS;
		}
	return count;
}
