/* SPDX-License-Identifier: MIT
 *
 * See neighbour.h. A single neighbour can be asked for since Linux 5.0; where it cannot, it counts as known.
 */
#include "io/neighbour.h"

#include <errno.h>
#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "io/clock.h"
#include "io/descriptor.h"
#include "io/path_socket.h"

struct question {
	struct nlmsghdr header;
	struct ndmsg neighbour;
	struct rtattr attribute;
	uint8_t address[16];
};

enum { DISCARD_PORT = 9 };
enum { NUD_GOOD = NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_PROBE | NUD_STALE | NUD_DELAY };

static enum vb_neighbour read_answer(const struct nlmsghdr *header, size_t length)
{
	const struct ndmsg *told;

	if (!NLMSG_OK(header, length))
		return VB_NEIGHBOUR_KNOWN;
	if (header->nlmsg_type == NLMSG_ERROR) {
		const struct nlmsgerr *error = NLMSG_DATA(header);

		return header->nlmsg_len >= NLMSG_LENGTH(sizeof(*error)) && error->error == -ENOENT ? VB_NEIGHBOUR_UNASKED :
												     VB_NEIGHBOUR_KNOWN;
	}
	if (header->nlmsg_type != RTM_NEWNEIGH || header->nlmsg_len < NLMSG_LENGTH(sizeof(*told)))
		return VB_NEIGHBOUR_KNOWN;
	told = NLMSG_DATA(header);
	if (told->ndm_state & NUD_INCOMPLETE)
		return VB_NEIGHBOUR_ASKED;
	if (told->ndm_state & NUD_FAILED)
		return VB_NEIGHBOUR_SILENT;
	return told->ndm_state & NUD_GOOD ? VB_NEIGHBOUR_KNOWN : VB_NEIGHBOUR_UNASKED;
}

enum vb_neighbour vb_neighbour_look(const uint8_t address[16], uint32_t interface_index)
{
	_Alignas(struct nlmsghdr) char answer[4096];
	bool ipv4 = vb_gid_is_ipv4(address);
	unsigned short length = ipv4 ? 4 : 16;
	struct question question = {
		.header = {
			.nlmsg_len = (uint32_t)offsetof(struct question, address) + length,
			.nlmsg_type = RTM_GETNEIGH,
			.nlmsg_flags = NLM_F_REQUEST,
		},
		.neighbour = {.ndm_family = ipv4 ? AF_INET : AF_INET6, .ndm_ifindex = (int)interface_index},
		.attribute = {.rta_len = (unsigned short)RTA_LENGTH(length), .rta_type = NDA_DST},
	};
	enum vb_neighbour found = VB_NEIGHBOUR_KNOWN;
	int fd = vb_descriptor_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	ssize_t got = -1;

	if (fd < 0)
		return found;
	memcpy(question.address, ipv4 ? address + 12 : address, length);
	if (send(fd, &question, question.header.nlmsg_len, 0) >= 0) {
		do
			got = recv(fd, answer, sizeof(answer), 0);
		while (got < 0 && errno == EINTR);
	}
	if (got >= 0)
		found = read_answer((struct nlmsghdr *)(void *)answer, (size_t)got);
	vb_descriptor_close(fd);
	return found;
}

void vb_neighbour_solicit(const struct vb_path *path)
{
	bool ipv4 = vb_gid_is_ipv4(path->destination);
	int fd = vb_path_socket_open(path, IPPROTO_UDP, DISCARD_PORT), hops = 1;

	if (fd < 0)
		return;
	(void)setsockopt(fd, ipv4 ? IPPROTO_IP : IPPROTO_IPV6, ipv4 ? IP_TTL : IPV6_UNICAST_HOPS, &hops, sizeof(hops));
	(void)send(fd, NULL, 0, MSG_NOSIGNAL | MSG_DONTWAIT);
	vb_descriptor_close(fd);
}

void vb_neighbour_await(const struct vb_path *path, vb_time patience)
{
	const struct timespec pause = {.tv_nsec = VB_MICROSECONDS(500)};
	vb_time deadline = vb_clock_now() + patience;
	enum vb_neighbour now = vb_neighbour_look(path->destination, path->interface_index);

	if (now == VB_NEIGHBOUR_UNASKED || now == VB_NEIGHBOUR_SILENT)
		vb_neighbour_solicit(path);
	while (now != VB_NEIGHBOUR_KNOWN && vb_clock_now() < deadline) {
		nanosleep(&pause, NULL);
		now = vb_neighbour_look(path->destination, path->interface_index);
		if (now == VB_NEIGHBOUR_SILENT)
			return;
	}
}
