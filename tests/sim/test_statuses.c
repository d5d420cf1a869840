/* SPDX-License-Identifier: MIT
 *
 * Every completion status that a queue pair can end with, provoked the way applications provoke it, with what both
 * sides see: status, state, asynchronous event and the evidence of the fault.
 */
#include <sys/mman.h>

#include "profiles/limits.h"
#include "roce/engine.h"
#include "sim/testing.h"

#define FLOOR VB_MILLISECONDS(4)

static void expect_states(struct pair *pair, enum ibv_qp_state a, enum ibv_qp_state b)
{
	assert_int_equal(pair->a->state, a);
	assert_int_equal(pair->b->state, b);
}

static void local_protection_error_of_a_send(void **state)
{
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.wr_id = 3, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED};

	(void)state;
	pair_open(&pair, 1, false, &sim_usual, 4096);
	sge = (struct ibv_sge){(uintptr_t)pair.a_memory.bytes, 64, pair.a_memory.key ^ 0x5a00};
	/* What was posted before is done first, what was posted after is flushed. */
	pair_post(&pair, IBV_WR_RDMA_WRITE, 3000, 1);
	pair_post(&pair, IBV_WR_RDMA_READ, 3000, 2);
	assert_int_equal(sim_post_send(pair.a, &wr), 0);
	pair_post(&pair, IBV_WR_RDMA_WRITE, 64, 4);
	sim_run(pair.sim);
	expect_send(pair.a_cq, 1, IBV_WC_SUCCESS);
	expect_send(pair.a_cq, 2, IBV_WC_SUCCESS);
	expect_send(pair.a_cq, 3, IBV_WC_LOC_PROT_ERR);
	expect_send(pair.a_cq, 4, IBV_WC_WR_FLUSH_ERR);
	expect_states(&pair, IBV_QPS_ERR, IBV_QPS_RTS);
	assert_int_equal(pair.a->fault.fault, VB_FAULT_KEY_UNKNOWN);
	assert_int_equal(pair.a->fault.wr_id, 3);
	assert_int_equal(pair.a->fault.key, sge.lkey);
	assert_false(pair.a->fault.remote);
	pair_close(&pair);
}

