/* SPDX-License-Identifier: MIT
 *
 * What rsockets ask for by the private call (wire/placing_call.h).
 */
#include <errno.h>

#include "verbs/context.h"
#include "verbs/private.h"
#include "wire/placing_call.h"

int vb_verbs_place(const struct vb_placing_call *call)
{
	struct vb_endpoint *endpoint = vb_context_of(call->qp->context)->session->endpoint;
	struct vb_qp *qp = vb_queue_pair_of(call->qp)->qp;
	bool placed;

	if (call->version != VB_PLACING_VERSION)
		return ENOSYS;
	vb_lock_take(&qp->lock);
	placed = vb_endpoint_place(endpoint, qp, call->address, call->key, call->spans, call->count);
	vb_lock_release(&qp->lock);
	return placed ? 0 : EOPNOTSUPP;
}
