/* SPDX-License-Identifier: MIT
 *
 * Tells a new daemon of every id, as the table says (adoption.c).
 *
 * An id whose program is in the middle of a call is adopted as it was before the call: the call itself is said again.
 */
#include "rdmacm/adopt.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "io/clock.h"
#include "io/daemon_client.h"
#include "io/descriptor.h"
#include "io/event.h"
#include "io/unix_socket.h"
#include "rdmacm/adoption.h"
#include "rdmacm/channel.h"
#include "rdmacm/device.h"
#include "rdmacm/streams.h"

#define ADOPT_TIMEOUT VB_SECONDS(5)
#define FIRST_NAP VB_MILLISECONDS(5)

enum { PASSING_TRIES = 6 };

int vb_rdmacm_daemon_connect(void)
{
	struct vb_daemon_client client;
	int error = vb_daemon_client_connect(&client, true);

	return error != 0 ? error : client.fd;
}

/* Say one command and read until its reply. */
static int converse(int fd, struct vb_cm_command *command, struct vb_cm_reply *reply,
		    int (*otherwise)(const void *bytes, size_t length))
{
	static uint64_t serial = UINT64_C(1) << 63; /* far from those of link.c; adoption is serialised by its lock */
	vb_time deadline = vb_clock_now() + ADOPT_TIMEOUT;
	_Alignas(8) char bytes[4096];
	int error;

	command->type = VB_CM_COMMAND;
	command->serial = ++serial;
	error = vb_unix_send(fd, command, sizeof(*command), NULL, 0, true);
	while (error == 0) {
		ssize_t length = vb_unix_receive(fd, bytes, sizeof(bytes), NULL, 0, &(unsigned){0}, deadline);

		/* Hanging up would end the connections that this daemon has been told of. */
		if (length == -EINTR || ((length == -ENOMEM || length == -ENOBUFS) && vb_clock_now() < deadline))
			continue;
		if (length <= 0)
			return length == 0 ? -ECONNRESET : (int)length;
		memcpy(reply, bytes, (size_t)length < sizeof(*reply) ? (size_t)length : sizeof(*reply));
		if ((size_t)length == sizeof(*reply) && reply->type == VB_CM_REPLY && reply->serial == command->serial)
			return 0;
		error = otherwise(bytes, (size_t)length);
	}
	return error;
}

static enum vb_rdmacm_state state_before_call(const struct vb_rdmacm_id *id)
{
	/* A stream needs the daemon for its port only, whatever became of it. That it listens is shown (verbena res). */
	if (vb_rdmacm_id_is_stream(id) && vb_rdmacm_id_state(id) > VB_RDMACM_BOUND && vb_rdmacm_id_state(id) != VB_RDMACM_LISTENING)
		return VB_RDMACM_BOUND;
	/* Who knows the peer's queue pair needs no daemon for datagrams. */
	if (vb_rdmacm_id_is_datagram(id) && vb_rdmacm_id_state(id) == VB_RDMACM_CONNECTED)
		return VB_RDMACM_IDLE;
	switch (id->calling) {
	case VB_CM_CONNECT:
		return VB_RDMACM_ROUTE_RESOLVED;
	case VB_CM_ACCEPT:
		return VB_RDMACM_REQUESTED;
	case VB_CM_DISCONNECT:
		return VB_RDMACM_CONNECTED;
	default:
		return vb_rdmacm_id_state(id); /* changes only afterwards */
	}
}

/* Caller holds id->lock. */
static void describe(const struct vb_rdmacm_id *id, const struct vb_rdmacm_adoption *adoption, struct vb_cm_command *command)
{
	*command = (struct vb_cm_command){
		.verb = adoption->verb,
		.state = adoption->adopted,
		.port_space = id->id.ps,
		.qp_type = id->id.qp_type,
		.reuse_address = id->reuse_address,
		.address_family_only = id->address_family_only,
		.remote_cookie = id->remote_cookie,
		.source = id->source,
		.destination = id->destination,
		.interface_index = id->interface_index,
		.by_frames = vb_rdmacm_speaks_frames(),
		.conn = id->peer,
		.path = id->route,
	};
	if (adoption->adopted == VB_CM_ADOPTED_LISTENING)
		command->by_stream = vb_rdmacm_streams_serve_alone(id);
}

void vb_rdmacm_adopt_describe_connection(struct vb_rdmacm_id *id, struct vb_cm_command *command)
{
	const struct vb_rdmacm_adoption connected = vb_rdmacm_adoption(VB_RDMACM_CONNECTED);

	vb_mutex_lock(&id->lock);
	describe(id, &connected, command);
	vb_mutex_unlock(&id->lock);
}

/* Caller holds id->lock. What the program asked for last, and has not heard how that ended; else all zero. */
static struct vb_cm_command kept_command(const struct vb_rdmacm_id *id, uint32_t verb)
{
	return id->kept_command != NULL && id->kept_command->verb == verb ? *id->kept_command : (struct vb_cm_command){0};
}

/* Nothing, if it is all zero. */
static int say_again(int fd, struct vb_rdmacm_id *id, struct vb_cm_command *command, int (*otherwise)(const void *bytes, size_t length))
{
	struct vb_cm_reply reply = {.error = EINVAL};
	int error;

	if (command->verb == 0)
		return 0;
	command->id = id->handle;
	error = converse(fd, command, &reply, otherwise);
	if (error == 0 && reply.error != 0)
		(void)vb_rdmacm_channel_tell(id, RDMA_CM_EVENT_CONNECT_ERROR, -reply.error);
	return error;
}

