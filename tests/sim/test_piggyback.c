/* SPDX-License-Identifier: MIT
 *
 * Acknowledgements that go with messages (roce/piggyback.c): in a conversation between two of our own an answer brings the acknowledgement
 * of what it answers; others see two packets, as ever. What completes, and in which order, is the same on every network.
 */
#include "roce/engine.h"
#include "roce/roce.h"
#include "sim/testing.h"

enum { MTU = 1024, ENOUGH = 32, HALF = 2 * MTU, MEMORY = 2 * HALF, RECEIVES = 64 };

static struct vb_burst burst;
static uint64_t said;                    /* the last message of the conversation */

static void receive(struct pair *pair, bool at_b)
{
	struct sim_region *memory = at_b ? &pair->b_memory : &pair->a_memory;

	assert_int_equal(sim_post_receive(at_b ? pair->b : pair->a, memory->bytes + HALF, HALF, memory->key, 1), 0);
}

static void open_pair(struct pair *pair, uint64_t seed)
{
	said = 0;
	pair_open(pair, seed, seed % 2, &sim_usual, MEMORY);
	for (unsigned i = 0; i < RECEIVES; i++) {
		receive(pair, false);
		receive(pair, true);
	}
}

/* From one end: its first bytes to the second half of the other's. */
static void post(struct pair *pair, bool from_b, enum ibv_wr_opcode opcode, uint32_t length, uint64_t value)
{
	struct sim_region *memory = from_b ? &pair->b_memory : &pair->a_memory, *other = from_b ? &pair->a_memory : &pair->b_memory;
	struct ibv_sge sge = {(uintptr_t)memory->bytes, length, memory->key};
	struct ibv_send_wr wr = {.wr_id = value, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED};

	wr.wr.rdma.remote_addr = (uintptr_t)other->bytes + HALF;
	wr.wr.rdma.rkey = other->key;
	memset(memory->bytes, (int)value, length);
	assert_int_equal(sim_post_send(from_b ? pair->b : pair->a, &wr), 0);
}

/* What one burst brought from one end to the other. */
struct carried {
	unsigned packets, runs, piggybacks, acknowledgements, naks, probes;
	bool is_foreign;                 /* in: probes do not arrive */
};

static void arrive(struct pair *pair, bool from_b, uint32_t run, uint32_t index, struct carried *carried)
{
	struct vb_qp *to = from_b ? pair->a : pair->b;
	struct vb_path path = burst.run[run].path;
	struct vb_roce_packet packet;
	size_t length;
	const uint8_t *bytes = vb_burst_packet(&burst, run, index, &length);
	bool is_acknowledge, is_positive;

	assert_int_equal(vb_roce_packet_decode(&packet, bytes, length, &path, true, (uint16_t)index), VB_PACKET_OK);
	is_acknowledge = packet.op->kind == VB_KIND_ACKNOWLEDGE;
	is_positive = (packet.aeth.syndrome & VB_AETH_TYPE_MASK) == VB_AETH_ACK;
	carried->piggybacks += packet.piggybacks;
	carried->acknowledgements += is_acknowledge && is_positive;
	carried->naks += is_acknowledge && !is_positive;
	carried->probes += packet.op->kind == VB_KIND_FLOW_PROBE;
	if (packet.op->kind == VB_KIND_FLOW_PROBE && carried->is_foreign)
		return;
	vb_lock_take(&to->lock);
	vb_roce_receive(to, pair->sim->now, &packet);
	vb_lock_release(&to->lock);
}

/* An acknowledgement behind others counts as first (links/udp/receive.c). */
static void arrive_all(struct pair *pair, bool from_b, struct carried *carried)
{
	for (unsigned second = 0; second < 2; second++)
		for (uint32_t run = 0; run < burst.runs; run++)
			for (uint32_t i = 0; i < burst.run[run].packets; i++) {
				size_t ignored;
				uint8_t opcode = *vb_burst_packet(&burst, run, i, &ignored);

				if ((vb_roce_opcode(opcode)->kind == VB_KIND_ACKNOWLEDGE) != second)
					arrive(pair, from_b, run, i, carried);
			}
}

