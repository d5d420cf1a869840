/* SPDX-License-Identifier: MIT
 *
 * A reliable queue pair, requester and responder, whose peer sends what the input says: any opcode, PSN, key, address, length and
 * syndrome, in any order, all of it as if it came from the peer. In between the program posts, changes states, and time passes
 * (virtual). Invariants, besides those that the engine asserts itself:
 *
 *   memory    what the peer has no key for changes only inside receives and READs that were posted; what it may only read does not change
 *   work      completes exactly once, in order; when the peer is silent it comes to an end, and in the error state all does
 *
 * Each step is a byte for what to do and a few for its details; an input that ends in the middle reads zeros.
 */
#include <string.h>

#include "roce/roce.h"
#include "sim/sim.h"
#include "input.h"
#include "target.h"

enum {
	MOST_STEPS = 200,
	OPEN = 32 << 10,                 /* of the memory that the peer may do anything with */
	PLACES = 64,                     /* each posted receive or READ has one of its own */
	PLACE = 4096,
	MARGIN = 64,
	SENDS = 64,                      /* most that are posted at a time */
	UNTOUCHED = 0x5a,
};

static struct {
	struct sim *sim;
	struct sim_host *host;
	struct vb_qp *qp, *peer;
	struct vb_cq *cq, *peer_cq;
	struct sim_region open, closed, readable;
	uint32_t length[PLACES];         /* what was posted there; 0: nothing */
	unsigned places;
	uint64_t posted[2], completed[2];/* sends, receives: numbers of work requests */
	struct sim_connection connection;
	struct fuzz_input input;
} world;

static uint32_t take(unsigned bytes)
{
	return fuzz_take(&world.input, bytes);
}

/* ---- what the peer sends ---- */

static struct psn take_psn(void)
{
	struct vb_transport_status status;
	uint32_t choice = take(1);
	uint32_t near = (choice >> 2 & 31) - 8;

	vb_roce_query(world.qp, &status);
	switch (choice & 3) {
	case 0:
		return psn_of(status.expected + (choice & 0x80 ? near : 0));
	case 1:
		return psn_of(status.acknowledged + near);
	case 2:
		return psn_of(status.send + near);
	default:
		return psn_of(take(3));
	}
}

static uint32_t take_key(void)
{
	uint32_t choice = take(1);

	return choice % 8 == 7 ? take(4) : choice % 8 == 6 ? world.readable.key : world.open.key;
}

static uint64_t take_address(void)
{
	uint32_t choice = take(2);

	if (choice % 16 == 15)
		return (uint64_t)take(4) << 32 | take(4);
	return (uintptr_t)(choice % 16 == 14 ? world.readable.bytes : world.open.bytes) + choice % OPEN / 8 * 8;
}

static uint32_t take_length(void)
{
	static const uint32_t lengths[] = {0, 1, 8, 1023, 1024, 1025, 2048, 4096, 0x7fffffff, 0x80000000, 0x80000001, UINT32_MAX};
	uint32_t choice = take(1);

	return choice & 0x80 ? take(2) : lengths[choice % 12];
}

static void send_packet(void)
{
	static const uint8_t payload[4096];
	struct vb_roce_packet packet = {.pkey = 0xffff, .payload = payload};
	uint32_t opcode = take(1), flags;

	packet.opcode = (uint8_t)(opcode & 0x80 ? opcode : opcode % 0x20);
	packet.op = vb_roce_opcode(packet.opcode);
	if (!packet.op->name)
		return;
	flags = take(1);
	packet.solicited = flags & 1;
	packet.ack_request = flags & 2;
	packet.psn = take_psn();
	packet.from.traffic_class = flags & 4 ? 3 : 0;
	packet.reth.address = take_address();
	packet.reth.rkey = take_key();
	packet.reth.length = take_length();
	packet.atomic.address = packet.reth.address + (flags & 8 ? 1 : 0);
	packet.atomic.rkey = packet.invalidate_rkey = packet.reth.rkey;
	packet.aeth.syndrome = (uint8_t)take(1);
	packet.aeth.msn = flags & 16 ? take(3) : 1;
	if (packet.op->carries_payload)
		packet.payload_length = flags & 32 ? take(2) % 4097 : flags & 64 ? packet.reth.length % 1025 : 1024;
	sim_inject(world.qp, &packet);
}

