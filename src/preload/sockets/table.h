/* SPDX-License-Identifier: MIT
 *
 * What we know of a descriptor: pages of pointers. Every read and write of a program asks here first, so that a
 * descriptor of which nothing is known costs one load and no lock.
 */
#ifndef VB_PRELOAD_SOCKETS_TABLE_H
#define VB_PRELOAD_SOCKETS_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/mutex.h"

enum { VB_FD_TABLE_PAGE = 1024, VB_FD_TABLE_PAGES = 1024 };

struct vb_fd_table {
	struct vb_mutex lock;
	void **pages[VB_FD_TABLE_PAGES];
};

/* What is there now, or NULL. Without the lock the object may be gone by the time it is used. */
static inline void *vb_fd_table_look(struct vb_fd_table *table, int fd)
{
	void **page;

	if (fd < 0 || fd >= VB_FD_TABLE_PAGE * VB_FD_TABLE_PAGES)
		return NULL;
	page = __atomic_load_n(&table->pages[fd / VB_FD_TABLE_PAGE], __ATOMIC_ACQUIRE);
	return page != NULL ? __atomic_load_n(&page[fd % VB_FD_TABLE_PAGE], __ATOMIC_ACQUIRE) : NULL;
}

/* Caller holds table->lock. 0, -EMFILE or -ENOMEM. */
int vb_fd_table_set(struct vb_fd_table *table, int fd, void *object);

/* The next descriptor from `fd` on that has an object, or -1. Caller holds table->lock. */
int vb_fd_table_next(struct vb_fd_table *table, int fd);

#endif
