/* SPDX-License-Identifier: MIT
 *
 * rtnetlink(7): dumps of links and addresses, parsed into a list. A change notification is never interpreted, it only
 * says that it is time for a new dump: what was lost in between does no harm.
 */
#include "io/netlink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/ipv6.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/descriptor.h"
#include "io/rtnetlink.h"

struct collection {
	struct vb_interface *list;
	unsigned count, room;
};

int vb_netlink_watch(void)
{
	struct sockaddr_nl address = {
		.nl_family = AF_NETLINK,
		.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR,
	};
	int fd = vb_descriptor_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE), error;

	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	error = -errno;
	close(fd);
	return error;
}

bool vb_netlink_drain(int fd)
{
	char bytes[8192];
	bool changed = false;

	for (;;) {
		ssize_t got = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT | MSG_TRUNC);

		if (got < 0 && errno == EAGAIN)
			return changed;
		if (got < 0 && errno != EINTR && errno != ENOBUFS)
			return changed;
		changed = true;
	}
}

static struct vb_interface *find_interface(struct collection *into, uint32_t index)
{
	for (unsigned i = 0; i < into->count; i++)
		if (into->list[i].index == index)
			return &into->list[i];
	return NULL;
}

/* An address family's part of IFLA_AF_SPEC: its settings of this interface, or NULL where it is not on it. */
static const struct rtattr *find_attribute(const struct rtattr *in, unsigned type)
{
	int left = (int)RTA_PAYLOAD(in);

	for (const struct rtattr *a = RTA_DATA(in); RTA_OK(a, left); a = RTA_NEXT(a, left))
		if ((a->rta_type & NLA_TYPE_MASK) == type)
			return a;
	return NULL;
}

static bool has_ipv6(const struct rtattr *families)
{
	const struct rtattr *ipv6 = find_attribute(families, AF_INET6);
	const struct rtattr *settings = ipv6 ? find_attribute(ipv6, IFLA_INET6_CONF) : NULL;
	int32_t disabled = 0;

	if (!settings || RTA_PAYLOAD(settings) < (DEVCONF_DISABLE_IPV6 + 1) * sizeof(disabled))
		return false;
	memcpy(&disabled, (const uint8_t *)RTA_DATA(settings) + DEVCONF_DISABLE_IPV6 * sizeof(disabled), sizeof(disabled));
	return disabled == 0;
}

static int take_link(struct collection *into, const struct nlmsghdr *header)
{
	const struct ifinfomsg *link = NLMSG_DATA(header);
	struct vb_interface *interface;
	int left = (int)IFLA_PAYLOAD(header);

	if (find_interface(into, (uint32_t)link->ifi_index))
		return 0;
	if (into->count == into->room) {
		unsigned room = into->room ? into->room * 2 : 16;
		struct vb_interface *larger = realloc(into->list, room * sizeof(*larger));

		if (!larger)
			return -ENOMEM;
		into->list = larger;
		into->room = room;
	}
	interface = &into->list[into->count];
	memset(interface, 0, sizeof(*interface));
	interface->index = (uint32_t)link->ifi_index;
	interface->is_ethernet = link->ifi_type == ARPHRD_ETHER;
	interface->is_loopback = link->ifi_type == ARPHRD_LOOPBACK;
	interface->is_up = link->ifi_flags & IFF_UP;
	interface->is_running = link->ifi_flags & IFF_RUNNING;
	for (const struct rtattr *a = IFLA_RTA(link); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
		if (a->rta_type == IFLA_IFNAME)
			memcpy(interface->name, RTA_DATA(a), strnlen(RTA_DATA(a), sizeof(interface->name) - 1));
		else if (a->rta_type == IFLA_MTU && RTA_PAYLOAD(a) == sizeof(uint32_t))
			memcpy(&interface->mtu, RTA_DATA(a), sizeof(uint32_t));
		else if (a->rta_type == IFLA_ADDRESS && RTA_PAYLOAD(a) == 6)
			memcpy(interface->mac, RTA_DATA(a), 6);
		else if (a->rta_type == IFLA_AF_SPEC)
			interface->takes_link_local = interface->is_ethernet && has_ipv6(a);
	}
	if (interface->name[0] != '\0')
		into->count++;
	return 0;
}

