/* SPDX-License-Identifier: MIT
 *
 * The verbs objects of a stream: a queue pair with one completion queue for both directions, and three registered
 * areas.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "io/descriptor.h"
#include "rdmacm/private_call.h"
#include "rdmacm/rsocket/settings.h"
#include "rdmacm/rsocket/stream.h"
#include "wire/mapped_call.h"

enum {
	/* Receives beyond the credits: grants and control messages have none, and must not wait for the program to
	 * read. */
	RECEIVES_FOR_CONTROL = 16,
};

/* Announced windows have no credits either, and of what is sent nothing tells when it is received, if not the acknowledgement. */
static uint32_t receives(const struct vb_rsocket *rs)
{
	return rs->sizes.receive_queue + RECEIVES_FOR_CONTROL + VB_RSTREAM_RECEIVES_OWED + (rs->stream->by_send ? rs->sizes.iomaps : 0);
}

/* The device's limits on what was asked for. */
static int limit_sizes(struct vb_rsocket *rs)
{
	struct ibv_device_attr attributes;
	uint32_t most, beside;
	int error;

	error = -ibv_query_device(rs->stream->id->verbs, &attributes);
	if (error != 0)
		return error;
	vb_rsocket_sizes_round(&rs->sizes);
	most = (uint32_t)attributes.max_qp_wr / vb_rstream_message_requests(rs->stream);
	if (rs->sizes.send_queue > most)
		rs->sizes.send_queue = most;
	beside = receives(rs) - rs->sizes.receive_queue;
	if (rs->sizes.receive_queue + beside > (uint32_t)attributes.max_qp_wr)
		rs->sizes.receive_queue = (uint32_t)attributes.max_qp_wr - beside;
	return 0;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

static int create_queue_pair(struct vb_rsocket *rs)
{
	struct vb_rstream *stream = rs->stream;
	struct ibv_context *verbs = stream->id->verbs;
	uint32_t sends = rs->sizes.send_queue * vb_rstream_message_requests(stream);
	struct ibv_qp_init_attr attributes = {
		.qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = sends,
			.max_recv_wr = receives(rs),
			.max_send_sge = 2,
			.max_recv_sge = 1,
			/* Entries of the peer's lists always go inline. */
			.max_inline_data = larger(rs->sizes.inline_data, sizeof(struct vb_rstream_iomap)),
		},
	};

	stream->completions = ibv_create_comp_channel(verbs);
	if (stream->completions == NULL)
		return -errno;
	if (fcntl(stream->completions->fd, F_SETFL, fcntl(stream->completions->fd, F_GETFL) | O_NONBLOCK) != 0)
		return -errno;
	stream->cq = ibv_create_cq(verbs, (int)(sends + receives(rs)), NULL, stream->completions, 0);
	if (stream->cq == NULL)
		return -errno;
	vb_rstream_sleep_alone(stream);
	attributes.send_cq = attributes.recv_cq = stream->cq;
	if (rdma_create_qp(stream->id, NULL, &attributes) != 0)
		return -errno;
	if (attributes.cap.max_inline_data < sizeof(struct vb_rstream_iomap))
		return -EOPNOTSUPP;
	stream->inline_most = rs->sizes.inline_data;
	if (stream->inline_most > VB_RSTREAM_INLINE_MOST)
		stream->inline_most = VB_RSTREAM_INLINE_MOST;
	stream->send_slots = stream->send_slots_all = rs->sizes.send_queue - VB_RSTREAM_CONTROLS;
	stream->control_slots = VB_RSTREAM_CONTROLS;
	return 0;
}

/* Without bringing in pages, where libibverbs is ours. NULL with errno. */
static struct ibv_mr *register_mapped(struct vb_rstream *stream, void *bytes, size_t length, int access)
{
	vb_private_call *say = vb_rdmacm_private_call(stream->id->verbs);
	struct vb_mapped_call call = {
		.magic = VB_MAPPED_MAGIC, .version = VB_MAPPED_VERSION, .access = (uint32_t)access, .pd = stream->id->pd, .address = bytes,
		.length = length,
	};

