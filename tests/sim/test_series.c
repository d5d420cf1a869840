/* SPDX-License-Identifier: MIT
 *
 * A stream of WRITEs leaves in full runs: as series of WRITEs of one packet, where all that can be told apart is how fast it goes.
 * What comes to be in the target's memory is the same on every network, and of a WRITE that is refused nothing does.
 */
#include "roce/engine.h"
#include "roce/roce.h"
#include "sim/testing.h"
#include "wire/icrc.h"

enum { MTU = 1024, SLOTS = 12, SLOT = 20 * 1024, MEMORY = SLOTS * SLOT };

static struct vb_burst burst;

/* What the requests were that left. */
struct seen {
	unsigned first, middle, last, only;
	unsigned lose;                   /* the n-th from now on; 0: none */
	bool keep_back;                  /* it is lost every time */
	struct psn lost;
};

static bool look(void *context, const struct vb_roce_packet *packet)
{
	struct seen *seen = context;

	if (packet->op->kind != VB_KIND_WRITE)
		return true;
	seen->first += packet->op->position == VB_POSITION_FIRST;
	seen->middle += packet->op->position == VB_POSITION_MIDDLE;
	seen->last += packet->op->position == VB_POSITION_LAST;
	seen->only += packet->op->position == VB_POSITION_ONLY;
	if (packet->op->position == VB_POSITION_ONLY)
		assert_int_equal(packet->reth.length, packet->payload_length);
	if (seen->lose > 0 && --seen->lose == 0) {
		seen->lost = packet->psn;
		return false;
	}
	return !seen->keep_back || seen->lose > 0 || !psn_equal(packet->psn, seen->lost);
}

static void open_pair(struct pair *pair, uint64_t seed, const struct sim_connection *connection, struct seen *seen)
{
	pair_open(pair, seed, seed % 2, connection, MEMORY);
	pair_fill(pair, &pair->a_memory, MEMORY);
	memset(seen, 0, sizeof(*seen));
	pair->sim->network.filter = look;
	pair->sim->network.filter_context = seen;
}

/* One to each slot. */
static void post_round(struct pair *pair, enum ibv_wr_opcode opcode, uint32_t length)
{
	for (unsigned i = 0; i < SLOTS; i++)
		pair_post_at(pair, opcode, i * SLOT, i * SLOT, length, i);
}

static void expect_round(struct pair *pair)
{
	for (unsigned i = 0; i < SLOTS; i++)
		expect_send(pair->a_cq, i, IBV_WC_SUCCESS);
}

static uint32_t runs_of_a_round(struct pair *pair, uint32_t length)
{
	post_round(pair, IBV_WR_RDMA_WRITE, length);
	vb_burst_reset(&burst);
	vb_lock_take(&pair->a->lock);
	vb_roce_send(pair->a, pair->sim->now, &burst);
	vb_lock_release(&pair->a->lock);
	return burst.runs;
}

/* Twelve WRITEs of 4 KiB: two runs for each of them, and two for all where their targets are known. */
static void a_stream_is_few_runs(void **state)
{
	struct seen seen;
	struct pair pair;

	(void)state;
	open_pair(&pair, 1, &sim_usual, &seen);
	assert_int_equal(runs_of_a_round(&pair, 4 * MTU), 2 * SLOTS);
	pair_close(&pair);

	open_pair(&pair, 1, &sim_usual, &seen);
	post_round(&pair, IBV_WR_RDMA_WRITE, 4 * MTU);
	sim_run(pair.sim);
	expect_round(&pair);
	assert_int_equal(runs_of_a_round(&pair, 4 * MTU), 2);
	assert_int_equal(burst.packets, 4 * SLOTS);
	pair_close(&pair);
}