/* IPv6 addresses still under duplicate address detection, or that failed it, cannot be sent from (RFC 4862 5.4). */
static bool address_is_usable(const struct ifaddrmsg *message, uint32_t flags)
{
	if (message->ifa_family != AF_INET6)
		return message->ifa_family == AF_INET;
	return (flags & IFA_F_DADFAILED) == 0 && ((flags & IFA_F_TENTATIVE) == 0 || (flags & IFA_F_OPTIMISTIC) != 0);
}

static void take_address(struct collection *into, const struct nlmsghdr *header)
{
	const struct ifaddrmsg *message = NLMSG_DATA(header);
	struct vb_interface *interface = find_interface(into, message->ifa_index);
	int left = (int)IFA_PAYLOAD(header);
	const struct rtattr *local = NULL, *address = NULL;
	uint32_t flags = message->ifa_flags;
	uint8_t *gid;

	if (!interface || interface->addresses == VB_INTERFACE_ADDRESSES)
		return;
	for (const struct rtattr *a = IFA_RTA(message); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
		if (a->rta_type == IFA_LOCAL)
			local = a;
		else if (a->rta_type == IFA_ADDRESS)
			address = a;
		else if (a->rta_type == IFA_FLAGS && RTA_PAYLOAD(a) == sizeof(flags))
			memcpy(&flags, RTA_DATA(a), sizeof(flags));
	}
	/* On point-to-point links IFA_ADDRESS is the peer's and IFA_LOCAL ours. */
	if (local)
		address = local;
	if (!address || !address_is_usable(message, flags))
		return;
	gid = interface->address[interface->addresses];
	if (message->ifa_family == AF_INET && RTA_PAYLOAD(address) == 4) {
		gid[10] = gid[11] = 0xff;
		memcpy(gid + 12, RTA_DATA(address), 4);
	} else if (message->ifa_family == AF_INET6 && RTA_PAYLOAD(address) == 16) {
		memcpy(gid, RTA_DATA(address), 16);
	} else {
		return;
	}
	interface->addresses++;
}

static void forget_links(void *context)
{
	struct collection *into = context;

	into->count = 0;
}

static int collect_link(void *into, const struct nlmsghdr *message)
{
	return message->nlmsg_type == RTM_NEWLINK ? take_link(into, message) : 0;
}

static void forget_addresses(void *context)
{
	struct collection *into = context;

	for (unsigned i = 0; i < into->count; i++) {
		into->list[i].addresses = 0;
		memset(into->list[i].address, 0, sizeof(into->list[i].address));
	}
}

static int collect_address(void *into, const struct nlmsghdr *message)
{
	if (message->nlmsg_type == RTM_NEWADDR)
		take_address(into, message);
	return 0;
}

/* Asked by ioctl, because /sys shows the namespace it was mounted in, which need not be ours. */
static uint32_t ask_speed(int fd, const char *name)
{
	struct ethtool_cmd command = {.cmd = ETHTOOL_GSET};
	struct ifreq request = {.ifr_data = (void *)&command};
	uint32_t speed;

	memcpy(request.ifr_name, name, strnlen(name, sizeof(request.ifr_name) - 1));
	if (ioctl(fd, SIOCETHTOOL, &request) != 0)
		return 0;
	speed = ethtool_cmd_speed(&command);
	return speed == (uint32_t)SPEED_UNKNOWN ? 0 : speed;
}

static int by_index(const void *a, const void *b)
{
	const struct vb_interface *one = a, *other = b;

	return one->index < other->index ? -1 : one->index > other->index;
}

int vb_netlink_interfaces(struct vb_interface **list, unsigned *count)
{
	struct collection found = {0};
	int error = vb_rtnetlink_dump(RTM_GETLINK, forget_links, collect_link, &found), fd;

	if (error == 0)
		error = vb_rtnetlink_dump(RTM_GETADDR, forget_addresses, collect_address, &found);
	if (error != 0) {
		free(found.list);
		return error;
	}
	fd = vb_descriptor_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	for (unsigned i = 0; fd >= 0 && i < found.count; i++)
		if (!found.list[i].is_loopback)
			found.list[i].speed_mbps = ask_speed(fd, found.list[i].name);
	if (fd >= 0)
		close(fd);
	if (found.count > 0)
		qsort(found.list, found.count, sizeof(*found.list), by_index);
	*list = found.list;
	*count = found.count;
	return 0;
}
