/* SPDX-License-Identifier: MIT
 *
 * rsetsockopt, rgetsockopt, rfcntl. Options that make no difference on a reliable connection are accepted and remembered (man
 * rsocket), so that programs written for TCP go on; what is not known is refused with ENOTSUP.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <rdma/rsocket.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/export.h"
#include "rdmacm/id.h"
#include "rdmacm/rsocket/limits.h"
#include "rdmacm/rsocket/rsocket.h"

enum { KEEPALIVE_SECONDS = 7200 };

static void remember(uint32_t *options, int name, bool on)
{
	if (on)
		*options |= 1u << name;
	else
		*options &= ~(1u << name);
}

static uint32_t at_least(uint64_t value, uint32_t least)
{
	return value < least ? least : value > 1u << 30 ? 1u << 30 : (uint32_t)value;
}

/* Half of what the kernel would double: the peer is offered one half at a time. */
static int set_buffer(struct vb_rsocket *rs, uint32_t *size, int value)
{
	if (value < 0)
		return -EINVAL;
	if (rs->send_mr == NULL)
		*size = at_least((uint64_t)value * 2, 2 * VB_RSOCKET_LOW_WATER);
	return 0;
}

static int set_id_flag(struct vb_rsocket *rs, int option, int value)
{
	if (rs->type != SOCK_STREAM || rdma_set_option(rs->id, RDMA_OPTION_ID, option, &value, sizeof(value)) == 0)
		return 0;
	/* After binding it changes nothing any more; TCP does not complain either. */
	return rs->state == VB_RSOCKET_FRESH ? -errno : 0;
}

static int set_socket_option(struct vb_rsocket *rs, int name, const void *value, int number)
{
	int error = 0;

	switch (name) {
	case SO_REUSEADDR:
		error = set_id_flag(rs, RDMA_OPTION_ID_REUSEADDR, number);
		break;
	case SO_RCVBUF:
		return set_buffer(rs, &rs->receive_size, number);
	case SO_SNDBUF:
		return set_buffer(rs, &rs->send_size, number);
	case SO_LINGER:
		number = ((const struct linger *)value)->l_onoff == 0; /* lingering is the default */
		break;
	case SO_KEEPALIVE:
	case SO_OOBINLINE:
		break;
	default:
		return -ENOTSUP;
	}
	if (error == 0)
		remember(&rs->socket_options, name, number != 0);
	return error;
}

static int set_tcp_option(struct vb_rsocket *rs, int name, int number)
{
	switch (name) {
	case TCP_KEEPIDLE:
		if (number <= 0)
			return -EINVAL;
		rs->keepalive_seconds = number;
		return 0;
	case TCP_NODELAY:
		remember(&rs->tcp_options, name, number != 0);
		return 0;
	case TCP_KEEPCNT:
	case TCP_KEEPINTVL:
	case TCP_MAXSEG:
	case TCP_CONGESTION:
		return 0;
	default:
		return -ENOTSUP;
	}
}

static int set_rdma_option(struct vb_rsocket *rs, int name, const void *value, socklen_t length, int number)
{
	uint32_t bounded = number < 0 ? 0 : number > VB_RSOCKET_LARGEST_QUEUE ? VB_RSOCKET_LARGEST_QUEUE : (uint32_t)number;

	if (rs->state >= VB_RSOCKET_CONNECTING)
		return -EINVAL;
	switch (name) {
	case RDMA_SQSIZE:
		rs->send_queue = bounded;
		return 0;
	case RDMA_RQSIZE:
		rs->receive_queue = bounded;
		return 0;
	case RDMA_INLINE:
		rs->inline_size = bounded;
		return 0;
	case RDMA_IOMAPSIZE:
		rs->iomap_size = vb_rsocket_unscale(vb_rsocket_scale(bounded));
		return 0;
	case RDMA_ROUTE:
		free(rs->route);
		rs->route = malloc(length);
		if (rs->route == NULL)
			return -ENOMEM;
		memcpy(rs->route, value, length);
		rs->route_length = length;
		return 0;
	default:
		return -ENOTSUP;
	}
}

static int set_type_of_service(struct vb_rsocket *rs, int number)
{
	uint8_t tos = (uint8_t)number;

	rs->type_of_service = number;
	if (rs->type != SOCK_STREAM)
		return 0;
	return rdma_set_option(rs->id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof(tos)) != 0 ? -errno : 0;
}