static void only_where_the_target_is_known(void **state)
{
	struct seen seen;
	struct pair pair;

	(void)state;
	open_pair(&pair, 2, &sim_usual, &seen);
	post_round(&pair, IBV_WR_RDMA_WRITE, 4 * MTU);
	sim_run(pair.sim);
	expect_round(&pair);
	assert_int_equal(seen.only, 0);
	assert_int_equal(seen.first, SLOTS);
	/* The last has none behind it. */
	pair_fill(&pair, &pair.a_memory, MEMORY);
	post_round(&pair, IBV_WR_RDMA_WRITE, 4 * MTU);
	sim_run(pair.sim);
	expect_round(&pair);
	assert_int_equal(seen.only, 4 * (SLOTS - 1));
	assert_int_equal(seen.first, SLOTS + 1);
	for (unsigned i = 0; i < SLOTS; i++)
		assert_memory_equal(pair.b_memory.bytes + i * SLOT, pair.a_memory.bytes + i * SLOT, 4 * MTU);
	/* The last slot is known up to its fourth packet. */
	memset(&seen, 0, sizeof(seen));
	pair_post_at(&pair, IBV_WR_RDMA_WRITE, 0, (SLOTS - 1) * SLOT, 5 * MTU, 1);
	pair_post_at(&pair, IBV_WR_RDMA_WRITE, 0, (SLOTS - 1) * SLOT, 5 * MTU, 2);
	pair_post_at(&pair, IBV_WR_RDMA_WRITE, 0, 0, 1, 3);
	sim_run(pair.sim);
	assert_int_equal(seen.first, 1);
	assert_int_equal(seen.only, 5 + 1);
	pair_close(&pair);
}

/* 64 KiB at this MTU, three times. */
static void post_long_ones(struct pair *pair)
{
	for (unsigned i = 0; i < 3; i++)
		pair_post(pair, IBV_WR_RDMA_WRITE, 64 * MTU, i);
}

/* Where packets were lost a moment ago, to a peer that drops what comes ahead only short ones are series. */
static void long_ones_are_series_unless_a_peer_drops(void **state)
{
	(void)state;
	for (unsigned drops = 0; drops < 2; drops++) {
		struct seen seen;
		struct pair pair;

		open_pair(&pair, 2, &sim_usual, &seen);
		vb_roce_engine(pair.b)->responder.drops_ahead = drops;
		pair_post(&pair, IBV_WR_RDMA_WRITE, 64 * MTU, 0);
		sim_run(pair.sim);
		for (unsigned lost = 0; lost < 2; lost++) {
			memset(&seen, 0, sizeof(seen));
			seen.lose = lost * 30;
			post_long_ones(&pair);
			sim_run(pair.sim);
			assert_true(seen.only >= 2 * 64 && (drops || seen.first == 1));
		}
		memset(&seen, 0, sizeof(seen));
		post_long_ones(&pair);
		for (unsigned i = 0; i < 3; i++)
			pair_post(&pair, IBV_WR_RDMA_WRITE, 16 * MTU, i);
		sim_run(pair.sim);
		assert_int_equal(seen.first, drops ? 3 + 1 : 1);
		assert_int_equal(seen.only, (drops ? 0 : 3 * 64) + 2 * 16);
		assert_memory_equal(pair.b_memory.bytes, pair.a_memory.bytes, 64 * MTU);
		pair_close(&pair);
	}
}

