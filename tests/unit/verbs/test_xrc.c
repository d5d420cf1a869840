/* SPDX-License-Identifier: MIT
 *
 * XRC through the verbs: domains and what they are shared by, SRQs by number, queue pairs with several handles. What the protocol does is
 * in tests/sim/test_xrc.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/one_world.h"
#include "lib/private_network.h"
#include "lib/two_processes.h"

enum { BUFFER = 64 * 1024 };

static struct ibv_xrcd *open_domain(int fd, int oflags)
{
	struct ibv_xrcd_init_attr attr = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = fd, .oflags = oflags};

	return ibv_open_xrcd(world.context, &attr);
}

static struct ibv_srq_init_attr_ex srq_attr(struct ibv_xrcd *xrcd, struct ibv_cq *cq)
{
	return (struct ibv_srq_init_attr_ex){
		.attr = {.max_wr = 8, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = IBV_SRQT_XRC,
		.xrcd = xrcd,
		.cq = cq,
		.pd = world.pd,
	};
}

static struct ibv_srq *create_srq(struct ibv_xrcd *xrcd, struct ibv_cq *cq)
{
	struct ibv_srq_init_attr_ex attr = srq_attr(xrcd, cq);

	return ibv_create_srq_ex(world.context, &attr);
}

static struct ibv_qp *create_receiver(struct ibv_xrcd *xrcd)
{
	struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd,
					   .cap = {.max_recv_wr = 100, .max_recv_sge = 1}};

	return ibv_create_qp_ex(world.context, &attr);
}

static struct ibv_qp *create_sender(struct ibv_cq *cq)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_XRC_SEND,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = world.pd,
		.send_cq = cq,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ,
		.cap = {.max_send_wr = 16, .max_send_sge = 1},
	};

	return ibv_create_qp_ex(world.context, &attr);
}

/* All that RC has, whichever half it is: as perftest does. */
static void connect_to(struct ibv_qp *qp, uint32_t peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer,
		.max_dest_rd_atomic = 4,
		.max_rd_atomic = 4,
		.min_rnr_timer = 1,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = {.is_global = 1, .port_num = 1,
			    .grh = {.dgid = world.gid, .sgid_index = (uint8_t)world.gid_index, .hop_limit = 4}},
	};

	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), 0);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
						  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), 0);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
						  IBV_QP_MAX_QP_RD_ATOMIC), 0);
}

static uint32_t number_of(struct ibv_srq *srq)
{
	uint32_t number = 0;

	assert_int_equal(ibv_get_srq_num(srq, &number), 0);
	return number;
}

static void post_receive(struct ibv_srq *srq, uint64_t wr_id, uint8_t *bytes, uint32_t length, uint32_t lkey)
{
	struct ibv_sge sge = {(uintptr_t)bytes, length, lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), 0);
}

static void post_send(struct ibv_qp *qp, uint32_t srqn, uint64_t wr_id, uint8_t *bytes, uint32_t length, uint32_t lkey)
{
	struct ibv_sge sge = {(uintptr_t)bytes, length, lkey};
	struct ibv_send_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	wr.qp_type.xrc.remote_srqn = srqn;
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
}

/* One sender, one receiver, two SRQs behind it with a CQ each. */
struct group {
	struct ibv_xrcd *xrcd;
	struct ibv_cq *send_cq, *cq[2];
	struct ibv_srq *srq[2];
	struct ibv_qp *sender, *receiver;
	uint8_t *bytes;
	struct ibv_mr *mr;
};

