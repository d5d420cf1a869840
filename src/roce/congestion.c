/* SPDX-License-Identifier: MIT
 *
 * The window of one queue pair: see congestion.h. Growth is faster and the cut gentler than TCP's, because the
 * resource is a buffer of constant size a few tens of microseconds away and not a share of a long line: an eighth
 * of the window per round trip, and to 7/10 on a loss.
 */
#include "roce/congestion.h"

enum { GROWTH_DIVISOR = 8 };

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

void vb_roce_congestion_init(struct vb_roce_congestion *congestion, uint32_t mtu)
{
	*congestion = (struct vb_roce_congestion){
		.mtu = mtu,
		.window = VB_WINDOW_START,
		.threshold = VB_WINDOW_MAX,
		.read_window = VB_READ_WINDOW_START,
		.read_threshold = VB_READ_WINDOW_MAX,
	};
}

static uint32_t grown(uint32_t window, uint32_t threshold, uint32_t charge, uint32_t max)
{
	uint64_t more = window < threshold ? charge : charge / GROWTH_DIVISOR;

	return window + more > max ? max : (uint32_t)(window + more);
}

static uint32_t cut(uint32_t window)
{
	return (uint32_t)((uint64_t)window * 7 / 10);
}

void vb_roce_congestion_acknowledged(struct vb_roce_congestion *congestion, uint32_t charge, uint32_t in_flight,
				     struct psn psn)
{
	if (congestion->recovering && !psn_before(psn, congestion->recovered_at))
		congestion->recovering = false;
	/* A window that is not used says nothing about a larger one. */
	if (!congestion->recovering && in_flight >= congestion->window / 2)
		congestion->window = grown(congestion->window, congestion->threshold, charge, VB_WINDOW_MAX);
}

void vb_roce_congestion_arrived(struct vb_roce_congestion *congestion, uint32_t charge, uint32_t in_flight,
				struct psn psn)
{
	if (congestion->read_recovering && !psn_before(psn, congestion->read_recovered_at))
		congestion->read_recovering = false;
	if (!congestion->read_recovering && in_flight >= congestion->read_window / 2)
		congestion->read_window = grown(congestion->read_window, congestion->read_threshold, charge,
						VB_READ_WINDOW_MAX);
}

void vb_roce_congestion_lost(struct vb_roce_congestion *congestion, struct psn high)
{
	if (congestion->recovering)
		return;
	congestion->recovering = true;
	congestion->recovered_at = high;
	congestion->window = limited(cut(congestion->window), vb_roce_congestion_floor(congestion), VB_WINDOW_MAX);
	congestion->threshold = congestion->window;
}

void vb_roce_congestion_response_lost(struct vb_roce_congestion *congestion, struct psn high)
{
	if (congestion->read_recovering)
		return;
	congestion->read_recovering = true;
	congestion->read_recovered_at = high;
	congestion->read_window = limited(cut(congestion->read_window), vb_roce_congestion_floor(congestion),
					  VB_READ_WINDOW_MAX);
	congestion->read_threshold = congestion->read_window;
}

void vb_roce_congestion_timeout(struct vb_roce_congestion *congestion)
{
	uint32_t floor = vb_roce_congestion_floor(congestion);

	/* Half is remembered; from the floor it is soon found again if the loss was a chance one. */
	congestion->threshold = limited(congestion->window / 2, floor, VB_WINDOW_MAX);
	congestion->read_threshold = limited(congestion->read_window / 2, floor, VB_READ_WINDOW_MAX);
	congestion->window = floor;
	congestion->read_window = congestion->read_threshold;
	congestion->recovering = congestion->read_recovering = false;
}

bool vb_roce_congestion_notified(struct vb_roce_congestion *congestion, vb_time now)
{
	if (congestion->cut_at != 0 && now - congestion->cut_at < VB_CNP_INTERVAL)
		return false;
	congestion->cut_at = now;
	congestion->window = limited(cut(congestion->window), vb_roce_congestion_floor(congestion), VB_WINDOW_MAX);
	congestion->threshold = congestion->window;
	return true;
}

uint32_t vb_roce_congestion_read_piece(const struct vb_roce_congestion *congestion)
{
	uint32_t most = limited(VB_READ_PIECE_MAX / congestion->mtu, 1, VB_READ_PIECE_MAX_PACKETS);
	/* Two pieces in a window, so that the next is asked for while one arrives; the full size stays whole in the
	 * window that a QP starts with. */
	uint32_t fits = congestion->read_window >= VB_READ_WINDOW_START ?
				most :
				congestion->read_window / 2 / vb_roce_charge(congestion->mtu, 1);

	return limited(fits, VB_READ_PIECE_MIN_PACKETS < most ? VB_READ_PIECE_MIN_PACKETS : most, most);
}
