/* SPDX-License-Identifier: MIT
 *
 * Posting work: under the queue pair's lock the work is taken, and what may go out goes out at once.
 */
#include "verbs/operations.h"

int vb_verbs_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	struct vb_qp *core = vb_queue_pair_of(qp)->qp;
	struct ibv_send_wr *ignored;
	vb_time now = vb_endpoint_now();
	int error;

	vb_lock_take(&core->lock);
	error = vb_qp_post_send(core, wr, bad_wr != NULL ? bad_wr : &ignored, now);
	/* Also after an error: the work before the bad request stands. */
	vb_endpoint_transmit(vb_context_of(qp->context)->session->endpoint, core, now);
	vb_lock_release(&core->lock);
	return error;
}

int vb_verbs_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct vb_qp *core = vb_queue_pair_of(qp)->qp;
	struct ibv_recv_wr *ignored;
	int error;

	vb_lock_take(&core->lock);
	error = vb_qp_post_receive(core, wr, bad_wr != NULL ? bad_wr : &ignored, vb_endpoint_now());
	vb_lock_release(&core->lock);
	return error;
}