static void alone_or_of_another_kind_it_is_one_piece(void **state)
{
	struct sim_connection connection = sim_usual;
	struct vb_roce_policy policy;
	struct seen seen;
	struct pair pair;

	(void)state;
	open_pair(&pair, 3, &connection, &seen);
	for (unsigned i = 0; i < 3; i++) {
		pair_post(&pair, IBV_WR_RDMA_WRITE, 4 * MTU, i);
		sim_run(pair.sim);
	}
	for (unsigned i = 0; i < 2 * SLOTS; i++)
		assert_int_equal(sim_post_receive(pair.b, pair.b_memory.bytes, 0, pair.b_memory.key, i), 0);
	for (unsigned i = 0; i < 2; i++) {
		post_round(&pair, IBV_WR_RDMA_WRITE_WITH_IMM, 4 * MTU);
		sim_run(pair.sim);
	}
	/* More packets than it is worth while for; and two that are a run as they are. */
	for (unsigned i = 0; i < 3; i++)
		pair_post(&pair, IBV_WR_RDMA_WRITE, 129 * MTU, i);
	sim_run(pair.sim);
	post_round(&pair, IBV_WR_RDMA_WRITE, MTU + 100);
	sim_run(pair.sim);
	assert_int_equal(seen.only, 0);
	pair_close(&pair);

	/* What is to behave as an adapter does. */
	assert_true(vb_roce_policy_parse(&policy, "window"));
	policy.recovery = VB_RECOVERY_GO_BACK_N;
	pair_make(&pair, 3, false, IBV_QPT_RC, MEMORY);
	pair.hosts[0]->queue_host.policy = pair.hosts[1]->queue_host.policy = &policy;
	sim_connect(pair.a, pair.b, &connection);
	memset(&seen, 0, sizeof(seen));
	pair.sim->network.filter = look;
	pair.sim->network.filter_context = &seen;
	for (unsigned i = 0; i < 2; i++) {
		post_round(&pair, IBV_WR_RDMA_WRITE, 4 * MTU);
		sim_run(pair.sim);
	}
	assert_int_equal(seen.only, 0);
	assert_int_equal(seen.first, 2 * SLOTS);
	pair_close(&pair);
}

static bool is_untouched(const struct sim_region *region, size_t from, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (region->bytes[from + i] != 0xee)
			return false;
	return true;
}

/* Of a series, what comes ahead of a missing packet is kept in bulk, and nothing of it is written before its turn. Two go to the same
 * place: the second stays there. */
static void what_came_ahead_of_a_series_waits(void **state)
{
	enum { MISSING = 3 };
	struct seen seen;
	struct pair pair;
	uint64_t before;

	(void)state;
	open_pair(&pair, 4, &sim_usual, &seen);
	post_round(&pair, IBV_WR_RDMA_WRITE, SLOT);
	sim_run(pair.sim);
	expect_round(&pair);
	memset(pair.b_memory.bytes, 0xee, MEMORY);
	memset(&seen, 0, sizeof(seen));
	seen.lose = MISSING + 1;
	seen.keep_back = true;
	before = pair.sim->packets_in_bulk;
	pair_post_at(&pair, IBV_WR_RDMA_WRITE, 0, 0, 16 * MTU, 1);
	pair_post_at(&pair, IBV_WR_RDMA_WRITE, SLOT, 0, 16 * MTU, 2);
	pair_post_at(&pair, IBV_WR_RDMA_WRITE, 2 * SLOT, SLOT, MTU, 3);
	sim_run_to(pair.sim, pair.sim->now + VB_MILLISECONDS(1));
	assert_true(seen.only >= 32);
	assert_true(pair.sim->packets_in_bulk - before >= 16);
	assert_memory_equal(pair.b_memory.bytes, pair.a_memory.bytes, MISSING * MTU);
	assert_true(is_untouched(&pair.b_memory, MISSING * MTU, MEMORY - MISSING * MTU));
	seen.keep_back = false;
	sim_run(pair.sim);
	for (unsigned i = 1; i <= 3; i++)
		expect_send(pair.a_cq, i, IBV_WC_SUCCESS);
	assert_memory_equal(pair.b_memory.bytes, pair.a_memory.bytes + SLOT, 16 * MTU);
	assert_memory_equal(pair.b_memory.bytes + SLOT, pair.a_memory.bytes + 2 * SLOT, MTU);
	assert_true(is_untouched(&pair.b_memory, SLOT + MTU, MEMORY - SLOT - MTU));
	pair_close(&pair);
}

