/* SPDX-License-Identifier: MIT
 *
 * Making connections. Each stream has an event channel of its own, whose descriptor is also the number the program
 * knows it by; the service thread takes its events, so that a connection comes about whether or not the program is
 * looking:
 *
 *   active    resolve address -> resolve route -> REQ with our hello -> ESTABLISHED with the peer's
 *   passive   CONNECT_REQUEST with the peer's hello -> new rsocket, REP with ours -> ESTABLISHED -> raccept
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "io/descriptor.h"
#include "rdmacm/rsocket/service.h"
#include "rdmacm/rsocket/stream.h"
#include "rdmacm/rsocket/wait.h"

enum {
	WINDOWS_UNASKED = 16,              /* of 24 bytes each */
	RESOLVE_MILLISECONDS = 5000,
	RETRIES = 7,                     /* the most a connection can have; for RNR: without end */
	CHILDREN_MOST = 4096,            /* connections to one listener that were not accepted (SOMAXCONN) */
};

/* A CM event, copied so that it can be acknowledged before it is acted upon: destroying an id waits for
 * acknowledgements. */
struct occurrence {
	enum rdma_cm_event_type type;
	int status;
	struct rdma_cm_id *id;
	struct rdma_conn_param connection;
	uint8_t data[sizeof(struct vb_rstream_greeting_bytes)];
	unsigned length;
};

static void attend(struct vb_rsocket *rs);

static const struct vb_rsocket_kind kind = {
	.progress = vb_rstream_progress,
	.arm = vb_rstream_arm,
	.collect = vb_rstream_collect,
	.wait_fd = vb_rstream_wait_fd,
	.revents = vb_rstream_revents,
	.keep_alive = vb_rstream_keep_alive,
	.attend = attend,
	.close = vb_rstream_close,
	.destroy = vb_rstream_destroy,
};

/* lifted: its descriptor is none of the low numbers, which a program counts on. Else it is the program's, which is chosen as in
 * vb_rstream_rename. NULL with errno: ENOMEM, or what a descriptor was refused with. */
static struct vb_rsocket *create_unconnected(int domain, bool lifted)
{
	struct vb_rsocket *rs = vb_rsocket_create(&kind, domain, SOCK_STREAM);
	struct vb_rstream *stream;

	if (rs == NULL)
		return NULL;
	rs->stream = stream = calloc(1, sizeof(*stream));
	if (stream == NULL) {
		vb_rsocket_put(rs);
		return NULL;
	}
	stream->receive_fd = -1;
	vb_list_init(&stream->accepted);
	vb_list_init(&stream->accept_node);
	vb_list_init(&stream->mappings);
	stream->channel = rdma_create_event_channel();
	if (stream->channel == NULL) {
		int error = errno;

		vb_rsocket_put(rs);
		errno = error;
		return NULL;
	}
	stream->channel->fd = lifted ? vb_descriptor_lift(stream->channel->fd) : vb_descriptor_raise(stream->channel->fd);
	rs->fd = rs->event_fd = stream->channel->fd;
	/* The service thread must never wait for an event that is not there. */
	fcntl(rs->fd, F_SETFL, fcntl(rs->fd, F_GETFL) | O_NONBLOCK);
	return rs;
}

int vb_rstream_open(int domain, int type_flags)
{
	struct vb_rsocket *rs = create_unconnected(domain, false);
	int result;

	if (rs == NULL)
		return -errno;
	if (type_flags & SOCK_NONBLOCK)
		rs->status_flags = O_NONBLOCK;
	if (type_flags & SOCK_CLOEXEC)
		rs->descriptor_flags = FD_CLOEXEC;
	result = rdma_create_id(rs->stream->channel, &rs->stream->id, rs, RDMA_PS_TCP) == 0 ? 0 : -errno;
	if (result == 0)
		result = vb_rsocket_publish(rs);
	if (result == 0)
		result = rs->fd;
	vb_rsocket_put(rs);
	return result;
}

struct vb_rsocket *vb_rstream_open_hidden(int domain, const uint8_t token[VB_RSTREAM_TOKEN], int *error)
{
	struct vb_rsocket *rs = create_unconnected(domain, true);

