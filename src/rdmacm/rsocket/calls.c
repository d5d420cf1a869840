/* SPDX-License-Identifier: MIT
 *
 * The exported names of rdma/rsocket.h: find the rsocket, ask it, and turn -errno into -1 with errno.
 */
#include <errno.h>
#include <netinet/in.h>
#include <rdma/rsocket.h>
#include <stdarg.h>
#include <string.h>

#include "io/cancellation.h"
#include "rdmacm/export.h"
#include "rdmacm/rsocket/datagram.h"
#include "rdmacm/rsocket/iov.h"
#include "rdmacm/rsocket/options.h"
#include "rdmacm/rsocket/poll.h"
#include "rdmacm/rsocket/rsocket.h"
#include "rdmacm/rsocket/stream.h"
#include "rdmacm/rsocket/wait.h"

static ssize_t result_of(ssize_t result)
{
	if (result >= 0)
		return result;
	errno = (int)-result;
	return -1;
}

/* The end of a call that began with vb_rsocket_enter. */
static ssize_t leave_with(struct vb_rsocket *rs, ssize_t result)
{
	vb_rsocket_may_end(NULL);
	vb_rsocket_leave(rs);
	return result_of(result);
}

VB_EXPORT int rsocket(int domain, int type, int protocol)
{
	VB_UNCANCELLED;
	int flags = type & (SOCK_CLOEXEC | SOCK_NONBLOCK);

	type &= ~(SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (domain != AF_INET && domain != AF_INET6 && domain != AF_IB)
		return (int)result_of(-ENOTSUP);
	if (type == SOCK_STREAM && (protocol == 0 || protocol == IPPROTO_TCP))
		return (int)result_of(vb_rstream_open(domain, flags));
	if (type == SOCK_DGRAM && (protocol == 0 || protocol == IPPROTO_UDP))
		return (int)result_of(vb_rdatagram_open(domain, flags));
	return (int)result_of(-ENOTSUP);
}

VB_EXPORT int rbind(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
	VB_UNCANCELLED;
	struct vb_rsocket *rs = vb_rsocket_enter(socket);

	if (rs == NULL)
		return (int)result_of(-EBADF);
	return (int)leave_with(rs, rs->stream != NULL ? vb_rstream_bind(rs, addr, addrlen) :
							vb_rdatagram_bind(rs, addr, addrlen));
}

VB_EXPORT int rlisten(int socket, int backlog)
{
	VB_UNCANCELLED;
	struct vb_rsocket *rs = vb_rsocket_enter(socket);

	if (rs == NULL)
		return (int)result_of(-EBADF);
	return (int)leave_with(rs, rs->stream != NULL ? vb_rstream_listen(rs, backlog) : -EOPNOTSUPP);
}

VB_EXPORT int rconnect(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
	VB_UNCANCELLED;
	struct vb_rsocket *rs = vb_rsocket_enter(socket);

	if (rs == NULL)
		return (int)result_of(-EBADF);
	vb_rsocket_may_end(rs);
	return (int)leave_with(rs, rs->stream != NULL ? vb_rstream_connect(rs, addr, addrlen) :
							vb_rdatagram_connect(rs, addr, addrlen));
}

/* An IPv6 rsocket has IPv6 addresses, also when its connection is IPv4 (ipv6(7)). */
static void give_address(const struct vb_rsocket *rs, const struct sockaddr *address, struct sockaddr *to,
			 socklen_t *length)
{
	struct sockaddr_in6 mapped = {.sin6_family = AF_INET6};
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)address;

	if (rs->domain == AF_INET6 && address->sa_family == AF_INET) {
		mapped.sin6_port = v4->sin_port;
		mapped.sin6_addr.s6_addr[10] = mapped.sin6_addr.s6_addr[11] = 0xff;
		memcpy(&mapped.sin6_addr.s6_addr[12], &v4->sin_addr, sizeof(v4->sin_addr));
		address = (const struct sockaddr *)(const void *)&mapped;
	}
	vb_rsocket_address_give(address, to, length);
}

