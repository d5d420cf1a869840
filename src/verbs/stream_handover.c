/* SPDX-License-Identifier: MIT
 *
 * Where librdmacm hands a stream over (wire/stream_handover.h). Providers of rdma-core call the same name with a command of theirs; those
 * hear what every other name of the private node says, ENOSYS.
 */
#include <errno.h>
#include <string.h>

#include "io/cancellation.h"
#include "verbs/context.h"
#include "verbs/export.h"
#include "verbs/private.h"
#include "wire/mapped_call.h"
#include "wire/placing_call.h"
#include "wire/sleeping_call.h"
#include "wire/stream_handover.h"

static enum vb_device_kind kind_of(const struct vb_context *context)
{
	return context->session->host.profile->kind;
}

/* Caller holds context->lock. NULL: there is none of that number, or none any more. */
static struct vb_queue_pair *find_qp(struct vb_context *context, uint32_t qpn)
{
	VB_LIST_FOR_EACH(node, &context->qps) {
		struct vb_queue_pair *qp = vb_container_of(node, struct vb_queue_pair, node);

		if (qp->qp->qpn == qpn)
			return qp;
	}
	return NULL;
}

/* The lock keeps the queue pair: who destroys it takes it off the list first. */
static int close_stream(struct vb_context *context, uint32_t qpn)
{
	const struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD};
	struct vb_queue_pair *qp;
	int error = -EINVAL;

	vb_lock_take(&context->lock);
	qp = find_qp(context, qpn);
	if (qp) {
		error = vb_qp_modify(qp->qp, &attr, IBV_QP_STATE, NULL, context->info.active_mtu, vb_endpoint_now());
		if (error == 0) {
			qp->base.state = IBV_QPS_SQD;
			vb_lock_take(&qp->qp->lock);
			vb_endpoint_transmit(context->session->endpoint, qp->qp, vb_endpoint_now());
			vb_lock_release(&qp->qp->lock);
		}
	}
	vb_lock_release(&context->lock);
	return error;
}

static int answer(struct vb_context *context, struct vb_handover_call *call)
{
	switch ((enum vb_handover_verb)call->verb) {
	case VB_HANDOVER_OPEN:
		call->fd = vb_endpoint_stream_events(context->session->endpoint, kind_of(context), call->show);
		return call->fd < 0 ? call->fd : 0;
	case VB_HANDOVER_ADOPT:
		return vb_endpoint_adopt_stream(context->session->endpoint, kind_of(context), call->qpn, context->session->table, call->fd,
						&call->terms, call->cookie);
	case VB_HANDOVER_CLOSE:
		return close_stream(context, call->qpn);
	case VB_HANDOVER_REPORT:
		call->reports = vb_endpoint_stream_reports(context->session->endpoint, kind_of(context), call->report, VB_HANDOVER_REPORTS);
		return 0;
	}
	return -EINVAL;
}

/* 0 or a positive errno. */
VB_EXPORT int execute_ioctl(struct ibv_context *context, void *command)
{
	VB_UNCANCELLED;
	struct vb_handover_call *call = command;
	uint64_t magic;
	int error;

	if (context == NULL || command == NULL) {
		errno = ENOSYS;
		return ENOSYS;
	}
	memcpy(&magic, command, sizeof(magic));
	if (magic == VB_PLACING_MAGIC)
		return vb_verbs_place(command);
	if (magic == VB_SLEEPING_MAGIC)
		return vb_verbs_sleeping(context, command);
	if (magic == VB_MAPPED_MAGIC)
		return vb_verbs_register_mapped(command);
	error = magic == VB_HANDOVER_MAGIC && call->version == VB_HANDOVER_VERSION ? -answer(vb_context_of(context), call) : ENOSYS;
	if (error != 0)
		errno = error;
	return error;
}