/* Deregistered and unmapped under way: what is left of it cannot be sent. */
static void local_protection_error_of_what_goes_away(void **state)
{
	const size_t length = 1 << 20;
	uint8_t *bytes = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct vb_region_info info = {.kind = VB_REGION_MR, .start = (uintptr_t)bytes, .length = length, .iova = (uintptr_t)bytes};
	struct ibv_sge list[2];
	struct ibv_send_wr wr = {.wr_id = 1, .sg_list = list, .num_sge = 2, .opcode = IBV_WR_SEND};
	struct pair pair;
	uint32_t key;

	(void)state;
	assert_ptr_not_equal(bytes, MAP_FAILED);
	pair_open(&pair, 1, false, &sim_usual, length);
	info.pd = &pair.hosts[0]->pd;
	assert_int_equal(vb_region_register(pair.hosts[0]->memory, &info, &key), 0);
	/* Packets that lie in both elements, and many that do not. */
	list[0] = (struct ibv_sge){(uintptr_t)bytes, 300, key};
	list[1] = (struct ibv_sge){(uintptr_t)bytes + 300, (uint32_t)length - 300, key};
	assert_int_equal(sim_post_receive(pair.b, pair.b_memory.bytes, (uint32_t)length, pair.b_memory.key, 7), 0);
	assert_int_equal(sim_post_send(pair.a, &wr), 0);
	for (unsigned i = 0; vb_roce_engine(pair.b)->responder.received == 0; i++) {
		assert_true(i < 1000);
		sim_run_to(pair.sim, pair.sim->now + VB_MICROSECONDS(10));
	}
	assert_true(vb_roce_engine(pair.b)->responder.received < length / 2);
	assert_int_equal(vb_region_deregister(pair.hosts[0]->memory, key), 0);
	munmap(bytes, length);
	sim_run(pair.sim);
	expect_send(pair.a_cq, 1, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(pair.a->fault.fault, VB_FAULT_KEY_UNKNOWN);
	assert_int_equal(pair.a->fault.key, key);
	pair_close(&pair);
}

static void local_protection_error_of_a_read_target(void **state)
{
	struct pair pair;
	struct sim_region readonly;
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ};

	(void)state;
	pair_open(&pair, 1, false, &sim_usual, 4096);
	readonly = sim_region(pair.hosts[0], 4096, 0);
	sge = (struct ibv_sge){(uintptr_t)readonly.bytes, 64, readonly.key};
	wr.wr.rdma.remote_addr = (uintptr_t)pair.b_memory.bytes;
	wr.wr.rdma.rkey = pair.b_memory.key;
	assert_int_equal(sim_post_send(pair.a, &wr), 0);
	sim_run(pair.sim);
	expect_send(pair.a_cq, 1, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(pair.a->fault.fault, VB_FAULT_RIGHTS);
	assert_int_equal(pair.a->fault.rights_asked, IBV_ACCESS_LOCAL_WRITE);
	sim_region_free(&readonly);
	pair_close(&pair);
}

static void local_protection_error_of_a_receive(void **state)
{
	struct pair pair;
	struct ibv_wc wc;

	(void)state;
	pair_open(&pair, 1, false, &sim_usual, 4096);
	assert_int_equal(sim_post_receive(pair.b, pair.b_memory.bytes, 4096, pair.b_memory.key + 1, 9), 0);
	assert_int_equal(sim_post_receive(pair.b, pair.b_memory.bytes, 4096, pair.b_memory.key, 10), 0);
	pair_post(&pair, IBV_WR_SEND, 100, 1);
	sim_run(pair.sim);
	expect_send(pair.a_cq, 1, IBV_WC_REM_OP_ERR);
	expect_send(pair.b_cq, 9, IBV_WC_LOC_PROT_ERR);
	expect_send(pair.b_cq, 10, IBV_WC_WR_FLUSH_ERR);
	expect_states(&pair, IBV_QPS_ERR, IBV_QPS_ERR);
	assert_int_equal(pair.a->fault.fault, VB_FAULT_REMOTE_OPERATION);
	assert_true(pair.a->fault.remote);
	assert_int_equal(pair.a->fault.syndrome, 0x63);
	assert_false(sim_poll(pair.b_cq, &wc));
	pair_close(&pair);
}

static void local_length_error_of_a_receive(void **state)
{
	struct pair pair;

	(void)state;
	for (uint32_t length = 101; length < 5000; length += 1400) {
		pair_open(&pair, 1, false, &sim_usual, 8192);
		assert_int_equal(sim_post_receive(pair.b, pair.b_memory.bytes, 100, pair.b_memory.key, 9), 0);
		pair_post(&pair, IBV_WR_SEND, length, 1);
		sim_run(pair.sim);
		expect_send(pair.a_cq, 1, IBV_WC_REM_INV_REQ_ERR);
		expect_send(pair.b_cq, 9, IBV_WC_LOC_LEN_ERR);
		expect_states(&pair, IBV_QPS_ERR, IBV_QPS_ERR);
		assert_int_equal(pair.b->fault.fault, VB_FAULT_LOCAL_LENGTH);
		assert_int_equal(pair.b->fault.wr_id, 9);
		assert_int_equal(pair.b_memory.bytes[100], 0);
		pair_close(&pair);
	}
}

static void local_qp_operation_error(void **state)
{
	struct sim_connection connection = sim_usual;
	struct pair pair;

	(void)state;
	/* No read may ever be outstanding: there is no way to do one. */
	connection.rd_atomic_b = 0;
	pair_open(&pair, 1, false, &connection, 4096);
	pair_post(&pair, IBV_WR_RDMA_READ, 100, 1);
	sim_run(pair.sim);
	expect_send(pair.a_cq, 1, IBV_WC_LOC_QP_OP_ERR);
	pair_close(&pair);
}

static void remote_access_errors(void **state)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		unsigned access;
		int64_t offset;
		uint32_t length, key_change;
		enum vb_fault fault;
	} cases[] = {
		{IBV_WR_RDMA_WRITE, SIM_ALL_ACCESS, 0, 100, 0x0100, VB_FAULT_KEY_UNKNOWN},
		{IBV_WR_RDMA_WRITE, SIM_ALL_ACCESS, 8192 - 99, 100, 0, VB_FAULT_RANGE},
		{IBV_WR_RDMA_WRITE, SIM_ALL_ACCESS, -1, 100, 0, VB_FAULT_RANGE},
		{IBV_WR_RDMA_WRITE, SIM_ALL_ACCESS, 0, 8193, 0, VB_FAULT_RANGE},
		{IBV_WR_RDMA_WRITE, IBV_ACCESS_REMOTE_READ, 0, 100, 0, VB_FAULT_RIGHTS},
		{IBV_WR_RDMA_READ, SIM_ALL_ACCESS, 0, 100, 0x0100, VB_FAULT_KEY_UNKNOWN},
		{IBV_WR_RDMA_READ, SIM_ALL_ACCESS, 8000, 8192, 0, VB_FAULT_RANGE},
		{IBV_WR_RDMA_READ, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, 0, 100, 0, VB_FAULT_RIGHTS},
		{IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, 0, 8, 0,
		 VB_FAULT_RIGHTS},
		{IBV_WR_ATOMIC_CMP_AND_SWP, SIM_ALL_ACCESS, 8192, 8, 0, VB_FAULT_RANGE},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr = {.wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = cases[i].opcode};
		struct sim_region target;
		struct pair pair;

		pair_open(&pair, i, i % 2, &sim_usual, 16384);
		target = sim_region(pair.hosts[1], 8192, cases[i].access);
		sge = (struct ibv_sge){(uintptr_t)pair.a_memory.bytes, cases[i].length, pair.a_memory.key};
		if (cases[i].opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || cases[i].opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
			wr.wr.atomic.remote_addr = (uintptr_t)target.bytes + (uint64_t)cases[i].offset;
			wr.wr.atomic.rkey = target.key ^ cases[i].key_change;
		} else {
			wr.wr.rdma.remote_addr = (uintptr_t)target.bytes + (uint64_t)cases[i].offset;
			wr.wr.rdma.rkey = target.key ^ cases[i].key_change;
		}
		memset(pair.a_memory.bytes, 0xab, 16384);
		/* A read before it is answered before the NAK. */
		pair_post_at(&pair, IBV_WR_RDMA_READ, 0, 0, 5000, 1);
		assert_int_equal(sim_post_send(pair.a, &wr), 0);
		sim_run(pair.sim);
		expect_send(pair.a_cq, 1, IBV_WC_SUCCESS);
		expect_send(pair.a_cq, 2, IBV_WC_REM_ACCESS_ERR);
		expect_states(&pair, IBV_QPS_ERR, IBV_QPS_ERR);
		assert_true(sim_host_was_told(pair.hosts[1], IBV_EVENT_QP_ACCESS_ERR));
		assert_int_equal(pair.b->fault.fault, cases[i].fault);
		assert_int_equal(pair.b->fault.key, target.key ^ cases[i].key_change);
		assert_int_equal(pair.a->fault.syndrome, 0x62);
		for (unsigned k = 0; k < 8192; k++)
			assert_int_equal(target.bytes[k], 0);
		sim_region_free(&target);
		pair_close(&pair);
	}
}

