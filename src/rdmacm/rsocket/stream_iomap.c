/* SPDX-License-Identifier: MIT
 *
 * Direct placement: riomap opens a buffer of the program to the peer under an offset, riowrite writes into one the
 * peer has opened.
 *
 * A mapping is announced by writing an entry into the peer's iomap list, ahead of the next data we send (man 7
 * rsocket: it is available once the peer has received data sent after riomap). Entries the peer writes into our own
 * list are copied when its message about them arrives, as that is when they are whole.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "rdmacm/rsocket/stream.h"
#include "rdmacm/rsocket/wait.h"

struct mapping {
	struct vb_list node;
	struct ibv_mr *mr;
	uint64_t offset;
	bool remote, announced;
	uint32_t index;                  /* remote: of the peer's list */
};

static bool index_is_used(const struct vb_rstream *stream, uint32_t index)
{
	VB_LIST_FOR_EACH(node, &stream->mappings) {
		const struct mapping *mapping = vb_container_of(node, struct mapping, node);

		if (mapping->remote && mapping->index == index)
			return true;
	}
	return false;
}

static int choose_index(const struct vb_rstream *stream, struct mapping *mapping)
{
	for (uint32_t i = 0; i < stream->remote_iomaps; i++) {
		if (index_is_used(stream, i))
			continue;
		mapping->index = i;
		return 0;
	}
	return -ENOMEM;
}

off_t vb_rstream_iomap(struct vb_rsocket *rs, void *bytes, size_t length, int protection, int flags, off_t offset)
{
	struct vb_rstream *stream = rs->stream;
	struct mapping *mapping;
	int error = 0;

	(void)flags;                             /* none are defined */
	if (stream->id->pd == NULL || stream->state < VB_RSTREAM_CONNECTED || (protection & ~PROT_WRITE) != 0 ||
	    length == 0 || length > UINT32_MAX)
		return -EINVAL;
	mapping = calloc(1, sizeof(*mapping));
	if (mapping == NULL)
		return -ENOMEM;
	mapping->remote = (protection & PROT_WRITE) != 0;
	mapping->offset = offset == -1 ? (uintptr_t)bytes : (uint64_t)offset;
	if (mapping->remote)
		error = choose_index(stream, mapping);
	if (error == 0) {
		mapping->mr = ibv_reg_mr(stream->id->pd, bytes, length,
					 IBV_ACCESS_LOCAL_WRITE | (mapping->remote ? IBV_ACCESS_REMOTE_WRITE : 0));
		error = mapping->mr == NULL ? -errno : 0;
	}
	if (error != 0) {
		free(mapping);
		return error;
	}
	vb_list_append(&stream->mappings, &mapping->node);
	if (mapping->remote)
		stream->unsent_mappings++;
	return (off_t)mapping->offset;
}

static void release(struct vb_rstream *stream, struct mapping *mapping)
{
	if (mapping->remote && !mapping->announced)
		stream->unsent_mappings--;
	vb_list_remove(&mapping->node);
	ibv_dereg_mr(mapping->mr);
	free(mapping);
}

int vb_rstream_iounmap(struct vb_rsocket *rs, void *bytes, size_t length)
{
	VB_LIST_FOR_EACH(node, &rs->stream->mappings) {
		struct mapping *mapping = vb_container_of(node, struct mapping, node);

		if (mapping->mr->addr == bytes && mapping->mr->length == length) {
			release(rs->stream, mapping);
			return 0;
		}
	}
	return -EINVAL;
}

void vb_rstream_iomap_release_all(struct vb_rstream *stream)
{
	VB_LIST_FOR_EACH(node, &stream->mappings)
		release(stream, vb_container_of(node, struct mapping, node));
}

static bool has_slot_or_never_will(struct vb_rsocket *rs)
{
	return rs->stream->send_slots > 0 || !rs->stream->may_write;
}

static struct mapping *next_unannounced(struct vb_rstream *stream)
{
	VB_LIST_FOR_EACH(node, &stream->mappings) {
		struct mapping *mapping = vb_container_of(node, struct mapping, node);

		if (mapping->remote && !mapping->announced)
			return mapping;
	}
	return NULL;
}

static int announce(struct vb_rsocket *rs, struct mapping *mapping)
{
	struct vb_rstream *stream = rs->stream;
	struct vb_rstream_iomap entry = {
		.offset = mapping->offset,
		.span = {
			.address = (uintptr_t)mapping->mr->addr,
			.key = mapping->mr->rkey,
			.length = (uint32_t)mapping->mr->length,
		},
	};
	struct vb_rstream_span to = {
		.address = stream->remote_iomaps_address + mapping->index * sizeof(entry),
		.key = stream->remote_targets.key,
	};
	struct ibv_sge piece = {.addr = (uintptr_t)&entry, .length = sizeof(entry)};

	if (stream->foreign)
		entry = vb_rstream_iomap_swap(entry);
	mapping->announced = true;
	stream->unsent_mappings--;
	stream->send_slots--;
	stream->quiet_slots++;
	/* Costs no credit: the peer counts only data against those. */
	return vb_rstream_write_and_tell(rs, vb_rstream_work_with_quiet(stream, VB_RSTREAM_WRITE), &piece, 1, IBV_SEND_INLINE, &to,
					 vb_rstream_message_encode(VB_RSTREAM_IOMAP, mapping->index));
}

int vb_rstream_iomap_announce(struct vb_rsocket *rs, vb_time patience)
{
	int error = 0;

	while (error == 0 && rs->stream->unsent_mappings > 0) {
		error = vb_rsocket_wait(rs, patience, has_slot_or_never_will);
		if (error != 0)
			break;
		if (!rs->stream->may_write)
			return vb_rstream_why_not_send(rs);
		/* The lock was let go meanwhile: another thread may have announced or unmapped it. */
		if (rs->stream->unsent_mappings > 0)
			error = announce(rs, next_unannounced(rs->stream));
	}
	return error;
}

void vb_rstream_iomap_learn(struct vb_rsocket *rs, uint32_t index)
{
	struct vb_rstream *stream = rs->stream;

	if (index >= rs->sizes.iomaps) {
		vb_rstream_break(rs, EPROTO);
		return;
	}
	stream->peer_iomaps[index] = stream->lists->iomaps[index];
	if (stream->foreign)
		stream->peer_iomaps[index] = vb_rstream_iomap_swap(stream->peer_iomaps[index]);
}
