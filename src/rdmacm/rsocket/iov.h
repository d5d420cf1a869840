/* SPDX-License-Identifier: MIT
 *
 * A place in a program's list of buffers.
 */
#ifndef VB_RDMACM_RSOCKET_IOV_H
#define VB_RDMACM_RSOCKET_IOV_H

#include <stddef.h>
#include <sys/uio.h>

struct vb_iov_cursor {
	const struct iovec *iov;
	int count;
	size_t offset;                   /* into iov[0] */
	size_t left;                     /* bytes in all */
};

/* 0, or -EINVAL: too many buffers or too many bytes (man 2 writev). */
int vb_iov_cursor_init(struct vb_iov_cursor *cursor, const struct iovec *iov, size_t count);

/* Copy the next `length` bytes (at most cursor->left) out of the program's buffers, or into them. */
void vb_iov_cursor_read(struct vb_iov_cursor *cursor, void *to, size_t length);
void vb_iov_cursor_write(struct vb_iov_cursor *cursor, const void *from, size_t length);

/* Where they are, without moving: as many elements as there may be, or fewer. -1: those are not enough. */
int vb_iov_cursor_peek(const struct vb_iov_cursor *cursor, struct iovec *pieces, int most, size_t length);
void vb_iov_cursor_skip(struct vb_iov_cursor *cursor, size_t length);

#endif
