/* SPDX-License-Identifier: MIT
 *
 * A stream of WRITEs in full runs. The packets of a run are of one size (wire/burst.h), and the first packet of a WRITE is longer
 * than those that follow it, by its RETH: each message would need two runs, and a run costs the same however short it is. So a WRITE of
 * a few packets that has others behind it leaves as a series of WRITEs of one packet each, which are all of one size and join
 * those of its neighbours. A responder of any make takes them for what they are: the same bytes come to the same places in the same order,
 * nothing else can be seen of a WRITE, and what is acknowledged are PSNs.
 *
 * Where it would make a difference it is not done: of a message that is refused nothing is written, for its whole range is checked with
 * its first packet (IBA 9.7.4.1.6), while of a series those before the refused one would be. So the range must be known to be
 * good, by lying between those of WRITEs that left before it, in one piece and by the same key. A key stands for one range without
 * gaps, and the responder goes by the order of PSNs: it does not come to the series unless it has found the others good.
 *
 * One case is left. A peer that re-registers its region under the same key, shorter than before, refuses a WRITE across the new end as
 * ever, but the packets of it that lie inside of the region are written.
 */
#include "roce/engine.h"

enum {
	/* Of 64 KiB at a path MTU of 1024, one run and a 32nd instead of two: 40.3 to 46.2 Gb/s, and a tenth less of either side's
	 * processor time; of 128 KiB 41.5 to 43.7. Longer ones have more packets in their runs as they are. */
	MOST_PACKETS = 128,
	/* To a peer that drops what comes ahead of a missing packet; one that keeps it (bulk_ahead.c) has 27.5 to 30.0 Gb/s of longer
	 * ones, with 1 % lost. */
	MOST_WHERE_LOST = 16,
};

void vb_roce_series_open(struct vb_roce_series *series, bool allowed)
{
	*series = (struct vb_roce_series){.allowed = allowed};
}

static bool is_known(const struct vb_roce_series *series, uint32_t rkey, uint64_t begin, uint64_t end)
{
	return series->rkey == rkey && series->begin <= begin && end <= series->end;
}

static void note_range(struct vb_roce_series *series, uint32_t rkey, uint64_t begin, uint64_t end)
{
	bool same = series->rkey == rkey && series->begin != series->end;

	series->rkey = rkey;
	series->begin = same && series->begin < begin ? series->begin : begin;
	series->end = same && series->end > end ? series->end : end;
}

bool vb_roce_series_suits(struct vb_qp *qp, const struct vb_send_wqe *wqe, uint32_t packets, vb_time now)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;
	struct vb_roce_series *series = &requester->series;
	uint64_t begin = wqe->rdma.address, end = begin + wqe->length;

	/* One that wraps around is refused. */
	if (!series->allowed || wqe->opcode != IBV_WR_RDMA_WRITE || packets < 2 || end < begin)
		return false;
	if (!is_known(series, wqe->rdma.rkey, begin, end)) {
		note_range(series, wqe->rdma.rkey, begin, end);
		return false;
	}
	if (packets > (requester->peer != VB_PEER_SELECTIVE && vb_roce_timers_is_losing(requester, now) ? MOST_WHERE_LOST : MOST_PACKETS))
		return false;
	/* Two packets, of which the second is shorter, are a run as they are. */
	return requester->send_index + 1 != qp->send.head &&
	       (packets > 2 || wqe->length == packets * vb_roce_engine(qp)->mtu);
}
