/* SPDX-License-Identifier: MIT
 *
 * Receive side scaling: which fields of a frame are hashed, which work queue that leads to, and what fails with it. The hash itself is in
 * tests/unit/wire/test_toeplitz.c; the numbers here are of the same publication.
 */
#include "fixture.h"
#include "wire/flow_key.h"

enum { QUEUES = 4, CAPACITY = 4 };

#define BOTH(what) (IBV_RX_HASH_SRC_##what | IBV_RX_HASH_DST_##what)

static uint8_t key[VB_TOEPLITZ_KEY] = {
	0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
	0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
};

/* 66.9.149.187:2794 to 161.142.100.80:1766. */
static struct vb_flow_key ipv4(uint8_t protocol)
{
	return (struct vb_flow_key){
		.ip_version = 4,
		.protocol = protocol,
		.has_ports = 1,
		.source_ip = {66, 9, 149, 187},
		.destination_ip = {161, 142, 100, 80},
		.source_port = be16_of(2794),
		.destination_port = be16_of(1766),
	};
}

/* 3ffe:2501:200:1fff::7 to 3ffe:2501:200:3::1, the same ports. */
static struct vb_flow_key ipv6(uint8_t protocol)
{
	return (struct vb_flow_key){
		.ip_version = 6,
		.protocol = protocol,
		.has_ports = 1,
		.source_ip = {0x3f, 0xfe, 0x25, 0x01, 0x02, 0x00, 0x1f, 0xff, [15] = 7},
		.destination_ip = {0x3f, 0xfe, 0x25, 0x01, 0x02, 0x00, 0x00, 0x03, [15] = 1},
		.source_port = be16_of(2794),
		.destination_port = be16_of(1766),
	};
}

static struct ibv_rx_hash_conf conf_of(uint64_t fields)
{
	return (struct ibv_rx_hash_conf){IBV_RX_HASH_FUNC_TOEPLITZ, sizeof(key), key, fields};
}

static uint32_t hash(uint64_t fields, struct vb_flow_key frame)
{
	struct vb_rss_table table = {.size = 2};
	const struct ibv_rx_hash_conf conf = conf_of(fields);
	struct vb_rss rss;

	assert_int_equal(vb_rss_parse(&rss, &conf, &table), 0);
	return vb_rss_hash(&rss, &frame);
}

static void chosen_fields_are_hashed(void **state)
{
	const uint64_t all = VB_RSS_FIELDS;
	struct vb_flow_key frame;

	(void)state;
	assert_int_equal(hash(all, ipv4(VB_PROTOCOL_TCP)), 0x51ccc178);
	assert_int_equal(hash(all, ipv4(VB_PROTOCOL_UDP)), 0x51ccc178);
	assert_int_equal(hash(all, ipv6(VB_PROTOCOL_TCP)), 0x40207d3d);
	assert_int_equal(hash(BOTH(IPV4), ipv4(VB_PROTOCOL_TCP)), 0x323e8fc2);
	assert_int_equal(hash(BOTH(IPV6), ipv6(VB_PROTOCOL_UDP)), 0x2cc18cd5);
	/* Ports of the other protocol, addresses of the other version: not this frame's. */
	assert_int_equal(hash(BOTH(IPV4) | BOTH(PORT_TCP), ipv4(VB_PROTOCOL_UDP)), 0x323e8fc2);
	assert_int_equal(hash(BOTH(IPV4) | BOTH(PORT_UDP), ipv4(VB_PROTOCOL_UDP)), 0x51ccc178);
	assert_int_equal(hash(BOTH(IPV6), ipv4(VB_PROTOCOL_TCP)), 0);
	/* One of two: the other has no place. */
	assert_int_equal(hash(IBV_RX_HASH_DST_IPV4, ipv4(VB_PROTOCOL_TCP)), vb_toeplitz(key, (uint8_t[]){161, 142, 100, 80}, 4));
	assert_int_equal(hash(IBV_RX_HASH_SRC_PORT_UDP, ipv6(VB_PROTOCOL_UDP)), vb_toeplitz(key, (uint8_t[]){0x0a, 0xea}, 2));
	/* All fragments of a datagram go the same way. */
	frame = ipv4(VB_PROTOCOL_UDP);
	frame.is_fragment = 1;
	assert_int_equal(hash(all, frame), 0x323e8fc2);
	/* No IP. */
	assert_int_equal(hash(all, (struct vb_flow_key){.ether_type = be16_of(0x88b5)}), 0);
}