static void remote_invalid_request_without_the_right(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD};

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct sim_connection connection = sim_usual;
		struct pair pair;

		connection.access = IBV_ACCESS_LOCAL_WRITE;
		pair_open(&pair, 1, false, &connection, 4096);
		if (i == 2)
			pair_post_atomic(&pair, opcodes[i], 1, 0, 1);
		else
			pair_post(&pair, opcodes[i], 100, 1);
		sim_run(pair.sim);
		expect_send(pair.a_cq, 1, IBV_WC_REM_INV_REQ_ERR);
		assert_true(sim_host_was_told(pair.hosts[1], IBV_EVENT_QP_REQ_ERR));
		assert_int_equal(pair.b->fault.fault, VB_FAULT_QP_RIGHTS);
		expect_states(&pair, IBV_QPS_ERR, IBV_QPS_ERR);
		pair_close(&pair);
	}
}

/* A requester with more reads outstanding than the responder has resources for. */
static void remote_invalid_request_for_too_many_reads(void **state)
{
	struct sim_connection connection = sim_usual;
	struct pair pair;

	(void)state;
	pair_make(&pair, 1, false, IBV_QPT_RC, 1 << 20);
	sim_to_init(pair.a, SIM_ALL_ACCESS & ~IBV_ACCESS_MW_BIND);
	sim_to_init(pair.b, SIM_ALL_ACCESS & ~IBV_ACCESS_MW_BIND);
	assert_int_equal(sim_to_rtr(pair.a, pair.b, &connection, 1, 1), 0);
	assert_int_equal(sim_to_rtr(pair.b, pair.a, &connection, 2, 1), 0);
	assert_int_equal(sim_to_rts(pair.a, &connection, 2, 8), 0);
	assert_int_equal(sim_to_rts(pair.b, &connection, 1, 1), 0);
	for (unsigned i = 0; i < 8; i++)
		pair_post(&pair, IBV_WR_RDMA_READ, 100, i);
	sim_run(pair.sim);
	expect_states(&pair, IBV_QPS_ERR, IBV_QPS_ERR);
	assert_int_equal(pair.b->fault.fault, VB_FAULT_TOO_MANY_READS);
	expect_send(pair.a_cq, 0, IBV_WC_SUCCESS);
	expect_send(pair.a_cq, 1, IBV_WC_REM_INV_REQ_ERR);
	pair_close(&pair);
}

