/* SPDX-License-Identifier: MIT
 *
 * XRC (IBA annex A14): one queue pair on each side, and shared receive queues of several protection domains behind the receiving one. What
 * each request reaches is decided by the SRQ it names.
 */
#include "roce/engine.h"
#include "sim/testing.h"

enum { SRQS = 3, MEMORY = 1 << 16, DEPTH = 64, FIRST_NUMBER = 0x100 };

/* SRQs 0 and 1 are of one XRC domain and of two protection domains, SRQ 2 is of another XRC domain. */
struct world {
	struct sim *sim;
	struct sim_host *a, *b;
	struct vb_cq *a_cq, *cq[SRQS];
	struct vb_xrc_domain domain[2];
	struct vb_pd pd[SRQS];
	struct vb_srq *srq[SRQS];
	struct vb_qp *sender, *receiver;
	struct sim_region a_memory;
	uint8_t *bytes[SRQS];
	uint32_t key[SRQS];
};

static void open_world(struct world *w, uint64_t seed)
{
	memset(w, 0, sizeof(*w));
	w->sim = sim_create(seed);
	w->a = sim_host_add(w->sim, seed & 1);
	w->b = sim_host_add(w->sim, seed & 1);
	w->a_cq = sim_cq(w->a, 4096);
	w->a_memory = sim_region(w->a, MEMORY, SIM_ALL_ACCESS);
	for (unsigned i = 0; i < 2; i++)
		vb_xrc_domain_init(&w->domain[i]);
	for (unsigned i = 0; i < SRQS; i++) {
		struct ibv_srq_attr attr = {.max_wr = DEPTH, .max_sge = 1};
		struct vb_region_info info = {.kind = VB_REGION_MR, .pd = &w->pd[i], .length = MEMORY, .access = SIM_ALL_ACCESS};

		w->cq[i] = sim_cq(w->b, 256);
		w->pd[i].handle = 10 + i;
		w->srq[i] = calloc(1, sizeof(struct vb_srq));
		assert_int_equal(vb_srq_init(w->srq[i], &w->b->queue_host, NULL, &w->pd[i], &attr), 0);
		vb_xrc_add_srq(&w->domain[i / 2], w->srq[i], w->cq[i], FIRST_NUMBER + i);
		w->bytes[i] = aligned_alloc(64, MEMORY);
		memset(w->bytes[i], 0, MEMORY);
		info.start = info.iova = (uintptr_t)w->bytes[i];
		assert_int_equal(vb_region_register(w->b->memory, &info, &w->key[i]), 0);
	}
	w->sender = sim_qp(w->a, IBV_QPT_XRC_SEND, w->a_cq, NULL, NULL);
	w->receiver = sim_xrc_receiver(w->b, &w->domain[0]);
	sim_connect(w->sender, w->receiver, &sim_usual);
}

static void drop_srq(struct world *w, unsigned i)
{
	vb_xrc_remove_srq(w->srq[i]);
	vb_srq_fini(w->srq[i]);
	free(w->srq[i]);
	w->srq[i] = NULL;
}

static void close_world(struct world *w)
{
	sim_qp_free(w->sender);
	sim_qp_free(w->receiver);
	for (unsigned i = 0; i < SRQS; i++) {
		if (w->srq[i])
			drop_srq(w, i);
		assert_int_equal(w->cq[i]->users, 0);
		sim_cq_free(w->cq[i]);
		vb_region_deregister(w->b->memory, w->key[i]);
		free(w->bytes[i]);
	}
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(w->domain[i].users, 0);
		vb_xrc_domain_fini(&w->domain[i]);
	}
	sim_region_free(&w->a_memory);
	sim_cq_free(w->a_cq);
	sim_destroy(w->sim);
}

static void post_receive(struct world *w, unsigned i, uint32_t offset, uint32_t length, uint64_t wr_id)
{
	struct ibv_sge sge = {(uintptr_t)w->bytes[i] + offset, length, w->key[i]};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(vb_srq_post(w->srq[i], &wr, &bad), 0);
}

