/* SPDX-License-Identifier: MIT
 *
 * Many threads on shared objects: producers and pollers on one completion queue that is resized, armed and discarded
 * from meanwhile, and many threads posting to one queue pair and one shared queue. Every piece of work comes out
 * exactly once.
 */
#include <pthread.h>
#include <sched.h>

#include "fixture.h"

enum { THREADS = 3, EACH = 2000, TOTAL = THREADS * EACH };

static struct vb_cq cq;
static uint8_t seen[TOTAL];              /* atomic */
static uint32_t taken_out, events;       /* atomic */

static void count_event(struct vb_cq *which)
{
	(void)which;
	__atomic_fetch_add(&events, 1, __ATOMIC_RELAXED);
}

static void ignore_cq_event(struct vb_cq *which, enum ibv_event_type event)
{
	(void)which;
	(void)event;
}

static const struct vb_queue_host quiet_host = {.profile = &vb_profile_roce, .completion_event = count_event, .cq_event = ignore_cq_event};

static void mark(uint64_t wr_id)
{
	assert_true(wr_id < TOTAL);
	__atomic_fetch_add(&seen[wr_id], 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&taken_out, 1, __ATOMIC_RELAXED);
}

static void *produce(void *argument)
{
	uint64_t base = (uintptr_t)argument * EACH;

	for (uint64_t i = 0; i < EACH; i++) {
		struct vb_completion completion = {.wr_id = base + i, .qpn = 1};

		vb_cq_push(&cq, &completion);
	}
	return NULL;
}

static void *consume(void *argument)
{
	struct ibv_wc wc[4];

	(void)argument;
	while (__atomic_load_n(&taken_out, __ATOMIC_RELAXED) < TOTAL) {
		int count = vb_cq_poll(&cq, 4, wc);

		for (int i = 0; i < count; i++)
			mark(wc[i].wr_id);
		if (count == 0) {
			vb_cq_arm(&cq, false);
			sched_yield();
		}
	}
	return NULL;
}

static void everything_pushed_is_polled_once(void **state)
{
	pthread_t producers[THREADS], consumers[2];

	(void)state;
	memset(seen, 0, sizeof(seen));
	taken_out = events = 0;
	assert_int_equal(vb_cq_init(&cq, &quiet_host, NULL, TOTAL), 0);
	for (uintptr_t i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&consumers[i], NULL, consume, NULL), 0);
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&producers[i], NULL, produce, (void *)i), 0);
	for (uint32_t i = 0; i < 50; i++) {
		assert_int_equal(vb_cq_resize(&cq, TOTAL + i), 0);
		vb_cq_discard(&cq, 99);
		sched_yield();
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(producers[i], NULL);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(consumers[i], NULL);
	for (unsigned i = 0; i < TOTAL; i++)
		assert_int_equal(seen[i], 1);
	assert_true(events <= TOTAL);
	vb_cq_fini(&cq);
}

static struct world w;

static void ignore_qp_event(struct vb_qp *qp, enum ibv_event_type event)
{
	(void)qp;
	(void)event;
}

static const struct vb_queue_host posting_host = {
	.profile = &vb_profile_roce,
	.completion_event = count_event, .cq_event = ignore_cq_event, .qp_event = ignore_qp_event};

