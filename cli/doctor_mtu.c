/* SPDX-License-Identifier: MIT
 *
 * `verbena doctor --peer ADDRESS`: how large may packets be, there and back? What the kernel knows of the way (IP_MTU) is asked
 * first. Then the peer is pinged with packets as large as our interface's MTU, which may not be fragmented (RFC 1191, RFC 8201): an
 * answer is as long as its question. A small one beside them tells a host that answers no ping from a way that is too narrow.
 */
#include <errno.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/doctor.h"
#include "io/clock.h"
#include "io/netlink.h"
#include "wire/mtu.h"

enum { TRIES = 4, TRY_MS = 500, SMALL = 64, LARGEST_DATAGRAM = 65535, ICMP_HEADER = 8 };

enum answered { NOT_TRIED, NEITHER, SMALL_ONLY, BOTH };

static socklen_t length_of(const struct sockaddr *name)
{
	return name->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

/* What is on the wire of an echo request of that many bytes in all; sequence 0 for the small one, 1 for the large. */
static bool send_echo(int fd, bool ipv4, size_t bytes, uint16_t sequence)
{
	size_t length = bytes - (ipv4 ? 20 : 40);
	uint8_t *packet = calloc(1, length);
	bool sent;

	if (!packet)
		return false;
	packet[0] = ipv4 ? ICMP_ECHO : ICMP6_ECHO_REQUEST;
	packet[7] = (uint8_t)sequence;
	sent = send(fd, packet, length, MSG_NOSIGNAL) == (ssize_t)length;
	free(packet);
	return sent;
}

/* Which have come back so far, waiting for the rest of this try. */
static unsigned gather(int fd, unsigned seen)
{
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	vb_time until = vb_clock_now() + VB_MILLISECONDS(TRY_MS);
	uint8_t head[ICMP_HEADER];

	while (seen != 3) {
		vb_time now = vb_clock_now();

		if (now >= until || poll(&wait, 1, (int)((until - now) / 1000000) + 1) != 1)
			break;
		if (recv(fd, head, sizeof(head), 0) == (ssize_t)sizeof(head) && head[7] < 2)
			seen |= 1u << head[7];
	}
	return seen;
}

static enum answered probe(const struct sockaddr *name, size_t bytes)
{
	bool ipv4 = name->sa_family == AF_INET;
	int fd = socket(name->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, ipv4 ? (int)IPPROTO_ICMP : (int)IPPROTO_ICMPV6);
	int how = ipv4 ? IP_PMTUDISC_PROBE : IPV6_PMTUDISC_PROBE, option = ipv4 ? IP_MTU_DISCOVER : IPV6_MTU_DISCOVER, yes = 1;
	unsigned seen = 0;
	bool sent = false;

	/* Not everybody may ping (net.ipv4.ping_group_range). */
	if (fd < 0)
		return NOT_TRIED;
	if (connect(fd, name, length_of(name)) == 0 &&
	    setsockopt(fd, ipv4 ? (int)IPPROTO_IP : (int)IPPROTO_IPV6, option, &how, sizeof(how)) == 0 &&
	    (ipv4 || setsockopt(fd, IPPROTO_IPV6, IPV6_DONTFRAG, &yes, sizeof(yes)) == 0))
		for (int i = 0; i < TRIES && seen != 3; i++) {
			sent = send_echo(fd, ipv4, SMALL, 0) || sent;
			/* Where the first device on the way drops it, this fails with ENOBUFS: as good as no answer. */
			(void)send_echo(fd, ipv4, bytes, 1);
			seen = gather(fd, seen);
		}
	close(fd);
	if (!sent)
		return NOT_TRIED;
	return seen == 3 ? BOTH : seen == 1 ? SMALL_ONLY : NEITHER;
}

/* 0: not known. */
static int known_mtu(const struct sockaddr *name)
{
	bool ipv4 = name->sa_family == AF_INET;
	int fd = socket(name->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), mtu = 0;
	socklen_t length = sizeof(mtu);

	if (fd >= 0 && connect(fd, name, length_of(name)) == 0)
		(void)getsockopt(fd, ipv4 ? (int)IPPROTO_IP : (int)IPPROTO_IPV6, ipv4 ? IP_MTU : IPV6_MTU, &mtu, &length);
	if (fd >= 0)
		close(fd);
	return mtu;
}

void vb_cli_doctor_mtu(struct vb_cli_report *report, const struct sockaddr *name, const char *address,
		       const struct vb_interface *interface)
{
	static const char narrow[] = "Path MTUs that programs choose from the port's active_mtu are too large for this way: lower the "
				     "interface's MTU,\nor path_mtu (ibv_rc_pingpong -m, ib_write_bw -m).";
	int mtu = known_mtu(name);
	unsigned packet;

	if (mtu <= 0)
		return;
	packet = vb_mtu_bytes(vb_mtu_code(mtu > 92 ? (uint32_t)mtu - 92 : 0));
	if ((uint32_t)mtu < interface->mtu) {
		vb_cli_report_add(report, "MTU", VB_CLI_WARN, narrow, "%u of %s, but only %d on the way to %s", interface->mtu,
				  interface->name, mtu, address);
		return;
	}
	switch (interface->is_loopback || mtu > LARGEST_DATAGRAM ? NOT_TRIED : probe(name, (size_t)mtu)) {
	case BOTH:
		vb_cli_report_add(report, "MTU", VB_CLI_OK, NULL, "%d bytes go there and come back: packets of %u bytes", mtu, packet);
		break;
	case SMALL_ONLY:
		vb_cli_report_add(report, "MTU", VB_CLI_WARN, narrow,
				  "%d of %s, but pings of that size do not come back from %s, and small ones do", mtu, interface->name,
				  address);
		break;
	case NEITHER:
	case NOT_TRIED:
		vb_cli_report_add(report, "MTU", VB_CLI_OK, NULL,
				  "%d as far as this host knows: packets of %u bytes; the peer's must carry them too", mtu, packet);
	}
}
