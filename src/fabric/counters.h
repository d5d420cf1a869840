/* SPDX-License-Identifier: MIT
 *
 * What a port counts, and the performance management agent that tells it (IBA 16.1).
 *
 * Counters of PortCounters stop at their largest value, those of PortCountersExtended have 64 bits. Data are counted
 * in words of four bytes, LRH to VCRC excluded.
 */
#ifndef VB_FABRIC_COUNTERS_H
#define VB_FABRIC_COUNTERS_H

#include <stdint.h>

struct vb_fabric_node;
struct vb_mad;

/* COUNTER(name): each row a field, told by both attributes where they have it. */
#define VB_FABRIC_COUNTERS(COUNTER)                                                                  \
	COUNTER(transmit_data) COUNTER(receive_data) COUNTER(transmit_packets) COUNTER(receive_packets) \
	COUNTER(unicast_transmit) COUNTER(unicast_receive) COUNTER(multicast_transmit) COUNTER(multicast_receive) \
	COUNTER(link_downed) COUNTER(receive_errors) COUNTER(relay_errors) COUNTER(transmit_discards) \
	COUNTER(transmit_constraints) COUNTER(receive_constraints) COUNTER(vl15_dropped) COUNTER(transmit_wait)

struct vb_fabric_counters {
#define COUNTER(name) uint64_t name;
	VB_FABRIC_COUNTERS(COUNTER)
#undef COUNTER
};

/* A Get or Set of class Performance Management; the MAD becomes the answer. */
void vb_fabric_counters_answer(struct vb_fabric_node *node, uint8_t arrival_port, struct vb_mad *mad);

#endif
