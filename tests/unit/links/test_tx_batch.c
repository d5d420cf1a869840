/* SPDX-License-Identifier: MIT
 *
 * Packets of one queue pair leave in the order in which they were made, although a pass keeps those of many queue pairs until
 * it has them together, and other threads post to the same queue pairs meanwhile. Both ends are in this process, over loopback,
 * where nothing overtakes anything by itself.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "io/process_memory.h"
#include "lib/patience.h"
#include "lib/private_network.h"
#include "profiles/profile.h"
#include "memory/region.h"
#include "progress/endpoint.h"
#include "queue/qp.h"
#include "roce/roce.h"

enum { PAIRS = 32, POSTERS = 2, POLLERS = 2, ROUNDS = 250, MESSAGE = 64, DEPTH = 8, RECEIVES = 32 };

static struct vb_endpoint *endpoint;
static struct vb_memory *memory;
static struct vb_pd pd = {.handle = 1};
static struct vb_cq cq;
static struct vb_counters counters;
static struct vb_queue_host host;
static struct vb_qp *sender[PAIRS], *receiver[PAIRS];
static uint32_t key;
static uint8_t buffer[2][MESSAGE];
static const uint8_t address[16] = {[10] = 0xff, 0xff, 127, 0, 0, 1};
static uint32_t sent, received;            /* atomic: completions */

static void on_completion(struct vb_cq *which)
{
	(void)which;
}

static void on_deadline(struct vb_cq *which, vb_time when)
{
	(void)which;
	(void)when;
}

static void on_qp_event(struct vb_qp *qp, enum ibv_event_type event)
{
	(void)qp;
	(void)event;
}

static void on_cq_event(struct vb_cq *which, enum ibv_event_type event)
{
	(void)which;
	(void)event;
}

static void post_receive(uint64_t i)
{
	struct ibv_sge element = {(uintptr_t)buffer[0], MESSAGE, key};
	struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &element, .num_sge = 1}, *bad;

	vb_lock_take(&receiver[i]->lock);
	assert_int_equal(vb_qp_post_receive(receiver[i], &wr, &bad, vb_endpoint_now()), 0);
	vb_lock_release(&receiver[i]->lock);
}

/* False: its queue is full. */
static bool post_send(uint64_t i)
{
	struct ibv_sge element = {(uintptr_t)buffer[1], MESSAGE, key};
	struct ibv_send_wr wr = {.wr_id = i, .sg_list = &element, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
	int error;

	vb_lock_take(&sender[i]->lock);
	error = vb_qp_post_send(sender[i], &wr, &bad, vb_endpoint_now());
	vb_endpoint_posted(endpoint, sender[i], vb_endpoint_now());
	vb_lock_release(&sender[i]->lock);
	return error == 0;
}

static void *post_to_all(void *unused)
{
	(void)unused;
	for (unsigned round = 0; round < ROUNDS; round++)
		for (unsigned i = 0; i < PAIRS; i++)
			assert_true(eventually(post_send(i)));
	return NULL;
}

static bool is_over(void)
{
	return __atomic_load_n(&sent, __ATOMIC_ACQUIRE) == POSTERS * PAIRS * ROUNDS &&
	       __atomic_load_n(&received, __ATOMIC_ACQUIRE) == POSTERS * PAIRS * ROUNDS;
}

static void drain(void)
{
	struct ibv_wc wc[16];
	int count = vb_cq_poll(&cq, 16, wc);

	for (int i = 0; i < count; i++) {
		assert_int_equal(wc[i].status, IBV_WC_SUCCESS);
		if (wc[i].opcode & IBV_WC_RECV)
			post_receive(wc[i].wr_id);
		__atomic_fetch_add(wc[i].opcode & IBV_WC_RECV ? &received : &sent, 1, __ATOMIC_ACQ_REL);
	}
	if (count == 0)
		(void)vb_endpoint_progress(endpoint);
}

static void *poll_for_all(void *unused)
{
	(void)unused;
	while (!is_over())
		drain();
	return NULL;
}

static struct vb_qp *create(void)
{
	struct vb_qp_config config = {
		.type = IBV_QPT_RC, .pd = &pd, .send_cq = &cq, .recv_cq = &cq, .signal_all = true,
		.cap = {.max_send_wr = DEPTH, .max_recv_wr = RECEIVES, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct vb_qp *qp;

	assert_int_equal(vb_endpoint_reserve_qpn(endpoint, 0, &config.qpn), 0);
	assert_int_equal(vb_qp_create(&config, &host, vb_endpoint_transport(endpoint, VB_DEVICE_ROCE, IBV_QPT_RC), NULL, &qp), 0);
	vb_endpoint_publish(endpoint, qp, 0, &counters);
	return qp;
}

static void modify(struct vb_qp *qp, struct ibv_qp_attr *attr, int mask, const struct vb_path *path)
{
	assert_int_equal(vb_qp_modify(qp, attr, mask, path, IBV_MTU_1024, vb_endpoint_now()), 0);
}

static void join(struct vb_qp *qp, const struct vb_qp *peer)
{
	struct vb_path path = {.hop_limit = 64};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_LOCAL_WRITE};

	memcpy(path.source, address, 16);
	memcpy(path.destination, address, 16);
	path.source_port = vb_endpoint_source_port(endpoint, &path, peer->qpn, 0);
	modify(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, NULL);
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer->qpn, .rq_psn = 1, .max_dest_rd_atomic = 1,
		.min_rnr_timer = 12, .ah_attr = {.is_global = 1, .port_num = 1},
	};
	modify(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
	       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER, &path);
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .sq_psn = 1, .timeout = 18, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1,
	};
	modify(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
	       IBV_QP_MAX_QP_RD_ATOMIC, NULL);
}