static void what_is_refused(void **state)
{
	struct vb_rss_table one = {.size = 1}, two = {.size = 2};
	struct ibv_rx_hash_conf conf = conf_of(0);
	struct vb_rss rss;

	(void)state;
	assert_int_equal(vb_rss_parse(&rss, &conf, &one), 0);
	assert_int_equal(vb_rss_parse(&rss, &conf, &two), -EINVAL);
	conf.rx_hash_fields_mask = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_INNER;
	assert_int_equal(vb_rss_parse(&rss, &conf, &two), -EOPNOTSUPP);
	conf.rx_hash_fields_mask = IBV_RX_HASH_IPSEC_SPI;
	assert_int_equal(vb_rss_parse(&rss, &conf, &two), -EOPNOTSUPP);
	conf = conf_of(BOTH(IPV4));
	conf.rx_hash_function = 0;
	assert_int_equal(vb_rss_parse(&rss, &conf, &two), -EOPNOTSUPP);
	conf = conf_of(BOTH(IPV4));
	conf.rx_hash_key_len--;
	assert_int_equal(vb_rss_parse(&rss, &conf, &two), -EINVAL);
	conf.rx_hash_key_len++;
	conf.rx_hash_key = NULL;
	assert_int_equal(vb_rss_parse(&rss, &conf, &two), -EINVAL);
}

/* A queue pair over four work queues, each with a CQ of its own. */
static struct scaled {
	struct vb_pd pd, receive_pd;
	struct vb_cq cq[QUEUES];
	struct vb_wq wq[QUEUES];
	struct vb_rss_table *table;
	struct vb_qp *qp;
} w;

static int open_scaled(void **state)
{
	const struct ibv_rx_hash_conf conf = conf_of(VB_RSS_FIELDS);
	struct vb_qp_config config = {.type = IBV_QPT_RAW_PACKET, .pd = &w.pd, .qpn = FIXTURE_QPN, .cap = {.max_send_sge = 3}};
	struct vb_wq *entries[QUEUES];
	struct vb_rss rss;

	(void)state;
	memset(&w, 0, sizeof(w));
	memset(&notes, 0, sizeof(notes));
	for (unsigned i = 0; i < QUEUES; i++) {
		const struct vb_wq_config queue = {.pd = &w.receive_pd, .cq = &w.cq[i], .max_wr = 8, .max_sge = 1, .number = 0x100 + i};

		assert_int_equal(vb_cq_init(&w.cq[i], &fixture_host, NULL, CAPACITY), 0);
		assert_int_equal(vb_wq_init(&w.wq[i], &fixture_host, NULL, &queue), 0);
		assert_int_equal(vb_wq_modify(&w.wq[i], IBV_WQS_RDY, FIXTURE_NOW), 0);
		entries[i] = &w.wq[i];
	}
	w.table = vb_rss_table_create(entries, QUEUES);
	assert_non_null(w.table);
	assert_int_equal(vb_rss_parse(&rss, &conf, w.table), 0);
	config.rss = &rss;
	assert_int_equal(vb_qp_create(&config, &fixture_host, &fixture_transport, NULL, &w.qp), 0);
	assert_int_equal(w.table->users, 1);
	return 0;
}

static int close_scaled(void **state)
{
	(void)state;
	vb_qp_destroy(w.qp);
	assert_int_equal(w.table->users, 0);
	assert_int_equal(w.wq[0].receives.users, 1);
	vb_rss_table_destroy(w.table);
	for (unsigned i = 0; i < QUEUES; i++) {
		assert_int_equal(w.wq[i].receives.users, 0);
		vb_wq_fini(&w.wq[i]);
		vb_cq_fini(&w.cq[i]);
		assert_int_equal(w.cq[i].users, 0);
	}
	assert_int_equal(w.pd.users, 0);
	assert_int_equal(w.receive_pd.users, 0);
	return 0;
}

static void post_to(unsigned queue, uint64_t wr_id)
{
	struct ibv_recv_wr wr = {.wr_id = wr_id}, *bad;

	assert_int_equal(vb_wq_post(&w.wq[queue], &wr, &bad, FIXTURE_NOW), 0);
}

static void expect(unsigned queue, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	assert_int_equal(vb_cq_poll(&w.cq[queue], 1, &wc), 1);
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
	assert_int_equal(wc.qp_num, 0x100 + queue);
}

static void the_hash_chooses(void **state)
{
	struct vb_flow_key frame = ipv4(VB_PROTOCOL_TCP), other = {.ether_type = be16_of(0x88b5)};
	struct vb_taken_receive taken;

	(void)state;
	assert_int_equal(w.qp->state, IBV_QPS_RTR);
	post_to(0, 1);
	vb_lock_take(&w.qp->lock);
	/* 0x51ccc178: entry 0. */
	vb_rss_choose(w.qp, &frame);
	assert_ptr_equal(w.qp->srq, &w.wq[0].receives);
	assert_ptr_equal(w.qp->recv_cq, &w.cq[0]);
	assert_ptr_equal(w.qp->receive_pd, &w.receive_pd);
	assert_int_equal(vb_qp_receive_number(w.qp), 0x100);
	assert_true(vb_qp_take_receive(w.qp, &taken));
	assert_int_equal(taken.wr_id, 1);
	/* 0x323e8fc2: entry 2. */
	frame.is_fragment = 1;
	vb_rss_choose(w.qp, &frame);
	assert_ptr_equal(w.qp->srq, &w.wq[2].receives);
	assert_false(vb_qp_take_receive(w.qp, &taken));
	vb_rss_choose(w.qp, &other);
	assert_ptr_equal(w.qp->srq, &w.wq[0].receives);
	vb_lock_release(&w.qp->lock);
}

