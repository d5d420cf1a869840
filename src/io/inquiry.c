/* SPDX-License-Identifier: MIT
 *
 * A connected UDP socket hears of ICMP errors that its datagrams provoke (udp(7): ECONNREFUSED for a port without a socket),
 * which tells a host without RoCE from one that is not there. Where port 4791 is silent, an unprivileged ICMP socket
 * (icmp(7), net.ipv4.ping_group_range) asks whether the host lives, if this user may.
 */
#include "io/inquiry.h"

#include <errno.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "io/clock.h"
#include "io/descriptor.h"
#include "io/neighbour.h"
#include "io/path_socket.h"
#include "io/random.h"
#include "io/route.h"

/* From this try on verbenad is asked too. */
enum { PING_MS = 200, FIRST_TRY_OF_DAEMON = 3, MOST_AT_ONCE = 16 };

/* A Verbena answers at once. The last waits are for hosts without one: they may send an ICMP error once a second
 * (net.ipv4.icmp_ratelimit), and the failed packets have used that up: the last inquiry leaves more than a second after them. */
static const int wait_ms[] = {100, 100, 100, 400, 400, 400};

static bool is_ipv4(const uint8_t gid[16])
{
	return vb_gid_is_ipv4(gid);
}

static enum vb_inquiry_reach reach_of(int error)
{
	switch (error) {
	case ECONNREFUSED:
		return VB_REACH_REFUSED;
	case EHOSTUNREACH:
	case EHOSTDOWN:
		return VB_REACH_UNREACHABLE;
	case ENETUNREACH:
	case EADDRNOTAVAIL:
	case ENETDOWN:
		return VB_REACH_NO_ROUTE;
	default:
		return VB_REACH_SILENT;
	}
}

