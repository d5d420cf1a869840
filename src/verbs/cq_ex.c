/* SPDX-License-Identifier: MIT
 *
 * Extended completion queues: one completion at a time, read field by field.
 *
 * Between start_poll and end_poll programs post work, which may complete at once, on this very CQ: so the completion
 * being read is taken out as a copy, and what keeps two readers apart is a mutex of their own, outside all queue
 * locks.
 */
#include <errno.h>

#include "io/cancellation.h"
#include "io/clock.h"
#include "verbs/context.h"
#include "verbs/cq.h"
#include "verbs/explain.h"
#include "verbs/explain_objects.h"
#include "verbs/operations.h"
#include "verbs/watch.h"

static struct vb_completion_queue *queue_of(struct ibv_cq_ex *cq)
{
	return vb_completion_queue_of(ibv_cq_ex_to_cq(cq));
}

static bool take_next(struct vb_completion_queue *cq)
{
	if (vb_cq_looks_empty(&cq->cq) || !vb_cq_take(&cq->cq, &cq->current))
		return false;
	if (vb_explains) {
		struct ibv_wc wc = {.status = cq->current.status};

		vb_explain_polled(vb_context_of(cq->base.context)->session->endpoint, &wc, 1);
	}
	cq->wallclock_read = false;
	cq->ex.status = cq->current.status;
	cq->ex.wr_id = cq->current.wr_id;
	return true;
}

/* From here to end_poll the program holds `polling`, where another thread could poll too. */
static int start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr) VB_UNCHECKED
{
	struct vb_completion_queue *own = queue_of(cq);
	struct vb_endpoint *endpoint = vb_context_of(cq->context)->session->endpoint;

	if (attr != NULL && attr->comp_mask != 0)
		return vb_fail_number(EINVAL);
	if (!own->single_threaded)
		vb_mutex_lock(&own->polling);
	if (take_next(own)) {
		vb_endpoint_polled(endpoint, false);
		return 0;
	}
	(void)vb_endpoint_poll(endpoint, &own->poller);
	if (take_next(own)) {
		vb_endpoint_polled(endpoint, true);
		return 0;
	}
	if (!own->single_threaded)
		vb_mutex_unlock(&own->polling);
	return ENOENT;
}

static int next_poll(struct ibv_cq_ex *cq)
{
	return take_next(queue_of(cq)) ? 0 : ENOENT;
}

static void end_poll(struct ibv_cq_ex *cq) VB_UNCHECKED
{
	if (!queue_of(cq)->single_threaded)
		vb_mutex_unlock(&queue_of(cq)->polling);
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *cq) { return queue_of(cq)->current.opcode; }
static uint32_t read_vendor_err(struct ibv_cq_ex *cq) { return queue_of(cq)->current.vendor_error; }
static uint32_t read_byte_len(struct ibv_cq_ex *cq) { return queue_of(cq)->current.byte_length; }
static __be32 read_imm_data(struct ibv_cq_ex *cq) { return queue_of(cq)->current.immediate; }
static uint32_t read_qp_num(struct ibv_cq_ex *cq) { return queue_of(cq)->current.qpn; }
static uint32_t read_src_qp(struct ibv_cq_ex *cq) { return queue_of(cq)->current.source_qpn; }
static unsigned int read_wc_flags(struct ibv_cq_ex *cq) { return queue_of(cq)->current.wc_flags; }
static uint8_t read_sl(struct ibv_cq_ex *cq) { return queue_of(cq)->current.service_level; }
static uint64_t read_completion_ts(struct ibv_cq_ex *cq) { return (uint64_t)queue_of(cq)->current.timestamp; }

static uint32_t read_slid(struct ibv_cq_ex *cq)
{
	const struct vb_completion *current = &queue_of(cq)->current;

	return current->released ? 0 : current->slid;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *cq)
{
	const struct vb_completion *current = &queue_of(cq)->current;

	return current->released ? 0 : current->dlid_path_bits;
}

/* What the rule that gave the frame to its queue pair has for a tag (IBV_FLOW_SPEC_ACTION_TAG); 0: none, or no frame. The engine of raw
 * packets, which have no immediate data, brings it in that place. */
