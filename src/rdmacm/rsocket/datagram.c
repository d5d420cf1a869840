/* SPDX-License-Identifier: MIT
 *
 * Datagram rsockets from open to close, and whom they know. The UDP socket is an ordinary one; its descriptor is what
 * the program holds, and its address is the rsocket's.
 */
#include "rdmacm/rsocket/datagram.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "io/descriptor.h"
#include "rdmacm/rsocket/service.h"
#include "rdmacm/rsocket/wait.h"

/* Not socket(3): under librspreload that name makes rsockets. Nor lifted: it is a number for the program. */
static int open_udp_socket(int domain)
{
	return (int)syscall(SYS_socket, domain, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP);
}

int vb_rdatagram_open(int domain, int type_flags)
{
	struct vb_rsocket *rs = vb_rsocket_create(&vb_rdatagram_kind, domain, SOCK_DGRAM);
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
		rs->fd = rs->event_fd = open_udp_socket(domain);
		result = rs->fd < 0 ? -errno : vb_rsocket_publish(rs);
	}
	if (result == 0)
		result = rs->fd;
	vb_rsocket_put(rs);
	return result;
}

bool vb_rdatagram_is_started(const struct vb_rsocket *rs)
{
	return rs->datagram->started;
}

static int allocate_send_slots(struct vb_rsocket *rs)
{
	struct vb_rdatagram *datagram = rs->datagram;

	datagram->receive_slots = rs->sizes.receive_buffer / VB_RDATAGRAM_SLOT;
	if (datagram->receive_slots > rs->sizes.receive_queue)
		datagram->receive_slots = rs->sizes.receive_queue;
	datagram->send_slots = rs->sizes.send_buffer / VB_RDATAGRAM_SLOT;
	if (datagram->send_slots > rs->sizes.send_queue)
		datagram->send_slots = rs->sizes.send_queue;
	if (posix_memalign((void **)&datagram->send_bytes, 4096,
			   (size_t)datagram->send_slots * VB_RDATAGRAM_SLOT) != 0) {
		datagram->send_bytes = NULL;
		return -ENOMEM;
	}
	datagram->free_slots = calloc(datagram->send_slots, sizeof(*datagram->free_slots));
	if (datagram->free_slots == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < datagram->send_slots; i++)
		datagram->free_slots[datagram->send_free++] = i;
	return 0;
}

/* The port in our headers is the UDP socket's, so it must have one. */
static int bind_udp_socket(struct vb_rsocket *rs)
{
	union vb_rsocket_address local;
	socklen_t length = sizeof(local);

	if (getsockname(rs->fd, &local.any, &length) != 0)
		return -errno;
	if ((local.any.sa_family == AF_INET ? local.v4.sin_port : local.v6.sin6_port) != 0)
		return 0;
	memset(&local, 0, sizeof(local));
	local.any.sa_family = (sa_family_t)rs->domain;
	return bind(rs->fd, &local.any, vb_rsocket_address_length(rs->domain)) == 0 ? 0 : -errno;
}

int vb_rdatagram_start(struct vb_rsocket *rs)
{
	int error = 0;

	if (rs->datagram->started)
		return 0;
	if (rs->datagram->send_bytes == NULL)
		error = allocate_send_slots(rs);
	if (error == 0)
		error = bind_udp_socket(rs);
	if (error == 0)
		error = vb_rsocket_service_add(rs);
	rs->datagram->started = error == 0;
	return error;
}

int vb_rdatagram_bind(struct vb_rsocket *rs, const struct sockaddr *address, socklen_t length)
{
	if (bind(rs->fd, address, length) != 0)
		return -errno;
	return vb_rdatagram_start(rs);
}

