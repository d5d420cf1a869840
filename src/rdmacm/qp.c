/* SPDX-License-Identifier: MIT
 *
 * Queue pairs and shared receive queues of an id. What the program leaves out, the library makes: the device's
 * default protection domain, and completion queues with channels of their own, all visible in the id. What it made it
 * also destroys.
 *
 * A connected QP is left in INIT, ready for receives to be posted; a datagram QP in RTS.
 */
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <string.h>

#include "io/cancellation.h"
#include "rdmacm/bind.h"
#include "rdmacm/channel.h"
#include "rdmacm/device.h"
#include "rdmacm/ece.h"
#include "rdmacm/explain.h"
#include "rdmacm/export.h"
#include "rdmacm/id.h"
#include "rdmacm/result.h"

static void destroy_completion_queues(struct rdma_cm_id *id)
{
	/* Its SRQ completes to them, and goes by itself. */
	if (id->qp_type == IBV_QPT_XRC_RECV && id->srq != NULL)
		return;
	if (id->recv_cq != NULL)
		ibv_destroy_cq(id->recv_cq);
	if (id->send_cq != NULL && id->send_cq != id->recv_cq)
		ibv_destroy_cq(id->send_cq);
	if (id->recv_cq_channel != NULL)
		ibv_destroy_comp_channel(id->recv_cq_channel);
	if (id->send_cq_channel != NULL && id->send_cq_channel != id->recv_cq_channel)
		ibv_destroy_comp_channel(id->send_cq_channel);
	id->recv_cq = id->send_cq = NULL;
	id->recv_cq_channel = id->send_cq_channel = NULL;
}

/* rdma_verbs.h expects the id as the CQ's context. */
static int create_completion_queue(struct rdma_cm_id *id, uint32_t size, struct ibv_cq **cq, struct ibv_comp_channel **channel)
{
	if (size == 0)
		return 0;
	*channel = ibv_create_comp_channel(id->verbs);
	if (*channel == NULL)
		return -1;
	*cq = ibv_create_cq(id->verbs, (int)size, id, *channel, 0);
	return *cq != NULL ? 0 : -1;
}

static int create_completion_queues(struct rdma_cm_id *id, uint32_t send_size, uint32_t receive_size)
{
	if (create_completion_queue(id, receive_size, &id->recv_cq, &id->recv_cq_channel) == 0 &&
	    create_completion_queue(id, send_size, &id->send_cq, &id->send_cq_channel) == 0)
		return 0;
	destroy_completion_queues(id);
	return -1;
}

/* RESET -> INIT for a connection; all the way to RTS for datagrams. */
static int initialise(struct rdma_cm_id *id, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	int mask;

	if (rdma_init_qp_attr(id, &attr, &mask) != 0)
		return -1;
	if (vb_rdmacm_result(-ibv_modify_qp(qp, &attr, mask)) != 0)
		return -1;
	if (!vb_rdmacm_id_is_datagram(vb_rdmacm_id_of(id)))
		return 0;
	attr.qp_state = IBV_QPS_RTR;
	if (vb_rdmacm_result(-ibv_modify_qp(qp, &attr, IBV_QP_STATE)) != 0)
		return -1;
	attr.qp_state = IBV_QPS_RTS;
	attr.sq_psn = 0;
	return vb_rdmacm_result(-ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
}

static bool is_different(const struct ibv_cq *ours, const struct ibv_cq *theirs)
{
	return ours != NULL && theirs != NULL && ours != theirs;
}

VB_EXPORT int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	VB_UNCANCELLED;
	struct ibv_qp *qp;

	if (id != NULL)
		vb_rdmacm_bind_need_device(vb_rdmacm_id_of(id));
	if (id == NULL || attr == NULL || id->qp != NULL || id->verbs == NULL)
		return vb_rdmacm_refuse("rdma_create_qp", vb_rdmacm_id_of(id), EINVAL,
					id != NULL && id->qp != NULL ? "the id has a queue pair already." :
					"the id is not bound to a device yet: wait for RDMA_CM_EVENT_ADDR_RESOLVED, or "
					"take the id of RDMA_CM_EVENT_CONNECT_REQUEST.");
	vb_rdmacm_channel_touched(vb_rdmacm_id_of(id));
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || attr->pd == NULL) {
		attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
		attr->pd = id->pd;
	} else if (attr->pd->context != id->verbs) {
		return vb_rdmacm_refuse("rdma_create_qp", vb_rdmacm_id_of(id), EINVAL,
					"the PD belongs to another context than the id's: allocate it with id->verbs.");
	}
	if (id->qp_type == IBV_QPT_XRC_RECV && (!(attr->comp_mask & IBV_QP_INIT_ATTR_XRCD) || attr->xrcd == NULL)) {
		attr->xrcd = vb_rdmacm_device_xrcd(vb_rdmacm_id_of(id)->device);
		if (attr->xrcd == NULL)
			return -1;
		attr->comp_mask |= IBV_QP_INIT_ATTR_XRCD;
	}
	if (is_different(id->recv_cq, attr->recv_cq) || is_different(id->send_cq, attr->send_cq))
		return vb_rdmacm_refuse("rdma_create_qp", vb_rdmacm_id_of(id), EINVAL,
					"the id has completion queues already, and others are asked for.");
	if (create_completion_queues(id, attr->send_cq != NULL || id->send_cq != NULL ? 0 : attr->cap.max_send_wr,
				     attr->recv_cq != NULL || id->recv_cq != NULL ? 0 : attr->cap.max_recv_wr) != 0)
		return -1;
	if (attr->send_cq == NULL)
		attr->send_cq = id->send_cq;
	if (attr->recv_cq == NULL)
		attr->recv_cq = id->recv_cq;
	if (id->srq != NULL && attr->srq == NULL)
		attr->srq = id->srq;

	qp = ibv_create_qp_ex(id->verbs, attr);
	if (qp == NULL)
		goto no_qp;
	if (vb_rdmacm_ece_begin(vb_rdmacm_id_of(id), qp) != 0 || initialise(id, qp) != 0 ||
	    vb_rdmacm_ece_finish(vb_rdmacm_id_of(id), qp) != 0)
		goto not_initialised;
	id->pd = attr->pd;
	id->qp = qp;
	return 0;

