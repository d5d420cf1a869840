/* SPDX-License-Identifier: MIT
 *
 * Sending and receiving datagrams. One for a peer whose queue pair is known, and that fits a packet, goes out on
 * ours; any other goes over the UDP socket, whose answer teaches us the queue pair. What arrives waits in its receive
 * slot until it is read; when all slots are taken the next is lost, as datagrams are.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/rsocket/datagram.h"
#include "rdmacm/rsocket/iov.h"
#include "rdmacm/rsocket/wait.h"

enum { COMPLETIONS_AT_ONCE = 16 };

#define SEND_FLAG (1ULL << 63)           /* in a wr_id: a send slot, not a receive slot */

bool vb_rdatagram_all_sent(struct vb_rsocket *rs)
{
	return rs->datagram->send_free == rs->datagram->send_slots;
}

static bool can_send(struct vb_rsocket *rs)
{
	return rs->datagram->send_free > 0 || !rs->datagram->may_write;
}

static bool can_receive(struct vb_rsocket *rs)
{
	return !vb_list_is_empty(&rs->datagram->arrived) || !rs->datagram->may_read;
}

void vb_rdatagram_release(struct vb_rsocket *rs, struct vb_rdatagram_arrival *arrival)
{
	vb_list_remove(&arrival->node);
	if (arrival->endpoint == NULL) {
		rs->datagram->copies--;
		free(arrival);
	} else {
		vb_rdatagram_endpoint_post_receive(arrival->endpoint,
						   (uint32_t)(arrival - arrival->endpoint->arrivals));
	}
}

static void take_datagram(struct vb_rsocket *rs, struct vb_rdatagram_endpoint *endpoint,
			  const struct ibv_wc *completion)
{
	struct vb_rdatagram_arrival *arrival = &endpoint->arrivals[completion->wr_id];
	const uint8_t *bytes = endpoint->receive_bytes + completion->wr_id * VB_RDATAGRAM_STRIDE + VB_RDATAGRAM_GRH;
	uint32_t length = completion->byte_len - VB_RDATAGRAM_GRH;
	int header = -EPROTO;

	if (completion->status == IBV_WC_SUCCESS && completion->byte_len >= VB_RDATAGRAM_GRH)
		header = vb_rdatagram_header_decode(&arrival->source, bytes, length);
	if (header < 0) {
		vb_rdatagram_endpoint_post_receive(endpoint, (uint32_t)completion->wr_id);
		return;
	}
	arrival->bytes = bytes + header;
	arrival->length = length - (uint32_t)header;
	vb_list_append(&rs->datagram->arrived, &arrival->node);
}

static bool progress_endpoint(struct vb_rsocket *rs, struct vb_rdatagram_endpoint *endpoint)
{
	struct ibv_wc completions[COMPLETIONS_AT_ONCE];
	bool changed = false;
	int count;

	do {
		count = ibv_poll_cq(endpoint->cq, COMPLETIONS_AT_ONCE, completions);
		for (int i = 0; i < count; i++) {
			changed = true;
			if (completions[i].wr_id & SEND_FLAG)
				rs->datagram->free_slots[rs->datagram->send_free++] = (uint32_t)completions[i].wr_id;
			else
				take_datagram(rs, endpoint, &completions[i]);
		}
	} while (count == COMPLETIONS_AT_ONCE);
	return changed;
}

bool vb_rdatagram_progress(struct vb_rsocket *rs)
{
	bool changed = false;

	VB_LIST_FOR_EACH(node, &rs->datagram->endpoints)
		changed |= progress_endpoint(rs, vb_container_of(node, struct vb_rdatagram_endpoint, node));
	return changed;
}

int vb_rdatagram_send_udp(struct vb_rsocket *rs, const struct vb_rdatagram_peer *peer,
			  enum vb_rdatagram_operation operation, struct vb_iov_cursor *from)
{
	uint8_t bytes[VB_RDATAGRAM_UDP_HEADER_MOST + VB_RDATAGRAM_SLOT];
	size_t header, length = from != NULL ? from->left : 0;

	header = vb_rdatagram_udp_header_encode(bytes, operation, peer->endpoint->id->qp->qp_num,
						&peer->endpoint->local);
	if (from != NULL)
		vb_iov_cursor_read(from, bytes + header, length);
	return sendto(rs->fd, bytes, header + length, MSG_NOSIGNAL, &peer->address.any,
		      vb_rsocket_address_length(peer->address.any.sa_family)) < 0 ? -errno : 0;
}

