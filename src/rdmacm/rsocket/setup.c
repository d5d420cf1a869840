/* SPDX-License-Identifier: MIT
 *
 * The life of an rsocket: socket, bind, listen, accept, connect, shutdown, close. Streams use a synchronous id: its own channel is the
 * descriptor that the program sees, so that a listening or connecting socket can be polled for what it is.
 *
 * raccept does not wait for the peer's RTU: the new socket can be read at once, and written when RTU or the first message has come
 * (rs->established), since a queue pair that is not up yet would lose what was sent and make us wait for the retry.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <rdma/rsocket.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rdmacm/address.h"
#include "rdmacm/export.h"
#include "rdmacm/id.h"
#include "rdmacm/rsocket/limits.h"
#include "rdmacm/rsocket/rsocket.h"
#include "rdmacm/rsocket/settings.h"

enum { RESOLVE_TIMEOUT_MS = 2000, MOST_RETRIES = 7 };

struct vb_rsocket *vb_rsocket_allocate(const struct vb_rsocket *like, int domain, int type)
{
	struct vb_rsocket *rs = calloc(1, sizeof(*rs));

	if (rs == NULL)
		return NULL;
	if (like != NULL) {
		rs->socket_options = like->socket_options;
		rs->tcp_options = like->tcp_options;
		rs->ipv6_options = like->ipv6_options;
		rs->type_of_service = like->type_of_service;
		rs->keepalive_seconds = like->keepalive_seconds;
		rs->send_queue = like->send_queue;
		rs->receive_queue = like->receive_queue;
		rs->inline_size = like->inline_size;
		rs->send_size = like->send_size;
		rs->receive_size = like->receive_size;
		rs->iomap_size = like->iomap_size;
	} else {
		vb_rsocket_settings_apply(rs);
	}
	rs->fd = -1;
	rs->domain = domain;
	rs->type = type;
	pthread_mutex_init(&rs->lock, NULL);
	pthread_cond_init(&rs->progressed, NULL);
	vb_list_init(&rs->mappings);
	return rs;
}

void vb_rsocket_free(struct vb_rsocket *rs)
{
	if (rs->fd >= 0)
		vb_rsocket_remove(rs);
	if (rs->datagram != NULL)
		vb_rsocket_datagram_destroy(rs);
	if (rs->id != NULL) {
		vb_rsocket_resources_destroy(rs);
		rdma_destroy_id(rs->id); /* closes the descriptor */
	}
	pthread_cond_destroy(&rs->progressed);
	pthread_mutex_destroy(&rs->lock);
	free(rs->route);
	free(rs);
}

static int create_stream(struct vb_rsocket *rs)
{
	if (rdma_create_id(NULL, &rs->id, rs, RDMA_PS_TCP) != 0)
		return -errno;
	rs->fd = rs->id->channel->fd;
	return vb_rsocket_insert(rs);
}

static void make_nonblocking(int fd, bool nonblocking)
{
	int flags = fcntl(fd, F_GETFL);

	fcntl(fd, F_SETFL, nonblocking ? flags | O_NONBLOCK : flags & ~O_NONBLOCK);
}

VB_EXPORT int rsocket(int domain, int type, int protocol)
{
	int kind = type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC), error;
	struct vb_rsocket *rs;

	if (domain != AF_INET && domain != AF_INET6)
		return vb_rdmacm_fail(EAFNOSUPPORT);
	if ((kind != SOCK_STREAM && kind != SOCK_DGRAM) || (kind == SOCK_STREAM && protocol != 0 && protocol != IPPROTO_TCP) ||
	    (kind == SOCK_DGRAM && protocol != 0 && protocol != IPPROTO_UDP))
		return vb_rdmacm_fail(ENOTSUP);
	rs = vb_rsocket_allocate(NULL, domain, kind);
	if (rs == NULL)
		return vb_rdmacm_fail(ENOMEM);
	rs->nonblocking = type & SOCK_NONBLOCK;
	error = kind == SOCK_STREAM ? create_stream(rs) : vb_rsocket_datagram_create(rs);
	if (error != 0) {
		vb_rsocket_free(rs);
		return vb_rdmacm_result(error);
	}
	if (kind == SOCK_STREAM && rs->nonblocking)
		make_nonblocking(rs->fd, true);
	return rs->fd;
}