not_initialised:
	{
		int error = errno;

		ibv_destroy_qp(qp);
		errno = error;
	}
no_qp:
	{
		int error = errno;

		destroy_completion_queues(id);
		errno = error;
	}
	return -1;
}

VB_EXPORT int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *qp_init_attr)
{
	VB_UNCANCELLED;
	struct ibv_qp_init_attr_ex attr = {0};
	int result;

	if (id == NULL || qp_init_attr == NULL)
		return vb_rdmacm_fail(EINVAL);
	/* The extended structure begins with the plain one. */
	memcpy(&attr, qp_init_attr, sizeof(*qp_init_attr));
	attr.comp_mask = IBV_QP_INIT_ATTR_PD;
	attr.pd = pd != NULL ? pd : id->pd;
	result = rdma_create_qp_ex(id, &attr);
	memcpy(qp_init_attr, &attr, sizeof(*qp_init_attr));
	return result;
}

VB_EXPORT void rdma_destroy_qp(struct rdma_cm_id *id)
{
	VB_UNCANCELLED;
	if (id->qp != NULL)
		ibv_destroy_qp(id->qp);
	id->qp = NULL;
	destroy_completion_queues(id);
}

/* What an XRC SRQ has for itself: the device's domain, and the id's completion queue. */
static int add_xrc_owners(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_XRCD) || attr->xrcd == NULL) {
		attr->xrcd = vb_rdmacm_device_xrcd(vb_rdmacm_id_of(id)->device);
		if (attr->xrcd == NULL)
			return -1;
	}
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ) || attr->cq == NULL) {
		if (id->recv_cq == NULL && create_completion_queues(id, 0, attr->attr.max_wr) != 0)
			return -1;
		attr->cq = id->recv_cq;
	}
	attr->comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	return 0;
}

VB_EXPORT int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
	VB_UNCANCELLED;
	struct ibv_srq *srq;

	if (id == NULL || attr == NULL || id->verbs == NULL || !(attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE))
		return vb_rdmacm_fail(EINVAL);
	if (attr->srq_type != IBV_SRQT_BASIC && attr->srq_type != IBV_SRQT_XRC)
		return vb_rdmacm_fail(EOPNOTSUPP); /* tag matching: the devices do not offer it */
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || attr->pd == NULL) {
		attr->pd = id->pd;
		attr->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
	}
	if (attr->srq_type == IBV_SRQT_XRC && add_xrc_owners(id, attr) != 0)
		return -1;
	srq = ibv_create_srq_ex(id->verbs, attr);
	if (srq == NULL) {
		int error = errno;

		if (id->qp == NULL)
			destroy_completion_queues(id);
		return vb_rdmacm_fail(error);
	}
	if (id->pd == NULL)
		id->pd = attr->pd;
	id->srq = srq;
	return 0;
}

VB_EXPORT int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	VB_UNCANCELLED;
	struct ibv_srq_init_attr_ex extended = {0};
	int result;

	if (id == NULL || attr == NULL)
		return vb_rdmacm_fail(EINVAL);
	memcpy(&extended, attr, sizeof(*attr));
	extended.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
	extended.srq_type = id->qp_type == IBV_QPT_XRC_RECV ? IBV_SRQT_XRC : IBV_SRQT_BASIC;
	extended.pd = pd;
	result = rdma_create_srq_ex(id, &extended);
	memcpy(attr, &extended, sizeof(*attr));
	return result;
}

VB_EXPORT void rdma_destroy_srq(struct rdma_cm_id *id)
{
	VB_UNCANCELLED;
	if (id->srq != NULL)
		ibv_destroy_srq(id->srq);
	id->srq = NULL;
	/* With a QP the completion queues are the QP's. */
	if (id->qp == NULL)
		destroy_completion_queues(id);
}
