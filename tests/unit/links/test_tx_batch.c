/* SPDX-License-Identifier: MIT
 *
 * Packets of one queue pair leave in the order in which they were made, although a pass keeps those of many queue pairs until
 * it has them together, and other threads post to the same queue pairs meanwhile. Both ends are in this process, over loopback,
 * where nothing overtakes anything by itself.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "lib/patience.h"
#include "lib/private_network.h"
#include "unit/links/one_endpoint.h"

enum { PAIRS = 32, POSTERS = 2, POLLERS = 2, ROUNDS = 250, DEPTH = 8, RECEIVES = 32 };

static struct vb_qp *sender[PAIRS], *receiver[PAIRS];
static uint32_t sent, received;            /* atomic: completions */

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

static int open_all(void **state)
{
	(void)state;
	open_endpoint(4096);
	for (unsigned i = 0; i < PAIRS; i++) {
		sender[i] = create_qp(0, DEPTH, RECEIVES);
		receiver[i] = create_qp(0, DEPTH, RECEIVES);
		join(sender[i], receiver[i], 18, 7);
		join(receiver[i], sender[i], 18, 7);
		for (unsigned r = 0; r < RECEIVES; r++)
			post_receive(i);
	}
	return 0;
}

static int close_all(void **state)
{
	(void)state;
	for (unsigned i = 0; i < PAIRS; i++) {
		destroy_qp(sender[i]);
		destroy_qp(receiver[i]);
	}
	close_endpoint();
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
