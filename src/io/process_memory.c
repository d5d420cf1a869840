/* SPDX-License-Identifier: MIT
 *
 * process_vm_readv(2) on ourselves: always permitted, and the kernel does the checking. Sandboxes that forbid the
 * call (some seccomp profiles) get the same through a pipe, which also answers EFAULT.
 */
#include "io/process_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/uio.h>
#include <unistd.h>

/* A pipe holds at least PIPE_BUF bytes, so neither step blocks. */
static int copy_through_pipe(void *to, const void *from, size_t length)
{
	int ends[2], error = 0;

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
		return -errno;
	while (length > 0 && error == 0) {
		size_t part = length < PIPE_BUF ? length : PIPE_BUF;
		ssize_t put = write(ends[1], from, part);

		if (put <= 0 || read(ends[0], to, (size_t)put) != put) {
			error = -EFAULT;
			break;
		}
		from = (const char *)from + put;
		to = (char *)to + put;
		length -= (size_t)put;
	}
	close(ends[0]);
	close(ends[1]);
	return error;
}

static int copy(void *to, const void *from, size_t length, bool remote_is_source)
{
	void *far_side = remote_is_source ? (void *)(uintptr_t)from : to;
	void *near_side = remote_is_source ? to : (void *)(uintptr_t)from;

	while (length > 0) {
		struct iovec local = {near_side, length}, remote = {far_side, length};
		ssize_t done = remote_is_source ? process_vm_readv(getpid(), &local, 1, &remote, 1, 0)
						: process_vm_writev(getpid(), &local, 1, &remote, 1, 0);

		if (done < 0 && (errno == ENOSYS || errno == EPERM))
			return copy_through_pipe(remote_is_source ? near_side : far_side,
						 remote_is_source ? far_side : near_side, length);
		if (done <= 0)
			return -EFAULT;
		/* Less than asked: the rest begins at a page that is not there, unless the copy was cut at random. */
		near_side = (char *)near_side + done;
		far_side = (char *)far_side + done;
		length -= (size_t)done;
	}
	return 0;
}

int vb_process_memory_read(void *unused, void *to, uint64_t from, size_t length)
{
	(void)unused;
	return copy(to, (const void *)(uintptr_t)from, length, true);
}

int vb_process_memory_write(void *unused, uint64_t to, const void *from, size_t length)
{
	(void)unused;
	return copy((void *)(uintptr_t)to, from, length, false);
}