static void carry(struct pair *pair, bool from_b, struct carried *carried)
{
	struct vb_qp *from = from_b ? pair->b : pair->a;

	*carried = (struct carried){.is_foreign = carried->is_foreign};
	vb_burst_reset(&burst);
	vb_lock_take(&from->lock);
	assert_false(vb_roce_send(from, pair->sim->now, &burst));
	vb_lock_release(&from->lock);
	carried->runs = burst.runs;
	carried->packets = burst.packets;
	arrive_all(pair, from_b, carried);
}

static void expect_receive(struct pair *pair, bool at_b, uint32_t length, uint64_t value)
{
	struct sim_region *memory = at_b ? &pair->b_memory : &pair->a_memory;
	struct ibv_wc wc;

	assert_int_equal(vb_cq_poll(at_b ? pair->b_cq : pair->a_cq, 1, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_true(wc.opcode & IBV_WC_RECV);
	assert_int_equal(wc.byte_len, length);
	for (uint32_t i = 0; i < length; i++)
		assert_int_equal(memory->bytes[HALF + i], (uint8_t)value);
	receive(pair, at_b);
}

static bool is_quiet(struct pair *pair)
{
	struct ibv_wc wc;

	return vb_cq_poll(pair->a_cq, 1, &wc) == 0 && vb_cq_poll(pair->b_cq, 1, &wc) == 0;
}

/* `turns` messages, by turns: each answers the one before, of which it brings the acknowledgement. The last is not acknowledged yet. */
static void converse(struct pair *pair, unsigned turns, struct carried *sum)
{
	for (unsigned i = 0; i < turns; i++) {
		bool from_b = said % 2;
		struct carried carried = {.is_foreign = sum->is_foreign};

		post(pair, from_b, IBV_WR_SEND, 8, ++said);
		carry(pair, from_b, &carried);
		/* The send is seen to be done before the answer is seen. */
		if (said > 1)
			expect_send(from_b ? pair->a_cq : pair->b_cq, said - 1, IBV_WC_SUCCESS);
		expect_receive(pair, !from_b, 8, said);
		sum->packets += carried.packets;
		sum->runs += carried.runs;
		sum->piggybacks += carried.piggybacks;
		sum->acknowledgements += carried.acknowledgements;
		sum->probes += carried.probes;
	}
	assert_true(is_quiet(pair));
}

static void get_acquainted(struct pair *pair)
{
	struct carried sum = {0};

	converse(pair, 2 * ENOUGH + 4, &sum);
	assert_true(vb_roce_engine(pair->a)->requester.peer_takes_piggyback);
	assert_true(vb_roce_engine(pair->b)->requester.peer_takes_piggyback);
	assert_int_equal(sum.probes, 2);
}

static void few_go_beside(void **state)
{
	struct carried sum = {0};
	struct pair pair;

	(void)state;
	open_pair(&pair, 1);
	converse(&pair, 2 * ENOUGH - 2, &sum);
	assert_int_equal(sum.piggybacks + sum.probes, 0);
	assert_int_equal(sum.acknowledgements, 2 * ENOUGH - 3);
	assert_int_equal(sum.runs, 2 * ENOUGH - 2);
	pair_close(&pair);
}

static void a_conversation_is_one_packet_a_message(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 2; seed++) {
		struct carried sum = {0};
		struct pair pair;

		open_pair(&pair, seed);
		get_acquainted(&pair);
		converse(&pair, 200, &sum);
		assert_int_equal(sum.packets, 200);
		assert_int_equal(sum.piggybacks, 200);
		for (unsigned i = 0; i < 2; i++)
			assert_int_equal(pair.hosts[i]->counters.duplicate_request + pair.hosts[i]->counters.completer_retry_err, 0);
		pair_close(&pair);
	}
}

/* Every kind of message, up to the longest that has room for it in a packet of the MTU. */
static void it_goes_with_messages_of_all_kinds(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM};
	static const uint32_t lengths[] = {1, 2, 3, 8, 500, MTU - 9, MTU - 8, MTU - 7, MTU, MTU + 1};
	struct carried carried = {0};
	struct pair pair;
	unsigned value = 0;

	(void)state;
	open_pair(&pair, 2);
	get_acquainted(&pair);
	carry(&pair, false, &carried);
	expect_send(pair.b_cq, said, IBV_WC_SUCCESS);
	for (unsigned i = 0; i < 4; i++)
		for (unsigned k = 0; k < 10; k++) {
			bool rides = lengths[k] <= MTU - 8;

			post(&pair, false, IBV_WR_SEND, 8, ++value);
			carry(&pair, false, &carried);
			expect_receive(&pair, true, 8, value);
			post(&pair, true, opcodes[i], lengths[k], value);
			carry(&pair, true, &carried);
			assert_int_equal(carried.piggybacks, rides);
			assert_int_equal(carried.acknowledgements, !rides);
			expect_send(pair.a_cq, value, IBV_WC_SUCCESS);
			if (opcodes[i] != IBV_WR_RDMA_WRITE)
				expect_receive(&pair, false, lengths[k], value);
			for (uint32_t at = 0; at < lengths[k]; at++)
				assert_int_equal(pair.a_memory.bytes[HALF + at], (uint8_t)value);
			carry(&pair, false, &carried);
			expect_send(pair.b_cq, value, IBV_WC_SUCCESS);
		}
	pair_close(&pair);
}

