/* SPDX-License-Identifier: MIT
 *
 * RC over a bad network: whatever is lost, doubled, reordered or damaged, all work is done exactly once and in
 * order, in both directions at once.
 */
#include "sim/traffic.h"

struct disturbance {
	const char *name;
	uint32_t loss, duplication, reorder, corruption;
};

static const struct disturbance disturbances[] = {
	{"clean", 0, 0, 0, 0},
	{"loss 1 %", 10000, 0, 0, 0},
	{"loss 10 %", 100000, 0, 0, 0},
	{"duplication 20 %", 0, 200000, 0, 0},
	{"reorder 10 %", 0, 0, 100000, 0},
	{"corruption 5 %", 0, 0, 0, 50000},
	{"everything", 30000, 30000, 30000, 30000},
};

static void run_mix(const struct disturbance *disturbance, uint64_t seed, enum ibv_mtu mtu, uint8_t rd_atomic)
{
	struct sim *sim = sim_create(seed);
	struct sim_host *a = sim_host_add(sim, seed % 2), *b = sim_host_add(sim, seed % 2);
	struct sim_connection connection = sim_usual;
	struct traffic there, back;
	struct vb_qp *qp_a, *qp_b;
	vb_time limit = sim->now + VB_SECONDS(300);
	bool done = false;

	traffic_open(&there, a, b);
	traffic_open(&back, b, a);
	qp_a = sim_qp(a, IBV_QPT_RC, there.from_cq, back.to_cq, NULL);
	qp_b = sim_qp(b, IBV_QPT_RC, back.from_cq, there.to_cq, NULL);
	connection.mtu = mtu;
	connection.psn_a = 0xffff80;
	connection.psn_b = sim_random(sim) & 0xffffff;
	connection.rd_atomic_a = connection.rd_atomic_b = rd_atomic;
	/* Losses must not look like a dead peer. */
	connection.timeout = 18;
	sim_connect(qp_a, qp_b, &connection);
	traffic_plan(&there, qp_a, qp_b, 120, 20000, TRAFFIC_ALL);
	traffic_plan(&back, qp_b, qp_a, 120, 20000, TRAFFIC_ALL);
	sim->network.loss = disturbance->loss;
	sim->network.duplication = disturbance->duplication;
	sim->network.reorder = disturbance->reorder;
	sim->network.corruption = disturbance->corruption;
	while (!done) {
		done = traffic_step(&there);
		done = traffic_step(&back) && done;
		sim_run_to(sim, sim->now + VB_MICROSECONDS(20));
		if (sim->now > limit || qp_a->state != IBV_QPS_RTS || qp_b->state != IBV_QPS_RTS) {
			print_message("%s, seed %u, mtu %u, rd_atomic %u: there %u/%u, back %u/%u, states %d %d, %s\n",
				      disturbance->name, (unsigned)seed, 128u << mtu, rd_atomic, there.completed,
				      there.work, back.completed, back.work, qp_a->state, qp_b->state,
				      vb_fault_name(qp_a->fault.fault));
			fail();
		}
	}
	traffic_verify(&there);
	traffic_verify(&back);
	/* Of messages of up to 20,000 bytes hardly one has no middles; if none was taken as such this tests half of it. */
	assert_true(mtu != IBV_MTU_256 || sim->packets_in_bulk > 0);
	sim_qp_free(qp_a);
	sim_qp_free(qp_b);
	traffic_close(&there);
	traffic_close(&back);
	sim_destroy(sim);
}

static void exactly_once_whatever_happens(void **state)
{
	static const enum ibv_mtu mtus[] = {IBV_MTU_256, IBV_MTU_1024, IBV_MTU_4096};
	static const uint8_t rd_atomics[] = {1, 2, 16};
	uint64_t seed = 1000;

	(void)state;
	for (unsigned d = 0; d < sizeof(disturbances) / sizeof(disturbances[0]); d++)
		for (unsigned m = 0; m < 3; m++)
			for (unsigned r = 0; r < 3; r++)
				run_mix(&disturbances[d], ++seed, mtus[m], rd_atomics[r]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exactly_once_whatever_happens),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
