/* SPDX-License-Identifier: MIT
 *
 * Every completion status a fault can lead to, end to end, on both sides, and the flush that follows.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/one_world.h"
#include "lib/patience.h"
#include "lib/private_network.h"

/* After an error the rest of both queues is flushed, in order. */
static void expect_flush(struct pair *pair, int side, uint64_t wr_id)
{
	expect_status(pair->cq[side], wr_id, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(state_of(pair->qp[side]), IBV_QPS_ERR);
}

static void local_length(void **state)
{
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	pair_open(&pair, &world, NULL);
	pair_receive(&pair, 1, 1, 0, 10);
	pair_receive(&pair, 1, 2, 0, 10);
	wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, 11);
	pair_post(&pair, 0, &wr);
	expect_status(pair.cq[1], 1, IBV_WC_LOC_LEN_ERR);
	expect_flush(&pair, 1, 2);
	expect_status(pair.cq[0], wr.wr_id, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(state_of(pair.qp[0]), IBV_QPS_ERR);
	pair_close(&pair);
}

static void local_protection_of_a_send(void **state)
{
	for (int kind = 0; kind < 4; kind++) {
		struct pair pair;
		struct ibv_pd *other = ibv_alloc_pd(world.context);
		struct ibv_mr *foreign;
		struct ibv_sge sge;
		struct ibv_send_wr wr;

		(void)state;
		pair_open(&pair, &world, NULL);
		foreign = ibv_reg_mr(other, pair.buffer[0], 64, IBV_ACCESS_LOCAL_WRITE);
		pair_receive(&pair, 1, 1, 0, 100);
		wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, 64);
		if (kind == 0)
			sge.lkey ^= 0x5500;                       /* no such key */
		if (kind == 1)
			sge.addr = (uintptr_t)pair.buffer[0] + PAIR_BUFFER - 63; /* past the end */
		if (kind == 2)
			sge.addr = UINT64_MAX - 10;               /* wraps */
		if (kind == 3)
			sge.lkey = foreign->lkey;                 /* another domain's */
		pair_post(&pair, 0, &wr);
		expect_status(pair.cq[0], wr.wr_id, IBV_WC_LOC_PROT_ERR);
		wr.wr_id = 6;
		pair_post(&pair, 0, &wr);
		expect_flush(&pair, 0, 6);
		assert_int_equal(ibv_dereg_mr(foreign), 0);
		pair_close(&pair);
		assert_int_equal(ibv_dealloc_pd(other), 0);
	}
}

static void local_protection_of_a_receive(void **state)
{
	struct pair pair;
	struct ibv_sge sge, in;
	struct ibv_recv_wr receive = {.wr_id = 1, .sg_list = &in, .num_sge = 1}, *bad;
	struct ibv_send_wr wr;

	(void)state;
	pair_open(&pair, &world, NULL);
	in = (struct ibv_sge){(uintptr_t)pair.buffer[1], 64, pair.mr[1]->lkey ^ 0x3300};
	assert_int_equal(ibv_post_recv(pair.qp[1], &receive, &bad), 0);
	wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, 64);
	pair_post(&pair, 0, &wr);
	expect_status(pair.cq[1], 1, IBV_WC_LOC_PROT_ERR);
	expect_status(pair.cq[0], wr.wr_id, IBV_WC_REM_OP_ERR);
	pair_close(&pair);
}

static void local_access_of_a_read(void **state)
{
	struct pair pair;
	struct ibv_mr *readable;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	pair_open(&pair, &world, NULL);
	readable = ibv_reg_mr(world.pd, pair.buffer[0], 64, IBV_ACCESS_REMOTE_READ);
	wr = pair_request(&pair, 0, IBV_WR_RDMA_READ, &sge, 0, 64);
	sge.lkey = readable->lkey;
	pair_post(&pair, 0, &wr);
	{
		struct ibv_wc wc = wait_completion(pair.cq[0]);

		assert_true(wc.status == IBV_WC_LOC_PROT_ERR || wc.status == IBV_WC_LOC_ACCESS_ERR);
	}
	assert_int_equal(ibv_dereg_mr(readable), 0);
	pair_close(&pair);
}

