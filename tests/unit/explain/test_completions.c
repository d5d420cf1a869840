/* SPDX-License-Identifier: MIT
 *
 * Failures provoked end to end, over the real library and daemon: the explanation must name the true cause. The
 * evidence is checked, not the prose. Both sides are in this process; the requester still asks its peer over the wire.
 */
#include <errno.h>
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
#include "unit/explain/told.h"

static void a_region_without_the_right(void **state)
{
	struct pair pair;
	struct ibv_mr *mr;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	pair_open(&pair, &world, NULL);
	mr = ibv_reg_mr(world.pd, pair.buffer[1], 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	wr = pair_request(&pair, 0, IBV_WR_RDMA_WRITE, &sge, 0, 64);
	wr.wr.rdma.rkey = mr->rkey;
	told_clear();
	pair_post(&pair, 0, &wr);
	expect_status(pair.cq[0], wr.wr_id, IBV_WC_REM_ACCESS_ERR);
	/* The requester, with the far side's reason. */
	told_expect("explain", "completion", "status", "REM_ACCESS_ERR", "side", "peer", "wr_id", number(wr.wr_id), "opcode",
		    "RDMA_WRITE", "qpn", hex(pair.qp[0]->qp_num, 6), "peer", "127.0.0.1", "peer_qpn",
		    hex(pair.qp[1]->qp_num, 6), "far_fault", "RIGHTS", "far_key", hex(mr->rkey, 8), "far_rights_asked",
		    "REMOTE_WRITE", "far_rights_granted", "LOCAL_WRITE|REMOTE_READ", NULL);
	/* And the responder, whose application only gets an event. */
	told_expect("explain", "refused_request", "fault", "RIGHTS", "side", "local", "qpn", hex(pair.qp[1]->qp_num, 6),
		    "event", "IBV_EVENT_QP_ACCESS_ERR", "key", hex(mr->rkey, 8), NULL);
	expect_event(world.context, IBV_EVENT_QP_ACCESS_ERR);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	pair_close(&pair);
}

static void a_range_beyond_the_region(void **state)
{
	struct pair pair;
	struct ibv_mr *mr;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	pair_open(&pair, &world, NULL);
	mr = ibv_reg_mr(world.pd, pair.buffer[1], 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	wr = pair_request(&pair, 0, IBV_WR_RDMA_READ, &sge, 0, 4097);
	wr.wr.rdma.rkey = mr->rkey;
	told_clear();
	pair_post(&pair, 0, &wr);
	expect_status(pair.cq[0], wr.wr_id, IBV_WC_REM_ACCESS_ERR);
	told_expect("status", "REM_ACCESS_ERR", "far_fault", "RANGE", "far_length", "4097", "far_region_length", "4096",
		    "far_region_start", hex((uintptr_t)pair.buffer[1], 1), NULL);
	expect_event(world.context, IBV_EVENT_QP_ACCESS_ERR);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	pair_close(&pair);
}

static void a_key_nobody_has_and_one_of_another_domain(void **state)
{
	for (int kind = 0; kind < 2; kind++) {
		struct pair pair;
		struct ibv_pd *other = ibv_alloc_pd(world.context);
		struct ibv_mr *foreign;
		struct ibv_sge sge;
		struct ibv_send_wr wr;

		(void)state;
		pair_open(&pair, &world, NULL);
		foreign = ibv_reg_mr(other, pair.buffer[1], 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
		wr = pair_request(&pair, 0, IBV_WR_RDMA_WRITE, &sge, 0, 64);
		wr.wr.rdma.rkey = kind == 0 ? foreign->rkey ^ 0x5500 : foreign->rkey;
		told_clear();
		pair_post(&pair, 0, &wr);
		expect_status(pair.cq[0], wr.wr_id, IBV_WC_REM_ACCESS_ERR);
		if (kind == 0)
			told_expect("far_fault", "KEY_UNKNOWN", "far_key", hex(wr.wr.rdma.rkey, 8), NULL);
		else
			told_expect("far_fault", "PD_MISMATCH", "far_region_pd", number(other->handle), "far_pd",
				    number(world.pd->handle), NULL);
		expect_event(world.context, IBV_EVENT_QP_ACCESS_ERR);
		assert_int_equal(ibv_dereg_mr(foreign), 0);
		pair_close(&pair);
		assert_int_equal(ibv_dealloc_pd(other), 0);
	}
}

/* The key of a region that is gone, and since when; and one whose bytes were swapped on the way. */
static void a_key_that_was_and_one_that_is_swapped(void **state)
{
	for (int kind = 0; kind < 2; kind++) {
		struct pair pair;
		struct ibv_mr *mr;
		struct ibv_sge sge;
		struct ibv_send_wr wr;
		uint32_t key;

		(void)state;
		pair_open(&pair, &world, NULL);
		mr = ibv_reg_mr(world.pd, pair.buffer[1], 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
		key = mr->rkey;
		/* A key that reads the same in both directions says nothing: once in 65536 another is taken. */
		assert_int_not_equal(key, __builtin_bswap32(key));
		wr = pair_request(&pair, 0, IBV_WR_RDMA_WRITE, &sge, 0, 64);
		wr.wr.rdma.rkey = kind == 0 ? key : __builtin_bswap32(key);
		if (kind == 0)
			assert_int_equal(ibv_dereg_mr(mr), 0);
		told_clear();
		pair_post(&pair, 0, &wr);
		expect_status(pair.cq[0], wr.wr_id, IBV_WC_REM_ACCESS_ERR);
		told_expect("far_fault", "KEY_UNKNOWN", "far_key", hex(wr.wr.rdma.rkey, 8), NULL);
		assert_int_equal(told_count("far_swapped_key", hex(key, 8)), kind);
		assert_int_equal(told_mentions("\"far_gone_us\":"), kind == 0);
		assert_int_equal(told_mentions("was the key of a region on the peer's side that was deregistered "), kind == 0);
		assert_int_equal(told_mentions("With its bytes swapped it is "), kind);
		expect_event(world.context, IBV_EVENT_QP_ACCESS_ERR);
		if (kind == 1)
			assert_int_equal(ibv_dereg_mr(mr), 0);
		pair_close(&pair);
	}
}

static void path_mtus_that_differ(void **state)
{
	const struct pair_options options = {.stay_in_reset = true};
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	pair_open(&pair, &world, &options);
	for (int side = 0; side < 2; side++) {
		pair.options.mtu = side == 0 ? IBV_MTU_1024 : IBV_MTU_512;
		pair_to_init(&pair, side);
		pair_to_rtr(&pair, side);
		pair_to_rts(&pair, side);
	}
	wr = pair_request(&pair, 0, IBV_WR_RDMA_WRITE, &sge, 0, 4096);
	told_clear();
	pair_post(&pair, 0, &wr);
	expect_status(pair.cq[0], wr.wr_id, IBV_WC_REM_INV_REQ_ERR);
	told_expect("far_fault", "PACKET_LENGTH", "far_length", "1024", "far_path_mtu", "512", "path_mtu", "1024", NULL);
	expect_event(world.context, IBV_EVENT_QP_REQ_ERR);
	pair_close(&pair);
}

static void a_queue_pair_without_the_right(void **state)
{
	const struct pair_options options = {.access = IBV_ACCESS_REMOTE_READ};
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	pair_open(&pair, &world, &options);
	wr = pair_request(&pair, 0, IBV_WR_RDMA_WRITE, &sge, 0, 64);
	told_clear();
	pair_post(&pair, 0, &wr);
	expect_status(pair.cq[0], wr.wr_id, IBV_WC_REM_INV_REQ_ERR);
	told_expect("status", "REM_INV_REQ_ERR", "far_fault", "QP_RIGHTS", "far_rights_asked", "REMOTE_WRITE",
		    "far_rights_granted", "REMOTE_READ", NULL);
	expect_event(world.context, IBV_EVENT_QP_REQ_ERR);
	pair_close(&pair);
}

static void a_receive_that_is_too_short_and_the_flush(void **state)
{
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	pair_open(&pair, &world, NULL);
	for (uint64_t i = 1; i <= 4; i++)
		pair_receive(&pair, 1, i, 0, 10);
	wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, 11);
	told_clear();
	pair_post(&pair, 0, &wr);
	expect_status(pair.cq[1], 1, IBV_WC_LOC_LEN_ERR);
	expect_status(pair.cq[0], wr.wr_id, IBV_WC_REM_INV_REQ_ERR);
	told_expect("status", "LOC_LEN_ERR", "side", "local", "wr_id", "1", "opcode", "RECV", "length", "11", "region_length", "10",
		    "flushed_receives", "3", NULL);
	told_expect("status", "REM_INV_REQ_ERR", "far_fault", "LOCAL_LENGTH", "far_length", "11", "far_region_length", "10", NULL);
	/* The three flushed receives have one cause, told once. */
	for (uint64_t i = 2; i <= 4; i++)
		expect_status(pair.cq[1], i, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(told_count("explain", "flush"), 0);
	/* Work posted afterwards is told once, with the first cause. */
	for (uint64_t i = 5; i <= 6; i++) {
		pair_receive(&pair, 1, i, 0, 10);
		expect_status(pair.cq[1], i, IBV_WC_WR_FLUSH_ERR);
	}
	told_expect("explain", "flush", "status", "WR_FLUSH_ERR", "fault", "LOCAL_LENGTH", "first_wr_id", "1", "state", "ERR", NULL);
	assert_int_equal(told_count("explain", "flush"), 1);
	pair_close(&pair);
}

static void local_protection(void **state)
{
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	pair_open(&pair, &world, NULL);
	wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, 64);
	sge.addr = (uintptr_t)pair.buffer[0] + PAIR_BUFFER - 60;
	told_clear();
	pair_post(&pair, 0, &wr);
	expect_status(pair.cq[0], wr.wr_id, IBV_WC_LOC_PROT_ERR);
	told_expect("status", "LOC_PROT_ERR", "fault", "RANGE", "side", "local", "opcode", "SEND", "key",
		    hex(pair.mr[0]->lkey, 8), "address", hex(sge.addr, 1), "length", "64", "region_length",
		    number(PAIR_BUFFER), NULL);
	pair_close(&pair);
}

/* Each reason why a window itself forbids a bind has words of its own; advice about the region would be wrong. */
static void a_window_that_is_bound_already(void **state)
{
	struct pair pair;
	struct ibv_mw *mw = ibv_alloc_mw(world.pd, IBV_MW_TYPE_2);
	struct ibv_send_wr wr = {.wr_id = 5, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_mr *mr;

	(void)state;
	for (unsigned length = 0; length <= 64; length += 64) {
		pair_open(&pair, &world, NULL);
		mr = ibv_reg_mr(world.pd, pair.buffer[0], PAIR_BUFFER, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
		wr.bind_mw.mw = mw;
		wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
		wr.bind_mw.bind_info = (struct ibv_mw_bind_info){mr, (uintptr_t)pair.buffer[0], length, IBV_ACCESS_REMOTE_READ};
		told_clear();
		if (length > 0) {
			pair_post(&pair, 0, &wr);
			expect_completion(pair.cq[0], 5, IBV_WC_BIND_MW);
			mw->rkey = wr.bind_mw.rkey;
			wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
		}
		pair_post(&pair, 0, &wr);
		expect_status(pair.cq[0], 5, IBV_WC_MW_BIND_ERR);
		told_expect("status", "MW_BIND_ERR", "fault", "BIND", "opcode", "BIND_MW", NULL);
		assert_true(told_mentions("LOCAL_INV"));
		assert_int_equal(told_mentions("is bound already, to 64 bytes"), length > 0);
		assert_int_equal(told_mentions("to no bytes"), length == 0);
		pair_close(&pair);
		assert_int_equal(ibv_dereg_mr(mr), 0);
	}
	assert_int_equal(ibv_dealloc_mw(mw), 0);
}

static void nobody_receives(void **state)
{
	const struct pair_options options = {.rnr_retry = 2, .min_rnr_timer = 1};
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	pair_open(&pair, &world, &options);
	wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, 64);
	told_clear();
	pair_post(&pair, 0, &wr);
	expect_status(pair.cq[0], wr.wr_id, IBV_WC_RNR_RETRY_EXC_ERR);
	told_expect("status", "RNR_RETRY_EXC_ERR", "fault", "RNR_RETRY_EXCEEDED", "side", "peer", "tries", "2", "rnr_retry", "2",
		    "far_receives", "0", "far_state", "RTS", NULL);
	pair_close(&pair);
}

static const struct pair_options impatient = {.timeout = 10, .retry = 1, .stay_in_reset = true};

static void connect_only(struct pair *pair, int side)
{
	pair_to_init(pair, side);
	pair_to_rtr(pair, side);
	pair_to_rts(pair, side);
}

static void the_peer_is_still_in_init(void **state)
{
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	char psn[16];

	(void)state;
	pair_open(&pair, &world, &impatient);
	snprintf(psn, sizeof(psn), "0x%06x", (unsigned)pair_psn(pair.qp[0]->qp_num));
	pair_to_init(&pair, 1);
	connect_only(&pair, 0);
	wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, 64);
	told_clear();
	pair_post(&pair, 0, &wr);
	expect_status(pair.cq[0], wr.wr_id, IBV_WC_RETRY_EXC_ERR);
	told_expect("status", "RETRY_EXC_ERR", "side", "peer", "reach", "answered", "far_verdict", "not_connected", "far_state",
		    "INIT", "timeout", "10", "retry_cnt", "1", "psn", psn, NULL);
	pair_close(&pair);
}

static void the_peer_is_gone(void **state)
{
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	pair_open(&pair, &world, &impatient);
	connect_only(&pair, 0);
	assert_int_equal(ibv_destroy_qp(pair.qp[1]), 0);
	pair.qp[1] = NULL;
	wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, 64);
	told_clear();
	pair_post(&pair, 0, &wr);
	expect_status(pair.cq[0], wr.wr_id, IBV_WC_RETRY_EXC_ERR);
	told_expect("status", "RETRY_EXC_ERR", "reach", "answered", "far_verdict", "no_qp", NULL);
	pair_close(&pair);
}

/* Connects side 0 by hand: to that QPN, with that rq_psn at the other side left alone. */
static void connect_to(struct pair *pair, const char *ipv4_last, uint32_t qpn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = qpn,
		.rq_psn = 0x101,
		.max_dest_rd_atomic = 16,
		.min_rnr_timer = 1,
		.ah_attr = {.grh = {.dgid = pair->world->gid, .sgid_index = (uint8_t)pair->world->gid_index, .hop_limit = 64},
			    .is_global = 1, .port_num = 1},
	};

	pair_to_init(pair, 0);
	if (ipv4_last)
		attr.ah_attr.grh.dgid.raw[15] = (uint8_t)atoi(ipv4_last);
	assert_int_equal(ibv_modify_qp(pair->qp[0], &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), 0);
	pair_to_rts(pair, 0);
}

static void no_process_has_the_queue_pair(void **state)
{
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	pair_open(&pair, &world, &impatient);
	connect_to(&pair, NULL, pair.qp[1]->qp_num ^ 0x400000);  /* another slot */
	wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, 64);
	told_clear();
	pair_post(&pair, 0, &wr);
	expect_status(pair.cq[0], wr.wr_id, IBV_WC_RETRY_EXC_ERR);
	told_expect("status", "RETRY_EXC_ERR", "reach", "answered", "far_verdict", "no_process", "peer_qpn",
		    hex(pair.qp[1]->qp_num ^ 0x400000, 6), NULL);
	pair_close(&pair);
}

