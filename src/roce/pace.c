/* SPDX-License-Identifier: MIT
 *
 * Pacing: what is sent is booked as if it left at the rate, one after another, and when the booked time lies too far ahead the queue
 * pair waits. RC has the rate that congestion control gives it, if any. UC and UD have nothing that clocks them but time: one rate
 * for all (VB_PACE_*).
 */
#include "roce/engine.h"

/* What Ethernet (with preamble and gap), IPv4, UDP, BTH and ICRC add to the payload of a packet. */
enum { ON_THE_LINE = 14 + 4 + 20 + 20 + 8 + 12 + 4 };
#define PICOSECONDS 1000000000000ull

bool vb_roce_pace_allows(struct vb_roce_requester *requester, vb_time now)
{
	struct vb_roce_congestion *congestion = &requester->congestion;
	vb_time burst = congestion->burst;

	if (congestion->algorithm->passed)
		congestion->algorithm->passed(congestion, now, 0);
	if (requester->paced - now > (requester->pace_until != 0 ? burst / 2 : burst)) {
		requester->pace_until = requester->paced - burst / 2;
		return false;
	}
	requester->pace_until = 0;
	return true;
}

void vb_roce_pace_sent(struct vb_roce_requester *requester, vb_time now, uint32_t count, uint32_t payload)
{
	struct vb_roce_congestion *congestion = &requester->congestion;
	uint64_t bytes = (uint64_t)count * (payload + ON_THE_LINE), time;

	/* 64 packets of 4 KiB: below 2^62. */
	time = bytes * 8 * PICOSECONDS / congestion->rate + requester->pace_rest;
	if (requester->paced < now)
		requester->paced = now;
	requester->paced += (vb_time)(time / 1000);
	requester->pace_rest = (uint32_t)(time % 1000);
	if (congestion->algorithm->passed)
		congestion->algorithm->passed(congestion, now, bytes);
}

bool vb_roce_work_paced(struct vb_roce_requester *requester, uint32_t charge, vb_time now)
{
	if (requester->paced < now)
		requester->paced = now;
	if (requester->paced - now > (requester->pace_until != 0 ? VB_PACE_RESUME : VB_PACE_BURST)) {
		requester->pace_until = requester->paced - VB_PACE_RESUME;
		return false;
	}
	requester->pace_until = 0;
	requester->paced += VB_NANOSECONDS(charge < VB_PACE_PACKET ? VB_PACE_PACKET : charge);
	return true;
}
