/* SPDX-License-Identifier: MIT
 *
 * Flows: RDMA WRITEs from one host to another over a queue pair of their own, so many bytes or for ever, with nothing but the real
 * engine under them.
 */
#ifndef VB_SIM_FLOW_H
#define VB_SIM_FLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/time.h"

struct sim;
struct sim_flow;
struct vb_cq;
struct vb_qp;

struct sim_flow {
	/* As planned. */
	char name[32];
	unsigned from, to;               /* hosts */
	vb_time starts;                  /* after the beginning */
	uint64_t size;                   /* bytes; 0: for ever */
	uint32_t message;                /* bytes of a WRITE at most */

	/* As it goes. */
	struct sim_flows *of;
	struct vb_qp *sender, *receiver;
	struct vb_cq *cq;
	bool failed;
	vb_time began, ended;            /* 0: not yet */
	uint64_t posted;                 /* bytes */
	uint64_t messages;               /* WRITEs that were acknowledged */
	uint32_t under_way;              /* WRITEs */
	uint32_t first_psn;
	uint64_t delivered;              /* bytes that the receiver has in order, when last looked at */
};

struct sim_flows {
	struct sim *sim;
	struct sim_flow *flow;
	unsigned count, room;
	unsigned finished, failed;
	unsigned mtu;                    /* code: enum ibv_mtu */
	vb_time origin;                  /* when time began */
	uint32_t *source, *target;       /* keys, by host; 0: not made yet */
};

struct sim_flows *sim_flows_new(struct sim *sim);
void sim_flows_free(struct sim_flows *flows);
/* A copy is kept. */
struct sim_flow *sim_flows_add(struct sim_flows *flows, const struct sim_flow *flow);
/* Plan their beginnings, from now on. All hosts are there. */
void sim_flows_start(struct sim_flows *flows);
/* Bytes that the receiver has, by the PSN that it expects. */
uint64_t sim_flow_delivered(struct sim_flow *flow);
/* What congestion control lets it send at, in bits a second; 0: no limit, or not begun. */
uint64_t sim_flow_rate(const struct sim_flow *flow);

#endif
