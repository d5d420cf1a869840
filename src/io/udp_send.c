/* SPDX-License-Identifier: MIT
 *
 * Sending a run: one sendmsg, with UDP_SEGMENT
 * where the run has several packets. Source address, traffic class and hop limit travel as control messages, because
 * one socket serves several paths, unless they are those that the socket has anyhow: without them the kernel takes no memory for
 * them, which is 0.15 us of a run.
 *
 * Some routes refuse segmentation (an interface without checksum offload, IPsec: EIO; a path MTU below the segment:
 * EMSGSIZE or EINVAL). Then the packets go one by one; each ICRC is computed anew, for a lone datagram carries
 * identification 0 where the segment would have carried its number.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "io/udp.h"
#include "io/udp_order.h"
#include "io/uncancelled.h"
#include "wire/burst.h"
#include "wire/icrc.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

enum { TOGETHER = 8 };

#if VB_THREAD_SANITIZER
char vb_udp_order;
#endif

struct envelope {
	struct msghdr message;
	union {
		struct sockaddr_in four;
		struct sockaddr_in6 six;
	} to;
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(struct in6_pktinfo)) + 2 * CMSG_SPACE(sizeof(int)) +
			  CMSG_SPACE(sizeof(uint16_t))];
	} control;
};

static void add_control(struct envelope *envelope, int level, int type, const void *value, size_t length)
{
	struct cmsghdr *header = (struct cmsghdr *)(void *)(envelope->control.room + envelope->message.msg_controllen);

	header->cmsg_level = level;
	header->cmsg_type = type;
	header->cmsg_len = CMSG_LEN(length);
	memcpy(CMSG_DATA(header), value, length);
	envelope->message.msg_controllen += CMSG_SPACE(length);
}

/* Of a path, what the socket does not say by itself. */
struct unsaid {
	bool source, traffic_class, hop_limit;
};

static struct unsaid what_is_unsaid(const struct vb_path *path, const struct vb_path *own)
{
	/* A hop limit of 0 is no limit one can send (IBV_AH leaves it 0 by default): the host's default then. */
	struct unsaid unsaid = {true, true, path->hop_limit > 0};

	/* To groups a socket sends with a hop limit of its own. */
	if (!own || vb_gid_is_multicast(path->destination))
		return unsaid;
	unsaid.source = path->interface_index != 0 || memcmp(path->source, own->source, sizeof(own->source)) != 0;
	unsaid.traffic_class = path->traffic_class != own->traffic_class;
	unsaid.hop_limit = path->hop_limit > 0 && path->hop_limit != own->hop_limit;
	return unsaid;
}

static void address_ipv4(struct envelope *envelope, const struct vb_path *path, struct unsaid unsaid)
{
	struct in_pktinfo source = {.ipi_ifindex = (int)path->interface_index};
	int tos = path->traffic_class, ttl = path->hop_limit;

	envelope->to.four = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(VB_ROCE_PORT)};
	memcpy(&envelope->to.four.sin_addr, path->destination + 12, 4);
	envelope->message.msg_namelen = sizeof(envelope->to.four);
	memcpy(&source.ipi_spec_dst, path->source + 12, 4);
	if (unsaid.source)
		add_control(envelope, IPPROTO_IP, IP_PKTINFO, &source, sizeof(source));
	if (unsaid.traffic_class)
		add_control(envelope, IPPROTO_IP, IP_TOS, &tos, sizeof(tos));
	if (unsaid.hop_limit)
		add_control(envelope, IPPROTO_IP, IP_TTL, &ttl, sizeof(ttl));
}

