/* SPDX-License-Identifier: MIT
 *
 * Creating and destroying queue pairs: limits, granted capabilities, counts on other objects, what is left behind, and
 * what one costs.
 */
#include <malloc.h>
#include <stdlib.h>

#include "fixture.h"
#include "profiles/limits.h"

static struct world w;

static int create(struct vb_qp_config *config, struct vb_qp **qp)
{
	return vb_qp_create(config, &fixture_host, &fixture_transport, NULL, qp);
}

static void limits_are_granted_and_no_more(void **state)
{
	struct vb_qp_config config;
	struct vb_qp *qp = NULL;

	(void)state;
	world_open(&w, IBV_QPT_RC, 8, false, false);
	vb_qp_destroy(w.qp);
	w.qp = NULL;
	/* Each limit itself is granted, one more is not: clients probe by doubling. */
#define TRY(field, limit, result)                                      \
	do {                                                           \
		config = fixture_config(&w, IBV_QPT_RC);               \
		config.cap.field = (limit);                            \
		assert_int_equal(create(&config, &qp), 0);             \
		assert_true(qp->attr.cap.field >= (limit));            \
		vb_qp_destroy(qp);                                     \
		config.cap.field = (limit) + 1;                        \
		assert_int_equal(create(&config, &qp), result);        \
	} while (0)
	TRY(max_send_wr, VB_MAX_QP_WR, -EINVAL);
	TRY(max_recv_wr, VB_MAX_QP_WR, -EINVAL);
	TRY(max_send_sge, VB_MAX_SGE, -EINVAL);
	TRY(max_recv_sge, VB_MAX_SGE, -EINVAL);
	TRY(max_inline_data, VB_MAX_INLINE, -EINVAL);
	config = fixture_config(&w, IBV_QPT_RC);
	config.pd = NULL;
	assert_int_equal(create(&config, &qp), -EINVAL);
	config = fixture_config(&w, IBV_QPT_RC);
	config.send_cq = NULL;
	assert_int_equal(create(&config, &qp), -EINVAL);
	config = fixture_config(&w, IBV_QPT_RC);
	config.recv_cq = NULL;
	assert_int_equal(create(&config, &qp), -EINVAL);
	config = fixture_config(&w, IBV_QPT_DRIVER);
	assert_int_equal(create(&config, &qp), -EOPNOTSUPP);
	config = fixture_config(&w, IBV_QPT_XRC_SEND); /* has no receive queue, so no CQ for it */
	assert_int_equal(create(&config, &qp), -EINVAL);
	config.recv_cq = NULL;
	assert_int_equal(create(&config, &qp), 0);
	assert_int_equal(qp->attr.cap.max_recv_wr, 0);
	assert_int_equal(qp->attr.cap.max_recv_sge, 0);
	vb_qp_destroy(qp);
	config = fixture_config(&w, IBV_QPT_XRC_RECV); /* has nothing but a domain */
	assert_int_equal(create(&config, &qp), -EINVAL);
	config = (struct vb_qp_config){.type = IBV_QPT_XRC_RECV};
	assert_int_equal(create(&config, &qp), -EINVAL);
	config = fixture_config(&w, IBV_QPT_UD);
	config.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
	assert_int_equal(create(&config, &qp), 0);
	vb_qp_destroy(qp);
	config.create_flags = IBV_QP_CREATE_SCATTER_FCS;
	assert_int_equal(create(&config, &qp), -EOPNOTSUPP);
	notes.attach_result = -ENOSPC;
	config = fixture_config(&w, IBV_QPT_RC);
	assert_int_equal(create(&config, &qp), -ENOSPC);
	world_close(&w);
}

static void it_counts_on_what_it_uses(void **state)
{
	struct vb_qp_config config;
	struct vb_qp *second;

	(void)state;
	world_open(&w, IBV_QPT_RC, 8, true, false);
	assert_int_equal(notes.attached, 1);
	assert_int_equal(w.pd.users, 2); /* with the shared queue */
	assert_int_equal(w.srq.users, 1);
	assert_int_equal(w.send_cq.users, 1);
	assert_int_equal(w.recv_cq.users, 1);
	config = fixture_config(&w, IBV_QPT_UD);
	config.recv_cq = config.send_cq;
	assert_int_equal(create(&config, &second), 0);
	assert_int_equal(w.send_cq.users, 3);
	/* The capabilities of a receive queue it does not have are not granted, nor checked. */
	assert_int_equal(w.qp->attr.cap.max_recv_wr, 0);
	vb_qp_destroy(second);
	world_close(&w);
	assert_int_equal(notes.detached, 2);
}

