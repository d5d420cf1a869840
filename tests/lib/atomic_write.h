/* SPDX-License-Identifier: MIT
 *
 * ibv_post_send knows no ATOMIC_WRITE, only the builders do: this is what they leave in the queue.
 */
#ifndef TESTS_LIB_ATOMIC_WRITE_H
#define TESTS_LIB_ATOMIC_WRITE_H

#include <errno.h>

#include "queue/qp.h"

static inline int post_atomic_write(struct vb_qp *qp, uint64_t address, uint32_t rkey, uint64_t value, uint64_t wr_id, unsigned flags,
				    vb_time now)
{
	struct vb_send_list list;
	struct vb_send_wqe *wqe;
	int error;

	vb_lock_take(&qp->lock);
	vb_send_list_begin(&list, &qp->send);
	wqe = vb_send_list_add(&list, &qp->send);
	error = wqe ? 0 : ENOMEM;
	if (wqe) {
		wqe->wr_id = wr_id;
		wqe->opcode = IBV_WR_ATOMIC_WRITE;
		wqe->send_flags = flags;
		wqe->length = 8;
		wqe->atomic.address = address;
		wqe->atomic.rkey = rkey;
		wqe->atomic.swap = value;
		error = vb_qp_check_send(qp, wqe);
	}
	if (error == 0)
		error = vb_qp_commit_list(qp, &list, now);
	vb_lock_release(&qp->lock);
	return error;
}

#endif