/* To SRQ number FIRST_NUMBER + `to`, with a range of the memory of `of`. */
static void post(struct world *w, enum ibv_wr_opcode opcode, unsigned to, unsigned of, uint32_t offset, uint32_t length, uint64_t wr_id)
{
	struct ibv_sge sge = {(uintptr_t)w->a_memory.bytes + offset, length, w->a_memory.key};
	struct ibv_send_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED,
				 .imm_data = htobe32(0xc0ffee00)};

	wr.qp_type.xrc.remote_srqn = FIRST_NUMBER + to;
	if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)w->bytes[of] + offset;
		wr.wr.atomic.rkey = w->key[of];
		wr.wr.atomic.compare_add = 5;
		wr.wr.atomic.swap = 9;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)w->bytes[of] + offset;
		wr.wr.rdma.rkey = w->key[of];
	}
	assert_int_equal(sim_post_send(w->sender, &wr), 0);
}

static void fill(struct world *w)
{
	for (size_t i = 0; i < MEMORY; i++)
		w->a_memory.bytes[i] = (uint8_t)sim_random(w->sim);
}

static void expect_receive(struct world *w, unsigned i, uint64_t wr_id, enum ibv_wc_opcode opcode, uint32_t length)
{
	struct ibv_wc wc;

	assert_true(sim_poll(w->cq[i], &wc));
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.opcode, opcode);
	assert_int_equal(wc.byte_len, length);
	assert_int_equal(wc.qp_num, w->receiver->qpn);
	assert_int_equal(wc.src_qp, w->sender->qpn);
}

/* Every operation, of one packet and of many, to two SRQs in turn. */
static void exchange(struct world *w)
{
	const uint32_t lengths[] = {1, 1024, 5000, 20000};
	struct ibv_wc wc;
	uint64_t word;

	fill(w);
	for (unsigned n = 0; n < 4; n++) {
		uint32_t length = lengths[n];

		for (unsigned i = 0; i < 2; i++) {
			post_receive(w, i, 0, MEMORY, 100 + i);
			post_receive(w, i, 0, 0, 200 + i);
			post(w, IBV_WR_SEND_WITH_IMM, i, i, 0, length, 1);
			post(w, IBV_WR_RDMA_WRITE, i, i, 20480, length, 2);
			post(w, IBV_WR_RDMA_WRITE_WITH_IMM, i, i, 20480, length, 3);
		}
		sim_run(w->sim);
		for (unsigned i = 0; i < 2; i++) {
			for (uint64_t id = 1; id <= 3; id++)
				expect_send(w->a_cq, id, IBV_WC_SUCCESS);
			expect_receive(w, i, 100 + i, IBV_WC_RECV, length);
			expect_receive(w, i, 200 + i, IBV_WC_RECV_RDMA_WITH_IMM, length);
			assert_memory_equal(w->bytes[i], w->a_memory.bytes, length);
			assert_memory_equal(w->bytes[i] + 20480, w->a_memory.bytes + 20480, length);
		}
		for (unsigned i = 0; i < 2; i++) {
			memset(w->a_memory.bytes, 0, length);
			word = 5;
			memcpy(w->bytes[i] + 60000, &word, 8);
			post(w, IBV_WR_RDMA_READ, i, i, 0, length, 4);
			post(w, IBV_WR_ATOMIC_CMP_AND_SWP, i, i, 60000, 8, 5);
			post(w, IBV_WR_ATOMIC_FETCH_AND_ADD, i, i, 60000, 8, 6);
			sim_run(w->sim);
			for (uint64_t id = 4; id <= 6; id++)
				expect_send(w->a_cq, id, IBV_WC_SUCCESS);
			assert_memory_equal(w->a_memory.bytes, w->bytes[i], length);
			memcpy(&word, w->bytes[i] + 60000, 8);
			assert_true(word == 9 + 5);
			memcpy(&word, w->a_memory.bytes + 60000, 8);
			assert_true(word == 9);
		}
	}
	assert_false(sim_poll(w->a_cq, &wc) || sim_poll(w->cq[0], &wc) || sim_poll(w->cq[1], &wc) || sim_poll(w->cq[2], &wc));
}

static void all_operations(void **state)
{
	struct world w;

	(void)state;
	for (uint64_t seed = 1; seed <= 2; seed++) {
		open_world(&w, seed);
		exchange(&w);
		close_world(&w);
	}
}

