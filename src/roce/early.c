/* SPDX-License-Identifier: MIT
 *
 * Responses to our reads that came ahead of a missing one. Where a response belongs follows from its PSN, and what the memory of
 * a read holds before its end is undefined (IBA 9.5, o9-20): so they are put into their places at once, and only that they came is
 * remembered. What is missing is asked for alone, by a read request for that part of the original (C9-149).
 *
 * Always the first gap: a responder may remember only what was asked last, and drop what lies before it (rxe does). A
 * peer of our own remembers all (responder_reads.c), and every gap is asked for when it is seen. Which it is shows a
 * probe (flow.c), that goes with the first requests for a gap.
 */
#include <stdlib.h>

#include "roce/engine.h"

enum { REACH = 2048, WORDS = REACH / 64 };
_Static_assert(VB_READ_WINDOW_WIDE / (256 + VB_CHARGE_OVERHEAD) <= REACH, "of the smallest packets, all that are under way");

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
	if (early->count++ == 0 || psn_before(early->last, psn))
		early->last = psn;
	return true;
}

void vb_roce_early_remove(struct vb_roce_requester *requester, struct psn psn)
{
	struct vb_roce_early *early = &requester->early;

	early->bits[word_of(psn)] &= ~bit_of(psn);
	if (--early->count == 0)
		early->ask_owed = early->asked = early->sampling = false;
}

uint32_t vb_roce_early_take(struct vb_roce_requester *requester, uint32_t most)
{
	uint32_t count = 0;

	for (; count < most && vb_roce_early_has(requester, psn_add(requester->acknowledged, count)); count++)
		vb_roce_early_remove(requester, psn_add(requester->acknowledged, count));
	return count;
}

uint32_t vb_roce_early_gap_at(const struct vb_roce_requester *requester, struct psn psn)
{
	uint32_t gap = 0;

	while (gap < REACH && !vb_roce_early_has(requester, psn_add(psn, gap)))
		gap++;
	return gap;
}

uint32_t vb_roce_early_gap(const struct vb_roce_requester *requester)
{
	return vb_roce_early_gap_at(requester, requester->acknowledged);
}

static void begin_sample(struct vb_roce_requester *requester, vb_time now)
{
	requester->early.sampling = true;
	requester->early.sample_psn = requester->acknowledged;
	requester->early.sample_began = now;
}

void vb_roce_early_arrived(struct vb_roce_requester *requester, vb_time now)
{
	struct vb_roce_early *early = &requester->early;
	vb_time sample = now - early->sample_began;

	if (!early->sampling || psn_before(requester->acknowledged, early->sample_psn))
		return;
	early->sampling = false;
	if (psn_equal(requester->acknowledged, early->sample_psn))
		requester->selective_trip = requester->selective_trip == 0 ? sample : (7 * requester->selective_trip + sample) / 8;
}

void vb_roce_early_probe(struct vb_roce_requester *requester)
{
	requester->early.ask_owed = true;
	requester->early.all_owed = requester->early.sampling = false;
}

/* Gaps that nothing was asked for yet, and the first one again if it stays for long. */
static void tell_all(struct vb_qp *qp, vb_time now, vb_time same_loss)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;
	struct vb_roce_early *early = &requester->early;
	uint32_t missing = 0;
	struct psn at;

	if (!early->asked)
		begin_sample(requester, now);
	if (!early->asked || psn_before(early->asked_to, requester->acknowledged))
		early->asked_to = requester->acknowledged;
	if (!early->asked || !psn_equal(early->asked_from, requester->acknowledged)) {
		early->asked_from = requester->acknowledged;
		early->asked_at = now;
	}
	early->asked = true;
	for (at = early->asked_to; psn_before(at, early->last); at = psn_add(at, 1)) {
		/* Of a SEND or WRITE between two reads, or there. */
		if (vb_roce_early_has(requester, at) || !vb_roce_reads_find(requester, at))
			continue;
		if (missing++ == 0 && !(early->ask_owed && early->all_owed)) {
			early->ask_owed = early->all_owed = true;
			early->ask_from = at;
		}
	}
	if (psn_before(early->asked_to, early->last))
		early->asked_to = early->last;
	if (missing == 0) {
		if (early->ask_owed || now - early->asked_at < 2 * same_loss)
			return;
		vb_roce_early_probe(requester);
		early->asked_at = now;
	}
	VB_COUNT(qp->host->counters, completer_retry_err);
	if (missing > 0)
		vb_roce_congestion_some_responses_lost(&requester->congestion, missing, requester->high);
	vb_roce_timers_sent_selectively(qp, now);
}

void vb_roce_early_told(struct vb_qp *qp, vb_time now, vb_time same_loss)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;
	struct vb_roce_early *early = &requester->early;
	bool again = early->asked && psn_equal(early->asked_from, requester->acknowledged);

	if (requester->peer_remembers) {
		tell_all(qp, now, same_loss);
		return;
	}
	if (early->ask_owed || (again && now - early->asked_at < same_loss))
		return;
	early->ask_owed = early->asked = true;
	early->asked_from = early->asked_to = requester->acknowledged;
	early->asked_at = now;
	if (again)
		early->sampling = false;
	else
		begin_sample(requester, now);
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
	early->ask_owed = early->asked = early->sampling = false;
}

void vb_roce_early_close(struct vb_roce_requester *requester)
{
	free(requester->early.bits);
	requester->early = (struct vb_roce_early){0};
}
