/* SPDX-License-Identifier: MIT
 *
 * Receive side scaling through the verbs, on the loopback: work queues, indirection tables, and a raw packet queue pair whose frames go
 * where the hash of their addresses and ports says. The flows and their hashes are those that Microsoft has published.
 */
#include <arpa/inet.h>
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

enum { QUEUES = 4, LOG_QUEUES = 2, DEPTH = 16, FRAME = 128, LENGTH = 100 };

#define MAC {0x02, 0, 0, 0, 0, 0x77}

static uint8_t key[] = {
	0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
	0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
};

static const struct flow {
	int family;
	const char *source, *destination;
	uint16_t source_port, destination_port;
	uint32_t hash;
} flows[] = {
	{AF_INET, "66.9.149.187", "161.142.100.80", 2794, 1766, 0x51ccc178},
	{AF_INET, "199.92.111.2", "65.69.140.83", 14230, 4739, 0xc626b0ea},
	{AF_INET, "24.19.198.95", "12.22.207.184", 12898, 38024, 0x5c2b394a},
	{AF_INET, "38.27.205.30", "209.142.163.6", 48228, 2217, 0xafc7327f},
	{AF_INET, "153.39.163.191", "202.188.127.2", 44251, 1303, 0x10e828a2},
	{AF_INET6, "3ffe:2501:200:1fff::7", "3ffe:2501:200:3::1", 2794, 1766, 0x40207d3d},
	{AF_INET6, "3ffe:501:8::260:97ff:fe40:efab", "ff02::1", 14230, 4739, 0xdde51bbf},
	{AF_INET6, "3ffe:1900:4545:3:200:f8ff:fe21:67cf", "fe80::200:f8ff:fe21:67cf", 44251, 38024, 0x02d1feef},
};

enum { FLOWS = sizeof(flows) / sizeof(flows[0]), TO_QUEUE_0 = 0, TO_QUEUE_1 = 5, TO_QUEUE_2 = 1 };

/* Who sends, and who receives: all queues complete to `cq`, or each to one of its own. */
static struct scene {
	struct ibv_cq *send_cq, *cq[QUEUES];
	struct ibv_qp *sender, *receiver;
	struct ibv_wq *wq[QUEUES];
	struct ibv_rwq_ind_table *table;
	struct ibv_flow *rule;
	struct ibv_mr *mr;
	uint8_t buffer[(QUEUES * DEPTH + 1) * FRAME];
} scene;

static uint8_t *receive_buffer(unsigned queue, unsigned at)
{
	return scene.buffer + (1 + queue * DEPTH + at) * FRAME;
}

static struct ibv_wq *create_wq(struct ibv_cq *cq)
{
	struct ibv_wq_init_attr attr = {.wq_context = &scene, .wq_type = IBV_WQT_RQ, .max_wr = DEPTH, .max_sge = 1, .pd = world.pd,
					.cq = cq};
	struct ibv_wq *wq = ibv_create_wq(world.context, &attr);

	assert_non_null(wq);
	assert_true(attr.max_wr >= DEPTH && attr.max_sge >= 1);
	assert_ptr_equal(wq->wq_context, &scene);
	assert_int_equal(wq->state, IBV_WQS_RESET);
	return wq;
}

static int change(struct ibv_wq *wq, enum ibv_wq_state state)
{
	struct ibv_wq_attr attr = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = state};
	int error = ibv_modify_wq(wq, &attr);

	if (error == 0)
		assert_int_equal(wq->state, state);
	return error;
}

static struct ibv_qp_init_attr_ex scaled(struct ibv_rwq_ind_table *table, uint64_t fields)
{
	return (struct ibv_qp_init_attr_ex){
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH,
		.pd = world.pd,
		.rwq_ind_tbl = table,
		.rx_hash_conf = {IBV_RX_HASH_FUNC_TOEPLITZ, sizeof(key), key, fields},
	};
}

