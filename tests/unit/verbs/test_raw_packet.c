/* SPDX-License-Identifier: MIT
 *
 * Raw packet queue pairs and flow rules through the verbs, on the loopback: frames as a program writes them, from one queue pair to
 * another. What rules match is in tests/unit/queue/test_flow.c.
 */
#include <errno.h>
#include <linux/capability.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/one_world.h"
#include "lib/patience.h"
#include "lib/private_network.h"

enum { FRAME = 2048, DEPTH = 64, TYPE = 0x88b5 }; /* an EtherType for experiments (IEEE 802) */

struct side {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *buffer;
};

static struct ibv_qp *create(struct ibv_cq *cq, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RAW_PACKET,
		.send_cq = cq,
		.recv_cq = cq,
		.srq = srq,
		.cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 64},
	};

	return ibv_create_qp(world.pd, &attr);
}

static void move_to(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state, .port_num = 1};

	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | (state == IBV_QPS_INIT ? IBV_QP_PORT : 0)), 0);
}

static void connect_side(struct side *side)
{
	move_to(side->qp, IBV_QPS_INIT);
	move_to(side->qp, IBV_QPS_RTR);
	move_to(side->qp, IBV_QPS_RTS);
}

static void open_side(struct side *side)
{
	side->cq = ibv_create_cq(world.context, 4 * DEPTH, NULL, NULL, 0);
	side->qp = create(side->cq, NULL);
	assert_non_null(side->qp);
	side->buffer = calloc(DEPTH, FRAME);
	side->mr = ibv_reg_mr(world.pd, side->buffer, DEPTH * FRAME, IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(side->mr);
	connect_side(side);
}

static void close_side(struct side *side)
{
	assert_int_equal(ibv_destroy_qp(side->qp), 0);
	assert_int_equal(ibv_dereg_mr(side->mr), 0);
	assert_int_equal(ibv_destroy_cq(side->cq), 0);
	free(side->buffer);
}

static void post_receive(struct side *side, unsigned at, uint32_t length)
{
	struct ibv_sge sge = {(uintptr_t)side->buffer + at * FRAME, length, side->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = at, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_recv(side->qp, &wr, &bad), 0);
}

/* A frame of that type, whose payload follows from `seed`. The loopback's address is zeros. */
static uint32_t write_frame(uint8_t *at, uint16_t type, uint8_t seed, uint32_t length)
{
	memset(at, 0, 12);
	at[11] = 1;
	at[12] = (uint8_t)(type >> 8);
	at[13] = (uint8_t)type;
	for (uint32_t i = 14; i < length; i++)
		at[i] = (uint8_t)(seed + i);
	return length;
}

static void post_send(struct side *side, unsigned at, uint32_t length, unsigned flags)
{
	struct ibv_sge sge[2] = {{(uintptr_t)side->buffer + at * FRAME, 14, side->mr->lkey},
				 {(uintptr_t)side->buffer + at * FRAME + 14, length - 14, side->mr->lkey}};
	struct ibv_send_wr wr = {.wr_id = 1000 + at, .sg_list = sge, .num_sge = 2, .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED | flags}, *bad;

	assert_int_equal(ibv_post_send(side->qp, &wr, &bad), 0);
}

static void send_frame(struct side *side, uint16_t type, uint8_t seed, uint32_t length)
{
	write_frame(side->buffer, type, seed, length);
	post_send(side, 0, length, 0);
	(void)expect_completion(side->cq, 1000, IBV_WC_SEND);
}

struct rule {
	struct ibv_flow_attr attr;
	struct ibv_flow_spec_eth eth;
};

static struct rule rule_for(uint16_t type, uint16_t priority)
{
	uint16_t wire;

	memcpy(&wire, (uint8_t[]){(uint8_t)(type >> 8), (uint8_t)type}, 2);
	return (struct rule){
		.attr = {.num_of_specs = 1, .port = 1, .size = sizeof(struct rule), .priority = priority},
		.eth = {.type = IBV_FLOW_SPEC_ETH, .size = sizeof(struct ibv_flow_spec_eth), .val = {.ether_type = wire},
			.mask = {.ether_type = 0xffff}},
	};
}

static struct ibv_flow *steer(struct side *side, uint16_t type, uint16_t priority)
{
	struct rule rule = rule_for(type, priority);
	struct ibv_flow *flow = ibv_create_flow(side->qp, &rule.attr);

	assert_non_null(flow);
	return flow;
}

static void expect_frame(struct side *side, unsigned at, uint16_t type, uint8_t seed, uint32_t length)
{
	struct ibv_wc wc = expect_completion(side->cq, at, IBV_WC_RECV);
	uint8_t wanted[FRAME];

	write_frame(wanted, type, seed, length);
	assert_int_equal(wc.byte_len, length);
	assert_int_equal(wc.qp_num, side->qp->qp_num);
	assert_memory_equal(side->buffer + at * FRAME, wanted, length);
}

static void frames_go_by_rules(void **state)
{
	struct side from, to, other;
	struct ibv_flow *flows[2];

	(void)state;
	open_side(&from);
	open_side(&to);
	open_side(&other);
	for (unsigned i = 1; i < 4; i++) {
		post_receive(&to, i, FRAME);
		post_receive(&other, i, FRAME);
	}
	/* Without a rule nobody receives. */
	send_frame(&from, TYPE, 1, 60);
	flows[0] = steer(&to, TYPE, 0);
	flows[1] = steer(&other, TYPE + 1, 0);
	send_frame(&from, TYPE, 2, 60);
	send_frame(&from, TYPE + 1, 3, 1500);
	send_frame(&from, TYPE, 4, 14);
	expect_frame(&to, 1, TYPE, 2, 60);
	expect_frame(&to, 2, TYPE, 4, 14);
	expect_frame(&other, 1, TYPE + 1, 3, 1500);
	/* When a rule goes, so do its frames. */
	assert_int_equal(ibv_destroy_flow(flows[0]), 0);
	send_frame(&from, TYPE, 5, 60);
	flows[0] = steer(&to, TYPE, 0);
	send_frame(&from, TYPE, 6, 60);
	expect_frame(&to, 3, TYPE, 6, 60);
	assert_int_equal(ibv_destroy_flow(flows[0]), 0);
	assert_int_equal(ibv_destroy_flow(flows[1]), 0);
	close_side(&other);
	close_side(&to);
	close_side(&from);
}

/* More than the queue holds at once: what there is no receive for waits. */
static void nothing_is_lost_for_want_of_a_receive(void **state)
{
	enum { FRAMES = 150 };
	struct ibv_flow *flow;
	struct side from, to;

	(void)state;
	open_side(&from);
	open_side(&to);
	flow = steer(&to, TYPE, 0);
	post_receive(&to, 0, FRAME);
	for (unsigned i = 0; i < FRAMES; i++)
		send_frame(&from, TYPE, (uint8_t)i, 100);
	for (unsigned i = 0; i < FRAMES; i++) {
		expect_frame(&to, 0, TYPE, (uint8_t)i, 100);
		post_receive(&to, 0, FRAME);
	}
	assert_int_equal(ibv_destroy_flow(flow), 0);
	close_side(&to);
	close_side(&from);
}

/* Polling does what there is to do. */
static void poll_for_nothing(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(ibv_poll_cq(cq, 1, &wc), 0);
}

/* As above, for a program that sleeps until something comes. */
static void events_wake_a_sleeper(void **state)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(world.context);
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = DEPTH, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(world.pd, &srq_attr);
	struct ibv_recv_wr wr = {.wr_id = 7, .num_sge = 1}, *bad;
	struct side from, to = {0};
	struct ibv_flow *flow;
	struct ibv_sge sge;
	struct ibv_cq *cq;
	void *context;

	(void)state;
	open_side(&from);
	to.cq = ibv_create_cq(world.context, DEPTH, NULL, channel, 0);
	to.qp = create(to.cq, srq);
	to.buffer = calloc(DEPTH, FRAME);
	to.mr = ibv_reg_mr(world.pd, to.buffer, DEPTH * FRAME, IBV_ACCESS_LOCAL_WRITE);
	connect_side(&to);
	flow = steer(&to, TYPE, 0);
	sge = (struct ibv_sge){(uintptr_t)to.buffer, FRAME, to.mr->lkey};
	wr.sg_list = &sge;
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(ibv_req_notify_cq(to.cq, 0), 0);
		/* Before the frame, and after it. */
		if (i != 1)
			assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), 0);
		send_frame(&from, TYPE, (uint8_t)i, 99);
		if (i == 1)
			assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), 0);
		assert_int_equal(poll(&(struct pollfd){.fd = channel->fd, .events = POLLIN}, 1, 60000), 1);
		assert_int_equal(ibv_get_cq_event(channel, &cq, &context), 0);
		ibv_ack_cq_events(cq, 1);
		assert_int_equal(expect_completion(to.cq, 7, IBV_WC_RECV).byte_len, 99);
	}
	/* A frame waits for a receive, which comes when no rule asks for frames; then one does again. */
	send_frame(&from, TYPE, 3, 99);
	poll_for_nothing(to.cq);
	assert_int_equal(ibv_destroy_flow(flow), 0);
	assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), 0);
	poll_for_nothing(to.cq);
	flow = steer(&to, TYPE, 0);
	send_frame(&from, TYPE, 4, 99);
	assert_int_equal(expect_completion(to.cq, 7, IBV_WC_RECV).byte_len, 99);
	assert_int_equal(ibv_destroy_flow(flow), 0);
	close_side(&to);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
	close_side(&from);
}