VB_EXPORT int rbind(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
	struct vb_rsocket *rs = vb_rsocket_find(socket);
	struct sockaddr_storage copy = {0};
	int result;

	if (rs == NULL)
		return vb_rdmacm_fail(EBADF);
	if (addr == NULL || addrlen < sizeof(sa_family_t) || addrlen > sizeof(copy) || addrlen < vb_rdmacm_address_length(addr))
		return vb_rdmacm_fail(EINVAL);
	if (rs->type == SOCK_DGRAM)
		return bind(rs->fd, addr, addrlen);
	memcpy(&copy, addr, addrlen);
	pthread_mutex_lock(&rs->lock);
	result = rdma_bind_addr(rs->id, (struct sockaddr *)&copy);
	if (result == 0)
		rs->state = VB_RSOCKET_BOUND;
	pthread_mutex_unlock(&rs->lock);
	return result;
}

VB_EXPORT int rlisten(int socket, int backlog)
{
	struct vb_rsocket *rs = vb_rsocket_find(socket);
	int result = 0;

	if (rs == NULL)
		return vb_rdmacm_fail(EBADF);
	if (rs->type != SOCK_STREAM)
		return vb_rdmacm_fail(EOPNOTSUPP);
	pthread_mutex_lock(&rs->lock);
	if (rs->state != VB_RSOCKET_LISTENING) {
		result = rdma_listen(rs->id, backlog);
		if (result == 0)
			rs->state = VB_RSOCKET_LISTENING;
	}
	pthread_mutex_unlock(&rs->lock);
	return result;
}

static void copy_address(const struct sockaddr *from, struct sockaddr *to, socklen_t *length)
{
	socklen_t size = vb_rdmacm_address_length(from);

	if (to == NULL || length == NULL)
		return;
	memcpy(to, from, *length < size ? *length : size);
	*length = size;
}

/* Answer a request with our greeting. 0 or -errno; the id is the socket's from the start. */
static int answer(struct vb_rsocket *rs)
{
	const struct rdma_conn_param *asked = &rs->id->event->param.conn;
	struct vb_rsocket_greeting greeting, theirs;
	struct rdma_conn_param param = {
		.private_data = &greeting,
		.private_data_len = sizeof(greeting),
		.flow_control = 1,
		.retry_count = MOST_RETRIES,
		.rnr_retry_count = MOST_RETRIES,
	};
	int error;

	if (asked->private_data == NULL || asked->private_data_len < sizeof(theirs))
		return -EPROTO;
	memcpy(&theirs, asked->private_data, sizeof(theirs));
	error = vb_rsocket_resources_create(rs);
	if (error == 0)
		error = vb_rsocket_accept_offer(rs, &theirs, sizeof(theirs));
	if (error != 0)
		return error;
	vb_rsocket_offer(rs, &greeting);
	rs->state = VB_RSOCKET_CONNECTED;
	rs->readable = rs->writable = true;
	make_nonblocking(rs->fd, true); /* the channel's later events are taken as they come */
	if (rdma_accept(rs->id, &param) == 0)
		rs->established = true;
	else if (errno != EAGAIN)
		return -errno;
	return 0;
}

/* A new socket for the next request worth having. Requests that are no rsocket's are turned away, as are those we cannot serve. */
static int accept_next(struct vb_rsocket *listener, struct vb_rsocket **result)
{
	for (;;) {
		struct rdma_cm_id *id;
		struct vb_rsocket *rs;
		int error;

		if (rdma_get_request(listener->id, &id) != 0)
			return -errno;
		rs = vb_rsocket_allocate(listener, listener->domain, SOCK_STREAM);
		if (rs == NULL) {
			rdma_destroy_id(id);
			return -ENOMEM;
		}
		rs->id = id;
		rs->id->context = rs;
		rs->fd = id->channel->fd;
		error = vb_rsocket_insert(rs);
		if (error == 0)
			error = answer(rs);
		if (error == 0) {
			*result = rs;
			return 0;
		}
		vb_rsocket_free(rs);
		if (error == -ENOMEM || error == -EMFILE)
			return error;
	}
}