static void queues_may_be_empty(void **state)
{
	struct vb_qp_config config;
	struct vb_qp *qp;

	(void)state;
	world_open(&w, IBV_QPT_RC, 8, false, false);
	config = fixture_config(&w, IBV_QPT_RC);
	config.cap = (struct ibv_qp_cap){0};
	config.qpn = FIXTURE_QPN + 1;
	assert_int_equal(create(&config, &qp), 0);
	bring_to(qp, IBV_QPS_RTS);
	assert_int_equal(post_one(qp, IBV_WR_LOCAL_INV, 1, 0), ENOMEM);
	vb_qp_destroy(qp);
	world_close(&w);
}

static void destroying_discards_its_completions(void **state)
{
	struct ibv_wc wc;

	(void)state;
	world_open(&w, IBV_QPT_RC, 8, false, false);
	bring_to(w.qp, IBV_QPS_RTS);
	assert_int_equal(post_one(w.qp, IBV_WR_SEND, 1, 0), 0);
	assert_int_equal(post_receive(w.qp, 2), 0);
	assert_int_equal(step(w.qp, IBV_QPS_ERR, 0), 0);
	vb_qp_destroy(w.qp);
	w.qp = NULL;
	assert_int_equal(vb_cq_poll(&w.send_cq, 1, &wc), 0);
	assert_int_equal(vb_cq_poll(&w.recv_cq, 1, &wc), 0);
	world_close(&w);
}

static uint32_t counting_random(void *context)
{
	return ++*(uint32_t *)context;
}

static void windows_bound_through_it_go_with_it(void **state)
{
	uint32_t seed = 0;
	struct vb_memory_host memory_host = {.random = counting_random, .context = &seed};
	struct vb_queue_host host = fixture_host;
	struct vb_qp_config config;
	struct vb_fault_record why;
	struct vb_window_bind bind;
	struct vb_region_info info;
	uint32_t region, window;
	uint8_t bytes[8];

	(void)state;
	world_open(&w, IBV_QPT_RC, 8, false, false);
	host.memory = vb_memory_create(&memory_host, 8);
	assert_non_null(host.memory);
	vb_qp_destroy(w.qp);
	config = fixture_config(&w, IBV_QPT_RC);
	assert_int_equal(vb_qp_create(&config, &host, &fixture_transport, NULL, &w.qp), 0);
	info = (struct vb_region_info){VB_REGION_MR, &w.pd, (uintptr_t)bytes, 8, (uintptr_t)bytes,
				       IBV_ACCESS_MW_BIND, false};
	assert_int_equal(vb_region_register(host.memory, &info, &region), 0);
	assert_int_equal(vb_window_allocate(host.memory, VB_REGION_MW_TYPE_2, &w.pd, &window), 0);
	bind = (struct vb_window_bind){window, window, region, (uintptr_t)bytes, 8, 0, FIXTURE_QPN, &w.pd};
	assert_true(vb_window_bind(host.memory, &bind, &why));
	assert_int_equal(vb_region_deregister(host.memory, region), -EBUSY);
	vb_qp_destroy(w.qp);
	w.qp = NULL;
	assert_int_equal(vb_region_deregister(host.memory, region), 0);
	assert_int_equal(vb_window_deallocate(host.memory, window), 0);
	vb_memory_destroy(host.memory);
	world_close(&w);
}

/* The budget of a queue pair with default queues is 64 KiB, all in: 128 sends and 512 receives of one element leave the
 * engine at least 16 KiB of it. */
static void it_is_lean(void **state)
{
	struct vb_qp_config config;
	struct vb_qp *qp;
	size_t cost;

	(void)state;
	world_open(&w, IBV_QPT_RC, 8, false, false);
	config = fixture_config(&w, IBV_QPT_RC);
	config.cap = (struct ibv_qp_cap){
		.max_send_wr = 128, .max_recv_wr = 512, .max_send_sge = 1, .max_recv_sge = 1};
	assert_int_equal(create(&config, &qp), 0);
	cost = sizeof(*qp) + (size_t)(qp->send.mask + 1) * qp->send.stride +
	       (size_t)(qp->receive.mask + 1) * qp->receive.stride;
	print_message("a queue pair of 128 sends and 512 receives costs %zu bytes\n", cost);
	assert_true(cost < 48 * 1024);
	vb_qp_destroy(qp);
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(limits_are_granted_and_no_more),
		cmocka_unit_test(it_counts_on_what_it_uses),
		cmocka_unit_test(queues_may_be_empty),
		cmocka_unit_test(destroying_discards_its_completions),
		cmocka_unit_test(windows_bound_through_it_go_with_it),
		cmocka_unit_test(it_is_lean),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