static void retry_exceeded(void **state)
{
	static const struct {
		uint8_t timeout, retry_cnt;
	} cases[] = {{14, 7}, {14, 0}, {10, 3}, {8, 7}, {18, 7}, {20, 6}};

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sim_connection connection = sim_usual;
		vb_time began, timeout = VB_NANOSECONDS(4096) << cases[i].timeout, waited;
		struct pair pair;

		connection.timeout = cases[i].timeout;
		connection.retry_cnt = cases[i].retry_cnt;
		pair_open(&pair, 1, false, &connection, 4096);
		pair.sim->network.loss = SIM_MILLION;
		began = pair.sim->now;
		pair_post(&pair, IBV_WR_SEND, 100, 1);
		pair_post(&pair, IBV_WR_SEND, 100, 2);
		sim_run(pair.sim);
		waited = pair.sim->now - began;
		expect_send(pair.a_cq, 1, IBV_WC_RETRY_EXC_ERR);
		expect_send(pair.a_cq, 2, IBV_WC_WR_FLUSH_ERR);
		expect_states(&pair, IBV_QPS_ERR, IBV_QPS_RTS);
		/* Four times longer than asked (IBA 9.7.6.1.3), but at least 4 ms each time; and to the end of the last try's time. */
		assert_true(waited >= 4 * timeout * (cases[i].retry_cnt + 1));
		assert_true(waited <= 4 * timeout * (cases[i].retry_cnt + 1) + (timeout < FLOOR ? FLOOR : timeout));
		assert_int_equal(pair.a->fault.fault, VB_FAULT_RETRY_EXCEEDED);
		assert_int_equal(pair.a->fault.waited, waited);
		assert_true(pair.a->fault.tries >= cases[i].retry_cnt);
		assert_int_equal(pair.hosts[0]->counters.retry_exceeded_err, 1);
		pair_close(&pair);
	}
}

/* A peer that lives but does not run is not gone: it may be away for as long as the specification allows. */
static void a_peer_may_be_off_the_processor(void **state)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		vb_time away;
		enum ibv_wc_status status;
	} cases[] = {
		{IBV_WR_RDMA_WRITE, VB_MILLISECONDS(2100), IBV_WC_SUCCESS},
		{IBV_WR_RDMA_READ, VB_MILLISECONDS(2100), IBV_WC_SUCCESS},
		{IBV_WR_RDMA_WRITE, VB_MILLISECONDS(2300), IBV_WC_RETRY_EXC_ERR},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sim_connection connection = sim_usual;
		struct pair pair;
		struct ibv_wc wc;

		connection.timeout = 14;
		connection.retry_cnt = 7;
		pair_open(&pair, 1, false, &connection, 65536);
		/* Round trips are known: so lost packets would be sent again within milliseconds. */
		for (unsigned k = 0; k < 8; k++) {
			pair_post(&pair, IBV_WR_RDMA_WRITE, 100, k);
			assert_true(sim_wait(pair.sim, pair.a_cq, &wc, VB_SECONDS(1)));
		}
		pair.hosts[1]->away_until = pair.sim->now + cases[i].away;
		pair_post(&pair, cases[i].opcode, 65536, 10);
		sim_run(pair.sim);
		expect_send(pair.a_cq, 10, cases[i].status);
		pair_close(&pair);
	}
}

/* The link knows that the peer lives and waits for a processor: each time that it would give up it goes on for as long as it is told. */
static void a_wait_can_be_extended(void **state)
{
	const vb_time more = VB_SECONDS(1), timeout = VB_NANOSECONDS(4096) << 14;
	struct sim_connection connection = sim_usual;
	struct pair pair;
	vb_time began, now = 0;

	(void)state;
	connection.timeout = 14;
	connection.retry_cnt = 7;
	pair_open(&pair, 1, false, &connection, 4096);
	pair.sim->network.loss = SIM_MILLION;
	began = pair.sim->now;
	pair_post(&pair, IBV_WR_RDMA_WRITE, 100, 1);
	sim_run_to(pair.sim, began + 32 * timeout - VB_MICROSECONDS(1));
	vb_lock_take(&pair.a->lock);
	for (unsigned i = 0; i < 1000 && !vb_roce_gives_up(pair.a, now = vb_roce_next_deadline(pair.a)); i++)
		vb_roce_expire(pair.a, now);
	assert_true(vb_roce_gives_up(pair.a, now));
	assert_false(vb_roce_wait_is_extended(pair.a));
	assert_int_equal(vb_roce_extend_wait(pair.a, more), now - began + more - 32 * timeout);
	assert_true(vb_roce_wait_is_extended(pair.a));
	assert_false(vb_roce_gives_up(pair.a, now));
	vb_lock_release(&pair.a->lock);
	sim_run_to(pair.sim, now + more / 2);
	assert_int_equal(pair.a->state, IBV_QPS_RTS);
	/* Once it has gone on it is as patient as at first. */
	pair.sim->network.loss = 0;
	sim_run(pair.sim);
	expect_send(pair.a_cq, 1, IBV_WC_SUCCESS);
	assert_false(vb_roce_wait_is_extended(pair.a));
	pair.sim->network.loss = SIM_MILLION;
	began = pair.sim->now;
	pair_post(&pair, IBV_WR_RDMA_WRITE, 100, 2);
	sim_run(pair.sim);
	expect_send(pair.a_cq, 2, IBV_WC_RETRY_EXC_ERR);
	assert_true(pair.sim->now - began <= 33 * timeout);
	pair_close(&pair);
}

