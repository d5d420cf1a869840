/* SPDX-License-Identifier: MIT
 *
 * Responses to our reads that came ahead of a missing one. Where a response belongs follows from its PSN, and what the memory of
 * a read holds before its end is undefined (IBA 9.5, o9-20): so they are put into their places at once, and only that they came is
 * remembered. What is missing is asked for alone, by a read request for that part of the original (C9-149).
 *
 * Always the first gap: a responder may remember only what was asked last, and drop what lies before it (rxe does).
 */
#include <stdlib.h>

#include "roce/engine.h"

enum { REACH = 2048, WORDS = REACH / 64 };

static uint64_t bit_of(struct psn psn)
{
	return 1ull << psn.v % 64;
}

static size_t word_of(struct psn psn)
{
	return psn.v % REACH / 64;
}

bool vb_roce_early_has(const struct vb_roce_requester *requester, struct psn psn)
{
	const struct vb_roce_early *early = &requester->early;

	return early->count > 0 && psn_ahead(psn, requester->acknowledged) < REACH && (early->bits[word_of(psn)] & bit_of(psn));
}

bool vb_roce_early_add(struct vb_roce_requester *requester, struct psn psn)
{
	struct vb_roce_early *early = &requester->early;

	if (psn_ahead(psn, requester->acknowledged) >= REACH)
		return false;
	if (!early->bits)
		early->bits = calloc(WORDS, sizeof(*early->bits));
	if (!early->bits)
		return false;
	early->bits[word_of(psn)] |= bit_of(psn);
	early->count++;
	return true;
}

void vb_roce_early_remove(struct vb_roce_requester *requester, struct psn psn)
{
	struct vb_roce_early *early = &requester->early;

	early->bits[word_of(psn)] &= ~bit_of(psn);
	if (--early->count == 0)
		early->ask_owed = early->asked = false;
}

uint32_t vb_roce_early_gap(const struct vb_roce_requester *requester)
{
	uint32_t gap = 0;

	while (!vb_roce_early_has(requester, psn_add(requester->acknowledged, gap)))
		gap++;
	return gap;
}

void vb_roce_early_told(struct vb_qp *qp, vb_time now, vb_time same_loss)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;
	struct vb_roce_early *early = &requester->early;
	bool again = early->asked && psn_equal(early->asked_from, requester->acknowledged);

	if (early->ask_owed || (again && now - early->asked_at < same_loss))
		return;
	early->ask_owed = early->asked = true;
	early->asked_from = requester->acknowledged;
	early->asked_at = now;
	VB_COUNT(qp->host->counters, completer_retry_err);
	if (!again)
		vb_roce_congestion_some_responses_lost(&requester->congestion, vb_roce_early_gap(requester), requester->high);
	vb_roce_timers_sent_selectively(qp, now);
}

void vb_roce_early_forget(struct vb_roce_requester *requester)
{
	struct vb_roce_early *early = &requester->early;

	for (unsigned i = 0; i < WORDS && early->count > 0; i++)
		early->bits[i] = 0;
	early->count = 0;
	early->ask_owed = early->asked = false;
}

void vb_roce_early_close(struct vb_roce_requester *requester)
{
	free(requester->early.bits);
	requester->early = (struct vb_roce_early){0};
}