static void open_group(struct group *g)
{
	g->bytes = calloc(4, BUFFER);
	g->mr = ibv_reg_mr(world.pd, g->bytes, 4 * BUFFER, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	assert_non_null(g->mr);
	assert_non_null(g->xrcd = open_domain(-1, O_CREAT));
	assert_non_null(g->send_cq = ibv_create_cq(world.context, 16, NULL, NULL, 0));
	for (int i = 0; i < 2; i++) {
		assert_non_null(g->cq[i] = ibv_create_cq(world.context, 16, NULL, NULL, 0));
		assert_non_null(g->srq[i] = create_srq(g->xrcd, g->cq[i]));
	}
	assert_non_null(g->sender = create_sender(g->send_cq));
	assert_non_null(g->receiver = create_receiver(g->xrcd));
	connect_to(g->receiver, g->sender->qp_num);
	connect_to(g->sender, g->receiver->qp_num);
}

static void close_group(struct group *g)
{
	assert_int_equal(ibv_destroy_qp(g->sender), 0);
	if (g->receiver)
		assert_int_equal(ibv_destroy_qp(g->receiver), 0);
	for (int i = 0; i < 2; i++) {
		if (g->srq[i])
			assert_int_equal(ibv_destroy_srq(g->srq[i]), 0);
		assert_int_equal(ibv_destroy_cq(g->cq[i]), 0);
	}
	assert_int_equal(ibv_destroy_cq(g->send_cq), 0);
	assert_int_equal(ibv_close_xrcd(g->xrcd), 0);
	assert_int_equal(ibv_dereg_mr(g->mr), 0);
	free(g->bytes);
}

static void domains_of_files(void **state)
{
	char path[] = "/tmp/verbena-xrc-XXXXXX", other_path[] = "/tmp/verbena-xrc-XXXXXX";
	int fd = mkstemp(path), again = open(path, O_RDONLY), other = mkstemp(other_path), closed = dup(fd);
	struct ibv_xrcd_init_attr attr = {.fd = -1, .oflags = O_CREAT};
	struct ibv_xrcd *first, *second, *third;
	struct ibv_qp *qp, *opened;
	struct ibv_qp_open_attr open_attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE | IBV_QP_OPEN_ATTR_CONTEXT,
		.qp_type = IBV_QPT_XRC_RECV,
		.qp_context = &world,
	};

	(void)state;
	close(closed);
	assert_null(ibv_open_xrcd(world.context, &attr)); /* comp_mask */
	assert_int_equal(errno, EINVAL);
	assert_null(open_domain(closed, O_CREAT));
	assert_int_equal(errno, EBADF);
	assert_null(open_domain(-1, 0));
	assert_int_equal(errno, EINVAL);
	assert_null(open_domain(fd, 0));
	assert_int_equal(errno, EAGAIN);
	assert_non_null(first = open_domain(fd, O_CREAT | O_EXCL));
	assert_null(open_domain(again, O_CREAT | O_EXCL));
	assert_int_equal(errno, EINVAL);
	assert_non_null(second = open_domain(again, 0));
	assert_non_null(third = open_domain(other, O_CREAT));
	/* One file is one domain: what is in it is found through both. */
	assert_non_null(qp = create_receiver(first));
	open_attr.qp_num = qp->qp_num;
	open_attr.xrcd = third;
	assert_null(ibv_open_qp(world.context, &open_attr));
	assert_int_equal(errno, EINVAL);
	open_attr.xrcd = second;
	assert_non_null(opened = ibv_open_qp(world.context, &open_attr));
	assert_int_equal(opened->qp_num, qp->qp_num);
	assert_ptr_equal(opened->qp_context, &world);
	assert_int_equal(opened->qp_type, IBV_QPT_XRC_RECV);
	assert_int_equal(ibv_close_xrcd(first), EBUSY);
	assert_int_equal(ibv_close_xrcd(second), EBUSY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_close_xrcd(first), 0);
	assert_int_equal(state_of(opened), IBV_QPS_RESET);
	assert_int_equal(ibv_destroy_qp(opened), 0);
	assert_null(ibv_open_qp(world.context, &open_attr));
	assert_int_equal(ibv_close_xrcd(second), 0);
	assert_null(open_domain(fd, 0)); /* gone with the last */
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(ibv_close_xrcd(third), 0);
	close(fd);
	close(again);
	close(other);
	unlink(path);
	unlink(other_path);
}

