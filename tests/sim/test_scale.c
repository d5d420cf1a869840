/* SPDX-License-Identifier: MIT
 *
 * Many hosts, and packets without payload: that both change nothing of what engines do.
 */
#include "sim/testing.h"

enum { HOSTS = 600, LENGTH = 40000 };

/* Every host writes to the next but some: numbers above 255 in addresses and in who receives what. */
static void more_hosts_than_a_byte_counts(void **state)
{
	struct sim *sim = sim_create(3);
	struct sim_host *hosts[HOSTS];
	struct vb_cq *cqs[HOSTS];
	struct sim_region memory[HOSTS];
	struct vb_qp *qps[HOSTS], *peers[HOSTS];
	struct ibv_wc wc;

	(void)state;
	for (unsigned i = 0; i < HOSTS; i++) {
		hosts[i] = sim_host_add(sim, i % 2);
		cqs[i] = sim_cq(hosts[i], 16);
		memory[i] = sim_region(hosts[i], 2 * 64, SIM_ALL_ACCESS);
		memset(memory[i].bytes, (int)(i % 251), 64);
	}
	for (unsigned i = 0; i < HOSTS; i++) {
		unsigned to = (i + 258) % HOSTS;
		struct ibv_sge sge = {(uintptr_t)memory[i].bytes, 64, memory[i].key};
		struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
					 .send_flags = IBV_SEND_SIGNALED};

		qps[i] = sim_qp(hosts[i], IBV_QPT_RC, cqs[i], cqs[i], NULL);
		peers[i] = sim_qp(hosts[to], IBV_QPT_RC, cqs[to], cqs[to], NULL);
		sim_connect(qps[i], peers[i], &sim_usual);
		wr.wr.rdma.remote_addr = (uintptr_t)memory[to].bytes + 64;
		wr.wr.rdma.rkey = memory[to].key;
		assert_int_equal(sim_post_send(qps[i], &wr), 0);
	}
	sim_run(sim);
	for (unsigned i = 0; i < HOSTS; i++) {
		unsigned from = (i + HOSTS - 258) % HOSTS;

		assert_true(sim_poll(cqs[i], &wc));
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_memory_equal(memory[i].bytes + 64, memory[from].bytes, 64);
		assert_int_equal(hosts[i]->counters.rcvd_pkts, 2);
	}
	for (unsigned i = 0; i < HOSTS; i++) {
		sim_qp_free(qps[i]);
		sim_qp_free(peers[i]);
	}
	for (unsigned i = 0; i < HOSTS; i++) {
		sim_region_free(&memory[i]);
		sim_cq_free(cqs[i]);
	}
	sim_destroy(sim);
}

/* The same work with and without payload, on a bad line: the same PSNs, and all of it is done. */
static struct vb_transport_status work(bool headers_only)
{
	struct vb_transport_status status;
	struct pair pair;
	struct ibv_wc wc;

	pair_open(&pair, 77, false, &sim_usual, LENGTH);
	pair_fill(&pair, &pair.a_memory, LENGTH);
	pair.sim->headers_only = headers_only;
	pair.sim->network.loss = 20000;
	pair.sim->network.picoseconds_per_byte = 80;
	for (unsigned i = 0; i < 60; i++)
		pair_post(&pair, i % 3 == 1 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, i % 5 ? LENGTH - 7 * i : i, i);
	sim_run(pair.sim);
	for (unsigned i = 0; i < 60; i++) {
		assert_true(sim_poll(pair.a_cq, &wc));
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
	}
	assert_true(pair.sim->packets_lost > 10);
	vb_roce_query(pair.b, &status);
	/* Nothing but zeros arrives where there is no payload. */
	for (unsigned i = 0; i < LENGTH && headers_only; i++)
		assert_int_equal(pair.b_memory.bytes[i], 0);
	pair_close(&pair);
	return status;
}

static void payload_makes_no_difference(void **state)
{
	struct vb_transport_status with = work(false), without = work(true);

	(void)state;
	assert_int_equal(with.expected, without.expected);
	/* Packets with payload arrive in bundles, and the window decides in how many pieces a read is asked for. */
	assert_true(with.msn >= 60 && without.msn >= 60);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(more_hosts_than_a_byte_counts),
		cmocka_unit_test(payload_makes_no_difference),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
