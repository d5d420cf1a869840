/* SPDX-License-Identifier: MIT
 *
 * The calls of the API on ids whose connections are streams. See streams.h.
 */
#include "rdmacm/streams.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/log.h"
#include "io/clock.h"
#include "io/descriptor.h"
#include "progress/devices.h"
#include "rdmacm/channel.h"
#include "rdmacm/device.h"
#include "rdmacm/handover.h"
#include "rdmacm/streams_parts.h"

#define streams vb_rdmacm_streams

static struct vb_tcp_address address_of(const struct vb_cm_address *from)
{
	struct vb_tcp_address address = {.port = from->port, .scope = from->scope, .ipv6 = from->family == AF_INET6};

	for (unsigned i = 0; i < sizeof(address.gid); i++)
		address.gid[i] = from->gid[i];
	return address;
}

bool vb_rdmacm_streams_serve_alone(const struct vb_rdmacm_id *id)
{
	return id->device != NULL ? vb_rdmacm_id_is_stream(id) :
				    !vb_rdmacm_id_is_datagram(id) && !vb_rdmacm_device_may_be(VB_CONNECT_CM);
}

/* An id without a device may come to have either. */
static bool may_need_socket(const struct vb_rdmacm_id *id)
{
	if (vb_rdmacm_id_is_datagram(id))
		return false;
	return id->device != NULL ? vb_rdmacm_id_is_stream(id) : vb_rdmacm_device_may_be(VB_CONNECT_MPA);
}

int vb_rdmacm_streams_bind(const struct vb_rdmacm_id *id, const struct vb_cm_address *source, int *fd)
{
	struct vb_tcp_address local = address_of(source);

	*fd = -1;
	if (!may_need_socket(id))
		return 0;
	*fd = vb_tcp_bind(&local, id->address_family_only, false);
	if (*fd >= 0)
		return 0;
	/* Often taken by the program itself, for something else: then it can still be had by RoCE. */
	if (*fd == -EADDRINUSE && id->device == NULL && vb_rdmacm_device_may_be(VB_CONNECT_CM)) {
		vb_log(VB_LOG_INFO, "TCP port %u is taken: no iWARP connection will come there", source->port);
		*fd = -1;
		return 0;
	}
	return *fd;
}

int vb_rdmacm_streams_listen(struct vb_rdmacm_id *id)
{
	struct vb_rdmacm_stream *stream;
	int error = vb_tcp_prepare(id->bound_fd);

	if (error == 0)
		error = vb_tcp_listen(id->bound_fd, (int)id->backlog);
	if (error != 0)
		return error;
	vb_mutex_lock(&streams.lock);
	error = vb_rdmacm_streams_start(id->device != NULL ? id->device->context : NULL);
	stream = error == 0 ? vb_rdmacm_stream_create(VB_STREAM_LISTENER, id->bound_fd, id) : NULL;
	if (error == 0 && stream == NULL)
		error = -ENOMEM;
	if (error == 0) {
		id->bound_fd = -1;
		id->stream = stream;
		error = vb_rdmacm_stream_poll(stream, true, false);
	}
	if (error != 0 && stream != NULL) {
		id->stream = NULL;
		vb_rdmacm_stream_reap(stream);
	}
	vb_mutex_unlock(&streams.lock);
	return error;
}

/* The socket that was bound, or one whose port the system chooses when it knows where to. */
static int take_socket(struct vb_rdmacm_id *id)
{
	struct vb_tcp_address local = address_of(&id->source);
	int fd = id->bound_fd;

	if (fd < 0) {
		local.port = 0;
		return vb_tcp_bind(&local, false, true);
	}
	id->bound_fd = -1;
	return fd;
}

static int start(const struct vb_rdmacm_id *id, const struct vb_tcp_address *remote, struct vb_mpa_wishes *wishes, bool *waits)
{
	int error;

	vb_mutex_lock(&streams.lock);
	error = vb_rdmacm_streams_start(id->device->context);
	if (error == 0) {
		*wishes = vb_rdmacm_stream_wishes(id, remote->gid);
		*waits = vb_rdmacm_streams_are_asking(remote);
	}
	vb_mutex_unlock(&streams.lock);
	return error;
}