static void all_operations_over_a_bad_network(void **state)
{
	struct world w;

	(void)state;
	for (uint64_t seed = 10; seed < 30; seed++) {
		open_world(&w, seed);
		w.sim->network.loss = w.sim->network.duplication = w.sim->network.corruption = 20000;
		w.sim->network.reorder = 30000;
		w.sim->network.reorder_delay = VB_MICROSECONDS(50);
		exchange(&w);
		close_world(&w);
	}
}

/* Reads of two domains under way at once: each is answered from its own. */
static void reads_of_two_domains_at_once(void **state)
{
	struct world w;

	(void)state;
	open_world(&w, 1);
	memset(w.bytes[0], 0xaa, MEMORY);
	memset(w.bytes[1], 0xbb, MEMORY);
	for (unsigned i = 0; i < 6; i++)
		post(&w, IBV_WR_RDMA_READ, i % 2, i % 2, i * 8192, 8192, i);
	sim_run(w.sim);
	for (unsigned i = 0; i < 6; i++) {
		expect_send(w.a_cq, i, IBV_WC_SUCCESS);
		assert_memory_equal(w.a_memory.bytes + i * 8192, w.bytes[i % 2], 8192);
	}
	close_world(&w);
}

/* The request is refused, and both ends are at theirs. */
static void expect_refused(struct world *w, enum ibv_wc_status status, enum vb_fault fault, enum ibv_event_type event)
{
	sim_run(w->sim);
	expect_send(w->a_cq, 7, status);
	assert_int_equal(w->sender->state, IBV_QPS_ERR);
	assert_int_equal(w->receiver->state, IBV_QPS_ERR);
	assert_int_equal(w->receiver->fault.fault, fault);
	assert_true(sim_host_was_told(w->b, event));
	assert_false(sim_host_was_told(w->b, IBV_EVENT_QP_LAST_WQE_REACHED));
}

static void unknown_srq(void **state)
{
	struct world w;

	(void)state;
	open_world(&w, 1);
	post(&w, IBV_WR_SEND, 0x777, 0, 0, 64, 7);
	expect_refused(&w, IBV_WC_REM_INV_REQ_ERR, VB_FAULT_XRC_SRQ, IBV_EVENT_QP_REQ_ERR);
	assert_int_equal(w.receiver->fault.key, FIRST_NUMBER + 0x777);
	close_world(&w);
}

/* It exists, and has a receive, but not for this queue pair: no operation reaches it, nor its memory. */
static void srq_of_another_domain(void **state)
{
	const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD};
	struct ibv_wc wc;
	struct world w;

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		open_world(&w, 1);
		fill(&w);
		post_receive(&w, 2, 0, MEMORY, 1);
		post(&w, opcodes[i], 2, 2, 0, 8, 7);
		expect_refused(&w, IBV_WC_REM_INV_REQ_ERR, VB_FAULT_XRC_SRQ, IBV_EVENT_QP_REQ_ERR);
		assert_false(sim_poll(w.cq[2], &wc));
		assert_int_equal(vb_receive_queue_count(&w.srq[2]->queue), 1);
		for (unsigned at = 0; at < 8; at++)
			assert_int_equal(w.bytes[2][at], 0);
		close_world(&w);
	}
}

/* The domain that counts is the SRQ's. */
static void region_of_another_protection_domain(void **state)
{
	const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD};
	struct world w;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		open_world(&w, 1);
		post(&w, opcodes[i], 0, 1, 0, 8, 7);
		expect_refused(&w, IBV_WC_REM_ACCESS_ERR, VB_FAULT_PD_MISMATCH, IBV_EVENT_QP_ACCESS_ERR);
		close_world(&w);
	}
}

