/* SPDX-License-Identifier: MIT
 *
 * Work of every kind from one queue pair to another, and a model of what memory must hold then:
 *
 *   work that completed with success    the bytes are there, once, and stay
 *   an atomic                           was done once if it succeeded, at most once if not
 *   any other work                      completed with an error, or its queue pair is gone; no byte outside its range changed,
 *                                       or outside its receive
 *   any work                            completes in the time that its timeouts leave it
 */
#ifndef VB_TESTS_SIM_MODEL_H
#define VB_TESTS_SIM_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/sim.h"

enum {
	FLOW_OPERATIONS = 160,           /* at most */
	FLOW_DEPTH = 16,
	FLOW_COMPLETIONS = 4 * FLOW_DEPTH,
};

enum flow_state { FLOW_UNUSED, FLOW_POSTED, FLOW_SUCCEEDED, FLOW_FAILED, FLOW_GONE };

struct flow_operation {
	enum flow_state state;
	enum ibv_wr_opcode opcode;
	uint32_t length;
	bool received;                   /* SEND: the receiver's completion said so */
};

/* Work goes from a to b. */
struct flow {
	struct sim *sim;
	struct vb_qp *a, *b;             /* NULL: that end is gone */
	struct vb_cq *a_cq, *b_cq;       /* nobody else's; NULL: gone, too */
	struct sim_region source, target;/* of `source` the second half is what the target holds at first */
	struct flow_operation operation[FLOW_OPERATIONS];
	uint32_t operations;             /* that it has places for */
	uint32_t posted, completed;      /* of `posted`, how many have been spoken for, in order */
	uint32_t received;
	vb_time progressed;              /* when work last completed, or was posted where there was none */
	uint64_t counter_least, counter_most;
};

/* Memory for so many operations; queue pairs and completion queues are the caller's to set. */
void flow_open(struct flow *flow, struct sim_host *from, struct sim_host *to, uint32_t operations);
/* Looks at all of it once more. */
void flow_close(struct flow *flow);

/* One more, if both ends are ready and there is a place left. */
void flow_post(struct flow *flow);
/* Take what has completed, and look at it. */
void flow_poll(struct flow *flow);
bool flow_is_ready(const struct flow *flow);
void flow_check(struct flow *flow);
/* All places used, and all work spoken for: once more from the first. Copies of packets that are still under way must change nothing. */
void flow_begin_again(struct flow *flow);
/* The queue pair ends without a word: what was posted there is spoken of no more. */
void flow_vanish(struct flow *flow, bool sender);

#endif
