/* SPDX-License-Identifier: MIT
 *
 * Which descriptor is which rsocket: pages of pointers under one lock. An entry holds a reference, so that a call
 * that found an rsocket can go on with it while another thread closes it.
 *
 * After fork the child's table is empty: connections, and the threads that serve them, are the parent's (man 7
 * rsocket: fork is supported for those who connect after it).
 */
#include "rdmacm/rsocket/rsocket.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mutex.h"

enum { PAGE_ENTRIES = 1024, PAGES = 1024 };

static struct vb_mutex lock = VB_MUTEX_INITIALIZER(VB_RANK_RSOCKET_TABLE);
static struct vb_rsocket **pages[PAGES];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void before_fork(void) VB_TAKES(lock)
{
	vb_mutex_lock(&lock);
}

static void after_fork_in_parent(void) VB_RELEASES(lock)
{
	vb_mutex_unlock(&lock);
}

static void after_fork_in_child(void) VB_RELEASES(lock)
{
	for (unsigned i = 0; i < PAGES; i++)
		if (pages[i] != NULL)
			memset(pages[i], 0, PAGE_ENTRIES * sizeof(*pages[i]));
	vb_mutex_unlock(&lock);
}

static void watch_forks(void)
{
	pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

/* Caller holds lock. NULL: no such page. */
static struct vb_rsocket **entry_of(int fd)
{
	if (fd < 0 || fd >= PAGES * PAGE_ENTRIES || pages[fd / PAGE_ENTRIES] == NULL)
		return NULL;
	return &pages[fd / PAGE_ENTRIES][fd % PAGE_ENTRIES];
}

struct vb_rsocket *vb_rsocket_get(int fd)
{
	struct vb_rsocket **entry, *rs = NULL;

	vb_mutex_lock(&lock);
	entry = entry_of(fd);
	if (entry != NULL && *entry != NULL)
		rs = vb_rsocket_hold(*entry);
	vb_mutex_unlock(&lock);
	return rs;
}

/* From here to vb_rsocket_leave its lock is held, where there is one. */
struct vb_rsocket *vb_rsocket_enter(int fd) VB_UNCHECKED
{
	struct vb_rsocket *rs = vb_rsocket_get(fd);

	if (rs == NULL)
		return NULL;
	vb_mutex_lock(&rs->lock);
	if (!rs->closed)
		return rs;
	vb_rsocket_leave(rs);
	return NULL;
}

void vb_rsocket_leave(struct vb_rsocket *rs) VB_UNCHECKED
{
	vb_mutex_unlock(&rs->lock);
	vb_rsocket_put(rs);
}

int vb_rsocket_publish(struct vb_rsocket *rs)
{
	int error = 0;

	if (rs->fd < 0 || rs->fd >= PAGES * PAGE_ENTRIES)
		return -EMFILE;
	pthread_once(&once, watch_forks);
	vb_mutex_lock(&lock);
	if (pages[rs->fd / PAGE_ENTRIES] == NULL)
		pages[rs->fd / PAGE_ENTRIES] = calloc(PAGE_ENTRIES, sizeof(*pages[0]));
	if (pages[rs->fd / PAGE_ENTRIES] == NULL)
		error = -ENOMEM;
	else
		*entry_of(rs->fd) = vb_rsocket_hold(rs);
	vb_mutex_unlock(&lock);
	return error;
}

struct vb_rsocket *vb_rsocket_withdraw(int fd)
{
	struct vb_rsocket **entry, *rs = NULL;

	vb_mutex_lock(&lock);
	entry = entry_of(fd);
	if (entry != NULL) {
		rs = *entry;
		*entry = NULL;
	}
	vb_mutex_unlock(&lock);
	return rs;
}

void vb_rsocket_for_each(void (*visit)(struct vb_rsocket *rs))
{
	for (int fd = 0; fd < PAGES * PAGE_ENTRIES; fd++) {
		struct vb_rsocket *rs;

		if (pages[fd / PAGE_ENTRIES] == NULL) {
			fd += PAGE_ENTRIES - 1;
			continue;
		}
		rs = vb_rsocket_get(fd);
		if (rs == NULL)
			continue;
		visit(rs);
		vb_rsocket_put(rs);
	}
}