/* Whichever of those that have receives is meant, it has one for each of so many frames. */
static void room_is_that_of_the_shortest(void **state)
{
	(void)state;
	assert_int_equal(vb_rss_room(w.qp->rss), 0);
	for (unsigned i = 0; i < 5; i++)
		post_to(1, i);
	assert_int_equal(vb_rss_room(w.qp->rss), 5);
	post_to(2, 1);
	post_to(2, 2);
	assert_int_equal(vb_rss_room(w.qp->rss), 2);
}

static void a_queue_may_have_many_entries(void **state)
{
	struct vb_wq *entries[] = {&w.wq[1], &w.wq[1], &w.wq[3], &w.wq[1]};
	struct vb_rss_table *table = vb_rss_table_create(entries, 4);

	(void)state;
	assert_int_equal(table->queues, 2);
	assert_int_equal(w.wq[1].receives.users, 4);
	assert_int_equal(w.wq[3].receives.users, 2);
	vb_rss_table_destroy(table);
}

/* A receive that cannot be written to fails its own work queue, not the others, nor the queue pair. */
static void one_fails_alone(void **state)
{
	const struct vb_fault_record why = {.fault = VB_FAULT_LOCAL_LENGTH};
	struct vb_flow_key frame = ipv4(VB_PROTOCOL_TCP);
	struct vb_taken_receive taken;

	(void)state;
	post_to(0, 1);
	post_to(0, 2);
	post_to(1, 3);
	vb_lock_take(&w.qp->lock);
	vb_rss_choose(w.qp, &frame);
	assert_true(vb_qp_take_receive(w.qp, &taken));
	vb_qp_fail_receive(w.qp, &taken, IBV_WC_LOC_PROT_ERR, &why, IBV_EVENT_QP_REQ_ERR, false, FIXTURE_NOW);
	vb_lock_release(&w.qp->lock);
	expect(0, 1, IBV_WC_LOC_PROT_ERR);
	expect(0, 2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(notes.events, 1);
	assert_int_equal(notes.event[0], IBV_EVENT_WQ_FATAL);
	assert_int_equal(vb_wq_state(&w.wq[0]), IBV_WQS_ERR);
	assert_int_equal(vb_wq_state(&w.wq[1]), IBV_WQS_RDY);
	assert_int_equal(w.qp->state, IBV_QPS_RTR);
	assert_true(vb_cq_looks_empty(&w.cq[1]));
}

/* So with a CQ that has no room. */
static void an_overrun_fails_its_queue(void **state)
{
	struct vb_flow_key frame = ipv4(VB_PROTOCOL_TCP);
	struct vb_completion completion = {.status = IBV_WC_SUCCESS, .opcode = IBV_WC_RECV, .qpn = 0x100};

	(void)state;
	vb_lock_take(&w.qp->lock);
	vb_rss_choose(w.qp, &frame);
	for (unsigned i = 0; i <= CAPACITY; i++)
		vb_qp_complete_receive(w.qp, &completion);
	vb_lock_release(&w.qp->lock);
	assert_int_equal(notes.events, 2);
	assert_int_equal(notes.event[0], IBV_EVENT_CQ_ERR);
	assert_int_equal(notes.event[1], IBV_EVENT_WQ_FATAL);
	assert_int_equal(vb_wq_state(&w.wq[0]), IBV_WQS_ERR);
	assert_int_equal(w.qp->state, IBV_QPS_RTR);
}

static void it_has_no_queues(void **state)
{
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND}, *bad_send;
	struct ibv_recv_wr receive = {.wr_id = 1}, *bad_receive;
	struct vb_qp_config config = {.type = IBV_QPT_RAW_PACKET, .pd = &w.pd, .rss = w.qp->rss, .send_cq = &w.cq[0]};
	struct vb_qp *other;

	(void)state;
	vb_lock_take(&w.qp->lock);
	assert_int_equal(vb_qp_post_send(w.qp, &send, &bad_send, FIXTURE_NOW), EINVAL);
	assert_int_equal(vb_qp_post_receive(w.qp, &receive, &bad_receive, FIXTURE_NOW), EINVAL);
	vb_lock_release(&w.qp->lock);
	assert_int_equal(vb_qp_create(&config, &fixture_host, &fixture_transport, NULL, &other), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chosen_fields_are_hashed),
		cmocka_unit_test(what_is_refused),
		cmocka_unit_test_setup_teardown(the_hash_chooses, open_scaled, close_scaled),
		cmocka_unit_test_setup_teardown(room_is_that_of_the_shortest, open_scaled, close_scaled),
		cmocka_unit_test_setup_teardown(a_queue_may_have_many_entries, open_scaled, close_scaled),
		cmocka_unit_test_setup_teardown(one_fails_alone, open_scaled, close_scaled),
		cmocka_unit_test_setup_teardown(an_overrun_fails_its_queue, open_scaled, close_scaled),
		cmocka_unit_test_setup_teardown(it_has_no_queues, open_scaled, close_scaled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