	if (rs == NULL) {
		*error = -errno;
		return NULL;
	}
	rs->status_flags = O_NONBLOCK;
	rs->stream->has_token = true;
	memcpy(rs->stream->token, token, VB_RSTREAM_TOKEN);
	*error = rdma_create_id(rs->stream->channel, &rs->stream->id, rs, RDMA_PS_TCP) == 0 ? 0 : -errno;
	if (*error == 0)
		*error = vb_rsocket_publish(rs);
	if (*error == 0)
		return rs;
	vb_rsocket_put(rs);
	return NULL;
}

/* rdma_cm knows IPv4 addresses only by their own family. */
static void unmap_address(union vb_rsocket_address *address)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET};

	if (address->any.sa_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&address->v6.sin6_addr))
		return;
	v4.sin_port = address->v6.sin6_port;
	memcpy(&v4.sin_addr, &address->v6.sin6_addr.s6_addr[12], sizeof(v4.sin_addr));
	memset(address, 0, sizeof(*address));
	address->v4 = v4;
}

int vb_rstream_bind(struct vb_rsocket *rs, const struct sockaddr *address, socklen_t length)
{
	union vb_rsocket_address local;
	int error = vb_rsocket_address_take(&local, address, length);

	if (error != 0)
		return error;
	if (rs->stream->state != VB_RSTREAM_IDLE)
		return -EINVAL;
	unmap_address(&local);
	if (rdma_bind_addr(rs->stream->id, &local.any) != 0)
		return -errno;
	rs->stream->state = VB_RSTREAM_BOUND;
	return 0;
}

/* listen(2) on a socket without an address gives it one. */
static int bind_anywhere(struct vb_rsocket *rs)
{
	union vb_rsocket_address any = {.storage.ss_family = (sa_family_t)rs->domain};

	return vb_rstream_bind(rs, &any.any, vb_rsocket_address_length(rs->domain));
}

int vb_rstream_listen(struct vb_rsocket *rs, int backlog)
{
	int error = 0;

	if (rs->stream->state == VB_RSTREAM_LISTENING)
		return 0;
	if (rs->stream->state == VB_RSTREAM_IDLE)
		error = bind_anywhere(rs);
	if (error != 0)
		return error;
	if (rs->stream->state != VB_RSTREAM_BOUND)
		return -EINVAL;
	if (rdma_listen(rs->stream->id, backlog) != 0)
		return -errno;
	/* From now on connections that are being accepted take it under their own. */
	vb_mutex_set_rank(&rs->lock, VB_RANK_RSOCKET_LISTENER);
	error = vb_rsocket_service_add(rs);
	if (error == 0)
		rs->stream->state = VB_RSTREAM_LISTENING;
	return error;
}

static bool has_accepted(struct vb_rsocket *rs)
{
	return !vb_list_is_empty(&rs->stream->accepted) || rs->stream->state != VB_RSTREAM_LISTENING;
}

/* The number a program gets from raccept is chosen then, not when the connection came: rdma-core 44's librspreload.so
 * takes a number of its own just before, and relies on ours being higher: where it is not, its select tells of another descriptor, and
 * the program waits for ever. One of our threads may have had a lower number for a moment, which is free again now. */
int vb_rstream_rename(struct vb_rsocket *child, int fd)
{
	struct vb_rsocket *published = vb_rsocket_withdraw(child->fd);
	int error;

	if (published != NULL)
		vb_rsocket_put(published);
	child->fd = fd;
	error = vb_rsocket_publish(child);
	if (error == 0)
		vb_rsocket_service_rename(child);
	return error;
}

struct vb_rsocket *vb_rstream_accept(struct vb_rsocket *rs, int *fd)
{
	struct vb_rstream *stream = rs->stream, *child;

	if (stream->state != VB_RSTREAM_LISTENING) {
		*fd = -EINVAL;
		return NULL;
	}
	*fd = vb_rsocket_wait(rs, vb_rsocket_patience(rs, 0, rs->options.receive_timeout), has_accepted);
	if (*fd == 0 && vb_list_is_empty(&stream->accepted))
		*fd = -EINVAL;
	if (*fd != 0)
		return NULL;
	child = vb_container_of(stream->accepted.next, struct vb_rstream, accept_node);
	*fd = fcntl(child->channel->fd, F_DUPFD_CLOEXEC, 0);
	if (*fd < 0) {
		*fd = -errno;
		return NULL;
	}
	*fd = vb_descriptor_raise(*fd);
	vb_list_remove(&child->accept_node);
	stream->children--;
	return vb_rsocket_get(child->channel->fd);
}