/* Nothing of what was to be sent again has left, though time went by: the peer had no chance to answer. It gets one. */
static void giving_up_waits_for_a_retransmission_to_leave(void **state)
{
	struct sim_connection connection = sim_usual;
	struct pair pair;
	vb_time end;

	(void)state;
	connection.timeout = 14;
	connection.retry_cnt = 7;
	pair_open(&pair, 1, false, &connection, 4096);
	pair.sim->network.loss = SIM_MILLION;
	pair_post(&pair, IBV_WR_RDMA_WRITE, 100, 1);
	sim_run_to(pair.sim, pair.sim->now + VB_MICROSECONDS(10));
	pair.sim->network.loss = 0;
	end = pair.sim->now + 33 * (VB_NANOSECONDS(4096) << 14);
	vb_lock_take(&pair.a->lock);
	for (vb_time now = 0; now < end; vb_roce_expire(pair.a, now)) {
		now = vb_roce_next_deadline(pair.a);
		assert_false(vb_roce_gives_up(pair.a, now));
	}
	vb_lock_release(&pair.a->lock);
	sim_run_to(pair.sim, end);
	assert_int_equal(pair.a->state, IBV_QPS_RTS);
	sim_touch(pair.a);
	sim_run(pair.sim);
	expect_send(pair.a_cq, 1, IBV_WC_SUCCESS);
	pair_close(&pair);
}

/* A process that was stopped comes back long after its retries would have ended: it asks once more before it gives up. */
static void time_away_is_not_the_peers(void **state)
{
	struct sim_connection connection = sim_usual;
	struct pair pair;

	(void)state;
	pair_open(&pair, 1, false, &connection, 4096);
	pair.sim->network.loss = SIM_MILLION;
	pair_post(&pair, IBV_WR_RDMA_WRITE, 100, 1);
	sim_run_to(pair.sim, pair.sim->now + VB_MICROSECONDS(10));
	pair.sim->network.loss = 0;
	vb_lock_take(&pair.a->lock);
	vb_roce_expire(pair.a, pair.sim->now + VB_SECONDS(60));
	vb_lock_release(&pair.a->lock);
	sim_touch(pair.a);
	sim_run(pair.sim);
	expect_send(pair.a_cq, 1, IBV_WC_SUCCESS);
	expect_states(&pair, IBV_QPS_RTS, IBV_QPS_RTS);
	pair_close(&pair);
}

