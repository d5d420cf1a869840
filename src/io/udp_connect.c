/* SPDX-License-Identifier: MIT
 *
 * Senders that are connected: the kernel keeps their route, where it looks one up for each send of others.
 *
 * Over IPv4 they number what they send, from a number that the kernel draws when they are connected and does not tell: one more with each
 * send, segmented or not (ip_select_ident_segs). The ICRC covers it, so it is learnt here: from copies of three datagrams that
 * the kernel hands back to who asks for times of sending (timestamping.rst). They leave by the loopback interface and go nowhere: of a
 * route to another host that ends there nothing is delivered, and to an address of this host they go to a port that is not RoCE's. That
 * the second is segmented shows that this kernel counts sends, not segments. Where anything is not as expected the socket is as it was.
 */
#include <errno.h>
#include <linux/net_tstamp.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "io/udp.h"
#include "io/uncancelled.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

enum {
	LOOPBACK = 1,                      /* in every network namespace: LOOPBACK_IFINDEX */
	DISCARD = 9,                       /* RFC 863 */
	SAMPLES = 3,
	ETHERNET = 14,
	IPV4 = 20, IPV4_ID = 4, IPV4_SOURCE = 12,
	HEADERS = IPV4 + 8,
};

static uint16_t read_16(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

/* Is it one of ours? */
static bool is_sample(const uint8_t *packet, const struct vb_path *own)
{
	return packet[0] == 0x45 && packet[9] == IPPROTO_UDP && memcmp(packet + IPV4_SOURCE, own->source + 12, 4) == 0 &&
	       memcmp(packet + IPV4_SOURCE + 4, own->destination + 12, 4) == 0 && read_16(packet + IPV4) == own->source_port &&
	       read_16(packet + IPV4 + 2) == DISCARD;
}

/* With the frame's header before it. */
static int read_sample(int fd, const struct vb_path *own, uint16_t *id)
{
	uint8_t bytes[256];
	char control[512];
	struct iovec span = {bytes, sizeof(bytes)};
	struct msghdr message = {.msg_iov = &span, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	ssize_t length = vb_call_recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT);

	if (length < ETHERNET + HEADERS)
		return length < 0 ? -errno : -EPROTO;
	if (!is_sample(bytes + ETHERNET, own))
		return -EPROTO;
	*id = read_16(bytes + ETHERNET + IPV4_ID);
	return 0;
}

static int send_sample(int fd, const struct vb_path *own, bool segmented)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(struct in_pktinfo)) + CMSG_SPACE(sizeof(uint16_t))];
	} control = {0};
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(DISCARD)};
	struct in_pktinfo by = {.ipi_ifindex = LOOPBACK};
	struct iovec span = {(void *)(uintptr_t)"??", segmented ? 2 : 1};
	struct msghdr message = {.msg_name = &to, .msg_namelen = sizeof(to), .msg_iov = &span, .msg_iovlen = 1,
				 .msg_control = &control, .msg_controllen = sizeof(control)};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	uint16_t segment = 1;

	memcpy(&to.sin_addr, own->destination + 12, 4);
	memcpy(&by.ipi_spec_dst, own->source + 12, 4);
	header->cmsg_level = IPPROTO_IP;
	header->cmsg_type = IP_PKTINFO;
	header->cmsg_len = CMSG_LEN(sizeof(by));
	memcpy(CMSG_DATA(header), &by, sizeof(by));
	if (!segmented) {
		message.msg_controllen = CMSG_SPACE(sizeof(by));
	} else {
		header = CMSG_NXTHDR(&message, header);
		header->cmsg_level = IPPROTO_UDP;
		header->cmsg_type = UDP_SEGMENT;
		header->cmsg_len = CMSG_LEN(sizeof(segment));
		memcpy(CMSG_DATA(header), &segment, sizeof(segment));
	}
	return vb_call_sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

static int learn(int fd, const struct vb_path *own, uint16_t *next_id)
{
	int asked = SOF_TIMESTAMPING_TX_SCHED | SOF_TIMESTAMPING_SOFTWARE, nothing = 0, error = 0;
	uint16_t id[SAMPLES];

	if (setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &asked, sizeof(asked)) != 0)
		return -errno;
	for (unsigned i = 0; i < SAMPLES && error == 0; i++) {
		error = send_sample(fd, own, i == 1);
		if (error == 0)
			error = read_sample(fd, own, &id[i]);
		if (error == 0 && i > 0 && id[i] != (uint16_t)(id[i - 1] + 1))
			error = -EPROTO;
	}
	if (setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &nothing, sizeof(nothing)) != 0)
		error = -errno;
	if (error == 0)
		*next_id = (uint16_t)(id[SAMPLES - 1] + 1);
	return error;
}

int vb_udp_connect(int fd, const struct vb_path *own, uint16_t *next_id)
{
	struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(VB_ROCE_PORT)};
	struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(VB_ROCE_PORT)};
	int error;

	*next_id = 0;
	memcpy(&six.sin6_addr, own->destination, 16);
	memcpy(&four.sin_addr, own->destination + 12, 4);
	if (!vb_path_is_ipv4(own))
		return vb_call_connect(fd, &six, sizeof(six)) == 0 ? 0 : -errno;
	if (vb_call_connect(fd, &four, sizeof(four)) != 0)
		return -errno;
	error = learn(fd, own, next_id);
	if (error != 0)
		vb_udp_disconnect(fd);
	return error;
}

void vb_udp_disconnect(int fd)
{
	struct sockaddr none = {.sa_family = AF_UNSPEC};

	(void)vb_call_connect(fd, &none, sizeof(none));
}
