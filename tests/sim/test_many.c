/* SPDX-License-Identifier: MIT
 *
 * Many at once: QPs that share a receive queue, QPs by the thousand, several hosts in a ring with one small socket
 * buffer each.
 */
#include "sim/traffic.h"

enum { SENDERS = 24, PER_SENDER = 40, MESSAGE = 3000 };

static void shared_receive_queue(void **state)
{
	struct sim *sim = sim_create(9);
	struct sim_host *server = sim_host_add(sim, false), *client = sim_host_add(sim, false);
	struct vb_cq *server_cq = sim_cq(server, 4096), *client_cq = sim_cq(client, 4096);
	struct vb_srq *srq = sim_srq(server, 64);
	struct sim_region target = sim_region(server, 64 * 4096, SIM_ALL_ACCESS);
	struct sim_region source = sim_region(client, 4096, SIM_ALL_ACCESS);
	struct vb_qp *clients[SENDERS], *servers[SENDERS];
	uint32_t next[SENDERS] = {0}, received = 0, completed = 0;
	struct ibv_wc wc;

	(void)state;
	for (unsigned i = 0; i < SENDERS; i++) {
		servers[i] = sim_qp(server, IBV_QPT_RC, server_cq, server_cq, srq);
		clients[i] = sim_qp(client, IBV_QPT_RC, client_cq, client_cq, NULL);
		sim_connect(clients[i], servers[i], &sim_usual);
	}
	sim->network.loss = 5000;
	for (unsigned i = 0; i < 32; i++)
		assert_int_equal(sim_post_receive(servers[0], target.bytes + i * 4096, 4096, target.key, i), 0);
	for (unsigned n = 0; n < PER_SENDER; n++) {
		for (unsigned i = 0; i < SENDERS; i++) {
			struct ibv_sge sge = {(uintptr_t)source.bytes, MESSAGE, source.key};
			struct ibv_send_wr wr = {.wr_id = n, .sg_list = &sge, .num_sge = 1,
						 .opcode = IBV_WR_SEND_WITH_IMM, .imm_data = htobe32(n),
						 .send_flags = IBV_SEND_SIGNALED};

			assert_int_equal(sim_post_send(clients[i], &wr), 0);
		}
	}
	for (unsigned round = 0; round < 200000 && received + completed < 2 * SENDERS * PER_SENDER; round++) {
		sim_run_to(sim, sim->now + VB_MICROSECONDS(50));
		while (sim_poll(server_cq, &wc)) {
			unsigned i = 0;

			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			assert_int_equal(wc.byte_len, MESSAGE);
			while (servers[i]->qpn != wc.qp_num)
				i++;
			/* in order from each sender */
			assert_int_equal(be32toh(wc.imm_data), next[i]++);
			assert_int_equal(sim_post_receive(servers[0], target.bytes + wc.wr_id * 4096, 4096, target.key,
							  wc.wr_id),
					 0);
			received++;
		}
		while (sim_poll(client_cq, &wc)) {
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			completed++;
		}
	}
	assert_int_equal(received, SENDERS * PER_SENDER);
	assert_int_equal(completed, SENDERS * PER_SENDER);
	assert_int_equal(sim_modify_state(servers[0], IBV_QPS_ERR), 0);
	assert_true(sim_host_was_told(server, IBV_EVENT_QP_LAST_WQE_REACHED));
	for (unsigned i = 0; i < SENDERS; i++) {
		sim_qp_free(clients[i]);
		sim_qp_free(servers[i]);
	}
	sim_region_free(&target);
	sim_region_free(&source);
	sim_srq_free(srq);
	sim_cq_free(server_cq);
	sim_cq_free(client_cq);
	sim_destroy(sim);
}

