/* SPDX-License-Identifier: MIT
 *
 * Responses in full runs. The packets of a run are of one size (wire/burst.h), and the first and the last of a response are longer than
 * those between, by their AETH: each response of 64 KiB would need two runs, and a run costs much the same however short it is. A peer of
 * our own is asked to answer by packets that are each an ONLY, as if each had been asked for alone: they are all of one size, and those of
 * one response follow those of the one before in the same run.
 *
 * A pattern in reserved bits of the request's BTH says so (wire/roce_packet.c). It is a permission: an ordinary response is taken as
 * well, and of what was asked for so, any mixture of the two. Who does not know the pattern does not look at reserved bits (IBA 9.2). Other
 * makes never see it: it is not set before the peer has answered a probe (flow.c), which is sent when a few long reads were asked for.
 */
#include "roce/engine.h"

enum {
	ENOUGH = 16,       /* long reads, until it is worth while to ask what peer it is */
	LEAST_PACKETS = 3, /* of two, or one, none is unlike the others */
};

/* Who may not send WRITEs as a series plays an adapter, or has no runs. */
bool vb_roce_singly_suits(const struct vb_roce_requester *requester, uint32_t packets)
{
	return requester->peer_remembers && requester->series.allowed && packets >= LEAST_PACKETS;
}

void vb_roce_singly_asked(struct vb_roce_requester *requester, uint32_t packets)
{
	if (!requester->peer_remembers && packets >= LEAST_PACKETS && requester->series.allowed &&
	    vb_roce_is_time_to_ask(&requester->long_reads, ENOUGH))
		requester->peer_ask_owed = true;
}
