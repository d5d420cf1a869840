/* SPDX-License-Identifier: MIT
 *
 * The stream protocol at work: completions in, messages out. All of it under the socket's lock.
 *
 * The peer is not trusted: what it says it wrote is counted against the buffer we offered, and one message more than the
 * receive queue can hold, or one byte more than the buffer, ends the connection.
 */
#include <arpa/inet.h>
#include <byteswap.h>
#include <errno.h>
#include <rdma/rdma_verbs.h>
#include <string.h>
#include <sys/uio.h>

#include "rdmacm/channel.h"
#include "rdmacm/rsocket/limits.h"
#include "rdmacm/rsocket/rsocket.h"

static void fail(struct vb_rsocket *rs, int error)
{
	if (!vb_rsocket_is_connected(rs))
		return;
	rs->state = VB_RSOCKET_FAILED;
	rs->error = error;
	rs->readable = rs->writable = false;
}

static void disconnected(struct vb_rsocket *rs)
{
	if (vb_rsocket_is_connected(rs))
		rs->state = VB_RSOCKET_DISCONNECTED;
	rs->readable = rs->writable = false;
}

bool vb_rsocket_has_data(const struct vb_rsocket *rs)
{
	return rs->message_head != rs->message_tail;
}

bool vb_rsocket_can_send(const struct vb_rsocket *rs)
{
	uint32_t low_water = rs->send_size < VB_RSOCKET_LOW_WATER ? rs->send_size : VB_RSOCKET_LOW_WATER;

	return rs->established && rs->send_slots != 0 && rs->send_free >= low_water && rs->sent != rs->sent_limit &&
	       rs->targets[rs->target].length != 0;
}

/* Take `length` bytes into the send buffer (or inline) and write them to the peer. Accounting of slots is the caller's. */
int vb_rsocket_write(struct vb_rsocket *rs, const struct iovec *from, unsigned count, uint32_t length, uint64_t address,
		     uint32_t key, uint32_t message, bool immediate)
{
	struct ibv_sge sge[2];
	struct ibv_send_wr wr = {.wr_id = message, .sg_list = sge}, *bad;
	uint32_t first = rs->send_size - rs->send_offset;

	wr.opcode = immediate ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
	wr.imm_data = htonl(message);
	wr.wr.rdma.remote_addr = address;
	wr.wr.rdma.rkey = key;
	if (length <= rs->inline_size && count == 1) {
		sge[0] = (struct ibv_sge){.addr = (uintptr_t)from->iov_base, .length = length};
		wr.send_flags = IBV_SEND_INLINE;
		wr.num_sge = length != 0;
		return -ibv_post_send(rs->id->qp, &wr, &bad);
	}
	if (first > length)
		first = length;
	sge[0] = (struct ibv_sge){.addr = (uintptr_t)rs->send_buffer + rs->send_offset, .length = first, .lkey = rs->send_mr->lkey};
	sge[1] = (struct ibv_sge){.addr = (uintptr_t)rs->send_buffer, .length = length - first, .lkey = rs->send_mr->lkey};
	wr.num_sge = 1 + (length > first);
	for (uint32_t done = 0; count != 0 && done < length; from++, count--) {
		uint32_t part = from->iov_len < length - done ? (uint32_t)from->iov_len : length - done;

		for (uint32_t copied = 0; copied < part;) {
			uint32_t at = (rs->send_offset + done + copied) % rs->send_size;
			uint32_t run = rs->send_size - at < part - copied ? rs->send_size - at : part - copied;

			memcpy(rs->send_buffer + at, (const uint8_t *)from->iov_base + copied, run);
			copied += run;
		}
		done += part;
	}
	rs->send_offset = (rs->send_offset + length) % rs->send_size;
	return -ibv_post_send(rs->id->qp, &wr, &bad);
}

/* A message without data. Caller has a control slot. */
int vb_rsocket_control(struct vb_rsocket *rs, uint32_t message)
{
	struct ibv_send_wr wr = {.wr_id = message, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .imm_data = htonl(message)}, *bad;

	rs->control_slots--;
	return -ibv_post_send(rs->id->qp, &wr, &bad);
}

