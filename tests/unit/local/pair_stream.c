/* SPDX-License-Identifier: MIT
 *
 * See pair_stream.h.
 */
#include "pair_stream.h"

#include <stdlib.h>

#include "wire/fpdu.h"

struct vb_transport pair_bypass_transport;

bool pair_is_stream(const struct pair *pair)
{
	return pair->carrier == BY_STREAM || pair->carrier == BY_BYPASS;
}

static void part(struct vb_qp *qp, struct process *p)
{
	if (!p->bypass)
		return;
	vb_iwarp_transport.bypassed(qp, NULL);
	vb_local_bypass_close(p->bypass);
	p->bypass = NULL;
}

static void bypass_modified(struct vb_qp *qp, enum ibv_qp_state from, int attr_mask, vb_time now)
{
	struct process *p = qp->host->context;

	vb_iwarp_transport.modified(qp, from, attr_mask, now);
	if (qp->state == IBV_QPS_RESET)
		part(qp, p);
	else if (p->bypass)
		vb_local_bypass_modified(p->bypass);
}

static void bypass_detach(struct vb_qp *qp)
{
	vb_lock_take(&qp->lock);
	part(qp, qp->host->context);
	vb_lock_release(&qp->lock);
	vb_iwarp_transport.detach(qp);
}

static void meet(struct process *p)
{
	const struct vb_local_meeting meeting = {.table = PAIR_TABLE, .peer_qpn = p->other->qp->qpn,
						 .connection = p->pair->connection[p->index]};

	vb_lock_take(&p->qp->lock);
	p->bypass = vb_local_bypass_open(p->qp, p->segment, &p->peer, &meeting);
	assert_non_null(p->bypass);
	vb_iwarp_transport.bypassed(p->qp, vb_local_bypass_way(p->bypass));
	vb_lock_release(&p->qp->lock);
}

void pair_stream_open(void)
{
	pair_bypass_transport = vb_iwarp_transport;
	pair_bypass_transport.detach = bypass_detach;
	pair_bypass_transport.modified = bypass_modified;
}

/* As after an MPA handshake. No message of iWARP carries a SEND's immediate data. */
void pair_stream_connect(struct pair *pair, const struct connection *c)
{
	for (unsigned i = 0; i < 2; i++) {
		struct process *p = &pair->process[i];
		const struct vb_iwarp_terms terms = {.initiator = i == 0, .crc = true, .mulpdu = VB_MULPDU_LARGE,
						     .ird = c->max_dest_rd_atomic, .ord = c->max_rd_atomic,
						     .hold = VB_MILLISECONDS(100)};

		p->qp->opcodes = ~(1u << IBV_WR_SEND_WITH_IMM);
		p->qp->attr.qp_access_flags = c->access;
		p->qp->attr.dest_qp_num = p->other->qp->qpn;
		vb_lock_take(&p->qp->lock);
		assert_int_equal(vb_iwarp_begin(p->qp, pair->now, &terms), 0);
		vb_lock_release(&p->qp->lock);
	}
	for (unsigned i = 0; i < 2 && pair->carrier == BY_BYPASS; i++)
		meet(&pair->process[i]);
	pair_settle(pair);
}

/* ---- running ---- */

static void take_stream(struct process *p, const uint8_t *bytes, size_t length)
{
	size_t taken;

	vb_lock_take(&p->qp->lock);
	taken = vb_iwarp_take(p->qp, p->pair->now, bytes, length);
	vb_lock_release(&p->qp->lock);
	memmove(p->rest, bytes + taken, length - taken);
	p->rest_length = length - taken;
}

static void end_stream(struct process *p, enum vb_iwarp_end how)
{
	if (p->shut)
		return;
	p->shut = true;
	vb_lock_take(&p->qp->lock);
	vb_iwarp_ended(p->qp, p->pair->now, how);
	vb_lock_release(&p->qp->lock);
}

bool pair_stream_serve(struct process *p)
{
	static uint8_t bytes[VB_IWARP_BYTES + VB_FPDU_LONGEST];
	struct vb_iwarp_out *out = p->pair->out;
	enum vb_iwarp_wish wish;
	size_t length = 0, before = p->other->rest_length;
	bool more = false;

	if (!p->rest)
		p->rest = malloc(sizeof(bytes));
	if (!p->other->rest)
		p->other->rest = malloc(sizeof(bytes));
	assert_true(p->rest && p->other->rest);
	if (p->shut || p->qp->state == IBV_QPS_INIT)
		return false;
	if (before > 0 || vb_iwarp_is_stalled(p->other->qp))
		take_stream(p->other, p->other->rest, before);
	vb_lock_take(&p->qp->lock);
	if (vb_iwarp_next_deadline(p->qp) <= p->pair->now)
		vb_iwarp_expire(p->qp, p->pair->now);
	if (!vb_iwarp_is_stalled(p->other->qp)) {
		more = vb_iwarp_send(p->qp, p->pair->now, out);
		for (unsigned i = 0; i < out->count; i++) {
			memcpy(bytes + length, out->spans[i].iov_base, out->spans[i].iov_len);
			length += out->spans[i].iov_len;
		}
		if (length > 0)
			vb_iwarp_sent(p->qp, p->pair->now, out, length);
	}
	wish = vb_iwarp_wish(p->qp);
	vb_lock_release(&p->qp->lock);
	if (length > 0)
		take_stream(p->other, bytes, length);
	if (wish == VB_IWARP_CARRY_ON || more)
		return more || length > 0 || p->other->rest_length < before;
	end_stream(p->other, wish == VB_IWARP_SHUT ? VB_IWARP_END_FIN : VB_IWARP_END_RESET);
	end_stream(p, VB_IWARP_END_FIN);
	return true;
}
