/* SPDX-License-Identifier: MIT
 *
 * Memory that one process writes and others read: a sparse file in memory, whose size no process can change and which none but
 * the owner, through the mapping it made before, can write to.
 */
#ifndef VB_IO_SHARED_MEMORY_H
#define VB_IO_SHARED_MEMORY_H

#include <stddef.h>

/* Zeroed, mapped for reading and writing, left out of core dumps. *fd is for others: a process that has it can only read. 0 or
 * -errno. */
int vb_shared_memory_create(const char *name, size_t size, int *fd, void **memory);
/* Another's: NULL unless it has that size, cannot shrink under us, and cannot be written to by us or other readers. */
const void *vb_shared_memory_map(int fd, size_t size);
void vb_shared_memory_unmap(const void *memory, size_t size);

/* In a forked child: what the parent created becomes a copy of the child's own, page by page as it writes. Async-signal-safe. */
void vb_shared_memory_abandon(void *memory, size_t size, int fd);

#endif
