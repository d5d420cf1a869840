/* SPDX-License-Identifier: MIT
 *
 * Whole calls on a connection: they wait as the program's socket would. Results as the kernel's: bytes, or -errno. No
 * lock.
 */
#ifndef VB_PRELOAD_SOCKETS_TRANSFER_H
#define VB_PRELOAD_SOCKETS_TRANSFER_H

#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

struct vb_connection;

ssize_t vb_transfer_receive(struct vb_connection *connection, const struct iovec *iov, size_t count, int flags);
ssize_t vb_transfer_send(struct vb_connection *connection, const struct iovec *iov, size_t count, int flags);
/* sendfile(2); only for a connection whose bytes go by RDMA already. */
ssize_t vb_transfer_file(struct vb_connection *connection, int file, off_t *offset, size_t count);

#endif
