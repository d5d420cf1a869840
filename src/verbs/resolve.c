/* SPDX-License-Identifier: MIT
 *
 * ibv_resolve_eth_l2_from_gid: which Ethernet address stands behind a GID. The kernel does this for our own packets;
 * here its neighbour table is asked on behalf of programs that build their own.
 */
#include <errno.h>
#include <string.h>

#include "io/cancellation.h"
#include "io/neighbour_table.h"
#include "verbs/address.h"
#include "verbs/context.h"
#include "verbs/export.h"

/* RFC 1112 6.4, RFC 2464 7. */
static void map_group(const struct vb_path *path, uint8_t mac[6])
{
	const uint8_t *gid = path->destination;

	if (vb_path_is_ipv4(path))
		memcpy(mac, (uint8_t[]){0x01, 0x00, 0x5e, gid[13] & 0x7f, gid[14], gid[15]}, 6);
	else
		memcpy(mac, (uint8_t[]){0x33, 0x33, gid[12], gid[13], gid[14], gid[15]}, 6);
}

VB_EXPORT int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
					  uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
	VB_UNCANCELLED;
	struct vb_device_info info;
	struct vb_path path;
	int error;

	if (context == NULL || attr == NULL || eth_mac == NULL)
		return -EINVAL;
	error = vb_address_resolve(context, attr, 0, 0, &path);
	if (error != 0)
		return error;
	vb_context_info(context, &info);
	if (vb_gid_is_multicast(path.destination))
		map_group(&path, eth_mac);
	else if (vb_address_is_own(&info, path.destination))
		memcpy(eth_mac, info.mac, sizeof(info.mac));
	else
		error = vb_neighbour_lookup(path.destination, info.interface_index, eth_mac);
	if (error == 0 && vid != NULL)
		*vid = 0xffff;           /* none: VLANs are interfaces of their own */
	return error;
}