	if (say != NULL && say(stream->id->verbs, &call) == 0)
		return call.mr;
	return ibv_reg_mr(stream->id->pd, bytes, length, access);
}

/* Pages of their own, so that nothing else shares memory with what the peer writes to, and which cost nothing until
 * used. */
static int register_pages(struct vb_rstream *stream, size_t length, int access, void **bytes, struct ibv_mr **mr)
{
	int error;

	*bytes = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (*bytes == MAP_FAILED) {
		*bytes = NULL;
		return -ENOMEM;
	}
	*mr = register_mapped(stream, *bytes, length, access);
	if (*mr != NULL)
		return 0;
	error = -errno;
	munmap(*bytes, length);
	*bytes = NULL;
	return error;
}

/* Memory that a peer on this host can map, so that what it writes is a copy and no system call. Its descriptor has
 * to stay open for that. Where there is none left other memory does. */
static int register_shared_pages(struct vb_rstream *stream, size_t length, int access)
{
	int fd = vb_page_create("rsocket", length);
	void *bytes = NULL;
	int error;

	if (fd >= 0) {
		fd = vb_descriptor_lift(fd);
		bytes = vb_page_map(fd, length, true);
	}
	if (bytes == NULL) {
		if (fd >= 0)
			close(fd);
		error = register_pages(stream, length, access, &bytes, &stream->receive_mr);
		stream->receive_bytes = bytes;
		return error;
	}
	stream->receive_mr = register_mapped(stream, bytes, length, access);
	if (stream->receive_mr == NULL) {
		error = -errno;
		munmap(bytes, length);
		close(fd);
		return error;
	}
	stream->receive_bytes = bytes;
	stream->receive_fd = fd;
	return 0;
}

static int create_buffers(struct vb_rsocket *rs)
{
	struct vb_rstream *stream = rs->stream;
	const int writable = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	uint32_t half = rs->sizes.receive_buffer / 2;
	void *bytes = NULL;
	int error;

	error = register_pages(stream, rs->sizes.send_buffer, 0, &bytes, &stream->send_mr);
	stream->send_bytes = bytes;
	if (error != 0)
		return error;
	error = register_shared_pages(stream, rs->sizes.receive_buffer, writable);
	if (error != 0)
		return error;
	error = register_pages(stream, sizeof(*stream->lists) + rs->sizes.iomaps * sizeof(stream->lists->iomaps[0]),
			       writable, &bytes, &stream->lists_mr);
	stream->lists = bytes;
	if (error != 0)
		return error;
	if (rs->sizes.iomaps > 0) {
		stream->peer_iomaps = calloc(rs->sizes.iomaps, sizeof(*stream->peer_iomaps));
		if (stream->peer_iomaps == NULL)
			return -ENOMEM;
	}
	stream->send_size = stream->send_free = rs->sizes.send_buffer;
	stream->receive_size = half * 2;
	/* The hello grants the first half; the second is free but not yet told of. */
	stream->granted = half;
	stream->freed = half;
	stream->grant_at = half;
	stream->receive_mark = (uint16_t)(rs->sizes.receive_queue / 2);
	return 0;
}

int vb_rstream_endpoint_create(struct vb_rsocket *rs)
{
	int error = limit_sizes(rs);

	if (error == 0)
		error = create_queue_pair(rs);
	if (error == 0)
		error = create_buffers(rs);
	if (error == 0)
		error = vb_rstream_message_prepare(rs->stream, receives(rs));
	if (error == 0)
		error = vb_rstream_post_receives(rs->stream, receives(rs));
	return error;
}

