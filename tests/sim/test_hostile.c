/* SPDX-License-Identifier: MIT
 *
 * A peer that knows our addresses and numbers and means harm, or is merely mad: packets that pass every check of
 * the wire, with any fields, at any moment, in any state. Whatever it does, nothing breaks that is not its own:
 * invariants hold (the engine asserts them), memory it has no key for is untouched, and the queue pair can be reset
 * and used again.
 */
#include "sim/testing.h"

enum { PACKETS = 3000, SEEDS = 30 };

struct hostile {
	struct pair pair;
	struct sim_region secret;
	uint32_t null_key;
};

static struct psn draw_psn(struct hostile *hostile)
{
	struct sim *sim = hostile->pair.sim;
	struct vb_transport_status status;
	uint32_t base;

	vb_roce_query(hostile->pair.a, &status);
	switch (sim_below(sim, 8)) {
	case 0:
		return psn_of(sim_random(sim));
	case 1:
	case 2:
		base = status.send;
		break;
	case 3:
	case 4:
		base = status.acknowledged;
		break;
	default:
		base = status.expected;
	}
	return psn_of(base + sim_below(sim, sim_below(sim, 2) ? 3 : 200) - sim_below(sim, 3));
}

static uint32_t draw_key(struct hostile *hostile)
{
	struct sim *sim = hostile->pair.sim;

	switch (sim_below(sim, 4)) {
	case 0:
		return sim_random(sim);
	case 1:
		return hostile->null_key;
	default:
		return hostile->pair.a_memory.key;
	}
}

static uint64_t draw_address(struct hostile *hostile)
{
	struct sim *sim = hostile->pair.sim;

	if (sim_below(sim, 4) == 0)
		return (uint64_t)sim_random(sim) << 32 | sim_random(sim);
	return (uintptr_t)hostile->pair.a_memory.bytes + sim_below(sim, 70000) / 8 * 8;
}

static uint32_t draw_length(struct sim *sim)
{
	static const uint32_t lengths[] = {0,    1,    8,	   1023,       1024,	   1025,
					   2048, 4096, 0x7fffffff, 0x80000000, 0x80000001, ~0u};

	return sim_below(sim, 2) ? sim_below(sim, 5000) : lengths[sim_below(sim, 12)];
}

static void draw_packet(struct hostile *hostile, struct vb_roce_packet *packet, enum ibv_qp_type type)
{
	static uint8_t payload[4096];
	struct sim *sim = hostile->pair.sim;
	uint8_t service = type == IBV_QPT_RC ? 0 : type == IBV_QPT_UC ? 0x20 : 0x60;

	memset(packet, 0, sizeof(*packet));
	do {
		packet->opcode = (uint8_t)(sim_below(sim, 16) ? service + sim_below(sim, 0x20) : sim_random(sim));
		packet->op = vb_roce_opcode(packet->opcode);
	} while (!packet->op->name);
	packet->solicited = sim_below(sim, 2);
	packet->ack_request = sim_below(sim, 2);
	packet->pkey = sim_below(sim, 50) ? 0xffff : (uint16_t)sim_random(sim);
	packet->psn = draw_psn(hostile);
	packet->reth.address = draw_address(hostile);
	packet->reth.rkey = draw_key(hostile);
	packet->reth.length = draw_length(sim);
	packet->atomic.address = draw_address(hostile) + (sim_below(sim, 8) == 0);
	packet->atomic.rkey = draw_key(hostile);
	packet->aeth.syndrome = (uint8_t)(sim_below(sim, 4) ? sim_below(sim, 32) : sim_random(sim));
	packet->aeth.msn = sim_random(sim);
	packet->deth.qkey = sim_below(sim, 4) ? 0x11111111 : sim_random(sim);
	packet->deth.source_qpn = sim_random(sim) & 0xffffff;
	packet->invalidate_rkey = draw_key(hostile);
	packet->payload = payload;
	packet->from.traffic_class = sim_below(sim, 8) ? 0 : 3;
	if (packet->op->carries_payload)
		packet->payload_length = sim_below(sim, 3) ? 1024 : sim_below(sim, 4097);
	if (packet->op->kind == VB_KIND_ATOMIC_WRITE && sim_below(sim, 8))
		packet->payload_length = packet->reth.length = 8;
}

/* What an application does meanwhile. */
static void live(struct hostile *hostile, enum ibv_qp_type type)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
						     IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD};
	struct pair *pair = &hostile->pair;
	struct sim *sim = pair->sim;
	struct ibv_wc wc;

	while (sim_poll(pair->a_cq, &wc))
		;
	if (pair->a->state == IBV_QPS_ERR)
		return;
	sim_post_receive(pair->a, pair->a_memory.bytes, sim_below(sim, 8192), pair->a_memory.key, 1);
	if (pair->a->state == IBV_QPS_RTS && type != IBV_QPT_UD) {
		enum ibv_wr_opcode opcode = opcodes[sim_below(sim, type == IBV_QPT_RC ? 5 : 3)];
		bool atomic = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
		struct ibv_sge sge = {(uintptr_t)pair->a_memory.bytes, atomic ? 8 : sim_below(sim, 65536),
				      pair->a_memory.key};
		struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode,
					 .send_flags = IBV_SEND_SIGNALED};

		wr.wr.rdma.remote_addr = (uintptr_t)pair->b_memory.bytes;
		wr.wr.rdma.rkey = pair->b_memory.key;
		if (atomic) {
			wr.wr.atomic.remote_addr = (uintptr_t)pair->b_memory.bytes;
			wr.wr.atomic.rkey = pair->b_memory.key;
		}
		sim_post_send(pair->a, &wr);
	}
}