/* Where a queue takes nothing, for ever, frames are lost as on a cable that is not plugged in: sends do not wait for it. */
static void a_queue_that_takes_nothing(void **state)
{
	struct side from, to;
	struct ibv_flow *flow;

	(void)state;
	open_side(&from);
	open_side(&to);
	post_receive(&to, 1, FRAME);
	flow = steer(&to, TYPE, 0);
	assert_int_equal(system("tc qdisc add dev lo root pfifo limit 0"), 0);
	for (uint8_t i = 0; i < 3; i++)
		send_frame(&from, TYPE, i, 60);
	assert_int_equal(system("tc qdisc del dev lo root"), 0);
	send_frame(&from, TYPE, 3, 60);
	expect_frame(&to, 1, TYPE, 3, 60);
	assert_int_equal(ibv_destroy_flow(flow), 0);
	close_side(&to);
	close_side(&from);
}

static void priorities_and_defaults(void **state)
{
	struct ibv_flow_attr all = {.type = IBV_FLOW_ATTR_ALL_DEFAULT, .port = 1}, sniffer = {.type = IBV_FLOW_ATTR_SNIFFER, .port = 1};
	struct ibv_flow *flows[4];
	struct side from, first, rest;

	(void)state;
	open_side(&from);
	open_side(&first);
	open_side(&rest);
	for (unsigned i = 0; i < 4; i++) {
		post_receive(&first, i, FRAME);
		post_receive(&rest, i, FRAME);
	}
	flows[0] = steer(&first, TYPE, 1);
	flows[1] = ibv_create_flow(rest.qp, &all);
	assert_non_null(flows[1]);
	send_frame(&from, TYPE, 1, 60);
	send_frame(&from, TYPE + 1, 2, 60);
	expect_frame(&first, 0, TYPE, 1, 60);
	expect_frame(&rest, 0, TYPE + 1, 2, 60);
	/* A rule of a lower number takes the frame over. */
	flows[2] = steer(&rest, TYPE, 0);
	send_frame(&from, TYPE, 3, 60);
	expect_frame(&rest, 1, TYPE, 3, 60);
	/* A sniffer takes nothing away. */
	flows[3] = ibv_create_flow(first.qp, &sniffer);
	assert_non_null(flows[3]);
	send_frame(&from, TYPE, 4, 60);
	expect_frame(&rest, 2, TYPE, 4, 60);
	expect_frame(&first, 1, TYPE, 4, 60);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(ibv_destroy_flow(flows[i]), 0);
	close_side(&rest);
	close_side(&first);
	close_side(&from);
}

