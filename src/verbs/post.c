/* SPDX-License-Identifier: MIT
 *
 * Posting work: under the queue pair's lock the work is taken, and what may go out goes out at once.
 */
#include "queue/observer.h"
#include "verbs/address.h"
#include "verbs/explain.h"
#include "verbs/operations.h"

/* Those from `first` on, which `wr` asked for. Caller holds qp->lock. */
static void choose_source_ports(struct vb_endpoint *endpoint, struct vb_qp *qp, uint32_t first, const struct ibv_send_wr *wr)
{
	for (uint32_t i = first; i != qp->send.head; i++, wr = wr->next)
		vb_send_queue_at(&qp->send, i)->datagram.path.source_port =
			vb_address_source_port(endpoint, vb_address_handle_of(wr->wr.ud.ah), wr->wr.ud.remote_qpn);
}

/* Before it is sent, so that the record is in order. Caller holds qp->lock. */
void vb_verbs_observe_sends(const struct vb_qp *qp, uint32_t first, vb_time now)
{
	const struct vb_queue_observer *observer = qp->host->observer;

	for (uint32_t i = first; observer && i != qp->send.head; i++)
		observer->posted_send(observer, qp, vb_send_queue_at(&qp->send, i), now);
}

/* Those up to `bad`, which was refused. */
void vb_verbs_observe_receives(const struct vb_queue_observer *observer, const struct vb_qp *qp,
			       const struct ibv_recv_wr *wr, const struct ibv_recv_wr *bad)
{
	vb_time now = vb_endpoint_now();

	for (; wr != bad; wr = wr->next)
		observer->posted_receive(observer, qp, wr, now);
}

static int post_send(struct vb_endpoint *endpoint, struct vb_qp *core, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	struct ibv_send_wr *ignored, **bad = bad_wr != NULL ? bad_wr : &ignored;
	uint32_t first;
	vb_time now;
	int error;

	vb_lock_take(&core->lock);
	if (vb_endpoint_post_fast(endpoint, core, wr)) {
		vb_lock_release(&core->lock);
		return 0;
	}
	now = vb_endpoint_now();
	first = core->send.head;
	error = vb_qp_post_send(core, wr, bad, now);
	if (error != 0)
		vb_explain_refused_send(core, *bad, error);
	/* What was flushed has no use for it, and its address handle may be gone already. */
	if (core->type == IBV_QPT_UD && vb_send_queue_count(&core->send) > 0)
		choose_source_ports(endpoint, core, first, wr);
	if (core->host->observer)
		vb_verbs_observe_sends(core, first, now);
	/* Also after an error: the work before the bad request stands. */
	vb_endpoint_posted(endpoint, core, now);
	vb_lock_release(&core->lock);
	return vb_fail_number(error);
}

int vb_verbs_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	struct vb_endpoint *endpoint = vb_context_of(qp->context)->session->endpoint;
	struct vb_queue_pair *own = vb_queue_pair_of(qp);
	int error;

	if (!own->extended)
		return post_send(endpoint, own->qp, wr, bad_wr);
	/* Another thread may be between ibv_wr_start and ibv_wr_complete. */
	vb_lock_take(&own->posting);
	error = post_send(endpoint, own->qp, wr, bad_wr);
	vb_lock_release(&own->posting);
	return error;
}

int vb_verbs_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct vb_qp *core = vb_queue_pair_of(qp)->qp;
	struct ibv_recv_wr *ignored, **bad = bad_wr != NULL ? bad_wr : &ignored;
	int error;

	vb_lock_take(&core->lock);
	/* What time it is matters only to what is flushed at once. */
	error = vb_qp_post_receive(core, wr, bad, core->state == IBV_QPS_ERR ? vb_endpoint_now() : 0);
	if (error != 0)
		vb_explain_refused_receive(core, *bad, error);
	if (core->host->observer)
		vb_verbs_observe_receives(core->host->observer, core, wr, error != 0 ? *bad : NULL);
	vb_endpoint_received(vb_context_of(qp->context)->session->endpoint, core);
	vb_lock_release(&core->lock);
	return vb_fail_number(error);
}
