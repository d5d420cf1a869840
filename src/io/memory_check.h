/* SPDX-License-Identifier: MIT
 *
 * Is a range of the application's address space fit to be registered?
 */
#ifndef VB_IO_MEMORY_CHECK_H
#define VB_IO_MEMORY_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 0, or -EFAULT: some of it is not mapped, not readable, or (asked for) not writable. */
int vb_memory_range_check(uint64_t start, size_t length, bool writable);

/* Bring pages in: 0, -EFAULT. Best effort where the kernel cannot. */
int vb_memory_range_prefetch(uint64_t start, size_t length, bool writable);

#endif
