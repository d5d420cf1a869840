/* SPDX-License-Identifier: MIT
 *
 * rdma_init_qp_attr and the moves of a queue pair through its states. Which attribute comes from whom (IBA 12.7,
 * 12.9.8):
 *
 *   RTR   destination QPN, path MTU           the peer's REQ or REP
 *         PSN to expect                       what our own message named: Starting PSN is where its receiver begins
 *         max_dest_rd_atomic                  responder resources we granted
 *         min_rnr_timer                       0 = 655 ms (man rdma_connect)
 *   RTS   PSN to begin with                   what the peer's message named
 *         timeout                             ours (passive: the peer's REQ says it)
 *         retry count                         passive: the REQ; active: what the program asked for
 *         RNR retry count                     the peer's message: it knows its receive queue
 *         max_rd_atomic                       initiator depth after negotiation
 */
#include "rdmacm/qp_attr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <string.h>

#include "io/cancellation.h"
#include "rdmacm/device.h"
#include "rdmacm/export.h"
#include "rdmacm/path.h"
#include "rdmacm/result.h"

/* InfiniBand within a subnet: LIDs, and no GRH. */
static void fill_local(const struct vb_rdmacm_id *id, struct ibv_ah_attr *attr)
{
	attr->dlid = id->route.dlid;
	attr->src_path_bits = vb_rdmacm_device_path_bits(id->device, id->route.slid);
	attr->sl = id->route.sl;
	attr->port_num = 1;
}

int vb_rdmacm_qp_attr_address(const struct vb_rdmacm_id *id, struct ibv_ah_attr *attr)
{
	int index;

	memset(attr, 0, sizeof(*attr));
	if (vb_rdmacm_id_is_fabric(id)) {
		fill_local(id, attr);
		return 0;
	}
	index = vb_rdmacm_device_gid_index(id->device, id->source.gid, (enum vb_framing)id->route.framing);
	if (index < 0)
		return index;
	attr->is_global = 1;
	attr->port_num = 1;
	memcpy(attr->grh.dgid.raw, id->destination.gid, 16);
	attr->grh.sgid_index = (uint8_t)index;
	attr->grh.hop_limit = id->path.hop_limit;
	attr->grh.traffic_class = id->path.traffic_class;
	attr->grh.flow_label = ntohl(id->path.flow_label);
	return 0;
}

/* Has a REQ or REP told us about the peer? */
static bool peer_is_known(const struct vb_rdmacm_id *id)
{
	switch (vb_rdmacm_id_state(id)) {
	case VB_RDMACM_REQUESTED:
	case VB_RDMACM_ACCEPTED:
	case VB_RDMACM_RESPONDED:
	case VB_RDMACM_CONNECTED:
		return true;
	default:
		return false;
	}
}

/* 0: the default partition's, where only RoCE is. */
static uint16_t pkey_index(const struct vb_rdmacm_id *id)
{
	int index = vb_rdmacm_id_is_fabric(id) && id->route.pkey != 0 ? vb_rdmacm_device_pkey_index(id->device, id->route.pkey) : 0;

	return index > 0 ? (uint16_t)index : 0;
}

static int fill_init(const struct vb_rdmacm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	attr->pkey_index = pkey_index(id);
	attr->port_num = 1;
	*mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	if (vb_rdmacm_id_is_datagram(id)) {
		attr->qkey = RDMA_UDP_QKEY;
		*mask |= IBV_QP_QKEY;
		return 0;
	}
	attr->qp_access_flags = 0;
	if (peer_is_known(id)) {
		attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
		if (id->responder_resources != 0)
			attr->qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	}
	*mask |= IBV_QP_ACCESS_FLAGS;
	return 0;
}

static int fill_ready_to_receive(const struct vb_rdmacm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	*mask = IBV_QP_STATE;
	if (vb_rdmacm_id_is_datagram(id))
		return 0;
	if (!peer_is_known(id))
		return -EINVAL;
	attr->path_mtu = id->peer.path_mtu != 0 ? (enum ibv_mtu)id->peer.path_mtu : (enum ibv_mtu)id->path.mtu;
	attr->dest_qp_num = id->peer.qpn;
	/* A message names the PSN at which its receiver shall begin to send (IBA 12.7, Starting PSN): so ours is
	 * what we expect. */
	attr->rq_psn = id->starting_psn;
	*mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (id->id.qp_type == IBV_QPT_RC || id->id.qp_type == IBV_QPT_XRC_RECV) {
		attr->max_dest_rd_atomic = id->responder_resources;
		attr->min_rnr_timer = 0;
		*mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	}
	return vb_rdmacm_qp_attr_address(id, &attr->ah_attr);
}

