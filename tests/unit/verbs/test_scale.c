/* SPDX-License-Identifier: MIT
 *
 * Ten thousand queue pairs in one process, and what one costs.
 */
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/one_world.h"
#include "lib/private_network.h"
#include "lib/resident.h"

enum { MANY = 10000, QUEUE_PAIR_MAY_COST = 12 * 1024 };

static void ten_thousand_queue_pairs(void **state)
{
	static struct ibv_qp *qp[MANY];
	struct ibv_cq *cq = ibv_create_cq(world.context, 256, NULL, NULL, 0);
	size_t before = resident_bytes("/proc/self"), cost;
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	for (int i = 0; i < MANY; i++) {
		struct ibv_qp_init_attr attr = {
			.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
			.cap = {.max_send_wr = 128, .max_recv_wr = 128, .max_send_sge = 1, .max_recv_sge = 1},
		};
		struct ibv_qp_attr to_init = {.qp_state = IBV_QPS_INIT, .port_num = 1};

		qp[i] = ibv_create_qp(world.pd, &attr);
		assert_non_null(qp[i]);
		assert_int_equal(ibv_modify_qp(qp[i], &to_init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					       IBV_QP_ACCESS_FLAGS), 0);
	}
	cost = (resident_bytes("/proc/self") - before) / MANY;
	print_message("a queue pair costs %zu bytes\n", cost);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	assert_true(cost < QUEUE_PAIR_MAY_COST);
#endif
	/* And one more pair among them works. */
	pair_open(&pair, &world, NULL);
	for (int i = 0; i < 100; i++) {
		wr = pair_request(&pair, 0, IBV_WR_RDMA_WRITE, &sge, 0, 5000);
		pair_post(&pair, 0, &wr);
		expect_completion(pair.cq[0], wr.wr_id, IBV_WC_RDMA_WRITE);
	}
	pair_close(&pair);
	for (int i = 0; i < MANY; i++)
		assert_int_equal(ibv_destroy_qp(qp[i]), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static size_t shared_memory(void)
{
	FILE *file = fopen("/proc/self/status", "re");
	unsigned long kilobytes = 0;
	char line[256];

	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "RssShmem: %lu", &kilobytes) == 1)
			break;
	fclose(file);
	return kilobytes << 10;
}

/* Those that are gone leave no memory behind that only one with the same number would use. */
static void queue_pairs_that_come_and_go(void **state)
{
	enum { PAIRS = 400, MESSAGES = 12, SIZE = 3000, MAY_GROW = 4 << 20 };
	size_t before = 0;

	(void)state;
	for (uint32_t i = 0; i < 2 * PAIRS; i++) {
		struct pair pair;

		if (i == PAIRS)
			before = shared_memory();
		pair_open(&pair, &world, NULL);
		for (uint32_t message = 0; message < MESSAGES; message++) {
			struct ibv_sge sge;
			struct ibv_send_wr wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, SIZE);

			pair_receive(&pair, 1, message, 0, SIZE);
			pair_post(&pair, 0, &wr);
			expect_completion(pair.cq[1], message, IBV_WC_RECV);
			expect_completion(pair.cq[0], wr.wr_id, IBV_WC_SEND);
		}
		pair_close(&pair);
	}
	print_message("%zu bytes of shared memory, then %zu\n", before, shared_memory());
	assert_true(shared_memory() <= before + MAY_GROW);
}

/* Numbers are distinct, 24 bits, and not counted up. */
static void numbers_are_not_predictable(void **state)
{
	enum { SOME = 64 };
	struct ibv_cq *cq = ibv_create_cq(world.context, 16, NULL, NULL, 0);
	struct ibv_qp *qp[SOME];
	int successors = 0;

	(void)state;
	for (int i = 0; i < SOME; i++) {
		struct ibv_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD,
						.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};

		assert_non_null(qp[i] = ibv_create_qp(world.pd, &attr));
		assert_true(qp[i]->qp_num > 1 && qp[i]->qp_num < 0xffffff);
		for (int j = 0; j < i; j++)
			assert_true(qp[i]->qp_num != qp[j]->qp_num);
		successors += i > 0 && qp[i]->qp_num == qp[i - 1]->qp_num + 1;
	}
	assert_true(successors < SOME / 4);
	for (int i = 0; i < SOME; i++)
		assert_int_equal(ibv_destroy_qp(qp[i]), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(queue_pairs_that_come_and_go),
		cmocka_unit_test(ten_thousand_queue_pairs),
		cmocka_unit_test(numbers_are_not_predictable),
	};

	/* MALLOC_PERTURB_, which test runners set, writes to all that is allocated: pages that are not used would be. */
	mallopt(M_PERTURB, 0);
	private_network_enter();
	return cmocka_run_group_tests(tests, open_world, close_world);
}
