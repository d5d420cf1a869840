/* SPDX-License-Identifier: MIT
 *
 * Copies to and from this process's own memory that fail with -EFAULT instead of a signal where nothing is mapped: what
 * an adapter with on-demand paging does. The signatures are those of struct vb_memory_host.
 *
 * And copies between this process and another, which need its consent: that of ptrace(2).
 */
#ifndef VB_IO_PROCESS_MEMORY_H
#define VB_IO_PROCESS_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

int vb_process_memory_read(void *unused, void *to, uint64_t from, size_t length);
int vb_process_memory_write(void *unused, uint64_t to, const void *from, size_t length);

/* All of it, in order, from the first byte to the last: between our spans and those of process `pid`, as many bytes as the
 * shorter of the two lists has. 0, or -EFAULT (a page is missing, there or here), -ESRCH (gone), -EPERM (no consent),
 * -ENOSYS. */
int vb_process_memory_write_to(pid_t pid, const struct iovec *ours, unsigned count, const struct iovec *theirs, unsigned pieces);
int vb_process_memory_read_from(pid_t pid, const struct iovec *ours, unsigned count, const struct iovec *theirs, unsigned pieces);

#endif
