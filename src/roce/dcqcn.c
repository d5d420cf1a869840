/* SPDX-License-Identifier: MIT
 *
 * DCQCN, the reaction point: Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015, section 4
 * (figure 7); the congestion point is a switch's RED, the notification point the responder (roce.c sends CNPs).
 *
 *   CNP      target = rate, rate falls by alpha / 2, alpha rises towards 1; stages begin anew
 *   rise     by time and by bytes, each in stages. Fewer than F of either: rate goes halfway to the target (fast recovery).
 *            F of one: the target rises by R_AI first (additive). F of both: by R_HAI for each stage beyond (hyper)
 *   no CNP   alpha falls
 *
 * No clock runs for it. What time has done is worked out when a packet is to be sent or a CNP comes; in between it
 * makes no difference. An adapter differs in numbers, and in that alpha moves once in a period whatever happened in it,
 * that CNPs within a few microseconds cut once, and that the second of two cuts leaves the target where it was.
 * Numbers: see the table; those of the adapter are what NVIDIA documents as defaults from ConnectX-4 on, and what
 * simulators use.
 */
#include "roce/congestion.h"

const struct vb_dcqcn_parameters vb_dcqcn_paper = {
	.name = "paper",
	.gain = 4, /* 1/256 */
	.alpha_period = VB_MICROSECONDS(55),
	.timer = VB_MICROSECONDS(55),
	.byte_counter = 10 * 1000 * 1000,
	.recovery_steps = 5,
	.additive = 40 * 1000 * 1000ull,
	.hyper = 200 * 1000 * 1000ull,
	.hyper_grows = true,
	.minimum = 10 * 1000 * 1000ull,
};

const struct vb_dcqcn_parameters vb_dcqcn_adapter = {
	.name = "adapter",
	.gain = 5, /* 1 - 1019/1024 */
	.alpha_period = VB_MICROSECONDS(1),
	.alpha_by_period = true,
	.cut_interval = VB_MICROSECONDS(4),
	.timer = VB_MICROSECONDS(300),
	.byte_counter = 32767,
	.recovery_steps = 1,
	.additive = 5 * 1000 * 1000ull,
	.hyper = 50 * 1000 * 1000ull,
	.minimum = 1000 * 1000ull,
	.target_stays = true,
};

enum { GAIN_UNIT = 1024 };

void vb_dcqcn_start(struct vb_roce_congestion *congestion, const struct vb_roce_policy *policy)
{
	vb_roce_window_start(congestion, policy);
	congestion->rate = congestion->line_rate = policy->line_rate;
	congestion->dcqcn = (struct vb_dcqcn){
		.parameters = policy->dcqcn,
		.alpha = VB_DCQCN_ONE,
		.target = policy->line_rate,
	};
}

