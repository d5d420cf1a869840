/* SPDX-License-Identifier: MIT
 *
 * Completion queues: events, their acknowledgement, arming, resizing, moderation, overrun.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/one_world.h"
#include "lib/patience.h"
#include "lib/private_network.h"

static bool readable(struct ibv_comp_channel *channel, int milliseconds)
{
	struct pollfd waiting = {.fd = channel->fd, .events = POLLIN};

	return poll(&waiting, 1, milliseconds) == 1;
}

static void take_event(struct ibv_comp_channel *channel, struct ibv_cq *expected)
{
	struct ibv_cq *cq;
	void *context;

	assert_int_equal(ibv_get_cq_event(channel, &cq, &context), 0);
	assert_ptr_equal(cq, expected);
	assert_ptr_equal(context, expected->cq_context);
}

static void set_nonblocking(int fd)
{
	assert_int_equal(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
}

static void send_one(struct pair *pair, bool solicited)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = pair_request(pair, 0, IBV_WR_SEND, &sge, 0, 8);

	wr.send_flags = solicited ? IBV_SEND_SOLICITED : 0;
	pair_receive(pair, 1, 3, 0, 8);
	pair_post(pair, 0, &wr);
}

static void an_armed_queue_wakes_once(void **state)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(world.context);
	const struct pair_options options = {.channel = channel};
	struct pair pair;
	struct ibv_cq *cq;
	void *context;

	(void)state;
	pair_open(&pair, &world, &options);
	set_nonblocking(channel->fd);
	assert_int_equal(ibv_get_cq_event(channel, &cq, &context), -1);
	assert_int_equal(errno, EAGAIN);
	/* Not armed: no event. */
	send_one(&pair, false);
	expect_completion(pair.cq[1], 3, IBV_WC_RECV);
	assert_false(readable(channel, 0));
	assert_int_equal(ibv_req_notify_cq(pair.cq[1], 0), 0);
	send_one(&pair, false);
	assert_true(readable(channel, PATIENCE_MS));
	take_event(channel, pair.cq[1]);
	assert_false(readable(channel, 0));
	expect_completion(pair.cq[1], 3, IBV_WC_RECV);
	/* One shot. */
	send_one(&pair, false);
	expect_completion(pair.cq[1], 3, IBV_WC_RECV);
	assert_false(readable(channel, 0));
	ibv_ack_cq_events(pair.cq[1], 1);
	assert_int_equal(ibv_destroy_comp_channel(channel), EBUSY);
	pair_close(&pair);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

static void solicited_arming_waits_for_solicited(void **state)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(world.context);
	const struct pair_options options = {.channel = channel};
	struct pair pair;

	(void)state;
	pair_open(&pair, &world, &options);
	assert_int_equal(ibv_req_notify_cq(pair.cq[1], 1), 0);
	send_one(&pair, false);
	expect_completion(pair.cq[1], 3, IBV_WC_RECV);
	assert_false(readable(channel, 0));
	send_one(&pair, true);
	expect_completion(pair.cq[1], 3, IBV_WC_RECV);
	assert_true(readable(channel, PATIENCE_MS));
	take_event(channel, pair.cq[1]);
	ibv_ack_cq_events(pair.cq[1], 1);
	/* Errors always wake. */
	assert_int_equal(ibv_req_notify_cq(pair.cq[1], 1), 0);
	pair_receive(&pair, 1, 4, 0, 8);
	to_error(pair.qp[1]);
	assert_true(readable(channel, PATIENCE_MS));
	expect_status(pair.cq[1], 4, IBV_WC_WR_FLUSH_ERR);
	pair_close(&pair);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

/* Nobody polls: the engine thread alone must bring the event. */
static void sleepers_are_woken(void **state)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(world.context);
	const struct pair_options options = {.channel = channel};
	struct pair pair;

	(void)state;
	pair_open(&pair, &world, &options);
	for (int i = 0; i < 50; i++) {
		assert_int_equal(ibv_req_notify_cq(pair.cq[1], 0), 0);
		send_one(&pair, false);
		take_event(channel, pair.cq[1]);         /* blocks */
		ibv_ack_cq_events(pair.cq[1], 1);
		expect_completion(pair.cq[1], 3, IBV_WC_RECV);
	}
	pair_close(&pair);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