VB_EXPORT int raccept(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	struct vb_rsocket *listener = vb_rsocket_find(socket), *rs;
	int error;

	if (listener == NULL)
		return vb_rdmacm_fail(EBADF);
	if (listener->state != VB_RSOCKET_LISTENING)
		return vb_rdmacm_fail(EINVAL);
	error = accept_next(listener, &rs);
	if (error != 0)
		return vb_rdmacm_result(error);
	copy_address(rdma_get_peer_addr(rs->id), addr, addrlen);
	return rs->fd;
}

/* The REP is in rs->id->event. */
static int connected(struct vb_rsocket *rs)
{
	const struct rdma_conn_param *param = &rs->id->event->param.conn;
	int error = vb_rsocket_accept_offer(rs, param->private_data, param->private_data_len);

	if (error != 0)
		return error;
	rs->state = VB_RSOCKET_CONNECTED;
	rs->readable = rs->writable = rs->established = true;
	make_nonblocking(rs->fd, true);
	return 0;
}

static void connect_failed(struct vb_rsocket *rs, int error)
{
	rs->state = VB_RSOCKET_FAILED;
	rs->error = -error;
}

int vb_rsocket_continue(struct vb_rsocket *rs)
{
	int error;

	if (rs->state != VB_RSOCKET_CONNECTING)
		return rs->state == VB_RSOCKET_CONNECTED ? 0 : -ENOTCONN;
	if (vb_rdmacm_id_complete(vb_rdmacm_id_of(rs->id)) == 0)
		error = connected(rs);
	else if (errno == EAGAIN)
		return -EINPROGRESS;
	else
		error = -errno;
	if (error != 0)
		connect_failed(rs, error);
	return error;
}

static int resolve(struct vb_rsocket *rs, struct sockaddr *to)
{
	if (rdma_resolve_addr(rs->id, NULL, to, RESOLVE_TIMEOUT_MS) != 0)
		return -errno;
	if (rs->route != NULL) {
		if (rdma_set_option(rs->id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, rs->route, rs->route_length) != 0)
			return -errno;
		return vb_rdmacm_id_complete(vb_rdmacm_id_of(rs->id)) != 0 ? -errno : 0;
	}
	return rdma_resolve_route(rs->id, RESOLVE_TIMEOUT_MS) != 0 ? -errno : 0;
}

/* Caller holds rs->lock. */
static int start_connecting(struct vb_rsocket *rs, struct sockaddr *to)
{
	struct vb_rsocket_greeting greeting;
	struct rdma_conn_param param = {
		.private_data = &greeting,
		.private_data_len = sizeof(greeting),
		.flow_control = 1,
		.retry_count = MOST_RETRIES,
		.rnr_retry_count = MOST_RETRIES,
	};
	int error;

	error = resolve(rs, to);
	if (error == 0)
		error = vb_rsocket_resources_create(rs);
	if (error != 0)
		return error;
	vb_rsocket_offer(rs, &greeting);
	rs->state = VB_RSOCKET_CONNECTING;
	if (rdma_connect(rs->id, &param) == 0)
		return connected(rs);
	return errno == EAGAIN ? -EINPROGRESS : -errno;
}

VB_EXPORT int rconnect(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
	struct vb_rsocket *rs = vb_rsocket_find(socket);
	struct sockaddr_storage copy = {0};
	int error;

	if (rs == NULL)
		return vb_rdmacm_fail(EBADF);
	if (addr == NULL || addrlen > sizeof(copy) || vb_rdmacm_address_length(addr) == 0 ||
	    addrlen < vb_rdmacm_address_length(addr))
		return vb_rdmacm_fail(EINVAL);
	if (rs->type == SOCK_DGRAM)
		return vb_rdmacm_result(vb_rsocket_datagram_connect(rs, addr, addrlen));
	memcpy(&copy, addr, addrlen);
	pthread_mutex_lock(&rs->lock);
	switch (rs->state) {
	case VB_RSOCKET_FRESH:
	case VB_RSOCKET_BOUND:
		error = start_connecting(rs, (struct sockaddr *)&copy);
		if (error != 0 && error != -EINPROGRESS)
			connect_failed(rs, error);
		break;
	case VB_RSOCKET_CONNECTING:
		error = vb_rsocket_continue(rs);
		if (error == -EINPROGRESS)
			error = -EALREADY;
		break;
	case VB_RSOCKET_CONNECTED:
		error = -EISCONN;
		break;
	default:
		error = rs->error != 0 ? -rs->error : -EINVAL;
		break;
	}
	pthread_mutex_unlock(&rs->lock);
	return vb_rdmacm_result(error);
}

