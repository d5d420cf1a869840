/* SPDX-License-Identifier: MIT
 *
 * riomap, riounmap, riowrite: writing straight into memory the peer has mapped, at an offset of its choice. Each side keeps a table in its
 * own memory which the peer fills (rs->iomap: what we may write to); announcing a mapping is an RDMA WRITE into the peer's table.
 */
#include <byteswap.h>
#include <errno.h>
#include <rdma/rsocket.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "rdmacm/export.h"
#include "rdmacm/id.h"
#include "rdmacm/rsocket/limits.h"
#include "rdmacm/rsocket/rsocket.h"

static bool can_send_or_never_will(const struct vb_rsocket *rs)
{
	return vb_rsocket_can_send(rs) || !rs->writable || !vb_rsocket_is_connected(rs);
}

static int wait_to_send(struct vb_rsocket *rs, int flags)
{
	int error;

	if (vb_rsocket_can_send(rs))
		return 0;
	error = vb_rsocket_wait(rs, can_send_or_never_will, rs->nonblocking || (flags & MSG_DONTWAIT), -1);
	if (error == 0 && !vb_rsocket_can_send(rs))
		error = -ECONNRESET;
	return error;
}

static int announce(struct vb_rsocket *rs, struct vb_rsocket_mapping *mapping)
{
	struct vb_rsocket_iomap entry = {
		.offset = mapping->offset,
		.span = {
			.address = (uintptr_t)mapping->mr->addr,
			.key = mapping->mr->rkey,
			.length = (uint32_t)mapping->mr->length,
		},
	};
	struct iovec iov = {.iov_base = &entry, .iov_len = sizeof(entry)};

	if (rs->swapped) {
		entry.offset = bswap_64(entry.offset);
		entry.span.address = bswap_64(entry.span.address);
		entry.span.key = bswap_32(entry.span.key);
		entry.span.length = bswap_32(entry.span.length);
	}
	rs->sent++;
	rs->send_slots--;
	rs->send_free -= (uint32_t)sizeof(entry);
	mapping->announced = true;
	return vb_rsocket_write(rs, &iov, 1, sizeof(entry),
				rs->peer_iomap.address + (uint64_t)mapping->index * sizeof(entry), rs->peer_iomap.key,
				vb_rsocket_message(VB_RSOCKET_MAPPING, (uint32_t)mapping->index), true);
}

int vb_rsocket_announce_mappings(struct vb_rsocket *rs, int flags)
{
	VB_LIST_FOR_EACH(node, &rs->mappings) {
		struct vb_rsocket_mapping *mapping = vb_container_of(node, struct vb_rsocket_mapping, node);
		int error;

		if (mapping->announced)
			continue;
		error = wait_to_send(rs, flags);
		if (error == 0)
			error = announce(rs, mapping);
		if (error != 0)
			return error;
	}
	rs->mappings_pending = false;
	return 0;
}

void vb_rsocket_drop_mappings(struct vb_rsocket *rs)
{
	VB_LIST_FOR_EACH(node, &rs->mappings) {
		struct vb_rsocket_mapping *mapping = vb_container_of(node, struct vb_rsocket_mapping, node);

		vb_list_remove(node);
		ibv_dereg_mr(mapping->mr);
		free(mapping);
	}
}

/* The first entry of the peer's table that is free, or -1. */
static int free_index(const struct vb_rsocket *rs)
{
	for (uint32_t index = 0; index < rs->peer_iomap.length; index++) {
		bool used = false;

		for (const struct vb_list *node = rs->mappings.next; node != &rs->mappings; node = node->next)
			used |= vb_container_of(node, struct vb_rsocket_mapping, node)->index == (int)index;
		if (!used)
			return (int)index;
	}
	return -1;
}

static int map(struct vb_rsocket *rs, void *buf, size_t len, bool remote, uint64_t offset)
{
	struct vb_rsocket_mapping *mapping = calloc(1, sizeof(*mapping));

	if (mapping == NULL)
		return -ENOMEM;
	mapping->index = remote ? free_index(rs) : -1;
	mapping->offset = offset;
	mapping->announced = !remote;
	if (remote && mapping->index < 0) {
		free(mapping);
		return -ENOMEM;
	}
	mapping->mr = ibv_reg_mr(rs->id->pd, buf, len, IBV_ACCESS_LOCAL_WRITE | (remote ? IBV_ACCESS_REMOTE_WRITE : 0));
	if (mapping->mr == NULL) {
		int error = -errno;

		free(mapping);
		return error;
	}
	vb_list_append(&rs->mappings, &mapping->node);
	rs->mappings_pending |= remote;
	return 0;
}