static void address_ipv6(struct envelope *envelope, const struct vb_path *path, struct unsaid unsaid)
{
	struct in6_pktinfo source = {.ipi6_ifindex = path->interface_index};
	int traffic_class = path->traffic_class, hop_limit = path->hop_limit;

	envelope->to.six = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(VB_ROCE_PORT),
						 .sin6_scope_id = path->interface_index};
	memcpy(&envelope->to.six.sin6_addr, path->destination, 16);
	envelope->message.msg_namelen = sizeof(envelope->to.six);
	memcpy(&source.ipi6_addr, path->source, 16);
	if (unsaid.source)
		add_control(envelope, IPPROTO_IPV6, IPV6_PKTINFO, &source, sizeof(source));
	if (unsaid.traffic_class)
		add_control(envelope, IPPROTO_IPV6, IPV6_TCLASS, &traffic_class, sizeof(traffic_class));
	if (unsaid.hop_limit)
		add_control(envelope, IPPROTO_IPV6, IPV6_HOPLIMIT, &hop_limit, sizeof(hop_limit));
}

/* `connected`: the socket is, to the destination of `own`. */
static void address_envelope(struct envelope *envelope, const struct vb_path *path, const struct vb_path *own, bool connected)
{
	struct unsaid unsaid = what_is_unsaid(path, own);

	memset(envelope, 0, sizeof(*envelope));
	envelope->message.msg_name = &envelope->to;
	envelope->message.msg_control = &envelope->control;
	if (vb_path_is_ipv4(path))
		address_ipv4(envelope, path, unsaid);
	else
		address_ipv6(envelope, path, unsaid);
	if (connected && path->interface_index == 0 && memcmp(path->destination, own->destination, sizeof(own->destination)) == 0) {
		envelope->message.msg_name = NULL;
		envelope->message.msg_namelen = 0;
	}
}

/* One piece with nothing to say besides, as a lone packet is, spares the kernel two copies: 0.04 us. */
static ssize_t call(int fd, const struct msghdr *message)
{
	if (message->msg_controllen > 0 || message->msg_iovlen != 1)
		return vb_call_sendmsg(fd, message, MSG_NOSIGNAL);
	return vb_call_sendto(fd, message->msg_iov->iov_base, message->msg_iov->iov_len, MSG_NOSIGNAL, message->msg_name,
			      message->msg_namelen);
}

static int post(int fd, struct envelope *envelope)
{
	vb_udp_before_sending();
	for (;;) {
		if (call(fd, &envelope->message) >= 0)
			return 0;
		/* ECONNREFUSED reports an earlier datagram's fate and clears it; this one was not tried. */
		if (errno != EINTR && errno != ECONNREFUSED)
			return -errno;
	}
}

/* The packets of a run one by one. */
static int post_singly(int fd, struct envelope *envelope, const struct vb_burst *burst, uint32_t run, uint32_t *lost)
{
	const struct vb_burst_run *from = &burst->run[run];
	uint8_t *datagram = malloc(from->segment_size);
	int error = datagram ? 0 : -ENOMEM;
	struct iovec span;

	*lost = 0;
	for (uint32_t i = 0; i < from->packets; i++) {
		size_t length;
		uint32_t crc;
		int failed;

		if (!datagram) {
			++*lost;
			continue;
		}
		length = vb_burst_flatten(burst, run, i, datagram, from->segment_size);
		crc = vb_icrc_begin(&from->path, 0, length);
		crc = vb_icrc_headers(crc, datagram, length - VB_ICRC_LENGTH);
		vb_icrc_store(crc, datagram + length - VB_ICRC_LENGTH);
		span = (struct iovec){datagram, length};
		envelope->message.msg_iov = &span;
		envelope->message.msg_iovlen = 1;
		failed = post(fd, envelope);
		if (failed != 0) {
			error = failed;
			++*lost;
		}
	}
	free(datagram);
	return error;
}

/* Everything a run needs in order to leave. Returns the length of the control messages that do not concern segmentation. */
static size_t fill_envelope(struct envelope *envelope, const struct vb_burst_run *run, const struct vb_path *own, bool connected,
			    struct iovec *span)
{
	uint16_t segment = (uint16_t)run->segment_size;
	size_t plain_control;

