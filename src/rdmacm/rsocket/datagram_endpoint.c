/* SPDX-License-Identifier: MIT
 *
 * The UD queue pair of one local address. It receives into slots of its own and sends from slots that all queue pairs
 * of the rsocket share. Its id is bound to the address to find the device, and to no port: it is never looked up.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "rdmacm/bind.h"
#include "rdmacm/rsocket/datagram.h"

static union ibv_gid gid_of(const union vb_rsocket_address *address)
{
	union ibv_gid gid = {0};

	if (address->any.sa_family == AF_INET6) {
		memcpy(gid.raw, &address->v6.sin6_addr, sizeof(gid.raw));
		return gid;
	}
	/* RoCEv2 knows an IPv4 address as the IPv6 address it is mapped to. */
	gid.raw[10] = gid.raw[11] = 0xff;
	memcpy(&gid.raw[12], &address->v4.sin_addr, sizeof(address->v4.sin_addr));
	return gid;
}

static int find_gid_index(struct vb_rdatagram_endpoint *endpoint, int table_length)
{
	union ibv_gid wanted = gid_of(&endpoint->local), gid;

	for (int i = 0; i < table_length; i++) {
		if (ibv_query_gid(endpoint->id->verbs, endpoint->id->port_num, i, &gid) == 0 &&
		    memcmp(&gid, &wanted, sizeof(gid)) == 0) {
			endpoint->gid_index = (uint8_t)i;
			return 0;
		}
	}
	return -EADDRNOTAVAIL;
}

static int bind_id(struct vb_rdatagram_endpoint *endpoint)
{
	union vb_rsocket_address address = endpoint->local;
	struct ibv_port_attr port;
	int error;

	address.v4.sin_port = 0;                 /* sin6_port lies at the same place */
	if (rdma_create_id(NULL, &endpoint->id, endpoint, RDMA_PS_UDP) != 0 ||
	    rdma_bind_addr(endpoint->id, &address.any) != 0)
		return -errno;
	vb_rdmacm_bind_need_device(vb_rdmacm_id_of(endpoint->id));
	if (endpoint->id->verbs == NULL)
		return -ENODEV;
	error = -ibv_query_port(endpoint->id->verbs, endpoint->id->port_num, &port);
	if (error != 0)
		return error;
	endpoint->mtu = 128u << port.active_mtu;
	return find_gid_index(endpoint, port.gid_tbl_len);
}

