/* SPDX-License-Identifier: MIT
 *
 * See stream_cut.h.
 */
#include "rdmacm/rsocket/stream_cut.h"

#include "wire/roce_packet.h"

enum { LEAST_PACKETS = 3 /* two are one run as they are */ };

/* `length` bytes from `from` on. Returns how many elements that takes. */
static int select_bytes(struct ibv_sge *to, const struct ibv_sge *pieces, int count, uint32_t from, uint32_t length)
{
	int selected = 0;

	for (int i = 0; i < count && length > 0; i++) {
		uint32_t skip = from < pieces[i].length ? from : pieces[i].length;
		uint32_t here = pieces[i].length - skip < length ? pieces[i].length - skip : length;

		from -= skip;
		length -= here;
		if (here > 0)
			to[selected++] = (struct ibv_sge){.addr = pieces[i].addr + skip, .length = here, .lkey = pieces[i].lkey};
	}
	return selected;
}

bool vb_rstream_cut(struct vb_rstream_cut *cut, const struct ibv_sge *pieces, int count, uint32_t packet)
{
	uint32_t total = 0, last = packet - VB_IMMEDIATE_LENGTH;

	for (int i = 0; i < count; i++)
		total += pieces[i].length;
	/* What is left behind whole packets must fit the last one. */
	if (packet == 0 || total < LEAST_PACKETS * packet || total % packet > last)
		return false;
	cut->first_count = select_bytes(cut->first, pieces, count, 0, total / packet * packet);
	cut->last_at = total - last;
	cut->last_count = select_bytes(cut->last, pieces, count, cut->last_at, last);
	return true;
}