static void rnr_retry_exceeded(void **state)
{
	struct sim_connection connection = sim_usual;
	struct pair pair;
	struct ibv_wc wc;

	(void)state;
	for (uint8_t retries = 0; retries < 7; retries++) {
		vb_time began;

		connection.rnr_retry = retries;
		connection.min_rnr_timer = 14; /* 1.28 ms */
		pair_open(&pair, 1, false, &connection, 4096);
		began = pair.sim->now;
		pair_post(&pair, IBV_WR_SEND, 3000, 1);
		pair_post(&pair, IBV_WR_RDMA_WRITE_WITH_IMM, 3000, 2);
		assert_true(sim_wait(pair.sim, pair.a_cq, &wc, VB_SECONDS(1)));
		assert_int_equal(wc.status, IBV_WC_RNR_RETRY_EXC_ERR);
		expect_send(pair.a_cq, 2, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(pair.hosts[1]->counters.send_rnr_err, retries + 1);
		assert_int_equal(pair.hosts[0]->counters.rcvd_rnr_err, retries + 1);
		assert_int_equal(pair.a->fault.tries, retries);
		assert_true(pair.sim->now - began >= retries * VB_MICROSECONDS(1280));
		assert_true(pair.sim->now - began < (retries + 1) * VB_MICROSECONDS(1380));
		/* The receiver has not lost anything by it. */
		expect_states(&pair, IBV_QPS_ERR, IBV_QPS_RTS);
		pair_close(&pair);
	}
}

static void bad_response(void **state)
{
	struct pair pair;
	struct vb_roce_packet packet = {.opcode = 0x10, .op = vb_roce_opcode(0x10), .pkey = 0xffff};

	(void)state;
	pair_open(&pair, 1, false, &sim_usual, 4096);
	pair.sim->network.loss = SIM_MILLION;
	pair_post(&pair, IBV_WR_RDMA_READ, 100, 1);
	sim_run_to(pair.sim, pair.sim->now + VB_MICROSECONDS(100));
	/* READ RESPONSE ONLY with 60 of the 100 bytes. */
	packet.psn = psn_of(sim_usual.psn_a);
	packet.payload = pair.b_memory.bytes;
	packet.payload_length = 60;
	sim_inject(pair.a, &packet);
	expect_send(pair.a_cq, 1, IBV_WC_BAD_RESP_ERR);
	assert_int_equal(pair.a->state, IBV_QPS_ERR);
	pair_close(&pair);
}

static void flushed_in_error(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, 1, false, &sim_usual, 65536);
	assert_int_equal(sim_post_receive(pair.a, pair.a_memory.bytes, 100, pair.a_memory.key, 20), 0);
	pair_post(&pair, IBV_WR_RDMA_WRITE, 65536, 1);
	sim_run_to(pair.sim, pair.sim->now + VB_MICROSECONDS(6));
	assert_int_equal(sim_modify_state(pair.a, IBV_QPS_ERR), 0);
	pair_post(&pair, IBV_WR_RDMA_WRITE, 100, 2);
	sim_run(pair.sim);
	expect_send(pair.a_cq, 1, IBV_WC_WR_FLUSH_ERR);
	expect_send(pair.a_cq, 20, IBV_WC_WR_FLUSH_ERR);
	expect_send(pair.a_cq, 2, IBV_WC_WR_FLUSH_ERR);
	pair_close(&pair);
}

/* The receive that a message under way had taken comes back too. */
static void receive_in_hand_is_flushed(void **state)
{
	struct pair pair;
	struct ibv_wc wc;

	(void)state;
	pair_open(&pair, 1, false, &sim_usual, 8192);
	assert_int_equal(sim_post_receive(pair.b, pair.b_memory.bytes, 8192, pair.b_memory.key, 20), 0);
	assert_int_equal(sim_post_receive(pair.b, pair.b_memory.bytes, 8192, pair.b_memory.key, 21), 0);
	/* The last of eight packets is lost. */
	pair.sim->network.loss_mask = 1 << 7;
	pair_post(&pair, IBV_WR_SEND, 8192, 1);
	sim_run_to(pair.sim, pair.sim->now + VB_MICROSECONDS(100));
	assert_false(sim_poll(pair.b_cq, &wc));
	assert_int_equal(sim_modify_state(pair.b, IBV_QPS_ERR), 0);
	expect_send(pair.b_cq, 20, IBV_WC_WR_FLUSH_ERR);
	expect_send(pair.b_cq, 21, IBV_WC_WR_FLUSH_ERR);
	assert_false(sim_poll(pair.b_cq, &wc));
	pair_close(&pair);
}

/* A peer that goes on and on, into a receive that has room for it: 2^31 bytes and no more (IBA 9.7.2). Nobody waits for so many here: what
 * has come so far is set forward. */
static void a_send_without_end(void **state)
{
	const size_t room = (size_t)VB_MAX_MESSAGE + (1 << 20);
	uint8_t *bytes = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct vb_region_info info = {.kind = VB_REGION_MR, .start = (uintptr_t)bytes, .length = room, .iova = (uintptr_t)bytes,
				      .access = IBV_ACCESS_LOCAL_WRITE};
	struct vb_roce_responder *responder;
	struct pair pair;
	uint32_t key;

	(void)state;
	assert_ptr_not_equal(bytes, MAP_FAILED);
	pair_open(&pair, 1, false, &sim_usual, 1 << 20);
	info.pd = &pair.hosts[1]->pd;
	assert_int_equal(vb_region_register(pair.hosts[1]->memory, &info, &key), 0);
	assert_int_equal(sim_post_receive(pair.b, bytes, (uint32_t)room, key, 7), 0);
	memset(pair.a_memory.bytes, 0x5a, 1 << 20);
	pair_post(&pair, IBV_WR_SEND, 1 << 20, 1);
	responder = &vb_roce_engine(pair.b)->responder;
	for (unsigned i = 0; responder->received == 0; i++) {
		assert_true(i < 1000);
		sim_run_to(pair.sim, pair.sim->now + VB_MICROSECONDS(10));
	}
	assert_true(responder->received < 1 << 19);
	responder->received = VB_MAX_MESSAGE - 20 * 1024;
	sim_run(pair.sim);
	expect_send(pair.a_cq, 1, IBV_WC_REM_INV_REQ_ERR);
	expect_send(pair.b_cq, 7, IBV_WC_LOC_QP_OP_ERR);
	assert_int_equal(pair.b->fault.fault, VB_FAULT_MESSAGE_LENGTH);
	assert_int_equal(bytes[VB_MAX_MESSAGE - 1], 0x5a);
	assert_int_equal(bytes[VB_MAX_MESSAGE], 0);
	pair_close(&pair);
	munmap(bytes, room);
}

