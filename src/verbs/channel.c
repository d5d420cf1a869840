/* SPDX-License-Identifier: MIT
 *
 * Completion channels: CQs that have something to say stand in line, in the order in which they first had. A CQ
 * counts its unread events, so that announcing needs no memory and cannot fail.
 */
#include "verbs/channel.h"

#include <errno.h>
#include <stdlib.h>

#include "io/cancellation.h"
#include "verbs/channel_wait.h"
#include "verbs/context.h"
#include "verbs/descriptor_wait.h"
#include "verbs/explain.h"
#include "verbs/export.h"
#include "verbs/public_mutex.h"

VB_EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	VB_UNCANCELLED;
	struct vb_channel *channel;
	int error;

	if (context == NULL)
		return vb_fail_null(-EINVAL);
	channel = calloc(1, sizeof(*channel));
	if (channel == NULL)
		return vb_fail_null(-ENOMEM);
	error = vb_event_fd_init(&channel->event_fd);
	if (error != 0) {
		free(channel);
		return vb_fail_null(error);
	}
	vb_lock_init(&channel->lock, VB_RANK_CHANNEL);
	vb_list_init(&channel->waiting);
	channel->base.context = context;
	channel->base.fd = channel->event_fd.wait_fd;
	vb_context_hold(context);
	vb_descriptor_wait_note(channel->base.fd, true);
	return &channel->base;
}

/* ibv_create_comp_channel(3): destruction fails while any CQ is still associated. refcnt is public: the header
 * counts it under context->mutex. */
VB_EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	VB_UNCANCELLED;
	struct ibv_context *context;
	bool busy;

	if (channel == NULL)
		return vb_fail_number(EINVAL);
	context = channel->context;
	vb_public_lock(&context->mutex);
	busy = channel->refcnt > 0;
	vb_public_unlock(&context->mutex);
	if (busy) {
		vb_explain_refused("ibv_destroy_comp_channel", NULL, 0, EBUSY, "completion queues still use it.",
				   "Destroy these first, with ibv_destroy_cq.");
		return vb_fail_number(EBUSY);
	}
	vb_descriptor_wait_note(channel->fd, false);
	vb_event_fd_fini(&vb_channel_of(channel)->event_fd);
	free(channel);
	vb_context_put(context);
	return 0;
}

void vb_channel_join(struct ibv_comp_channel *channel)
{
	vb_public_lock(&channel->context->mutex);
	channel->refcnt++;
	vb_public_unlock(&channel->context->mutex);
}

/* Caller holds channel->lock. */
static void raise_event(struct vb_channel *channel)
{
	vb_event_fd_raise(&channel->event_fd);
	channel->is_raised = true;
}

/* Caller holds channel->lock. */
static void leave_line(struct vb_channel *channel, struct vb_completion_queue *cq)
{
	vb_list_remove(&cq->on_channel);
	if (vb_list_is_empty(&channel->waiting) && channel->is_raised) {
		vb_event_fd_clear(&channel->event_fd);
		channel->is_raised = false;
	}
}

uint32_t vb_channel_leave(struct vb_completion_queue *cq)
{
	struct vb_channel *channel = vb_channel_of(cq->base.channel);
	uint32_t read;

	if (channel == NULL)
		return 0;
	vb_lock_take(&channel->lock);
	if (cq->unread > 0)
		leave_line(channel, cq);
	cq->unread = 0;
	read = cq->completion_events_reported;
	vb_lock_release(&channel->lock);
	vb_public_lock(&channel->base.context->mutex);
	channel->base.refcnt--;
	vb_public_unlock(&channel->base.context->mutex);
	return read;
}

void vb_channel_announce(struct vb_completion_queue *cq)
{
	struct vb_channel *channel = vb_channel_of(cq->base.channel);

	if (channel == NULL)
		return;
	vb_lock_take(&channel->lock);
	if (cq->unread++ == 0)
		vb_list_append(&channel->waiting, &cq->on_channel);
	if (!vb_channel_is_collected(channel))
		raise_event(channel);
	vb_lock_release(&channel->lock);
}

static struct vb_completion_queue *take_from_line(struct vb_channel *channel)
{
	struct vb_completion_queue *cq = NULL;

	vb_lock_take(&channel->lock);
	if (!vb_list_is_empty(&channel->waiting)) {
		cq = vb_container_of(channel->waiting.next, struct vb_completion_queue, on_channel);
		cq->completion_events_reported++;
		if (--cq->unread == 0) {
			leave_line(channel, cq);
		} else {
			vb_list_remove(&cq->on_channel);
			vb_list_append(&channel->waiting, &cq->on_channel);
		}
		/* What this thread has brought itself beyond the one that it takes is for others, too. */
		if (!vb_list_is_empty(&channel->waiting) && !channel->is_raised)
			raise_event(channel);
	}
	vb_lock_release(&channel->lock);
	return cq;
}

VB_EXPORT int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	struct vb_completion_queue *found;

	if (channel == NULL || cq == NULL || cq_context == NULL) {
		errno = EINVAL;
		return -1;
	}
	while ((found = take_from_line(vb_channel_of(channel))) == NULL) {
		int error = vb_channel_wait(vb_channel_of(channel));

		if (error != 0) {
			errno = -error;
			return -1;
		}
	}
	*cq = &found->base;
	*cq_context = found->base.cq_context;
	return 0;
}
VB_EXPORT_COMPAT(ibv_get_cq_event);

VB_EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	VB_UNCANCELLED;
	vb_public_lock(&cq->mutex);
	cq->comp_events_completed += nevents;
	pthread_cond_signal(&cq->cond);
	vb_public_unlock(&cq->mutex);
}
VB_EXPORT_COMPAT(ibv_ack_cq_events);
