/* SPDX-License-Identifier: MIT
 *
 * The object both types of rsocket share, and addresses as socket calls pass them.
 */
#include "rdmacm/rsocket/rsocket.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "io/cancellation.h"
#include "rdmacm/rsocket/settings.h"

struct vb_rsocket *vb_rsocket_create(const struct vb_rsocket_kind *kind, int domain, int type)
{
	struct vb_rsocket *rs = calloc(1, sizeof(*rs));
	pthread_mutexattr_t recursive;

	if (rs == NULL)
		return NULL;
	pthread_mutexattr_init(&recursive);
	pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
	vb_mutex_init_with(&rs->lock, VB_RANK_RSOCKET, &recursive);
	pthread_mutexattr_destroy(&recursive);
	rs->kind = kind;
	rs->fd = rs->event_fd = -1;
	rs->domain = domain;
	rs->type = type;
	rs->references = 1;
	vb_list_init(&rs->watchers);
	rs->sizes = vb_rsocket_settings()->sizes;
	return rs;
}

struct vb_rsocket *vb_rsocket_hold(struct vb_rsocket *rs)
{
	__atomic_add_fetch(&rs->references, 1, __ATOMIC_RELAXED);
	return rs;
}

void vb_rsocket_put(struct vb_rsocket *rs)
{
	if (__atomic_sub_fetch(&rs->references, 1, __ATOMIC_ACQ_REL) != 0)
		return;

	VB_UNCANCELLED;

	rs->kind->destroy(rs);
	vb_mutex_fini(&rs->lock);
	free(rs);
}

int vb_rsocket_address_take(union vb_rsocket_address *address, const struct sockaddr *from, socklen_t length)
{
	socklen_t expected;

	if (from == NULL || length < (socklen_t)sizeof(from->sa_family))
		return -EINVAL;
	expected = vb_rsocket_address_length(from->sa_family);
	if (expected == 0)
		return -EAFNOSUPPORT;
	if (length < expected)
		return -EINVAL;
	memset(address, 0, sizeof(*address));
	memcpy(address, from, expected);
	return 0;
}

void vb_rsocket_address_give(const struct sockaddr *address, struct sockaddr *to, socklen_t *length)
{
	socklen_t full = vb_rsocket_address_length(address->sa_family);

	if (length == NULL)
		return;
	if (to != NULL)
		memcpy(to, address, *length < full ? *length : full);
	*length = full;
}
