/* SPDX-License-Identifier: MIT
 *
 * For the simulator's tests: two connected hosts, and the few checks that all tests make.
 */
#ifndef VB_SIM_TESTING_H
#define VB_SIM_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/sim.h"

struct pair {
	struct sim *sim;
	struct sim_host *hosts[2];
	struct vb_cq *a_cq, *b_cq;
	struct vb_qp *a, *b;
	struct sim_region a_memory, b_memory;
	unsigned flags;                  /* of what pair_post posts */
};

/* Two hosts, one QP each, connected, with `memory` bytes each. */
void pair_open(struct pair *pair, uint64_t seed, bool ipv6, const struct sim_connection *connection, size_t memory);
/* The same without the connection. */
void pair_make(struct pair *pair, uint64_t seed, bool ipv6, enum ibv_qp_type type, size_t memory);
void pair_close(struct pair *pair);
/* Random bytes. */
void pair_fill(struct pair *pair, struct sim_region *region, size_t length);
/* From a: between the beginnings of both memories. Immediate data is 0xc0ffee00. */
void pair_post(struct pair *pair, enum ibv_wr_opcode opcode, uint32_t length, uint64_t wr_id);
void pair_post_at(struct pair *pair, enum ibv_wr_opcode opcode, uint64_t local, uint64_t remote, uint32_t length,
		  uint64_t wr_id);
void pair_post_atomic(struct pair *pair, enum ibv_wr_opcode opcode, uint64_t compare_add, uint64_t swap,
		      uint64_t wr_id);

/* One burst from one end to the other, at once. Tells how many packets, and adds the runs that they were. True: there is more. */
bool pair_carry(struct pair *pair, bool from_b, uint32_t *packets, uint32_t *runs);

/* The next completion is this one. */
void expect_send(struct vb_cq *cq, uint64_t wr_id, enum ibv_wc_status status);

#endif
