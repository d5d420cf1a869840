/* SPDX-License-Identifier: MIT
 *
 * RTM_GETNEIGH, which any user may ask.
 */
#include "io/neighbour_table.h"

#include <errno.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#include "io/rtnetlink.h"
#include "wire/path.h"

struct question {
	struct nlmsghdr header;
	struct ndmsg body;
	struct rtattr attribute;
	uint8_t address[16];
};

static int take_neighbour(void *mac, const struct nlmsghdr *message)
{
	const struct ndmsg *body = NLMSG_DATA(message);
	const struct rtattr *attribute = (const void *)((const char *)body + NLMSG_ALIGN(sizeof(*body)));
	int left = (int)NLMSG_PAYLOAD(message, sizeof(*body));

	if (message->nlmsg_type != RTM_NEWNEIGH)
		return -EHOSTUNREACH;
	for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
		if (attribute->rta_type == NDA_LLADDR && RTA_PAYLOAD(attribute) >= 6) {
			memcpy(mac, RTA_DATA(attribute), 6);
			return 0;
		}
	}
	return -EHOSTUNREACH;
}

int vb_neighbour_lookup(const uint8_t address[16], uint32_t interface_index, uint8_t mac[6])
{
	bool ipv4 = vb_gid_is_ipv4(address);
	size_t length = ipv4 ? 4 : 16;
	struct question question = {
		.header = {
			.nlmsg_len = (uint32_t)(offsetof(struct question, address) + length),
			.nlmsg_type = RTM_GETNEIGH,
			.nlmsg_flags = NLM_F_REQUEST,
		},
		.body = {.ndm_family = ipv4 ? AF_INET : AF_INET6, .ndm_ifindex = (int)interface_index},
		.attribute = {.rta_type = NDA_DST, .rta_len = (unsigned short)RTA_LENGTH(length)},
	};
	int error;

	memcpy(question.address, address + (ipv4 ? 12 : 0), length);
	error = vb_rtnetlink_ask(&question.header, take_neighbour, mac);
	/* No entry, no such interface, none with neighbours. */
	return error == -ENOENT || error == -ENODEV || error == -ENXIO || error == -EINVAL ? -EHOSTUNREACH : error;
}