static int set_option(struct vb_rsocket *rs, int level, int name, const void *value, socklen_t length)
{
	int number = 0, error;

	if (value == NULL)
		return -EFAULT;
	if (length >= sizeof(number))
		memcpy(&number, value, sizeof(number));
	else if (!(level == IPPROTO_TCP && name == TCP_CONGESTION))
		return -EINVAL;
	switch (level) {
	case SOL_SOCKET:
		if (name == SO_LINGER && length < sizeof(struct linger))
			return -EINVAL;
		return set_socket_option(rs, name, value, number);
	case IPPROTO_TCP:
		return set_tcp_option(rs, name, number);
	case IPPROTO_IP:
		return name == IP_TOS ? set_type_of_service(rs, number) : -ENOTSUP;
	case IPPROTO_IPV6:
		if (name != IPV6_V6ONLY)
			return -ENOTSUP;
		error = set_id_flag(rs, RDMA_OPTION_ID_AFONLY, number);
		if (error == 0)
			remember(&rs->ipv6_options, name, number != 0);
		return error;
	case SOL_RDMA:
		return set_rdma_option(rs, name, value, length, number);
	default:
		return -ENOTSUP;
	}
}

VB_EXPORT int rsetsockopt(int socket, int level, int optname, const void *optval, socklen_t optlen)
{
	struct vb_rsocket *rs = vb_rsocket_find(socket);
	int error;

	if (rs == NULL)
		return vb_rdmacm_fail(EBADF);
	if (rs->type == SOCK_DGRAM && level != SOL_RDMA && setsockopt(rs->fd, level, optname, optval, optlen) != 0)
		return -1;
	pthread_mutex_lock(&rs->lock);
	error = set_option(rs, level, optname, optval, optlen);
	pthread_mutex_unlock(&rs->lock);
	/* What the UDP socket understands is enough for a datagram socket. */
	return error == -ENOTSUP && rs->type == SOCK_DGRAM && level != SOL_RDMA ? 0 : vb_rdmacm_result(error);
}

static int get_socket_option(struct vb_rsocket *rs, int name, int *number)
{
	switch (name) {
	case SO_REUSEADDR:
	case SO_KEEPALIVE:
	case SO_OOBINLINE:
		*number = (rs->socket_options >> name) & 1;
		return 0;
	case SO_RCVBUF:
		*number = (int)rs->receive_size;
		return 0;
	case SO_SNDBUF:
		*number = (int)rs->send_size;
		return 0;
	case SO_ERROR:
		if (rs->state == VB_RSOCKET_CONNECTING)
			(void)vb_rsocket_continue(rs);
		*number = rs->error;
		rs->error = 0;
		return 0;
	case SO_TYPE:
		*number = rs->type;
		return 0;
	case SO_DOMAIN:
		*number = rs->domain;
		return 0;
	case SO_ACCEPTCONN:
		*number = rs->state == VB_RSOCKET_LISTENING;
		return 0;
	default:
		return -ENOTSUP;
	}
}

static int path_mtu(const struct vb_rsocket *rs)
{
	return rs->id != NULL && rs->id->route.num_paths != 0 ? 1 << (7 + rs->id->route.path_rec->mtu) : 2048;
}

static int get_tcp_option(struct vb_rsocket *rs, int name, int *number)
{
	switch (name) {
	case TCP_KEEPIDLE:
		*number = rs->keepalive_seconds != 0 ? rs->keepalive_seconds : KEEPALIVE_SECONDS;
		return 0;
	case TCP_KEEPCNT:
	case TCP_KEEPINTVL:
		*number = 1;
		return 0;
	case TCP_NODELAY:
		*number = (rs->tcp_options >> name) & 1;
		return 0;
	case TCP_MAXSEG:
		*number = path_mtu(rs);
		return 0;
	default:
		return -ENOTSUP;
	}
}

static int get_rdma_option(struct vb_rsocket *rs, int name, int *number)
{
	switch (name) {
	case RDMA_SQSIZE:
		*number = (int)rs->send_queue;
		return 0;
	case RDMA_RQSIZE:
		*number = (int)rs->receive_queue;
		return 0;
	case RDMA_INLINE:
		*number = (int)rs->inline_size;
		return 0;
	case RDMA_IOMAPSIZE:
		*number = (int)rs->iomap_size;
		return 0;
	default:
		return -ENOTSUP;
	}
}

