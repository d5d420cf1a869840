/* SPDX-License-Identifier: MIT
 *
 * A host's adapter at the end of a line. It asks one queue pair after the other for a packet whenever the line can take one, so
 * what PFC holds up stays in the queue pairs, and hands what arrives to the engine at once.
 */
#ifndef VB_SIM_NIC_H
#define VB_SIM_NIC_H

#include "base/time.h"

struct sim_host;
struct sim_port;

/* Give the host a port. */
void sim_nic_attach(struct sim_host *host, struct sim_port *port);
/* From now on it tells its switch to pause, again and again: a broken adapter. */
void sim_nic_begin_storm(struct sim_host *host);

#endif
