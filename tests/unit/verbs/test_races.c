/* SPDX-License-Identifier: MIT
 *
 * Objects end while other threads use what they are joined to: queue pairs while their completion queue is polled, resized and
 * waited for, while their peer posts, while their shared receive queue is filled; memory while a peer writes to it; address
 * handles right behind a post. The libraries promise what the manual does: what has ended is not heard of again, and memory that
 * was given back is not touched. Meant for ThreadSanitizer above all.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/one_world.h"
#include "lib/patience.h"
#include "lib/private_network.h"

enum { MAKERS = 2, ROUNDS = 40, POSTS = 6, DEPTH = 16, LENGTH = 20000, MANY = 4096, PLACES = 4096 };

static struct ibv_cq *cq;
static struct ibv_srq *srq;
static bool is_over;                     /* atomic */

static void start(pthread_t *thread, void *(*run)(void *), void *context)
{
	assert_int_equal(pthread_create(thread, NULL, run, context), 0);
}

static void end(pthread_t thread)
{
	assert_int_equal(pthread_join(thread, NULL), 0);
}

/* Connected, both ends on the one completion queue; `shared`: the receiver takes from srq. */
static void open_on_shared_cq(struct pair *pair, bool shared)
{
	const struct pair_options options = {.stay_in_reset = true, .timeout = 8, .retry = 2};

	pair_open(pair, &world, &options);
	for (int side = 0; side < 2; side++) {
		struct ibv_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .srq = shared && side == 1 ? srq : NULL,
						.qp_type = IBV_QPT_RC, .cap = {DEPTH, DEPTH, 1, 1, 0}};

		assert_int_equal(ibv_destroy_qp(pair->qp[side]), 0);
		pair->qp[side] = ibv_create_qp(world.pd, &attr);
		assert_non_null(pair->qp[side]);
	}
	pair_connect(pair);
}

/* ---- queue pairs against their completion queue ---- */

static uint32_t ended[MAKERS];           /* atomic: rounds whose queue pairs are gone */

static void *make_on_shared_cq(void *argument)
{
	uintptr_t maker = (uintptr_t)argument;

	for (uint32_t round = 1; round <= ROUNDS; round++) {
		struct pair pair;

		open_on_shared_cq(&pair, false);
		for (unsigned i = 0; i < POSTS; i++) {
			struct ibv_sge sge;
			struct ibv_send_wr wr = pair_request(&pair, 0, i % 2 ? IBV_WR_SEND : IBV_WR_RDMA_WRITE, &sge, 0, LENGTH);

			wr.wr_id = (uint64_t)maker << 32 | round;
			pair_receive(&pair, 1, wr.wr_id, 0, LENGTH);
			pair_post(&pair, 0, &wr);
		}
		/* The receiver or the sender first, with all that is under way. */
		for (unsigned i = 0; i < 2; i++) {
			assert_int_equal(ibv_destroy_qp(pair.qp[(round + i) % 2]), 0);
			pair.qp[(round + i) % 2] = NULL;
		}
		__atomic_store_n(&ended[maker], round, __ATOMIC_RELEASE);
		pair_close(&pair);
	}
	return NULL;
}

static void *poll_all_the_time(void *unused)
{
	(void)unused;
	while (!__atomic_load_n(&is_over, __ATOMIC_ACQUIRE)) {
		uint32_t before[MAKERS];
		struct ibv_wc wc[8];
		int got;

		for (unsigned i = 0; i < MAKERS; i++)
			before[i] = __atomic_load_n(&ended[i], __ATOMIC_ACQUIRE);
		got = ibv_poll_cq(cq, 8, wc);
		assert_true(got >= 0);
		/* ibv_destroy_qp takes what is left of it out of the completion queue. */
		for (int i = 0; i < got; i++)
			assert_true((uint32_t)wc[i].wr_id > before[wc[i].wr_id >> 32]);
		if (got == 0)
			sched_yield();
	}
	return NULL;
}

