/* SPDX-License-Identifier: MIT
 *
 * Set(PortInfo): which fields a subnet manager may write, and what each may hold (IBA 14.2.5.6).
 */
#ifndef VB_FABRIC_PORT_INFO_H
#define VB_FABRIC_PORT_INFO_H

#include "base/time.h"
#include "fabric/node.h"

/* The status of the answer; unless it is VB_MAD_OK nothing has changed. */
uint16_t vb_port_info_set(struct vb_fabric_port *port, const struct vb_port_info *wanted, vb_time now);

#endif