struct vb_rsocket *vb_rstream_take_accepted(struct vb_rsocket *listener)
{
	struct vb_rstream *child;

	if (vb_list_is_empty(&listener->stream->accepted))
		return NULL;
	child = vb_container_of(listener->stream->accepted.next, struct vb_rstream, accept_node);
	vb_list_remove(&child->accept_node);
	listener->stream->children--;
	return vb_rsocket_get(child->channel->fd);
}

static void refuse(struct vb_rsocket *rs, int error)
{
	rs->stream->state = VB_RSTREAM_REFUSED;
	rs->error = error;
}

static void become_connected(struct vb_rsocket *rs)
{
	rs->stream->state = VB_RSTREAM_CONNECTED;
	rs->stream->may_read = rs->stream->may_write = true;
	vb_rstream_message_measure(rs->stream);
	vb_rstream_progress(rs);
}

static void set_making(struct vb_rsocket *rs, bool is_making)
{
	__atomic_store_n(&rs->stream->is_making, is_making, __ATOMIC_RELEASE);
}

static int start_connecting(struct vb_rsocket *rs, const struct sockaddr *address, socklen_t length)
{
	union vb_rsocket_address to;
	int error = vb_rsocket_address_take(&to, address, length);

	if (error == 0)
		error = vb_rsocket_service_add(rs);
	if (error != 0)
		return error;
	unmap_address(&to);
	set_making(rs, true);
	if (rdma_resolve_addr(rs->stream->id, NULL, &to.any, RESOLVE_MILLISECONDS) != 0) {
		set_making(rs, false);
		return -errno;
	}
	rs->stream->destination = to;
	rs->stream->state = VB_RSTREAM_RESOLVING_ADDRESS;
	return 0;
}

int vb_rstream_connect(struct vb_rsocket *rs, const struct sockaddr *address, socklen_t length)
{
	struct vb_rstream *stream = rs->stream;
	vb_time patience = vb_rsocket_patience(rs, 0, rs->options.send_timeout);
	bool started = false;
	int error;

	if (stream->state == VB_RSTREAM_LISTENING || (stream->state == VB_RSTREAM_CONNECTED && stream->success_told))
		return -EISCONN;
	if (stream->state == VB_RSTREAM_IDLE || stream->state == VB_RSTREAM_BOUND) {
		error = start_connecting(rs, address, length);
		if (error != 0)
			return error;
		started = true;
	}
	error = vb_rsocket_wait(rs, patience, vb_rstream_has_finished_opening);
	if (error == -EAGAIN)
		return started ? -EINPROGRESS : -EALREADY;
	if (error != 0)
		return error;
	if (stream->state == VB_RSTREAM_CONNECTED) {
		stream->success_told = true;
		return 0;
	}
	error = rs->error != 0 ? -rs->error : -ENOTCONN;
	rs->error = 0;
	return error;
}

static int resolve_route(struct vb_rstream *stream)
{
	int result;

	if (stream->route != NULL)
		result = rdma_set_option(stream->id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, stream->route,
					 stream->route_length);
	else
		result = rdma_resolve_route(stream->id, RESOLVE_MILLISECONDS);
	return result == 0 ? 0 : -errno;
}

static int send_request(struct vb_rsocket *rs)
{
	struct vb_rstream_greeting_bytes greeting;
	struct rdma_conn_param parameters = {
		.private_data = &greeting,
		.flow_control = 1,
		.retry_count = RETRIES,
		.rnr_retry_count = RETRIES,
	};
	int error;

	vb_rstream_message_choose(rs->stream);
	error = vb_rstream_endpoint_create(rs);
	if (error != 0)
		return error;
	/* RNICs may READ nothing to say that they are ready (RFC 6581 9). */
	parameters.initiator_depth = rs->stream->by_send;
	parameters.private_data_len = (uint8_t)vb_rstream_endpoint_introduce(rs, &greeting);
	return rdma_connect(rs->stream->id, &parameters) == 0 ? 0 : -errno;
}

