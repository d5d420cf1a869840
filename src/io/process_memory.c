/* SPDX-License-Identifier: MIT
 *
 * process_vm_readv(2) on ourselves: always permitted, and the kernel does the checking. Sandboxes that forbid the
 * call (some seccomp profiles) get the same through a pipe, which also answers EFAULT.
 *
 * The same calls on others: a call takes at most IOV_MAX spans a side, and moves at most 2 GiB less a page (MAX_RW_COUNT);
 * what is left is taken up where it ended.
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

/* ---- others ---- */

enum { SPANS = 64 };

/* A list of spans, read from `skip` bytes into its first one on. */
struct cursor {
	const struct iovec *span;
	unsigned left;
	size_t skip;
};

/* The next so many spans as the system call wants them. Returns how many, and their bytes. */
static unsigned fill(const struct cursor *cursor, struct iovec out[SPANS], size_t *bytes)
{
	unsigned count = 0;

	*bytes = 0;
	for (unsigned i = 0; i < cursor->left && count < SPANS; i++) {
		size_t skip = i == 0 ? cursor->skip : 0;

		out[count].iov_base = (char *)cursor->span[i].iov_base + skip;
		out[count].iov_len = cursor->span[i].iov_len - skip;
		*bytes += out[count++].iov_len;
	}
	return count;
}

static void advance(struct cursor *cursor, size_t bytes)
{
	while (cursor->left > 0 && bytes >= cursor->span->iov_len - cursor->skip) {
		bytes -= cursor->span->iov_len - cursor->skip;
		cursor->skip = 0;
		cursor->span++;
		cursor->left--;
	}
	cursor->skip += bytes;
}

static int transfer(pid_t pid, const struct iovec *ours, unsigned count, const struct iovec *theirs, unsigned pieces, bool reads)
{
	struct cursor here = {ours, count, 0}, there = {theirs, pieces, 0};

	for (;;) {
		struct iovec local[SPANS], remote[SPANS];
		size_t local_bytes, remote_bytes;
		unsigned locals, remotes;
		ssize_t done;

		/* Spans without bytes are passed over here, so that an end is seen as one. */
		advance(&here, 0);
		advance(&there, 0);
		if (here.left == 0 || there.left == 0)
			return 0;
		locals = fill(&here, local, &local_bytes);
		remotes = fill(&there, remote, &remote_bytes);
		done = reads ? process_vm_readv(pid, local, locals, remote, remotes, 0)
			     : process_vm_writev(pid, local, locals, remote, remotes, 0);
		if (done < 0)
			return -errno;
		if (done == 0)
			return -EFAULT;
		advance(&here, (size_t)done);
		advance(&there, (size_t)done);
	}
}

int vb_process_memory_write_to(pid_t pid, const struct iovec *ours, unsigned count, const struct iovec *theirs, unsigned pieces)
{
	return transfer(pid, ours, count, theirs, pieces, false);
}

int vb_process_memory_read_from(pid_t pid, const struct iovec *ours, unsigned count, const struct iovec *theirs, unsigned pieces)
{
	return transfer(pid, ours, count, theirs, pieces, true);
}