/* Linux takes a tag out of the frame before a packet socket sees it. */
static void tags_stay(void **state)
{
	static const uint8_t tag[] = {0x81, 0x00, 0x60, 0x2a, 0x88, 0xb5};
	struct rule rule = rule_for(TYPE, 0);
	struct ibv_flow *flow;
	struct side from, to;

	(void)state;
	open_side(&from);
	open_side(&to);
	/* Any priority, number 42. */
	memcpy(&rule.eth.val.vlan_tag, (uint8_t[]){0x00, 0x2a}, 2);
	memcpy(&rule.eth.mask.vlan_tag, (uint8_t[]){0x0f, 0xff}, 2);
	flow = ibv_create_flow(to.qp, &rule.attr);
	assert_non_null(flow);
	post_receive(&to, 1, FRAME);
	send_frame(&from, TYPE, 1, 80);
	write_frame(from.buffer, TYPE, 2, 80);
	memcpy(from.buffer + 12, tag, sizeof(tag));
	post_send(&from, 0, 80, 0);
	(void)expect_completion(from.cq, 1000, IBV_WC_SEND);
	assert_int_equal(expect_completion(to.cq, 1, IBV_WC_RECV).byte_len, 80);
	assert_memory_equal(to.buffer + FRAME, from.buffer, 80);
	assert_int_equal(ibv_destroy_flow(flow), 0);
	close_side(&to);
	close_side(&from);
}