static uint64_t at_most(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void raise_alpha(struct vb_dcqcn *dcqcn)
{
	dcqcn->alpha += (VB_DCQCN_ONE - dcqcn->alpha) * (uint64_t)dcqcn->parameters->gain / GAIN_UNIT;
}

/* alpha (1 - g)^periods, by squaring. */
static void lower_alpha(struct vb_dcqcn *dcqcn, uint64_t periods)
{
	uint64_t factor = (uint64_t)(GAIN_UNIT - dcqcn->parameters->gain) << 22, alpha = (uint64_t)dcqcn->alpha << 12;

	for (; periods > 0 && alpha > 0; periods >>= 1) {
		if (periods & 1)
			alpha = alpha * factor >> 32;
		factor = factor * factor >> 32;
	}
	dcqcn->alpha = (uint32_t)(alpha >> 12);
}

static void move_alpha(struct vb_dcqcn *dcqcn, vb_time now)
{
	vb_time period = dcqcn->parameters->alpha_period;
	uint64_t periods = (uint64_t)((now - dcqcn->alpha_at) / period);

	if (periods == 0)
		return;
	dcqcn->alpha_at += (vb_time)periods * period;
	if (dcqcn->alpha_pending) {
		raise_alpha(dcqcn);
		dcqcn->alpha_pending = false;
		periods--;
	}
	lower_alpha(dcqcn, periods);
}

/* Stages are counted when they are over: so F of them recover. */
static void rise(struct vb_roce_congestion *congestion)
{
	struct vb_dcqcn *dcqcn = &congestion->dcqcn;
	uint32_t steps = dcqcn->parameters->recovery_steps, by_time = dcqcn->timer_stage, by_bytes = dcqcn->byte_stage;
	/* Without a byte counter time alone goes through all three. */
	uint32_t least = dcqcn->parameters->byte_counter == 0 || by_time < by_bytes ? by_time : by_bytes;

	if (least > steps)
		dcqcn->target += dcqcn->parameters->hyper * (dcqcn->parameters->hyper_grows ? least - steps : 1);
	else if (by_time >= steps || by_bytes >= steps)
		dcqcn->target += dcqcn->parameters->additive;
	dcqcn->target = at_most(dcqcn->target, congestion->line_rate);
	congestion->rate = (congestion->rate + dcqcn->target) / 2;
}

static void pass_time(struct vb_roce_congestion *congestion, vb_time now)
{
	struct vb_dcqcn *dcqcn = &congestion->dcqcn;
	vb_time timer = dcqcn->parameters->timer;

	while (now - dcqcn->timer_at >= timer) {
		dcqcn->timer_at += timer;
		rise(congestion);
		dcqcn->timer_stage++;
		/* At the top there is nothing left to do. */
		if (congestion->rate + 1 >= congestion->line_rate) {
			congestion->rate = dcqcn->target = congestion->line_rate;
			dcqcn->timer_at += (now - dcqcn->timer_at) / timer * timer;
		}
	}
}

void vb_dcqcn_passed(struct vb_roce_congestion *congestion, vb_time now, uint64_t bytes)
{
	struct vb_dcqcn *dcqcn = &congestion->dcqcn;
	uint64_t counter = dcqcn->parameters->byte_counter;

	if (!dcqcn->began)
		return;
	pass_time(congestion, now);
	dcqcn->bytes += bytes;
	while (counter != 0 && dcqcn->bytes >= counter) {
		dcqcn->bytes -= counter;
		rise(congestion);
		dcqcn->byte_stage++;
	}
}

static void begin(struct vb_roce_congestion *congestion, vb_time now)
{
	struct vb_dcqcn *dcqcn = &congestion->dcqcn;

	dcqcn->began = true;
	dcqcn->alpha_at = dcqcn->timer_at = now;
	dcqcn->cut_at = now - dcqcn->parameters->cut_interval;
}

static void cut(struct vb_roce_congestion *congestion)
{
	struct vb_dcqcn *dcqcn = &congestion->dcqcn;
	uint64_t rate = congestion->rate - congestion->rate / 2 * dcqcn->alpha / VB_DCQCN_ONE;

	if (!dcqcn->parameters->target_stays || dcqcn->timer_stage > 0 || dcqcn->byte_stage > 0)
		dcqcn->target = congestion->rate;
	congestion->rate = rate > dcqcn->parameters->minimum ? rate : dcqcn->parameters->minimum;
}

bool vb_dcqcn_notified(struct vb_roce_congestion *congestion, vb_time now)
{
	struct vb_dcqcn *dcqcn = &congestion->dcqcn;
	bool first = !dcqcn->began;

	if (first)
		begin(congestion, now);
	pass_time(congestion, now);
	move_alpha(dcqcn, now);
	dcqcn->alpha_pending = dcqcn->parameters->alpha_by_period && !first;
	if (now - dcqcn->cut_at < dcqcn->parameters->cut_interval)
		return false;
	cut(congestion);
	if (!dcqcn->parameters->alpha_by_period) {
		raise_alpha(dcqcn);
		dcqcn->alpha_at = now;
	}
	dcqcn->cut_at = dcqcn->timer_at = now;
	dcqcn->timer_stage = dcqcn->byte_stage = 0;
	dcqcn->bytes = 0;
	return true;
}

uint32_t vb_dcqcn_alpha(const struct vb_roce_congestion *congestion, vb_time now)
{
	struct vb_dcqcn dcqcn = congestion->dcqcn;

	if (dcqcn.began)
		move_alpha(&dcqcn, now);
	return dcqcn.alpha;
}
