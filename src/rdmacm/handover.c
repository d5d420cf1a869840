/* SPDX-License-Identifier: MIT
 *
 * See handover.h.
 */
#include "rdmacm/handover.h"

#include <errno.h>
#include <string.h>

#include "rdmacm/private_call.h"

/* The context that was asked last, and what was found; under the lock of the streams, as all calls are. */
static struct {
	const struct ibv_context *context;
	int cmd_fd;
	vb_private_call *function;
} known;

static vb_private_call *find_handover(struct ibv_context *context)
{
	if (known.context == context && known.cmd_fd == context->cmd_fd)
		return known.function;
	known.function = vb_rdmacm_private_call(context);
	known.context = context;
	known.cmd_fd = context->cmd_fd;
	return known.function;
}

static int call_handover(struct ibv_context *context, struct vb_handover_call *call, enum vb_handover_verb verb)
{
	vb_private_call *function = find_handover(context);

	if (function == NULL)
		return -ENOSYS;
	call->magic = VB_HANDOVER_MAGIC;
	call->version = VB_HANDOVER_VERSION;
	call->verb = verb;
	return -function(context, call);
}

int vb_rdmacm_handover_open(struct ibv_context *context, vb_handover_show_ids *show)
{
	struct vb_handover_call call = {.show = show};
	int error = call_handover(context, &call, VB_HANDOVER_OPEN);

	return error != 0 ? error : call.fd;
}

int vb_rdmacm_handover_adopt(struct ibv_context *context, uint32_t qpn, int fd, const struct vb_handover_terms *terms, uint64_t cookie)
{
	struct vb_handover_call call = {.qpn = qpn, .fd = fd, .terms = *terms, .cookie = cookie};

	return call_handover(context, &call, VB_HANDOVER_ADOPT);
}

int vb_rdmacm_handover_close(struct ibv_context *context, uint32_t qpn)
{
	struct vb_handover_call call = {.qpn = qpn};

	return call_handover(context, &call, VB_HANDOVER_CLOSE);
}

unsigned vb_rdmacm_handover_report(struct ibv_context *context, struct vb_handover_report *reports)
{
	struct vb_handover_call call = {0};

	if (call_handover(context, &call, VB_HANDOVER_REPORT) != 0)
		return 0;
	memcpy(reports, call.report, call.reports * sizeof(call.report[0]));
	return call.reports;
}
