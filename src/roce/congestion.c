/* SPDX-License-Identifier: MIT
 *
 * The window of one queue pair: see congestion.h. Growth is faster and the cut gentler than TCP's, because the
 * resource is a buffer of constant size a few tens of microseconds away and not a share of a long line: an eighth
 * of the window per round trip (a sixty-fourth near where loss was met last), and to 7/10 on a loss.
 */
#include "roce/congestion.h"

#include "wire/burst.h"

enum {
	GROWTH_DIVISOR = 8,
	CAUTIOUS_DIVISOR = 64,
	/* Of a window, one packet in so many may be lost by chance, and one more. */
	CHANCE_DIVISOR = 32,
};

static uint32_t limited(uint32_t value, uint32_t low, uint32_t high)
{
	if (value < low)
		return low;
	return value > high ? high : value;
}

uint32_t vb_roce_congestion_floor(const struct vb_roce_congestion *congestion)
{
	return limited(vb_roce_charge(congestion->mtu * VB_WINDOW_MIN_PACKETS, VB_WINDOW_MIN_PACKETS), VB_WINDOW_MIN,
		       VB_WINDOW_START);
}

void vb_roce_congestion_init(struct vb_roce_congestion *congestion, uint32_t mtu, const struct vb_roce_policy *policy)
{
	*congestion = (struct vb_roce_congestion){
		.algorithm = policy->algorithm,
		.mtu = mtu,
		.burst = policy->burst,
		.responses = {.size = VB_READ_WINDOW_START, .most = VB_WINDOW_MAX, .threshold = VB_WINDOW_MAX, .ceiling = VB_WINDOW_MAX},
	};
	policy->algorithm->start(congestion, policy);
}

void vb_roce_window_start(struct vb_roce_congestion *congestion, const struct vb_roce_policy *policy)
{
	congestion->window_is_fixed = policy->window != 0;
	congestion->requests = (struct vb_roce_window){
		.size = policy->window ? policy->window : VB_WINDOW_START,
		.most = VB_WINDOW_MAX,
		.threshold = VB_WINDOW_MAX,
		.ceiling = VB_WINDOW_MAX,
	};
}

static uint32_t growth(const struct vb_roce_window *window, uint32_t charge)
{
	if (window->size < window->threshold)
		return charge;
	return charge / (window->size < window->ceiling / 8 * 7 ? GROWTH_DIVISOR : CAUTIOUS_DIVISOR);
}

static void arrived(struct vb_roce_window *window, uint32_t charge, uint32_t in_flight, struct psn psn)
{
	if (window->recovering && !psn_before(psn, window->recovered_at))
		window->recovering = false;
	if (window->lost > 0 && !psn_before(psn, window->counted_to))
		window->lost = 0;
	/* A window that is not used says nothing about a larger one. */
	if (!window->recovering && in_flight >= window->size / 2)
		window->size = limited(window->size + growth(window, charge), 0, window->most);
}

static void cut(struct vb_roce_window *window, uint32_t floor)
{
	window->ceiling = window->size;
	window->size = limited((uint32_t)((uint64_t)window->size * 7 / 10), floor, VB_WINDOW_MAX);
	window->threshold = window->size;
}

static void lost(struct vb_roce_window *window, uint32_t floor, struct psn high)
{
	if (window->recovering)
		return;
	cut(window, floor);
	window->recovering = true;
	window->recovered_at = high;
}

void vb_roce_window_acknowledged(struct vb_roce_congestion *congestion, uint32_t charge, uint32_t in_flight,
				 struct psn psn)
{
	if (!congestion->window_is_fixed)
		arrived(&congestion->requests, charge, in_flight, psn);
}

void vb_roce_congestion_arrived(struct vb_roce_congestion *congestion, uint32_t charge, uint32_t in_flight,
				struct psn psn)
{
	arrived(&congestion->responses, charge, in_flight, psn);
}

void vb_roce_window_lost(struct vb_roce_congestion *congestion, struct psn high)
{
	if (!congestion->window_is_fixed)
		lost(&congestion->requests, vb_roce_congestion_floor(congestion), high);
}

/* Were that more losses in this window than chance explains? */
static bool is_no_chance(struct vb_roce_window *window, uint32_t mtu, uint32_t packets, struct psn high)
{
	if (window->lost == 0)
		window->counted_to = high;
	window->lost += packets;
	return window->lost > 1 + window->size / vb_roce_charge(mtu, 1) / CHANCE_DIVISOR;
}