static void what_is_needed(void **state)
{
	struct ibv_cq *cq = ibv_create_cq(world.context, 4, NULL, NULL, 0);
	struct ibv_xrcd *xrcd = open_domain(-1, O_CREAT);
	struct ibv_srq_init_attr_ex attr = srq_attr(xrcd, cq);
	struct ibv_qp_init_attr plain = {.qp_type = IBV_QPT_XRC_RECV, .send_cq = cq, .recv_cq = cq};
	struct ibv_qp_init_attr_ex wide = {.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = world.pd};
	struct ibv_qp_attr query;
	struct ibv_qp_init_attr granted;
	struct ibv_srq *srq;
	struct ibv_qp *qp;

	(void)state;
	attr.comp_mask &= ~(uint32_t)IBV_SRQ_INIT_ATTR_XRCD;
	assert_null(ibv_create_srq_ex(world.context, &attr));
	assert_int_equal(errno, EINVAL);
	attr = srq_attr(xrcd, cq);
	attr.comp_mask &= ~(uint32_t)IBV_SRQ_INIT_ATTR_CQ;
	assert_null(ibv_create_srq_ex(world.context, &attr));
	assert_int_equal(errno, EINVAL);
	attr = srq_attr(xrcd, cq);
	attr.comp_mask &= ~(uint32_t)IBV_SRQ_INIT_ATTR_PD;
	assert_null(ibv_create_srq_ex(world.context, &attr));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_create_qp(world.pd, &plain));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_create_qp_ex(world.context, &wide));
	assert_int_equal(errno, EINVAL);
	/* An XRC SRQ serves requests that name it, and no queue pair of another type. */
	assert_non_null(srq = create_srq(xrcd, cq));
	assert_int_equal(ibv_destroy_cq(cq), EBUSY);
	plain.qp_type = IBV_QPT_RC;
	plain.srq = srq;
	assert_null(ibv_create_qp(world.pd, &plain));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_close_xrcd(xrcd), EBUSY);
	/* A sender is made by the plain verb too; what it does not have is ignored. */
	plain = (struct ibv_qp_init_attr){.qp_type = IBV_QPT_XRC_SEND, .send_cq = cq, .recv_cq = cq,
					  .cap = {.max_send_wr = 1, .max_send_sge = 1, .max_recv_wr = 7, .max_recv_sge = 1}};
	assert_non_null(qp = ibv_create_qp(world.pd, &plain));
	assert_int_equal(plain.cap.max_recv_wr, 0);
	assert_null(qp->recv_cq);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_non_null(qp = create_receiver(xrcd));
	assert_null(qp->pd);
	assert_int_equal(ibv_query_qp(qp, &query, 0, &granted), 0);
	assert_int_equal(granted.qp_type, IBV_QPT_XRC_RECV);
	assert_int_equal(granted.cap.max_recv_wr, 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_close_xrcd(xrcd), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void each_srq_has_its_messages(void **state)
{
	struct group g;

	(void)state;
	open_group(&g);
	assert_int_not_equal(number_of(g.srq[0]), number_of(g.srq[1]));
	for (uint32_t i = 0; i < 20; i++) {
		int to = i % 3 == 0;
		uint32_t length = 1 + i * 3000;
		struct ibv_wc wc;

		fill_pattern(g.bytes, length, i);
		post_receive(g.srq[to], i, g.bytes + (1 + to) * BUFFER, BUFFER, g.mr->lkey);
		post_send(g.sender, number_of(g.srq[to]), i, g.bytes, length, g.mr->lkey);
		wc = expect_completion(g.cq[to], i, IBV_WC_RECV);
		assert_int_equal(wc.byte_len, length);
		assert_int_equal(wc.qp_num, g.receiver->qp_num);
		assert_int_equal(wc.src_qp, g.sender->qp_num);
		assert_true(has_pattern(g.bytes + (1 + to) * BUFFER, length, i));
		expect_completion(g.send_cq, i, IBV_WC_SEND);
	}
	close_group(&g);
}

static void by_builders(void **state)
{
	struct ibv_qp_ex *ex;
	struct group g;

	(void)state;
	open_group(&g);
	assert_non_null(ex = ibv_qp_to_qp_ex(g.sender));
	post_receive(g.srq[1], 5, g.bytes + BUFFER, BUFFER, g.mr->lkey);
	fill_pattern(g.bytes, 500, 3);
	fill_pattern(g.bytes + 3 * BUFFER, 500, 4);
	ibv_wr_start(ex);
	ex->wr_id = 1;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(ex);
	ibv_wr_set_xrc_srqn(ex, number_of(g.srq[1]));
	ibv_wr_set_sge(ex, g.mr->lkey, (uintptr_t)g.bytes, 500);
	ex->wr_id = 2;
	ibv_wr_rdma_read(ex, g.mr->rkey, (uintptr_t)g.bytes + 3 * BUFFER);
	ibv_wr_set_xrc_srqn(ex, number_of(g.srq[0]));
	ibv_wr_set_sge(ex, g.mr->lkey, (uintptr_t)g.bytes + 2 * BUFFER, 500);
	assert_int_equal(ibv_wr_complete(ex), 0);
	expect_completion(g.send_cq, 1, IBV_WC_SEND);
	expect_completion(g.send_cq, 2, IBV_WC_RDMA_READ);
	expect_completion(g.cq[1], 5, IBV_WC_RECV);
	assert_true(has_pattern(g.bytes + BUFFER, 500, 3));
	assert_true(has_pattern(g.bytes + 2 * BUFFER, 500, 4));
	close_group(&g);
}

/* Two handles: what happens is told to both, and the queue pair goes with the last. */
static void handles_of_a_queue_pair(void **state)
{
	struct ibv_qp_open_attr attr = {.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
					.qp_type = IBV_QPT_XRC_RECV};
	struct ibv_async_event event;
	struct ibv_qp *opened;
	unsigned seen = 0;
	struct group g;

	(void)state;
	open_group(&g);
	attr.qp_num = g.receiver->qp_num;
	attr.xrcd = g.xrcd;
	assert_non_null(opened = ibv_open_qp(world.context, &attr));
	post_send(g.sender, 0xffffff, 9, g.bytes, 8, g.mr->lkey);
	expect_status(g.send_cq, 9, IBV_WC_REM_INV_REQ_ERR);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ibv_get_async_event(world.context, &event), 0);
		assert_int_equal(event.event_type, IBV_EVENT_QP_REQ_ERR);
		seen |= event.element.qp == opened ? 1 : event.element.qp == g.receiver ? 2 : 4;
		ibv_ack_async_event(&event);
	}
	assert_int_equal(seen, 3);
	assert_int_equal(state_of(opened), IBV_QPS_ERR);
	assert_int_equal(ibv_destroy_qp(g.receiver), 0);
	g.receiver = opened;
	assert_int_equal(state_of(opened), IBV_QPS_ERR);
	close_group(&g);
}

