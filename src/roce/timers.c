/* SPDX-License-Identifier: MIT
 *
 * The requester's clocks: when they run. What happens when they run out: timers_expire.c.
 *
 *   retransmit_at   nothing came for a retransmission timeout: go back. The timeout is measured (smoothed round
 *                   trip and four times its variation, doubled at each expiry), so that a lost packet costs
 *                   milliseconds. What was sent twice measures nothing (Karn). So where the path has become longer than the
 *                   timeout, one doubling more stays each time that it expired too early (`stretch`), until a packet that was
 *                   sent only once is answered; otherwise no round trip would ever be measured again. The same for the probe.
 *   probe_at        the end of what was sent seems lost, or an answer: send the oldest and the last packet once more. If one
 *                   of them was missing it is there now, if others are missing too they provoke a NAK, if only an
 *                   answer was lost the oldest brings another. Two packets, sooner than the whole window is sent again.
 *                   Sooner still where packets were lost a moment ago.
 *   giving up       at the first expiry after retry_cnt + 1 times the longest that an adapter may wait for each try (IBA
 *                   9.7.6.1.3, queue/patience.h): our earlier, measured retransmissions do not count against
 *                   retry_cnt. So the last of them has had its time, and it must have left; time for which we were
 *                   away ourselves does not count; and the caller has read all that had come in (vb_roce_gives_up), and
 *                   may know that the peer lives and does not run (vb_roce_extend_wait).
 *                   Timeout 0 never gives up (C9-140).
 *   rnr_until       the wait that an RNR NAK asked for. Both others stand still meanwhile.
 */
#include "queue/patience.h"
#include "roce/engine.h"

#define CEILING VB_SECONDS(2)
#define PROBE_FLOOR VB_MILLISECONDS(1)
#define LOSSY_PROBE_FLOOR VB_MICROSECONDS(50)
#define LOSS_IS_RECENT VB_MILLISECONDS(10)

enum { UNMEASURED = 5 /* times the least */, MAX_STRETCH = 9, MOST_EXPIRIES = 8 };

vb_time vb_roce_timers_retransmit(const struct vb_qp *qp)
{
	const struct vb_roce_requester *requester = &vb_roce_engine_of(qp)->requester;
	vb_time timeout = vb_patience_timeout(qp), measured = UNMEASURED * requester->least_timeout;

	if (requester->round_trip != 0) {
		measured = requester->round_trip + 4 * requester->variation;
		measured = measured < requester->least_timeout ? requester->least_timeout : measured;
	}
	measured <<= requester->backoff;
	if (measured > CEILING)
		measured = CEILING;
	return timeout != 0 && timeout < measured ? timeout : measured;
}

bool vb_roce_timers_is_losing(const struct vb_roce_requester *requester, vb_time now)
{
	return requester->lost_at != 0 && now - requester->lost_at < LOSS_IS_RECENT;
}

static vb_time probe_wait(const struct vb_roce_requester *requester, vb_time now)
{
	vb_time wait = 2 * requester->round_trip + 4 * requester->variation;

	if (!vb_roce_timers_is_losing(requester, now))
		return (wait < PROBE_FLOOR ? PROBE_FLOOR : wait) << requester->probe_stretch;
	/* Where so much is lost, answers are waited for often: better one time too early. Round trips that were measured have had to wait
	 * for selective retransmits; how long these take is known better. */
	if (requester->selective_trip != 0)
		wait = 2 * requester->selective_trip;
	return (wait < LOSSY_PROBE_FLOOR ? LOSSY_PROBE_FLOOR : wait) << requester->probes;
}

void vb_roce_timers_arm_probe(struct vb_roce_requester *requester, vb_time now)
{
	requester->probe_owed = false;
	requester->probe_at = VB_TIME_NEVER;
	if (requester->round_trip != 0 && requester->backoff == 0)
		requester->probe_at = now + probe_wait(requester, now);
}

static void arm(struct vb_qp *qp, vb_time now)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;

	requester->retransmit_at = now + vb_roce_timers_retransmit(qp);
}

void vb_roce_timers_sent(struct vb_qp *qp, vb_time now, struct psn psn, bool answer_expected, bool retransmission)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;

	if (requester->retransmit_at == VB_TIME_NEVER) {
		requester->waiting_since = now;
		arm(qp, now);
	}
	if (retransmission)
		requester->again_owed = false;
	if (!retransmission && !requester->selective_active)
		vb_roce_timers_arm_probe(requester, now);
	/* An answer to a packet that was sent twice does not tell which of the two it answers. */
	if (answer_expected && !retransmission && !requester->sampling) {
		requester->sampling = true;
		requester->sample_psn = psn;
		requester->sample_began = now;
	}
}

