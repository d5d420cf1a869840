/* SPDX-License-Identifier: MIT
 *
 * Random work between two connected QPs, and the proof that each piece of it happened exactly once and in order:
 * every message has a place of its own on both sides, an atomic counter tells how often it was raised, and
 * completions are numbered.
 */
#ifndef VB_SIM_TRAFFIC_H
#define VB_SIM_TRAFFIC_H

#include "sim/testing.h"

enum { TRAFFIC_SLOT = 40000, TRAFFIC_MAX_WORK = 256 };

/* What one side sends to the other. */
struct traffic {
	struct sim *sim;
	struct vb_qp *from, *to;
	struct vb_cq *from_cq, *to_cq;   /* nobody else's */
	struct sim_region source, target; /* a slot per piece of work; target: 8 bytes more at the end, the counter */
	struct sim_region result;
	uint32_t work;                   /* pieces */
	uint32_t max_length;
	struct {
		enum ibv_wr_opcode opcode;
		uint32_t length;
	} piece[TRAFFIC_MAX_WORK];
	uint32_t posted, completed, atomics;
	uint32_t messages, received;     /* that take a receive */
	uint32_t receives_posted;
	uint32_t message_of[TRAFFIC_MAX_WORK];
};

/* The CQs are made here: create the QPs with them. */
void traffic_open(struct traffic *traffic, struct sim_host *from, struct sim_host *to);
/* Draw the work. Operations: a mask of 1 << IBV_WR_*. */
void traffic_plan(struct traffic *traffic, struct vb_qp *from, struct vb_qp *to, uint32_t work, uint32_t max_length,
		  unsigned operations);
/* Post as much as fits, poll what is there and check it. Returns whether all is done. */
bool traffic_step(struct traffic *traffic);
/* Compare all bytes. */
void traffic_verify(struct traffic *traffic);
void traffic_close(struct traffic *traffic);

#define TRAFFIC_ALL                                                                                  \
	(1u << IBV_WR_SEND | 1u << IBV_WR_SEND_WITH_IMM | 1u << IBV_WR_RDMA_WRITE |                  \
	 1u << IBV_WR_RDMA_WRITE_WITH_IMM | 1u << IBV_WR_RDMA_READ | 1u << IBV_WR_ATOMIC_FETCH_AND_ADD)

#endif
