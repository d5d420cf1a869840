/* SPDX-License-Identifier: MIT
 *
 * A thread that is to be cancelled (pthread_cancel, pthreads(7)) while it posts and polls. With an adapter neither is a point at which that
 * happens: programs that cancel their polling threads rely on it, and here it would be with locks held, for ever. So the thread, told
 * beforehand, comes back from each call, and whoever comes after it finds all in order. The same for calls that make, change and destroy
 * objects. Only one that waits for a completion is cancelled.
 */
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/one_world.h"
#include "lib/private_network.h"

enum { MESSAGES = 16, LENGTH = 64, LONG = 8192, EVENTS = 2 * 2 * MESSAGES, POLLS = 2000000 };

struct talk {
	struct pair *pair;
	uint32_t length;
	unsigned sent, received;
	bool refused, came_back;
};

/* No function of the C library is called here that might end the thread instead. */
static bool comes(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	for (unsigned i = 0; i < POLLS; i++) {
		int count = ibv_poll_cq(cq, 1, &wc);

		if (count != 0)
			return count == 1 && wc.status == IBV_WC_SUCCESS;
		sched_yield();
	}
	return false;
}

static void *post_and_poll(void *argument)
{
	struct talk *talk = argument;
	struct pair *pair = talk->pair;
	int before;

	pthread_cancel(pthread_self());
	for (unsigned i = 0; i < MESSAGES; i++) {
		struct ibv_sge from, to = {(uintptr_t)pair->buffer[1], talk->length, pair->mr[1]->lkey};
		struct ibv_send_wr wr = pair_request(pair, 0, IBV_WR_SEND, &from, 0, talk->length), *bad;
		struct ibv_recv_wr receive = {.sg_list = &to, .num_sge = 1}, *bad_receive;

		talk->refused |= ibv_req_notify_cq(pair->cq[0], 0) || ibv_req_notify_cq(pair->cq[1], 0) ||
				 ibv_post_recv(pair->qp[1], &receive, &bad_receive) || ibv_post_send(pair->qp[0], &wr, &bad);
		talk->received += comes(pair->cq[1]);
		talk->sent += comes(pair->cq[0]);
	}
	talk->came_back = true;
	/* AddressSanitizer takes the stack of a thread that is really cancelled for a wrong one. */
	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return NULL;
}

static void expect_talk(struct pair *pair, uint32_t length)
{
	struct talk talk = {.pair = pair, .length = length};
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, post_and_poll, &talk), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(talk.came_back);
	assert_false(talk.refused);
	assert_int_equal(talk.received, MESSAGES);
	assert_int_equal(talk.sent, MESSAGES);
}

static void is_not_cancelled_while_it_posts_and_polls(void **state)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(world.context);
	struct ibv_cq *cq;
	void *context;
	struct pair pair;

	(void)state;
	assert_non_null(channel);
	pair_open(&pair, &world, &(struct pair_options){.channel = channel});
	expect_talk(&pair, LENGTH);
	expect_talk(&pair, LONG);
	/* Both CQs were armed before each message, and told of it. */
	for (unsigned i = 0; i < EVENTS; i++) {
		assert_int_equal(ibv_get_cq_event(channel, &cq, &context), 0);
		ibv_ack_cq_events(cq, 1);
	}
	pair_close(&pair);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

/* ---- objects ---- */

struct objects {
	unsigned made, destroyed;
	bool came_back;
};

static int to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static void *make_and_destroy(void *argument)
{
	static uint8_t bytes[LENGTH];
	struct objects *objects = argument;
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_mr *mr;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	int before;

	pthread_cancel(pthread_self());
	pd = ibv_alloc_pd(world.context);
	channel = ibv_create_comp_channel(world.context);
	mr = ibv_reg_mr(pd, bytes, sizeof(bytes), IBV_ACCESS_LOCAL_WRITE);
	cq = ibv_create_cq(world.context, 4, NULL, channel, 0);
	srq = ibv_create_srq(pd, &srq_attr);
	qp = ibv_create_qp(pd, &(struct ibv_qp_init_attr){.qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}});
	objects->made = !!pd + !!channel + !!mr + !!cq + !!srq + (qp && to_init(qp) == 0);
	objects->destroyed = !ibv_destroy_qp(qp) + !ibv_destroy_srq(srq) + !ibv_destroy_cq(cq) + !ibv_dereg_mr(mr) +
			     !ibv_destroy_comp_channel(channel) + !ibv_dealloc_pd(pd);
	objects->came_back = true;
	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return NULL;
}

static void is_not_cancelled_while_it_makes_and_destroys(void **state)
{
	struct objects objects = {0};
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, make_and_destroy, &objects), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(objects.came_back);
	assert_int_equal(objects.made, 6);
	assert_int_equal(objects.destroyed, 6);
}

#ifndef __SANITIZE_ADDRESS__
static void *wait_for_completion(void *channel)
{
	struct ibv_cq *cq;
	void *context;

	return ibv_get_cq_event(channel, &cq, &context) == 0 ? cq : NULL;
}

static void is_cancelled_while_it_waits(void **state)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(world.context);
	pthread_t thread;
	void *result;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, wait_for_completion, channel), 0);
	assert_int_equal(pthread_cancel(thread), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_not_cancelled_while_it_posts_and_polls),
		cmocka_unit_test(is_not_cancelled_while_it_makes_and_destroys),
#ifndef __SANITIZE_ADDRESS__
		cmocka_unit_test(is_cancelled_while_it_waits),
#endif
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, open_world, close_world);
}
