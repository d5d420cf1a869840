/* SPDX-License-Identifier: MIT
 *
 * Traps (IBA 13.4.9, 14.2.5.1): a node tells the subnet manager that something has changed, again and again until it is told to stop.
 */
#ifndef VB_FABRIC_TRAPS_H
#define VB_FABRIC_TRAPS_H

#include "base/time.h"
#include "fabric/node.h"

void vb_fabric_trap_begin(struct vb_fabric_node *node, uint16_t number, vb_time now);
/* TrapRepress. */
void vb_fabric_trap_end(struct vb_fabric_node *node, const struct vb_mad *repress);
void vb_fabric_trap_expire(struct vb_fabric_node *node, vb_time now);

#endif