enum {
	ALL_FIELDS = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4 | IBV_RX_HASH_SRC_IPV6 | IBV_RX_HASH_DST_IPV6 |
		     IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_DST_PORT_TCP | IBV_RX_HASH_SRC_PORT_UDP | IBV_RX_HASH_DST_PORT_UDP,
};

struct rule {
	struct ibv_flow_attr attr;
	struct ibv_flow_spec_eth eth;
	struct ibv_flow_spec_action_tag tag;
} __attribute__((packed, aligned(8)));

static struct ibv_flow *steer(struct ibv_qp *qp, uint32_t tag)
{
	struct rule rule = {
		.attr = {.num_of_specs = 2, .port = 1, .size = sizeof(rule)},
		.eth = {IBV_FLOW_SPEC_ETH, sizeof(rule.eth), .val = {.dst_mac = MAC}, .mask = {.dst_mac = {255, 255, 255, 255, 255, 255}}},
		.tag = {IBV_FLOW_SPEC_ACTION_TAG, sizeof(rule.tag), tag},
	};

	return ibv_create_flow(qp, (void *)&rule);
}

static void open_sender(void)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RAW_PACKET, .cap = {.max_send_wr = 4, .max_send_sge = 1}};
	struct ibv_qp_attr to = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	scene.send_cq = attr.send_cq = attr.recv_cq = ibv_create_cq(world.context, 4, NULL, NULL, 0);
	scene.sender = ibv_create_qp(world.pd, &attr);
	assert_non_null(scene.sender);
	assert_int_equal(ibv_modify_qp(scene.sender, &to, IBV_QP_STATE | IBV_QP_PORT), 0);
	for (to.qp_state = IBV_QPS_RTR; to.qp_state <= IBV_QPS_RTS; to.qp_state++)
		assert_int_equal(ibv_modify_qp(scene.sender, &to, IBV_QP_STATE), 0);
	scene.mr = ibv_reg_mr(world.pd, scene.buffer, sizeof(scene.buffer), IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(scene.mr);
}

static int open_scene(void **state)
{
	struct ibv_rwq_ind_table_init_attr attr = {.log_ind_tbl_size = LOG_QUEUES, .ind_tbl = scene.wq};
	struct ibv_qp_init_attr_ex init;

	(void)state;
	memset(&scene, 0, sizeof(scene));
	open_sender();
	for (unsigned i = 0; i < QUEUES; i++) {
		scene.cq[i] = ibv_create_cq(world.context, 2 * DEPTH, NULL, NULL, 0);
		scene.wq[i] = create_wq(scene.cq[i]);
		assert_int_equal(change(scene.wq[i], IBV_WQS_RDY), 0);
	}
	scene.table = ibv_create_rwq_ind_table(world.context, &attr);
	assert_non_null(scene.table);
	init = scaled(scene.table, ALL_FIELDS);
	scene.receiver = ibv_create_qp_ex(world.context, &init);
	assert_non_null(scene.receiver);
	scene.rule = steer(scene.receiver, 0);
	assert_non_null(scene.rule);
	return 0;
}

static int close_scene(void **state)
{
	(void)state;
	assert_int_equal(ibv_destroy_flow(scene.rule), 0);
	assert_int_equal(ibv_destroy_qp(scene.receiver), 0);
	assert_int_equal(ibv_destroy_rwq_ind_table(scene.table), 0);
	for (unsigned i = 0; i < QUEUES; i++) {
		assert_int_equal(ibv_destroy_wq(scene.wq[i]), 0);
		assert_int_equal(ibv_destroy_cq(scene.cq[i]), 0);
	}
	assert_int_equal(ibv_destroy_qp(scene.sender), 0);
	assert_int_equal(ibv_destroy_cq(scene.send_cq), 0);
	assert_int_equal(ibv_dereg_mr(scene.mr), 0);
	return 0;
}