static void sends_that_cannot_be(void **state)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	struct side side;

	(void)state;
	open_side(&side);
	/* No Ethernet header. */
	sge = (struct ibv_sge){(uintptr_t)side.buffer, 13, side.mr->lkey};
	assert_int_equal(ibv_post_send(side.qp, &wr, &bad), EINVAL);
	sge.length = 60;
	wr.opcode = IBV_WR_SEND_WITH_IMM;
	assert_int_equal(ibv_post_send(side.qp, &wr, &bad), EINVAL);
	wr.opcode = IBV_WR_RDMA_WRITE;
	assert_int_equal(ibv_post_send(side.qp, &wr, &bad), EINVAL);
	wr.opcode = IBV_WR_SEND;
	/* Checksums are the program's. */
	wr.send_flags |= IBV_SEND_IP_CSUM;
	assert_int_equal(ibv_post_send(side.qp, &wr, &bad), EINVAL);
	wr.send_flags &= ~(unsigned)IBV_SEND_IP_CSUM;
	/* Longer than the interface takes: the loopback's MTU is 65536. */
	sge.length = 65536 + 14 + 1;
	write_frame(side.buffer, TYPE, 0, 60);
	assert_int_equal(ibv_post_send(side.qp, &wr, &bad), 0);
	(void)expect_status(side.cq, 0, IBV_WC_LOC_LEN_ERR);
	assert_int_equal(ibv_query_qp(side.qp, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_SQE);
	move_to(side.qp, IBV_QPS_RTS);
	sge.length = 60;
	sge.lkey++;
	assert_int_equal(ibv_post_send(side.qp, &wr, &bad), 0);
	(void)expect_status(side.cq, 0, IBV_WC_LOC_PROT_ERR);
	move_to(side.qp, IBV_QPS_RTS);
	/* Inline, and the longest that goes. */
	write_frame(side.buffer, TYPE, 0, 60);
	post_send(&side, 0, 60, IBV_SEND_INLINE);
	(void)expect_completion(side.cq, 1000, IBV_WC_SEND);
	post_send(&side, 0, 65536 + 14, 0);
	(void)expect_completion(side.cq, 1000, IBV_WC_SEND);
	close_side(&side);
}