VB_EXPORT off_t riomap(int socket, void *buf, size_t len, int prot, int flags, off_t offset)
{
	struct vb_rsocket *rs = vb_rsocket_find(socket);
	int error;

	(void)flags;
	if (rs == NULL)
		return vb_rdmacm_fail(EBADF);
	if (rs->type != SOCK_STREAM || rs->id->pd == NULL || (prot & ~PROT_WRITE) != 0 || len > UINT32_MAX)
		return vb_rdmacm_fail(EINVAL);
	if (offset == -1)
		offset = (off_t)(uintptr_t)buf;
	pthread_mutex_lock(&rs->lock);
	error = map(rs, buf, len, prot & PROT_WRITE, (uint64_t)offset);
	pthread_mutex_unlock(&rs->lock);
	return error != 0 ? vb_rdmacm_fail(-error) : offset;
}

VB_EXPORT int riounmap(int socket, void *buf, size_t len)
{
	struct vb_rsocket *rs = vb_rsocket_find(socket);
	int error = EINVAL;

	if (rs == NULL)
		return vb_rdmacm_fail(EBADF);
	pthread_mutex_lock(&rs->lock);
	VB_LIST_FOR_EACH(node, &rs->mappings) {
		struct vb_rsocket_mapping *mapping = vb_container_of(node, struct vb_rsocket_mapping, node);

		if (mapping->mr->addr == buf && mapping->mr->length == len) {
			vb_list_remove(node);
			ibv_dereg_mr(mapping->mr);
			free(mapping);
			error = 0;
			break;
		}
	}
	pthread_mutex_unlock(&rs->lock);
	return error != 0 ? vb_rdmacm_fail(error) : 0;
}

/* The peer's mapping that covers `offset`, copied out: the peer may change it any time. */
static bool find_mapping(const struct vb_rsocket *rs, uint64_t offset, struct vb_rsocket_iomap *found)
{
	for (uint32_t i = 0; i < rs->iomap_size; i++) {
		found->offset = rs->iomap[i].offset;
		found->span.address = rs->iomap[i].span.address;
		found->span.key = rs->iomap[i].span.key;
		found->span.length = rs->iomap[i].span.length;
		if (offset >= found->offset && offset - found->offset < found->span.length)
			return true;
	}
	return false;
}

/* One write of at most `count` bytes. Bytes or -errno; 0: nothing is mapped there. */
static ssize_t write_some(struct vb_rsocket *rs, const void *buf, size_t count, uint64_t offset)
{
	struct vb_rsocket_iomap target;
	struct iovec iov = {.iov_base = (void *)(uintptr_t)buf};
	uint32_t size = VB_RSOCKET_LARGEST_WRITE;
	uint64_t into;
	int error;

	if (!find_mapping(rs, offset, &target))
		return 0;
	into = offset - target.offset;
	if (size > count)
		size = (uint32_t)count;
	if (size > rs->send_free)
		size = rs->send_free;
	if (size > target.span.length - into)
		size = (uint32_t)(target.span.length - into);
	iov.iov_len = size;
	rs->send_slots--;
	rs->send_free -= size;
	error = vb_rsocket_write(rs, &iov, 1, size, target.span.address + into, target.span.key,
				 vb_rsocket_message(VB_RSOCKET_DIRECT, size), false);
	return error != 0 ? error : (ssize_t)size;
}

VB_EXPORT size_t riowrite(int socket, const void *buf, size_t count, off_t offset, int flags)
{
	struct vb_rsocket *rs = vb_rsocket_find(socket);
	size_t done = 0;
	int error = 0;

	if (rs == NULL)
		return (size_t)vb_rdmacm_fail(EBADF);
	if (rs->type != SOCK_STREAM)
		return (size_t)vb_rdmacm_fail(EINVAL);
	pthread_mutex_lock(&rs->lock);
	if (!vb_rsocket_is_connected(rs) || !rs->writable)
		error = -ECONNRESET;
	if (error == 0 && rs->mappings_pending)
		error = vb_rsocket_announce_mappings(rs, flags);
	vb_rsocket_progress(rs);
	while (error == 0 && done < count) {
		ssize_t now = 0;

		error = wait_to_send(rs, flags);
		if (error == 0) {
			now = write_some(rs, (const uint8_t *)buf + done, count - done, (uint64_t)offset + done);
			if (now < 0)
				error = (int)now;
			else if (now == 0)
				break;
			else
				done += (size_t)now;
		}
	}
	pthread_mutex_unlock(&rs->lock);
	return done == 0 && error != 0 ? (size_t)vb_rdmacm_fail(-error) : done;
}