static int send_on_queue_pair(struct vb_rsocket *rs, const struct vb_rdatagram_peer *peer, struct vb_iov_cursor *from)
{
	struct vb_rdatagram *datagram = rs->datagram;
	uint32_t slot = datagram->free_slots[--datagram->send_free];
	uint8_t *bytes = datagram->send_bytes + (size_t)slot * VB_RDATAGRAM_SLOT;
	size_t header = vb_rdatagram_header_encode(bytes, &peer->endpoint->local), length = from->left;
	struct ibv_sge piece = {
		.addr = (uintptr_t)bytes,
		.length = (uint32_t)(header + length),
		.lkey = peer->endpoint->send_mr->lkey,
	};
	struct ibv_send_wr request = {
		.wr_id = SEND_FLAG | slot,
		.sg_list = &piece,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.wr.ud = {.ah = peer->ah, .remote_qpn = peer->queue_pair, .remote_qkey = RDMA_UDP_QKEY},
	}, *refused;
	int error;

	vb_iov_cursor_read(from, bytes + header, length);
	error = ibv_post_send(peer->endpoint->id->qp, &request, &refused);
	if (error != 0)
		datagram->free_slots[datagram->send_free++] = slot;
	return -error;
}

static int find_destination(struct vb_rsocket *rs, const struct sockaddr *to, socklen_t length,
			    struct vb_rdatagram_peer **peer)
{
	union vb_rsocket_address address;
	int error;

	if (to == NULL) {
		*peer = rs->datagram->connected;
		return *peer != NULL ? 0 : -EDESTADDRREQ;
	}
	error = vb_rsocket_address_take(&address, to, length);
	return error != 0 ? error : vb_rdatagram_peer_find(rs, &address, peer);
}

ssize_t vb_rdatagram_send(struct vb_rsocket *rs, struct vb_iov_cursor *from, int flags, const struct sockaddr *to,
			  socklen_t to_length)
{
	struct vb_rdatagram *datagram = rs->datagram;
	struct vb_rdatagram_peer *peer;
	ssize_t length = (ssize_t)from->left;
	size_t header;
	int error;

	if (!datagram->may_write)
		return -EPIPE;
	error = vb_rdatagram_start(rs);
	if (error == 0)
		error = find_destination(rs, to, to_length, &peer);
	if (error != 0)
		return error;
	header = peer->endpoint->local.any.sa_family == AF_INET ? 16 : VB_RDATAGRAM_UDP_HEADER_MOST;
	if (from->left > VB_RDATAGRAM_SLOT - header)
		return -EMSGSIZE;
	if (peer->ah == NULL || from->left + VB_RDATAGRAM_HEADER_MOST > peer->endpoint->mtu) {
		error = vb_rdatagram_send_udp(rs, peer, VB_RDATAGRAM_DATA, from);
		return error != 0 ? error : length;
	}
	if (datagram->send_free == 0) {
		error = vb_rsocket_wait(rs, vb_rsocket_patience(rs, flags, rs->options.send_timeout), can_send);
		if (error != 0)
			return error;
		if (!datagram->may_write)
			return -EPIPE;
	}
	error = send_on_queue_pair(rs, peer, from);
	return error != 0 ? error : length;
}

void vb_rdatagram_deliver(struct vb_rsocket *rs, const union vb_rsocket_address *source, const void *bytes,
			  size_t length)
{
	struct vb_rdatagram_arrival *arrival;

	if (rs->datagram->copies >= rs->datagram->receive_slots)
		return;
	arrival = calloc(1, sizeof(*arrival) + length);
	if (arrival == NULL)
		return;
	memcpy(arrival->copy, bytes, length);
	arrival->bytes = arrival->copy;
	arrival->length = (uint32_t)length;
	arrival->source = *source;
	rs->datagram->copies++;
	vb_list_append(&rs->datagram->arrived, &arrival->node);
}

ssize_t vb_rdatagram_receive(struct vb_rsocket *rs, struct vb_iov_cursor *to, int flags,
			     union vb_rsocket_address *source, size_t *full)
{
	struct vb_rdatagram_arrival *arrival;
	size_t length;
	int error;

	error = vb_rdatagram_start(rs);
	if (error == 0 && vb_list_is_empty(&rs->datagram->arrived))
		error = vb_rsocket_wait(rs, vb_rsocket_patience(rs, flags, rs->options.receive_timeout), can_receive);
	if (error != 0)
		return error;
	if (vb_list_is_empty(&rs->datagram->arrived))
		return 0;                        /* shut down */
	arrival = vb_container_of(rs->datagram->arrived.next, struct vb_rdatagram_arrival, node);
	length = to->left < arrival->length ? to->left : arrival->length;
	vb_iov_cursor_write(to, arrival->bytes, length);
	*source = arrival->source;
	*full = arrival->length;
	if ((flags & MSG_PEEK) == 0)
		vb_rdatagram_release(rs, arrival);
	return (ssize_t)length;
}