/* The one that made it goes first; the other one still serves. */
static void the_last_handle_serves(void **state)
{
	struct ibv_qp_open_attr attr = {.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
					.qp_type = IBV_QPT_XRC_RECV};
	struct ibv_qp *opened;
	struct group g;

	(void)state;
	open_group(&g);
	attr.qp_num = g.receiver->qp_num;
	attr.xrcd = g.xrcd;
	assert_non_null(opened = ibv_open_qp(world.context, &attr));
	assert_int_equal(ibv_destroy_qp(g.receiver), 0);
	g.receiver = opened;
	post_receive(g.srq[0], 1, g.bytes + BUFFER, BUFFER, g.mr->lkey);
	post_send(g.sender, number_of(g.srq[0]), 2, g.bytes, 100, g.mr->lkey);
	expect_completion(g.cq[0], 1, IBV_WC_RECV);
	expect_completion(g.send_cq, 2, IBV_WC_SEND);
	close_group(&g);
}

/* Destroyed while its queue pair lives: who names it is told so. */
static void a_number_that_is_gone(void **state)
{
	struct group g;
	uint32_t number;

	(void)state;
	open_group(&g);
	number = number_of(g.srq[0]);
	post_receive(g.srq[0], 1, g.bytes + BUFFER, BUFFER, g.mr->lkey);
	post_send(g.sender, number, 2, g.bytes, 100, g.mr->lkey);
	expect_completion(g.cq[0], 1, IBV_WC_RECV);
	expect_completion(g.send_cq, 2, IBV_WC_SEND);
	assert_int_equal(ibv_destroy_srq(g.srq[0]), 0);
	g.srq[0] = NULL;
	post_send(g.sender, number, 3, g.bytes, 100, g.mr->lkey);
	expect_status(g.send_cq, 3, IBV_WC_REM_INV_REQ_ERR);
	expect_event(world.context, IBV_EVENT_QP_REQ_ERR);
	close_group(&g);
}

