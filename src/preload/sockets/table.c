/* SPDX-License-Identifier: MIT */
#include "preload/sockets/table.h"

#include <errno.h>
#include <stdlib.h>

int vb_fd_table_set(struct vb_fd_table *table, int fd, void *object)
{
	void ***page;

	if (fd < 0 || fd >= VB_FD_TABLE_PAGE * VB_FD_TABLE_PAGES)
		return -EMFILE;
	page = &table->pages[fd / VB_FD_TABLE_PAGE];
	if (*page == NULL) {
		void **fresh = calloc(VB_FD_TABLE_PAGE, sizeof(*fresh));

		if (fresh == NULL)
			return -ENOMEM;
		__atomic_store_n(page, fresh, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&(*page)[fd % VB_FD_TABLE_PAGE], object, __ATOMIC_RELEASE);
	return 0;
}

int vb_fd_table_next(struct vb_fd_table *table, int fd)
{
	for (; fd < VB_FD_TABLE_PAGE * VB_FD_TABLE_PAGES; fd++) {
		if (table->pages[fd / VB_FD_TABLE_PAGE] == NULL)
			fd |= VB_FD_TABLE_PAGE - 1;
		else if (vb_fd_table_look(table, fd) != NULL)
			return fd;
	}
	return -1;
}