static void *post_away(void *argument)
{
	uint64_t base = (uintptr_t)argument * EACH;

	for (uint64_t i = 0; i < EACH; i++) {
		struct ibv_send_wr wr = {
			.wr_id = base + i, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
		int error;

		do {
			vb_lock_take(&w.qp->lock);
			error = vb_qp_post_send(w.qp, &wr, &bad, 0);
			vb_lock_release(&w.qp->lock);
			if (error != 0)
				sched_yield();
		} while (error == ENOMEM);
		assert_int_equal(error, 0);
	}
	return NULL;
}

/* One thread plays the engine, three post, the main thread polls. */
static void *complete_away(void *argument)
{
	uint32_t done = 0;

	(void)argument;
	while (done < TOTAL) {
		vb_lock_take(&w.qp->lock);
		while (vb_send_queue_count(&w.qp->send) > 0 &&
		       done - __atomic_load_n(&taken_out, __ATOMIC_RELAXED) < 30) {
			vb_qp_complete_send(w.qp, IBV_WC_SUCCESS, VB_FAULT_NONE, 0);
			done++;
		}
		vb_lock_release(&w.qp->lock);
		sched_yield();
	}
	return NULL;
}

static void everything_posted_completes_once(void **state)
{
	pthread_t posters[THREADS], engine;
	struct vb_qp_config config;
	struct ibv_wc wc[8];

	(void)state;
	memset(seen, 0, sizeof(seen));
	taken_out = 0;
	world_open(&w, IBV_QPT_RC, 32, false, false);
	vb_qp_destroy(w.qp);
	w.send_cq.host = &posting_host;
	config = fixture_config(&w, IBV_QPT_RC);
	assert_int_equal(vb_qp_create(&config, &posting_host, &fixture_transport, NULL, &w.qp), 0);
	bring_to(w.qp, IBV_QPS_RTS);
	assert_int_equal(pthread_create(&engine, NULL, complete_away, NULL), 0);
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&posters[i], NULL, post_away, (void *)i), 0);
	while (__atomic_load_n(&taken_out, __ATOMIC_RELAXED) < TOTAL) {
		int count = vb_cq_poll(&w.send_cq, 8, wc);

		for (int i = 0; i < count; i++) {
			assert_int_equal(wc[i].status, IBV_WC_SUCCESS);
			mark(wc[i].wr_id);
		}
		if (count == 0)
			sched_yield();
	}
	pthread_join(engine, NULL);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(posters[i], NULL);
	for (unsigned i = 0; i < TOTAL; i++)
		assert_int_equal(seen[i], 1);
	world_close(&w);
}

static struct vb_srq srq;

static void *post_shared(void *argument)
{
	uint64_t base = (uintptr_t)argument * EACH;

	for (uint64_t i = 0; i < EACH; i++) {
		struct ibv_recv_wr wr = {.wr_id = base + i}, *bad;

		while (vb_srq_post(&srq, &wr, &bad) == ENOMEM)
			sched_yield();
	}
	return NULL;
}

static void *take_shared(void *argument)
{
	struct vb_taken_receive taken;

	(void)argument;
	while (__atomic_load_n(&taken_out, __ATOMIC_RELAXED) < TOTAL) {
		if (vb_srq_take(&srq, &taken))
			mark(taken.wr_id);
		else
			sched_yield();
	}
	return NULL;
}

static void everything_shared_is_taken_once(void **state)
{
	struct ibv_srq_attr attr = {.max_wr = 16, .max_sge = 1};
	struct vb_pd pd = {0};
	pthread_t posters[THREADS], takers[2];

	(void)state;
	memset(seen, 0, sizeof(seen));
	taken_out = 0;
	assert_int_equal(vb_srq_init(&srq, &quiet_host, NULL, &pd, &attr), 0);
	for (uintptr_t i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&takers[i], NULL, take_shared, NULL), 0);
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&posters[i], NULL, post_shared, (void *)i), 0);
	for (uint32_t i = 0; i < 50; i++) {
		attr.max_wr = 16 + i;
		assert_int_equal(vb_srq_modify(&srq, &attr, IBV_SRQ_MAX_WR), 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(posters[i], NULL);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(takers[i], NULL);
	for (unsigned i = 0; i < TOTAL; i++)
		assert_int_equal(seen[i], 1);
	vb_srq_fini(&srq);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(everything_pushed_is_polled_once),
		cmocka_unit_test(everything_posted_completes_once),
		cmocka_unit_test(everything_shared_is_taken_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