static void the_peer_is_connected_to_another(void **state)
{
	struct pair pair, third;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	pair_open(&pair, &world, &impatient);
	pair_open(&third, &world, NULL);
	connect_to(&pair, NULL, third.qp[1]->qp_num);
	wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, 64);
	told_clear();
	pair_post(&pair, 0, &wr);
	expect_status(pair.cq[0], wr.wr_id, IBV_WC_RETRY_EXC_ERR);
	/* The packets do reach a queue pair that is in RTS with this address; its PSN is another. */
	told_expect("status", "RETRY_EXC_ERR", "far_verdict", "other_peer", "far_state", "RTS", NULL);
	pair_close(&third);
	pair_close(&pair);
}

static void a_datagram_too_long_for_its_receive(void **state)
{
	const struct pair_options options = {.type = IBV_QPT_UD};
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	pair_open(&pair, &world, &options);
	pair_receive(&pair, 1, 7, 0, 100);
	wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, 64);
	told_clear();
	pair_post(&pair, 0, &wr);
	expect_status(pair.cq[1], 7, IBV_WC_LOC_LEN_ERR);
	told_expect("status", "LOC_LEN_ERR", "qp_type", "UD", "wr_id", "7", "length", "104", "region_length", "100", "peer_qpn",
		    hex(pair.qp[0]->qp_num, 6), NULL);
	pair_close(&pair);
}

