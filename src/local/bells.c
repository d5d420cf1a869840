/* SPDX-License-Identifier: MIT
 *
 * See bells.h. A bell is a number, counted up in its circle and beginning with 1, and the QPN it rings for, in one word: the number says
 * whether it is of this round.
 */
#include "local/bells.h"

enum { QPN_BITS = 24, SLOT_SHIFT = 14 };

#define NUMBERS (UINT64_MAX >> QPN_BITS)
#define QPNS ((UINT32_C(1) << QPN_BITS) - 1)

_Static_assert(VB_BOARD_QPS == 1 << SLOT_SHIFT, "a QPN is a slot and an index");

void vb_bells_ring(struct vb_board *own, uint32_t qpn, unsigned voice)
{
	struct vb_board_bells *bells = &own->bells[(qpn >> SLOT_SHIFT) % VB_BOARD_CIRCLES][voice % VB_BOARD_VOICES];
	uint64_t number = __atomic_add_fetch(&bells->rung, 1, __ATOMIC_RELAXED);

	/* Release: whoever hears it finds what was left. */
	__atomic_store_n(&bells->bell[number % VB_BOARD_BELLS], number << QPN_BITS | (qpn & QPNS), __ATOMIC_RELEASE);
}

void vb_bells_attend(const struct vb_board *theirs, uint32_t own_slot, struct vb_bells_heard *heard)
{
	const struct vb_board_bells *bells = theirs->bells[own_slot % VB_BOARD_CIRCLES];

	for (unsigned voice = 0; voice < VB_BOARD_VOICES; voice++)
		heard->next[voice] = __atomic_load_n(&bells[voice].rung, __ATOMIC_ACQUIRE) + 1;
}

unsigned vb_bells_hear(const struct vb_board *theirs, uint32_t own_slot, struct vb_bells_heard *heard, uint32_t *qpn, unsigned room,
		       bool *missed)
{
	const struct vb_board_bells *bells = theirs->bells[own_slot % VB_BOARD_CIRCLES];
	unsigned count = 0;

	for (unsigned voice = 0; voice < VB_BOARD_VOICES; voice++)
		while (count < room) {
			uint64_t next = heard->next[voice];
			uint64_t bell = __atomic_load_n(&bells[voice].bell[next % VB_BOARD_BELLS], __ATOMIC_ACQUIRE);
			uint64_t ahead = ((bell >> QPN_BITS) - next) & NUMBERS;

			/* Of the round before. */
			if (ahead > NUMBERS / 2)
				break;
			*missed |= ahead != 0;
			heard->next[voice] = next + ahead + 1;
			qpn[count++] = (uint32_t)bell & QPNS;
		}
	return count;
}