/* Behind several it is the short end of their run, as it was. */
static void it_goes_behind_many(void **state)
{
	struct carried carried = {0};
	struct pair pair;

	(void)state;
	open_pair(&pair, 3);
	get_acquainted(&pair);
	for (unsigned i = 0; i < 3; i++)
		post(&pair, false, IBV_WR_SEND, 8, i);
	carry(&pair, false, &carried);
	assert_int_equal(carried.piggybacks, 0);
	assert_int_equal(carried.acknowledgements, 1);
	pair_close(&pair);
}

/* What it says of receives is believed, as if it had come alone. */
static void credits_come_with_it(void **state)
{
	struct carried carried = {0}, sum = {0};
	const struct vb_roce_requester *requester;
	struct pair pair;

	(void)state;
	open_pair(&pair, 4);
	get_acquainted(&pair);
	requester = &vb_roce_engine(pair.a)->requester;
	converse(&pair, 4, &sum);
	assert_true(requester->credits_known);
	/* 64 at the other end, which are told as they are. */
	assert_int_equal(requester->credit_limit - requester->receives_acknowledged, RECEIVES);
	for (unsigned i = 0; i < RECEIVES; i++)
		receive(&pair, true);
	post(&pair, false, IBV_WR_SEND, 8, 1);
	carry(&pair, false, &carried);
	post(&pair, true, IBV_WR_SEND, 8, 2);
	carry(&pair, true, &carried);
	assert_int_equal(carried.piggybacks, 1);
	assert_int_equal(requester->credit_limit - requester->receives_acknowledged, 96);
	pair_close(&pair);
}

static void a_nak_goes_alone(void **state)
{
	struct carried carried = {0};
	struct pair pair;

	(void)state;
	open_pair(&pair, 5);
	get_acquainted(&pair);
	/* The first is lost. */
	post(&pair, false, IBV_WR_SEND, 8, 1);
	vb_burst_reset(&burst);
	vb_lock_take(&pair.a->lock);
	vb_roce_send(pair.a, pair.sim->now, &burst);
	vb_lock_release(&pair.a->lock);
	post(&pair, false, IBV_WR_SEND, 8, 2);
	carry(&pair, false, &carried);
	post(&pair, true, IBV_WR_SEND, 8, 3);
	carry(&pair, true, &carried);
	assert_int_equal(carried.naks, 1);
	assert_int_equal(carried.piggybacks, 0);
	assert_int_equal(carried.packets, 2);
	pair_close(&pair);
}

static void other_makes_never_see_it(void **state)
{
	struct carried sum = {.is_foreign = true};
	struct pair pair;

	(void)state;
	open_pair(&pair, 6);
	for (unsigned i = 0; i < 10; i++)
		converse(&pair, 100, &sum);
	assert_int_equal(sum.piggybacks, 0);
	assert_int_equal(sum.acknowledgements, 999);
	assert_in_range(sum.probes, 2, 2 * 4);
	pair_close(&pair);
}