VB_EXPORT int raccept(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	VB_UNCANCELLED;
	struct vb_rsocket *rs = vb_rsocket_enter(socket), *child;
	int fd, error;

	if (rs == NULL)
		return (int)result_of(-EBADF);
	if (rs->stream == NULL)
		return (int)leave_with(rs, -EOPNOTSUPP);
	vb_rsocket_may_end(rs);
	child = vb_rstream_accept(rs, &fd);
	vb_rsocket_may_end(NULL);
	vb_rsocket_leave(rs);
	if (child == NULL)
		return (int)result_of(fd);
	vb_mutex_lock(&child->lock);
	error = vb_rstream_rename(child, fd);
	if (error == 0 && addr != NULL)
		give_address(child, rdma_get_peer_addr(child->stream->id), addr, addrlen);
	vb_mutex_unlock(&child->lock);
	if (error == 0)
		vb_rsocket_put(child);
	else
		vb_rstream_close(child);
	return error == 0 ? fd : (int)result_of(error);
}

VB_EXPORT int rshutdown(int socket, int how)
{
	VB_UNCANCELLED;
	struct vb_rsocket *rs = vb_rsocket_enter(socket);

	if (rs == NULL)
		return (int)result_of(-EBADF);
	return (int)leave_with(rs, rs->stream != NULL ? vb_rstream_shutdown(rs, how) : vb_rdatagram_shutdown(rs, how));
}

VB_EXPORT int rclose(int socket)
{
	VB_UNCANCELLED;
	struct vb_rsocket *rs = vb_rsocket_get(socket);

	if (rs != NULL && rs->stream != NULL)
		vb_rstream_disconnect(rs);
	if (rs != NULL)
		vb_rsocket_put(rs);
	rs = vb_rsocket_withdraw(socket);
	if (rs == NULL)
		return (int)result_of(-EBADF);
	rs->kind->close(rs);
	return 0;
}

static ssize_t send_buffers(int socket, const struct iovec *iov, size_t count, int flags, const struct sockaddr *to,
			    socklen_t length)
{
	struct vb_rsocket *rs = vb_rsocket_enter(socket);
	struct vb_iov_cursor from;
	int error;

	if (rs == NULL)
		return result_of(-EBADF);
	vb_rsocket_may_end(rs);
	error = vb_iov_cursor_init(&from, iov, count);
	if (error != 0)
		return leave_with(rs, error);
	if (rs->stream == NULL) {
		VB_UNCANCELLED;

		return leave_with(rs, vb_rdatagram_send(rs, &from, flags, to, length));
	}
	return leave_with(rs, to != NULL ? -EISCONN : vb_rstream_send(rs, &from, flags));
}

static ssize_t receive_buffers(int socket, const struct iovec *iov, size_t count, int flags, struct sockaddr *source,
			       socklen_t *source_length, int *message_flags)
{
	struct vb_rsocket *rs = vb_rsocket_enter(socket);
	union vb_rsocket_address from;
	struct vb_iov_cursor to;
	ssize_t result;
	size_t full;

	if (rs == NULL)
		return result_of(-EBADF);
	vb_rsocket_may_end(rs);
	result = vb_iov_cursor_init(&to, iov, count);
	if (result != 0)
		return leave_with(rs, result);
	if (rs->stream != NULL) {
		result = vb_rstream_receive(rs, &to, flags);
		if (source_length != NULL)
			*source_length = 0;      /* recvfrom(2) on a connected stream names no sender */
		return leave_with(rs, result);
	}

	VB_UNCANCELLED;

	from.any.sa_family = AF_UNSPEC;
	full = 0;
	result = vb_rdatagram_receive(rs, &to, flags, &from, &full);
	if (result >= 0 && source != NULL && from.any.sa_family != AF_UNSPEC)
		give_address(rs, &from.any, source, source_length);
	if (result >= 0 && (size_t)result < full) {
		if (message_flags != NULL)
			*message_flags |= MSG_TRUNC;
		if (flags & MSG_TRUNC)
			result = (ssize_t)full;
	}
	return leave_with(rs, result);
}