/* ---- what the program does ---- */

static void drain(void)
{
	struct ibv_wc wc;

	while (sim_poll(world.cq, &wc)) {
		bool receives = wc.wr_id >> 32;

		FUZZ_CHECK((uint32_t)wc.wr_id == (uint32_t)world.completed[receives]);
		FUZZ_CHECK(world.completed[receives] < world.posted[receives]);
		world.completed[receives]++;
		/* The contents of a receive that failed are not said to be anything. */
		FUZZ_CHECK(!receives || wc.status != IBV_WC_SUCCESS || wc.byte_len <= PLACE || wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM);
	}
}

static uint8_t *take_place(uint32_t length)
{
	world.length[world.places] = length;
	return world.closed.bytes + (size_t)world.places++ * (PLACE + MARGIN);
}

static void post_send(void)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
						     IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_SEND_WITH_INV};
	uint32_t choice = take(1), length = 1 + take(2) % (PLACE - 1);
	struct ibv_sge sge = {(uintptr_t)world.readable.bytes, length, world.readable.key};
	struct ibv_send_wr wr = {.wr_id = world.posted[0], .sg_list = &sge, .num_sge = 1, .opcode = opcodes[choice % 6],
				 .send_flags = IBV_SEND_SIGNALED | (choice & 0x40 ? IBV_SEND_FENCE : 0)};

	if (world.posted[0] - world.completed[0] >= SENDS || world.places == PLACES)
		return;
	wr.wr.rdma.rkey = 0x1234;
	if (wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		sge.length = 8;
	if (wr.opcode == IBV_WR_RDMA_READ || wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		sge.addr = (uintptr_t)take_place(sge.length);
		sge.lkey = world.closed.key;
	}
	if (sim_post_send(world.qp, &wr) == 0)
		world.posted[0]++;
}

static void post_receive(void)
{
	uint32_t length = take(2) % (PLACE + 1);

	if (world.places == PLACES || world.qp->state == IBV_QPS_RESET)
		return;
	if (sim_post_receive(world.qp, take_place(length), length, world.closed.key, (uint64_t)1 << 32 | world.posted[1]) == 0)
		world.posted[1]++;
}

static void begin(void)
{
	world.connection.psn_a = take(3);
	world.connection.psn_b = take(3);
	FUZZ_CHECK(sim_to_init(world.qp, SIM_ALL_ACCESS & ~IBV_ACCESS_MW_BIND) == 0);
	FUZZ_CHECK(sim_to_rtr(world.qp, world.peer, &world.connection, world.connection.psn_b, 4) == 0);
	FUZZ_CHECK(sim_to_rts(world.qp, &world.connection, world.connection.psn_a, 4) == 0);
}

/* What it had posted is spoken of no more. */
static void reset(void)
{
	drain();
	FUZZ_CHECK(sim_modify_state(world.qp, IBV_QPS_RESET) == 0);
	drain();
	world.completed[0] = world.posted[0];
	world.completed[1] = world.posted[1];
	begin();
}

static void change_state(void)
{
	switch (take(1) % 8) {
	case 0:
		reset();
		break;
	case 1:
		FUZZ_CHECK(sim_modify_state(world.qp, IBV_QPS_ERR) == 0);
		break;
	case 2:
	case 3:
		if (world.qp->state == IBV_QPS_RTS)
			FUZZ_CHECK(sim_modify_state(world.qp, IBV_QPS_SQD) == 0);
		break;
	default:
		if (world.qp->state == IBV_QPS_ERR)
			reset();
		else if (world.qp->state == IBV_QPS_SQD || world.qp->state == IBV_QPS_SQE)
			sim_modify_state(world.qp, IBV_QPS_RTS); /* refused while it drains */
	}
}