static void window_bind_error(void **state)
{
	struct pair pair;
	struct ibv_mw mw = {0};
	struct ibv_mr mr = {0};
	struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_BIND_MW};

	(void)state;
	pair_open(&pair, 1, false, &sim_usual, 4096);
	assert_int_equal(vb_window_allocate(pair.hosts[0]->memory, VB_REGION_MW_TYPE_2, &pair.hosts[0]->pd,
					    &mw.rkey),
			 0);
	mr.lkey = pair.a_memory.key;
	wr.bind_mw.mw = &mw;
	wr.bind_mw.rkey = mw.rkey ^ 1;
	wr.bind_mw.bind_info.mr = &mr;
	wr.bind_mw.bind_info.addr = (uintptr_t)pair.a_memory.bytes;
	wr.bind_mw.bind_info.length = 8192; /* more than the region has */
	wr.bind_mw.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_READ;
	assert_int_equal(sim_post_send(pair.a, &wr), 0);
	sim_run(pair.sim);
	expect_send(pair.a_cq, 1, IBV_WC_MW_BIND_ERR);
	vb_window_deallocate(pair.hosts[0]->memory, mw.rkey);
	pair_close(&pair);
}

/* Bind, use, invalidate remotely, use again: in one queue, in order. */
static void windows_in_order(void **state)
{
	struct pair pair;
	struct ibv_mw mw = {0};
	struct ibv_mr mr = {0};
	struct ibv_send_wr bind = {.wr_id = 1, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED}, send;
	struct ibv_sge sge;
	struct ibv_wc wc;
	uint32_t key;

	(void)state;
	pair_open(&pair, 1, false, &sim_usual, 4096);
	assert_int_equal(vb_window_allocate(pair.hosts[1]->memory, VB_REGION_MW_TYPE_2, &pair.hosts[1]->pd,
					    &mw.rkey),
			 0);
	mr.lkey = pair.b_memory.key;
	key = mw.rkey ^ 0x11;
	bind.bind_mw.mw = &mw;
	bind.bind_mw.rkey = key;
	bind.bind_mw.bind_info.mr = &mr;
	bind.bind_mw.bind_info.addr = (uintptr_t)pair.b_memory.bytes;
	bind.bind_mw.bind_info.length = 4096;
	bind.bind_mw.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_WRITE;
	assert_int_equal(sim_post_send(pair.b, &bind), 0);
	sim_run(pair.sim);
	expect_send(pair.b_cq, 1, IBV_WC_SUCCESS);

	sge = (struct ibv_sge){(uintptr_t)pair.a_memory.bytes, 100, pair.a_memory.key};
	send = (struct ibv_send_wr){.wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				    .send_flags = IBV_SEND_SIGNALED};
	send.wr.rdma.remote_addr = (uintptr_t)pair.b_memory.bytes;
	send.wr.rdma.rkey = key;
	assert_int_equal(sim_post_send(pair.a, &send), 0);
	assert_int_equal(sim_post_receive(pair.b, pair.b_memory.bytes, 4096, pair.b_memory.key, 9), 0);
	send.wr_id = 3;
	send.opcode = IBV_WR_SEND_WITH_INV;
	send.invalidate_rkey = key;
	assert_int_equal(sim_post_send(pair.a, &send), 0);
	sim_run(pair.sim);
	expect_send(pair.a_cq, 2, IBV_WC_SUCCESS);
	expect_send(pair.a_cq, 3, IBV_WC_SUCCESS);
	assert_true(sim_poll(pair.b_cq, &wc));
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_true(wc.wc_flags & IBV_WC_WITH_INV);
	assert_int_equal(wc.invalidated_rkey, key);

	send.wr_id = 4;
	send.opcode = IBV_WR_RDMA_WRITE;
	send.wr.rdma.remote_addr = (uintptr_t)pair.b_memory.bytes;
	send.wr.rdma.rkey = key;
	assert_int_equal(sim_post_send(pair.a, &send), 0);
	sim_run(pair.sim);
	expect_send(pair.a_cq, 4, IBV_WC_REM_ACCESS_ERR);
	vb_window_deallocate(pair.hosts[1]->memory, key);
	pair_close(&pair);
}

