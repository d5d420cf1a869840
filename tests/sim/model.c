/* SPDX-License-Identifier: MIT
 *
 * Each piece of work has a place of its own at both ends, with a margin that nobody may touch; atomics raise a counter behind the last.
 */
#include "sim/model.h"

#include <endian.h>
#include <string.h>

#include "queue/qp.h"
#include "sim/world.h"

enum { PLACE = 6144, MARGIN = 64 };

/* The longest timeout that worlds set, 134 ms and four times that (IBA 9.7.6.1.3), for each of eight attempts, is four seconds; a host
 * stands still for less than one; and of the packets of a message some may be lost again. */
#define PATIENCE VB_SECONDS(30)

static uint8_t *place(const struct sim_region *region, uint32_t index)
{
	return region->bytes + (size_t)index * PLACE;
}

static size_t places(const struct flow *flow)
{
	return (size_t)flow->operations * PLACE;
}

static void fill(struct sim *sim, uint8_t *bytes, size_t length)
{
	for (size_t at = 0; at + 4 <= length; at += 4) {
		uint32_t word = sim_random(sim);

		memcpy(bytes + at, &word, 4);
	}
}

static void fill_places(struct flow *flow)
{
	fill(flow->sim, flow->source.bytes, flow->source.length);
	memcpy(flow->target.bytes, flow->source.bytes + places(flow), places(flow));
}

void flow_open(struct flow *flow, struct sim_host *from, struct sim_host *to, uint32_t operations)
{
	memset(flow, 0, sizeof(*flow));
	flow->sim = from->sim;
	flow->operations = operations;
	flow->source = sim_region(from, 2 * places(flow), SIM_ALL_ACCESS);
	flow->target = sim_region(to, places(flow) + 8, SIM_ALL_ACCESS);
	fill_places(flow);
}

bool flow_is_ready(const struct flow *flow)
{
	return flow->a && flow->b && flow->a->state == IBV_QPS_RTS && flow->b->state == IBV_QPS_RTS;
}

static uint64_t counter(const struct flow *flow)
{
	uint64_t value;

	memcpy(&value, flow->target.bytes + places(flow), sizeof(value));
	return value;
}

void flow_post(struct flow *flow)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
						     IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD};
	struct sim *sim = flow->sim;
	uint32_t index = flow->posted;
	struct flow_operation *operation = &flow->operation[index];
	struct ibv_sge sge = {(uintptr_t)place(&flow->source, index), 0, flow->source.key};
	struct ibv_send_wr wr = {.wr_id = index, .sg_list = &sge, .num_sge = 1, .imm_data = htobe32(index),
				 .send_flags = IBV_SEND_SIGNALED | (sim_below(sim, 8) == 0 ? IBV_SEND_FENCE : 0)};

	if (index == flow->operations || index - flow->completed >= FLOW_DEPTH || !flow_is_ready(flow))
		return;
	operation->opcode = wr.opcode = opcodes[sim_below(sim, 6)];
	operation->length = sim_below(sim, 4) == 0 ? sim_below(sim, 16) : sim_below(sim, PLACE - MARGIN);
	operation->state = FLOW_POSTED;
	wr.wr.rdma.remote_addr = (uintptr_t)place(&flow->target, index);
	wr.wr.rdma.rkey = flow->target.key;
	if (wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		operation->length = 8;
		wr.wr.atomic.remote_addr = (uintptr_t)flow->target.bytes + places(flow);
		wr.wr.atomic.rkey = flow->target.key;
		wr.wr.atomic.compare_add = 1;
		flow->counter_most++;
	}
	sge.length = operation->length;
	/* Each receive is for this message: they are taken in order. */
	if (wr.opcode == IBV_WR_SEND || wr.opcode == IBV_WR_SEND_WITH_IMM || wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		CHECK(sim_post_receive(flow->b, place(&flow->target, index), PLACE - MARGIN, flow->target.key, index) == 0);
	CHECK(sim_post_send(flow->a, &wr) == 0);
	if (flow->posted++ == flow->completed)
		flow->progressed = sim->now;
}

/* What somebody wrote where nobody should have. */
static void describe(struct flow *flow, uint32_t index, uint32_t from)
{
	const struct flow_operation *operation = &flow->operation[index];
	const uint8_t *source = place(&flow->source, index), *target = place(&flow->target, index);
	const uint8_t *before = place(&flow->source, flow->operations + index);
	uint32_t first = PLACE, last = 0, count = 0, like_source = 0;

	for (uint32_t at = from; at < PLACE; at++) {
		if (target[at] == before[at])
			continue;
		first = at < first ? at : first;
		last = at;
		count++;
		like_source += target[at] == source[at];
	}
	fprintf(stderr, "operation %u of %u, opcode %d, %u bytes, state %d: ", index, flow->posted, (int)operation->opcode,
		operation->length, (int)operation->state);
	fprintf(stderr, "%u bytes from %u to %u were changed, %u of them are the source's\n", count, first, last, like_source);
}