static void thousands_of_queue_pairs(void **state)
{
	enum { PAIRS = 2000 };
	struct sim *sim = sim_create(10);
	struct sim_host *a = sim_host_add(sim, false), *b = sim_host_add(sim, false);
	struct vb_cq *a_cq = sim_cq(a, 3 * PAIRS), *b_cq = sim_cq(b, 3 * PAIRS);
	struct sim_region source = sim_region(a, PAIRS * 8, SIM_ALL_ACCESS);
	struct sim_region target = sim_region(b, PAIRS * 8 + 8, SIM_ALL_ACCESS);
	struct vb_qp **qps = calloc(2 * PAIRS, sizeof(*qps));
	uint64_t counter;
	struct ibv_wc wc;
	unsigned done = 0;

	(void)state;
	assert_non_null(qps);
	sim->network.loss = 10000;
	a->buffer_limit = b->buffer_limit = 425984;
	for (unsigned i = 0; i < PAIRS; i++) {
		struct ibv_sge sge = {(uintptr_t)source.bytes + i * 8, 8, source.key};
		struct ibv_send_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1,
					 .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .send_flags = IBV_SEND_SIGNALED};
		struct sim_connection connection = sim_usual;

		connection.timeout = 20;
		qps[2 * i] = sim_qp(a, IBV_QPT_RC, a_cq, a_cq, NULL);
		qps[2 * i + 1] = sim_qp(b, IBV_QPT_RC, b_cq, b_cq, NULL);
		sim_connect(qps[2 * i], qps[2 * i + 1], &connection);
		wr.wr.atomic.remote_addr = (uintptr_t)target.bytes;
		wr.wr.atomic.rkey = target.key;
		wr.wr.atomic.compare_add = 1;
		assert_int_equal(sim_post_send(qps[2 * i], &wr), 0);
		wr.opcode = IBV_WR_RDMA_WRITE;
		wr.wr.rdma.remote_addr = (uintptr_t)target.bytes + 8 + i * 8;
		wr.wr.rdma.rkey = target.key;
		assert_int_equal(sim_post_send(qps[2 * i], &wr), 0);
	}
	sim_run(sim);
	while (sim_poll(a_cq, &wc)) {
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		done++;
	}
	assert_int_equal(done, 2 * PAIRS);
	memcpy(&counter, target.bytes, 8);
	assert_int_equal(counter, PAIRS);
	for (unsigned i = 0; i < 2 * PAIRS; i++)
		sim_qp_free(qps[i]);
	free(qps);
	sim_region_free(&source);
	sim_region_free(&target);
	sim_cq_free(a_cq);
	sim_cq_free(b_cq);
	sim_destroy(sim);
}

/* Sixteen QPs of one process share one socket buffer, in both directions, reads and writes. */
static void one_buffer_for_all(void **state)
{
	enum { PAIRS = 16, LENGTH = 1 << 18 };
	struct sim *sim = sim_create(11);
	struct sim_host *a = sim_host_add(sim, false), *b = sim_host_add(sim, false);
	struct vb_cq *cqs[2 * PAIRS];
	struct sim_region memory[2] = {sim_region(a, LENGTH, SIM_ALL_ACCESS), sim_region(b, LENGTH, SIM_ALL_ACCESS)};
	struct vb_qp *qps[2 * PAIRS];
	struct ibv_wc wc;

	(void)state;
	a->buffer_limit = b->buffer_limit = 425984;
	sim->network.service_delay = VB_MICROSECONDS(20);
	for (unsigned i = 0; i < 2 * PAIRS; i++) {
		cqs[i] = sim_cq(i % 2 ? b : a, 64);
		qps[i] = sim_qp(i % 2 ? b : a, IBV_QPT_RC, cqs[i], cqs[i], NULL);
		if (i % 2)
			sim_connect(qps[i - 1], qps[i], &sim_usual);
	}
	for (unsigned i = 0; i < 2 * PAIRS; i++) {
		struct sim_region *here = &memory[i % 2], *there = &memory[1 - i % 2];
		struct ibv_sge sge = {(uintptr_t)here->bytes, LENGTH, here->key};
		struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED};

		wr.wr.rdma.remote_addr = (uintptr_t)there->bytes;
		wr.wr.rdma.rkey = there->key;
		for (wr.wr_id = 0; wr.wr_id < 4; wr.wr_id++) {
			wr.opcode = (i / 2 + wr.wr_id) % 2 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
			assert_int_equal(sim_post_send(qps[i], &wr), 0);
		}
	}
	sim_run(sim);
	for (unsigned i = 0; i < 2 * PAIRS; i++)
		for (unsigned k = 0; k < 4; k++) {
			assert_true(sim_poll(cqs[i], &wc));
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			assert_int_equal(wc.wr_id, k);
		}
	/* 32 x 4 x 256 packets, and not many times that. */
	if (sim->packets_sent > 3 * 32768)
		print_message("%u packets, %u dropped\n", (unsigned)sim->packets_sent,
			      (unsigned)(a->buffer_drops + b->buffer_drops));
	assert_true(sim->packets_sent < 3 * 32768);
	for (unsigned i = 0; i < 2 * PAIRS; i++) {
		sim_qp_free(qps[i]);
		sim_cq_free(cqs[i]);
	}
	sim_region_free(&memory[0]);
	sim_region_free(&memory[1]);
	sim_destroy(sim);
}

/* An engine is small, as an application may have ten thousand of them. */
static void engine_is_small(void **state)
{
	(void)state;
	assert_true(vb_roce_transport.engine_size <= 2048);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shared_receive_queue),
		cmocka_unit_test(thousands_of_queue_pairs),
		cmocka_unit_test(one_buffer_for_all),
		cmocka_unit_test(engine_is_small),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