static bool control_is_possible(const struct vb_rsocket *rs)
{
	return (rs->established && rs->control_slots != 0) || !vb_rsocket_is_connected(rs);
}

static bool all_sent(const struct vb_rsocket *rs)
{
	return rs->send_slots + rs->control_slots == rs->send_queue || !vb_rsocket_is_connected(rs);
}

/* Caller holds rs->lock. Tell the peer, and wait until it has everything. */
static void shut_down(struct vb_rsocket *rs, int how)
{
	uint32_t control = VB_RSOCKET_CONTROL_DISCONNECT;

	if (how == SHUT_RDWR) {
		rs->readable = rs->writable = false;
	} else if (how == SHUT_WR) {
		rs->writable = false;
		if (rs->readable)
			control = VB_RSOCKET_CONTROL_SHUTDOWN;
	} else {
		rs->readable = false;
		if (rs->writable)
			return;
	}
	(void)vb_rsocket_wait(rs, control_is_possible, false, VB_RSOCKET_CLOSE_MILLISECONDS);
	if (vb_rsocket_is_connected(rs) && rs->established && rs->control_slots != 0)
		(void)vb_rsocket_control(rs, vb_rsocket_message(VB_RSOCKET_CONTROL, control));
	(void)vb_rsocket_wait(rs, all_sent, false, VB_RSOCKET_CLOSE_MILLISECONDS);
}

VB_EXPORT int rshutdown(int socket, int how)
{
	struct vb_rsocket *rs = vb_rsocket_find(socket);
	int error = 0;

	if (rs == NULL)
		return vb_rdmacm_fail(EBADF);
	if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
		return vb_rdmacm_fail(EINVAL);
	if (rs->type == SOCK_DGRAM)
		return shutdown(rs->fd, how);
	pthread_mutex_lock(&rs->lock);
	if (vb_rsocket_is_connected(rs))
		shut_down(rs, how);
	else if (rs->state < VB_RSOCKET_CONNECTED)
		error = ENOTCONN;
	pthread_cond_broadcast(&rs->progressed);
	pthread_mutex_unlock(&rs->lock);
	return error != 0 ? vb_rdmacm_fail(error) : 0;
}

VB_EXPORT int rclose(int socket)
{
	struct vb_rsocket *rs = vb_rsocket_find(socket);

	if (rs == NULL)
		return vb_rdmacm_fail(EBADF);
	if (rs->type == SOCK_STREAM) {
		pthread_mutex_lock(&rs->lock);
		if (vb_rsocket_is_connected(rs))
			shut_down(rs, SHUT_RDWR);
		pthread_mutex_unlock(&rs->lock);
	}
	vb_rsocket_free(rs);
	return 0;
}

VB_EXPORT int rgetpeername(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	struct vb_rsocket *rs = vb_rsocket_find(socket);

	if (rs == NULL)
		return vb_rdmacm_fail(EBADF);
	if (rs->type == SOCK_DGRAM)
		return getpeername(rs->fd, addr, addrlen);
	if (rs->state < VB_RSOCKET_CONNECTING)
		return vb_rdmacm_fail(ENOTCONN);
	copy_address(rdma_get_peer_addr(rs->id), addr, addrlen);
	return 0;
}

VB_EXPORT int rgetsockname(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	struct vb_rsocket *rs = vb_rsocket_find(socket);
	struct sockaddr_storage any = {.ss_family = AF_INET};

	if (rs == NULL)
		return vb_rdmacm_fail(EBADF);
	if (rs->type == SOCK_DGRAM)
		return getsockname(rs->fd, addr, addrlen);
	any.ss_family = (sa_family_t)rs->domain;
	copy_address(rs->state == VB_RSOCKET_FRESH ? (struct sockaddr *)&any : rdma_get_local_addr(rs->id), addr, addrlen);
	return 0;
}
