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

/* Can datagrams for the group be sent from that device? 0 or -ENETUNREACH. */
int vb_address_check_group(struct ibv_context *context, const uint8_t gid[16]);

/* Is it one of the device's own? */
bool vb_address_is_own(const struct vb_device_info *info, const uint8_t gid[16]);

/* rdma_cm names IPv4 groups ff0e::ffff:a.b.c.d; on the wire they are IPv4. */
void vb_multicast_normalize(uint8_t gid[16]);

#endif