static void remote_invalidation_of_a_foreign_key(void **state)
{
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr send = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_INV};

	(void)state;
	pair_open(&pair, 1, false, &sim_usual, 4096);
	sge = (struct ibv_sge){(uintptr_t)pair.a_memory.bytes, 100, pair.a_memory.key};
	send.invalidate_rkey = pair.b_memory.key; /* a region, not a window */
	assert_int_equal(sim_post_receive(pair.b, pair.b_memory.bytes, 4096, pair.b_memory.key, 9), 0);
	assert_int_equal(sim_post_send(pair.a, &send), 0);
	sim_run(pair.sim);
	expect_send(pair.a_cq, 1, IBV_WC_REM_ACCESS_ERR);
	expect_send(pair.b_cq, 9, IBV_WC_LOC_ACCESS_ERR);
	pair_close(&pair);
}

/* The NAK that ends a QP is lost: the requester asks again and still learns the truth. */
static void lost_fatal_nak_is_repeated(void **state)
{
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE};

	(void)state;
	pair_open(&pair, 1, false, &sim_usual, 4096);
	sge = (struct ibv_sge){(uintptr_t)pair.a_memory.bytes, 100, pair.a_memory.key};
	wr.wr.rdma.remote_addr = 8;
	wr.wr.rdma.rkey = 8;
	pair.sim->network.loss_mask = 2;
	assert_int_equal(sim_post_send(pair.a, &wr), 0);
	sim_run(pair.sim);
	assert_int_equal(pair.sim->packets_lost, 1);
	expect_send(pair.a_cq, 2, IBV_WC_REM_ACCESS_ERR);
	pair_close(&pair);
}

/* A completion queue that overruns ends the QP, and nothing is touched after it. */
static void completion_queue_overrun(void **state)
{
	struct sim *sim = sim_create(5);
	struct sim_host *a = sim_host_add(sim, false), *b = sim_host_add(sim, false);
	struct vb_cq *small = sim_cq(a, 4), *other = sim_cq(b, 64);
	struct vb_qp *qa = sim_qp(a, IBV_QPT_RC, small, small, NULL), *qb = sim_qp(b, IBV_QPT_RC, other, other, NULL);
	struct sim_region memory = sim_region(a, 4096, SIM_ALL_ACCESS), target = sim_region(b, 4096, SIM_ALL_ACCESS);
	struct ibv_sge sge = {(uintptr_t)memory.bytes, 3000, memory.key};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED};

	(void)state;
	sim_connect(qa, qb, &sim_usual);
	wr.wr.rdma.remote_addr = (uintptr_t)target.bytes;
	wr.wr.rdma.rkey = target.key;
	for (unsigned i = 0; i < 50; i++)
		assert_int_equal(sim_post_send(qa, &wr), 0);
	sim_run(sim);
	assert_int_equal(qa->state, IBV_QPS_ERR);
	assert_true(sim_host_was_told(a, IBV_EVENT_CQ_ERR));
	assert_true(sim_host_was_told(a, IBV_EVENT_QP_FATAL));
	assert_int_equal(qa->fault.fault, VB_FAULT_CQ_OVERRUN);
	sim_qp_free(qa);
	sim_qp_free(qb);
	sim_region_free(&memory);
	sim_region_free(&target);
	sim_cq_free(small);
	sim_cq_free(other);
	sim_destroy(sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(local_protection_error_of_a_send),
		cmocka_unit_test(local_protection_error_of_what_goes_away),
		cmocka_unit_test(local_protection_error_of_a_read_target),
		cmocka_unit_test(local_protection_error_of_a_receive),
		cmocka_unit_test(local_length_error_of_a_receive),
		cmocka_unit_test(local_qp_operation_error),
		cmocka_unit_test(remote_access_errors),
		cmocka_unit_test(remote_invalid_request_without_the_right),
		cmocka_unit_test(remote_invalid_request_for_too_many_reads),
		cmocka_unit_test(retry_exceeded),
		cmocka_unit_test(a_peer_may_be_off_the_processor),
		cmocka_unit_test(a_wait_can_be_extended),
		cmocka_unit_test(giving_up_waits_for_a_retransmission_to_leave),
		cmocka_unit_test(time_away_is_not_the_peers),
		cmocka_unit_test(rnr_retry_exceeded),
		cmocka_unit_test(bad_response),
		cmocka_unit_test(flushed_in_error),
		cmocka_unit_test(receive_in_hand_is_flushed),
		cmocka_unit_test(a_send_without_end),
		cmocka_unit_test(window_bind_error),
		cmocka_unit_test(windows_in_order),
		cmocka_unit_test(remote_invalidation_of_a_foreign_key),
		cmocka_unit_test(lost_fatal_nak_is_repeated),
		cmocka_unit_test(completion_queue_overrun),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