/* In a bundle behind a WRITE of one packet, others of its size have shorter headers and more payload than there is room for. */
static void what_is_kept_has_room(void **state)
{
	static const uint8_t bytes[2 * MTU] = {1};
	struct iovec span = {(void *)(uintptr_t)bytes, MTU};
	struct vb_icrc_prefix prefix = {0};
	struct vb_roce_bulk bulk = {0};
	struct seen seen;
	struct pair pair;

	(void)state;
	open_pair(&pair, 4, &sim_usual, &seen);
	vb_burst_reset(&burst);
	for (unsigned i = 0; i < 2; i++) {
		struct vb_roce_packet packet = {.opcode = i == 0 ? 0x0a : 0x01, .pkey = VB_DEFAULT_PKEY, .destination_qpn = pair.b->qpn,
						.psn = psn_add(vb_roce_engine(pair.b)->responder.expected, 2 + i)};

		packet.op = vb_roce_opcode(packet.opcode);
		packet.reth.address = (uintptr_t)pair.b_memory.bytes;
		packet.reth.rkey = pair.b_memory.key;
		packet.reth.length = MTU;
		span.iov_len = i == 0 ? MTU : MTU + VB_RETH_LENGTH;
		vb_burst_append(&burst, &pair.a->path, &packet, &span, 1);
	}
	assert_int_equal(burst.runs, 1);
	bulk.bytes = burst.run[0].data;
	bulk.length = burst.run[0].bytes;
	bulk.segment = bulk.stride = burst.run[0].segment_size;
	vb_lock_take(&pair.b->lock);
	vb_roce_receive_bulk(pair.b, pair.sim->now, &pair.a->path, &prefix, &bulk);
	vb_lock_release(&pair.b->lock);
	assert_int_equal(bulk.taken, 1);
	assert_int_equal(bulk.damaged, 0);
	pair_close(&pair);
}

/* In a stream, one that begins inside of the region and ends outside. */
static void nothing_is_written_of_one_that_is_refused(void **state)
{
	const uint64_t edge = MEMORY - 2 * MTU;
	struct seen seen;
	struct pair pair;

	(void)state;
	open_pair(&pair, 4, &sim_usual, &seen);
	post_round(&pair, IBV_WR_RDMA_WRITE, 4 * MTU);
	sim_run(pair.sim);
	expect_round(&pair);
	memset(pair.b_memory.bytes, 0xee, MEMORY);
	memset(&seen, 0, sizeof(seen));
	pair_post_at(&pair, IBV_WR_RDMA_WRITE, SLOT, SLOT, 4 * MTU, 1);
	pair_post_at(&pair, IBV_WR_RDMA_WRITE, 0, edge, 4 * MTU, 2);
	/* Between what was known and what was not good: behind the other, it is not executed. */
	pair_post_at(&pair, IBV_WR_RDMA_WRITE, 0, edge - 4 * MTU, 4 * MTU, 3);
	pair_post_at(&pair, IBV_WR_RDMA_WRITE, 0, 0, 4 * MTU, 4);
	sim_run(pair.sim);
	expect_send(pair.a_cq, 1, IBV_WC_SUCCESS);
	expect_send(pair.a_cq, 2, IBV_WC_REM_ACCESS_ERR);
	expect_send(pair.a_cq, 3, IBV_WC_WR_FLUSH_ERR);
	expect_send(pair.a_cq, 4, IBV_WC_WR_FLUSH_ERR);
	assert_true(seen.only >= 4);
	assert_memory_equal(pair.b_memory.bytes + SLOT, pair.a_memory.bytes + SLOT, 4 * MTU);
	assert_true(is_untouched(&pair.b_memory, 0, SLOT));
	assert_true(is_untouched(&pair.b_memory, SLOT + 4 * MTU, MEMORY - SLOT - 4 * MTU));
	pair_close(&pair);
}

