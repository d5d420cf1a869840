/* SPDX-License-Identifier: MIT
 *
 * A long message in packets that are all of one size. As one WRITE with immediate data its first packet is longer than those that
 * follow it, and so is its last: it leaves as three runs (wire/burst.h), and a run costs much the same however short it is. So it is cut in
 * two: a WRITE of as many whole packets as it has, which roce/series.c makes alike, and behind it a WRITE with immediate data of as many
 * bytes as make one more packet of that size. Those of the next message follow in the same run.
 *
 * The second goes back over bytes that the first has written, where what is left is less than that: the same bytes to the same places,
 * which a peer does not look at before it has the immediate data.
 *
 * Pure.
 */
#ifndef VB_RDMACM_RSOCKET_STREAM_CUT_H
#define VB_RDMACM_RSOCKET_STREAM_CUT_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

enum { VB_RSTREAM_PIECES = 2 };          /* of a ring */

struct vb_rstream_cut {
	struct ibv_sge first[VB_RSTREAM_PIECES], last[VB_RSTREAM_PIECES];
	int first_count, last_count;
	uint32_t last_at;                /* where in the message the second begins */
};

/* `packet`: payload of a packet, 0: it does not matter. False: the message is better off whole. */
bool vb_rstream_cut(struct vb_rstream_cut *cut, const struct ibv_sge *pieces, int count, uint32_t packet);

#endif
