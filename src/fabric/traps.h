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
/* Is one to be sent, first or again? From which port, where to, and what. NULL: not now. */
struct vb_fabric_port *vb_fabric_trap_take(struct vb_fabric_node *node, vb_time now, struct vb_mad_address *address, struct vb_mad *mad);

#endif
