/* SPDX-License-Identifier: MIT
 *
 * Datagram rsockets from open to close. The UDP socket is an ordinary one; its descriptor is what
 * the program holds, and its address is the rsocket's.
 */
#include "rdmacm/rsocket/datagram.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "io/descriptor.h"
#include "rdmacm/rsocket/service.h"
#include "rdmacm/rsocket/wait.h"

bool vb_rdatagram_is_started(const struct vb_rsocket *rs)
{
	return rs->datagram->started;
}

int vb_rdatagram_bind(struct vb_rsocket *rs, const struct sockaddr *address, socklen_t length)
{
	if (bind(rs->fd, address, length) != 0)
		return -errno;
	return vb_rdatagram_start(rs);
}

int vb_rdatagram_connect(struct vb_rsocket *rs, const struct sockaddr *address, socklen_t length)
{
	union vb_rsocket_address to;
	int error;

	if (address != NULL && length >= sizeof(address->sa_family) && address->sa_family == AF_UNSPEC) {
		rs->datagram->connected = NULL;  /* connect(2): dissolves the association */
		return connect(rs->fd, address, length) == 0 ? 0 : -errno;
	}
	error = vb_rsocket_address_take(&to, address, length);
	if (error == 0)
		error = vb_rdatagram_start(rs);
	if (error != 0)
		return error;
	if (connect(rs->fd, &to.any, vb_rsocket_address_length(to.any.sa_family)) != 0)
		return -errno;
	return vb_rdatagram_peer_find(rs, &to, &rs->datagram->connected);
}

int vb_rdatagram_shutdown(struct vb_rsocket *rs, int how)
{
	if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
		return -EINVAL;
	if (how != SHUT_WR)
		rs->datagram->may_read = false;
	if (how != SHUT_RD)
		rs->datagram->may_write = false;
	vb_rsocket_wake(rs);
	return 0;
}

static void destroy_everything(struct vb_rsocket *rs)
{
	struct vb_rdatagram *datagram = rs->datagram;

	VB_LIST_FOR_EACH(node, &datagram->arrived) {
		struct vb_rdatagram_arrival *arrival = vb_container_of(node, struct vb_rdatagram_arrival, node);

		vb_list_remove(node);
		if (arrival->endpoint == NULL)
			free(arrival);
	}
	for (unsigned i = 0; i < VB_RDATAGRAM_BUCKETS; i++) {
		VB_LIST_FOR_EACH(node, &datagram->buckets[i]) {
			struct vb_rdatagram_peer *peer = vb_container_of(node, struct vb_rdatagram_peer, node);

			vb_list_remove(node);
			if (peer->ah != NULL)
				ibv_destroy_ah(peer->ah);
			free(peer);
		}
	}
	VB_LIST_FOR_EACH(node, &datagram->endpoints)
		vb_rdatagram_endpoint_destroy(rs, vb_container_of(node, struct vb_rdatagram_endpoint, node));
	datagram->connected = NULL;
	if (datagram->poller >= 0)
		close(datagram->poller);
	datagram->poller = -1;
	if (rs->fd >= 0)
		close(rs->fd);
	rs->fd = rs->event_fd = -1;
}

static void close_datagram(struct vb_rsocket *rs)
{
	vb_mutex_lock(&rs->lock);
	rs->datagram->may_read = rs->datagram->may_write = false;
	vb_rsocket_wait(rs, VB_TIME_NEVER, vb_rdatagram_all_sent);
	rs->closed = true;
	vb_rsocket_service_remove(rs);
	destroy_everything(rs);
	vb_rsocket_wake(rs);
	vb_mutex_unlock(&rs->lock);
	vb_rsocket_put(rs);
}

static void destroy(struct vb_rsocket *rs)
{
	if (rs->datagram == NULL)
		return;
	destroy_everything(rs);
	free(rs->datagram->send_bytes);
	free(rs->datagram->free_slots);
	free(rs->datagram);
}

static void arm(struct vb_rsocket *rs)
{
	VB_LIST_FOR_EACH(node, &rs->datagram->endpoints) {
		struct vb_rdatagram_endpoint *endpoint = vb_container_of(node, struct vb_rdatagram_endpoint, node);

		if (!endpoint->armed)
			endpoint->armed = ibv_req_notify_cq(endpoint->cq, 0) == 0;
	}
}

static void collect(struct vb_rsocket *rs)
{
	VB_LIST_FOR_EACH(node, &rs->datagram->endpoints) {
		struct vb_rdatagram_endpoint *endpoint = vb_container_of(node, struct vb_rdatagram_endpoint, node);
		struct ibv_cq *cq;
		void *context;

		if (ibv_get_cq_event(endpoint->completions, &cq, &context) != 0)
			continue;
		ibv_ack_cq_events(cq, 1);
		endpoint->armed = false;
	}
}

static int wait_fd(struct vb_rsocket *rs)
{
	return rs->datagram->poller;
}

static short revents(struct vb_rsocket *rs)
{
	const struct vb_rdatagram *datagram = rs->datagram;
	short events = 0;

	if (!vb_list_is_empty(&datagram->arrived) || !datagram->may_read)
		events |= POLLIN | POLLRDNORM;
	if (!datagram->started || datagram->send_free > 0 || !datagram->may_write)
		events |= POLLOUT | POLLWRNORM;
	if (!datagram->may_read && !datagram->may_write)
		events |= POLLHUP;
	return events;
}

static const struct vb_rsocket_kind kind = {
	.progress = vb_rdatagram_progress,
	.arm = arm,
	.collect = collect,
	.wait_fd = wait_fd,
	.revents = revents,
	.attend = vb_rdatagram_attend,
	.close = close_datagram,
	.destroy = destroy,
};

int vb_rdatagram_open(int domain, int type_flags)
{
	struct vb_rsocket *rs = vb_rsocket_create(&kind, domain, SOCK_DGRAM);
	struct vb_rdatagram *datagram;
	int result = 0;

	if (rs == NULL)
		return -ENOMEM;
	rs->datagram = datagram = calloc(1, sizeof(*datagram));
	if (datagram == NULL) {
		vb_rsocket_put(rs);
		return -ENOMEM;
	}
	if (type_flags & SOCK_NONBLOCK)
		rs->status_flags = O_NONBLOCK;
	if (type_flags & SOCK_CLOEXEC)
		rs->descriptor_flags = FD_CLOEXEC;
	vb_list_init(&datagram->endpoints);
	vb_list_init(&datagram->arrived);
	for (unsigned i = 0; i < VB_RDATAGRAM_BUCKETS; i++)
		vb_list_init(&datagram->buckets[i]);
	datagram->may_read = datagram->may_write = true;
	datagram->poller = epoll_create1(EPOLL_CLOEXEC);
	if (datagram->poller < 0)
		result = -errno;
	else
		datagram->poller = vb_descriptor_lift(datagram->poller);
	if (result == 0) {
		rs->fd = rs->event_fd = vb_descriptor_raise(vb_rdatagram_open_udp(domain));
		result = rs->fd < 0 ? -errno : vb_rsocket_publish(rs);
	}
	if (result == 0)
		result = rs->fd;
	vb_rsocket_put(rs);
	return result;
}