/* The address we reach `to` from: the UDP socket's, or if that is any, the one routing chooses. */
static int choose_source(struct vb_rsocket *rs, const union vb_rsocket_address *to, union vb_rsocket_address *source)
{
	socklen_t length = sizeof(*source);
	union vb_rsocket_address bound;
	int fd, error = 0;

	memset(source, 0, sizeof(*source));
	memset(&bound, 0, sizeof(bound));
	if (getsockname(rs->fd, &bound.any, &length) != 0)
		return -errno;
	*source = bound;
	if (bound.any.sa_family == AF_INET ? bound.v4.sin_addr.s_addr != htonl(INADDR_ANY) :
					     !IN6_IS_ADDR_UNSPECIFIED(&bound.v6.sin6_addr))
		return 0;
	fd = open_udp_socket(to->any.sa_family);
	if (fd < 0)
		return -errno;
	length = sizeof(*source);
	if (connect(fd, &to->any, vb_rsocket_address_length(to->any.sa_family)) != 0 ||
	    getsockname(fd, &source->any, &length) != 0)
		error = -errno;
	close(fd);
	/* sin_port and sin6_port lie at the same place. */
	source->v4.sin_port = bound.v4.sin_port;
	return error;
}

static struct vb_list *bucket_of(struct vb_rdatagram *datagram, const union vb_rsocket_address *address)
{
	const uint8_t *bytes = address->any.sa_family == AF_INET ? (const uint8_t *)&address->v4.sin_addr :
				address->v6.sin6_addr.s6_addr;
	size_t length = address->any.sa_family == AF_INET ? 4 : 16;
	unsigned hash = address->v4.sin_port;

	for (size_t i = 0; i < length; i++)
		hash = hash * 31 + bytes[i];
	return &datagram->buckets[(hash ^ hash >> 8) % VB_RDATAGRAM_BUCKETS];
}

static bool addresses_are_equal(const union vb_rsocket_address *a, const union vb_rsocket_address *b)
{
	if (a->any.sa_family != b->any.sa_family)
		return false;
	if (a->any.sa_family == AF_INET)
		return a->v4.sin_port == b->v4.sin_port && a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
	return a->v6.sin6_port == b->v6.sin6_port && IN6_ARE_ADDR_EQUAL(&a->v6.sin6_addr, &b->v6.sin6_addr);
}

static int create_peer(struct vb_rsocket *rs, const union vb_rsocket_address *address, struct vb_rdatagram_peer **peer)
{
	struct vb_rdatagram_endpoint *endpoint;
	union vb_rsocket_address source;
	int error;

	if (rs->datagram->peers >= VB_RDATAGRAM_PEERS_MOST)
		return -ENOBUFS;
	error = choose_source(rs, address, &source);
	if (error == 0)
		error = vb_rdatagram_endpoint_find(rs, &source, &endpoint);
	if (error != 0)
		return error;
	*peer = calloc(1, sizeof(**peer));
	if (*peer == NULL)
		return -ENOMEM;
	(*peer)->address = *address;
	(*peer)->endpoint = endpoint;
	vb_list_append(bucket_of(rs->datagram, address), &(*peer)->node);
	rs->datagram->peers++;
	return 0;
}

int vb_rdatagram_peer_find(struct vb_rsocket *rs, const union vb_rsocket_address *address,
			   struct vb_rdatagram_peer **peer)
{
	VB_LIST_FOR_EACH(node, bucket_of(rs->datagram, address)) {
		*peer = vb_container_of(node, struct vb_rdatagram_peer, node);
		if (addresses_are_equal(&(*peer)->address, address))
			return 0;
	}
	return create_peer(rs, address, peer);
}

void vb_rdatagram_peer_learn(struct vb_rdatagram_peer *peer, uint32_t queue_pair)
{
	peer->queue_pair = queue_pair;
	if (peer->ah == NULL)
		peer->ah = vb_rdatagram_endpoint_reach(peer->endpoint, &peer->address);
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

const struct vb_rsocket_kind vb_rdatagram_kind = {
	.progress = vb_rdatagram_progress,
	.arm = arm,
	.collect = collect,
	.wait_fd = wait_fd,
	.revents = revents,
	.attend = vb_rdatagram_attend,
	.close = close_datagram,
	.destroy = destroy,
};