static void check_place(struct flow *flow, uint32_t index)
{
	const struct flow_operation *operation = &flow->operation[index];
	const uint8_t *source = place(&flow->source, index), *target = place(&flow->target, index);
	const uint8_t *before = place(&flow->source, flow->operations + index);
	uint32_t untouched = operation->length;

	if (operation->state == FLOW_UNUSED || operation->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || operation->opcode == IBV_WR_RDMA_READ)
		untouched = 0;
	/* Behind a message a receive may hold rubbish of a damaged packet (roce/bulk_receive.c), up to its own end. */
	else if (operation->opcode == IBV_WR_SEND || operation->opcode == IBV_WR_SEND_WITH_IMM)
		untouched = PLACE - MARGIN;
	if (operation->state == FLOW_SUCCEEDED && operation->opcode != IBV_WR_ATOMIC_FETCH_AND_ADD)
		CHECK(memcmp(source, target, operation->length) == 0);
	/* Nothing behind it. */
	if (memcmp(target + untouched, before + untouched, PLACE - untouched) != 0)
		describe(flow, index, untouched);
	CHECK(memcmp(target + untouched, before + untouched, PLACE - untouched) == 0);
}

void flow_check(struct flow *flow)
{
	for (uint32_t index = 0; index < flow->operations; index++)
		check_place(flow, index);
}

static void end_operation(struct flow *flow, uint32_t index, enum ibv_wc_status status)
{
	struct flow_operation *operation = &flow->operation[index];

	CHECK(index == flow->completed && index < flow->posted && operation->state == FLOW_POSTED);
	operation->state = status == IBV_WC_SUCCESS ? FLOW_SUCCEEDED : FLOW_FAILED;
	flow->completed++;
	flow->progressed = flow->sim->now;
	world_counts.operations++;
	world_counts.succeeded += status == IBV_WC_SUCCESS;
	if (operation->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD && status == IBV_WC_SUCCESS)
		flow->counter_least++;
	if (status == IBV_WC_SUCCESS)
		check_place(flow, index);
	CHECK(counter(flow) >= flow->counter_least && counter(flow) <= flow->counter_most);
}

void flow_poll(struct flow *flow)
{
	struct ibv_wc wc;

	while (flow->b_cq && sim_poll(flow->b_cq, &wc)) {
		struct flow_operation *operation = &flow->operation[wc.wr_id];

		CHECK(wc.wr_id < flow->posted && !operation->received);
		if (wc.status != IBV_WC_SUCCESS)
			continue;
		CHECK(wc.byte_len == operation->length);
		CHECK(!(wc.wc_flags & IBV_WC_WITH_IMM) || be32toh(wc.imm_data) == wc.wr_id);
		CHECK(memcmp(place(&flow->source, (uint32_t)wc.wr_id), place(&flow->target, (uint32_t)wc.wr_id), operation->length) == 0);
		operation->received = true;
		flow->received++;
	}
	while (flow->a_cq && sim_poll(flow->a_cq, &wc))
		end_operation(flow, (uint32_t)wc.wr_id, wc.status);
	CHECK(flow->completed == flow->posted || flow->sim->now - flow->progressed < PATIENCE);
}

void flow_begin_again(struct flow *flow)
{
	if (flow->completed < flow->operations || !flow_is_ready(flow))
		return;
	flow_check(flow);
	fill_places(flow);
	memset(flow->operation, 0, sizeof(flow->operation));
	flow->posted = flow->completed = 0;
}

void flow_vanish(struct flow *flow, bool sender)
{
	struct vb_qp **qp = sender ? &flow->a : &flow->b;

	if (!*qp)
		return;
	flow_poll(flow);
	sim_qp_free(*qp);
	*qp = NULL;
	if (!sender)
		return;
	/* Nor of what had completed a moment before, and was not taken. */
	flow_poll(flow);
	while (flow->completed < flow->posted)
		flow->operation[flow->completed++].state = FLOW_GONE;
}

void flow_close(struct flow *flow)
{
	flow_check(flow);
	if (flow->a)
		sim_qp_free(flow->a);
	if (flow->b)
		sim_qp_free(flow->b);
	if (flow->a_cq)
		sim_cq_free(flow->a_cq);
	if (flow->b_cq)
		sim_cq_free(flow->b_cq);
	sim_region_free(&flow->source);
	sim_region_free(&flow->target);
}
