/* SPDX-License-Identifier: MIT
 *
 * All that is missing, at once: the fourth way to recover from loss, to be compared with the others in the simulator
 * and nothing else. It is that of IRN (Mittal et al., "Revisiting Network Support for RDMA", SIGCOMM 2018): a responder
 * tells of each packet that came ahead of a missing one, and the requester, who so knows all the gaps, fills them
 * without waiting for a round trip each. RoCE has no acknowledgement for that; here the NAK carries the PSN that came
 * where others carry the MSN, which no requester needs.
 *
 *      acknowledged        filled           told        high
 *           |  X    X        |    X     X     |            |       X: has not come
 *              sent again          owed           not known yet
 *
 * What is sent again may be lost again: if nothing was acknowledged for two round trips while others still come, all gaps are filled
 * anew. What is at the end is a matter for the timers, as ever.
 */
#include <stdlib.h>
#include <string.h>

#include "roce/engine.h"

enum { REACH = 1 << 14, WORD = 64 };

static uint64_t *word_of(const struct vb_roce_missing *missing, struct psn psn)
{
	return &missing->came[psn.v % REACH / WORD];
}

static uint64_t bit_of(struct psn psn)
{
	return 1ull << psn.v % WORD;
}

void vb_roce_missing_open(struct vb_roce_requester *requester)
{
	requester->missing.came = calloc(REACH / WORD, sizeof(uint64_t));
	requester->missing.forgotten = requester->missing.filled = requester->missing.told = requester->acknowledged;
}

void vb_roce_missing_close(struct vb_roce_requester *requester)
{
	free(requester->missing.came);
	requester->missing.came = NULL;
}

/* What was acknowledged makes room for later ones. */
static void forget(struct vb_roce_requester *requester)
{
	struct vb_roce_missing *missing = &requester->missing;

	for (; psn_before(missing->forgotten, requester->acknowledged); missing->forgotten = psn_add(missing->forgotten, 1))
		*word_of(missing, missing->forgotten) &= ~bit_of(missing->forgotten);
	if (psn_before(missing->filled, requester->acknowledged))
		missing->filled = requester->acknowledged;
	if (psn_before(missing->told, requester->acknowledged))
		missing->told = requester->acknowledged;
}

bool vb_roce_missing_next(struct vb_roce_requester *requester)
{
	struct vb_roce_missing *missing = &requester->missing;

	forget(requester);
	while (psn_before(missing->filled, missing->told)) {
		struct psn psn = missing->filled;

		missing->filled = psn_add(psn, 1);
		if (*word_of(missing, psn) & bit_of(psn))
			continue;
		requester->selective_psn = psn;
		requester->selective_owed = true;
		return true;
	}
	return false;
}

void vb_roce_missing_told(struct vb_qp *qp, vb_time now, struct psn came)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;
	struct vb_roce_missing *missing = &requester->missing;

	forget(requester);
	if (!psn_before(requester->acknowledged, came) || !psn_before(came, requester->high) ||
	    psn_ahead(came, requester->acknowledged) >= REACH)
		return;
	*word_of(missing, came) |= bit_of(came);
	if (psn_before(missing->told, came))
		missing->told = came;
	/* All of them a second time. */
	if (!psn_equal(missing->filled, requester->acknowledged) && psn_equal(missing->filled_from, requester->acknowledged) &&
	    now - missing->filled_at > 2 * requester->round_trip) {
		missing->filled = requester->acknowledged;
	}
	if (requester->selective_owed || !vb_roce_missing_next(requester))
		return;
	missing->filled_from = requester->acknowledged;
	missing->filled_at = now;
	VB_COUNT(qp->host->counters, completer_retry_err);
	vb_roce_congestion_one_lost(&requester->congestion, requester->high);
	vb_roce_timers_sent_selectively(qp, now);
}