static void *resize_all_the_time(void *unused)
{
	(void)unused;
	for (unsigned i = 0; !__atomic_load_n(&is_over, __ATOMIC_ACQUIRE); i++) {
		assert_int_equal(ibv_resize_cq(cq, MANY >> i % 2), 0);
		assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
		sched_yield();
	}
	return NULL;
}

static void destroy_against_poll(void **state)
{
	pthread_t maker[MAKERS], poller[2], resizer;

	(void)state;
	is_over = false;
	cq = ibv_create_cq(world.context, MANY, NULL, NULL, 0);
	assert_non_null(cq);
	for (int i = 0; i < 2; i++)
		start(&poller[i], poll_all_the_time, NULL);
	start(&resizer, resize_all_the_time, NULL);
	for (uintptr_t i = 0; i < MAKERS; i++)
		start(&maker[i], make_on_shared_cq, (void *)i);
	for (int i = 0; i < MAKERS; i++)
		end(maker[i]);
	__atomic_store_n(&is_over, true, __ATOMIC_RELEASE);
	for (int i = 0; i < 2; i++)
		end(poller[i]);
	end(resizer);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

/* ---- against posting ---- */

static struct pair victim;

/* Posts until its peer is gone and it hears of it: each of its work requests completes, this way or that. */
static void *post_until_it_fails(void *unused)
{
	uint64_t posted = 0, completed = 0;
	bool failed = false;

	(void)unused;
	while (!failed || completed < posted) {
		struct ibv_sge sge;
		enum ibv_wr_opcode opcode = posted % 3 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
		struct ibv_send_wr wr = pair_request(&victim, 0, opcode, &sge, 0, LENGTH), *bad;
		struct ibv_wc wc;

		if (!failed && posted - completed < DEPTH && ibv_post_send(victim.qp[0], &wr, &bad) == 0)
			posted++;
		if (ibv_poll_cq(victim.cq[0], 1, &wc) == 1) {
			completed++;
			failed |= wc.status != IBV_WC_SUCCESS;
		} else {
			sched_yield();
		}
	}
	return NULL;
}

static void destroy_against_post(void **state)
{
	const struct pair_options options = {.timeout = 8, .retry = 2, .depth = DEPTH};

	(void)state;
	for (unsigned round = 0; round < ROUNDS / 4; round++) {
		pthread_t poster;

		pair_open(&victim, &world, &options);
		start(&poster, post_until_it_fails, NULL);
		for (unsigned i = 0; i < round; i++)
			sched_yield();
		assert_int_equal(ibv_destroy_qp(victim.qp[1]), 0);
		victim.qp[1] = NULL;
		end(poster);
		pair_close(&victim);
	}
}

/* ---- memory against who writes to it ---- */

static void deregister_against_writes(void **state)
{
	const struct pair_options options = {.timeout = 8, .retry = 2, .depth = DEPTH};

	(void)state;
	for (unsigned round = 0; round < ROUNDS / 4; round++) {
		uint8_t *bytes = mmap(NULL, PAIR_BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		struct ibv_mr *usual;
		uint8_t *usual_bytes;
		pthread_t poster;

		assert_true(bytes != MAP_FAILED);
		pair_open(&victim, &world, &options);
		usual = victim.mr[1];
		usual_bytes = victim.buffer[1];
		victim.buffer[1] = bytes;
		victim.mr[1] = ibv_reg_mr(world.pd, bytes, PAIR_BUFFER,
					  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
		assert_non_null(victim.mr[1]);
		/* What posts reads the key all the time. */
		struct ibv_mr told = *victim.mr[1], *real = victim.mr[1];

		victim.mr[1] = &told;
		start(&poster, post_until_it_fails, NULL);
		for (unsigned i = 0; i < round; i++)
			sched_yield();
		assert_int_equal(ibv_dereg_mr(real), 0);
		/* Who touches it now ends the program. */
		assert_int_equal(munmap(bytes, PAIR_BUFFER), 0);
		end(poster);
		victim.mr[1] = usual;
		victim.buffer[1] = usual_bytes;
		pair_close(&victim);
	}
}

/* ---- against a shared receive queue ---- */

static void *fill_all_the_time(void *argument)
{
	struct ibv_mr *mr = argument;

	/* Each has a place of its own: two messages into one would be a race of this program. */
	for (unsigned i = 0; !__atomic_load_n(&is_over, __ATOMIC_ACQUIRE); i++) {
		struct ibv_sge sge = {(uintptr_t)mr->addr + (uint64_t)(i % PLACES) * LENGTH, LENGTH, mr->lkey};
		struct ibv_recv_wr receive = {.wr_id = (uint64_t)1 << 32 | UINT32_MAX, .sg_list = &sge, .num_sge = 1}, *bad;
		int error = ibv_post_srq_recv(srq, &receive, &bad);

		assert_true(error == 0 || error == ENOMEM);
		if (error) {
			i--;
			sched_yield();
		}
	}
	return NULL;
}

static void *make_on_shared_queues(void *unused)
{
	(void)unused;
	for (uint32_t round = 1; round <= ROUNDS / 2; round++) {
		struct pair pair;

		open_on_shared_cq(&pair, true);
		for (unsigned i = 0; i < POSTS; i++) {
			struct ibv_sge sge;
			struct ibv_send_wr wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, LENGTH);

			wr.wr_id = UINT32_MAX;
			pair_post(&pair, 0, &wr);
		}
		pair_close(&pair);
	}
	return NULL;
}

static void destroy_against_shared_receives(void **state)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = DEPTH, .max_sge = 1}};
	uint8_t *bytes = malloc((size_t)PLACES * LENGTH);
	struct ibv_mr *mr = ibv_reg_mr(world.pd, bytes, (size_t)PLACES * LENGTH, IBV_ACCESS_LOCAL_WRITE);
	pthread_t maker[MAKERS], poller, filler;

	(void)state;
	assert_non_null(mr);
	is_over = false;
	cq = ibv_create_cq(world.context, MANY, NULL, NULL, 0);
	srq = ibv_create_srq(world.pd, &attr);
	assert_non_null(cq);
	assert_non_null(srq);
	start(&poller, poll_all_the_time, NULL);
	start(&filler, fill_all_the_time, mr);
	for (int i = 0; i < MAKERS; i++)
		start(&maker[i], make_on_shared_queues, NULL);
	for (int i = 0; i < MAKERS; i++)
		end(maker[i]);
	__atomic_store_n(&is_over, true, __ATOMIC_RELEASE);
	end(poller);
	end(filler);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	free(bytes);
}

/* ---- address handles right behind a post ---- */

static void destroy_handle_behind_post(void **state)
{
	const struct pair_options options = {.type = IBV_QPT_UD};
	struct pair pair;

	(void)state;
	pair_open(&pair, &world, &options);
	for (unsigned round = 0; round < ROUNDS; round++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, 500);
		struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1,
					   .grh = {.dgid = world.gid, .sgid_index = (uint8_t)world.gid_index}};
		struct ibv_ah *ah = ibv_create_ah(world.pd, &attr);

		assert_non_null(ah);
		wr.wr.ud.ah = ah;
		pair_post(&pair, 0, &wr);
		assert_int_equal(ibv_destroy_ah(ah), 0);
		expect_completion(pair.cq[0], wr.wr_id, IBV_WC_SEND);
	}
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(destroy_against_poll),
		cmocka_unit_test(destroy_against_post),
		cmocka_unit_test(deregister_against_writes),
		cmocka_unit_test(destroy_against_shared_receives),
		cmocka_unit_test(destroy_handle_behind_post),
	};

	private_network_enter();
	setenv("CMOCKA_TEST_ABORT", "1", 1);     /* a failed assertion cannot unwind another thread */
	return cmocka_run_group_tests(tests, open_world, close_world);
}
