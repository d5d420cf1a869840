/* SPDX-License-Identifier: MIT
 *
 * Wide windows of responses. Each request for a piece of a long read takes its requester 2.6 us to send and interrupts the responder, which
 * has nothing else to wait for; with VB_WINDOW_MAX there is one for every two runs. Where our socket's buffer is many times as
 * large as the usual window needs, more may be asked for at once.
 *
 * A buffer has places for a few wide windows. Who reads takes one for a period of time, and another in the next one: nothing has to be
 * given back, and who does not read has none. Holders of two periods may overlap, so all places together are a quarter of the buffer.
 *
 * Peers of our own alone are asked for so much: of them what is missing is asked for at once, wherever it lies (early.c).
 */
#include "roce/engine.h"

enum {
	PERIOD_BITS = 24, /* 16.8 ms */
	SHARE = 4,
};

/* In share->wide: the period, and how many places are taken in it. */
static uint64_t first_of(uint32_t period)
{
	return (uint64_t)period << 32 | 1;
}

bool vb_roce_wide_take(struct vb_receive_share *share, uint32_t period)
{
	uint32_t places = share->bytes / SHARE / VB_READ_WINDOW_WIDE;
	uint64_t now = __atomic_load_n(&share->wide, __ATOMIC_RELAXED), next;

	if (places == 0)
		return false;
	do {
		/* A thread that read the clock earlier does not take the time back. */
		if (now != 0 && ((int32_t)(period - (uint32_t)(now >> 32)) < 0 || (now >> 32 == period && (uint32_t)now >= places)))
			return false;
		next = now >> 32 == period ? now + 1 : first_of(period);
	} while (!__atomic_compare_exchange_n(&share->wide, &now, next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return true;
}

void vb_roce_wide_ask(struct vb_qp *qp, vb_time now)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;
	struct vb_receive_share *share = qp->host->share;
	uint32_t period = (uint32_t)(now >> PERIOD_BITS) + 1;

	if (!share || requester->wide_period == period)
		return;
	requester->wide_period = period;
	vb_roce_congestion_widen(&requester->congestion, vb_roce_wide_take(share, period));
}
