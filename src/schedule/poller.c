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
}
