/* SPDX-License-Identifier: MIT
 *
 * How a stream tells its peer something: 32 bits, and before them bytes that are written to where they belong (stream_wire.h).
 *
 *   by immediate data   one RDMA WRITE with immediate. The peer's receive has no buffer.
 *   in two              the same, of a long message on a wire: an RDMA WRITE, and one with immediate data (stream_cut.h).
 *   by SEND             an RDMA WRITE and behind it a SEND of the 32 bits, in the sender's byte order, into a receive of four bytes. So do
 *                       rdma-core's rsockets on iWARP, whose WRITEs carry no immediate data (RFC 5040 has none). An RDMAP stream is in
 *                       order (RFC 5041 5.3): what was written is there when the SEND is received.
 *
 * Not every request asks for a completion (stream_send.c), and of two the first never does; what such a request holds is given
 * back with the next that does.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/rsocket/stream.h"
#include "rdmacm/rsocket/stream_cut.h"
#include "wire/mtu.h"

enum {
	RECEIVES_AT_ONCE = 16,
	/* Who sends four bytes knows that they have left, not that they were received: as many control messages as there may be at
	 * once must find a receive behind all the data that was granted. */
	SPARE_CREDITS = VB_RSTREAM_CONTROLS,
};

void vb_rstream_message_choose(struct vb_rstream *stream)
{
	stream->by_send = stream->id->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
}

/* Of one host: then no packets are made, and what is cut costs more. A peer that is reached by two addresses of one host is missed. */
static bool leads_back(const struct sockaddr *source, const struct sockaddr *destination)
{
	const struct sockaddr_in *v4[] = {(const void *)source, (const void *)destination};
	const struct sockaddr_in6 *v6[] = {(const void *)source, (const void *)destination};

	if (source->sa_family != destination->sa_family)
		return false;
	if (source->sa_family == AF_INET)
		return v4[0]->sin_addr.s_addr == v4[1]->sin_addr.s_addr;
	return source->sa_family == AF_INET6 && memcmp(&v6[0]->sin6_addr, &v6[1]->sin6_addr, sizeof(v6[0]->sin6_addr)) == 0;
}

void vb_rstream_message_measure(struct vb_rstream *stream)
{
	struct ibv_qp_init_attr ignored;
	struct ibv_port_attr port;
	struct ibv_qp_attr attr;

	if (stream->by_send)
		return;
	if (leads_back(rdma_get_local_addr(stream->id), rdma_get_peer_addr(stream->id))) {
		vb_rstream_place_prepare(stream);
		return;
	}
	vb_rstream_sleep_prepare(stream);
	/* On InfiniBand a packet is a frame, and there are no runs. */
	if (ibv_query_port(stream->id->verbs, stream->id->port_num, &port) == 0 && port.link_layer == IBV_LINK_LAYER_ETHERNET &&
	    ibv_query_qp(stream->id->qp, &attr, IBV_QP_PATH_MTU, &ignored) == 0)
		stream->packet = vb_mtu_bytes(attr.path_mtu);
}

unsigned vb_rstream_message_requests(const struct vb_rstream *stream)
{
	return stream->by_send ? 2 : 1;
}

uint16_t vb_rstream_message_spare(const struct vb_rstream *stream, uint16_t credits)
{
	return stream->by_send && credits > 2 * SPARE_CREDITS ? SPARE_CREDITS : 0;
}

int vb_rstream_message_prepare(struct vb_rstream *stream, unsigned receives)
{
	if (!stream->by_send)
		return 0;
	stream->words = calloc(receives, sizeof(*stream->words));
	if (stream->words == NULL)
		return -ENOMEM;
	stream->words_all = receives;
	stream->words_mr = ibv_reg_mr(stream->id->pd, stream->words, receives * sizeof(*stream->words), IBV_ACCESS_LOCAL_WRITE);
	return stream->words_mr == NULL ? -errno : 0;
}

void vb_rstream_message_release(struct vb_rstream *stream)
{
	if (stream->words_mr != NULL)
		ibv_dereg_mr(stream->words_mr);
	stream->words_mr = NULL;
	free(stream->words);
	stream->words = NULL;
}

/* ---- towards the peer ---- */

static int post(struct vb_rsocket *rs, struct ibv_send_wr *requests)
{
	struct ibv_send_wr *refused;
	int error = ibv_post_send(rs->stream->id->qp, requests, &refused);

	if (error != 0)
		vb_rstream_break(rs, error);
	return -error;
}

static unsigned signaled(uint64_t work_id)
{
	return vb_rstream_work_of(work_id) == VB_RSTREAM_PLACE ? 0 : IBV_SEND_SIGNALED;
}