static uint32_t read_flow_tag(struct ibv_cq_ex *cq)
{
	const struct vb_completion *current = &queue_of(cq)->current;

	return current->wc_flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV) ? 0 : current->immediate;
}

/* VLAN and tag matching cannot be asked for, so these are never to be called, but a pointer must be there. */
static uint16_t read_cvlan(struct ibv_cq_ex *cq) { (void)cq; return 0; }
static void read_tm_info(struct ibv_cq_ex *cq, struct ibv_wc_tm_info *info)
{
	(void)cq;
	*info = (struct ibv_wc_tm_info){0};
}

/* How long ago it was, off what the wall clock says now. Never before the one that was read last, whatever became of
 * that clock meanwhile: if it is set back, stamps stand still until it has caught up. */
static uint64_t read_completion_wallclock_ns(struct ibv_cq_ex *cq)
{
	struct vb_completion_queue *own = queue_of(cq);

	if (!own->wallclock_read) {
		vb_time age = vb_endpoint_now() - own->current.timestamp;
		uint64_t stamp = (uint64_t)(vb_clock_wall() - age);

		if (own->wallclock < stamp)
			own->wallclock = stamp;
		own->wallclock_read = true;
	}
	return own->wallclock;
}

/* Flow tags are those of rules, which only raw packets have. */
static uint64_t supported_fields(struct ibv_context *context)
{
	const uint64_t always = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
				IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

	return vb_profile_type(vb_profile_of_context(context), IBV_QPT_RAW_PACKET) != NULL ? always | IBV_WC_EX_WITH_FLOW_TAG : always;
}

struct ibv_cq_ex *vb_verbs_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	VB_UNCANCELLED;
	const uint64_t supported = supported_fields(context);
	struct vb_completion_queue *cq;
	struct ibv_pd *parent = NULL;
	uint32_t flags = 0;
	int error = 0;

	if (attr == NULL ||
	    (attr->comp_mask & ~(uint32_t)(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD)) != 0)
		error = -EINVAL;
	if (error == 0 && (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS))
		flags = attr->flags;
	if (error == 0 &&
	    ((attr->wc_flags & ~supported) != 0 || (flags & ~(uint32_t)IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0))
		error = -EOPNOTSUPP;
	if (error == 0 && (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD)) {
		parent = attr->parent_domain;
		if (parent == NULL || !vb_same_session(context, parent->context) ||
		    vb_domain_of(parent)->parent_of == NULL)
			error = -EINVAL;
	}
	if (error != 0) {
		vb_explain_no_cq_ex(attr, supported, -error);
		return vb_fail_null(error);
	}
	cq = vb_completion_queue_create(context, attr->cqe, attr->cq_context, attr->channel, attr->comp_vector, parent);
	if (cq == NULL)
		return NULL;
	if (parent != NULL) {
		cq->domain = vb_domain_of(parent);
		vb_domain_hold(cq->domain);
	}
	cq->single_threaded = (flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0;
	cq->ex.start_poll = start_poll;
	cq->ex.next_poll = next_poll;
	cq->ex.end_poll = end_poll;
	cq->ex.read_opcode = read_opcode;
	cq->ex.read_vendor_err = read_vendor_err;
	cq->ex.read_byte_len = read_byte_len;
	cq->ex.read_imm_data = read_imm_data;
	cq->ex.read_qp_num = read_qp_num;
	cq->ex.read_src_qp = read_src_qp;
	cq->ex.read_wc_flags = read_wc_flags;
	cq->ex.read_slid = read_slid;
	cq->ex.read_sl = read_sl;
	cq->ex.read_dlid_path_bits = read_dlid_path_bits;
	cq->ex.read_completion_ts = read_completion_ts;
	cq->ex.read_cvlan = read_cvlan;
	cq->ex.read_flow_tag = read_flow_tag;
	cq->ex.read_tm_info = read_tm_info;
	cq->ex.read_completion_wallclock_ns = read_completion_wallclock_ns;
	if (vb_watches)
		vb_watch_fields(cq);
	return &cq->ex;
}
