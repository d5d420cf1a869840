/* SPDX-License-Identifier: MIT
 *
 * The short way of a lone message (roce/requester.c) does what the ordinary way would do. The same conversations, by seed, are held with it
 * and without it: every packet leaves at the same time with the same headers, and everything completes at the same time, whatever the
 * network does.
 */
#include "roce/engine.h"
#include "sim/testing.h"

enum { MEMORY = 64 * 1024, SLOT = 4096, APART = 3, RECEIVES = 48, SEEDS = 48, STEPS = 1500, LAST = 20, NOTES = 100000 };

/* What could be seen from outside, in order. */
static struct note {
	vb_time when;
	uint32_t psn;
	uint32_t credits_or_status;
	uint32_t payload, sum;
	uint8_t opcode, flags;
} notes[2][NOTES];
static unsigned noted[2], went_short, world;
static bool by_short_way;

bool __real_vb_roce_requester_send_lone(struct vb_qp *qp, vb_time now, struct vb_burst *out);
bool __wrap_vb_roce_requester_send_lone(struct vb_qp *qp, vb_time now, struct vb_burst *out);

bool __wrap_vb_roce_requester_send_lone(struct vb_qp *qp, vb_time now, struct vb_burst *out)
{
	bool went = by_short_way && __real_vb_roce_requester_send_lone(qp, now, out);

	went_short += went;
	return went;
}

static void note(const struct note *note)
{
	assert_in_range(noted[world], 0, NOTES - 1);
	notes[world][noted[world]++] = *note;
}

static uint32_t sum_of(const uint8_t *bytes, uint32_t length)
{
	uint32_t sum = 1;

	for (uint32_t i = 0; i < length; i++)
		sum = sum * 31 + bytes[i];
	return sum;
}

static bool see(void *context, const struct vb_roce_packet *packet)
{
	struct pair *pair = context;
	bool tells = packet->piggybacks || packet->op->headers & VB_HEADER_AETH;

	note(&(struct note){
		.when = pair->sim->now,
		.psn = packet->psn.v,
		.credits_or_status = tells ? packet->aeth.syndrome | packet->aeth.msn << 8 : 0,
		.payload = packet->payload_length,
		.sum = sum_of(packet->payload, packet->payload_length) ^ (packet->piggybacks ? packet->acknowledged.v : 0),
		.opcode = packet->opcode,
		.flags = (uint8_t)(packet->ack_request | packet->solicited << 1 | packet->piggybacks << 2),
	});
	return true;
}

static void poll_one(struct pair *pair, bool at_b)
{
	struct sim_region *memory = at_b ? &pair->b_memory : &pair->a_memory;
	struct ibv_wc wc;

	while (sim_poll(at_b ? pair->b_cq : pair->a_cq, &wc)) {
		note(&(struct note){
			.when = pair->sim->now,
			.credits_or_status = wc.status,
			.payload = wc.opcode & IBV_WC_RECV ? wc.byte_len : 0,
			.psn = (uint32_t)wc.wr_id,
			.flags = at_b,
		});
		if (wc.status == IBV_WC_SUCCESS && (wc.opcode & IBV_WC_RECV))
			sim_post_receive(at_b ? pair->b : pair->a, memory->bytes + MEMORY - SLOT, SLOT, memory->key, wc.wr_id);
	}
}

