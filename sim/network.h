/* SPDX-License-Identifier: MIT
 *
 * Between the files of the simulator.
 */
#ifndef VB_SIM_NETWORK_H
#define VB_SIM_NETWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/events.h"

struct sim;
struct sim_host;
struct sim_packet;
struct vb_path;
struct vb_qp;

/* ---- engine.c ---- */

/* NULL: there is none. */
struct vb_qp *sim_qp_at(struct sim *sim, uint32_t qpn);
/* By what a packet says. */
struct vb_qp *sim_qp_of_packet(struct sim *sim, uint32_t destination_qpn);
struct sim_host *sim_host_at(struct sim *sim, const uint8_t address[16]);
/* Plan the QP's next deadline. */
void sim_arm(struct sim *sim, struct vb_qp *qp);
/* Let the QP send into sim->burst. Returns whether there is more. */
bool sim_send(struct sim *sim, struct vb_qp *qp);
/* To the engine. False: the packet is damaged. */
bool sim_deliver(struct sim *sim, struct sim_host *host, const struct sim_packet *packet);
/* Packets for the queue pair have come: it answers, or awaits its program. */
void sim_received(struct sim_host *host, struct vb_qp *qp);
/* Of what a burst's sink is given. */
struct sim_packet *sim_packet_of(struct sim *sim, const struct vb_path *path, const uint8_t *headers, size_t header_length,
				 size_t payload);

/* ---- direct.c ---- */

sim_handler sim_direct_arrive;
bool sim_direct_send(struct sim *sim, struct vb_qp *qp);

#endif
