/* SPDX-License-Identifier: MIT
 *
 * Copying between one buffer and many.
 */
#include "rdmacm/rsocket/iov.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

int vb_iov_cursor_init(struct vb_iov_cursor *cursor, const struct iovec *iov, size_t count)
{
	size_t total = 0;

	if (count > IOV_MAX)
		return -EINVAL;
	for (size_t i = 0; i < count; i++) {
		if (iov[i].iov_len > SSIZE_MAX - total)
			return -EINVAL;
		total += iov[i].iov_len;
	}
	*cursor = (struct vb_iov_cursor){.iov = iov, .count = (int)count, .left = total};
	return 0;
}

/* The next contiguous piece, at most `most` bytes long; the cursor moves past it. */
static struct iovec take_piece(struct vb_iov_cursor *cursor, size_t most)
{
	struct iovec piece;

	while (cursor->iov->iov_len == cursor->offset) {
		cursor->iov++;
		cursor->count--;
		cursor->offset = 0;
	}
	piece.iov_base = (char *)cursor->iov->iov_base + cursor->offset;
	piece.iov_len = cursor->iov->iov_len - cursor->offset;
	if (piece.iov_len > most)
		piece.iov_len = most;
	cursor->offset += piece.iov_len;
	cursor->left -= piece.iov_len;
	return piece;
}

void vb_iov_cursor_read(struct vb_iov_cursor *cursor, void *to, size_t length)
{
	while (length > 0) {
		struct iovec piece = take_piece(cursor, length);

		memcpy(to, piece.iov_base, piece.iov_len);
		to = (char *)to + piece.iov_len;
		length -= piece.iov_len;
	}
}

void vb_iov_cursor_write(struct vb_iov_cursor *cursor, const void *from, size_t length)
{
	while (length > 0) {
		struct iovec piece = take_piece(cursor, length);

		memcpy(piece.iov_base, from, piece.iov_len);
		from = (const char *)from + piece.iov_len;
		length -= piece.iov_len;
	}
}

int vb_iov_cursor_peek(const struct vb_iov_cursor *cursor, struct iovec *pieces, int most, size_t length)
{
	struct vb_iov_cursor ahead = *cursor;
	int count = 0;

	while (length > 0) {
		if (count == most)
			return -1;
		pieces[count] = take_piece(&ahead, length);
		length -= pieces[count++].iov_len;
	}
	return count;
}

void vb_iov_cursor_skip(struct vb_iov_cursor *cursor, size_t length)
{
	while (length > 0)
		length -= take_piece(cursor, length).iov_len;
}