/* Everything is drawn whether it is used or not, so that both worlds draw the same. */
static void post_one(struct pair *pair, bool from_b, unsigned number)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
						     IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_READ};
	struct sim_region *memory = from_b ? &pair->b_memory : &pair->a_memory, *other = from_b ? &pair->a_memory : &pair->b_memory;
	struct sim *sim = pair->sim;
	uint32_t length = sim_below(sim, 4) == 0 ? sim_below(sim, SLOT) : sim_below(sim, 64), half = length / 2;
	bool is_list = sim_below(sim, 8) == 0, is_inline = sim_below(sim, 4) == 0, is_bad = sim_below(sim, 4000) == 0;
	struct ibv_sge sge[2] = {{(uintptr_t)memory->bytes, is_list ? half : length, memory->key + is_bad},
				 {(uintptr_t)memory->bytes + half + APART, length - half, memory->key}};
	struct ibv_send_wr wr = {
		.wr_id = number,
		.sg_list = sge,
		.num_sge = is_list ? 2 : 1,
		.opcode = opcodes[sim_below(sim, 6)],
		.send_flags = (sim_below(sim, 3) == 0 ? IBV_SEND_SIGNALED : 0) | (sim_below(sim, 16) == 0 ? IBV_SEND_FENCE : 0) |
			      (sim_below(sim, 4) == 0 ? IBV_SEND_SOLICITED : 0),
		.imm_data = htobe32(number),
	};

	if (is_inline && length <= 64 && wr.opcode != IBV_WR_RDMA_READ && !is_bad)
		wr.send_flags |= IBV_SEND_INLINE;
	/* A place of the queue is free when a completion speaks for it. */
	if (number % 16 == 0)
		wr.send_flags |= IBV_SEND_SIGNALED;
	wr.wr.rdma.remote_addr = (uintptr_t)other->bytes + SLOT;
	wr.wr.rdma.rkey = other->key;
	for (uint32_t i = 0; i < length + APART; i++)
		memory->bytes[i] = (uint8_t)(number + i);
	(void)sim_post_send(from_b ? pair->b : pair->a, &wr);
}

static void run_for(struct pair *pair, unsigned microseconds)
{
	sim_run_to(pair->sim, pair->sim->now + VB_MICROSECONDS(microseconds));
	poll_one(pair, false);
	poll_one(pair, true);
}

static void play(uint64_t seed, bool short_way)
{
	struct pair pair;

	by_short_way = short_way;
	world = short_way;
	noted[world] = 0;
	pair_open(&pair, seed, seed % 2, &sim_usual, MEMORY);
	pair.sim->network.loss = seed % 4 == 1 ? 20000 : 0;
	pair.sim->network.reorder = seed % 4 == 2 ? 20000 : 0;
	pair.sim->network.reorder_delay = VB_MICROSECONDS(30);
	pair.sim->network.duplication = seed % 4 == 3 ? 20000 : 0;
	pair.sim->network.corruption = seed % 8 == 4 ? 10000 : 0;
	pair.sim->network.filter = see;
	pair.sim->network.filter_context = &pair;
	for (unsigned i = 0; i < RECEIVES; i++) {
		sim_post_receive(pair.a, pair.a_memory.bytes + MEMORY - SLOT, SLOT, pair.a_memory.key, i);
		sim_post_receive(pair.b, pair.b_memory.bytes + MEMORY - SLOT, SLOT, pair.b_memory.key, i);
	}
	for (unsigned i = 1; i <= STEPS; i++) {
		unsigned together = sim_below(pair.sim, 8) == 0 ? 1 + sim_below(pair.sim, 6) : 1;

		for (unsigned k = 0; k < together; k++)
			post_one(&pair, i % 2, i);
		run_for(&pair, sim_below(pair.sim, 64) == 0 ? 5000 : sim_below(pair.sim, 8) == 0 ? 500 : 5);
	}
	for (unsigned i = 0; i < LAST; i++)
		run_for(&pair, 5000);
	for (unsigned i = 0; i < 2; i++)
		note(&(struct note){
			.psn = (uint32_t)pair.hosts[i]->counters.rdma_sends,
			.payload = (uint32_t)pair.hosts[i]->counters.rdma_writes,
			.sum = (uint32_t)pair.hosts[i]->counters.rdma_recvs,
		});
	pair_close(&pair);
}

static void nothing_is_different(void **state)
{
	(void)state;
	went_short = 0;
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		play(seed, false);
		play(seed, true);
		if (noted[0] != noted[1] || memcmp(notes[0], notes[1], noted[0] * sizeof(struct note)) != 0)
			fail_msg("seed %llu: %u and %u notes", (unsigned long long)seed, noted[0], noted[1]);
	}
	/* In most worlds half of all messages do; some end early, by a key that is wrong. */
	assert_in_range(went_short, SEEDS * STEPS / 4, UINT32_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_different),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
