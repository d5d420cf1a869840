/* SPDX-License-Identifier: MIT
 *
 * The subnet management agent of a node: one handler per row of wire/mad_attributes.h (IBA 14.2.5, 14.3).
 */
#ifndef VB_FABRIC_SMA_H
#define VB_FABRIC_SMA_H

#include "base/time.h"
#include "fabric/node.h"

enum vb_sma_answer {
	VB_SMA_ANSWERED,                   /* the SMP is the response now */
	VB_SMA_DROPPED,                    /* silence is the answer */
	VB_SMA_FOR_SM,                     /* a subnet manager's, if there is one on this node */
};

/* An SMP that came in by `port` (port 0: from the node itself). */
enum vb_sma_answer vb_sma_receive(struct vb_fabric_port *port, vb_time now, struct vb_mad *mad);

#endif
