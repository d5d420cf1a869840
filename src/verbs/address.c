/* SPDX-License-Identifier: MIT
 *
 * From ibv_ah_attr to a path. RoCE addresses are always global (RoCE annex A16.3): the source is an entry of the
 * GID table, the destination a GID, and both are IP addresses of one family. InfiniBand's are a LID, and a GID if asked for.
 */
#include "verbs/address.h"

#include <errno.h>
#include <string.h>

#include "io/neighbour.h"
#include "verbs/context.h"

/* Programs written for one subnet leave hop_limit at 0 or 1, and adapters put what the host's routes say in its
 * place. */
enum { DEFAULT_HOP_LIMIT = 64 };

/* As long as Linux takes for it (ARP, neighbour discovery): three questions, a second apart. */
#define LONGEST_RESOLUTION VB_SECONDS(3)

void vb_multicast_normalize(uint8_t gid[16])
{
	static const uint8_t middle[10] = {0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

	if (gid[0] == 0xff && memcmp(gid + 2, middle, sizeof(middle)) == 0)
		gid[0] = gid[1] = 0;
}

/* The kernel has no route for IPv6 groups on the loopback, and with one that is added delivers nothing there. Each
 * datagram would be lost after its completion said SUCCESS: better told beforehand. */
int vb_address_check_group(struct ibv_context *context, const uint8_t gid[16])
{
	struct vb_context *own = vb_context_of(context);
	bool on_loopback = false;

	if (!vb_gid_is_multicast(gid) || vb_gid_is_ipv4(gid))
		return 0;
	vb_lock_take(&own->lock);
	for (uint32_t i = 0; i < own->info.gid_count; i++)
		on_loopback |= vb_gid_is_loopback(own->info.gid[i].gid);
	vb_lock_release(&own->lock);
	return on_loopback ? -ENETUNREACH : 0;
}

static bool is_link_local(const uint8_t gid[16])
{
	return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

static bool is_unset(const uint8_t gid[16])
{
	static const uint8_t unset[16];

	return memcmp(gid, unset, sizeof(unset)) == 0;
}

static void fill_global(const struct ibv_global_route *grh, struct vb_path *path)
{
	path->traffic_class = grh->traffic_class;
	path->flow_label = grh->flow_label & IB_GRH_FLOWLABEL_MASK;
	path->hop_limit = grh->hop_limit;
	memcpy(path->destination, grh->dgid.raw, sizeof(path->destination));
}

/* By LIDs (IBA 11.2.2.1). The port's state does not matter: an address may be made before the link is up, or kept while
 * it is down. */
static int resolve_local(const struct vb_device_info *info, const struct ibv_ah_attr *attr, struct vb_path *path)
{
	enum { PERMISSIVE = 0xffff, MOST_SL = 15 };
	uint8_t path_bits = (uint8_t)((1u << info->subnet.lmc) - 1);

	if (attr->dlid == 0 || attr->dlid == PERMISSIVE || attr->sl > MOST_SL)
		return -EINVAL;
	path->framing = attr->is_global ? VB_FRAMING_GLOBAL : VB_FRAMING_LOCAL;
	path->dlid = attr->dlid;
	path->slid = (uint16_t)(info->subnet.lid | (attr->src_path_bits & path_bits));
	path->sl = attr->sl;
	if (!attr->is_global)
		return 0;
	if (attr->grh.sgid_index >= info->gid_count)
		return -EINVAL;
	memcpy(path->source, info->gid[attr->grh.sgid_index].gid, sizeof(path->source));
	fill_global(&attr->grh, path);
	return is_unset(path->destination) ? -EINVAL : 0;
}

bool vb_address_is_own(const struct vb_device_info *info, const uint8_t gid[16])
{
	for (uint32_t i = 0; i < info->gid_count; i++)
		if (memcmp(info->gid[i].gid, gid, 16) == 0)
			return true;
	return false;
}

/* By GIDs that are IP addresses. */
static int resolve_global(struct ibv_context *context, const struct vb_device_info *info, const struct ibv_ah_attr *attr,
			  struct vb_path *path)
{
	int error;

	if (!attr->is_global)
		return -EINVAL;
	if (attr->grh.sgid_index < info->gid_count) {
		memcpy(path->source, info->gid[attr->grh.sgid_index].gid, sizeof(path->source));
		path->framing = info->gid[attr->grh.sgid_index].framing;
	}
	fill_global(&attr->grh, path);
	vb_multicast_normalize(path->destination);
	/* An interface does not hear its own frames. */
	if (path->framing == VB_FRAMING_ETHERNET && vb_address_is_own(info, path->destination))
		path->framing = VB_FRAMING_UDP;
	if (is_unset(path->source) || is_unset(path->destination) ||
	    vb_gid_is_ipv4(path->source) != vb_gid_is_ipv4(path->destination))
		return -EINVAL;
	if (path->hop_limit <= 1 && !vb_gid_is_multicast(path->destination))
		path->hop_limit = DEFAULT_HOP_LIMIT;
	if (path->hop_limit == 0)
		path->hop_limit = 1;
	if (path->framing == VB_FRAMING_ETHERNET || is_link_local(path->destination) || vb_gid_is_multicast(path->destination))
		path->interface_index = info->interface_index;
	error = vb_address_check_group(context, path->destination);
	if (error == 0)
		error = vb_endpoint_admits(vb_context_of(context)->session->endpoint, path);
	if (error != 0)
		return error;
	/* Datagrams wait in the kernel until it has an Ethernet address, frames do not. */
	if (path->framing == VB_FRAMING_ETHERNET && !vb_gid_is_multicast(path->destination))
		vb_neighbour_await(path, LONGEST_RESOLUTION);
	return 0;
}

int vb_address_resolve(struct ibv_context *context, const struct ibv_ah_attr *attr, uint32_t destination_qpn,
		       unsigned lane, struct vb_path *path)
{
	struct vb_device_info info;
	struct vb_path found = {0};
	int error;

	if (attr->port_num != 1)
		return -EINVAL;
	vb_context_info(context, &info);
	if (vb_profile_of_context(context)->addressing == VB_ADDRESS_LID)
		error = resolve_local(&info, attr, &found);
	else
		error = resolve_global(context, &info, attr, &found);
	if (error != 0)
		return error;
	found.source_port = vb_endpoint_source_port(vb_context_of(context)->session->endpoint, &found, destination_qpn, lane);
	*path = found;
	return 0;
}
