/* SPDX-License-Identifier: MIT
 *
 * Datagram rsockets: a UDP socket, whose descriptor is the program's, and UD queue pairs behind it.
 */
#include "rdmacm/rsocket/datagram.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "rdmacm/address.h"
#include "rdmacm/rsocket/limits.h"

socklen_t vb_datagram_address_length(const union vb_datagram_address *address)
{
	return vb_rdmacm_address_length(&address->any);
}

bool vb_datagram_address_equals(const union vb_datagram_address *a, const union vb_datagram_address *b)
{
	if (a->any.sa_family != b->any.sa_family || a->in.sin_port != b->in.sin_port)
		return false;
	return a->any.sa_family == AF_INET ? a->in.sin_addr.s_addr == b->in.sin_addr.s_addr :
					     memcmp(&a->in6.sin6_addr, &b->in6.sin6_addr, 16) == 0;
}

int vb_rsocket_datagram_create(struct vb_rsocket *rs)
{
	rs->datagram = calloc(1, sizeof(*rs->datagram));
	if (rs->datagram == NULL)
		return -ENOMEM;
	vb_list_init(&rs->datagram->qps);
	vb_list_init(&rs->datagram->peers);
	vb_list_init(&rs->datagram->unread);
	rs->fd = socket(rs->domain, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (rs->fd < 0)
		return -errno;
	rs->readable = rs->writable = true;
	return vb_rsocket_insert(rs);
}

void vb_rsocket_datagram_destroy(struct vb_rsocket *rs)
{
	struct vb_rsocket_datagram *datagram = rs->datagram;

	VB_LIST_FOR_EACH(node, &datagram->unread)
		free(vb_container_of(node, struct vb_datagram_message, node));
	VB_LIST_FOR_EACH(node, &datagram->peers)
		vb_datagram_peer_destroy(vb_container_of(node, struct vb_datagram_peer, node));
	VB_LIST_FOR_EACH(node, &datagram->qps)
		vb_datagram_qp_destroy(vb_container_of(node, struct vb_datagram_qp, node));
	if (rs->fd >= 0)
		close(rs->fd);
	free(datagram);
	rs->datagram = NULL;
}

void vb_datagram_deliver(struct vb_rsocket_datagram *datagram, const union vb_datagram_address *from, const void *data,
			 uint32_t length)
{
	struct vb_datagram_message *message;

	if (datagram->unread_count >= VB_DATAGRAM_MOST_UNREAD)
		return;
	message = malloc(sizeof(*message) + length);
	if (message == NULL)
		return;
	message->from = *from;
	message->length = length;
	memcpy(message->data, data, length);
	vb_list_append(&datagram->unread, &message->node);
	datagram->unread_count++;
}

static void progress(struct vb_rsocket *rs)
{
	VB_LIST_FOR_EACH(node, &rs->datagram->qps)
		vb_datagram_qp_poll(rs->datagram, vb_container_of(node, struct vb_datagram_qp, node));
	vb_datagram_peer_listen(rs);
}

unsigned vb_rsocket_datagram_descriptors(struct vb_rsocket *rs, int *fds, unsigned room)
{
	unsigned count = 0;

	fds[count++] = rs->fd;
	VB_LIST_FOR_EACH(node, &rs->datagram->qps) {
		struct vb_datagram_qp *qp = vb_container_of(node, struct vb_datagram_qp, node);

		if (count == room)
			break; /* more local addresses than that: the regular look finds them */
		vb_datagram_qp_arm(qp);
		fds[count++] = qp->id->recv_cq_channel->fd;
	}
	return count;
}

short vb_rsocket_datagram_ready(struct vb_rsocket *rs, short events)
{
	short ready = POLLOUT;

	progress(rs);
	if (rs->datagram->unread_count != 0)
		ready |= POLLIN;
	return ready & events;
}

/* Sleep until a descriptor moves. 0 or -EINTR. */
static int sleep_on(struct vb_rsocket *rs)
{
	struct pollfd polled[8];
	int fds[8], result;
	unsigned count = vb_rsocket_datagram_descriptors(rs, fds, 8);

	for (unsigned i = 0; i < count; i++)
		polled[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
	progress(rs); /* what came before arming gives no event */
	if (rs->datagram->unread_count != 0)
		return 0;
	pthread_mutex_unlock(&rs->lock);
	result = poll(polled, count, VB_RSOCKET_WAKE_MILLISECONDS) < 0 ? -errno : 0;
	pthread_mutex_lock(&rs->lock);
	return result;
}

static void scatter(const struct vb_datagram_message *message, const struct iovec *iov, int count, size_t *copied)
{
	*copied = 0;
	for (; count > 0 && *copied < message->length; iov++, count--) {
		size_t part = message->length - *copied < iov->iov_len ? message->length - *copied : iov->iov_len;

		memcpy(iov->iov_base, message->data + *copied, part);
		*copied += part;
	}
}

ssize_t vb_rsocket_datagram_receive(struct vb_rsocket *rs, const struct iovec *iov, int count, int flags, struct sockaddr *from,
				    socklen_t *from_length)
{
	struct vb_rsocket_datagram *datagram = rs->datagram;
	struct vb_datagram_message *message;
	size_t copied;

	progress(rs);
	while (datagram->unread_count == 0) {
		int error;

		if (rs->nonblocking || (flags & MSG_DONTWAIT))
			return -EWOULDBLOCK;
		error = sleep_on(rs);
		if (error != 0)
			return error;
		progress(rs);
	}
	message = vb_container_of(datagram->unread.next, struct vb_datagram_message, node);
	scatter(message, iov, count, &copied);
	if (from != NULL && from_length != NULL) {
		socklen_t length = vb_datagram_address_length(&message->from);

		memcpy(from, &message->from, *from_length < length ? *from_length : length);
		*from_length = length;
	}
	if (!(flags & MSG_PEEK)) {
		vb_list_remove(&message->node);
		datagram->unread_count--;
		free(message);
	}
	return (ssize_t)copied;
}

int vb_rsocket_datagram_connect(struct vb_rsocket *rs, const struct sockaddr *address, socklen_t length)
{
	int error;

	pthread_mutex_lock(&rs->lock);
	error = connect(rs->fd, address, length) != 0 ? -errno : 0;
	if (error == 0)
		error = vb_datagram_peer_get(rs, address, length, &rs->datagram->connected);
	pthread_mutex_unlock(&rs->lock);
	return error;
}

ssize_t vb_rsocket_datagram_send(struct vb_rsocket *rs, const struct iovec *iov, int count, int flags, const struct sockaddr *to,
				 socklen_t to_length)
{
	struct vb_datagram_peer *peer = rs->datagram->connected;
	size_t length = 0;
	int error = 0;

	for (int i = 0; i < count; i++)
		length += iov[i].iov_len;
	progress(rs);
	if (to != NULL && to_length != 0)
		error = vb_datagram_peer_get(rs, to, to_length, &peer);
	if (error != 0)
		return error;
	if (peer == NULL)
		return -EDESTADDRREQ;
	if (length > (size_t)VB_DATAGRAM_SLOT - peer->qp->header.length)
		return -EMSGSIZE;
	/* Unknown yet, or larger than one packet of the path: UDP carries it. */
	if (peer->ah == NULL || length + peer->qp->header.length > peer->qp->mtu)
		return vb_datagram_peer_tell(rs, peer, VB_RSOCKET_DATA, iov, count);
	for (;;) {
		error = vb_datagram_qp_send(peer->qp, peer, iov, count);
		if (error != -EAGAIN)
			return error != 0 ? error : (ssize_t)length;
		if (rs->nonblocking || (flags & MSG_DONTWAIT))
			return -EWOULDBLOCK;
		/* Datagrams complete as soon as they are on the wire. */
		vb_datagram_qp_poll(rs->datagram, peer->qp);
	}
}