static void adapters_that_are_played_do_not_ask(void **state)
{
	struct vb_roce_policy policy;
	struct carried sum = {0};
	struct pair pair;

	(void)state;
	said = 0;
	assert_true(vb_roce_policy_parse(&policy, "window"));
	policy.recovery = VB_RECOVERY_GO_BACK_N;
	pair_make(&pair, 7, false, IBV_QPT_RC, MEMORY);
	pair.hosts[0]->queue_host.policy = pair.hosts[1]->queue_host.policy = &policy;
	sim_connect(pair.a, pair.b, &sim_usual);
	for (unsigned i = 0; i < RECEIVES; i++) {
		receive(&pair, false);
		receive(&pair, true);
	}
	converse(&pair, 4 * ENOUGH, &sum);
	assert_int_equal(sum.piggybacks + sum.probes, 0);
	pair_close(&pair);
}

/* A SEND of eight bytes that acknowledges, as one of our own would send it to b. */
static struct vb_roce_packet crafted(struct pair *pair, const uint8_t *payload, struct psn acknowledged, uint8_t syndrome)
{
	struct vb_transport_status status;

	vb_roce_query(pair->b, &status);
	return (struct vb_roce_packet){
		.opcode = 0x04, .op = vb_roce_opcode(0x04), .pkey = VB_DEFAULT_PKEY, .destination_qpn = pair->b->qpn,
		.psn = psn_of(status.expected), .piggybacks = true, .acknowledged = acknowledged, .aeth = {syndrome, 0},
		.payload = payload + VB_PIGGYBACK_LENGTH, .payload_length = 8,
	};
}

/* Reserved bits of a peer to which nothing was said of them mean nothing: it is a SEND of sixteen bytes. */
static void who_was_not_told_means_nothing_by_it(void **state)
{
	static const uint8_t payload[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
	struct vb_roce_packet packet;
	struct pair pair;
	struct ibv_wc wc;

	(void)state;
	open_pair(&pair, 8);
	post(&pair, true, IBV_WR_SEND, 8, 1);
	vb_lock_take(&pair.b->lock);
	vb_burst_reset(&burst);
	vb_roce_send(pair.b, pair.sim->now, &burst);
	vb_lock_release(&pair.b->lock);
	packet = crafted(&pair, payload, vb_roce_engine(pair.b)->requester.acknowledged, VB_AETH_ACK | VB_AETH_NO_CREDITS);
	sim_inject(pair.b, &packet);
	assert_int_equal(vb_cq_poll(pair.b_cq, 1, &wc), 1);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.byte_len, 16);
	assert_memory_equal(pair.b_memory.bytes + HALF, payload, 16);
	assert_int_equal(vb_send_queue_count(&pair.b->send), 1);
	pair_close(&pair);
}

/* Neither a NAK nor what was never sent, nor what is past, does anything but be the message that it came with. */
static void what_cannot_be_is_not_believed(void **state)
{
	static const uint8_t payload[16] = {0};

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		struct vb_roce_packet packet;
		struct psn acknowledged;
		struct pair pair;
		struct ibv_wc wc;

		open_pair(&pair, 9);
		get_acquainted(&pair);
		/* Its last SEND is outstanding. */
		assert_int_equal(vb_send_queue_count(&pair.b->send), 1);
		acknowledged = vb_roce_engine(pair.b)->requester.acknowledged;
		if (i == 1)
			acknowledged = psn_add(acknowledged, 1);
		if (i == 2)
			acknowledged = psn_add(acknowledged, VB_PSN_MASK);
		packet = crafted(&pair, payload, acknowledged,
				 i == 0 ? VB_AETH_NAK | VB_NAK_REMOTE_ACCESS_ERROR : VB_AETH_ACK | VB_AETH_NO_CREDITS);
		sim_inject(pair.b, &packet);
		if (i == 3)
			expect_send(pair.b_cq, said, IBV_WC_SUCCESS);
		assert_int_equal(vb_cq_poll(pair.b_cq, 1, &wc), 1);
		assert_int_equal(wc.opcode, IBV_WC_RECV);
		assert_int_equal(wc.byte_len, 8);
		assert_int_equal(vb_send_queue_count(&pair.b->send), i == 3 ? 0 : 1);
		assert_int_equal(pair.b->state, IBV_QPS_RTS);
		pair_close(&pair);
	}
}

