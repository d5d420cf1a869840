/* SPDX-License-Identifier: MIT
 *
 * See channel_wait.h.
 */
#include "verbs/channel_wait.h"

#include <errno.h>

#include "base/inline.h"
#include "io/cancellation.h"
#include "io/signals.h"
#include "verbs/context.h"

/* Programs install their handlers when they begin. */
#define HANDLERS_ARE_ASKED VB_MILLISECONDS(100)

static VB_THREAD_LOCAL const struct vb_channel *collected;

/* The call that sleeps on the sockets is one that no handler restarts, which is made good where they are of one mind (io/signals.h). */
static bool handlers_agree(vb_time now)
{
	static vb_time asked;            /* atomic, as is the next */
	static bool agree;

	if (now - __atomic_load_n(&asked, __ATOMIC_RELAXED) > HANDLERS_ARE_ASKED) {
		int saved = errno;

		__atomic_store_n(&agree, vb_signals_agree(), __ATOMIC_RELAXED);
		__atomic_store_n(&asked, now, __ATOMIC_RELAXED);
		errno = saved;
	}
	return __atomic_load_n(&agree, __ATOMIC_RELAXED);
}

bool vb_channel_is_collected(const struct vb_channel *channel)
{
	return collected == channel;
}

static void collect(const struct vb_channel *channel, struct vb_endpoint *endpoint, vb_time since)
{
	collected = channel;
	(void)vb_endpoint_sleep_pass(endpoint, since);
	collected = NULL;
}

/* What was posted leaves before this thread sleeps. */
static enum vb_sleep_look look(const struct vb_channel *channel, struct vb_endpoint *endpoint, vb_time since)
{
	enum vb_sleep_look found;

	collected = channel;
	found = vb_endpoint_sleep_look(endpoint, since);
	collected = NULL;
	if (found != VB_SLEEP_ON)
		vb_endpoint_sleep_end(endpoint);
	return found;
}

static void give_up(void *endpoint)
{
	vb_endpoint_sleep_give_up(endpoint);
}

static int sleep_on(const struct vb_channel *channel, struct vb_endpoint *endpoint, int sockets)
{
	unsigned owed = vb_cancellation_owe(give_up, endpoint);
	int result = vb_event_fd_wait_beside(&channel->event_fd, sockets);

	vb_cancellation_settled(owed);
	vb_endpoint_sleep_end(endpoint);
	return result;
}

int vb_channel_wait(struct vb_channel *channel)
{
	struct vb_endpoint *endpoint = vb_context_of(channel->base.context)->session->endpoint;
	vb_time since = vb_endpoint_now();
	enum vb_sleep_look found;
	int sockets = -1, result;

	if (vb_event_fd_blocks(&channel->event_fd) && handlers_agree(since))
		sockets = vb_endpoint_sleep_begin(endpoint, VB_SLEEPER_HAS_ARMED);
	found = sockets < 0 ? VB_SLEEP_ELSEWHERE : look(channel, endpoint, since);
	if (found == VB_SLEEP_ELSEWHERE)
		return vb_event_fd_wait(&channel->event_fd);
	if (found == VB_SLEEP_DONE)
		return 0;
	result = sleep_on(channel, endpoint, sockets);
	if (result == 1)
		collect(channel, endpoint, since);
	return result < 0 ? result : 0;
}