static ssize_t send_question(const struct vb_inquiry_exchange *exchange, const struct vb_inquiry *question)
{
	uint8_t bytes[VB_INQUIRY_LENGTH];

	vb_inquiry_encode(question, bytes);
	return send(exchange->fd, bytes, sizeof(bytes), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* True: the process has answered. What verbenad says of it is kept, in case that it does not. */
static bool take_answer(struct vb_inquiry_exchange *exchange, const uint8_t *bytes, size_t length)
{
	struct vb_inquiry_answer answer;

	if (!vb_inquiry_answer_decode(&answer, bytes, length))
		return false;
	if (answer.nonce == exchange->daemon.nonce) {
		/* One that does not know this question says only that it is there. */
		exchange->daemon_answered = answer.status != VB_INQUIRY_DAEMON;
		exchange->daemon_answer = answer;
		return false;
	}
	exchange->answer = answer;
	return answer.nonce == exchange->process.nonce;
}

bool vb_inquiry_look(struct vb_inquiry_exchange *exchange)
{
	uint8_t bytes[VB_INQUIRY_LENGTH + 1];

	for (unsigned i = 0; i < MOST_AT_ONCE && exchange->reach == VB_REACH_SILENT; i++) {
		ssize_t length = recv(exchange->fd, bytes, sizeof(bytes), MSG_DONTWAIT);

		if (length < 0 && (errno == EAGAIN || errno == EINTR))
			break;
		if (length < 0)
			exchange->reach = reach_of(errno);
		else if (take_answer(exchange, bytes, (size_t)length))
			exchange->reach = VB_REACH_ANSWERED;
	}
	return exchange->reach != VB_REACH_SILENT;
}

/* Take what comes until the deadline. False: nothing of use. */
static bool await_answer(struct vb_inquiry_exchange *exchange, vb_time deadline)
{
	for (;;) {
		vb_time left = deadline - vb_clock_now();
		struct pollfd wait = {.fd = exchange->fd, .events = POLLIN};

		if (left <= 0 || poll(&wait, 1, (int)(left / VB_MILLISECONDS(1)) + 1) == 0)
			return false;
		if (vb_inquiry_look(exchange))
			return true;
	}
}

/* The kernel asks three times, a second apart, before it reports EHOSTUNREACH; until then the neighbour table tells a
 * host that is not there from one that is silent. */
static bool neighbour_is_missing(const struct vb_path *path)
{
	struct vb_route route;
	enum vb_neighbour found;

	if (vb_route_lookup(path->destination, NULL, path->interface_index, &route) != 0 || route.local)
		return false;
	found = vb_neighbour_look(path->destination, route.interface_index);
	return found == VB_NEIGHBOUR_ASKED || found == VB_NEIGHBOUR_SILENT;
}

static enum vb_inquiry_reach ping(const struct vb_path *path)
{
	bool ipv4 = is_ipv4(path->destination);
	/* Identifier and checksum are the kernel's to fill in. */
	uint8_t echo[16] = {ipv4 ? ICMP_ECHO : ICMP6_ECHO_REQUEST};
	int fd = vb_path_socket_open(path, ipv4 ? (int)IPPROTO_ICMP : (int)IPPROTO_ICMPV6, 0);
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	bool sent, answered;

	/* EACCES: net.ipv4.ping_group_range names no group of this user's. */
	if (fd < 0)
		return VB_REACH_SILENT_UNPINGED;
	sent = send(fd, echo, sizeof(echo), MSG_NOSIGNAL) > 0;
	answered = sent && poll(&wait, 1, PING_MS) == 1 && recv(fd, echo, sizeof(echo), MSG_DONTWAIT) > 0;
	vb_descriptor_close(fd);
	return answered ? VB_REACH_PINGED : sent ? VB_REACH_SILENT : VB_REACH_SILENT_UNPINGED;
}

static uint64_t new_nonce(void)
{
	return (uint64_t)vb_random_u32() << 32 | vb_random_u32();
}

/* An ICMP error that one question has brought back is told, once, by the next call on the socket: also if that sends
 * the other question. False: there is one. */
static bool ask(struct vb_inquiry_exchange *exchange, const struct vb_inquiry *question)
{
	if (send_question(exchange, question) >= 0)
		return true;
	exchange->reach = reach_of(errno);
	return exchange->reach == VB_REACH_SILENT;
}

static void ask_repeatedly(struct vb_inquiry_exchange *exchange)
{
	for (unsigned i = 0; i < sizeof(wait_ms) / sizeof(wait_ms[0]); i++) {
		if (!ask(exchange, &exchange->process))
			return;
		if (i >= FIRST_TRY_OF_DAEMON && exchange->process.qpn > 1 && !exchange->daemon_answered &&
		    !ask(exchange, &exchange->daemon))
			return;
		if (await_answer(exchange, vb_clock_now() + VB_MILLISECONDS(wait_ms[i])))
			return;
	}
}

bool vb_inquiry_begin(struct vb_inquiry_exchange *exchange, const struct vb_path *path, const struct vb_inquiry *question)
{
	int fd = vb_path_socket_open(path, IPPROTO_UDP, VB_ROCE_PORT);

	if (fd < 0)
		return false;
	*exchange = (struct vb_inquiry_exchange){
		.fd = fd,
		.process = *question,
		.daemon = {.qpn = 1, .about_qpn = question->qpn, .nonce = new_nonce()},
		.reach = VB_REACH_SILENT,
	};
	exchange->process.nonce = new_nonce();
	return true;
}

void vb_inquiry_send(struct vb_inquiry_exchange *exchange)
{
	if (ask(exchange, &exchange->process))
		(void)ask(exchange, &exchange->daemon);
}

void vb_inquiry_end(struct vb_inquiry_exchange *exchange)
{
	vb_descriptor_close(exchange->fd);
	exchange->fd = -1;
}

enum vb_inquiry_reach vb_inquiry_ask(const struct vb_path *path, const struct vb_inquiry *question,
				     struct vb_inquiry_answer *answer)
{
	struct vb_inquiry_exchange exchange;

	if (!vb_inquiry_begin(&exchange, path, question))
		return reach_of(errno);
	ask_repeatedly(&exchange);
	vb_inquiry_end(&exchange);
	*answer = exchange.answer;
	if (exchange.reach == VB_REACH_SILENT && exchange.daemon_answered) {
		*answer = exchange.daemon_answer;
		return VB_REACH_ANSWERED;
	}
	if (exchange.reach == VB_REACH_SILENT && neighbour_is_missing(path))
		return VB_REACH_UNREACHABLE;
	return exchange.reach == VB_REACH_SILENT ? ping(path) : exchange.reach;
}

void vb_inquiry_reply(int fd, const struct vb_path *from, const struct vb_inquiry_answer *answer)
{
	uint8_t bytes[VB_INQUIRY_LENGTH];
	struct iovec span = {.iov_base = bytes, .iov_len = sizeof(bytes)};
	union vb_path_address to;
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(struct in6_pktinfo))];
	} control = {0};
	struct msghdr message = {
		.msg_name = &to,
		.msg_namelen = vb_path_address_set(&to, from->source, from->source_port, from->interface_index),
		.msg_iov = &span,
		.msg_iovlen = 1,
		.msg_control = &control,
	};

	/* From the address that was asked: the asker hears no other. */
	if (is_ipv4(from->source)) {
		struct in_pktinfo source = {0};

		memcpy(&source.ipi_spec_dst, from->destination + 12, 4);
		message.msg_controllen = CMSG_SPACE(sizeof(source));
		control.header.cmsg_level = IPPROTO_IP;
		control.header.cmsg_type = IP_PKTINFO;
		control.header.cmsg_len = CMSG_LEN(sizeof(source));
		memcpy(CMSG_DATA(&control.header), &source, sizeof(source));
	} else {
		struct in6_pktinfo source = {0};

		memcpy(&source.ipi6_addr, from->destination, 16);
		message.msg_controllen = CMSG_SPACE(sizeof(source));
		control.header.cmsg_level = IPPROTO_IPV6;
		control.header.cmsg_type = IPV6_PKTINFO;
		control.header.cmsg_len = CMSG_LEN(sizeof(source));
		memcpy(CMSG_DATA(&control.header), &source, sizeof(source));
	}
	vb_inquiry_answer_encode(answer, bytes);
	/* Lost answers are asked for again. */
	(void)sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}
