/* SPDX-License-Identifier: MIT
 *
 * TIMELY: Mittal et al., "TIMELY: RTT-based Congestion Control for the Datacenter", SIGCOMM 2015, algorithm 1. The rate follows
 * how round trips change: while they grow shorter it rises, and faster when they have done so for a while; while they grow longer it
 * falls in proportion. Below a low and above a high round trip the change does not matter. CNPs mean nothing to it.
 */
#include "roce/congestion.h"

enum { UNIT = 1024, HURRIED = 5 };

const struct vb_timely_parameters vb_timely_default = {
	.low = VB_MICROSECONDS(50),
	.high = VB_MICROSECONDS(500),
	.minimum_trip = VB_MICROSECONDS(20),
	.smoothing = 896, /* 0.875 */
	.decrease = 819, /* 0.8 */
	.additive = 10 * 1000 * 1000ull,
	.minimum = 10 * 1000 * 1000ull,
};

void vb_timely_start(struct vb_roce_congestion *congestion, const struct vb_roce_policy *policy)
{
	vb_roce_window_start(congestion, policy);
	congestion->rate = congestion->line_rate = policy->line_rate;
	congestion->timely_parameters = policy->timely;
	congestion->timely = (struct vb_timely){0};
}

bool vb_timely_notified(struct vb_roce_congestion *congestion, vb_time now)
{
	(void)congestion;
	(void)now;
	return false;
}

static void faster(struct vb_roce_congestion *congestion, uint32_t steps)
{
	uint64_t rate = congestion->rate + steps * congestion->timely_parameters->additive;

	congestion->rate = rate < congestion->line_rate ? rate : congestion->line_rate;
}

/* By `share` of the rate, in 1/UNIT, and never by more than half: where acknowledgements are rare, one long round trip would stop the flow
 * for good. */
static void slower(struct vb_roce_congestion *congestion, uint64_t share)
{
	uint64_t least = congestion->timely_parameters->minimum, rate;

	share = share < UNIT / 2 ? share : UNIT / 2;
	rate = congestion->rate / UNIT * (UNIT - share);
	congestion->rate = rate > least ? rate : least;
}

void vb_timely_round_trip(struct vb_roce_congestion *congestion, vb_time sample)
{
	const struct vb_timely_parameters *parameters = congestion->timely_parameters;
	struct vb_timely *timely = &congestion->timely;
	vb_time change = timely->previous ? sample - timely->previous : 0;

	timely->previous = sample;
	timely->difference += (change - timely->difference) * (vb_time)parameters->smoothing / UNIT;
	if (sample < parameters->low) {
		timely->rising = 0;
		faster(congestion, 1);
	} else if (sample > parameters->high) {
		timely->rising = 0;
		slower(congestion, parameters->decrease * (uint64_t)(sample - parameters->high) / (uint64_t)sample);
	} else if (timely->difference <= 0) {
		faster(congestion, ++timely->rising >= HURRIED ? HURRIED : 1);
	} else {
		timely->rising = 0;
		slower(congestion, parameters->decrease * (uint64_t)timely->difference / (uint64_t)parameters->minimum_trip);
	}
}