/* The half of the buffer that was read is offered again. It goes out inline: 16 bytes always fit. */
static int offer_half(struct vb_rsocket *rs, uint32_t message)
{
	struct vb_rsocket_span span = {
		.address = (uintptr_t)rs->receive_buffer + rs->next_offer,
		.key = rs->receive_mr->rkey,
		.length = rs->receive_size / 2,
	};
	struct ibv_sge sge = {.addr = (uintptr_t)&span, .length = sizeof(span)};
	struct ibv_send_wr wr = {
		.wr_id = message,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.send_flags = IBV_SEND_INLINE,
		.imm_data = htonl(message),
	}, *bad;

	if (rs->swapped) {
		span.address = bswap_64(span.address);
		span.key = bswap_32(span.key);
		span.length = bswap_32(span.length);
	}
	wr.wr.rdma.remote_addr = rs->peer_targets.address + rs->peer_target * sizeof(span);
	wr.wr.rdma.rkey = rs->peer_targets.key;
	rs->returned -= rs->receive_size / 2;
	rs->next_offer = rs->next_offer == 0 ? rs->receive_size / 2 : 0;
	if (++rs->peer_target == rs->peer_targets.length)
		rs->peer_target = 0;
	rs->control_slots--;
	return -ibv_post_send(rs->id->qp, &wr, &bad);
}

static void give_credit(struct vb_rsocket *rs)
{
	bool half = rs->returned >= rs->receive_size / 2;
	uint32_t message;
	int error;

	if (!vb_rsocket_is_connected(rs) || !rs->established || rs->control_slots == 0 ||
	    (!half && (int16_t)(rs->taken - rs->credit_at) < 0))
		return;
	rs->credit_at = (uint16_t)(rs->taken + rs->receive_queue / 2);
	message = vb_rsocket_message(VB_RSOCKET_CREDIT, rs->taken + rs->receive_queue);
	error = half ? offer_half(rs, message) : vb_rsocket_control(rs, message);
	if (error != 0)
		fail(rs, -error);
}

static void receive_data(struct vb_rsocket *rs, uint32_t length)
{
	uint32_t next = rs->message_tail + 1 == rs->receive_queue + 1 ? 0 : rs->message_tail + 1;

	if (length == 0) { /* says nothing, but was sent on credit */
		rs->taken++;
		return;
	}
	if (next == rs->message_head || length > rs->receive_size - rs->unread) {
		fail(rs, EPROTO);
		return;
	}
	rs->messages[rs->message_tail] = length;
	rs->message_tail = next;
	rs->unread += length;
}

static void receive_control(struct vb_rsocket *rs, uint32_t control)
{
	if (control == VB_RSOCKET_CONTROL_DISCONNECT) {
		disconnected(rs);
	} else if (control == VB_RSOCKET_CONTROL_SHUTDOWN) {
		if (rs->writable)
			rs->readable = false;
		else
			disconnected(rs);
	}
}

static void handle_received(struct vb_rsocket *rs, const struct ibv_wc *wc)
{
	uint32_t message = ntohl(wc->imm_data);

	/* A peer that sends has its queue pair up: no need to wait for its RTU. */
	rs->established = true;
	switch (vb_rsocket_message_what(message)) {
	case VB_RSOCKET_DATA:
		receive_data(rs, vb_rsocket_message_value(message));
		break;
	case VB_RSOCKET_CREDIT:
		rs->sent_limit = (uint16_t)vb_rsocket_message_value(message);
		break;
	case VB_RSOCKET_CONTROL:
		receive_control(rs, vb_rsocket_message_value(message));
		break;
	default:
		break; /* a mapping: the table itself tells */
	}
}

static void handle_sent(struct vb_rsocket *rs, const struct ibv_wc *wc)
{
	uint32_t message = (uint32_t)wc->wr_id;

	switch (vb_rsocket_message_what(message)) {
	case VB_RSOCKET_CREDIT:
		rs->control_slots++;
		break;
	case VB_RSOCKET_CONTROL:
		rs->control_slots++;
		if (vb_rsocket_message_value(message) == VB_RSOCKET_CONTROL_DISCONNECT)
			disconnected(rs);
		break;
	case VB_RSOCKET_MAPPING:
		rs->send_slots++;
		rs->send_free += sizeof(struct vb_rsocket_iomap);
		break;
	default:
		rs->send_slots++;
		rs->send_free += vb_rsocket_message_value(message);
		break;
	}
	if (wc->status != IBV_WC_SUCCESS)
		fail(rs, wc->status == IBV_WC_RETRY_EXC_ERR ? ETIMEDOUT : ECONNRESET);
}

