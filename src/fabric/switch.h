/* SPDX-License-Identifier: MIT
 *
 * How a switch forwards (IBA 18.2.4): by its linear table, by its multicast table, by the path in an SMP.
 */
#ifndef VB_FABRIC_SWITCH_H
#define VB_FABRIC_SWITCH_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/node.h"

enum {
	VB_SWITCH_DROP = -1,
	VB_SWITCH_SELF = 0,                /* port 0 */
};

/* The port by which a unicast LID is left, VB_SWITCH_SELF or VB_SWITCH_DROP. */
int vb_switch_unicast(const struct vb_fabric_node *node, uint16_t dlid);
/* Is `port` among those by which the group is left? */
bool vb_switch_is_member(const struct vb_fabric_node *node, uint16_t mlid, uint8_t port);

#endif
