/* SPDX-License-Identifier: MIT
 *
 * ibv_resolve_eth_l2_from_gid: which Ethernet address stands behind a GID. The kernel does this for our own packets;
 * here its neighbour table is asked on behalf of programs that build their own.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "verbs/address.h"
#include "verbs/context.h"
#include "verbs/export.h"

struct neighbour_request {
	struct nlmsghdr header;
	struct ndmsg body;
	struct rtattr attribute;
	uint8_t address[16];
};

static int read_answer(int fd, uint8_t mac[6])
{
	char buffer[4096] __attribute__((aligned(NLMSG_ALIGNTO)));
	ssize_t length = recv(fd, buffer, sizeof(buffer), 0);
	struct nlmsghdr *header = (struct nlmsghdr *)(void *)buffer;
	struct rtattr *attribute;
	int room;

	if (length < 0)
		return -errno;
	if (!NLMSG_OK(header, (unsigned)length) || header->nlmsg_type != RTM_NEWNEIGH)
		return -EHOSTUNREACH;
	room = (int)(header->nlmsg_len - NLMSG_LENGTH(sizeof(struct ndmsg)));
	for (attribute = (struct rtattr *)(void *)((char *)NLMSG_DATA(header) + NLMSG_ALIGN(sizeof(struct ndmsg)));
	     RTA_OK(attribute, room); attribute = RTA_NEXT(attribute, room)) {
		if (attribute->rta_type == NDA_LLADDR && RTA_PAYLOAD(attribute) >= 6) {
			memcpy(mac, RTA_DATA(attribute), 6);
			return 0;
		}
	}
	return -EHOSTUNREACH;
}

static int ask_neighbour_table(const struct vb_path *path, uint32_t interface_index, uint8_t mac[6])
{
	bool ipv4 = vb_path_is_ipv4(path);
	size_t address_length = ipv4 ? 4 : 16;
	struct neighbour_request request = {
		.header = {
			.nlmsg_len = (uint32_t)(offsetof(struct neighbour_request, address) + address_length),
			.nlmsg_type = RTM_GETNEIGH,
			.nlmsg_flags = NLM_F_REQUEST,
		},
		.body = {.ndm_family = ipv4 ? AF_INET : AF_INET6, .ndm_ifindex = (int)interface_index},
		.attribute = {.rta_type = NDA_DST, .rta_len = (unsigned short)RTA_LENGTH(address_length)},
	};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), error;

	if (fd < 0)
		return -errno;
	memcpy(request.address, path->destination + (ipv4 ? 12 : 0), address_length);
	if (send(fd, &request, request.header.nlmsg_len, 0) < 0)
		error = -errno;
	else
		error = read_answer(fd, mac);
	close(fd);
	return error;
}

/* RFC 1112 6.4, RFC 2464 7. */
static void map_group(const struct vb_path *path, uint8_t mac[6])
{
	const uint8_t *gid = path->destination;

	if (vb_path_is_ipv4(path))
		memcpy(mac, (uint8_t[]){0x01, 0x00, 0x5e, gid[13] & 0x7f, gid[14], gid[15]}, 6);
	else
		memcpy(mac, (uint8_t[]){0x33, 0x33, gid[12], gid[13], gid[14], gid[15]}, 6);
}

static bool is_own(const struct vb_device_info *info, const uint8_t gid[16])
{
	for (uint32_t i = 0; i < info->gid_count; i++)
		if (memcmp(info->gid[i].gid, gid, 16) == 0)
			return true;
	return false;
}

VB_EXPORT int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
					  uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
	struct vb_device_info info;
	struct vb_path path;
	int error;

	if (context == NULL || attr == NULL || eth_mac == NULL)
		return -EINVAL;
	error = vb_address_resolve(context, attr, 0, &path);
	if (error != 0)
		return error;
	vb_context_info(context, &info);
	if (vb_gid_is_multicast(path.destination))
		map_group(&path, eth_mac);
	else if (is_own(&info, path.destination))
		memcpy(eth_mac, info.mac, sizeof(info.mac));
	else
		error = ask_neighbour_table(&path, info.interface_index, eth_mac);
	if (error == 0 && vid != NULL)
		*vid = 0xffff;           /* none: VLANs are interfaces of their own */
	return error;
}