/* A receive that is too short fails alone; a bad key fails the queue pair. */
static void receives_that_cannot_be(void **state)
{
	struct ibv_recv_wr wr = {.wr_id = 9, .num_sge = 1}, *bad;
	struct ibv_sge sge;
	struct ibv_flow *flow;
	struct side from, to;

	(void)state;
	open_side(&from);
	open_side(&to);
	flow = steer(&to, TYPE, 0);
	post_receive(&to, 1, 50);
	post_receive(&to, 2, FRAME);
	send_frame(&from, TYPE, 1, 60);
	send_frame(&from, TYPE, 2, 60);
	(void)expect_status(to.cq, 1, IBV_WC_LOC_LEN_ERR);
	expect_frame(&to, 2, TYPE, 2, 60);
	sge = (struct ibv_sge){(uintptr_t)to.buffer, FRAME, to.mr->lkey + 1};
	wr.sg_list = &sge;
	assert_int_equal(ibv_post_recv(to.qp, &wr, &bad), 0);
	post_receive(&to, 3, FRAME);
	send_frame(&from, TYPE, 3, 60);
	(void)expect_status(to.cq, 9, IBV_WC_LOC_PROT_ERR);
	(void)expect_status(to.cq, 3, IBV_WC_WR_FLUSH_ERR);
	/* After RESET it begins anew, with its rule. */
	send_frame(&from, TYPE, 4, 60);
	move_to(to.qp, IBV_QPS_RESET);
	connect_side(&to);
	post_receive(&to, 4, FRAME);
	send_frame(&from, TYPE, 5, 60);
	expect_frame(&to, 4, TYPE, 5, 60);
	assert_int_equal(ibv_destroy_flow(flow), 0);
	close_side(&to);
	close_side(&from);
}

static void refusals(void **state)
{
	struct rule rule = rule_for(TYPE, 0);
	struct ibv_flow *flow;
	struct side side;
	struct pair pair;

	(void)state;
	open_side(&side);
	pair_open(&pair, &world, NULL);
	assert_null(ibv_create_flow(pair.qp[0], &rule.attr));
	assert_int_equal(errno, EINVAL);
	rule.attr.port = 2;
	assert_null(ibv_create_flow(side.qp, &rule.attr));
	assert_int_equal(errno, EINVAL);
	rule.attr.port = 1;
	rule.eth.size++;
	assert_null(ibv_create_flow(side.qp, &rule.attr));
	assert_int_equal(errno, EINVAL);
	rule.eth.size--;
	rule.eth.type = IBV_FLOW_SPEC_VXLAN_TUNNEL;
	assert_null(ibv_create_flow(side.qp, &rule.attr));
	assert_int_equal(errno, EOPNOTSUPP);
	rule.eth.type = IBV_FLOW_SPEC_ETH;
	flow = ibv_create_flow(side.qp, &rule.attr);
	assert_non_null(flow);
	/* Rules go before their queue pair. */
	assert_int_equal(ibv_destroy_qp(side.qp), EBUSY);
	flow->handle++;
	assert_int_equal(ibv_destroy_flow(flow), ENOENT);
	flow->handle--;
	assert_int_equal(ibv_destroy_flow(flow), 0);
	pair_close(&pair);
	close_side(&side);
}

