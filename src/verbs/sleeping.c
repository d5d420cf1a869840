/* SPDX-License-Identifier: MIT
 *
 * What sockets over RDMA ask for by the private call (wire/sleeping_call.h).
 */
#include <errno.h>

#include "verbs/context.h"
#include "verbs/cq.h"
#include "verbs/descriptor_wait.h"
#include "verbs/private.h"
#include "wire/sleeping_call.h"

int vb_verbs_sleeping(struct ibv_context *context, struct vb_sleeping_call *call)
{
	struct vb_endpoint *endpoint = vb_context_of(context)->session->endpoint;

	if (call->version != VB_SLEEPING_VERSION)
		return ENOSYS;
	switch ((enum vb_sleeping_verb)call->verb) {
	case VB_SLEEPING_BEGIN:
		call->fd = vb_endpoint_sleep_begin(endpoint, VB_SLEEPER_ARMS);
		return call->fd >= 0 ? 0 : EBUSY;
	case VB_SLEEPING_END:
		vb_endpoint_sleep_end(endpoint);
		return 0;
	case VB_SLEEPING_PASS:
		(void)vb_endpoint_progress(endpoint);
		return 0;
	case VB_SLEEPING_SETTLE:
		(void)vb_endpoint_sleep_look(endpoint, vb_endpoint_now());
		return 0;
	case VB_SLEEPING_WOKEN:
		vb_endpoint_sleep_woken(endpoint);
		return 0;
	case VB_SLEEPING_PRIVATE:
		if (call->cq->channel)
			vb_descriptor_wait_note(call->cq->channel->fd, false);
		return 0;
	case VB_SLEEPING_DISARM:
		return vb_cq_disarm(&vb_completion_queue_of(call->cq)->cq) ? 0 : EALREADY;
	}
	return ENOSYS;
}