/* Of short ones that come together, those before the one that is refused, and no others. */
static void short_ones_end_where_one_is_refused(void **state)
{
	for (unsigned fault = 0; fault < 3; fault++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr = {.wr_id = 7, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
					 .send_flags = IBV_SEND_SIGNALED};
		struct sim_region other;
		struct seen seen;
		struct pair pair;

		(void)state;
		open_pair(&pair, 5, &sim_usual, &seen);
		other = sim_region(pair.hosts[1], MTU, fault == 1 ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ : SIM_ALL_ACCESS);
		memset(pair.b_memory.bytes, 0xee, MEMORY);
		memset(other.bytes, 0xee, MTU);
		sge = (struct ibv_sge){(uintptr_t)pair.a_memory.bytes, 64, pair.a_memory.key};
		wr.wr.rdma.remote_addr = (uintptr_t)other.bytes + (fault == 0 ? MTU - 60 : 0);
		wr.wr.rdma.rkey = fault == 2 ? other.key + 1 : other.key;
		for (unsigned i = 0; i < 7; i++)
			pair_post_at(&pair, IBV_WR_RDMA_WRITE, i * 64, i * 64, 64, i);
		assert_int_equal(sim_post_send(pair.a, &wr), 0);
		for (unsigned i = 8; i < 16; i++)
			pair_post_at(&pair, IBV_WR_RDMA_WRITE, i * 64, i * 64, 64, i);
		sim_run(pair.sim);
		assert_true(pair.sim->packets_in_bulk > 0);
		for (unsigned i = 0; i < 16; i++)
			expect_send(pair.a_cq, i,
				    i < 7 ? IBV_WC_SUCCESS : i == 7 ? IBV_WC_REM_ACCESS_ERR : IBV_WC_WR_FLUSH_ERR);
		assert_memory_equal(pair.b_memory.bytes, pair.a_memory.bytes, 7 * 64);
		assert_true(is_untouched(&pair.b_memory, 7 * 64, MEMORY - 7 * 64));
		assert_true(is_untouched(&other, 0, MTU));
		sim_region_free(&other);
		pair_close(&pair);
	}
}

/* A queue pair that grants nothing takes none, and one that is not written to yet tells when it is (IBA 11.6.3.2). */
static void rights_and_events_are_those_of_one(void **state)
{
	struct sim_connection connection = sim_usual;
	struct seen seen;
	struct pair pair;

	(void)state;
	connection.access = IBV_ACCESS_REMOTE_READ;
	open_pair(&pair, 6, &connection, &seen);
	memset(pair.b_memory.bytes, 0xee, MEMORY);
	post_round(&pair, IBV_WR_RDMA_WRITE, 64);
	sim_run(pair.sim);
	expect_send(pair.a_cq, 0, IBV_WC_REM_INV_REQ_ERR);
	assert_true(is_untouched(&pair.b_memory, 0, MEMORY));
	pair_close(&pair);

	for (unsigned i = 0; i < 2; i++) {
		pair_make(&pair, 6, false, IBV_QPT_RC, MEMORY);
		/* That the first is tried as one of many, or that it is not. */
		pair.sim->deliveries = i;
		assert_int_equal(sim_to_init(pair.b, sim_usual.access), 0);
		assert_int_equal(sim_to_rtr(pair.b, pair.a, &sim_usual, sim_usual.psn_a, 1), 0);
		assert_int_equal(sim_to_init(pair.a, sim_usual.access), 0);
		assert_int_equal(sim_to_rtr(pair.a, pair.b, &sim_usual, sim_usual.psn_b, 1), 0);
		assert_int_equal(sim_to_rts(pair.a, &sim_usual, sim_usual.psn_a, 1), 0);
		post_round(&pair, IBV_WR_RDMA_WRITE, 64);
		assert_false(sim_host_was_told(pair.hosts[1], IBV_EVENT_COMM_EST));
		sim_run(pair.sim);
		expect_round(&pair);
		assert_true(sim_host_was_told(pair.hosts[1], IBV_EVENT_COMM_EST));
		pair_close(&pair);
	}
}

/* Lengths that end in the middle of a packet, and lists whose elements do. */
/* As rsockets cut a long message (rdmacm/rsocket/stream_cut.h): whole packets, and behind them one with immediate data, of the same size,
 * that goes back over the end of them. */
static void post_cut(struct pair *pair, unsigned slot, uint32_t packets)
{
	uint32_t back = MTU - VB_IMMEDIATE_LENGTH;

	pair_post_at(pair, IBV_WR_RDMA_WRITE, slot * SLOT, slot * SLOT, packets * MTU, 2 * slot);
	pair_post_at(pair, IBV_WR_RDMA_WRITE_WITH_IMM, slot * SLOT + packets * MTU - back, slot * SLOT + packets * MTU - back, back,
		     2 * slot + 1);
}