/* Not faster than allowed; how much slower is the machine's affair. */
static void rate_limits(void **state)
{
	enum { FRAMES = 20, LENGTH = 1000, MILLISECOND = 1000000 };
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .rate_limit = 8000};
	struct ibv_qp_rate_limit_attr burst = {.rate_limit = 1, .max_burst_sz = FRAMES * LENGTH};
	struct ibv_device_attr_ex device;
	struct ibv_qp_init_attr init;
	struct timespec begun, ended;
	struct pair pair;
	struct side side;

	(void)state;
	assert_int_equal(ibv_query_device_ex(world.context, NULL, &device), 0);
	assert_int_equal(device.packet_pacing_caps.supported_qpts, 1 << IBV_QPT_RAW_PACKET);
	open_side(&side);
	assert_int_equal(ibv_modify_qp(side.qp, &attr, IBV_QP_STATE | IBV_QP_RATE_LIMIT), 0);
	assert_int_equal(ibv_query_qp(side.qp, &attr, IBV_QP_RATE_LIMIT, &init), 0);
	assert_int_equal(attr.rate_limit, 8000);
	/* A thousand bytes take a millisecond; a late thread may catch up with one. */
	write_frame(side.buffer, TYPE, 0, LENGTH);
	clock_gettime(CLOCK_MONOTONIC, &begun);
	for (unsigned i = 0; i < FRAMES; i++)
		post_send(&side, 0, LENGTH, 0);
	for (unsigned i = 0; i < FRAMES; i++)
		(void)expect_completion(side.cq, 1000, IBV_WC_SEND);
	clock_gettime(CLOCK_MONOTONIC, &ended);
	assert_true((ended.tv_sec - begun.tv_sec) * 1000 * MILLISECOND + ended.tv_nsec - begun.tv_nsec >= (FRAMES - 3) * MILLISECOND);
	/* At that rate they would take minutes; they may leave at once. */
	assert_int_equal(ibv_modify_qp_rate_limit(side.qp, &burst), 0);
	for (unsigned i = 0; i < FRAMES; i++)
		post_send(&side, 0, LENGTH, 0);
	for (unsigned i = 0; i < FRAMES; i++)
		(void)expect_completion(side.cq, 1000, IBV_WC_SEND);
	/* One more waits, until the limit is another: what was sent at the old one does not count for it. */
	post_send(&side, 0, LENGTH, 0);
	post_send(&side, 0, LENGTH, 0);
	burst = (struct ibv_qp_rate_limit_attr){.rate_limit = 8000};
	assert_int_equal(ibv_modify_qp_rate_limit(side.qp, &burst), 0);
	(void)expect_completion(side.cq, 1000, IBV_WC_SEND);
	(void)expect_completion(side.cq, 1000, IBV_WC_SEND);
	/* As well by ibv_modify_qp. */
	attr.rate_limit = 1;
	assert_int_equal(ibv_modify_qp(side.qp, &attr, IBV_QP_STATE | IBV_QP_RATE_LIMIT), 0);
	post_send(&side, 0, FRAMES * LENGTH, 0);
	(void)expect_completion(side.cq, 1000, IBV_WC_SEND);
	attr.rate_limit = 8000;
	assert_int_equal(ibv_modify_qp(side.qp, &attr, IBV_QP_STATE | IBV_QP_RATE_LIMIT), 0);
	post_send(&side, 0, LENGTH, 0);
	(void)expect_completion(side.cq, 1000, IBV_WC_SEND);
	/* Or until there is none. */
	burst.rate_limit = 1;
	assert_int_equal(ibv_modify_qp_rate_limit(side.qp, &burst), 0);
	post_send(&side, 0, LENGTH, 0);
	post_send(&side, 0, LENGTH, 0);
	burst = (struct ibv_qp_rate_limit_attr){0};
	assert_int_equal(ibv_modify_qp_rate_limit(side.qp, &burst), 0);
	(void)expect_completion(side.cq, 1000, IBV_WC_SEND);
	(void)expect_completion(side.cq, 1000, IBV_WC_SEND);
	burst.rate_limit = device.packet_pacing_caps.qp_rate_limit_max + 1;
	assert_int_equal(ibv_modify_qp_rate_limit(side.qp, &burst), EINVAL);
	attr.rate_limit = burst.rate_limit;
	assert_int_equal(ibv_modify_qp(side.qp, &attr, IBV_QP_STATE | IBV_QP_RATE_LIMIT), EINVAL);
	move_to(side.qp, IBV_QPS_ERR);
	assert_int_equal(ibv_modify_qp_rate_limit(side.qp, &(struct ibv_qp_rate_limit_attr){.rate_limit = 1}), EINVAL);
	pair_open(&pair, &world, NULL);
	assert_int_equal(ibv_modify_qp_rate_limit(pair.qp[0], &(struct ibv_qp_rate_limit_attr){0}), EOPNOTSUPP);
	pair_close(&pair);
	close_side(&side);
}