static void poll_completions(struct vb_rsocket *rs)
{
	struct ibv_recv_wr wr = {.wr_id = VB_RSOCKET_RECEIVED}, *bad;
	struct ibv_wc wc[16];
	int count;

	do {
		count = ibv_poll_cq(rs->id->recv_cq, 16, wc);
		for (int i = 0; i < count; i++) {
			if (!(wc[i].wr_id & VB_RSOCKET_RECEIVED)) {
				handle_sent(rs, &wc[i]);
				continue;
			}
			if (wc[i].status != IBV_WC_SUCCESS || !(wc[i].wc_flags & IBV_WC_WITH_IMM))
				continue;
			handle_received(rs, &wc[i]);
			if (vb_rsocket_is_connected(rs) && ibv_post_recv(rs->id->qp, &wr, &bad) != 0)
				fail(rs, ECONNRESET);
		}
	} while (count == 16);
}

/* The connection's own events: the RTU, the peer's end. */
static void take_events(struct vb_rsocket *rs)
{
	struct rdma_cm_event *event;

	while (!vb_rdmacm_channel_is_empty(vb_rdmacm_channel_of(rs->id->channel))) {
		if (rdma_get_cm_event(rs->id->channel, &event) != 0)
			return;
		switch (event->event) {
		case RDMA_CM_EVENT_ESTABLISHED:
			rs->established = true;
			break;
		case RDMA_CM_EVENT_DISCONNECTED:
			/* Without a word of goodbye on the stream: the peer is dead, and what it had written has arrived. */
			poll_completions(rs);
			if (rs->readable && rs->writable)
				fail(rs, ECONNRESET);
			else
				disconnected(rs);
			break;
		case RDMA_CM_EVENT_CONNECT_ERROR:
		case RDMA_CM_EVENT_UNREACHABLE:
		case RDMA_CM_EVENT_REJECTED:
			fail(rs, ECONNRESET);
			break;
		default:
			break;
		}
		rdma_ack_cm_event(event);
	}
}

void vb_rsocket_progress(struct vb_rsocket *rs)
{
	if (rs->id == NULL || rs->id->recv_cq == NULL)
		return;
	give_credit(rs);
	poll_completions(rs);
	take_events(rs);
	give_credit(rs);
}

void vb_rsocket_offer(struct vb_rsocket *rs, struct vb_rsocket_greeting *greeting)
{
	memset(greeting, 0, sizeof(*greeting));
	greeting->version = VB_RSOCKET_VERSION;
	greeting->flags = VB_RSOCKET_HAS_IOMAP | (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? VB_RSOCKET_BIG_ENDIAN : 0);
	greeting->credits = be16_of((uint16_t)rs->receive_queue);
	greeting->iomap_size = vb_rsocket_scale(rs->iomap_size);
	greeting->targets.address = be64_of((uintptr_t)rs->target_memory);
	greeting->targets.key = be32_of(rs->target_mr->rkey);
	greeting->targets.length = be32_of(VB_RSOCKET_TARGETS);
	greeting->buffer.address = be64_of((uintptr_t)rs->receive_buffer);
	greeting->buffer.key = be32_of(rs->receive_mr->rkey);
	greeting->buffer.length = be32_of(rs->receive_size / 2);
}

int vb_rsocket_accept_offer(struct vb_rsocket *rs, const void *private_data, size_t length)
{
	struct vb_rsocket_greeting greeting;

	if (private_data == NULL || length < sizeof(greeting))
		return -EPROTO;
	memcpy(&greeting, private_data, sizeof(greeting));
	if (greeting.version != VB_RSOCKET_VERSION || be32_get(greeting.targets.length) == 0)
		return -EPROTONOSUPPORT;
	rs->peer_targets.address = be64_get(greeting.targets.address);
	rs->peer_targets.key = be32_get(greeting.targets.key);
	rs->peer_targets.length = be32_get(greeting.targets.length);
	rs->peer_target = 1 % rs->peer_targets.length;
	rs->swapped = (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) != ((greeting.flags & VB_RSOCKET_BIG_ENDIAN) != 0);
	if (greeting.flags & VB_RSOCKET_HAS_IOMAP) {
		rs->peer_iomap.address = rs->peer_targets.address + sizeof(struct vb_rsocket_span) * rs->peer_targets.length;
		rs->peer_iomap.key = rs->peer_targets.key;
		rs->peer_iomap.length = vb_rsocket_unscale(greeting.iomap_size);
	}
	rs->targets[0].address = be64_get(greeting.buffer.address);
	rs->targets[0].key = be32_get(greeting.buffer.key);
	rs->targets[0].length = be32_get(greeting.buffer.length);
	rs->sent_limit = be16_get(greeting.credits);
	return 0;
}