VB_EXPORT ssize_t rsend(int socket, const void *buf, size_t len, int flags)
{
	struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};

	return send_buffers(socket, &iov, 1, flags, NULL, 0);
}

VB_EXPORT ssize_t rsendto(int socket, const void *buf, size_t len, int flags, const struct sockaddr *dest_addr,
			  socklen_t addrlen)
{
	struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};

	return send_buffers(socket, &iov, 1, flags, dest_addr, addrlen);
}

VB_EXPORT ssize_t rsendmsg(int socket, const struct msghdr *msg, int flags)
{
	if (msg->msg_control != NULL && msg->msg_controllen != 0)
		return result_of(-ENOTSUP);
	return send_buffers(socket, msg->msg_iov, msg->msg_iovlen, flags, msg->msg_name, msg->msg_namelen);
}

VB_EXPORT ssize_t rwrite(int socket, const void *buf, size_t count)
{
	return rsend(socket, buf, count, 0);
}

VB_EXPORT ssize_t rwritev(int socket, const struct iovec *iov, int iovcnt)
{
	return iovcnt < 0 ? result_of(-EINVAL) : send_buffers(socket, iov, (size_t)iovcnt, 0, NULL, 0);
}

VB_EXPORT ssize_t rrecv(int socket, void *buf, size_t len, int flags)
{
	struct iovec iov = {.iov_base = buf, .iov_len = len};

	return receive_buffers(socket, &iov, 1, flags, NULL, NULL, NULL);
}

VB_EXPORT ssize_t rrecvfrom(int socket, void *buf, size_t len, int flags, struct sockaddr *src_addr, socklen_t *addrlen)
{
	struct iovec iov = {.iov_base = buf, .iov_len = len};

	return receive_buffers(socket, &iov, 1, flags, src_addr, src_addr != NULL ? addrlen : NULL, NULL);
}

VB_EXPORT ssize_t rrecvmsg(int socket, struct msghdr *msg, int flags)
{
	if (msg->msg_control != NULL && msg->msg_controllen != 0)
		return result_of(-ENOTSUP);
	msg->msg_flags = 0;
	return receive_buffers(socket, msg->msg_iov, msg->msg_iovlen, flags, msg->msg_name,
			       msg->msg_name != NULL ? &msg->msg_namelen : NULL, &msg->msg_flags);
}

VB_EXPORT ssize_t rread(int socket, void *buf, size_t count)
{
	return rrecv(socket, buf, count, 0);
}

VB_EXPORT ssize_t rreadv(int socket, const struct iovec *iov, int iovcnt)
{
	return iovcnt < 0 ? result_of(-EINVAL) : receive_buffers(socket, iov, (size_t)iovcnt, 0, NULL, NULL, NULL);
}

VB_EXPORT int rpoll(struct pollfd *fds, nfds_t nfds, int timeout)
{
	return (int)result_of(vb_rsocket_poll(fds, nfds, timeout));
}

VB_EXPORT int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds, struct timeval *timeout)
{
	return (int)result_of(vb_rsocket_select(nfds, readfds, writefds, exceptfds, timeout));
}

VB_EXPORT int rgetpeername(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	VB_UNCANCELLED;
	struct vb_rsocket *rs = vb_rsocket_enter(socket);
	int result = 0;

	if (rs == NULL)
		return (int)result_of(-EBADF);
	if (rs->stream == NULL)
		result = getpeername(rs->fd, addr, addrlen) == 0 ? 0 : -errno;
	else if (rs->stream->state < VB_RSTREAM_CONNECTED || rs->stream->state == VB_RSTREAM_REFUSED)
		result = -ENOTCONN;
	else
		give_address(rs, rdma_get_peer_addr(rs->stream->id), addr, addrlen);
	return (int)leave_with(rs, result);
}