static void post_receives(struct pair *pair, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		assert_int_equal(sim_post_receive(pair->b, pair->b_memory.bytes, 0, pair->b_memory.key, i), 0);
}

/* Twelve of them with four packets: three runs each in one piece, and one for all of them. */
static void cut_in_two_they_share_runs(void **state)
{
	struct seen seen;
	struct pair pair;

	(void)state;
	for (unsigned cut = 0; cut < 2; cut++) {
		open_pair(&pair, 5, &sim_usual, &seen);
		post_receives(&pair, SLOTS);
		post_round(&pair, IBV_WR_RDMA_WRITE, SLOT);
		sim_run(pair.sim);
		expect_round(&pair);
		for (unsigned i = 0; i < SLOTS && cut; i++)
			post_cut(&pair, i, 4);
		if (!cut)
			post_round(&pair, IBV_WR_RDMA_WRITE_WITH_IMM, 4 * MTU);
		vb_burst_reset(&burst);
		vb_lock_take(&pair.a->lock);
		vb_roce_send(pair.a, pair.sim->now, &burst);
		vb_lock_release(&pair.a->lock);
		assert_int_equal(burst.packets, cut ? 5 * SLOTS : 4 * SLOTS);
		assert_int_equal(burst.runs, cut ? 1 : 3 * SLOTS);
		pair_close(&pair);
	}
}

/* Whichever packet is missing, the receive of its message does not complete, and what is there of those before it is whole. */
static void told_when_all_is_there(void **state)
{
	enum { MESSAGES = 3, PACKETS = 4, ALL = MESSAGES * (PACKETS + 1) };

	(void)state;
	for (unsigned missing = 0; missing < ALL; missing++) {
		struct seen seen;
		struct pair pair;
		struct ibv_wc wc;
		uint64_t before;

		open_pair(&pair, 6 + missing, &sim_usual, &seen);
		post_receives(&pair, MESSAGES);
		post_round(&pair, IBV_WR_RDMA_WRITE, SLOT);
		sim_run(pair.sim);
		expect_round(&pair);
		pair_fill(&pair, &pair.a_memory, MEMORY);
		memset(&seen, 0, sizeof(seen));
		seen.lose = missing + 1;
		seen.keep_back = true;
		before = pair.sim->packets_in_bulk;
		for (unsigned i = 0; i < MESSAGES; i++)
			post_cut(&pair, i, PACKETS);
		sim_run_to(pair.sim, pair.sim->now + VB_MILLISECONDS(1));
		assert_true(pair.sim->packets_in_bulk > before);
		for (unsigned i = 0; i < MESSAGES; i++) {
			if (i == missing / (PACKETS + 1)) {
				assert_int_equal(vb_cq_poll(pair.b_cq, 1, &wc), 0);
				seen.keep_back = false;
				sim_run(pair.sim);
			}
			assert_int_equal(vb_cq_poll(pair.b_cq, 1, &wc), 1);
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
			assert_int_equal(wc.wr_id, i);
			assert_memory_equal(pair.b_memory.bytes + i * SLOT, pair.a_memory.bytes + i * SLOT, PACKETS * MTU);
		}
		for (unsigned i = 0; i < 2 * MESSAGES; i++)
			expect_send(pair.a_cq, i, IBV_WC_SUCCESS);
		assert_int_equal(seen.first + seen.middle + seen.last, 0);
		pair_close(&pair);
	}
}

