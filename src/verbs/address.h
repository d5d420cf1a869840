/* SPDX-License-Identifier: MIT
 *
 * From the address attributes of the API to a path.
 */
#ifndef VB_VERBS_ADDRESS_H
#define VB_VERBS_ADDRESS_H

#include "verbs/objects.h"

/* destination_qpn: 0 where it is not known yet (address handles). lane: of the queue pair that sends. 0, -EINVAL, or of groups as below. */
int vb_address_resolve(struct ibv_context *context, const struct ibv_ah_attr *attr, uint32_t destination_qpn,
		       unsigned lane, struct vb_path *path);

/* From where datagrams to that queue pair leave. An address handle leads to a host, its datagrams to the processes there: whose packets
 * must not share a source port is only known from each request's QPN. */
static inline uint16_t vb_address_source_port(struct vb_endpoint *endpoint, struct vb_address_handle *ah, uint32_t destination_qpn)
{
	/* Most go where the one before went; port and QPN are one word, which any thread may replace by another that is as true. */
	uint64_t known = __atomic_load_n(&ah->leaves_by, __ATOMIC_RELAXED);
	uint16_t port = (uint16_t)known;

	if (port != 0 && known >> 16 == destination_qpn)
		return port;
	port = vb_endpoint_source_port(endpoint, &ah->ah.path, destination_qpn, 0);
	__atomic_store_n(&ah->leaves_by, (uint64_t)destination_qpn << 16 | port, __ATOMIC_RELAXED);
	return port;
}

/* Can datagrams for the group be sent from that device? 0 or -ENETUNREACH. */
int vb_address_check_group(struct ibv_context *context, const uint8_t gid[16]);

/* Is it one of the device's own? */
bool vb_address_is_own(const struct vb_device_info *info, const uint8_t gid[16]);

/* rdma_cm names IPv4 groups ff0e::ffff:a.b.c.d; on the wire they are IPv4. */
void vb_multicast_normalize(uint8_t gid[16]);

#endif
