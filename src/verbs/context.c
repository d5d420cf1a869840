/* SPDX-License-Identifier: MIT
 *
 * The context of an open device: who holds it, and the device as it is now. open.c opens and closes it.
 */
#include "verbs/context.h"

#include <stdlib.h>

#include "io/descriptor.h"
#include "verbs/event_queue.h"

void vb_context_free(struct vb_context *context)
{
	vb_event_queue_fini(&context->async);
	vb_descriptor_close(context->public.context.cmd_fd);
	vb_session_put(context->session);
	vb_device_put(context->device);
	pthread_mutex_destroy(&context->public.context.mutex);
	free(context);
}

void vb_context_hold(struct ibv_context *context)
{
	vb_count_up(&vb_context_of(context)->references);
}

void vb_context_put(struct ibv_context *context)
{
	if (vb_count_down(&vb_context_of(context)->references) == 0)
		vb_context_free(vb_context_of(context));
}

void vb_context_info(struct ibv_context *context, struct vb_device_info *info)
{
	const struct vb_profile *profile = vb_profile_of_context(context);
	struct vb_context *own = vb_context_of(context);

	vb_lock_take(&own->lock);
	*info = own->info;
	vb_lock_release(&own->lock);
	/* An adapter enters no address for which its table has no room. That of an RNIC holds no addresses. */
	if (profile->gid_layout != VB_GIDS_MAC && info->gid_count > profile->port.gid_table_length)
		info->gid_count = profile->port.gid_table_length;
}