static void attack(uint64_t seed, enum ibv_qp_type type)
{
	struct sim_connection connection = sim_usual;
	struct hostile hostile;
	struct pair *pair = &hostile.pair;
	unsigned lives = 0;

	pair_make(pair, seed, seed % 2, type, 65536);
	hostile.secret = sim_region(pair->hosts[0], 4096, SIM_ALL_ACCESS);
	memset(hostile.secret.bytes, 0x5e, 4096);
	hostile.null_key = sim_null_region(pair->hosts[0]);
	/* The peer's own engine stays out of it. */
	pair->sim->network.loss = SIM_MILLION;
	for (unsigned i = 0; i < PACKETS; i++) {
		struct vb_roce_packet packet;

		if (pair->a->state == IBV_QPS_ERR && sim_below(pair->sim, 20) == 0)
			assert_int_equal(sim_modify_state(pair->a, IBV_QPS_RESET), 0);
		if (pair->a->state == IBV_QPS_RESET && sim_below(pair->sim, 4) == 0) {
			lives++;
			if (type == IBV_QPT_UD) {
				sim_open_datagram(pair->a, 0x11111111, IBV_MTU_1024);
			} else {
				connection.psn_a = sim_random(pair->sim);
				connection.psn_b = sim_random(pair->sim);
				assert_int_equal(sim_to_init(pair->a, SIM_ALL_ACCESS & ~IBV_ACCESS_MW_BIND), 0);
				assert_int_equal(sim_to_rtr(pair->a, pair->b, &connection, connection.psn_b, 4), 0);
			}
		}
		if (pair->a->state == IBV_QPS_RTR && sim_below(pair->sim, 20) == 0)
			assert_int_equal(sim_to_rts(pair->a, &connection, connection.psn_a, 4), 0);
		if (pair->a->state == IBV_QPS_RTS && sim_below(pair->sim, 100) == 0)
			sim_modify_state(pair->a, IBV_QPS_SQD);
		if (pair->a->state == IBV_QPS_SQD && sim_below(pair->sim, 10) == 0)
			sim_modify_state(pair->a, IBV_QPS_RTS);
		if (pair->a->state == IBV_QPS_SQE)
			sim_modify_state(pair->a, IBV_QPS_ERR);
		if (sim_below(pair->sim, 3) == 0 && pair->a->state >= IBV_QPS_INIT)
			live(&hostile, type);
		draw_packet(&hostile, &packet, type);
		sim_inject(pair->a, &packet);
		sim_run_to(pair->sim,
			   pair->sim->now + sim_below(pair->sim, 20) * VB_MICROSECONDS(sim_below(pair->sim, 100)));
	}
	assert_true(lives > 1 || type != IBV_QPT_RC);
	for (unsigned i = 0; i < 4096; i++)
		assert_int_equal(hostile.secret.bytes[i], 0x5e);
	sim_region_free(&hostile.secret);
	pair_close(pair);
}

static void reliable_connection(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < SEEDS; seed++)
		attack(seed, IBV_QPT_RC);
}

static void unreliable_connection(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < SEEDS / 3; seed++)
		attack(seed, IBV_QPT_UC);
}

static void datagram(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < SEEDS / 3; seed++)
		attack(seed, IBV_QPT_UD);
}

/* Not from the peer: a packet with all numbers right and another source. */
static void foreign_address(void **state)
{
	struct vb_roce_packet packet = {.opcode = 0x0a, .op = vb_roce_opcode(0x0a), .pkey = 0xffff};
	struct pair pair;

	(void)state;
	pair_open(&pair, 1, false, &sim_usual, 4096);
	packet.psn = psn_of(sim_usual.psn_b);
	packet.reth.address = (uintptr_t)pair.a_memory.bytes;
	packet.reth.rkey = pair.a_memory.key;
	packet.reth.length = packet.payload_length = 4;
	packet.payload = (const uint8_t *)"evil";
	packet.destination_qpn = pair.a->qpn;
	memcpy(packet.from.source, pair.hosts[1]->address, 16);
	packet.from.source[14] ^= 1;
	vb_lock_take(&pair.a->lock);
	vb_roce_receive(pair.a, pair.sim->now, &packet);
	assert_int_equal(pair.hosts[0]->counters.bad_address_pkts, 1);
	assert_int_equal(pair.a_memory.bytes[0], 0);
	packet.from.source[14] ^= 1;
	packet.pkey = 0x1234;
	vb_roce_receive(pair.a, pair.sim->now, &packet);
	assert_int_equal(pair.hosts[0]->counters.bad_pkey_pkts, 1);
	assert_int_equal(pair.a_memory.bytes[0], 0);
	packet.pkey = 0x7fff; /* a limited member of our partition */
	vb_roce_receive(pair.a, pair.sim->now, &packet);
	assert_memory_equal(pair.a_memory.bytes, "evil", 4);
	vb_lock_release(&pair.a->lock);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reliable_connection),
		cmocka_unit_test(unreliable_connection),
		cmocka_unit_test(datagram),
		cmocka_unit_test(foreign_address),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
