/* SPDX-License-Identifier: MIT
 *
 * One question, one answer. Lookups happen once per connection, never per packet.
 */
#include "io/route.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/rtnetlink.h"
#include "wire/path.h"

struct question {
	struct nlmsghdr header;
	struct rtmsg route;
	char attributes[128];
};

static void add_attribute(struct question *question, unsigned short type, const void *value, size_t length)
{
	struct rtattr *attribute = (struct rtattr *)(void *)((char *)question + NLMSG_ALIGN(question->header.nlmsg_len));

	attribute->rta_type = type;
	attribute->rta_len = (unsigned short)RTA_LENGTH(length);
	memcpy(RTA_DATA(attribute), value, length);
	question->header.nlmsg_len = (uint32_t)(NLMSG_ALIGN(question->header.nlmsg_len) + RTA_ALIGN(attribute->rta_len));
}

/* The part of a GID that is the address of its family. */
static const void *address_of(const uint8_t gid[16], size_t *length)
{
	bool ipv4 = vb_gid_is_ipv4(gid);

	*length = ipv4 ? 4 : 16;
	return ipv4 ? gid + 12 : gid;
}

static void gid_of(uint8_t gid[16], int family, const void *address)
{
	memset(gid, 0, 16);
	if (family == AF_INET) {
		gid[10] = gid[11] = 0xff;
		memcpy(gid + 12, address, 4);
	} else {
		memcpy(gid, address, 16);
	}
}

static int take_route(void *context, const struct nlmsghdr *header)
{
	struct vb_route *route = context;
	const struct rtmsg *message;
	const struct rtattr *attribute;
	int left;

	if (header->nlmsg_type != RTM_NEWROUTE || header->nlmsg_len < NLMSG_LENGTH(sizeof(*message)))
		return -EBADMSG;

	message = NLMSG_DATA(header);
	route->local = message->rtm_type == RTN_LOCAL;
	left = (int)RTM_PAYLOAD(header);
	for (attribute = RTM_RTA(message); RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
		size_t size = RTA_PAYLOAD(attribute);

		if (attribute->rta_type == RTA_OIF && size >= 4)
			memcpy(&route->interface_index, RTA_DATA(attribute), 4);
		else if (attribute->rta_type == RTA_PREFSRC && size >= (message->rtm_family == AF_INET ? 4u : 16u))
			gid_of(route->source, message->rtm_family, RTA_DATA(attribute));
		else if (attribute->rta_type == RTA_GATEWAY && size >= (message->rtm_family == AF_INET ? 4u : 16u))
			gid_of(route->next_hop, message->rtm_family, RTA_DATA(attribute));
	}
	return route->interface_index != 0 ? 0 : -ENETUNREACH;
}

int vb_route_lookup(const uint8_t destination[16], const uint8_t *source, uint32_t interface_index, struct vb_route *route)
{
	struct question question = {
		.header = {
			.nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg)),
			.nlmsg_type = RTM_GETROUTE,
			.nlmsg_flags = NLM_F_REQUEST,
		},
	};
	size_t length;
	const void *address = address_of(destination, &length);
	static const uint8_t none[16];
	int error;

	memset(route, 0, sizeof(*route));
	memcpy(route->next_hop, destination, 16);
	question.route.rtm_family = length == 4 ? AF_INET : AF_INET6;
	question.route.rtm_dst_len = (unsigned char)(length * 8);
	add_attribute(&question, RTA_DST, address, length);
	if (source != NULL) {
		size_t source_length;
		const void *from = address_of(source, &source_length);

		if (source_length != length)
			return -EINVAL;
		question.route.rtm_src_len = (unsigned char)(length * 8);
		add_attribute(&question, RTA_SRC, from, length);
	}
	if (interface_index != 0)
		add_attribute(&question, RTA_OIF, &interface_index, sizeof(interface_index));

	error = vb_rtnetlink_ask(&question.header, take_route, route);
	if (error == 0 && source != NULL)
		memcpy(route->source, source, 16);
	/* To an address of our own the kernel may name no source: it would use the address itself. */
	if (error == 0 && route->local && memcmp(route->source, none, 16) == 0)
		memcpy(route->source, destination, 16);
	return error;
}

int vb_route_interface_of(const uint8_t address[16], uint32_t preferred, uint32_t *interface_index)
{
	struct ifaddrs *list;
	uint32_t found = 0;

	if (getifaddrs(&list) != 0)
		return -errno;
	for (struct ifaddrs *entry = list; entry != NULL; entry = entry->ifa_next) {
		uint8_t gid[16];
		uint32_t index;

		if (entry->ifa_addr == NULL)
			continue;
		if (entry->ifa_addr->sa_family == AF_INET)
			gid_of(gid, AF_INET, &((struct sockaddr_in *)(void *)entry->ifa_addr)->sin_addr);
		else if (entry->ifa_addr->sa_family == AF_INET6)
			gid_of(gid, AF_INET6, &((struct sockaddr_in6 *)(void *)entry->ifa_addr)->sin6_addr);
		else
			continue;
		if (memcmp(gid, address, 16) != 0)
			continue;
		index = if_nametoindex(entry->ifa_name);
		if (found == 0 || index == preferred)
			found = index;
	}
	freeifaddrs(list);
	if (found == 0)
		return -EADDRNOTAVAIL;
	*interface_index = found;
	return 0;
}
