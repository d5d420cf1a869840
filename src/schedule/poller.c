/* SPDX-License-Identifier: MIT
 *
 * See poller.h.
 */
#include "schedule/poller.h"

void vb_poller_init(struct vb_poller *poller, const uint32_t *users)
{
	*poller = (struct vb_poller){.users = users};
	vb_lock_init(&poller->lock, VB_RANK_POLLER);
	vb_list_init(&poller->senders);
	vb_list_init(&poller->receivers);
	poller->lane = VB_NO_LANE;
}

void vb_poller_join_lane(struct vb_poller *poller, uint8_t lane)
{
	uint8_t before = VB_NO_LANE;

	if (!__atomic_compare_exchange_n(&poller->lane, &before, lane, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED) && before != lane)
		__atomic_store_n(&poller->lane, 0, __ATOMIC_RELAXED);
}