static int create_queue_pair(struct vb_rsocket *rs, struct vb_rdatagram_endpoint *endpoint)
{
	struct vb_rdatagram *datagram = rs->datagram;
	struct ibv_qp_init_attr attributes = {
		.qp_type = IBV_QPT_UD,
		.sq_sig_all = 1,
		.cap = {
			.max_send_wr = datagram->send_slots,
			.max_recv_wr = datagram->receive_slots,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
	};
	struct epoll_event event = {.events = EPOLLIN};

	endpoint->completions = ibv_create_comp_channel(endpoint->id->verbs);
	if (endpoint->completions == NULL)
		return -errno;
	if (fcntl(endpoint->completions->fd, F_SETFL, fcntl(endpoint->completions->fd, F_GETFL) | O_NONBLOCK) != 0)
		return -errno;
	endpoint->cq = ibv_create_cq(endpoint->id->verbs, (int)(datagram->send_slots + datagram->receive_slots), NULL,
				     endpoint->completions, 0);
	if (endpoint->cq == NULL)
		return -errno;
	attributes.send_cq = attributes.recv_cq = endpoint->cq;
	if (rdma_create_qp(endpoint->id, NULL, &attributes) != 0)
		return -errno;
	/* A thread may be asleep on the poller already: let the first datagram wake it. */
	endpoint->armed = ibv_req_notify_cq(endpoint->cq, 0) == 0;
	return epoll_ctl(datagram->poller, EPOLL_CTL_ADD, endpoint->completions->fd, &event) == 0 ? 0 : -errno;
}

int vb_rdatagram_endpoint_post_receive(struct vb_rdatagram_endpoint *endpoint, uint32_t slot)
{
	struct ibv_sge piece = {
		.addr = (uintptr_t)endpoint->receive_bytes + (size_t)slot * VB_RDATAGRAM_STRIDE,
		.length = VB_RDATAGRAM_GRH + VB_RDATAGRAM_SLOT,
		.lkey = endpoint->receive_mr->lkey,
	};
	struct ibv_recv_wr request = {.wr_id = slot, .sg_list = &piece, .num_sge = 1}, *refused;

	return -ibv_post_recv(endpoint->id->qp, &request, &refused);
}

static int create_buffers(struct vb_rsocket *rs, struct vb_rdatagram_endpoint *endpoint)
{
	struct vb_rdatagram *datagram = rs->datagram;
	size_t length = (size_t)datagram->receive_slots * VB_RDATAGRAM_STRIDE;
	int error = 0;

	endpoint->send_mr = ibv_reg_mr(endpoint->id->pd, datagram->send_bytes,
				       (size_t)datagram->send_slots * VB_RDATAGRAM_SLOT, 0);
	if (endpoint->send_mr == NULL)
		return -errno;
	if (posix_memalign((void **)&endpoint->receive_bytes, 4096, length) != 0) {
		endpoint->receive_bytes = NULL;
		return -ENOMEM;
	}
	endpoint->receive_mr = ibv_reg_mr(endpoint->id->pd, endpoint->receive_bytes, length, IBV_ACCESS_LOCAL_WRITE);
	if (endpoint->receive_mr == NULL)
		return -errno;
	endpoint->arrivals = calloc(datagram->receive_slots, sizeof(*endpoint->arrivals));
	if (endpoint->arrivals == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; error == 0 && i < datagram->receive_slots; i++) {
		vb_list_init(&endpoint->arrivals[i].node);
		endpoint->arrivals[i].endpoint = endpoint;
		error = vb_rdatagram_endpoint_post_receive(endpoint, i);
	}
	return error;
}

static int create(struct vb_rsocket *rs, const union vb_rsocket_address *local, struct vb_rdatagram_endpoint **created)
{
	struct vb_rdatagram_endpoint *endpoint = calloc(1, sizeof(*endpoint));
	int error;

	if (endpoint == NULL)
		return -ENOMEM;
	endpoint->local = *local;
	vb_list_append(&rs->datagram->endpoints, &endpoint->node);
	error = bind_id(endpoint);
	if (error == 0)
		error = create_queue_pair(rs, endpoint);
	if (error == 0)
		error = create_buffers(rs, endpoint);
	if (error != 0)
		vb_rdatagram_endpoint_destroy(rs, endpoint);
	else
		*created = endpoint;
	return error;
}

int vb_rdatagram_endpoint_find(struct vb_rsocket *rs, const union vb_rsocket_address *local,
			       struct vb_rdatagram_endpoint **endpoint)
{
	union ibv_gid wanted = gid_of(local), gid;

	VB_LIST_FOR_EACH(node, &rs->datagram->endpoints) {
		*endpoint = vb_container_of(node, struct vb_rdatagram_endpoint, node);
		gid = gid_of(&(*endpoint)->local);
		if (memcmp(&gid, &wanted, sizeof(gid)) == 0)
			return 0;
	}
	return create(rs, local, endpoint);
}

void vb_rdatagram_endpoint_destroy(struct vb_rsocket *rs, struct vb_rdatagram_endpoint *endpoint)
{
	vb_list_remove(&endpoint->node);
	if (endpoint->completions != NULL && rs->datagram->poller >= 0)
		epoll_ctl(rs->datagram->poller, EPOLL_CTL_DEL, endpoint->completions->fd, NULL);
	if (endpoint->id != NULL && endpoint->id->qp != NULL)
		rdma_destroy_qp(endpoint->id);
	if (endpoint->receive_mr != NULL)
		ibv_dereg_mr(endpoint->receive_mr);
	if (endpoint->send_mr != NULL)
		ibv_dereg_mr(endpoint->send_mr);
	if (endpoint->cq != NULL)
		ibv_destroy_cq(endpoint->cq);
	if (endpoint->completions != NULL)
		ibv_destroy_comp_channel(endpoint->completions);
	if (endpoint->id != NULL)
		rdma_destroy_id(endpoint->id);
	free(endpoint->receive_bytes);
	free(endpoint->arrivals);
	free(endpoint);
}

struct ibv_ah *vb_rdatagram_endpoint_reach(struct vb_rdatagram_endpoint *endpoint,
					   const union vb_rsocket_address *address)
{
	struct ibv_ah_attr attributes = {
		.is_global = 1,
		.port_num = endpoint->id->port_num,
		.grh = {.dgid = gid_of(address), .sgid_index = endpoint->gid_index, .hop_limit = 64},
	};

	return ibv_create_ah(endpoint->id->pd, &attributes);
}