/* What connect(2) would have said. */
static int errno_of(const struct occurrence *what)
{
	if (what->type == RDMA_CM_EVENT_REJECTED)
		return ECONNREFUSED;             /* status is the CM's reason, not an errno */
	if (what->status < 0)
		return -what->status;
	switch (what->type) {
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		return EHOSTUNREACH;
	case RDMA_CM_EVENT_UNREACHABLE:
		return ETIMEDOUT;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		return ENETDOWN;
	default:
		return ECONNABORTED;
	}
}

static void go_on_connecting(struct vb_rsocket *rs, const struct occurrence *what)
{
	struct vb_rstream *stream = rs->stream;
	int error = 0;

	if (stream->state == VB_RSTREAM_RESOLVING_ADDRESS && what->type == RDMA_CM_EVENT_ADDR_RESOLVED) {
		error = resolve_route(stream);
		stream->state = VB_RSTREAM_RESOLVING_ROUTE;
	} else if (stream->state == VB_RSTREAM_RESOLVING_ROUTE && what->type == RDMA_CM_EVENT_ROUTE_RESOLVED) {
		error = send_request(rs);
		stream->state = VB_RSTREAM_CONNECTING;
	} else if (stream->state == VB_RSTREAM_CONNECTING && what->type == RDMA_CM_EVENT_ESTABLISHED) {
		error = vb_rstream_endpoint_meet(rs, what->data, what->length);
		if (error == 0)
			become_connected(rs);
		else
			rdma_disconnect(stream->id);
	} else {
		error = -errno_of(what);
	}
	if (error != 0)
		refuse(rs, -error);
	set_making(rs, stream->state == VB_RSTREAM_RESOLVING_ROUTE);
}

static int send_reply(struct vb_rsocket *child, const struct occurrence *what)
{
	struct vb_rstream_greeting_bytes greeting;
	struct rdma_conn_param parameters = {
		.private_data = &greeting,
		.responder_resources = what->connection.responder_resources,
		.initiator_depth = what->connection.initiator_depth,
		.flow_control = what->connection.flow_control,
		.retry_count = what->connection.retry_count,
		.rnr_retry_count = RETRIES,
	};

	parameters.private_data_len = (uint8_t)vb_rstream_endpoint_introduce(child, &greeting);
	return rdma_accept(child->stream->id, &parameters) == 0 ? 0 : -errno;
}

/* The id of a request becomes an rsocket of its own. Caller holds the listener's lock; no other thread knows the child. */
static int prepare_child(struct vb_rsocket *listener, struct vb_rsocket *child, const struct occurrence *what)
{
	int error;

	if (rdma_migrate_id(what->id, child->stream->channel) != 0)
		return -errno;
	child->stream->id = what->id;
	vb_rstream_message_choose(child->stream);
	child->sizes = listener->sizes;
	/* A program may ask for windows after rlisten, when we have accepted in its name already: riostream does. */
	if (child->sizes.iomaps == 0)
		child->sizes.iomaps = WINDOWS_UNASKED;
	child->options = listener->options;
	child->options.keep_alive = false;
	child->stream->has_token = listener->stream->has_token;
	memcpy(child->stream->token, listener->stream->token, sizeof(child->stream->token));
	error = vb_rstream_endpoint_meet(child, what->data, what->length);
	if (error == 0)
		error = vb_rstream_endpoint_create(child);
	if (error != 0)
		return error;
	child->stream->state = VB_RSTREAM_ACCEPTING;
	child->stream->listener = vb_rsocket_hold(listener);
	error = vb_rsocket_publish(child);
	if (error == 0)
		error = vb_rsocket_service_add(child);
	if (error == 0)
		error = send_reply(child, what);
	return error;
}

/* Caller holds the listener's lock. */
static void admit(struct vb_rsocket *listener, const struct occurrence *what)
{
	struct vb_rsocket *child = NULL, *published;
	int error = -ENOMEM;

	if (listener->stream->children < CHILDREN_MOST)
		child = create_unconnected(listener->domain, true);
	if (child != NULL)
		error = prepare_child(listener, child, what);
	if (error == 0) {
		listener->stream->children++;
		vb_rsocket_put(child);
		return;
	}
	rdma_reject(what->id, NULL, 0);
	if (child == NULL || child->stream->id == NULL)
		rdma_destroy_id(what->id);
	if (child == NULL)
		return;
	vb_rsocket_service_remove(child);
	published = vb_rsocket_withdraw(child->fd);
	if (published != NULL)
		vb_rsocket_put(published);
	vb_rsocket_put(child);
}