static void take_sample(struct vb_roce_requester *requester, vb_time sample)
{
	vb_time difference = sample - requester->round_trip;

	if (requester->round_trip == 0) {
		requester->variation = sample / 2;
		requester->round_trip = sample > 0 ? sample : 1;
	} else {
		requester->variation += ((difference < 0 ? -difference : difference) - requester->variation) / 4;
		requester->round_trip += difference / 8;
	}
	/* Only now is it known that the timeouts are not too short for this path. */
	requester->backoff = requester->stretch = requester->probe_stretch = requester->expiries = 0;
}

/* The timeout expired, and now something is answered. If packets were lost, others were seen to be missing too, or the
 * answer comes as long after what was sent again as answers take. Otherwise it is what was sent first that is answered,
 * so late. That is not certain: a path may have become just so much longer. If it goes on like that, it was the
 * timeout. */
static bool was_too_early(struct vb_roce_requester *requester, vb_time now)
{
	vb_time since = now - requester->expired_at;
	bool lost = requester->gap_seen || since <= 2 * requester->round_trip + 4 * requester->variation;

	requester->gap_seen = false;
	if (lost && ++requester->expiries < MOST_EXPIRIES)
		return false;
	requester->expiries = 0;
	return true;
}

/* Something was answered that was no sample. */
static void take_back(struct vb_roce_requester *requester, vb_time now)
{
	if (requester->probed && requester->probe_stretch < MAX_STRETCH)
		requester->probe_stretch++;
	if (requester->expired && requester->round_trip == 0) {
		/* Nothing is known yet. If it was the packet sent first that is answered, this is too short, and will show. */
		take_sample(requester, now - requester->expired_at);
	} else if (requester->expired && was_too_early(requester, now)) {
		if (requester->stretch < MAX_STRETCH)
			requester->stretch++;
		requester->backoff = requester->stretch;
	} else {
		/* On a bad line hardly a packet is sent only once. */
		if (!requester->expired && requester->stretch > 0 &&
		    (requester->gap_seen || psn_before(requester->expired_high, requester->acknowledged)))
			requester->stretch--;
		if (requester->backoff > requester->stretch)
			requester->backoff--;
	}
}

void vb_roce_timers_progress(struct vb_qp *qp, vb_time now)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;

	if (requester->sampling && psn_before(requester->sample_psn, requester->acknowledged)) {
		requester->sampling = false;
		take_sample(requester, now - requester->sample_began);
		if (requester->congestion.algorithm->round_trip)
			requester->congestion.algorithm->round_trip(&requester->congestion, now - requester->sample_began);
	} else {
		take_back(requester, now);
	}
	requester->expired = requester->probed = false;
	requester->waiting_since = now;
	requester->extension = 0;
	requester->probing = requester->again_owed = false;
	requester->retransmissions = 0;
	requester->rnr_retries = 0;
	requester->probes = 0;
	requester->rnr_until = 0;
	requester->retransmit_at = requester->probe_at = VB_TIME_NEVER;
	requester->probe_owed = false;
	if (vb_roce_requester_outstanding(requester)) {
		arm(qp, now);
		vb_roce_timers_arm_probe(requester, now);
	}
}

void vb_roce_timers_rewound(struct vb_qp *qp, vb_time now)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;

	requester->sampling = requester->probe_owed = false;
	requester->probe_at = VB_TIME_NEVER;
	requester->again_owed = true;
	requester->retransmissions++;
	requester->lost_at = now;
	arm(qp, now);
}

/* The packet was sent twice, but the first of them was said to be missing. Later there are better samples than these. */
void vb_roce_timers_selective_answered(struct vb_roce_requester *requester, vb_time sample)
{
	if (requester->round_trip == 0)
		take_sample(requester, sample);
}

/* What is sent behind it does not put the probe off. */
void vb_roce_timers_sent_selectively(struct vb_qp *qp, vb_time now)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;

	requester->sampling = false;
	requester->gap_seen = true;
	requester->retransmissions++;
	requester->lost_at = now;
	arm(qp, now);
	vb_roce_timers_arm_probe(requester, now);
}

void vb_roce_timers_receiver_not_ready(struct vb_qp *qp, vb_time now, uint8_t code)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;

	requester->rnr_until = now + vb_rnr_timer_delay(code);
	requester->retransmit_at = VB_TIME_NEVER;
}

uint32_t vb_roce_timers_retries(const struct vb_qp *qp)
{
	const struct vb_roce_requester *requester = &vb_roce_engine_of(qp)->requester;
	vb_time patience = vb_patience_in_all(qp), tries = qp->attr.retry_cnt + 1, used;

	if (patience == 0 || requester->retransmissions == 0)
		return 0;
	used = (requester->rewound_at - requester->waiting_since) / (patience / tries);
	return used < tries ? (uint32_t)used : qp->attr.retry_cnt;
}