static int fill_ready_to_send(const struct vb_rdmacm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	*mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	if (vb_rdmacm_id_is_datagram(id)) {
		attr->sq_psn = 0;
		return 0;
	}
	if (!peer_is_known(id))
		return -EINVAL;
	attr->sq_psn = id->peer.starting_psn;
	if (id->id.qp_type != IBV_QPT_UC) {
		attr->timeout = !id->has_ack_timeout && id->peer.ack_timeout != 0 ? id->peer.ack_timeout :
										     vb_rdmacm_path_ack_timeout(id);
		*mask |= IBV_QP_TIMEOUT;
	}
	if (id->id.qp_type == IBV_QPT_RC || id->id.qp_type == IBV_QPT_XRC_SEND) {
		attr->retry_cnt = id->retry_count;
		attr->rnr_retry = id->peer.rnr_retry_count;
		attr->max_rd_atomic = id->initiator_depth;
		*mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	}
	return 0;
}

/* As the kernel's iw_cm: the rights, and nothing for RTS, which only a connection leads to. */
static int fill_stream(struct ibv_qp_attr *attr, int *mask)
{
	if (attr->qp_state == IBV_QPS_RTS) {
		*mask = 0;
		return 0;
	}
	if (attr->qp_state != IBV_QPS_INIT && attr->qp_state != IBV_QPS_RTR)
		return -EINVAL;
	attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	*mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS;
	return 0;
}

static int fill(const struct vb_rdmacm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	if (id->device == NULL)
		return -EINVAL;
	if (vb_rdmacm_id_is_stream(id))
		return fill_stream(attr, mask);
	switch (attr->qp_state) {
	case IBV_QPS_INIT:
		return fill_init(id, attr, mask);
	case IBV_QPS_RTR:
		return fill_ready_to_receive(id, attr, mask);
	case IBV_QPS_RTS:
		return fill_ready_to_send(id, attr, mask);
	default:
		return -EINVAL;
	}
}

VB_EXPORT int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *qp_attr, int *qp_attr_mask)
{
	VB_UNCANCELLED;
	if (id == NULL || qp_attr == NULL || qp_attr_mask == NULL)
		return vb_rdmacm_fail(EINVAL);
	return vb_rdmacm_result(fill(vb_rdmacm_id_of(id), qp_attr, qp_attr_mask));
}

static int move(struct vb_rdmacm_id *id, struct ibv_qp_attr *attr, int mask)
{
	return vb_rdmacm_result(-ibv_modify_qp(id->id.qp, attr, mask));
}

int vb_rdmacm_qp_ready_to_receive(struct vb_rdmacm_id *id, uint8_t responder_resources)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	int mask;

	if (id->id.qp == NULL)
		return 0;
	/* The QP was made before anything was negotiated: INIT -> INIT now sets the rights that go with it. */
	if (vb_rdmacm_result(fill(id, &attr, &mask)) != 0 || move(id, &attr, mask) != 0)
		return -1;
	attr.qp_state = IBV_QPS_RTR;
	if (vb_rdmacm_result(fill(id, &attr, &mask)) != 0)
		return -1;
	if (responder_resources != RDMA_MAX_RESP_RES)
		attr.max_dest_rd_atomic = responder_resources;
	return move(id, &attr, mask);
}

int vb_rdmacm_qp_ready_to_send(struct vb_rdmacm_id *id, uint8_t initiator_depth)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};
	int mask;

	if (id->id.qp == NULL)
		return 0;
	if (vb_rdmacm_result(fill(id, &attr, &mask)) != 0)
		return -1;
	if (initiator_depth != RDMA_MAX_INIT_DEPTH)
		attr.max_rd_atomic = initiator_depth;
	return move(id, &attr, mask);
}

int vb_rdmacm_qp_error(struct vb_rdmacm_id *id)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	return id->id.qp == NULL ? 0 : move(id, &attr, IBV_QP_STATE);
}
