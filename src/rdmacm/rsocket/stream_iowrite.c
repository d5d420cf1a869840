/* SPDX-License-Identifier: MIT
 *
 * riowrite: into memory that the peer has opened (stream_iomap.c).
 */
#include <errno.h>

#include "rdmacm/rsocket/iov.h"
#include "rdmacm/rsocket/stream.h"
#include "rdmacm/rsocket/wait.h"

/* Where `offset` lies with the peer, and how much room follows it there. */
static bool find_target(const struct vb_rsocket *rs, uint64_t offset, struct vb_rstream_span *to)
{
	for (uint32_t i = 0; i < rs->sizes.iomaps; i++) {
		const struct vb_rstream_iomap *iomap = &rs->stream->peer_iomaps[i];

		if (offset < iomap->offset || offset - iomap->offset >= iomap->span.length)
			continue;
		*to = (struct vb_rstream_span){
			.address = iomap->span.address + (offset - iomap->offset),
			.key = iomap->span.key,
			.length = iomap->span.length - (uint32_t)(offset - iomap->offset),
		};
		return true;
	}
	return false;
}

static bool can_write_or_never_will(struct vb_rsocket *rs)
{
	return vb_rstream_has_room(rs->stream) || !rs->stream->may_write;
}

ssize_t vb_rstream_iowrite(struct vb_rsocket *rs, const void *bytes, size_t count, off_t offset, int flags)
{
	struct iovec buffer = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = count};
	vb_time patience = vb_rsocket_patience(rs, flags, rs->options.send_timeout);
	struct vb_iov_cursor from;
	ssize_t total = 0, result;

	result = vb_iov_cursor_init(&from, &buffer, 1);
	if (result == 0)
		result = vb_rstream_await_connection(rs, patience);
	if (result == 0)
		result = vb_rstream_iomap_announce(rs, patience);
	if (result != 0)
		return result;
	while (from.left > 0) {
		struct vb_rstream_span to;

		/* Also takes news of mappings that have arrived. */
		result = vb_rsocket_wait(rs, patience, can_write_or_never_will);
		if (result != 0)
			break;
		if (!rs->stream->may_write)
			result = vb_rstream_why_not_send(rs);
		else if (!find_target(rs, (uint64_t)offset, &to))
			result = -EINVAL;
		else
			result = vb_rstream_write_piece(rs, &from, to.length, &to, false);
		if (result < 0)
			break;
		total += result;
		offset += result;
	}
	return total > 0 ? total : result;
}