static int post_to(struct ibv_wq *wq, uint64_t wr_id, uint8_t *buffer, uint32_t lkey)
{
	struct ibv_sge sge = {(uintptr_t)buffer, FRAME, lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad = NULL;
	int error = ibv_post_wq_recv(wq, &wr, &bad);

	assert_ptr_equal(bad, error != 0 ? &wr : NULL);
	return error;
}

static void post(unsigned queue, unsigned at)
{
	assert_int_equal(post_to(scene.wq[queue], at, receive_buffer(queue, at), scene.mr->lkey), 0);
}

/* A TCP segment of that flow, for no host that there is; its payload is `seed`. */
static void write_frame(uint8_t frame[FRAME], const struct flow *flow, uint8_t seed)
{
	static const uint8_t header[] = {0x02, 0, 0, 0, 0, 0x77, 0x02, 0, 0, 0, 0, 1};
	uint8_t *ports;

	memset(frame, 0, FRAME);
	memcpy(frame, header, sizeof(header));
	if (flow->family == AF_INET) {
		memcpy(frame + 12, (uint8_t[]){0x08, 0x00, 0x45, 0, 0, LENGTH - 14, 0, 0, 0, 0, 64, 6}, 12);
		assert_int_equal(inet_pton(AF_INET, flow->source, frame + 26), 1);
		assert_int_equal(inet_pton(AF_INET, flow->destination, frame + 30), 1);
		ports = frame + 34;
	} else {
		memcpy(frame + 12, (uint8_t[]){0x86, 0xdd, 0x60, 0, 0, 0, 0, LENGTH - 54, 6, 64}, 10);
		assert_int_equal(inet_pton(AF_INET6, flow->source, frame + 22), 1);
		assert_int_equal(inet_pton(AF_INET6, flow->destination, frame + 38), 1);
		ports = frame + 54;
	}
	memcpy(ports, (uint8_t[]){(uint8_t)(flow->source_port >> 8), (uint8_t)flow->source_port,
				  (uint8_t)(flow->destination_port >> 8), (uint8_t)flow->destination_port}, 4);
	frame[LENGTH - 1] = seed;
}

static void send_frame(unsigned flow, uint8_t seed)
{
	struct ibv_sge sge = {(uintptr_t)scene.buffer, LENGTH, scene.mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;

	write_frame(scene.buffer, &flows[flow], seed);
	assert_int_equal(ibv_post_send(scene.sender, &wr, &bad), 0);
	(void)expect_completion(scene.send_cq, 0, IBV_WC_SEND);
}

static void expect_frame(unsigned queue, unsigned at, unsigned flow, uint8_t seed)
{
	struct ibv_wc wc = expect_completion(scene.cq[queue], at, IBV_WC_RECV);
	uint8_t wanted[FRAME];

	write_frame(wanted, &flows[flow], seed);
	assert_int_equal(wc.byte_len, LENGTH);
	assert_int_equal(wc.qp_num, scene.wq[queue]->wq_num);
	assert_memory_equal(receive_buffer(queue, at), wanted, LENGTH);
}

static void flows_go_where_the_hash_says(void **state)
{
	unsigned taken[QUEUES] = {0};

	(void)state;
	for (unsigned i = 0; i < QUEUES; i++)
		for (unsigned at = 0; at < DEPTH; at++)
			post(i, at);
	for (unsigned round = 0; round < 2; round++)
		for (unsigned i = 0; i < FLOWS; i++)
			send_frame(i, (uint8_t)(16 * round + i));
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < FLOWS; i++) {
			unsigned queue = flows[i].hash % QUEUES;

			expect_frame(queue, taken[queue]++, i, (uint8_t)(16 * round + i));
		}
	}
	for (unsigned i = 0; i < QUEUES; i++)
		assert_true(taken[i] > 0);
}

/* A queue without a receive loses its own frames and keeps no other waiting. When none has any, frames wait. */
static void an_empty_queue_holds_up_no_other(void **state)
{
	(void)state;
	post(1, 0);
	send_frame(TO_QUEUE_0, 1);
	send_frame(TO_QUEUE_1, 2);
	expect_frame(1, 0, TO_QUEUE_1, 2);
	/* None has a receive now. */
	send_frame(TO_QUEUE_0, 3);
	expect_silence(scene.cq[0]);
	post(0, 1);
	expect_frame(0, 1, TO_QUEUE_0, 3);
}