/* The acknowledgement is taken from whatever comes, also from a packet whose turn has not come, or is past. */
static void it_counts_out_of_turn(void **state)
{
	static const uint8_t payload[16] = {0};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct vb_roce_packet packet;
		struct pair pair;
		struct ibv_wc wc;

		open_pair(&pair, 10);
		get_acquainted(&pair);
		packet = crafted(&pair, payload, vb_roce_engine(pair.b)->requester.acknowledged, VB_AETH_ACK | VB_AETH_NO_CREDITS);
		packet.psn = psn_add(packet.psn, i == 0 ? 3 : VB_PSN_MASK);
		sim_inject(pair.b, &packet);
		expect_send(pair.b_cq, said, IBV_WC_SUCCESS);
		assert_int_equal(vb_cq_poll(pair.b_cq, 1, &wc), 0);
		pair_close(&pair);
	}
}

struct seen {
	unsigned piggybacks;
};

static bool look(void *context, const struct vb_roce_packet *packet)
{
	struct seen *seen = context;

	seen->piggybacks += packet->piggybacks;
	return true;
}

/* The next message, with as many of our own sends' completions before it as there are. */
static void hear(struct pair *pair, bool at_b, uint64_t value, unsigned *sends)
{
	struct sim_region *memory = at_b ? &pair->b_memory : &pair->a_memory;
	struct ibv_wc wc;

	do {
		assert_true(sim_wait(pair->sim, at_b ? pair->b_cq : pair->a_cq, &wc, VB_SECONDS(4)));
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		*sends += wc.opcode == IBV_WC_SEND;
	} while (wc.opcode != IBV_WC_RECV);
	assert_int_equal(memory->bytes[HALF], (uint8_t)value);
	receive(pair, at_b);
}

static void every_network(void **state)
{
	enum { TURNS = 300 };
	unsigned rode = 0;

	(void)state;
	for (uint64_t seed = 0; seed < 60; seed++) {
		struct seen seen = {0};
		unsigned sends = 0;
		struct pair pair;
		struct ibv_wc wc;

		open_pair(&pair, seed);
		pair.sim->network.filter = look;
		pair.sim->network.filter_context = &seen;
		for (unsigned i = 0; i < TURNS; i++) {
			if (i == TURNS / 3) {
				pair.sim->network.loss = (uint32_t)(seed % 4) * 20000;
				pair.sim->network.duplication = (uint32_t)(seed % 3) * 20000;
				pair.sim->network.reorder = (uint32_t)(seed % 5) * 20000;
				pair.sim->network.reorder_delay = VB_MICROSECONDS(50);
			}
			post(&pair, i % 2, IBV_WR_SEND, 8, i);
			hear(&pair, i % 2 == 0, i, &sends);
		}
		pair.sim->network.loss = 0;
		sim_run(pair.sim);
		while (vb_cq_poll(pair.a_cq, 1, &wc) == 1 || vb_cq_poll(pair.b_cq, 1, &wc) == 1) {
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			assert_int_equal(wc.opcode, IBV_WC_SEND);
			sends++;
		}
		assert_int_equal(sends, TURNS);
		rode += seen.piggybacks;
		pair_close(&pair);
	}
	assert_true(rode > 60 * TURNS / 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(few_go_beside),
		cmocka_unit_test(a_conversation_is_one_packet_a_message),
		cmocka_unit_test(it_goes_with_messages_of_all_kinds),
		cmocka_unit_test(it_goes_behind_many),
		cmocka_unit_test(credits_come_with_it),
		cmocka_unit_test(a_nak_goes_alone),
		cmocka_unit_test(other_makes_never_see_it),
		cmocka_unit_test(adapters_that_are_played_do_not_ask),
		cmocka_unit_test(who_was_not_told_means_nothing_by_it),
		cmocka_unit_test(what_cannot_be_is_not_believed),
		cmocka_unit_test(it_counts_out_of_turn),
		cmocka_unit_test(every_network),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
