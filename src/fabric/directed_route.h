/* SPDX-License-Identifier: MIT
 *
 * Directed routes (IBA 14.2.2): the SMP itself says by which ports it goes, and notes by which it came.
 *
 *   outgoing   hop pointer 0 .. hop count + 1; left by InitialPath[pointer], ReturnPath[pointer] = where it came in
 *   returning  hop pointer hop count + 1 .. 0; left by ReturnPath[pointer]
 *
 * Before the directed part there may be one by LID, up to the switch that LRH.DLID names (then DrSLID is not
 * permissive), and one behind it, to DrDLID.
 */
#ifndef VB_FABRIC_DIRECTED_ROUTE_H
#define VB_FABRIC_DIRECTED_ROUTE_H

#include <stdint.h>

#include "fabric/node.h"

enum vb_route_step {
	VB_ROUTE_DROP,
	VB_ROUTE_HERE,                     /* for this node: its agent if outgoing, its manager if returning */
	VB_ROUTE_PORT,                     /* leave by that port */
	VB_ROUTE_LID,                      /* leave by the LID */
};

struct vb_route_decision {
	enum vb_route_step step;
	uint8_t port;
	uint16_t lid;
};

/* An SMP has come in by port number `in`; what it carries is brought up to date. */
struct vb_route_decision vb_directed_route_receive(const struct vb_fabric_node *node, uint8_t in, struct vb_mad *mad);
/* The node sends an SMP: a request of its own (pointer 0) or an answer. */
struct vb_route_decision vb_directed_route_send(const struct vb_fabric_node *node, struct vb_mad *mad);

#endif
