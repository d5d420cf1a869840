/* SPDX-License-Identifier: MIT
 *
 * The many names of reading and writing, all of which end in the four functions of send.c, receive.c and datagram.c.
 */
#include <errno.h>
#include <rdma/rsocket.h>
#include <sys/uio.h>

#include "rdmacm/export.h"
#include "rdmacm/id.h"
#include "rdmacm/rsocket/rsocket.h"

static ssize_t finish(ssize_t result)
{
	return result >= 0 ? result : vb_rdmacm_fail((int)-result);
}

static ssize_t receive(int socket, const struct iovec *iov, int count, int flags, struct sockaddr *from, socklen_t *length)
{
	struct vb_rsocket *rs = vb_rsocket_find(socket);
	ssize_t result;

	if (rs == NULL)
		return vb_rdmacm_fail(EBADF);
	if (count < 0 || (count != 0 && iov == NULL))
		return vb_rdmacm_fail(EINVAL);
	pthread_mutex_lock(&rs->lock);
	if (rs->type == SOCK_DGRAM) {
		result = vb_rsocket_datagram_receive(rs, iov, count, flags, from, length);
	} else {
		result = vb_rsocket_receive(rs, iov, count, flags);
		if (length != NULL)
			*length = 0; /* a connected socket reports no source */
	}
	pthread_mutex_unlock(&rs->lock);
	return finish(result);
}

static ssize_t transmit(int socket, const struct iovec *iov, int count, int flags, const struct sockaddr *to, socklen_t length)
{
	struct vb_rsocket *rs = vb_rsocket_find(socket);
	ssize_t result;

	if (rs == NULL)
		return vb_rdmacm_fail(EBADF);
	if (count < 0 || (count != 0 && iov == NULL))
		return vb_rdmacm_fail(EINVAL);
	pthread_mutex_lock(&rs->lock);
	result = rs->type == SOCK_DGRAM ? vb_rsocket_datagram_send(rs, iov, count, flags, to, length) :
					  vb_rsocket_send(rs, iov, count, flags);
	pthread_mutex_unlock(&rs->lock);
	return finish(result);
}

VB_EXPORT ssize_t rrecv(int socket, void *buf, size_t len, int flags)
{
	struct iovec iov = {.iov_base = buf, .iov_len = len};

	return receive(socket, &iov, 1, flags, NULL, NULL);
}

VB_EXPORT ssize_t rrecvfrom(int socket, void *buf, size_t len, int flags, struct sockaddr *src_addr, socklen_t *addrlen)
{
	struct iovec iov = {.iov_base = buf, .iov_len = len};

	return receive(socket, &iov, 1, flags, src_addr, src_addr != NULL ? addrlen : NULL);
}

VB_EXPORT ssize_t rrecvmsg(int socket, struct msghdr *msg, int flags)
{
	if (msg == NULL)
		return vb_rdmacm_fail(EINVAL);
	if (msg->msg_control != NULL && msg->msg_controllen != 0)
		return vb_rdmacm_fail(ENOTSUP);
	msg->msg_flags = 0;
	return receive(socket, msg->msg_iov, (int)msg->msg_iovlen, flags, msg->msg_name,
		       msg->msg_name != NULL ? &msg->msg_namelen : NULL);
}

VB_EXPORT ssize_t rread(int socket, void *buf, size_t count)
{
	return rrecv(socket, buf, count, 0);
}

VB_EXPORT ssize_t rreadv(int socket, const struct iovec *iov, int iovcnt)
{
	return receive(socket, iov, iovcnt, 0, NULL, NULL);
}

VB_EXPORT ssize_t rsend(int socket, const void *buf, size_t len, int flags)
{
	return rsendto(socket, buf, len, flags, NULL, 0);
}

VB_EXPORT ssize_t rsendto(int socket, const void *buf, size_t len, int flags, const struct sockaddr *dest_addr, socklen_t addrlen)
{
	struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};

	return transmit(socket, &iov, 1, flags, dest_addr, addrlen);
}

VB_EXPORT ssize_t rsendmsg(int socket, const struct msghdr *msg, int flags)
{
	if (msg == NULL)
		return vb_rdmacm_fail(EINVAL);
	if (msg->msg_control != NULL && msg->msg_controllen != 0)
		return vb_rdmacm_fail(ENOTSUP);
	return transmit(socket, msg->msg_iov, (int)msg->msg_iovlen, flags, msg->msg_name, msg->msg_namelen);
}

VB_EXPORT ssize_t rwrite(int socket, const void *buf, size_t count)
{
	return rsend(socket, buf, count, 0);
}

VB_EXPORT ssize_t rwritev(int socket, const struct iovec *iov, int iovcnt)
{
	return transmit(socket, iov, iovcnt, 0, NULL, 0);
}