/* So is that of a receive: its region must be of the SRQ's domain. */
static void receive_with_a_key_of_another_domain(void **state)
{
	struct ibv_sge sge;
	struct ibv_recv_wr wr = {.wr_id = 3, .sg_list = &sge, .num_sge = 1}, *bad;
	struct ibv_wc wc;
	struct world w;

	(void)state;
	open_world(&w, 1);
	sge = (struct ibv_sge){(uintptr_t)w.bytes[1], 64, w.key[1]};
	assert_int_equal(vb_srq_post(w.srq[0], &wr, &bad), 0);
	post(&w, IBV_WR_SEND, 0, 0, 0, 64, 7);
	sim_run(w.sim);
	expect_send(w.a_cq, 7, IBV_WC_REM_OP_ERR);
	assert_true(sim_poll(w.cq[0], &wc));
	assert_int_equal(wc.status, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(wc.wr_id, 3);
	close_world(&w);
}

/* Only the first packet of a message, or none of an answer, gets through. */
static bool hold_back(void *context, const struct vb_roce_packet *packet)
{
	(void)context;
	return vb_position_is_start(packet->op->position) && packet->op->kind != VB_KIND_READ_RESPONSE;
}

/* One message has one SRQ: a packet in its middle that names another of the domain is refused. */
static void message_that_changes_its_srq(void **state)
{
	static uint8_t payload[1024];
	struct vb_roce_packet packet = {.opcode = 0xa1, .op = vb_roce_opcode(0xa1), .pkey = 0xffff, .payload = payload,
					.srqn = FIRST_NUMBER + 1};
	struct ibv_wc wc;
	struct world w;

	(void)state;
	open_world(&w, 1);
	post_receive(&w, 0, 0, MEMORY, 1);
	post_receive(&w, 1, 0, MEMORY, 2);
	post(&w, IBV_WR_SEND, 0, 0, 0, 5000, 7);
	w.sim->network.filter = hold_back;
	while (vb_roce_engine(w.receiver)->responder.received == 0)
		sim_run_to(w.sim, w.sim->now + VB_MICROSECONDS(1));
	w.sim->network.filter = NULL;
	packet.psn = vb_roce_engine(w.receiver)->responder.expected;
	packet.destination_qpn = w.receiver->qpn;
	packet.payload_length = vb_roce_engine(w.receiver)->mtu;
	assert_true(packet.payload_length <= sizeof(payload));
	sim_inject(w.receiver, &packet);
	sim_run(w.sim);
	expect_send(w.a_cq, 7, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(w.receiver->fault.fault, VB_FAULT_XRC_SRQ);
	/* The receive of the message that had begun says so, and no event does. */
	assert_false(sim_host_was_told(w.b, IBV_EVENT_QP_REQ_ERR));
	assert_true(sim_poll(w.cq[0], &wc));
	assert_int_equal(wc.status, IBV_WC_LOC_QP_OP_ERR);
	assert_false(sim_poll(w.cq[1], &wc));
	close_world(&w);
}

static void receiver_not_ready(void **state)
{
	struct world w;

	(void)state;
	open_world(&w, 1);
	fill(&w);
	/* The other one's receives do not help. */
	post_receive(&w, 1, 0, MEMORY, 1);
	post(&w, IBV_WR_SEND, 0, 0, 0, 3000, 7);
	sim_run_to(w.sim, w.sim->now + VB_MICROSECONDS(50));
	assert_true(w.b->counters.send_rnr_err > 0);
	post_receive(&w, 0, 0, MEMORY, 2);
	sim_run(w.sim);
	expect_send(w.a_cq, 7, IBV_WC_SUCCESS);
	expect_receive(&w, 0, 2, IBV_WC_RECV, 3000);
	assert_memory_equal(w.bytes[0], w.a_memory.bytes, 3000);
	close_world(&w);
}

/* Destroyed under a message: the rest of it names nothing, and no completion goes to a queue that may be gone. */
static void srq_goes_under_a_message(void **state)
{
	struct ibv_wc wc;
	struct world w;

	(void)state;
	open_world(&w, 1);
	post_receive(&w, 0, 0, MEMORY, 1);
	post(&w, IBV_WR_SEND, 0, 0, 0, 60000, 7);
	w.sim->network.filter = hold_back;
	while (vb_roce_engine(w.receiver)->responder.received == 0)
		sim_run_to(w.sim, w.sim->now + VB_MICROSECONDS(1));
	w.sim->network.filter = NULL;
	drop_srq(&w, 0);
	expect_refused(&w, IBV_WC_REM_INV_REQ_ERR, VB_FAULT_XRC_SRQ, IBV_EVENT_QP_REQ_ERR);
	assert_false(sim_poll(w.cq[0], &wc));
	close_world(&w);
}

/* A read that was accepted is not answered again from a domain that may be gone. */
static void srq_goes_under_a_read(void **state)
{
	struct world w;

	(void)state;
	open_world(&w, 1);
	post(&w, IBV_WR_RDMA_READ, 0, 0, 0, 60000, 7);
	w.sim->network.filter = hold_back;
	while (vb_roce_engine(w.receiver)->responder.resource_count == 0)
		sim_run_to(w.sim, w.sim->now + VB_MICROSECONDS(1));
	w.sim->network.filter = NULL;
	drop_srq(&w, 0);
	sim_run(w.sim);
	expect_send(w.a_cq, 7, IBV_WC_RETRY_EXC_ERR);
	close_world(&w);
}

static void what_cannot_be_posted(void **state)
{
	struct ibv_recv_wr receive = {.wr_id = 1}, *bad_receive;
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND};
	struct world w;

	(void)state;
	open_world(&w, 1);
	assert_int_equal(sim_post_send(w.receiver, &send), EINVAL);
	send.qp_type.xrc.remote_srqn = 1 << 24;
	assert_int_equal(sim_post_send(w.sender, &send), EINVAL);
	for (unsigned i = 0; i < 2; i++) {
		struct vb_qp *qp = i == 0 ? w.sender : w.receiver;

		vb_lock_take(&qp->lock);
		assert_int_equal(vb_qp_post_receive(qp, &receive, &bad_receive, 0), EINVAL);
		vb_lock_release(&qp->lock);
	}
	close_world(&w);
}

/* A requester takes no requests, a responder no answers, and neither takes packets of RC. */
static void packets_of_the_wrong_role_are_dropped(void **state)
{
	const uint8_t to_sender[] = {0xa4, 0xac, 0x11, 0x04}, to_receiver[] = {0xb1, 0x04, 0x11, 0xb0};
	struct world w;

	(void)state;
	open_world(&w, 1);
	post_receive(&w, 0, 0, MEMORY, 1);
	for (unsigned i = 0; i < 8; i++) {
		uint8_t opcode = i < 4 ? to_sender[i] : to_receiver[i - 4];
		struct vb_qp *qp = i < 4 ? w.sender : w.receiver;
		struct vb_roce_packet packet = {.opcode = opcode, .op = vb_roce_opcode(opcode), .pkey = 0xffff,
						.psn = vb_roce_engine(qp)->responder.expected, .srqn = FIRST_NUMBER,
						.destination_qpn = qp->qpn};
		uint64_t before = (i < 4 ? w.a : w.b)->counters.dropped_pkts;

		sim_inject(qp, &packet);
		sim_run(w.sim);
		assert_int_equal((i < 4 ? w.a : w.b)->counters.dropped_pkts, before + 1);
		assert_int_equal(qp->state, IBV_QPS_RTS);
	}
	assert_int_equal(vb_receive_queue_count(&w.srq[0]->queue), 1);
	close_world(&w);
}

static void reset_forgets_the_srq(void **state)
{
	struct world w;

	(void)state;
	open_world(&w, 1);
	post(&w, IBV_WR_RDMA_WRITE, 1, 1, 0, 64, 7);
	sim_run(w.sim);
	expect_send(w.a_cq, 7, IBV_WC_SUCCESS);
	assert_ptr_equal(w.receiver->srq, w.srq[1]);
	assert_int_equal(sim_modify_state(w.receiver, IBV_QPS_RESET), 0);
	assert_null(w.receiver->srq);
	assert_null(w.receiver->pd);
	close_world(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_operations),
		cmocka_unit_test(all_operations_over_a_bad_network),
		cmocka_unit_test(reads_of_two_domains_at_once),
		cmocka_unit_test(unknown_srq),
		cmocka_unit_test(srq_of_another_domain),
		cmocka_unit_test(region_of_another_protection_domain),
		cmocka_unit_test(receive_with_a_key_of_another_domain),
		cmocka_unit_test(message_that_changes_its_srq),
		cmocka_unit_test(receiver_not_ready),
		cmocka_unit_test(srq_goes_under_a_message),
		cmocka_unit_test(srq_goes_under_a_read),
		cmocka_unit_test(what_cannot_be_posted),
		cmocka_unit_test(packets_of_the_wrong_role_are_dropped),
		cmocka_unit_test(reset_forgets_the_srq),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