static void datagrams_nobody_hears_of(void **state)
{
	const struct pair_options options = {.type = IBV_QPT_UD};
	const char *qpn, *sender;
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	pair_open(&pair, &world, &options);
	qpn = hex(pair.qp[1]->qp_num, 6);
	sender = hex(pair.qp[0]->qp_num, 6);
	told_clear();
	for (int i = 0; i < 3; i++) {
		wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, 64);
		pair_post(&pair, 0, &wr);
		expect_completion(pair.cq[0], wr.wr_id, IBV_WC_SEND);
	}
	told_expect("explain", "dropped", "dropped", "no_receive", "qpn", qpn, "peer", "127.0.0.1", "peer_qpn", sender, "length", "64",
		    "count", "1", NULL);
	wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, 64);
	wr.wr.ud.remote_qkey ^= 0x42;
	pair_post(&pair, 0, &wr);
	expect_completion(pair.cq[0], wr.wr_id, IBV_WC_SEND);
	told_expect("explain", "dropped", "dropped", "qkey", "qpn", qpn, "far_qkey", hex(PAIR_QKEY ^ 0x42, 8), "qkey", hex(PAIR_QKEY, 8),
		    NULL);
	/* That one was told of, so those before it have been looked at. */
	pair_receive(&pair, 1, 7, 0, 1000);
	wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, 64);
	pair_post(&pair, 0, &wr);
	expect_completion(pair.cq[1], 7, IBV_WC_RECV);
	pair_reset(&pair, 1);
	wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, 64);
	pair_post(&pair, 0, &wr);
	told_expect("explain", "dropped", "dropped", "state", "qpn", qpn, "state", "RESET", NULL);
	assert_int_equal(told_count("dropped", "no_receive"), 1);
	pair_close(&pair);
	told_expect("explain", "dropped", "dropped", "no_receive", "qpn", qpn, "count", "3", NULL);
	assert_int_equal(told_count("dropped", "qkey"), 1);
}

