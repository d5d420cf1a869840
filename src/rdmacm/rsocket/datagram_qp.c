/* SPDX-License-Identifier: MIT
 *
 * The queue pairs of a datagram rsocket: one for each local address it sends from or is reached at. Messages are copied in and out of
 * slots in one registered piece of memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <rdma/rdma_verbs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "rdmacm/address.h"
#include "rdmacm/device.h"
#include "rdmacm/id.h"
#include "rdmacm/rsocket/datagram.h"
#include "rdmacm/rsocket/limits.h"

enum { RECEIVE_SLOT = VB_DATAGRAM_GRH + VB_DATAGRAM_SLOT };

/* Messages begin with who sent them. */
static void fill_header(struct vb_rsocket_header *header, const union vb_datagram_address *local)
{
	memset(header, 0, sizeof(*header));
	memcpy(header->port, &local->in.sin_port, 2); /* at the same place in both kinds of address */
	if (local->any.sa_family == AF_INET) {
		header->version = 4;
		header->length = 8;
		memcpy(header->rest, &local->in.sin_addr, 4);
	} else {
		header->version = 6;
		header->length = 24;
		memcpy(header->rest, &local->in6.sin6_flowinfo, 4);
		memcpy(header->rest + 4, &local->in6.sin6_addr, 16);
	}
}

static bool read_header(const uint8_t *bytes, uint32_t length, union vb_datagram_address *from, uint8_t *header_length)
{
	const struct vb_rsocket_header *header = (const void *)bytes;

	memset(from, 0, sizeof(*from));
	if (length < 8 || header->length > length)
		return false;
	*header_length = header->length;
	memcpy(&from->in.sin_port, header->port, 2);
	if (header->version == 4 && header->length == 8) {
		from->in.sin_family = AF_INET;
		memcpy(&from->in.sin_addr, header->rest, 4);
		return true;
	}
	if (header->version == 6 && header->length == 24) {
		from->in6.sin6_family = AF_INET6;
		memcpy(&from->in6.sin6_flowinfo, header->rest, 4);
		memcpy(&from->in6.sin6_addr, header->rest + 4, 16);
		return true;
	}
	return false;
}

static int post_receive(struct vb_datagram_qp *qp, uint32_t slot)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)qp->memory + (size_t)slot * RECEIVE_SLOT,
		.length = RECEIVE_SLOT,
		.lkey = qp->mr->lkey,
	};
	struct ibv_recv_wr wr = {.wr_id = VB_RSOCKET_RECEIVED | slot, .sg_list = &sge, .num_sge = 1}, *bad;

	return -ibv_post_recv(qp->id->qp, &wr, &bad);
}

static int create_queue_pair(struct vb_datagram_qp *qp)
{
	struct rdma_cm_id *id = qp->id;
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_UD, .sq_sig_all = 1};
	size_t length = (size_t)VB_DATAGRAM_QUEUE * (RECEIVE_SLOT + VB_DATAGRAM_SLOT);

	id->recv_cq_channel = id->send_cq_channel = ibv_create_comp_channel(id->verbs);
	if (id->recv_cq_channel == NULL || fcntl(id->recv_cq_channel->fd, F_SETFL, O_NONBLOCK) != 0)
		return -errno;
	id->recv_cq = id->send_cq = ibv_create_cq(id->verbs, 2 * VB_DATAGRAM_QUEUE, qp, id->recv_cq_channel, 0);
	if (id->recv_cq == NULL)
		return -errno;
	attr.send_cq = attr.recv_cq = id->recv_cq;
	attr.cap.max_send_wr = attr.cap.max_recv_wr = VB_DATAGRAM_QUEUE;
	attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
	if (rdma_create_qp(id, NULL, &attr) != 0)
		return -errno;
	qp->memory = malloc(length);
	if (qp->memory == NULL)
		return -ENOMEM;
	qp->mr = ibv_reg_mr(id->pd, qp->memory, length, IBV_ACCESS_LOCAL_WRITE);
	if (qp->mr == NULL)
		return -errno;
	for (uint32_t slot = 0; slot < VB_DATAGRAM_QUEUE; slot++) {
		int error = post_receive(qp, slot);

		if (error != 0)
			return error;
	}
	qp->free_slots = VB_DATAGRAM_QUEUE == 64 ? UINT64_MAX : (UINT64_C(1) << VB_DATAGRAM_QUEUE) - 1;
	return 0;
}

void vb_datagram_qp_destroy(struct vb_datagram_qp *qp)
{
	vb_list_remove(&qp->node);
	if (qp->id != NULL) {
		if (qp->cq_events != 0)
			ibv_ack_cq_events(qp->id->recv_cq, qp->cq_events);
		rdma_destroy_qp(qp->id);
		if (qp->mr != NULL)
			ibv_dereg_mr(qp->mr);
		rdma_destroy_id(qp->id);
	}
	free(qp->memory);
	free(qp);
}

