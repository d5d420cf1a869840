/* SPDX-License-Identifier: MIT
 *
 * See establish.h.
 */
#include "rdmacm/establish.h"

#include <errno.h>

#include "io/cancellation.h"
#include "rdmacm/ece.h"
#include "rdmacm/explain.h"
#include "rdmacm/export.h"
#include "rdmacm/link.h"
#include "rdmacm/qp_attr.h"
#include "rdmacm/result.h"

static int send_ready_to_use(struct vb_rdmacm_id *id)
{
	struct vb_cm_command command = {.verb = VB_CM_ESTABLISH};
	int error = vb_rdmacm_link_call(id, &command, NULL);

	if (error == 0)
		vb_rdmacm_id_become(id, VB_RDMACM_CONNECTED);
	return vb_rdmacm_result(error);
}

/* What could be refused is told by an event all the same: the connection is over. And a daemon that is replaced sends the RTU when
 * the REP is repeated. */
static void say_ready_to_use(struct vb_rdmacm_id *id)
{
	struct vb_cm_command command = {.verb = VB_CM_ESTABLISH};

	vb_rdmacm_id_become(id, VB_RDMACM_CONNECTED);
	vb_rdmacm_link_say(id, &command);
}

int vb_rdmacm_establish(struct vb_rdmacm_id *id)
{
	int error;

	if (vb_rdmacm_ece_answer(id) == 0 && vb_rdmacm_qp_ready_to_receive(id, RDMA_MAX_RESP_RES) == 0 &&
	    vb_rdmacm_qp_ready_to_send(id, RDMA_MAX_INIT_DEPTH) == 0) {
		say_ready_to_use(id);
		return 0;
	}
	error = errno;
	vb_rdmacm_qp_error(id);
	return vb_rdmacm_fail(error);
}

VB_EXPORT int rdma_establish(struct rdma_cm_id *public_id)
{
	VB_UNCANCELLED;
	struct vb_rdmacm_id *id = vb_rdmacm_id_of(public_id);

	/* Only for those who handle their QP themselves; the library does it for its own. */
	if (id == NULL || id->id.qp != NULL || vb_rdmacm_id_state(id) != VB_RDMACM_RESPONDED)
		return vb_rdmacm_refuse("rdma_establish", id, EINVAL, "the library does it itself for an id with a queue pair.");
	return send_ready_to_use(id);
}