static int open_all(void **state)
{
	struct vb_memory_host memory_host = {
		.random = vb_endpoint_random,
		.checked_read = vb_process_memory_read,
		.checked_write = vb_process_memory_write,
	};
	struct vb_region_info region = {.kind = VB_REGION_MR, .pd = &pd, .start = (uintptr_t)buffer, .length = sizeof(buffer),
					.iova = (uintptr_t)buffer, .access = IBV_ACCESS_LOCAL_WRITE};

	(void)state;
	assert_int_equal(vb_endpoint_get(&endpoint), 0);
	memory = vb_memory_create(&memory_host, 16);
	assert_non_null(memory);
	assert_int_equal(vb_region_register(memory, &region, &key), 0);
	host = (struct vb_queue_host){
		.profile = &vb_profile_roce,
		.completion_event = on_completion, .completion_deadline = on_deadline, .qp_event = on_qp_event, .cq_event = on_cq_event,
		.random = vb_endpoint_random, .memory = memory, .counters = &counters,
	};
	assert_int_equal(vb_cq_init(&cq, &host, NULL, 4096), 0);
	for (unsigned i = 0; i < PAIRS; i++) {
		sender[i] = create();
		receiver[i] = create();
		join(sender[i], receiver[i]);
		join(receiver[i], sender[i]);
		for (unsigned r = 0; r < RECEIVES; r++)
			post_receive(i);
	}
	return 0;
}

static int close_all(void **state)
{
	(void)state;
	for (unsigned i = 0; i < PAIRS; i++) {
		vb_endpoint_withdraw(endpoint, sender[i]);
		vb_endpoint_withdraw(endpoint, receiver[i]);
		vb_qp_destroy(sender[i]);
		vb_qp_destroy(receiver[i]);
	}
	vb_endpoint_cq_forget(endpoint, &cq);
	vb_cq_fini(&cq);
	vb_memory_destroy(memory);
	vb_endpoint_put(endpoint);
	return 0;
}

static void nothing_overtakes_what_waits_in_the_tx_batch(void **state)
{
	pthread_t poster[POSTERS], poller[POLLERS];

	(void)state;
	for (int i = 0; i < POLLERS; i++)
		assert_int_equal(pthread_create(&poller[i], NULL, poll_for_all, NULL), 0);
	for (int i = 0; i < POSTERS; i++)
		assert_int_equal(pthread_create(&poster[i], NULL, post_to_all, NULL), 0);
	for (int i = 0; i < POSTERS; i++)
		assert_int_equal(pthread_join(poster[i], NULL), 0);
	for (int i = 0; i < POLLERS; i++)
		assert_int_equal(pthread_join(poller[i], NULL), 0);
	assert_int_equal(counters.out_of_seq_request, 0);
	assert_true(counters.sent_pkts >= 2 * PAIRS);
}

/* One thread does it all, so that what it posts waits for its own passes, or leaves when it is a full run. */
static void one_thread_serves_all(void **state)
{
	unsigned before = received, posted = 0;

	(void)state;
	for (; posted < PAIRS * ROUNDS; posted++)
		assert_true(eventually(post_send(posted % PAIRS) || (drain(), false)));
	assert_true(eventually((drain(), received == before + posted && sent == received)));
	assert_int_equal(counters.out_of_seq_request, 0);
	assert_int_equal(counters.send_err, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_overtakes_what_waits_in_the_tx_batch),
		cmocka_unit_test(one_thread_serves_all),
	};

	private_network_enter();
	setenv("CMOCKA_TEST_ABORT", "1", 1);     /* a failed assertion cannot unwind another thread */
	return cmocka_run_group_tests(tests, open_all, close_all);
}