/* Nothing but the packets themselves tells the engine thread that the application is done with the memory they go to. */
static void a_write_into_what_was_just_filled(void **state)
{
	enum { LENGTH = 64 * 1024 };
	struct ibv_comp_channel *channel = ibv_create_comp_channel(world.context);
	const struct pair_options options = {.channel = channel};
	struct pair pair;

	(void)state;
	pair_open(&pair, &world, &options);
	for (uint32_t i = 0; i < 10; i++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr = pair_request(&pair, 0, IBV_WR_RDMA_WRITE, &sge, 0, LENGTH);

		fill_pattern(pair.buffer[0], LENGTH, i);
		assert_int_equal(ibv_req_notify_cq(pair.cq[0], 0), 0);
		memset(pair.buffer[1], 0, LENGTH);
		pair_post(&pair, 0, &wr);
		take_event(channel, pair.cq[0]);         /* blocks */
		ibv_ack_cq_events(pair.cq[0], 1);
		expect_completion(pair.cq[0], wr.wr_id, IBV_WC_RDMA_WRITE);
		assert_true(has_pattern(pair.buffer[1], LENGTH, i));
	}
	pair_close(&pair);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

static struct {
	struct ibv_cq *cq;
	volatile bool destroyed;
} destroyer;

static void *destroy(void *unused)
{
	(void)unused;
	assert_int_equal(ibv_destroy_cq(destroyer.cq), 0);
	__atomic_store_n(&destroyer.destroyed, true, __ATOMIC_RELEASE);
	return NULL;
}

static void destruction_waits_for_acknowledgement(void **state)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(world.context);
	const struct pair_options options = {.channel = channel};
	struct pair pair;
	pthread_t thread;

	(void)state;
	pair_open(&pair, &world, &options);
	assert_int_equal(ibv_req_notify_cq(pair.cq[1], 0), 0);
	send_one(&pair, false);
	take_event(channel, pair.cq[1]);
	assert_int_equal(ibv_destroy_qp(pair.qp[1]), 0);
	pair.qp[1] = NULL;
	destroyer.cq = pair.cq[1];
	destroyer.destroyed = false;
	assert_int_equal(pthread_create(&thread, NULL, destroy, NULL), 0);
	usleep(20000);
	assert_false(__atomic_load_n(&destroyer.destroyed, __ATOMIC_ACQUIRE));
	ibv_ack_cq_events(pair.cq[1], 1);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(destroyer.destroyed);
	pair.cq[1] = ibv_create_cq(world.context, 1, NULL, NULL, 0);     /* something for pair_close */
	pair_close(&pair);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

/* Events nobody read go with their queue; those of others stay. */
static void unread_events_do_not_outlive_their_queue(void **state)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(world.context);
	const struct pair_options options = {.channel = channel};
	struct pair first, second;

	(void)state;
	pair_open(&first, &world, &options);
	pair_open(&second, &world, &options);
	assert_int_equal(ibv_req_notify_cq(first.cq[1], 0), 0);
	assert_int_equal(ibv_req_notify_cq(second.cq[1], 0), 0);
	send_one(&first, false);
	expect_completion(first.cq[1], 3, IBV_WC_RECV);
	send_one(&second, false);
	expect_completion(second.cq[1], 3, IBV_WC_RECV);
	pair_close(&first);
	assert_true(readable(channel, 0));
	take_event(channel, second.cq[1]);
	ibv_ack_cq_events(second.cq[1], 1);
	assert_false(readable(channel, 0));
	assert_int_equal(ibv_req_notify_cq(second.cq[1], 0), 0);
	send_one(&second, false);
	expect_completion(second.cq[1], 3, IBV_WC_RECV);
	pair_close(&second);
	assert_false(readable(channel, 0));
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

static void resizing_keeps_what_waits(void **state)
{
	struct ibv_qp_attr drain = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	pair_open(&pair, &world, NULL);
	pair_receive(&pair, 1, 5, 0, 0);
	for (uint64_t i = 0; i < 20; i++) {
		wr = pair_request(&pair, 0, i == 19 ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE, &sge, 0, 8);
		wr.wr_id = i;
		pair_post(&pair, 0, &wr);
	}
	expect_completion(pair.cq[0], 0, IBV_WC_RDMA_WRITE);
	/* When the last was received, all are under way; when the send queue is drained, the rest have completed. */
	expect_completion(pair.cq[1], 5, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(ibv_modify_qp(pair.qp[0], &drain, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	expect_event(world.context, IBV_EVENT_SQ_DRAINED);
	assert_int_equal(ibv_resize_cq(pair.cq[0], 1000), 0);
	assert_int_equal(pair.cq[0]->cqe, 1000);         /* no more: docs/verbs.md */
	assert_int_equal(ibv_resize_cq(pair.cq[0], 3), EINVAL);
	assert_int_equal(ibv_resize_cq(pair.cq[0], 0), EINVAL);
	assert_int_equal(ibv_resize_cq(pair.cq[0], 20), 0);
	for (uint64_t i = 1; i < 20; i++)
		expect_completion(pair.cq[0], i, IBV_WC_RDMA_WRITE);
	pair_close(&pair);
}

static int take_up_to(struct ibv_cq *cq, int most, struct ibv_wc *wc)
{
	int got = ibv_poll_cq(cq, most, wc);

	assert_in_range(got, 0, most);
	return got;
}

static void polling_takes_several(void **state)
{
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct ibv_wc wc[8];
	int got = 0;

	(void)state;
	pair_open(&pair, &world, NULL);
	for (uint64_t i = 0; i < 8; i++) {
		wr = pair_request(&pair, 0, IBV_WR_RDMA_WRITE, &sge, 0, 8);
		wr.wr_id = i;
		pair_post(&pair, 0, &wr);
	}
	assert_true(eventually((got += take_up_to(pair.cq[0], 8 - got, wc + got)) == 8));
	for (uint64_t i = 0; i < 8; i++)
		assert_int_equal(wc[i].wr_id, i);
	assert_int_equal(ibv_poll_cq(pair.cq[0], 0, wc), 0);
	assert_true(ibv_poll_cq(pair.cq[0], -1, wc) < 0);
	pair_close(&pair);
}

/* As long as the period field allows, nearly. */
enum { MODERATION_MS = 65 };

/* False: it took longer than the period of moderation, after which an event may come with any of them. */
static bool the_fourth_brings_an_event(struct pair *pair, struct ibv_comp_channel *channel)
{
	int64_t begun = patience_clock();
	bool early = false;

	assert_int_equal(ibv_req_notify_cq(pair->cq[1], 0), 0);
	for (int i = 0; i < 4; i++) {
		early = early || readable(channel, 0);
		send_one(pair, false);
		expect_completion(pair->cq[1], 3, IBV_WC_RECV);
	}
	assert_true(readable(channel, PATIENCE_MS));
	take_event(channel, pair->cq[1]);
	ibv_ack_cq_events(pair->cq[1], 1);
	if (patience_clock() - begun >= MODERATION_MS - 1)
		return false;
	assert_false(early);
	return true;
}

static void moderation_holds_events_back(void **state)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(world.context);
	const struct pair_options options = {.channel = channel};
	struct ibv_modify_cq_attr attr = {.attr_mask = IBV_CQ_ATTR_MODERATE,
					  .moderate = {.cq_count = 4, .cq_period = MODERATION_MS * 1000}};
	struct pair pair;

	(void)state;
	pair_open(&pair, &world, &options);
	assert_int_equal(ibv_modify_cq(pair.cq[1], &attr), 0);
	assert_true(eventually(the_fourth_brings_an_event(&pair, channel)));
	/* By time. */
	attr.moderate.cq_count = 1000;
	attr.moderate.cq_period = 2000;
	assert_int_equal(ibv_modify_cq(pair.cq[1], &attr), 0);
	assert_int_equal(ibv_req_notify_cq(pair.cq[1], 0), 0);
	send_one(&pair, false);
	assert_true(readable(channel, PATIENCE_MS));
	take_event(channel, pair.cq[1]);
	ibv_ack_cq_events(pair.cq[1], 1);
	attr.attr_mask = 1 << 5;
	assert_int_equal(ibv_modify_cq(pair.cq[1], &attr), EINVAL);
	pair_close(&pair);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

static void an_overrun_is_told(void **state)
{
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct ibv_async_event event;
	struct ibv_wc wc;

	(void)state;
	pair_open(&pair, &world, NULL);
	assert_int_equal(ibv_resize_cq(pair.cq[0], 2), 0);
	for (int i = 0; i < 5; i++) {
		wr = pair_request(&pair, 0, IBV_WR_RDMA_WRITE, &sge, 0, 8);
		pair_post(&pair, 0, &wr);
	}
	/* Polling the other queue makes progress without making room. */
	for (int i = 0; i < 100; i++)
		assert_int_equal(ibv_poll_cq(pair.cq[1], 1, &wc), 0);
	event = expect_event(world.context, IBV_EVENT_CQ_ERR);
	assert_ptr_equal(event.element.cq, pair.cq[0]);
	assert_int_equal(state_of(pair.qp[0]), IBV_QPS_ERR);
	pair_close(&pair);
	/* QP_FATAL of the queue pair, if raised, went with it. */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_armed_queue_wakes_once),
		cmocka_unit_test(solicited_arming_waits_for_solicited),
		cmocka_unit_test(sleepers_are_woken),
		cmocka_unit_test(a_write_into_what_was_just_filled),
		cmocka_unit_test(destruction_waits_for_acknowledgement),
		cmocka_unit_test(unread_events_do_not_outlive_their_queue),
		cmocka_unit_test(resizing_keeps_what_waits),
		cmocka_unit_test(polling_takes_several),
		cmocka_unit_test(moderation_holds_events_back),
		cmocka_unit_test(an_overrun_is_told),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, open_world, close_world);
}