int vb_rstream_write(struct vb_rsocket *rs, uint64_t work_id, struct ibv_sge *pieces, int count, unsigned flags,
		     const struct vb_rstream_span *to)
{
	struct ibv_send_wr request = {
		.wr_id = work_id,
		.sg_list = pieces,
		.num_sge = count,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = flags | signaled(work_id),
		.wr.rdma = {.remote_addr = to->address, .rkey = to->key},
	};

	return post(rs, &request);
}

int vb_rstream_write_and_tell(struct vb_rsocket *rs, uint64_t work_id, struct ibv_sge *pieces, int count, unsigned flags,
			      const struct vb_rstream_span *to, uint32_t message)
{
	struct ibv_sge word = {.addr = (uintptr_t)&message, .length = sizeof(message)};
	struct ibv_send_wr telling = {
		.wr_id = work_id,
		.sg_list = &word,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_INLINE | signaled(work_id),
	}, writing = {
		.wr_id = work_id,
		.sg_list = pieces,
		.num_sge = count,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.send_flags = flags | signaled(work_id),
		.imm_data = htonl(message),
		.wr.rdma = {.remote_addr = to->address, .rkey = to->key},
	};

	if (!rs->stream->by_send)
		return post(rs, &writing);
	if (count == 0)
		return post(rs, &telling);
	writing.wr_id = vb_rstream_work_id(VB_RSTREAM_PLACE, 0, 0);
	writing.opcode = IBV_WR_RDMA_WRITE;
	writing.send_flags = flags;
	writing.next = &telling;
	return post(rs, &writing);
}

int vb_rstream_write_cut(struct vb_rsocket *rs, uint64_t work_id, struct vb_rstream_cut *cut, const struct vb_rstream_span *to,
			 uint32_t message)
{
	struct ibv_send_wr last = {
		.wr_id = work_id,
		.sg_list = cut->last,
		.num_sge = cut->last_count,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.send_flags = signaled(work_id),
		.imm_data = htonl(message),
		.wr.rdma = {.remote_addr = to->address + cut->last_at, .rkey = to->key},
	}, first = {
		.wr_id = vb_rstream_work_id(VB_RSTREAM_PLACE, 0, 0),
		.next = &last,
		.sg_list = cut->first,
		.num_sge = cut->first_count,
		.opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = {.remote_addr = to->address, .rkey = to->key},
	};

	return post(rs, &first);
}

/* ---- from the peer ---- */

int vb_rstream_post_receives(struct vb_rstream *stream, unsigned count)
{
	struct ibv_recv_wr requests[RECEIVES_AT_ONCE] = {0}, *refused;
	struct ibv_sge words[RECEIVES_AT_ONCE];
	int error = 0;

	while (count > 0 && error == 0) {
		unsigned now = count < RECEIVES_AT_ONCE ? count : RECEIVES_AT_ONCE;

		/* No buffers by immediate data: what arrives was written elsewhere. */
		for (unsigned i = 0; i < now; i++) {
			requests[i].wr_id = vb_rstream_work_id(VB_RSTREAM_RECEIVE, 0, stream->word_at);
			requests[i].next = i + 1 < now ? &requests[i + 1] : NULL;
			if (!stream->by_send)
				continue;
			words[i] = (struct ibv_sge){.addr = (uintptr_t)&stream->words[stream->word_at], .length = sizeof(*stream->words),
						    .lkey = stream->words_mr->lkey};
			requests[i].sg_list = &words[i];
			requests[i].num_sge = 1;
			stream->word_at = (stream->word_at + 1) % stream->words_all;
		}
		error = -ibv_post_recv(stream->id->qp, requests, &refused);
		count -= now;
	}
	return error;
}

bool vb_rstream_message_read(const struct vb_rstream *stream, const struct ibv_wc *completion, uint32_t *message)
{
	if (!stream->by_send) {
		*message = ntohl(completion->imm_data);
		return (completion->wc_flags & IBV_WC_WITH_IMM) != 0;
	}
	*message = stream->words[(uint32_t)completion->wr_id];
	if (stream->foreign)
		*message = __builtin_bswap32(*message);
	return (completion->wc_flags & IBV_WC_WITH_IMM) == 0 && completion->byte_len == sizeof(*message);
}

bool vb_rstream_message_has_room(const struct vb_rstream *stream, const struct ibv_wc *completion)
{
	if (!stream->by_send)
		return completion->byte_len > 0;
	/* The message does not say; an entry that was used is emptied. */
	return stream->targets_ready < VB_RSTREAM_TARGETS &&
	       stream->lists->targets[(stream->target_at + stream->targets_ready) % VB_RSTREAM_TARGETS].length != 0;
}