static void tell_observer(struct vb_rsocket *rs)
{
	if (rs->observer.changed != NULL)
		rs->observer.changed(rs->observer.context);
}

static void lose_connection(struct vb_rsocket *rs, const struct occurrence *what)
{
	if (what->type != RDMA_CM_EVENT_DISCONNECTED && what->type != RDMA_CM_EVENT_DEVICE_REMOVAL)
		return;
	/* What the peer wrote before it left has completed already: take it first. */
	vb_rstream_progress(rs);
	if (what->type == RDMA_CM_EVENT_DISCONNECTED)
		vb_rstream_disconnected(rs);
	else
		vb_rstream_break(rs, ENETDOWN);
	/* Stops our queue pair, so that writes that the peer will not acknowledge do not wait for retries. */
	rdma_disconnect(rs->stream->id);
}

/* A child is connected, or never will be. Its peer may have said all it had to say and left by the time we hear
 * that it came (who disconnects was connected, even if we missed that): as with TCP, the thread that accepts gets the words
 * and then their end. Caller holds the child's lock. True: it will never be accepted. */
static bool hand_over_child(struct vb_rsocket *child, const struct occurrence *what)
{
	struct vb_rsocket *listener = child->stream->listener;
	bool wanted;

	if (what->type == RDMA_CM_EVENT_ESTABLISHED || what->type == RDMA_CM_EVENT_DISCONNECTED)
		become_connected(child);
	else
		refuse(child, errno_of(what));
	lose_connection(child, what);
	child->stream->listener = NULL;
	vb_mutex_lock(&listener->lock);
	wanted = (child->stream->state == VB_RSTREAM_CONNECTED || child->stream->state == VB_RSTREAM_DISCONNECTED) &&
		 !listener->closed;
	if (wanted) {
		vb_list_append(&listener->stream->accepted, &child->stream->accept_node);
		vb_rsocket_wake(listener);
		tell_observer(listener);
	} else {
		listener->stream->children--;
	}
	vb_mutex_unlock(&listener->lock);
	vb_rsocket_put(listener);
	return !wanted;
}

/* Caller holds rs->lock. True: the rsocket is to be closed here. */
static bool act_upon(struct vb_rsocket *rs, const struct occurrence *what)
{
	bool abandoned = false;

	if (rs->stream->state == VB_RSTREAM_LISTENING) {
		if (what->type != RDMA_CM_EVENT_CONNECT_REQUEST)
			return false;
		set_making(rs, true);
		admit(rs, what);
		set_making(rs, false);
		/* Others may have been accepted before, which was not looked for meanwhile. */
		vb_rsocket_wake(rs);
		tell_observer(rs);
		return false;
	}
	if (rs->stream->state == VB_RSTREAM_ACCEPTING)
		abandoned = hand_over_child(rs, what);
	else if (vb_rstream_is_opening(rs->stream))
		go_on_connecting(rs, what);
	else
		lose_connection(rs, what);
	rs->stream->changes++;
	vb_rsocket_wake(rs);
	tell_observer(rs);
	return abandoned;
}

static bool take_occurrence(struct vb_rstream *stream, struct occurrence *what)
{
	struct rdma_cm_event *event;

	if (rdma_get_cm_event(stream->channel, &event) != 0)
		return false;
	*what = (struct occurrence){
		.type = event->event,
		.status = event->status,
		.id = event->id,
		.connection = event->param.conn,
	};
	if (event->param.conn.private_data != NULL) {
		what->length = event->param.conn.private_data_len;
		if (what->length > sizeof(what->data))
			what->length = sizeof(what->data);
		memcpy(what->data, event->param.conn.private_data, what->length);
	}
	rdma_ack_cm_event(event);
	return true;
}

static void attend(struct vb_rsocket *rs)
{
	struct occurrence what;
	bool abandoned = false;

	vb_mutex_lock(&rs->lock);
	while (!abandoned && !rs->closed && take_occurrence(rs->stream, &what))
		abandoned = act_upon(rs, &what);
	vb_mutex_unlock(&rs->lock);
	if (!abandoned)
		return;
	rs = vb_rsocket_withdraw(rs->fd);
	if (rs != NULL)
		vb_rstream_close(rs);
}