static char shared_path[] = "/tmp/verbena-xrc-XXXXXX";

/* An SRQ in the domain of the file, and one's number to the other process. */
static void offer_srq(int fd)
{
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	struct card own = {0}, other;
	int file = open(shared_path, O_RDONLY);

	world_open(&world, "lo");
	/* O_EXCL: to this process the domain is not there. */
	assert_non_null(xrcd = open_domain(file, O_CREAT | O_EXCL));
	assert_non_null(cq = ibv_create_cq(world.context, 4, NULL, NULL, 0));
	assert_non_null(srq = create_srq(xrcd, cq));
	own.qpn = number_of(srq);
	talk(fd, &own, &other);
	meet(fd);                        /* it was tried */
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_close_xrcd(xrcd), 0);
	world_close(&world);
	close(file);
}

/* A domain is one process's: what another has under the same file is refused as if it were not there. */
static void domains_of_other_processes(void **state)
{
	struct ibv_xrcd *xrcd;
	struct card own = {0}, other;
	struct group g;
	int file = mkstemp(shared_path), fd;
	pid_t child = start(offer_srq, &fd);

	(void)state;
	world_open(&world, "lo");
	open_group(&g);
	assert_non_null(xrcd = open_domain(file, O_CREAT | O_EXCL));
	talk(fd, &own, &other);
	post_send(g.sender, other.qpn, 1, g.bytes, 8, g.mr->lkey);
	expect_status(g.send_cq, 1, IBV_WC_REM_INV_REQ_ERR);
	expect_event(world.context, IBV_EVENT_QP_REQ_ERR);
	meet(fd);
	finish(child, fd);
	assert_int_equal(ibv_close_xrcd(xrcd), 0);
	close_group(&g);
	world_close(&world);
	close(file);
	unlink(shared_path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(domains_of_files),
		cmocka_unit_test(what_is_needed),
		cmocka_unit_test(each_srq_has_its_messages),
		cmocka_unit_test(by_builders),
		cmocka_unit_test(handles_of_a_queue_pair),
		cmocka_unit_test(the_last_handle_serves),
		cmocka_unit_test(a_number_that_is_gone),
	};
	/* First: it forks, which ThreadSanitizer allows as long as there is one thread. */
	const struct CMUnitTest processes[] = {cmocka_unit_test(domains_of_other_processes)};
	int failed;

	private_network_enter();
	failed = cmocka_run_group_tests_name("xrc/processes", processes, NULL, NULL);
	return failed + cmocka_run_group_tests(tests, open_world, close_world);
}
