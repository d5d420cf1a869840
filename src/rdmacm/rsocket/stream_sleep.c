/* SPDX-License-Identifier: MIT
 *
 * Threads that sleep until something comes for streams, and not until libibverbs' own thread has taken it (wire/sleeping_call.h).
 */
#include "rdmacm/private_call.h"
#include "rdmacm/rsocket/stream.h"
#include "rdmacm/rsocket/wait.h"
#include "wire/sleeping_call.h"

/* Devices that librdmacm has opened stay open. */
static _Thread_local struct {
	vb_private_call *call;
	struct ibv_context *context;
} own;

static int say(vb_private_call *to, struct ibv_context *context, enum vb_sleeping_verb verb, struct vb_sleeping_call *call)
{
	call->magic = VB_SLEEPING_MAGIC;
	call->version = VB_SLEEPING_VERSION;
	call->verb = verb;
	return to(context, call);
}

void vb_rstream_sleep_alone(struct vb_rstream *stream)
{
	struct vb_sleeping_call call = {.cq = stream->cq, .fd = -1};
	vb_private_call *to = vb_rdmacm_private_call(stream->id->verbs);

	if (to != NULL)
		(void)say(to, stream->id->verbs, VB_SLEEPING_PRIVATE, &call);
}

void vb_rstream_sleep_prepare(struct vb_rstream *stream)
{
	stream->sleeping = vb_rdmacm_private_call(stream->id->verbs);
}

int vb_rstream_sleep_begin(struct vb_rsocket *rs)
{
	struct vb_sleeping_call call = {.fd = -1};
	const struct vb_rstream *stream = rs->stream;

	vb_mutex_assert_held(&rs->lock);
	own.call = NULL;
	if (rs->closed || stream->state != VB_RSTREAM_CONNECTED || stream->sleeping == NULL ||
	    say(stream->sleeping, stream->id->verbs, VB_SLEEPING_BEGIN, &call) != 0)
		return -1;
	own.call = stream->sleeping;
	own.context = stream->id->verbs;
	return call.fd;
}

static void say_alone(enum vb_sleeping_verb verb)
{
	struct vb_sleeping_call call = {.fd = -1};

	if (own.call != NULL)
		(void)say(own.call, own.context, verb, &call);
}

void vb_rstream_sleep_end(void)
{
	say_alone(VB_SLEEPING_END);
}

void vb_rstream_sleep_pass(void)
{
	say_alone(VB_SLEEPING_PASS);
}

void vb_rstream_sleep_settle(void)
{
	say_alone(VB_SLEEPING_SETTLE);
}

void vb_rstream_sleep_woken(void)
{
	say_alone(VB_SLEEPING_WOKEN);
}

void vb_rstream_disarm(struct vb_rsocket *rs)
{
	struct vb_rstream *stream = rs->stream;
	struct vb_sleeping_call call = {.cq = stream->cq, .fd = -1};

	vb_mutex_assert_held(&rs->lock);
	if (stream->cq != NULL && stream->armed && stream->sleeping != NULL && !vb_rsocket_is_watched(rs) &&
	    say(stream->sleeping, stream->id->verbs, VB_SLEEPING_DISARM, &call) == 0)
		stream->armed = false;
}
