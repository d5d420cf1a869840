/* SPDX-License-Identifier: MIT
 *
 * Copies to and from this process's own memory that fail with -EFAULT instead of a signal where nothing is mapped: what
 * an adapter with on-demand paging does. The signatures are those of struct vb_memory_host.
 */
#ifndef VB_IO_PROCESS_MEMORY_H
#define VB_IO_PROCESS_MEMORY_H

#include <stddef.h>
#include <stdint.h>

int vb_process_memory_read(void *unused, void *to, uint64_t from, size_t length);
int vb_process_memory_write(void *unused, uint64_t to, const void *from, size_t length);

#endif
