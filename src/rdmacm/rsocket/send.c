/* SPDX-License-Identifier: MIT
 *
 * Sending on a stream: bytes are copied into the send buffer and written into the peer's current target.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>

#include "rdmacm/rsocket/limits.h"
#include "rdmacm/rsocket/rsocket.h"

static bool can_send_or_never_will(const struct vb_rsocket *rs)
{
	return vb_rsocket_can_send(rs) || !rs->writable || !vb_rsocket_is_connected(rs);
}

static int why_not_writable(struct vb_rsocket *rs)
{
	int error = rs->error;

	if (rs->state == VB_RSOCKET_FAILED && error != 0) {
		rs->error = 0;
		return -error;
	}
	if (rs->state == VB_RSOCKET_FRESH || rs->state == VB_RSOCKET_BOUND || rs->state == VB_RSOCKET_LISTENING)
		return -ENOTCONN;
	return rs->state == VB_RSOCKET_CONNECTED ? -EPIPE : -ECONNRESET;
}

static uint32_t smallest(uint32_t a, uint32_t b, uint32_t c)
{
	a = a < b ? a : b;
	return a < c ? a : c;
}

/* One write of at most `length` bytes from the list, starting `skip` bytes into its first element. Bytes or -errno. */
static ssize_t send_some(struct vb_rsocket *rs, const struct iovec *iov, unsigned count, size_t skip, size_t length)
{
	volatile struct vb_rsocket_span *target = &rs->targets[rs->target];
	struct iovec part[16];
	uint64_t address = target->address;
	uint32_t key = target->key, size;
	unsigned used = 0;
	size_t total = 0;
	int error;

	size = smallest(target->length, rs->send_free, VB_RSOCKET_LARGEST_WRITE);
	if (size > length)
		size = (uint32_t)length;
	while (used < 16 && used < count && total < size) {
		part[used].iov_base = (uint8_t *)iov[used].iov_base + (used == 0 ? skip : 0);
		part[used].iov_len = iov[used].iov_len - (used == 0 ? skip : 0);
		total += part[used].iov_len;
		used++;
	}
	if (size > total)
		size = (uint32_t)total;

	rs->sent++;
	rs->send_slots--;
	rs->send_free -= size;
	/* The peer does not touch a target until it was filled. */
	target->address = address + size;
	target->length -= size;
	if (target->length == 0 && ++rs->target == VB_RSOCKET_TARGETS)
		rs->target = 0;
	error = vb_rsocket_write(rs, part, used, size, address, key, vb_rsocket_message(VB_RSOCKET_DATA, size), true);
	return error != 0 ? error : (ssize_t)size;
}

static size_t length_of(const struct iovec *iov, int count)
{
	size_t length = 0;

	for (int i = 0; i < count; i++)
		length += iov[i].iov_len;
	return length;
}

ssize_t vb_rsocket_send(struct vb_rsocket *rs, const struct iovec *iov, int count, int flags)
{
	size_t left = length_of(iov, count), sent = 0, skip = 0;
	bool nonblocking = rs->nonblocking || (flags & MSG_DONTWAIT);
	int error = 0;

	if (rs->state == VB_RSOCKET_CONNECTING) {
		error = vb_rsocket_continue(rs);
		if (error != 0)
			return error == -EINPROGRESS ? -EAGAIN : error;
	}
	if (!vb_rsocket_is_connected(rs) || !rs->writable)
		return why_not_writable(rs);
	if (rs->mappings_pending) {
		error = vb_rsocket_announce_mappings(rs, flags);
		if (error != 0)
			return error;
	}
	while (left != 0) {
		ssize_t now;

		if (!vb_rsocket_can_send(rs)) {
			error = vb_rsocket_wait(rs, can_send_or_never_will, nonblocking, -1);
			if (error == 0 && !vb_rsocket_can_send(rs))
				error = why_not_writable(rs);
			if (error != 0)
				break;
		}
		while (count > 0 && skip == iov->iov_len) {
			iov++;
			count--;
			skip = 0;
		}
		now = send_some(rs, iov, (unsigned)count, skip, left);
		if (now < 0) {
			error = (int)now;
			break;
		}
		left -= (size_t)now;
		sent += (size_t)now;
		for (skip += (size_t)now; count > 0 && skip >= iov->iov_len && skip != 0; iov++, count--)
			skip -= iov->iov_len;
	}
	return sent != 0 ? (ssize_t)sent : error;
}
