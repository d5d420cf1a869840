/* SPDX-License-Identifier: MIT
 *
 * Random work and its proof: see traffic.h.
 */
#include "sim/traffic.h"

enum { SEND_DEPTH = 64, RECEIVE_DEPTH = 32, COMPLETIONS = 1024 };

void traffic_open(struct traffic *traffic, struct sim_host *from, struct sim_host *to)
{
	memset(traffic, 0, sizeof(*traffic));
	traffic->sim = from->sim;
	traffic->from_cq = sim_cq(from, COMPLETIONS);
	traffic->to_cq = sim_cq(to, COMPLETIONS);
	traffic->source = sim_region(from, (size_t)TRAFFIC_SLOT * TRAFFIC_MAX_WORK, SIM_ALL_ACCESS);
	traffic->target = sim_region(to, (size_t)TRAFFIC_SLOT * TRAFFIC_MAX_WORK + 8, SIM_ALL_ACCESS);
	traffic->result = sim_region(from, 8 * TRAFFIC_MAX_WORK, SIM_ALL_ACCESS);
}

void traffic_close(struct traffic *traffic)
{
	sim_region_free(&traffic->source);
	sim_region_free(&traffic->target);
	sim_region_free(&traffic->result);
	sim_cq_free(traffic->from_cq);
	sim_cq_free(traffic->to_cq);
}

static bool takes_receive(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static enum ibv_wr_opcode draw_operation(struct sim *sim, unsigned operations)
{
	unsigned opcode;

	do
		opcode = sim_below(sim, 16);
	while (!(operations >> opcode & 1));
	return opcode;
}

/* Mostly small, sometimes long. */
static uint32_t draw_length(struct sim *sim, uint32_t max)
{
	switch (sim_below(sim, 4)) {
	case 0:
		return sim_below(sim, 16);
	case 1:
		return sim_below(sim, max < 1500 ? max : 1500);
	default:
		return sim_below(sim, max);
	}
}

void traffic_plan(struct traffic *traffic, struct vb_qp *from, struct vb_qp *to, uint32_t work, uint32_t max_length,
		  unsigned operations)
{
	struct sim *sim = traffic->sim;

	assert_true(work <= TRAFFIC_MAX_WORK && max_length <= TRAFFIC_SLOT);
	traffic->from = from;
	traffic->to = to;
	traffic->work = work;
	traffic->max_length = max_length;
	for (uint32_t i = 0; i < work; i++) {
		uint8_t *bytes = traffic->source.bytes + (size_t)i * TRAFFIC_SLOT;
		uint8_t *there = traffic->target.bytes + (size_t)i * TRAFFIC_SLOT;

		traffic->piece[i].opcode = draw_operation(sim, operations);
		traffic->piece[i].length = draw_length(sim, max_length);
		if (takes_receive(traffic->piece[i].opcode))
			traffic->message_of[traffic->messages++] = i;
		for (uint32_t at = 0; at + 4 <= max_length; at += 4) {
			uint32_t word = sim_random(sim), other = sim_random(sim);

			memcpy(bytes + at, &word, 4);
			memcpy(there + at, &other, 4);
		}
	}
}

static void post_receives(struct traffic *traffic)
{
	while (traffic->receives_posted < traffic->messages &&
	       traffic->receives_posted < traffic->received + RECEIVE_DEPTH) {
		uint32_t piece = traffic->message_of[traffic->receives_posted];
		uint8_t *bytes = traffic->target.bytes + (size_t)piece * TRAFFIC_SLOT;

		assert_int_equal(sim_post_receive(traffic->to, bytes, TRAFFIC_SLOT, traffic->target.key, piece), 0);
		traffic->receives_posted++;
	}
}

static void post_one(struct traffic *traffic, uint32_t i)
{
	size_t offset = (size_t)i * TRAFFIC_SLOT;
	bool atomic = traffic->piece[i].opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	struct ibv_sge sge = {(uintptr_t)traffic->source.bytes + offset, traffic->piece[i].length, traffic->source.key};
	struct ibv_send_wr wr = {
		.wr_id = i,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = traffic->piece[i].opcode,
		.send_flags = IBV_SEND_SIGNALED | (sim_below(traffic->sim, 8) == 0 ? IBV_SEND_FENCE : 0),
		.imm_data = htobe32(i),
	};

	wr.wr.rdma.remote_addr = (uintptr_t)traffic->target.bytes + offset;
	wr.wr.rdma.rkey = traffic->target.key;
	if (atomic) {
		sge = (struct ibv_sge){(uintptr_t)traffic->result.bytes + 8 * traffic->atomics, 8, traffic->result.key};
		wr.wr.atomic.remote_addr = (uintptr_t)traffic->target.bytes + traffic->target.length - 8;
		wr.wr.atomic.rkey = traffic->target.key;
		wr.wr.atomic.compare_add = 1;
		traffic->atomics++;
	}
	assert_int_equal(sim_post_send(traffic->from, &wr), 0);
}

static void poll_sends(struct traffic *traffic)
{
	struct ibv_wc wc;

	while (sim_poll(traffic->from_cq, &wc)) {
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.wr_id, traffic->completed);
		traffic->completed++;
	}
}

static void poll_receives(struct traffic *traffic)
{
	struct ibv_wc wc;

	while (sim_poll(traffic->to_cq, &wc)) {
		uint32_t piece;

		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_true(traffic->received < traffic->messages);
		piece = traffic->message_of[traffic->received];
		assert_int_equal(wc.wr_id, piece);
		assert_int_equal(wc.byte_len, traffic->piece[piece].length);
		if (wc.wc_flags & IBV_WC_WITH_IMM)
			assert_int_equal(be32toh(wc.imm_data), piece);
		else
			assert_int_equal(traffic->piece[piece].opcode, IBV_WR_SEND);
		traffic->received++;
	}
}

bool traffic_step(struct traffic *traffic)
{
	poll_sends(traffic);
	poll_receives(traffic);
	post_receives(traffic);
	while (traffic->posted < traffic->work && traffic->posted < traffic->completed + SEND_DEPTH)
		post_one(traffic, traffic->posted++);
	return traffic->completed == traffic->work && traffic->received == traffic->messages;
}

void traffic_verify(struct traffic *traffic)
{
	uint64_t counter;

	for (uint32_t i = 0; i < traffic->work; i++) {
		size_t offset = (size_t)i * TRAFFIC_SLOT;

		if (traffic->piece[i].opcode != IBV_WR_ATOMIC_FETCH_AND_ADD)
			assert_memory_equal(traffic->source.bytes + offset, traffic->target.bytes + offset,
					    traffic->piece[i].length);
	}
	for (uint32_t i = 0; i < traffic->atomics; i++) {
		memcpy(&counter, traffic->result.bytes + 8 * i, 8);
		assert_int_equal(counter, i);
	}
	memcpy(&counter, traffic->target.bytes + traffic->target.length - 8, 8);
	assert_int_equal(counter, traffic->atomics);
}