static void step(void)
{
	switch (take(1) % 16) {
	case 0:
	case 1:
	case 2:
		post_send();
		break;
	case 3:
	case 4:
		post_receive();
		break;
	case 5:
		change_state();
		break;
	case 6:
		sim_run_to(world.sim, world.sim->now + VB_MICROSECONDS((uint64_t)1 << take(1) % 24));
		break;
	case 7:
		drain();
		break;
	default:
		send_packet();
	}
	sim_run_to(world.sim, world.sim->now + VB_MICROSECONDS(1));
}

/* ---- in the end ---- */

static void end(void)
{
	vb_time limit = world.sim->now + VB_SECONDS(120);

	/* Where it sends, silence is an answer after some time. */
	while (world.qp->state == IBV_QPS_RTS && world.completed[0] < world.posted[0]) {
		FUZZ_CHECK(world.sim->now < limit);
		sim_run_to(world.sim, world.sim->now + VB_MILLISECONDS(20));
		drain();
	}
	FUZZ_CHECK(sim_modify_state(world.qp, IBV_QPS_ERR) == 0);
	sim_run_to(world.sim, world.sim->now + VB_SECONDS(1));
	drain();
	FUZZ_CHECK(world.completed[0] == world.posted[0] && world.completed[1] == world.posted[1]);
}

static void check_memory(void)
{
	for (unsigned i = 0; i < PLACES; i++) {
		const uint8_t *place = world.closed.bytes + (size_t)i * (PLACE + MARGIN);

		for (unsigned at = world.length[i]; at < PLACE + MARGIN; at++)
			FUZZ_CHECK(place[at] == UNTOUCHED);
	}
	for (unsigned i = 0; i < PLACE; i++)
		FUZZ_CHECK(world.readable.bytes[i] == UNTOUCHED);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length)
{
	memset(&world, 0, sizeof(world));
	world.input = (struct fuzz_input){input, length};
	world.sim = sim_create(take(1));
	world.host = sim_host_add(world.sim, false);
	world.connection = sim_usual;
	world.connection.timeout = 8;
	world.connection.retry_cnt = 2;
	world.connection.rnr_retry = 3;
	world.cq = sim_cq(world.host, 4096);
	world.qp = sim_qp(world.host, IBV_QPT_RC, world.cq, world.cq, NULL);
	world.open = sim_region(world.host, OPEN + PLACE, SIM_ALL_ACCESS);
	world.closed = sim_region(world.host, (size_t)PLACES * (PLACE + MARGIN), IBV_ACCESS_LOCAL_WRITE);
	world.readable = sim_region(world.host, PLACE, IBV_ACCESS_REMOTE_READ);
	memset(world.closed.bytes, UNTOUCHED, world.closed.length);
	memset(world.readable.bytes, UNTOUCHED, PLACE);
	/* For its address and number; its own engine stays out of it. */
	world.peer_cq = sim_cq(sim_host_add(world.sim, false), 16);
	world.peer = sim_qp(world.sim->hosts[1], IBV_QPT_RC, world.peer_cq, world.peer_cq, NULL);
	world.sim->network.loss = SIM_MILLION;
	begin();
	for (unsigned steps = 0; steps < MOST_STEPS && world.input.left > 0; steps++)
		step();
	end();
	check_memory();
	sim_qp_free(world.qp);
	sim_qp_free(world.peer);
	sim_cq_free(world.cq);
	sim_cq_free(world.peer_cq);
	sim_region_free(&world.open);
	sim_region_free(&world.closed);
	sim_region_free(&world.readable);
	sim_destroy(world.sim);
	return 0;
}
