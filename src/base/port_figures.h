/* SPDX-License-Identifier: MIT
 *
 * What /sys/class/infiniband/DEVICE/ports/1/counters tells: the counters of a port (IBA 16.1.3.5 and 16.1.4.11), under the kernel's
 * names (Documentation/ABI/stable/sysfs-class-infiniband). Data is in words of four bytes. There are files for what is counted, and
 * for nothing else.
 */
#ifndef VB_BASE_PORT_FIGURES_H
#define VB_BASE_PORT_FIGURES_H

#include <stdint.h>

/* Of every device. */
#define VB_PORT_FIGURES_OF_ALL(X) \
	X(port_xmit_data) X(port_rcv_data) X(port_xmit_packets) X(port_rcv_packets) X(port_xmit_discards) X(link_downed)

/* Of InfiniBand besides: what the port's performance management agent counts. */
#define VB_PORT_FIGURES_OF_SUBNETS(X)                                                                                     \
	X(unicast_xmit_packets) X(unicast_rcv_packets) X(multicast_xmit_packets) X(multicast_rcv_packets) X(port_rcv_errors) \
	X(port_rcv_switch_relay_errors) X(port_xmit_constraint_errors) X(port_rcv_constraint_errors) X(VL15_dropped)         \
	X(port_xmit_wait)

struct vb_port_figures {
#define X(name) uint64_t name;
	VB_PORT_FIGURES_OF_ALL(X)
	VB_PORT_FIGURES_OF_SUBNETS(X)
#undef X
};

#endif
