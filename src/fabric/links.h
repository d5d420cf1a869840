/* SPDX-License-Identifier: MIT
 *
 * The state machine of a port (IBA 7.2.7, as far as management sees it).
 *
 *   DOWN ── cable there, both ends enabled ─▶ INIT ── Set ARMED ─▶ ARMED ── Set ACTIVE ─▶ ACTIVE
 *     ▲                                        │                    │                       │
 *     └────────────── cable lost, or disabled ─┴────────────────────┴───────────────────────┘
 *
 * Set DOWN restarts the link: both ends are at INIT then. No other transition can be asked for.
 */
#ifndef VB_FABRIC_LINKS_H
#define VB_FABRIC_LINKS_H

#include <stdbool.h>

#include "base/time.h"
#include "fabric/node.h"

/* Is there a link, as far as cable and ends go? */
bool vb_fabric_link_is_up(const struct vb_fabric_port *port);
/* Look again at a port and its peer after something about their cable changed. */
void vb_fabric_link_update(struct vb_fabric_port *port, vb_time now);
/* Down and up again: INIT, at both ends where the other is in this process. */
void vb_fabric_link_restart(struct vb_fabric_port *port, vb_time now);
/* The same, and an end elsewhere is told to do so too. */
void vb_fabric_link_restart_both(struct vb_fabric_port *port, vb_time now);
/* May Set(PortInfo) ask for this? */
bool vb_fabric_port_may_become(const struct vb_fabric_port *port, unsigned state);
void vb_fabric_port_set_state(struct vb_fabric_port *port, enum vb_port_state state, vb_time now);
/* Programs and the owner are told. */
void vb_fabric_port_tell(struct vb_fabric_port *port, unsigned what, vb_time now);

#endif