static int create(struct vb_rsocket_datagram *datagram, const union vb_datagram_address *local, struct vb_datagram_qp **result)
{
	struct vb_datagram_qp *qp = calloc(1, sizeof(*qp));
	union vb_datagram_address bound = *local;
	struct vb_cm_address address;
	int error = 0;

	if (qp == NULL)
		return -ENOMEM;
	vb_list_init(&qp->node);
	qp->local = *local;
	fill_header(&qp->header, local);
	bound.in.sin_port = 0; /* the UDP socket has the port; the queue pair only needs the device */
	if (rdma_create_id(NULL, &qp->id, qp, RDMA_PS_UDP) != 0 || rdma_bind_addr(qp->id, &bound.any) != 0)
		error = -errno;
	if (error == 0 && qp->id->verbs == NULL)
		error = -ENODEV;
	if (error == 0)
		error = create_queue_pair(qp);
	if (error != 0) {
		vb_datagram_qp_destroy(qp);
		return error;
	}
	(void)vb_rdmacm_address_from(&address, &local->any);
	memcpy(qp->gid, address.gid, 16);
	qp->mtu = 128u << vb_rdmacm_device_mtu(vb_rdmacm_id_of(qp->id)->device);
	vb_list_append(&datagram->qps, &qp->node);
	*result = qp;
	return 0;
}

int vb_datagram_qp_get(struct vb_rsocket_datagram *datagram, const union vb_datagram_address *local, struct vb_datagram_qp **qp)
{
	VB_LIST_FOR_EACH(node, &datagram->qps) {
		*qp = vb_container_of(node, struct vb_datagram_qp, node);
		if (vb_datagram_address_equals(&(*qp)->local, local))
			return 0;
	}
	return create(datagram, local, qp);
}

void vb_datagram_qp_poll(struct vb_rsocket_datagram *datagram, struct vb_datagram_qp *qp)
{
	struct ibv_wc wc[16];
	struct ibv_cq *cq;
	void *context;
	int count;

	if (qp->armed && ibv_get_cq_event(qp->id->recv_cq_channel, &cq, &context) == 0) {
		qp->armed = false;
		qp->cq_events++;
	}
	do {
		count = ibv_poll_cq(qp->id->recv_cq, 16, wc);
		for (int i = 0; i < count; i++) {
			uint32_t slot = (uint32_t)wc[i].wr_id;
			const uint8_t *bytes = qp->memory + (size_t)slot * RECEIVE_SLOT + VB_DATAGRAM_GRH;
			union vb_datagram_address from;
			uint8_t header;

			if (!(wc[i].wr_id & VB_RSOCKET_RECEIVED)) {
				qp->free_slots |= UINT64_C(1) << slot;
				continue;
			}
			if (wc[i].status != IBV_WC_SUCCESS)
				continue;
			if (wc[i].byte_len >= VB_DATAGRAM_GRH &&
			    read_header(bytes, wc[i].byte_len - VB_DATAGRAM_GRH, &from, &header))
				vb_datagram_deliver(datagram, &from, bytes + header, wc[i].byte_len - VB_DATAGRAM_GRH - header);
			(void)post_receive(qp, slot);
		}
	} while (count == 16);
}

void vb_datagram_qp_arm(struct vb_datagram_qp *qp)
{
	if (qp->armed)
		return;
	qp->armed = true;
	ibv_req_notify_cq(qp->id->recv_cq, 0);
}

int vb_datagram_qp_send(struct vb_datagram_qp *qp, const struct vb_datagram_peer *peer, const struct iovec *iov, int count)
{
	uint8_t *to;
	struct ibv_sge sge = {.length = qp->header.length, .lkey = qp->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
	unsigned slot;
	int error;

	if (qp->free_slots == 0)
		return -EAGAIN;
	slot = (unsigned)__builtin_ctzll(qp->free_slots);
	to = qp->memory + (size_t)VB_DATAGRAM_QUEUE * RECEIVE_SLOT + (size_t)slot * VB_DATAGRAM_SLOT;
	sge.addr = (uintptr_t)to;
	memcpy(to, &qp->header, qp->header.length);
	for (int i = 0; i < count; i++) {
		memcpy(to + sge.length, iov[i].iov_base, iov[i].iov_len);
		sge.length += (uint32_t)iov[i].iov_len;
	}
	wr.wr_id = slot;
	wr.wr.ud.ah = peer->ah;
	wr.wr.ud.remote_qpn = peer->qpn;
	wr.wr.ud.remote_qkey = RDMA_UDP_QKEY;
	error = -ibv_post_send(qp->id->qp, &wr, &bad);
	if (error == 0)
		qp->free_slots &= ~(UINT64_C(1) << slot);
	return error;
}