struct counting_rule {
	struct ibv_flow_attr attr;
	struct ibv_flow_spec_eth eth;
	struct ibv_flow_spec_counter_action count;
} __attribute__((packed, aligned(8)));

static struct ibv_flow *count(struct side *side, uint16_t type, struct ibv_counters *counters)
{
	struct rule plain = rule_for(type, 0);
	struct counting_rule rule = {.attr = plain.attr, .eth = plain.eth,
				     .count = {IBV_FLOW_SPEC_ACTION_COUNT, sizeof(struct ibv_flow_spec_counter_action), counters}};

	rule.attr.num_of_specs = 2;
	return ibv_create_flow(side->qp, (void *)&rule);
}

/* Frames and bytes, of several rules together, at the places that the program chose. */
static void counters_count(void **state)
{
	struct ibv_counters_init_attr init = {0};
	struct ibv_counter_attach_attr bytes = {IBV_COUNTER_BYTES, .index = 0}, frames = {IBV_COUNTER_PACKETS, .index = 2};
	struct ibv_counters *counters = ibv_create_counters(world.context, &init);
	uint64_t values[3] = {9, 9, 9};
	struct ibv_flow *flows[2];
	struct side from, to;

	(void)state;
	assert_non_null(counters);
	open_side(&from);
	open_side(&to);
	assert_int_equal(ibv_attach_counters_point_flow(counters, &bytes, NULL), 0);
	assert_int_equal(ibv_attach_counters_point_flow(counters, &frames, NULL), 0);
	flows[0] = count(&to, TYPE, counters);
	flows[1] = count(&to, TYPE + 1, counters);
	assert_non_null(flows[0]);
	assert_non_null(flows[1]);
	for (unsigned i = 0; i < 3; i++)
		post_receive(&to, i, FRAME);
	send_frame(&from, TYPE, 1, 60);
	send_frame(&from, TYPE + 2, 2, 61);
	send_frame(&from, TYPE + 1, 3, 1000);
	send_frame(&from, TYPE, 4, 100);
	expect_frame(&to, 0, TYPE, 1, 60);
	expect_frame(&to, 1, TYPE + 1, 3, 1000);
	expect_frame(&to, 2, TYPE, 4, 100);
	assert_int_equal(ibv_read_counters(counters, values, 3, 0), 0);
	assert_int_equal(values[0], 1160);
	assert_int_equal(values[1], 0);
	assert_int_equal(values[2], 3);
	/* Fewer places than there are: the rest is left out. */
	values[1] = values[2] = 77;
	assert_int_equal(ibv_read_counters(counters, values, 1, IBV_READ_COUNTERS_ATTR_PREFER_CACHED), 0);
	assert_int_equal(values[2], 77);
	/* As long as a rule counts there, it stays and stays as it is. */
	assert_int_equal(ibv_attach_counters_point_flow(counters, &frames, NULL), EBUSY);
	assert_int_equal(ibv_destroy_flow(flows[0]), 0);
	assert_int_equal(ibv_destroy_counters(counters), EBUSY);
	assert_int_equal(ibv_attach_counters_point_flow(counters, &frames, flows[1]), EOPNOTSUPP);
	assert_int_equal(ibv_read_counters(counters, NULL, 1, 0), EINVAL);
	assert_int_equal(ibv_read_counters(counters, values, 1, 8), EINVAL);
	assert_int_equal(ibv_destroy_flow(flows[1]), 0);
	frames.counter_desc = 7;
	assert_int_equal(ibv_attach_counters_point_flow(counters, &frames, NULL), EOPNOTSUPP);
	assert_int_equal(ibv_destroy_counters(counters), 0);
	init.comp_mask = 1;
	assert_null(ibv_create_counters(world.context, &init));
	assert_int_equal(errno, EINVAL);
	close_side(&to);
	close_side(&from);
}

struct tagging_rule {
	struct ibv_flow_attr attr;
	struct ibv_flow_spec_eth eth;
	struct ibv_flow_spec_action_tag tag;
} __attribute__((packed, aligned(8)));