void vb_roce_congestion_one_lost(struct vb_roce_congestion *congestion, struct psn high)
{
	if (is_no_chance(&congestion->requests, congestion->mtu, 1, high))
		congestion->algorithm->lost(congestion, high);
}

/* Back to the usual size; from there it grows slowly. */
static void narrow(struct vb_roce_window *window)
{
	if (window->size <= VB_WINDOW_MAX)
		return;
	window->size = window->threshold = VB_WINDOW_MAX;
	window->ceiling = window->most;
}

void vb_roce_congestion_widen(struct vb_roce_congestion *congestion, bool may)
{
	struct vb_roce_window *window = &congestion->responses;

	/* Nothing was lost so far. */
	if (may && window->most == VB_WINDOW_MAX && window->threshold == VB_WINDOW_MAX)
		window->threshold = window->ceiling = VB_READ_WINDOW_WIDE;
	window->most = may ? VB_READ_WINDOW_WIDE : VB_WINDOW_MAX;
	if (may)
		return;
	window->size = limited(window->size, 0, VB_WINDOW_MAX);
	window->threshold = limited(window->threshold, 0, VB_WINDOW_MAX);
}

void vb_roce_congestion_some_responses_lost(struct vb_roce_congestion *congestion, uint32_t packets, struct psn high)
{
	/* By chance or not: a gap holds up all that is behind it, and that is more in a wide window. */
	narrow(&congestion->responses);
	if (is_no_chance(&congestion->responses, congestion->mtu, packets, high))
		vb_roce_congestion_response_lost(congestion, high);
}

void vb_roce_congestion_response_lost(struct vb_roce_congestion *congestion, struct psn high)
{
	lost(&congestion->responses, vb_roce_congestion_floor(congestion), high);
}

/* Half is remembered; from the floor it is soon found again if the loss was a chance one. */
static void silent(struct vb_roce_window *window, uint32_t floor, uint32_t size)
{
	window->ceiling = window->size;
	window->threshold = limited(window->size / 2, floor, VB_WINDOW_MAX);
	window->size = limited(size, floor, VB_WINDOW_MAX);
	window->recovering = false;
}

void vb_roce_window_timed_out(struct vb_roce_congestion *congestion)
{
	uint32_t floor = vb_roce_congestion_floor(congestion);

	if (!congestion->window_is_fixed)
		silent(&congestion->requests, floor, floor);
	silent(&congestion->responses, floor, congestion->responses.size / 2);
}

bool vb_roce_window_notified(struct vb_roce_congestion *congestion, vb_time now)
{
	if (congestion->cut_at != 0 && now - congestion->cut_at < VB_CNP_INTERVAL)
		return false;
	congestion->cut_at = now;
	if (!congestion->window_is_fixed)
		cut(&congestion->requests, vb_roce_congestion_floor(congestion));
	return true;
}

/* Responses come in runs (wire/burst.h). The last packet of one response, the first of the next, which are longer than the others, and
 * one of the others make a run, unless all are alike; what is between is best as many whole runs as there are. */
static uint32_t whole_runs(uint32_t packets, uint32_t mtu, bool singly)
{
	enum { SHORT = 4 };
	uint32_t run = vb_burst_run_limit(singly ? mtu + VB_AETH_LENGTH : mtu), seam = singly ? 0 : 3;
	uint32_t rest = packets > seam ? (packets - seam) % run : 0;

	return packets - rest >= run && rest < run / SHORT ? packets - rest : packets;
}

uint32_t vb_roce_congestion_read_piece(const struct vb_roce_congestion *congestion, uint32_t left, bool singly)
{
	uint32_t pieces = singly && congestion->responses.size >= VB_READ_WINDOW_WIDE / 4 * 3 ? VB_READ_PIECES_WIDE : 1;
	uint32_t most = limited(pieces * VB_READ_PIECE_MAX / congestion->mtu, 1, pieces * VB_READ_PIECE_MAX_PACKETS);
	/* Two pieces in a window, so that the next is asked for while one arrives; the full size stays whole in the
	 * window that a QP starts with. */
	uint32_t fits = congestion->responses.size >= VB_READ_WINDOW_START ?
				most :
				congestion->responses.size / 2 / vb_roce_charge(congestion->mtu, 1);

	fits = limited(fits, VB_READ_PIECE_MIN_PACKETS < most ? VB_READ_PIECE_MIN_PACKETS : most, most);
	return left <= fits ? left : whole_runs(fits, congestion->mtu, singly);
}