VB_EXPORT int rgetsockname(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	VB_UNCANCELLED;
	struct vb_rsocket *rs = vb_rsocket_enter(socket);
	union vb_rsocket_address unbound;
	const struct sockaddr *local;
	int result = 0;

	if (rs == NULL)
		return (int)result_of(-EBADF);
	if (rs->stream == NULL) {
		result = getsockname(rs->fd, addr, addrlen) == 0 ? 0 : -errno;
		return (int)leave_with(rs, result);
	}
	local = rdma_get_local_addr(rs->stream->id);
	if (vb_rsocket_address_length(local->sa_family) == 0) {
		memset(&unbound, 0, sizeof(unbound));
		unbound.any.sa_family = (sa_family_t)rs->domain;
		local = &unbound.any;
	}
	give_address(rs, local, addr, addrlen);
	return (int)leave_with(rs, result);
}

VB_EXPORT int rsetsockopt(int socket, int level, int optname, const void *optval, socklen_t optlen)
{
	VB_UNCANCELLED;
	struct vb_rsocket *rs = vb_rsocket_enter(socket);

	if (rs == NULL)
		return (int)result_of(-EBADF);
	return (int)leave_with(rs, vb_rsocket_option_set(rs, level, optname, optval, optlen));
}

VB_EXPORT int rgetsockopt(int socket, int level, int optname, void *optval, socklen_t *optlen)
{
	VB_UNCANCELLED;
	struct vb_rsocket *rs = vb_rsocket_enter(socket);

	if (rs == NULL)
		return (int)result_of(-EBADF);
	return (int)leave_with(rs, vb_rsocket_option_get(rs, level, optname, optval, optlen));
}

VB_EXPORT int rfcntl(int socket, int cmd, ...)
{
	VB_UNCANCELLED;
	struct vb_rsocket *rs = vb_rsocket_enter(socket);
	int argument = 0;
	va_list arguments;

	if (rs == NULL)
		return (int)result_of(-EBADF);
	if (cmd == F_SETFL || cmd == F_SETFD) {
		va_start(arguments, cmd);
		argument = va_arg(arguments, int);
		va_end(arguments);
	}
	return (int)leave_with(rs, vb_rsocket_control(rs, cmd, argument));
}

VB_EXPORT off_t riomap(int socket, void *buf, size_t len, int prot, int flags, off_t offset)
{
	VB_UNCANCELLED;
	struct vb_rsocket *rs = vb_rsocket_enter(socket);

	if (rs == NULL)
		return (off_t)result_of(-EBADF);
	if (rs->stream == NULL)
		return (off_t)leave_with(rs, -EOPNOTSUPP);
	return (off_t)leave_with(rs, vb_rstream_iomap(rs, buf, len, prot, flags, offset));
}

VB_EXPORT int riounmap(int socket, void *buf, size_t len)
{
	VB_UNCANCELLED;
	struct vb_rsocket *rs = vb_rsocket_enter(socket);

	if (rs == NULL)
		return (int)result_of(-EBADF);
	return (int)leave_with(rs, rs->stream != NULL ? vb_rstream_iounmap(rs, buf, len) : -EINVAL);
}

VB_EXPORT size_t riowrite(int socket, const void *buf, size_t count, off_t offset, int flags)
{
	VB_UNCANCELLED;
	struct vb_rsocket *rs = vb_rsocket_enter(socket);

	if (rs == NULL)
		return (size_t)result_of(-EBADF);
	if (rs->stream == NULL)
		return (size_t)leave_with(rs, -EOPNOTSUPP);
	return (size_t)leave_with(rs, vb_rstream_iowrite(rs, buf, count, offset, flags));
}