static void states_are_what_they_say(void **state)
{
	struct ibv_wq_attr attr = {.attr_mask = IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE, .wq_state = IBV_WQS_ERR,
				   .curr_wq_state = IBV_WQS_RESET};
	struct ibv_wq *wq = scene.wq[2];

	(void)state;
	assert_int_equal(ibv_modify_wq(wq, &attr), EINVAL);
	attr.curr_wq_state = IBV_WQS_RDY;
	post(2, 0);
	assert_int_equal(ibv_modify_wq(wq, &attr), 0);
	assert_int_equal(wq->state, IBV_WQS_ERR);
	assert_int_equal(expect_status(scene.cq[2], 0, IBV_WC_WR_FLUSH_ERR).qp_num, wq->wq_num);
	post(2, 1);
	(void)expect_status(scene.cq[2], 1, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(change(wq, IBV_WQS_RDY), EINVAL);
	post(2, 2);
	/* With RESET its completions go, too. */
	assert_int_equal(change(wq, IBV_WQS_RESET), 0);
	expect_silence(scene.cq[2]);
	assert_int_equal(post_to(wq, 3, receive_buffer(2, 3), scene.mr->lkey), EINVAL);
	assert_int_equal(change(wq, IBV_WQS_ERR), EINVAL);
	assert_int_equal(change(wq, IBV_WQS_RDY), 0);
	post(2, 4);
	send_frame(TO_QUEUE_2, 5);
	expect_frame(2, 4, TO_QUEUE_2, 5);
	for (unsigned at = 0; at < DEPTH; at++)
		post(2, at);
	assert_int_equal(post_to(wq, 0, receive_buffer(2, 0), scene.mr->lkey), ENOMEM);
}

/* As an adapter: the work queue of a receive that cannot be written to fails, with an event, and nothing else does. */
static void a_bad_receive_fails_its_queue(void **state)
{
	struct ibv_async_event event;

	(void)state;
	assert_int_equal(post_to(scene.wq[0], 7, receive_buffer(0, 7), scene.mr->lkey + 1), 0);
	post(0, 1);
	post(1, 2);
	send_frame(TO_QUEUE_0, 1);
	assert_int_equal(expect_status(scene.cq[0], 7, IBV_WC_LOC_PROT_ERR).qp_num, scene.wq[0]->wq_num);
	(void)expect_status(scene.cq[0], 1, IBV_WC_WR_FLUSH_ERR);
	event = expect_event(world.context, IBV_EVENT_WQ_FATAL);
	assert_ptr_equal(event.element.wq, scene.wq[0]);
	send_frame(TO_QUEUE_1, 2);
	expect_frame(1, 2, TO_QUEUE_1, 2);
	assert_int_equal(change(scene.wq[0], IBV_WQS_RESET), 0);
	assert_int_equal(change(scene.wq[0], IBV_WQS_RDY), 0);
	post(0, 3);
	send_frame(TO_QUEUE_0, 3);
	expect_frame(0, 3, TO_QUEUE_0, 3);
}

/* After RESET buffers are the program's, also where frames were on their way into them, and no completion speaks of them. */
static void reset_gives_buffers_back(void **state)
{
	enum { ROUNDS = 100, EACH = 4 };
	struct ibv_wc wc;

	(void)state;
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned at = 0; at < EACH; at++)
			post(0, at);
		for (unsigned at = 0; at < EACH; at++)
			send_frame(TO_QUEUE_0, (uint8_t)round);
		assert_int_equal(change(scene.wq[0], IBV_WQS_RESET), 0);
		assert_int_equal(ibv_poll_cq(scene.cq[0], 1, &wc), 0);
		memset(receive_buffer(0, 0), 0xee, EACH * FRAME);
		assert_int_equal(change(scene.wq[0], IBV_WQS_RDY), 0);
		for (unsigned i = 0; i < EACH * FRAME; i++)
			assert_int_equal(receive_buffer(0, 0)[i], 0xee);
	}
}

