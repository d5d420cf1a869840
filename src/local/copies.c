/* SPDX-License-Identifier: MIT
 *
 * Who copies on behalf of a queue pair of ours, or by a key of ours, shows it (local/segment.h).
 */
#include <sched.h>

#include "local/engine.h"

/* How often to look for the end of a peer's copy of a piece, some time after another. More than enough, unless the peer
 * died in the middle or lies. */
enum { PATIENCE = 1 << 12, YIELDS = 64 };

/* They look at what is changed already after they showed themselves (direct.c). */
void vb_local_wait_for_copies(const struct vb_qp *qp, struct vb_local_peer *peer)
{
	unsigned looks = 0;

	for (unsigned i = 0; i < VB_SEGMENT_COPIES; i++)
		while (vb_segment_copies_for(__atomic_load_n(&peer->segment->header.copying[i], __ATOMIC_SEQ_CST), qp->qpn) &&
		       !__atomic_load_n(&peer->gone, __ATOMIC_RELAXED) && looks++ < PATIENCE) {
			if (looks < YIELDS || !peer->host->pause)
				sched_yield();
			else
				peer->host->pause(peer);
		}
}

bool vb_local_is_copying(const struct vb_local_peer *peer, uint32_t own_slot, uint32_t table, uint32_t key)
{
	for (unsigned i = 0; i < VB_SEGMENT_COPIES; i++)
		if (vb_segment_copies_by(__atomic_load_n(&peer->segment->header.copying[i], __ATOMIC_SEQ_CST), own_slot, table, key))
			return true;
	return false;
}