static struct ibv_flow *tag(struct side *side, uint16_t type, uint32_t id)
{
	struct rule plain = rule_for(type, 0);
	struct tagging_rule rule = {.attr = plain.attr, .eth = plain.eth,
				    .tag = {IBV_FLOW_SPEC_ACTION_TAG, sizeof(struct ibv_flow_spec_action_tag), id}};

	rule.attr.num_of_specs = 2;
	return ibv_create_flow(side->qp, (void *)&rule);
}

static void expect_tag(struct ibv_cq_ex *cq, enum ibv_wc_opcode opcode, uint32_t id)
{
	struct ibv_poll_cq_attr attr = {0};

	assert_true(eventually(ibv_start_poll(cq, &attr) == 0));
	assert_int_equal(cq->status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_wc_read_opcode(cq), opcode);
	assert_int_equal(ibv_wc_read_flow_tag(cq), id);
	ibv_end_poll(cq);
}

/* By which rule a frame came, as an extended CQ tells it. */
static void frames_bring_the_tag_of_their_rule(void **state)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = DEPTH, .wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_FLOW_TAG};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(world.context, &attr);
	struct ibv_flow *flows[3];
	struct side from, to = {0};

	(void)state;
	assert_non_null(cq);
	open_side(&from);
	to.cq = ibv_cq_ex_to_cq(cq);
	to.qp = create(to.cq, NULL);
	assert_non_null(to.qp);
	to.buffer = calloc(DEPTH, FRAME);
	to.mr = ibv_reg_mr(world.pd, to.buffer, DEPTH * FRAME, IBV_ACCESS_LOCAL_WRITE);
	connect_side(&to);
	flows[0] = tag(&to, TYPE, 0x12345678);
	flows[1] = tag(&to, TYPE + 1, 7);
	flows[2] = steer(&to, TYPE + 2, 0);
	for (unsigned i = 0; i < 3; i++) {
		assert_non_null(flows[i]);
		post_receive(&to, i, FRAME);
	}
	send_frame(&from, TYPE, 1, 60);
	send_frame(&from, TYPE + 2, 2, 60);
	send_frame(&from, TYPE + 1, 3, 60);
	expect_tag(cq, IBV_WC_RECV, 0x12345678);
	expect_tag(cq, IBV_WC_RECV, 0);
	expect_tag(cq, IBV_WC_RECV, 7);
	write_frame(to.buffer, TYPE + 3, 0, 60);
	post_send(&to, 0, 60, 0);
	expect_tag(cq, IBV_WC_SEND, 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(ibv_destroy_flow(flows[i]), 0);
	close_side(&to);
	close_side(&from);
}

static void without_the_capability(void **state)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct had[2], less[2];
	struct ibv_cq *cq = ibv_create_cq(world.context, 4, NULL, NULL, 0);
	struct ibv_qp *qp;

	(void)state;
	assert_int_equal(syscall(SYS_capget, &header, had), 0);
	memcpy(less, had, sizeof(less));
	less[0].effective &= ~(1u << CAP_NET_RAW);
	assert_int_equal(syscall(SYS_capset, &header, less), 0);
	qp = create(cq, NULL);
	assert_null(qp);
	assert_int_equal(errno, EPERM);
	assert_int_equal(syscall(SYS_capset, &header, had), 0);
	qp = create(cq, NULL);
	assert_non_null(qp);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames_go_by_rules),
		cmocka_unit_test(nothing_is_lost_for_want_of_a_receive),
		cmocka_unit_test(events_wake_a_sleeper),
		cmocka_unit_test(a_queue_that_takes_nothing),
		cmocka_unit_test(priorities_and_defaults),
		cmocka_unit_test(tags_stay),
		cmocka_unit_test(sends_that_cannot_be),
		cmocka_unit_test(receives_that_cannot_be),
		cmocka_unit_test(refusals),
		cmocka_unit_test(rate_limits),
		cmocka_unit_test(counters_count),
		cmocka_unit_test(frames_bring_the_tag_of_their_rule),
		cmocka_unit_test(without_the_capability),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, open_world, close_world);
}
