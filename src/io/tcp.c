/* SPDX-License-Identifier: MIT
 *
 * See tcp.h.
 */
#include "io/tcp.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "io/descriptor.h"
#include "io/uncancelled.h"
#include "wire/path.h"

enum {
	/* What waits unsent in the kernel: enough to keep it busy until we are called again, and no more, as what is there can
	 * neither be overtaken nor taken back. */
	NOT_SENT = 512 * 1024,
	UNACKNOWLEDGED_MS = 30 * 1000,
	IDLE_S = 60,
	PROBE_S = 10,
	PROBES = 3,
	SMALLEST_SEGMENT = 536,          /* RFC 1122 4.2.2.6 */
};

static socklen_t address_to(struct sockaddr_storage *to, const struct vb_tcp_address *address)
{
	memset(to, 0, sizeof(*to));
	if (address->ipv6) {
		struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(address->port), .sin6_scope_id = address->scope};

		memcpy(&six.sin6_addr, address->gid, 16);
		memcpy(to, &six, sizeof(six));
		return sizeof(six);
	} else {
		struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(address->port)};

		memcpy(&four.sin_addr, address->gid + 12, 4);
		memcpy(to, &four, sizeof(four));
		return sizeof(four);
	}
}

/* A socket of IPv6 shows peers of IPv4 as we write them. */
static int address_from(struct vb_tcp_address *address, const struct sockaddr_storage *from)
{
	struct sockaddr_in6 six;
	struct sockaddr_in four;

	memset(address, 0, sizeof(*address));
	if (from->ss_family == AF_INET6) {
		memcpy(&six, from, sizeof(six));
		memcpy(address->gid, &six.sin6_addr, 16);
		address->port = ntohs(six.sin6_port);
		address->scope = six.sin6_scope_id;
		address->ipv6 = !vb_gid_is_ipv4(address->gid);
		return 0;
	}
	if (from->ss_family != AF_INET)
		return -EAFNOSUPPORT;
	memcpy(&four, from, sizeof(four));
	if (four.sin_addr.s_addr != htonl(INADDR_ANY))
		address->gid[10] = address->gid[11] = 0xff;
	memcpy(address->gid + 12, &four.sin_addr, 4);
	address->port = ntohs(four.sin_port);
	return 0;
}

static int set_option(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) == 0 ? 0 : -errno;
}

static int open_socket(bool ipv6)
{
	int fd = vb_descriptor_socket(ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);

	return fd < 0 ? -errno : fd;
}

static int bind_to(int fd, const struct vb_tcp_address *local)
{
	struct sockaddr_storage storage;
	socklen_t length = address_to(&storage, local);

	return bind(fd, (const struct sockaddr *)&storage, length) == 0 ? 0 : -errno;
}

/* SO_REUSEADDR lets a port be had while old connections of it are in TIME_WAIT, but no second listener. */
int vb_tcp_bind(const struct vb_tcp_address *local, bool ipv6_only, bool late)
{
	int fd = open_socket(local->ipv6), error;

	if (fd < 0)
		return fd;
	error = set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	if (error == 0 && local->ipv6)
		error = set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, ipv6_only);
	/* Many more are free then. */
	if (error == 0 && late && local->port == 0)
		error = set_option(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
	if (error == 0)
		error = bind_to(fd, local);
	if (error == 0)
		return fd;
	vb_descriptor_close(fd);
	return error;
}

int vb_tcp_listen(int fd, int backlog)
{
	return listen(fd, backlog) == 0 ? 0 : -errno;
}