/* Each operation against each way of being refused. */
static void remote_access(void **state)
{
	static const struct { enum ibv_wr_opcode opcode; unsigned right; } operations[] = {
		{IBV_WR_RDMA_WRITE, IBV_ACCESS_REMOTE_WRITE},
		{IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_READ},
		{IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_ACCESS_REMOTE_ATOMIC},
		{IBV_WR_ATOMIC_CMP_AND_SWP, IBV_ACCESS_REMOTE_ATOMIC},
	};
	const unsigned every = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		for (int kind = 0; kind < 6; kind++) {
			struct pair_options options = {0};
			struct pair pair;
			struct ibv_pd *other = ibv_alloc_pd(world.context);
			struct ibv_mr *mr;
			struct ibv_sge sge;
			struct ibv_send_wr wr;
			struct ibv_async_event event;

			if (kind == 5)   /* the queue pair forbids it */
				options.access = (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
						  IBV_ACCESS_REMOTE_ATOMIC) & ~operations[i].right;
			pair_open(&pair, &world, &options);
			mr = ibv_reg_mr(kind == 4 ? other : world.pd, pair.buffer[1], 4096,
					kind == 0 ? every & ~operations[i].right : every);
			assert_non_null(mr);
			wr = pair_request(&pair, 0, operations[i].opcode, &sge, 0, 8);
			wr.wr.atomic.rkey = wr.wr.rdma.rkey = mr->rkey;
			if (i >= 2)
				wr.wr.atomic.rkey = mr->rkey;
			else
				wr.wr.rdma.rkey = mr->rkey;
			if (kind == 1)
				wr.wr.rdma.remote_addr = (uintptr_t)pair.buffer[1] + 4096;
			if (kind == 2)
				wr.wr.rdma.remote_addr = UINT64_MAX - 7;
			if (kind == 3) {
				if (i >= 2)
					wr.wr.atomic.rkey ^= 0x100;
				else
					wr.wr.rdma.rkey ^= 0x100;
			}
			pair_post(&pair, 0, &wr);
			{
				struct ibv_wc wc = wait_completion(pair.cq[0]);

				/* A queue pair that does not take the operation at all may call it invalid (IBA
				 * table 68). */
				if (kind == 5 && wc.status == IBV_WC_REM_INV_REQ_ERR)
					;
				else
					assert_int_equal(wc.status, IBV_WC_REM_ACCESS_ERR);
			}
			assert_int_equal(state_of(pair.qp[0]), IBV_QPS_ERR);
			assert_int_equal(state_of(pair.qp[1]), IBV_QPS_ERR);
			assert_int_equal(ibv_get_async_event(world.context, &event), 0);
			assert_true(event.event_type == IBV_EVENT_QP_ACCESS_ERR || event.event_type == IBV_EVENT_QP_REQ_ERR);
			assert_ptr_equal(event.element.qp, pair.qp[1]);
			ibv_ack_async_event(&event);
			assert_int_equal(ibv_dereg_mr(mr), 0);
			pair_close(&pair);
			assert_int_equal(ibv_dealloc_pd(other), 0);
		}
	}
}

static void nobody_answers(void **state)
{
	const struct pair_options options = {.timeout = 8, .retry = 1};  /* 1 ms */
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	pair_open(&pair, &world, &options);
	assert_int_equal(ibv_destroy_qp(pair.qp[1]), 0);
	pair.qp[1] = NULL;
	wr = pair_request(&pair, 0, IBV_WR_RDMA_WRITE, &sge, 0, 64);
	pair_post(&pair, 0, &wr);
	expect_status(pair.cq[0], wr.wr_id, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(state_of(pair.qp[0]), IBV_QPS_ERR);
	pair_close(&pair);
}

static void nobody_receives(void **state)
{
	struct pair_options options = {.no_rnr_retry = true};
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	pair_open(&pair, &world, &options);
	wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, 64);
	pair_post(&pair, 0, &wr);
	expect_status(pair.cq[0], wr.wr_id, IBV_WC_RNR_RETRY_EXC_ERR);
	pair_close(&pair);
	/* With patience, a receive that comes late is good enough. */
	options = (struct pair_options){.rnr_retry = 7, .min_rnr_timer = 1};
	pair_open(&pair, &world, &options);
	wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, 64);
	pair_post(&pair, 0, &wr);
	expect_silence(pair.cq[0]);
	pair_receive(&pair, 1, 8, 0, 64);
	expect_completion(pair.cq[1], 8, IBV_WC_RECV);
	expect_completion(pair.cq[0], wr.wr_id, IBV_WC_SEND);
	pair_close(&pair);
}