/* The peer may not have heard of it: no DREQ was sent, or it was lost. The program's id is made anew, and does not wait for the answer. */
static int disconnect_again(int fd, struct vb_rdmacm_id *id, int (*otherwise)(const void *bytes, size_t length))
{
	struct vb_cm_command command;
	struct vb_cm_reply reply;
	int error;

	vb_rdmacm_adopt_describe_connection(id, &command);
	error = converse(fd, &command, &reply, otherwise);
	if (error != 0 || reply.error != 0)
		return error;
	command = (struct vb_cm_command){.verb = VB_CM_DISCONNECT, .id = reply.id};
	error = converse(fd, &command, &reply, otherwise);
	command = (struct vb_cm_command){.verb = VB_CM_DESTROY, .id = command.id};
	return error != 0 ? error : converse(fd, &command, &reply, otherwise);
}

/* Returns whether the program has taken meanwhile what the daemon before told, that the peer has accepted: then the id is connected, and
 * this daemon believes that it asks. From here on such an answer is not taken any more (id.c). */
static bool give_handle(struct vb_rdmacm_id *id, uint32_t handle, const struct vb_rdmacm_adoption *adoption)
{
	bool is_answered;

	vb_mutex_lock(&id->lock);
	__atomic_store_n(&id->handle, handle, __ATOMIC_RELAXED);
	is_answered = adoption->asks_again && vb_rdmacm_adoption(state_before_call(id)).adopted == VB_CM_ADOPTED_CONNECTED;
	vb_mutex_unlock(&id->lock);
	return is_answered;
}

static int adopt(int fd, struct vb_rdmacm_id *id, int (*otherwise)(const void *bytes, size_t length))
{
	struct vb_cm_command command, accept;
	struct vb_rdmacm_adoption adoption;
	struct vb_cm_reply reply;
	int error = 0, refusal;
	bool is_accepting;

	vb_mutex_lock(&id->lock);
	is_accepting = id->calling == VB_CM_ACCEPT;
	adoption = vb_rdmacm_adoption(state_before_call(id));
	describe(id, &adoption, &command);
	/* Also if the program hears meanwhile that it is connected: this daemon learns that by the answer to the REP. */
	accept = kept_command(id, adoption.accepts_again ? VB_CM_ACCEPT : 0);
	vb_mutex_unlock(&id->lock);

	if (adoption.tell == VB_CM_EVENT_DISCONNECTED)
		error = disconnect_again(fd, id, otherwise);
	if (error == 0)
		error = converse(fd, &command, &reply, otherwise);
	/* A listener that is not adopted is deaf, and its program does not hear of it. */
	for (unsigned tries = 0; error == 0 && vb_descriptor_error_passes(-reply.error) && tries < PASSING_TRIES; tries++) {
		vb_wait(NULL, 0, vb_clock_now() + (FIRST_NAP << tries));
		error = converse(fd, &command, &reply, otherwise);
	}
	refusal = error == 0 && command.verb == VB_CM_ADOPT ? reply.error : 0;
	if (refusal != 0) {
		vb_log(VB_LOG_WARN, "verbenad was replaced and could not take over port %u: %s", id->source.port,
		       strerror(reply.error));
		command = (struct vb_cm_command){.verb = VB_CM_CREATE, .port_space = id->id.ps, .qp_type = id->id.qp_type};
		error = converse(fd, &command, &reply, otherwise);
	}
	if (error != 0)
		return error;
	if (give_handle(id, reply.error == 0 ? reply.id : 0, &adoption))
		return vb_rdmacm_adopt_again(fd, id, otherwise);

	error = say_again(fd, id, &accept, otherwise);
	/* Neither end could tell the other of its end. */
	if (refusal != 0 && adoption.adopted == VB_CM_ADOPTED_CONNECTED)
		(void)vb_rdmacm_channel_tell(id, RDMA_CM_EVENT_DISCONNECTED, -refusal);
	if (adoption.tell != VB_RDMACM_TELL_NOTHING)
		(void)vb_rdmacm_channel_tell(id, (enum rdma_cm_event_type)adoption.tell, 0);
	/* One that is accepting says so to this daemon, which refuses: rdma_accept returns that, or an id that has accepted is told
	 * (link.c). */
	if (adoption.is_lost && !is_accepting)
		vb_rdmacm_id_become(id, VB_RDMACM_FAILED);
	return error;
}

int vb_rdmacm_adopt_again(int fd, struct vb_rdmacm_id *id, int (*otherwise)(const void *bytes, size_t length))
{
	struct vb_cm_command command = {.verb = VB_CM_DESTROY, .id = id->handle};
	struct vb_cm_reply reply;
	int error = converse(fd, &command, &reply, otherwise);

	if (error == 0)
		error = adopt(fd, id, otherwise);
	if (error != 0)
		return error;
	vb_mutex_lock(&id->lock);
	command = kept_command(id, VB_CM_CONNECT);
	vb_mutex_unlock(&id->lock);
	return say_again(fd, id, &command, otherwise);
}

int vb_rdmacm_adopt_all(int fd, struct vb_rdmacm_registry *registry, void (*again)(struct vb_rdmacm_id *id),
			int (*otherwise)(const void *bytes, size_t length))
{
	struct vb_rdmacm_id *chain = vb_rdmacm_registry_drain(registry);
	int error = 0;

	while (chain != NULL) {
		struct vb_rdmacm_id *id = chain;

		chain = id->registry_next;
		if (error == 0)
			error = adopt(fd, id, otherwise);
		if (error != 0)
			__atomic_store_n(&id->handle, 0, __ATOMIC_RELAXED); /* the next daemon will be told */
		else if (vb_rdmacm_adoption(state_before_call(id)).asks_again)
			again(id);
		(void)vb_rdmacm_registry_insert(registry, id); /* never grows: it held as many before */
	}
	return error;
}
