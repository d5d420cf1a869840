/* SPDX-License-Identifier: MIT
 *
 * The devices of Verbena offer no vendor options (ibv_query_ece answers EOPNOTSUPP), so nothing is negotiated for QPs
 * the library moves itself; a program that handles its own QP can still exchange values through rdma_set_local_ece
 * and rdma_get_remote_ece.
 */
#include "rdmacm/ece.h"

#include <errno.h>
#include <rdma/rdma_cma.h>

#include "io/cancellation.h"
#include "rdmacm/export.h"
#include "rdmacm/result.h"

static int tolerate_unsupported(int error)
{
	return error == EOPNOTSUPP || error == ENOSYS ? 0 : error;
}

int vb_rdmacm_ece_begin(struct vb_rdmacm_id *id, struct ibv_qp *qp)
{
	struct ibv_ece ece = {0};
	int error = tolerate_unsupported(ibv_query_ece(qp, &ece));

	if (error != 0)
		return vb_rdmacm_fail(error);
	id->local_ece.vendor_id = ece.vendor_id;
	id->local_ece.options = ece.options;
	if (id->remote_ece.vendor_id == 0)
		return 0;
	/* The QP answers a request: the same vendor's options, or none. */
	ece.options = id->remote_ece.vendor_id == ece.vendor_id ? id->remote_ece.options : 0;
	error = tolerate_unsupported(ibv_set_ece(qp, &ece));
	return error != 0 ? vb_rdmacm_fail(error) : 0;
}

int vb_rdmacm_ece_finish(struct vb_rdmacm_id *id, struct ibv_qp *qp)
{
	struct ibv_ece ece = {0};
	int error;

	if (id->remote_ece.vendor_id == 0)
		return 0;
	error = tolerate_unsupported(ibv_query_ece(qp, &ece));
	if (error != 0)
		return vb_rdmacm_fail(error);
	id->local_ece.options = ece.options;
	return 0;
}

int vb_rdmacm_ece_answer(struct vb_rdmacm_id *id)
{
	struct ibv_ece ece = {.vendor_id = id->remote_ece.vendor_id, .options = id->remote_ece.options};
	int error;

	if (id->remote_ece.vendor_id == 0) {
		ece.vendor_id = id->local_ece.vendor_id;
		ece.options = 0;
	} else if (id->remote_ece.vendor_id != id->local_ece.vendor_id) {
		return vb_rdmacm_fail(EINVAL);
	}
	error = tolerate_unsupported(ibv_set_ece(id->id.qp, &ece));
	return error != 0 ? vb_rdmacm_fail(error) : 0;
}

VB_EXPORT int rdma_set_local_ece(struct rdma_cm_id *public_id, struct ibv_ece *ece)
{
	VB_UNCANCELLED;
	struct vb_rdmacm_id *id = vb_rdmacm_id_of(public_id);

	if (id == NULL || ece == NULL || id->id.qp != NULL || ece->vendor_id == 0 || ece->comp_mask != 0)
		return vb_rdmacm_fail(EINVAL);
	id->local_ece = *ece;
	return 0;
}

VB_EXPORT int rdma_get_remote_ece(struct rdma_cm_id *public_id, struct ibv_ece *ece)
{
	VB_UNCANCELLED;
	struct vb_rdmacm_id *id = vb_rdmacm_id_of(public_id);

	if (id == NULL || ece == NULL || id->id.qp != NULL)
		return vb_rdmacm_fail(EINVAL);
	*ece = (struct ibv_ece){.vendor_id = id->remote_ece.vendor_id, .options = id->remote_ece.options};
	return 0;
}