static void post_at_random(struct pair *pair, unsigned slot, uint32_t mtu, uint8_t *expected)
{
	uint32_t length = 1 + sim_below(pair->sim, SLOT < 18 * mtu ? SLOT : 18 * mtu), cut = sim_below(pair->sim, length);
	uint64_t at = (uintptr_t)pair->a_memory.bytes + slot * SLOT;
	struct ibv_sge sge[] = {{at, length, pair->a_memory.key}, {at + cut, length - cut, pair->a_memory.key}};
	struct ibv_send_wr wr = {.wr_id = slot, .sg_list = sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED};

	if (sim_below(pair->sim, 3) == 0)
		sge[0].length = length = length / mtu > 0 ? length / mtu * mtu : mtu;
	if (sim_below(pair->sim, 3) == 0 && cut > 0 && cut < length) {
		sge[0].length = cut;
		sge[1].length = length - cut;
		wr.num_sge = 2;
	}
	memcpy(expected + slot * SLOT, pair->a_memory.bytes + slot * SLOT, length);
	wr.wr.rdma.remote_addr = (uintptr_t)pair->b_memory.bytes + slot * SLOT;
	wr.wr.rdma.rkey = pair->b_memory.key;
	assert_int_equal(sim_post_send(pair->a, &wr), 0);
}

static void disturb(struct pair *pair, unsigned how)
{
	static const struct { uint32_t loss, duplication, reorder, corruption; } disturbances[] = {
		{0, 0, 0, 0}, {10000, 0, 0, 0}, {100000, 0, 0, 0}, {0, 200000, 0, 0}, {0, 0, 100000, 0}, {0, 0, 0, 50000},
		{30000, 30000, 30000, 30000},
	};
	struct sim_network *network = &pair->sim->network;

	how %= sizeof(disturbances) / sizeof(disturbances[0]);
	network->loss = disturbances[how].loss;
	network->duplication = disturbances[how].duplication;
	network->reorder = disturbances[how].reorder;
	network->corruption = disturbances[how].corruption;
}

/* Whether or not the target keeps what comes ahead of a missing packet: the requester does not know beforehand. */
static void on_any_network_the_memory_is_the_same(void **state)
{
	static const enum ibv_mtu mtus[] = {IBV_MTU_1024, IBV_MTU_256, IBV_MTU_4096};
	static uint8_t expected[MEMORY];
	unsigned only = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 42; seed++) {
		struct sim_connection connection = sim_usual;
		struct seen seen;
		struct pair pair;

		connection.mtu = mtus[seed / 7 % 3];
		connection.timeout = 18;
		connection.psn_a = 0xffff80;
		print_message("seed %u\n", (unsigned)seed);
		open_pair(&pair, seed, &connection, &seen);
		vb_roce_engine(pair.b)->responder.drops_ahead = seed % 3 == 0;
		disturb(&pair, (unsigned)seed);
		for (unsigned round = 0; round < 8; round++) {
			pair_fill(&pair, &pair.a_memory, MEMORY);
			/* All of it, so that all is known: from then on parts. */
			if (round == 0) {
				memcpy(expected, pair.a_memory.bytes, MEMORY);
				post_round(&pair, IBV_WR_RDMA_WRITE, SLOT);
			}
			for (unsigned i = 0; round > 0 && i < SLOTS; i++)
				post_at_random(&pair, i, 128u << connection.mtu, expected);
			sim_run(pair.sim);
			expect_round(&pair);
			assert_memory_equal(pair.b_memory.bytes, expected, MEMORY);
		}
		only += seen.only;
		pair_close(&pair);
	}
	assert_true(only > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stream_is_few_runs),
		cmocka_unit_test(only_where_the_target_is_known),
		cmocka_unit_test(long_ones_are_series_unless_a_peer_drops),
		cmocka_unit_test(alone_or_of_another_kind_it_is_one_piece),
		cmocka_unit_test(what_came_ahead_of_a_series_waits),
		cmocka_unit_test(what_is_kept_has_room),
		cmocka_unit_test(nothing_is_written_of_one_that_is_refused),
		cmocka_unit_test(short_ones_end_where_one_is_refused),
		cmocka_unit_test(rights_and_events_are_those_of_one),
		cmocka_unit_test(cut_in_two_they_share_runs),
		cmocka_unit_test(told_when_all_is_there),
		cmocka_unit_test(on_any_network_the_memory_is_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