/* The options that are not an int. */
static int get_structure(struct vb_rsocket *rs, int level, int name, void *value, socklen_t *length)
{
	struct linger linger;

	if (level == SOL_SOCKET && name == SO_LINGER) {
		if (*length < sizeof(linger))
			return -EINVAL;
		linger.l_onoff = !((rs->socket_options >> SO_LINGER) & 1);
		linger.l_linger = 0;
		memcpy(value, &linger, sizeof(linger));
		*length = sizeof(linger);
		return 0;
	}
	if (level == SOL_RDMA && name == RDMA_ROUTE) {
		if (rs->route == NULL || *length < rs->route_length)
			return rs->route == NULL ? -ENODATA : -EINVAL;
		memcpy(value, rs->route, rs->route_length);
		*length = rs->route_length;
		return 0;
	}
	if (level == IPPROTO_TCP && (name == TCP_INFO || name == TCP_CONGESTION)) {
		static const char rdma[] = "rdma";

		if (name == TCP_INFO)
			memset(value, 0, *length);
		else
			memcpy(value, rdma, *length < sizeof(rdma) ? *length : sizeof(rdma));
		return 0;
	}
	return -ENOENT;
}

static int get_option(struct vb_rsocket *rs, int level, int name, void *value, socklen_t *length)
{
	int number, error = get_structure(rs, level, name, value, length);

	if (error != -ENOENT)
		return error;
	switch (level) {
	case SOL_SOCKET:
		error = get_socket_option(rs, name, &number);
		break;
	case IPPROTO_TCP:
		error = get_tcp_option(rs, name, &number);
		break;
	case IPPROTO_IP:
		number = rs->type_of_service;
		error = name == IP_TOS ? 0 : -ENOTSUP;
		break;
	case IPPROTO_IPV6:
		number = (rs->ipv6_options >> IPV6_V6ONLY) & 1;
		error = name == IPV6_V6ONLY ? 0 : -ENOTSUP;
		break;
	case SOL_RDMA:
		error = get_rdma_option(rs, name, &number);
		break;
	default:
		error = -ENOTSUP;
		break;
	}
	if (error != 0)
		return error;
	if (*length < sizeof(number))
		return -EINVAL;
	memcpy(value, &number, sizeof(number));
	*length = sizeof(number);
	return 0;
}

VB_EXPORT int rgetsockopt(int socket, int level, int optname, void *optval, socklen_t *optlen)
{
	struct vb_rsocket *rs = vb_rsocket_find(socket);
	int error;

	if (rs == NULL)
		return vb_rdmacm_fail(EBADF);
	if (optval == NULL || optlen == NULL)
		return vb_rdmacm_fail(EFAULT);
	if (rs->type == SOCK_DGRAM && level != SOL_RDMA)
		return getsockopt(rs->fd, level, optname, optval, optlen);
	pthread_mutex_lock(&rs->lock);
	error = get_option(rs, level, optname, optval, optlen);
	pthread_mutex_unlock(&rs->lock);
	return vb_rdmacm_result(error);
}

/* The channel behind a stream blocks or not only until the connection stands; after that its events are taken as they come. */
static int set_flags(struct vb_rsocket *rs, int flags)
{
	rs->nonblocking = flags & O_NONBLOCK;
	if (rs->type == SOCK_STREAM && rs->state < VB_RSOCKET_CONNECTED)
		return fcntl(rs->fd, F_SETFL, flags & O_NONBLOCK) != 0 ? -errno : 0;
	return 0;
}

VB_EXPORT int rfcntl(int socket, int cmd, ... /* arg */)
{
	struct vb_rsocket *rs = vb_rsocket_find(socket);
	int argument, error;
	va_list list;

	if (rs == NULL)
		return vb_rdmacm_fail(EBADF);
	va_start(list, cmd);
	argument = va_arg(list, int);
	va_end(list);
	switch (cmd) {
	case F_GETFL:
		return rs->nonblocking ? O_RDWR | O_NONBLOCK : O_RDWR;
	case F_SETFL:
		pthread_mutex_lock(&rs->lock);
		error = set_flags(rs, argument);
		pthread_mutex_unlock(&rs->lock);
		return vb_rdmacm_result(error);
	case F_GETFD:
		return rs->close_on_exec ? FD_CLOEXEC : 0;
	case F_SETFD:
		rs->close_on_exec = argument & FD_CLOEXEC; /* a connection never survives exec */
		return 0;
	default:
		return vb_rdmacm_fail(ENOTSUP);
	}
}