static int prepare(const struct vb_rdmacm_id *id, int fd)
{
	vb_tcp_set_traffic_class(fd, id->has_traffic_class ? id->traffic_class : 0);
	return vb_tcp_prepare(fd);
}

/* Without the lock: between two of one host all of TCP's handshake happens in here. */
static int begin_to_connect(int fd, const struct vb_tcp_address *remote, bool *refused)
{
	int error = vb_tcp_connect(fd, remote);

	*refused = error == -ECONNREFUSED;
	return *refused ? 0 : error;
}

int vb_rdmacm_streams_connect(struct vb_rdmacm_id *id, uint32_t qpn, struct vb_rdmacm_private_data data)
{
	const struct vb_tcp_address remote = address_of(&id->destination);
	struct vb_rdmacm_stream *stream = NULL;
	struct vb_mpa_wishes wishes = {0};
	int fd = take_socket(id), error;
	bool refused = false, waits = false;

	if (fd < 0)
		return fd;
	error = prepare(id, fd);
	if (error == 0)
		error = start(id, &remote, &wishes, &waits);
	if (error == 0 && !waits)
		error = begin_to_connect(fd, &remote, &refused);
	vb_mutex_lock(&streams.lock);
	if (error == 0)
		stream = vb_rdmacm_stream_create(VB_STREAM_OUTGOING, fd, id);
	if (stream == NULL) {
		vb_descriptor_close(fd);
		error = error != 0 ? error : -ENOMEM;
	} else {
		stream->context = id->device->context;
		stream->qpn = qpn;
		stream->remote = remote;
		id->stream = stream;
		vb_list_remove(&id->stream_node); /* of an attempt before */
		vb_list_append(&streams.ids, &id->stream_node);
		vb_mpa_request(stream->mpa, &wishes, data.bytes, data.length, vb_clock_now());
		vb_rdmacm_stream_due(stream);
		vb_rdmacm_stream_ask(stream, waits);
		if (!waits)
			vb_rdmacm_stream_attempt(stream, refused);
	}
	vb_mutex_unlock(&streams.lock);
	return error;
}

/* Caller holds the lock. NULL: there is no request to answer any more. */
static struct vb_rdmacm_stream *request_of(const struct vb_rdmacm_id *id)
{
	struct vb_rdmacm_stream *stream = id->stream;

	return stream != NULL && stream->kind == VB_STREAM_INCOMING && stream->mpa->state == VB_MPA_ASKED ? stream : NULL;
}

/* Caller holds the lock. */
static int accept_request(struct vb_rdmacm_id *id, struct vb_rdmacm_stream *stream, struct vb_rdmacm_private_data data)
{
	int error = vb_rdmacm_streams_start(id->device->context);
	struct vb_mpa_wishes wishes;

	if (error != 0)
		return error;
	wishes = vb_rdmacm_stream_wishes(id, id->destination.gid);
	vb_mpa_accept(stream->mpa, &wishes, data.bytes, data.length);
	vb_rdmacm_stream_send(stream);
	if (stream->mpa->state != VB_MPA_AGREED)
		return -ECONNRESET;
	stream->context = id->device->context;
	error = vb_rdmacm_stream_hand_over(stream);
	if (error != 0)
		return error;
	id->initiator_depth = (uint8_t)stream->mpa->terms.ord;
	id->responder_resources = (uint8_t)stream->mpa->terms.ird;
	/* With a ready-to-receive message agreed on, not before it has come. */
	if (stream->mpa->terms.peer_to_peer)
		return 0;
	vb_rdmacm_stream_tell(stream, VB_CM_EVENT_ESTABLISHED, 0);
	free(stream->mpa);
	stream->mpa = NULL;
	return 0;
}

int vb_rdmacm_streams_accept(struct vb_rdmacm_id *id, uint32_t qpn, struct vb_rdmacm_private_data data)
{
	struct vb_rdmacm_stream *stream;
	int error = -EINVAL;

	vb_mutex_lock(&streams.lock);
	stream = request_of(id);
	if (stream != NULL) {
		stream->qpn = qpn;
		error = accept_request(id, stream, data);
		if (error != 0) {
			id->stream = NULL;
			vb_rdmacm_stream_reap(stream);
		}
	}
	vb_mutex_unlock(&streams.lock);
	return error;
}