static void the_application_ends_it(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, &world, NULL);
	pair_receive(&pair, 1, 1, 0, 100);
	pair_receive(&pair, 1, 2, 0, 100);
	told_clear();
	to_error(pair.qp[1]);
	expect_status(pair.cq[1], 1, IBV_WC_WR_FLUSH_ERR);
	told_expect("explain", "flush", "fault", "NONE", "state", "RTS", "flushed_receives", "2", "qpn", hex(pair.qp[1]->qp_num, 6), NULL);
	pair_close(&pair);
}

static void a_completion_queue_overruns(void **state)
{
	struct pair pair;
	struct ibv_cq *small = ibv_create_cq(world.context, 2, NULL, NULL, 0);
	struct ibv_qp_init_attr init = {
		.send_cq = small, .recv_cq = small, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
	struct ibv_async_event event;
	struct ibv_qp *qp;

	(void)state;
	pair_open(&pair, &world, &(struct pair_options){.stay_in_reset = true});
	qp = ibv_create_qp(world.pd, &init);
	assert_non_null(qp);
	assert_int_equal(ibv_destroy_qp(pair.qp[0]), 0);
	pair.qp[0] = qp;
	pair_to_init(&pair, 0);
	told_clear();
	for (uint64_t i = 0; i < 3; i++)
		pair_receive(&pair, 0, i, 0, 8);
	/* Told before it happens ... */
	told_expect("misuse", "cq_crowded", "cqe", "2", "outstanding", "3", "waiting", "0", NULL);
	/* ... and when it does. */
	assert_int_equal(ibv_modify_qp(qp, &error, IBV_QP_STATE), 0);
	told_expect("explain", "event", "event", "IBV_EVENT_CQ_ERR", "cqe", "2", NULL);
	assert_int_equal(ibv_get_async_event(world.context, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_CQ_ERR);
	ibv_ack_async_event(&event);
	pair_close(&pair);
	assert_int_equal(ibv_destroy_cq(small), 0);
}

static void an_interface_changes(void **state)
{
	struct world watched;

	(void)state;
	if (private_network_add_interface("vb0", "192.0.2.1", 24) != 0 || private_network_set_up("veth0", 1) != 0)
		skip();
	world_open(&watched, "vb0");
	told_clear();
	assert_int_equal(private_network_add_address("vb0", "192.0.2.2", 24), 0);
	told_expect("explain", "event", "event", "IBV_EVENT_GID_CHANGE", "device", "roce_vb0", NULL);
	assert_int_equal(private_network_set_up("vb0", 0), 0);
	told_expect("explain", "event", "event", "IBV_EVENT_PORT_ERR", "device", "roce_vb0", NULL);
	world_close(&watched);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_region_without_the_right),
		cmocka_unit_test(a_range_beyond_the_region),
		cmocka_unit_test(a_key_nobody_has_and_one_of_another_domain),
		cmocka_unit_test(a_key_that_was_and_one_that_is_swapped),
		cmocka_unit_test(path_mtus_that_differ),
		cmocka_unit_test(a_queue_pair_without_the_right),
		cmocka_unit_test(a_receive_that_is_too_short_and_the_flush),
		cmocka_unit_test(local_protection),
		cmocka_unit_test(a_window_that_is_bound_already),
		cmocka_unit_test(nobody_receives),
		cmocka_unit_test(the_peer_is_still_in_init),
		cmocka_unit_test(the_peer_is_gone),
		cmocka_unit_test(no_process_has_the_queue_pair),
		cmocka_unit_test(the_peer_is_connected_to_another),
		cmocka_unit_test(a_datagram_too_long_for_its_receive),
		cmocka_unit_test(datagrams_nobody_hears_of),
		cmocka_unit_test(the_application_ends_it),
		cmocka_unit_test(a_completion_queue_overruns),
		cmocka_unit_test(an_interface_changes),
	};
	int failed;

	private_network_enter();
	told_prepare();
	failed = cmocka_run_group_tests(tests, open_world, close_world);
	told_remove();
	return failed;
}
