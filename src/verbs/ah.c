/* SPDX-License-Identifier: MIT
 *
 * Address handles, and finding out whom to answer from a received datagram.
 *
 * The first 40 bytes of a UD receive hold the GRH. For RoCE v2 over IPv6 that is the IPv6 header; over IPv4 the IPv4
 * header stands in the last 20 of them (RoCE annex A17.4.5.1).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <stdlib.h>
#include <string.h>

#include "io/cancellation.h"
#include "verbs/address.h"
#include "verbs/context.h"
#include "verbs/explain_objects.h"
#include "verbs/export.h"
#include "verbs/quota.h"

VB_EXPORT struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	VB_UNCANCELLED;
	struct vb_address_handle *ah;
	int error;

	if (pd == NULL || attr == NULL)
		return vb_fail_null(-EINVAL);
	error = vb_quota_take(pd->context, VB_COUNTED_AH);
	if (error != 0)
		return vb_fail_null(error);
	ah = calloc(1, sizeof(*ah));
	if (ah == NULL) {
		vb_quota_give(pd->context, VB_COUNTED_AH);
		return vb_fail_null(-ENOMEM);
	}
	error = vb_address_resolve(pd->context, attr, 0, 0, &ah->ah.path);
	if (error != 0) {
		free(ah);
		vb_quota_give(pd->context, VB_COUNTED_AH);
		vb_explain_no_ah(pd->context, attr, -error);
		return vb_fail_null(error);
	}
	ah->ah.pd = vb_pd_of(pd);
	ah->ah.service_level = attr->sl;
	ah->ah.source_gid_index = attr->grh.sgid_index;
	ah->base.context = pd->context;
	ah->base.pd = pd;
	vb_count_up(&ah->ah.pd->users);
	vb_domain_hold(vb_domain_of(pd));
	vb_context_hold(pd->context);
	return &ah->base;
}
VB_EXPORT_COMPAT(ibv_create_ah);

VB_EXPORT int ibv_destroy_ah(struct ibv_ah *ah)
{
	VB_UNCANCELLED;
	struct ibv_context *context;

	if (ah == NULL)
		return vb_fail_number(EINVAL);
	context = ah->context;
	vb_count_down(&vb_address_handle_of(ah)->ah.pd->users);
	vb_domain_put(vb_domain_of(ah->pd));
	free(ah);
	vb_quota_give(context, VB_COUNTED_AH);
	vb_context_put(context);
	return 0;
}
VB_EXPORT_COMPAT(ibv_destroy_ah);

enum { NEXT_HEADER_IBA = 0x1b }; /* IBA 8.3 */

struct addresses {
	uint8_t source[16], destination[16];
	uint8_t traffic_class;
	uint32_t flow_label;
	uint8_t framing;
};

static void map_ipv4(uint8_t gid[16], uint32_t network_order)
{
	memset(gid, 0, 10);
	memset(gid + 10, 0xff, 2);
	memcpy(gid + 12, &network_order, 4);
}

/* The version nibble of the IPv6 place decides: for IPv4 those bytes are not written as a header, so the IPv4
 * place must also look like one. */
static int read_grh(const struct ibv_grh *grh, struct addresses *found)
{
	const uint8_t *bytes = (const uint8_t *)grh;
	struct iphdr ipv4;
	bool is_frame;
	uint32_t word;

	memcpy(&ipv4, bytes + 20, sizeof(ipv4));
	memcpy(&word, bytes, sizeof(word));
	word = ntohl(word);
	is_frame = word >> 28 == 6 && grh->next_hdr == NEXT_HEADER_IBA;
	found->framing = is_frame ? VB_FRAMING_ETHERNET : VB_FRAMING_UDP;
	if (ipv4.version == 4 && ipv4.ihl == 5 && !is_frame && (word >> 28 != 6 || grh->next_hdr != IPPROTO_UDP)) {
		map_ipv4(found->source, ipv4.saddr);
		map_ipv4(found->destination, ipv4.daddr);
		found->traffic_class = ipv4.tos;
		found->flow_label = 0;
		return 0;
	}
	if (word >> 28 != 6)
		return -EINVAL;
	memcpy(found->source, grh->sgid.raw, sizeof(found->source));
	memcpy(found->destination, grh->dgid.raw, sizeof(found->destination));
	found->traffic_class = (uint8_t)(word >> 20);
	found->flow_label = word & IB_GRH_FLOWLABEL_MASK;
	return 0;
}

/* Our own address the datagram came to; for a multicast group, one of the same family and, if possible, of its
 * scope. Of that framing, or where the device has none of it, of another: to itself it speaks by UDP alone (address.c). */
static int find_source_index(const struct vb_device_info *info, const uint8_t destination[16], uint8_t framing)
{
	static const uint8_t hole[16];
	bool group = vb_gid_is_multicast(destination);
	int other = -1;

	for (uint32_t i = 0; i < info->gid_count; i++) {
		const uint8_t *gid = info->gid[i].gid;

		if (memcmp(gid, hole, sizeof(hole)) == 0)
			continue;
		if (group ? vb_gid_is_ipv4(gid) != vb_gid_is_ipv4(destination) : memcmp(gid, destination, 16) != 0)
			continue;
		if (info->gid[i].framing == framing)
			return (int)i;
		if (other < 0)
			other = (int)i;
	}
	return other;
}

/* False: it did not come to an address of ours. */
static bool fill_grh(const struct vb_device_info *info, const struct addresses *found, struct ibv_ah_attr *attr)
{
	int index = find_source_index(info, found->destination, found->framing);

	if (index < 0)
		return false;
	attr->is_global = 1;
	memcpy(attr->grh.dgid.raw, found->source, sizeof(found->source));
	attr->grh.sgid_index = (uint8_t)index;
	attr->grh.flow_label = found->flow_label;
	attr->grh.traffic_class = found->traffic_class;
	attr->grh.hop_limit = 0xff;
	return true;
}

VB_EXPORT int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc, struct ibv_grh *grh,
				  struct ibv_ah_attr *ah_attr)
{
	VB_UNCANCELLED;
	struct vb_device_info info;
	struct addresses found;
	struct ibv_ah_attr back;
	bool has_lids, has_grh;

	if (context == NULL || wc == NULL || ah_attr == NULL || port_num != 1)
		goto not_addressable;
	has_lids = vb_profile_of_context(context)->addressing == VB_ADDRESS_LID;
	has_grh = wc->wc_flags & IBV_WC_GRH;
	if (!has_grh && !has_lids)
		goto not_addressable;
	vb_context_info(context, &info);
	back = (struct ibv_ah_attr){
		.dlid = has_lids ? wc->slid : 0,
		.sl = wc->sl,
		.src_path_bits = wc->dlid_path_bits,
		.port_num = port_num,
	};
	if (has_grh && (grh == NULL || read_grh(grh, &found) != 0))
		goto not_addressable;
	/* The same header, of the other framing that has it. */
	if (has_grh && has_lids)
		found.framing = VB_FRAMING_GLOBAL;
	if (has_grh && !fill_grh(&info, &found, &back))
		goto not_addressable;
	*ah_attr = back;
	return 0;

not_addressable:
	vb_explain_no_answer_address(port_num, wc, grh);
	errno = EINVAL;
	return -1;
}

VB_EXPORT struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
					       uint8_t port_num)
{
	VB_UNCANCELLED;
	struct ibv_ah_attr attr;

	if (pd == NULL)
		return vb_fail_null(-EINVAL);
	if (ibv_init_ah_from_wc(pd->context, port_num, wc, grh, &attr) != 0)
		return NULL;
	return ibv_create_ah(pd, &attr);
}