int vb_tcp_accept(int fd)
{
	int accepted;

	do
		accepted = (int)syscall(SYS_accept4, fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	while (accepted < 0 && (errno == EINTR || errno == ECONNABORTED));
	return accepted < 0 ? -errno : vb_descriptor_lift(accepted);
}

int vb_tcp_connect(int fd, const struct vb_tcp_address *remote)
{
	struct sockaddr_storage storage;
	socklen_t length = address_to(&storage, remote);

	for (unsigned i = 0; i < 2; i++) {
		if (syscall(SYS_connect, fd, &storage, length) == 0 || errno == EINPROGRESS)
			return 0;
		/* That there was an attempt before, which failed: said once, whichever call asked how it failed. */
		if (errno != ECONNABORTED)
			break;
	}
	return -errno;
}

int vb_tcp_local(int fd, struct vb_tcp_address *address)
{
	struct sockaddr_storage storage;
	socklen_t length = sizeof(storage);

	return getsockname(fd, (struct sockaddr *)&storage, &length) == 0 ? address_from(address, &storage) : -errno;
}

int vb_tcp_remote(int fd, struct vb_tcp_address *address)
{
	struct sockaddr_storage storage;
	socklen_t length = sizeof(storage);

	return getpeername(fd, (struct sockaddr *)&storage, &length) == 0 ? address_from(address, &storage) : -errno;
}

int vb_tcp_prepare(int fd)
{
	int error = set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);

	if (error != 0)
		return error;
	/* What a kernel does not know we do without. SO_SNDBUF and SO_RCVBUF are not set: that would end their growing
	 * by themselves. */
	(void)set_option(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, NOT_SENT);
	(void)set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, UNACKNOWLEDGED_MS);
	(void)set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	(void)set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, IDLE_S);
	(void)set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, PROBE_S);
	(void)set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, PROBES);
	return 0;
}

void vb_tcp_set_traffic_class(int fd, uint8_t traffic_class)
{
	struct vb_tcp_address local;

	if (traffic_class == 0 || vb_tcp_local(fd, &local) != 0)
		return;
	(void)set_option(fd, IPPROTO_IP, IP_TOS, traffic_class);
	if (local.ipv6)
		(void)set_option(fd, IPPROTO_IPV6, IPV6_TCLASS, traffic_class);
}

ssize_t vb_tcp_send(int fd, const struct iovec *spans, unsigned count, bool more)
{
	const struct msghdr message = {.msg_iov = (struct iovec *)spans, .msg_iovlen = count};
	int flags = MSG_DONTWAIT | MSG_NOSIGNAL | (more ? MSG_MORE : 0);
	ssize_t sent;

	do
		sent = count == 1 ? vb_call_send(fd, spans[0].iov_base, spans[0].iov_len, flags) :
				    vb_call_sendmsg(fd, &message, flags);
	while (sent < 0 && errno == EINTR);
	return sent < 0 ? -errno : sent;
}

ssize_t vb_tcp_receive(int fd, const struct iovec *spans, unsigned count)
{
	struct msghdr message = {.msg_iov = (struct iovec *)spans, .msg_iovlen = count};
	ssize_t received;

	do
		received = count == 1 ? vb_call_recv(fd, spans[0].iov_base, spans[0].iov_len, MSG_DONTWAIT) :
					vb_call_recvmsg(fd, &message, MSG_DONTWAIT);
	while (received < 0 && errno == EINTR);
	return received < 0 ? -errno : received;
}

uint32_t vb_tcp_segment(int fd)
{
	struct tcp_info info;
	socklen_t length = sizeof(info);

	memset(&info, 0, sizeof(info));
	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0 || info.tcpi_snd_mss == 0)
		return SMALLEST_SEGMENT;
	return info.tcpi_snd_mss;
}

bool vb_tcp_is_acknowledged(int fd)
{
	int left = 0;

	return ioctl(fd, SIOCOUTQ, &left) != 0 || left == 0;
}

void vb_tcp_shut(int fd)
{
	(void)shutdown(fd, SHUT_WR);
}

void vb_tcp_abort(int fd)
{
	const struct linger at_once = {.l_onoff = 1, .l_linger = 0};

	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	vb_descriptor_close(fd);
}

/* connect(2): AF_UNSPEC dissolves the association; tcp_disconnect() of Linux resets it. */
void vb_tcp_break(int fd)
{
	const struct sockaddr none = {.sa_family = AF_UNSPEC};

	(void)syscall(SYS_connect, fd, &none, sizeof(none));
}