static void release_pages(struct ibv_mr **mr)
{
	void *bytes;
	size_t length;

	if (*mr == NULL)
		return;
	bytes = (*mr)->addr;
	length = (*mr)->length;
	ibv_dereg_mr(*mr);
	*mr = NULL;
	munmap(bytes, length);
}

void vb_rstream_endpoint_destroy(struct vb_rsocket *rs)
{
	struct vb_rstream *stream = rs->stream;

	if (stream->id != NULL && stream->id->qp != NULL)
		rdma_destroy_qp(stream->id);
	vb_rstream_iomap_release_all(stream);
	release_pages(&stream->send_mr);
	release_pages(&stream->receive_mr);
	if (stream->receive_fd >= 0)
		close(stream->receive_fd);
	stream->receive_fd = -1;
	release_pages(&stream->lists_mr);
	vb_rstream_message_release(stream);
	stream->send_bytes = stream->receive_bytes = NULL;
	stream->lists = NULL;
	stream->available = 0;
	if (stream->cq != NULL)
		ibv_destroy_cq(stream->cq);
	stream->cq = NULL;
	if (stream->completions != NULL)
		ibv_destroy_comp_channel(stream->completions);
	stream->completions = NULL;
	if (stream->id != NULL)
		rdma_destroy_id(stream->id);
	stream->id = NULL;
	if (stream->channel != NULL)
		rdma_destroy_event_channel(stream->channel);
	stream->channel = NULL;
	if (rs->fd != rs->event_fd)
		close(rs->fd);
	rs->fd = rs->event_fd = -1;
}

unsigned vb_rstream_endpoint_introduce(const struct vb_rsocket *rs, struct vb_rstream_greeting_bytes *bytes)
{
	const struct vb_rstream *stream = rs->stream;
	struct vb_rstream_hello hello = {
		.credits = (uint16_t)rs->sizes.receive_queue,
		.iomaps = rs->sizes.iomaps,
		.big_endian = vb_rstream_host_is_big_endian(),
		.targets = {
			.address = (uintptr_t)stream->lists,
			.key = stream->lists_mr->rkey,
			.length = VB_RSTREAM_TARGETS,
		},
		.data = {
			.address = (uintptr_t)stream->receive_bytes,
			.key = stream->receive_mr->rkey,
			.length = stream->receive_size / 2,
		},
	};

	vb_rstream_hello_encode(&bytes->hello, &hello);
	if (!stream->has_token)
		return sizeof(bytes->hello);
	memcpy(bytes->token, stream->token, sizeof(bytes->token));
	return sizeof(*bytes);
}

static void take_token(struct vb_rstream *stream, const uint8_t *private_data, unsigned length)
{
	static const uint8_t none[VB_RSTREAM_TOKEN];

	if (length < sizeof(struct vb_rstream_greeting_bytes))
		return;
	memcpy(stream->peer_token, private_data + offsetof(struct vb_rstream_greeting_bytes, token), VB_RSTREAM_TOKEN);
	stream->peer_has_token = memcmp(stream->peer_token, none, sizeof(none)) != 0;
}

int vb_rstream_endpoint_meet(struct vb_rsocket *rs, const void *private_data, unsigned length)
{
	struct vb_rstream *stream = rs->stream;
	struct vb_rstream_hello hello;
	int error = vb_rstream_hello_decode(&hello, private_data, length);

	if (error != 0)
		return error;
	take_token(stream, private_data, length);
	stream->foreign = hello.big_endian != vb_rstream_host_is_big_endian();
	stream->send_limit = hello.credits;
	stream->spare = vb_rstream_message_spare(stream, hello.credits);
	stream->target = hello.data;
	stream->target_at = 1;
	stream->remote_targets = hello.targets;
	stream->remote_target_at = 1 % hello.targets.length;
	stream->remote_iomaps = hello.iomaps;
	stream->remote_iomaps_address = hello.targets.address +
					(uint64_t)hello.targets.length * sizeof(struct vb_rstream_span);
	return 0;
}
