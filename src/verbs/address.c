/* SPDX-License-Identifier: MIT
 *
 * From ibv_ah_attr to a path. RoCE addresses are always global (RoCE annex A16.3): the source is an entry of the
 * GID table, the destination a GID, and both are IP addresses of one family.
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

/* The kernel has no route for IPv6 groups on the loopback, and with one that is added delivers nothing there. Each datagram would be lost
 * after its completion said SUCCESS: better told beforehand. */
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

int vb_address_resolve(struct ibv_context *context, const struct ibv_ah_attr *attr, uint32_t destination_qpn,
		       struct vb_path *path)
{
	static const uint8_t nobody[16];
	struct vb_context *own = vb_context_of(context);
	struct vb_path found = {0};
	uint32_t interface_index;
	int error;

	if (!attr->is_global || attr->port_num != 1)
		return -EINVAL;
	vb_lock_take(&own->lock);
	if (attr->grh.sgid_index < own->info.gid_count) {
		memcpy(found.source, own->info.gid[attr->grh.sgid_index].gid, sizeof(found.source));
		found.framing = own->info.gid[attr->grh.sgid_index].framing;
	}
	interface_index = own->info.interface_index;
	vb_lock_release(&own->lock);

	memcpy(found.destination, attr->grh.dgid.raw, sizeof(found.destination));
	vb_multicast_normalize(found.destination);
	if (memcmp(found.source, nobody, sizeof(nobody)) == 0 ||
	    memcmp(found.destination, nobody, sizeof(nobody)) == 0 ||
	    vb_gid_is_ipv4(found.source) != vb_gid_is_ipv4(found.destination))
		return -EINVAL;
	found.traffic_class = attr->grh.traffic_class;
	found.hop_limit = attr->grh.hop_limit;
	if (found.hop_limit <= 1 && !vb_gid_is_multicast(found.destination))
		found.hop_limit = DEFAULT_HOP_LIMIT;
	if (found.hop_limit == 0)
		found.hop_limit = 1;
	found.flow_label = attr->grh.flow_label & IB_GRH_FLOWLABEL_MASK;
	if (found.framing == VB_FRAMING_ETHERNET || is_link_local(found.destination) || vb_gid_is_multicast(found.destination))
		found.interface_index = interface_index;
	error = vb_address_check_group(context, found.destination);
	if (error != 0)
		return error;
	/* Datagrams wait in the kernel until it has an Ethernet address, frames do not. */
	if (found.framing == VB_FRAMING_ETHERNET && !vb_gid_is_multicast(found.destination))
		vb_neighbour_await(&found, LONGEST_RESOLUTION);
	found.source_port = vb_endpoint_source_port(own->session->endpoint, &found, destination_qpn);
	*path = found;
	return 0;
}