/* One entry: no fields need be hashed. And its rule's tag comes with the completion. */
static void one_queue_takes_all(void **state)
{
	struct ibv_cq_init_attr_ex cq_attr = {.cqe = DEPTH, .wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_FLOW_TAG};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(world.context, &cq_attr);
	struct ibv_wq *wq = create_wq(ibv_cq_ex_to_cq(cq));
	struct ibv_rwq_ind_table_init_attr attr = {.ind_tbl = &wq};
	struct ibv_rwq_ind_table *table = ibv_create_rwq_ind_table(world.context, &attr);
	struct ibv_qp_init_attr_ex init = scaled(table, 0);
	struct ibv_qp *qp = ibv_create_qp_ex(world.context, &init);
	struct ibv_poll_cq_attr poll = {0};
	struct ibv_flow *rule;

	(void)state;
	assert_non_null(qp);
	rule = steer(qp, 0xabcdef);
	assert_non_null(rule);
	assert_int_equal(change(wq, IBV_WQS_RDY), 0);
	for (unsigned i = 0; i < FLOWS; i++)
		assert_int_equal(post_to(wq, i, receive_buffer(0, i), scene.mr->lkey), 0);
	for (unsigned i = 0; i < FLOWS; i++) {
		send_frame(i, (uint8_t)i);
		assert_true(eventually(ibv_start_poll(cq, &poll) == 0));
		assert_int_equal(cq->status, IBV_WC_SUCCESS);
		assert_int_equal(cq->wr_id, i);
		assert_int_equal(ibv_wc_read_qp_num(cq), wq->wq_num);
		assert_int_equal(ibv_wc_read_flow_tag(cq), 0xabcdef);
		ibv_end_poll(cq);
	}
	assert_int_equal(ibv_destroy_flow(rule), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_rwq_ind_table(table), 0);
	assert_int_equal(ibv_destroy_wq(wq), 0);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

/* Nothing goes before what needs it. */
static void objects_in_use_stay(void **state)
{
	(void)state;
	assert_int_equal(ibv_destroy_wq(scene.wq[3]), EBUSY);
	assert_int_equal(ibv_destroy_rwq_ind_table(scene.table), EBUSY);
	assert_int_equal(ibv_destroy_cq(scene.cq[3]), EBUSY);
	assert_int_equal(ibv_destroy_qp(scene.receiver), EBUSY);
	scene.wq[3]->handle++;
	assert_int_equal(change(scene.wq[3], IBV_WQS_RDY), ENOENT);
	assert_int_equal(ibv_destroy_wq(scene.wq[3]), ENOENT);
	scene.wq[3]->handle--;
	scene.table->ind_tbl_handle++;
	assert_int_equal(ibv_destroy_rwq_ind_table(scene.table), ENOENT);
	scene.table->ind_tbl_handle--;
}

static void expect_no_wq(struct ibv_wq_init_attr attr, int error)
{
	errno = 0;
	assert_null(ibv_create_wq(world.context, &attr));
	assert_int_equal(errno, error);
}

static void work_queues_that_cannot_be(void **state)
{
	const struct ibv_wq_init_attr good = {.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = world.pd, .cq = scene.cq[0]};
	struct ibv_wq_attr change_flags = {.attr_mask = IBV_WQ_ATTR_FLAGS, .flags_mask = IBV_WQ_FLAGS_CVLAN_STRIPPING};
	struct ibv_wq_init_attr bad = good;
	struct ibv_device_attr device;

	(void)state;
	assert_int_equal(ibv_query_device(world.context, &device), 0);
	bad.wq_type = 1;
	expect_no_wq(bad, EINVAL);
	bad = good;
	bad.pd = NULL;
	expect_no_wq(bad, EINVAL);
	bad = good;
	bad.cq = NULL;
	expect_no_wq(bad, EINVAL);
	bad = good;
	bad.max_wr = 0;
	expect_no_wq(bad, EINVAL);
	bad.max_wr = (uint32_t)device.max_qp_wr + 1;
	expect_no_wq(bad, EINVAL);
	bad = good;
	bad.max_sge = (uint32_t)device.max_sge + 1;
	expect_no_wq(bad, EINVAL);
	bad = good;
	bad.comp_mask = IBV_WQ_INIT_ATTR_RESERVED;
	expect_no_wq(bad, EINVAL);
	/* What adapters do to frames; none of it is in raw_packet_caps. */
	bad.comp_mask = IBV_WQ_INIT_ATTR_FLAGS;
	for (bad.create_flags = 1; bad.create_flags <= IBV_WQ_FLAGS_RESERVED; bad.create_flags *= 2)
		expect_no_wq(bad, EOPNOTSUPP);
	assert_int_equal(ibv_modify_wq(scene.wq[0], &change_flags), EOPNOTSUPP);
	change_flags.attr_mask = 0;
	assert_int_equal(ibv_modify_wq(scene.wq[0], &change_flags), EINVAL);
	change_flags.attr_mask = IBV_WQ_ATTR_RESERVED | IBV_WQ_ATTR_STATE;
	assert_int_equal(ibv_modify_wq(scene.wq[0], &change_flags), EINVAL);
	assert_int_equal(change(scene.wq[0], IBV_WQS_UNKNOWN), EINVAL);
}

static void expect_no_table(struct ibv_rwq_ind_table_init_attr attr, int error)
{
	errno = 0;
	assert_null(ibv_create_rwq_ind_table(world.context, &attr));
	assert_int_equal(errno, error);
}

static void tables_that_cannot_be(void **state)
{
	struct ibv_rwq_ind_table_init_attr bad = {.log_ind_tbl_size = LOG_QUEUES, .ind_tbl = scene.wq, .comp_mask = 1};
	struct ibv_device_attr_ex device;
	struct ibv_wq **many;

	(void)state;
	expect_no_table(bad, EINVAL);
	bad.comp_mask = 0;
	bad.ind_tbl = NULL;
	expect_no_table(bad, EINVAL);
	bad.ind_tbl = (struct ibv_wq *[]){scene.wq[0], scene.wq[1], NULL, scene.wq[2]};
	expect_no_table(bad, EINVAL);
	/* As large as is promised, and not larger. One queue may have many entries. */
	assert_int_equal(ibv_query_device_ex(world.context, NULL, &device), 0);
	bad.log_ind_tbl_size = 0;
	while (1u << bad.log_ind_tbl_size < device.rss_caps.max_rwq_indirection_table_size)
		bad.log_ind_tbl_size++;
	many = calloc(2 * device.rss_caps.max_rwq_indirection_table_size, sizeof(struct ibv_wq *));
	for (unsigned i = 0; i < 2 * device.rss_caps.max_rwq_indirection_table_size; i++)
		many[i] = scene.wq[i % 3];
	bad.ind_tbl = many;
	assert_int_equal(ibv_destroy_rwq_ind_table(ibv_create_rwq_ind_table(world.context, &bad)), 0);
	bad.log_ind_tbl_size++;
	expect_no_table(bad, EINVAL);
	bad.log_ind_tbl_size = 64;
	expect_no_table(bad, EINVAL);
	free(many);
}

static void expect_no_qp(struct ibv_qp_init_attr_ex attr, int error)
{
	errno = 0;
	assert_null(ibv_create_qp_ex(world.context, &attr));
	assert_int_equal(errno, error);
}

static void queue_pairs_that_cannot_be(void **state)
{
	const struct ibv_qp_init_attr_ex good = scaled(scene.table, ALL_FIELDS);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_qp_init_attr_ex bad = good;
	struct ibv_qp_init_attr init;
	struct ibv_recv_wr wr = {0}, *bad_wr;

	(void)state;
	/* No adapter spreads datagrams or connections. */
	bad.qp_type = IBV_QPT_UD;
	expect_no_qp(bad, EOPNOTSUPP);
	bad = good;
	bad.comp_mask &= ~(uint32_t)IBV_QP_INIT_ATTR_RX_HASH;
	expect_no_qp(bad, EINVAL);
	bad = good;
	bad.comp_mask &= ~(uint32_t)IBV_QP_INIT_ATTR_IND_TABLE;
	expect_no_qp(bad, EINVAL);
	bad = good;
	bad.rwq_ind_tbl = NULL;
	expect_no_qp(bad, EINVAL);
	/* It has no queues of its own. */
	bad = good;
	bad.send_cq = scene.send_cq;
	expect_no_qp(bad, EINVAL);
	bad = good;
	bad.recv_cq = scene.cq[0];
	expect_no_qp(bad, EINVAL);
	bad = good;
	bad.cap.max_recv_wr = 1;
	expect_no_qp(bad, EINVAL);
	bad = good;
	bad.cap.max_send_wr = 1;
	expect_no_qp(bad, EINVAL);
	bad = good;
	bad.rx_hash_conf.rx_hash_key_len = 39;
	expect_no_qp(bad, EINVAL);
	bad = good;
	bad.rx_hash_conf.rx_hash_fields_mask = 0;
	expect_no_qp(bad, EINVAL);
	bad.rx_hash_conf.rx_hash_fields_mask = IBV_RX_HASH_INNER | IBV_RX_HASH_SRC_IPV4;
	expect_no_qp(bad, EOPNOTSUPP);
	bad = good;
	bad.rx_hash_conf.rx_hash_function = 2;
	expect_no_qp(bad, EOPNOTSUPP);
	/* Nor states. */
	assert_int_equal(ibv_modify_qp(scene.receiver, &attr, IBV_QP_STATE | IBV_QP_PORT), EOPNOTSUPP);
	assert_int_equal(ibv_query_qp(scene.receiver, &attr, IBV_QP_STATE, &init), EOPNOTSUPP);
	assert_int_equal(ibv_post_recv(scene.receiver, &wr, &bad_wr), EINVAL);
}

static void what_the_device_promises(void **state)
{
	struct ibv_device_attr_ex device;

	(void)state;
	assert_int_equal(ibv_query_device_ex(world.context, NULL, &device), 0);
	assert_int_equal(device.rss_caps.supported_qpts, 1 << IBV_QPT_RAW_PACKET);
	assert_int_equal(device.rss_caps.rx_hash_function, IBV_RX_HASH_FUNC_TOEPLITZ);
	assert_int_equal(device.rss_caps.rx_hash_fields_mask, ALL_FIELDS);
	assert_true(device.rss_caps.max_rwq_indirection_tables >= 1);
	assert_int_equal(device.max_wq_type_rq, device.orig_attr.max_qp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(flows_go_where_the_hash_says, open_scene, close_scene),
		cmocka_unit_test_setup_teardown(an_empty_queue_holds_up_no_other, open_scene, close_scene),
		cmocka_unit_test_setup_teardown(states_are_what_they_say, open_scene, close_scene),
		cmocka_unit_test_setup_teardown(a_bad_receive_fails_its_queue, open_scene, close_scene),
		cmocka_unit_test_setup_teardown(reset_gives_buffers_back, open_scene, close_scene),
		cmocka_unit_test_setup_teardown(one_queue_takes_all, open_scene, close_scene),
		cmocka_unit_test_setup_teardown(objects_in_use_stay, open_scene, close_scene),
		cmocka_unit_test_setup_teardown(work_queues_that_cannot_be, open_scene, close_scene),
		cmocka_unit_test_setup_teardown(tables_that_cannot_be, open_scene, close_scene),
		cmocka_unit_test_setup_teardown(queue_pairs_that_cannot_be, open_scene, close_scene),
		cmocka_unit_test(what_the_device_promises),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, open_world, close_world);
}