static void bad_window_keys(void **state)
{
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	/* Invalidating what is not there: locally, and at the peer. */
	pair_open(&pair, &world, NULL);
	wr = (struct ibv_send_wr){.wr_id = 4, .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED,
				  .invalidate_rkey = 0x12345600};
	pair_post(&pair, 0, &wr);
	expect_status(pair.cq[0], 4, IBV_WC_MW_BIND_ERR);
	assert_int_equal(state_of(pair.qp[0]), IBV_QPS_ERR);
	pair_close(&pair);
	pair_open(&pair, &world, NULL);
	pair_receive(&pair, 1, 8, 0, 64);
	wr = pair_request(&pair, 0, IBV_WR_SEND_WITH_INV, &sge, 0, 64);
	wr.invalidate_rkey = 0x12345600;
	pair_post(&pair, 0, &wr);
	expect_status(pair.cq[0], wr.wr_id, IBV_WC_REM_ACCESS_ERR);
	pair_close(&pair);
}

static void flushing_on_demand(void **state)
{
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	pair_open(&pair, &world, NULL);
	pair_receive(&pair, 0, 1, 0, 8);
	pair_receive(&pair, 0, 2, 0, 8);
	to_error(pair.qp[0]);
	expect_flush(&pair, 0, 1);
	expect_flush(&pair, 0, 2);
	/* Work posted afterwards is flushed too, signalled or not. */
	pair_receive(&pair, 0, 3, 0, 8);
	expect_flush(&pair, 0, 3);
	wr = pair_request(&pair, 0, IBV_WR_RDMA_WRITE, &sge, 0, 8);
	wr.send_flags = 0;
	wr.wr_id = 4;
	pair_post(&pair, 0, &wr);
	expect_flush(&pair, 0, 4);
	pair_close(&pair);
}

static bool arrived(struct pair *pair, size_t offset)
{
	struct ibv_wc wc;

	assert_int_equal(ibv_poll_cq(pair->cq[1], 1, &wc), 0);
	return pair->buffer[1][offset] == 0x44;
}

/* Unreliable services lose without a word. That nothing came of the bad ones is known when a good one has come. */
static void unreliable_faults_are_silent_at_the_sender(void **state)
{
	const struct pair_options datagram = {.type = IBV_QPT_UD}, connected = {.type = IBV_QPT_UC};
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	pair_open(&pair, &world, &datagram);
	pair_receive(&pair, 1, 1, 0, 100);
	wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, 8);
	wr.wr.ud.remote_qkey = 0x222;            /* not the receiver's */
	pair_post(&pair, 0, &wr);
	expect_completion(pair.cq[0], wr.wr_id, IBV_WC_SEND);
	wr.wr.ud.remote_qkey = PAIR_QKEY;
	wr.wr.ud.remote_qpn ^= 1;                /* nobody, probably */
	pair_post(&pair, 0, &wr);
	expect_completion(pair.cq[0], wr.wr_id, IBV_WC_SEND);
	wr.wr.ud.remote_qpn ^= 1;
	sge.length = 9;
	pair_post(&pair, 0, &wr);
	assert_int_equal(expect_completion(pair.cq[1], 1, IBV_WC_RECV).byte_len, 40 + 9);
	pair_close(&pair);

	pair_open(&pair, &world, &connected);
	wr = pair_request(&pair, 0, IBV_WR_RDMA_WRITE, &sge, 0, 8);
	memset(pair.buffer[0], 0x44, 8);
	wr.wr.rdma.rkey ^= 0x700;
	pair_post(&pair, 0, &wr);
	expect_completion(pair.cq[0], wr.wr_id, IBV_WC_RDMA_WRITE);
	wr.wr.rdma.rkey ^= 0x700;
	wr.wr.rdma.remote_addr += 64;
	pair_post(&pair, 0, &wr);
	expect_completion(pair.cq[0], wr.wr_id, IBV_WC_RDMA_WRITE);
	assert_true(eventually(arrived(&pair, 64)));
	assert_int_equal(pair.buffer[1][0], 0);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(local_length),
		cmocka_unit_test(local_protection_of_a_send),
		cmocka_unit_test(local_protection_of_a_receive),
		cmocka_unit_test(local_access_of_a_read),
		cmocka_unit_test(remote_access),
		cmocka_unit_test(nobody_answers),
		cmocka_unit_test(nobody_receives),
		cmocka_unit_test(bad_window_keys),
		cmocka_unit_test(flushing_on_demand),
		cmocka_unit_test(unreliable_faults_are_silent_at_the_sender),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, open_world, close_world);
}