/* Caller holds the lock. The stream has no owner then. */
static void reject_request(struct vb_rdmacm_stream *stream, struct vb_rdmacm_private_data data)
{
	vb_mpa_reject(stream->mpa, data.bytes, data.length);
	vb_rdmacm_stream_send(stream);
	vb_rdmacm_stream_leave(stream);
}

int vb_rdmacm_streams_reject(struct vb_rdmacm_id *id, struct vb_rdmacm_private_data data)
{
	struct vb_rdmacm_stream *stream;

	vb_mutex_lock(&streams.lock);
	stream = request_of(id);
	if (stream != NULL) {
		id->stream = NULL;
		reject_request(stream, data);
	}
	vb_mutex_unlock(&streams.lock);
	return stream != NULL ? 0 : -EINVAL;
}

int vb_rdmacm_streams_disconnect(struct vb_rdmacm_id *id)
{
	struct vb_rdmacm_stream *stream;
	int error = 0;

	vb_mutex_lock(&streams.lock);
	stream = id->stream;
	if (stream != NULL && stream->kind == VB_STREAM_ADOPTED)
		error = vb_rdmacm_handover_close(stream->context, stream->qpn);
	vb_mutex_unlock(&streams.lock);
	/* Its queue pair has failed, or is gone: then it ends by itself. */
	return error == -EINVAL ? 0 : error;
}

void vb_rdmacm_streams_interface_gone(uint32_t interface_index)
{
	vb_mutex_lock(&streams.lock);
	VB_LIST_FOR_EACH(node, &streams.ids) {
		struct vb_rdmacm_id *id = vb_container_of(node, struct vb_rdmacm_id, stream_node);

		if (id->stream_request != 0 &&
		    __atomic_load_n(&id->interface_index, __ATOMIC_ACQUIRE) == interface_index)
			(void)vb_rdmacm_channel_tell(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
	}
	vb_mutex_unlock(&streams.lock);
}

/* Caller holds the lock. Of a listener: what it has accepted and not shown. */
static void close_unfinished(const struct vb_rdmacm_id *listener)
{
	VB_LIST_FOR_EACH(node, &streams.unfinished) {
		struct vb_rdmacm_stream *stream = vb_container_of(node, struct vb_rdmacm_stream, unfinished);

		if (stream->id == listener)
			vb_rdmacm_stream_reap(stream);
	}
}

/* Then no event of it was, or will be, told by the thread of streams. */
static bool has_no_stream(const struct vb_rdmacm_id *id)
{
	return __atomic_load_n(&id->stream, __ATOMIC_ACQUIRE) == NULL && vb_list_is_empty(&id->stream_node);
}

void vb_rdmacm_streams_left(const struct vb_rdmacm_id *id)
{
	if (has_no_stream(id))
		return;
	vb_mutex_lock(&streams.lock);
	vb_mutex_unlock(&streams.lock);
}

void vb_rdmacm_streams_forget(struct vb_rdmacm_id *id)
{
	struct vb_rdmacm_stream *stream;

	if (has_no_stream(id))
		return;
	vb_mutex_lock(&streams.lock);
	vb_list_remove(&id->stream_node);
	stream = id->stream;
	id->stream = NULL;
	if (stream == NULL) {
		vb_mutex_unlock(&streams.lock);
		return;
	}
	if (stream->kind == VB_STREAM_LISTENER)
		close_unfinished(id);
	if (stream->kind == VB_STREAM_ADOPTED) {
		(void)vb_rdmacm_handover_close(stream->context, stream->qpn);
		stream->id = NULL;
	} else if (stream->kind == VB_STREAM_INCOMING && stream->mpa->state == VB_MPA_ASKED) {
		reject_request(stream, (struct vb_rdmacm_private_data){0});
	} else {
		vb_rdmacm_stream_reap(stream);
	}
	vb_mutex_unlock(&streams.lock);
}