	address_envelope(envelope, &run->path, own, connected);
	plain_control = envelope->message.msg_controllen;
	if (run->packets > 1)
		add_control(envelope, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof(segment));
	*span = (struct iovec){(void *)(uintptr_t)run->data, run->bytes};
	envelope->message.msg_iov = span;
	envelope->message.msg_iovlen = 1;
	return plain_control;
}

static int send_run(int fd, const struct vb_path *own, const struct vb_burst *burst, uint32_t run, uint32_t *lost)
{
	const struct vb_burst_run *from = &burst->run[run];
	struct envelope envelope;
	struct iovec span;
	size_t plain_control = fill_envelope(&envelope, from, own, false, &span);
	int error = post(fd, &envelope);

	*lost = error == 0 ? 0 : from->packets;
	if (from->packets > 1 && (error == -EIO || error == -EINVAL || error == -EMSGSIZE || error == -EOPNOTSUPP)) {
		envelope.message.msg_controllen = plain_control;
		error = post_singly(fd, &envelope, burst, run, lost);
	}
	return error;
}

int vb_udp_send_run(int fd, const struct vb_burst *burst, uint32_t run, uint32_t *lost)
{
	return send_run(fd, NULL, burst, run, lost);
}

/* A system call for two runs instead of one for each saves 0.1 us of 11: nearly every WRITE of several packets is two, because
 * its first packet is longer than the others. Returns how many have left, or less than 1 if that is none. */
static int send_together(int fd, const struct vb_path *own, bool connected, const struct vb_burst *burst, uint32_t run, uint32_t count)
{
	struct envelope envelopes[TOGETHER];
	struct iovec spans[TOGETHER];
	struct mmsghdr messages[TOGETHER];

	for (uint32_t i = 0; i < count; i++) {
		fill_envelope(&envelopes[i], &burst->run[run + i], own, connected, &spans[i]);
		messages[i].msg_hdr = envelopes[i].message;
	}
	vb_udp_before_sending();
	return vb_call_sendmmsg(fd, messages, count, MSG_NOSIGNAL);
}

uint32_t vb_udp_send_runs(int fd, const struct vb_path *own, const struct vb_burst *burst, uint32_t run, uint32_t count)
{
	uint32_t lost, lost_in_all = 0;

	while (count > 0) {
		uint32_t together = count < TOGETHER ? count : TOGETHER;
		int sent = together > 1 ? send_together(fd, own, false, burst, run, together) : 0;

		/* None of them, or only one: it has the errors to itself. */
		if (sent <= 0) {
			(void)send_run(fd, own, burst, run, &lost);
			lost_in_all += lost;
			sent = 1;
		}
		run += (uint32_t)sent;
		count -= (uint32_t)sent;
	}
	return lost_in_all;
}

/* Of a lone packet on the very path of the socket nothing has to be said. */
static bool send_one_connected(int fd, const struct vb_path *own, const struct vb_burst *burst, uint32_t run)
{
	const struct vb_burst_run *from = &burst->run[run];
	struct envelope envelope;
	struct iovec span;

	if (from->packets == 1 && vb_path_equal(&from->path, own)) {
		vb_udp_before_sending();
		return vb_call_send(fd, from->data, from->bytes, MSG_NOSIGNAL) >= 0;
	}
	fill_envelope(&envelope, from, own, true, &span);
	vb_udp_before_sending();
	return call(fd, &envelope.message) >= 0;
}

uint32_t vb_udp_send_connected(int fd, const struct vb_path *own, const struct vb_burst *burst, uint32_t run, uint32_t count)
{
	uint32_t sent = 0;

	while (sent < count) {
		uint32_t together = count - sent < TOGETHER ? count - sent : TOGETHER;
		int left = together > 1 ? send_together(fd, own, true, burst, run + sent, together) :
					  send_one_connected(fd, own, burst, run + sent);

		sent += left > 0 ? (uint32_t)left : 0;
		if (left < (int)together)
			break;
	}
	return sent;
}
