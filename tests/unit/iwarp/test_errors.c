/* SPDX-License-Identifier: MIT
 *
 * What ends a stream, one row of docs/iwarp.md's table after the other: the completions, the event and the TERMINATE of each, and that the
 * connection is closed on both sides afterwards.
 */
#include "streams.h"

static struct streams streams;
static struct end *const a = &streams.end[0], *const b = &streams.end[1];
static struct options options;

static void open_streams(void)
{
	streams_open(&streams, &options);
	streams_settle(&streams);
}

/* Both with and without CRC. */
static void twice(void (*scene)(void))
{
	for (unsigned crc = 0; crc < 2; crc++) {
		options = (struct options){.crc = crc, .seed = 5};
		scene();
		streams_close(&streams);
	}
}

static void expect_closed(void)
{
	streams_settle(&streams);
	for (unsigned i = 0; i < 2; i++) {
		struct end *end = &streams.end[i];

		assert_int_equal(end->qp->state, IBV_QPS_ERR);
		assert_true(end->over);
		assert_int_equal(vb_iwarp_next_deadline(end->qp), VB_TIME_NEVER);
	}
	expect_none(&streams);
}

static void expect_events(const struct end *end, unsigned count, enum ibv_event_type event)
{
	assert_int_equal(end->events, count);
	if (count > 0)
		assert_int_equal(end->event[0], event);
}

/* b refused with this cause, and a understood. */
static void expect_cause(uint16_t cause)
{
	assert_int_equal(b->qp->fault.terminate, cause);
	assert_int_equal(a->qp->fault.terminate, cause);
	assert_true(a->qp->fault.remote);
	assert_false(b->qp->fault.remote);
}

static void request(enum ibv_wr_opcode opcode, uint32_t key, uint64_t address, uint32_t length, uint64_t wr_id)
{
	struct ibv_sge sge = sge_of(a, 0, length);
	struct ibv_send_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED};

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = address;
		wr.wr.atomic.rkey = key;
	} else {
		wr.wr.rdma.remote_addr = address;
		wr.wr.rdma.rkey = key;
	}
	assert_int_equal(post(a, &wr), 0);
}

/* ---- memory that the peer may not touch ---- */

enum access_fault { NO_KEY, NO_RIGHT, NO_QP_RIGHT, OTHER_PD, OUT_OF_BOUNDS, WRAPS, UNBOUND, ACCESS_FAULTS };

static const uint8_t write_codes[] = {0x00, 0x00, 0x00, 0x02, 0x01, 0x03, 0x00};
static const uint8_t read_codes[] = {0x00, 0x02, 0x02, 0x03, 0x01, 0x04, 0x00};

static uint32_t faulty_key(enum access_fault fault, uint64_t *address)
{
	uint32_t key = b->key;

	*address = (uintptr_t)b->arena;
	switch (fault) {
	case NO_KEY:
		return 0x12345678;
	case NO_RIGHT:
		return register_part(b, &b->pd, 0, ARENA, IBV_ACCESS_LOCAL_WRITE);
	case OTHER_PD:
		return register_part(b, &b->other_pd, 0, ARENA, ALL_ACCESS);
	case OUT_OF_BOUNDS:
		*address += ARENA - 4;
		return key;
	case WRAPS:
		*address = UINT64_MAX - 7;
		return key;
	case UNBOUND:
		assert_int_equal(vb_window_allocate(b->memory, VB_REGION_MW_TYPE_2, &b->pd, &key), 0);
		return key;
	default:
		return key;
	}
}

static enum access_fault fault_tried;

/* A WRITE has completed before; the rest is flushed. */
static void write_is_refused(void)
{
	uint64_t address;
	uint32_t key;

	options.access = fault_tried == NO_QP_RIGHT ? IBV_ACCESS_REMOTE_READ : 0;
	open_streams();
	key = faulty_key(fault_tried, &address);
	post_receive(a, 0, 64, 50);
	post_receive(b, 0, 64, 60);
	request(IBV_WR_RDMA_WRITE, key, address, 64, 1);
	streams_settle(&streams);
	expect(&a->send_cq, 1, IBV_WC_SUCCESS);
	expect(&a->recv_cq, 50, IBV_WC_WR_FLUSH_ERR);
	expect(&b->recv_cq, 60, IBV_WC_WR_FLUSH_ERR);
	expect_events(a, 1, IBV_EVENT_QP_FATAL);
	expect_events(b, 1, IBV_EVENT_QP_ACCESS_ERR);
	expect_cause((uint16_t)(0x1100 | write_codes[fault_tried]));
	assert_int_equal(a->qp->fault.fault, VB_FAULT_TERMINATED);
	expect_closed();
}

/* A READ or an atomic fails by name. */
static enum ibv_wr_opcode opcode_tried;
static void read_is_refused(void)
{
	uint64_t address;
	uint32_t key;

	options.access = fault_tried == NO_QP_RIGHT ? IBV_ACCESS_REMOTE_WRITE : 0;
	open_streams();
	key = faulty_key(fault_tried, &address);
	post_receive(b, 0, 64, 60);
	request(IBV_WR_RDMA_READ, b->key, (uintptr_t)b->arena, 0, 1);
	streams_settle(&streams);
	expect(&a->send_cq, 1, IBV_WC_SUCCESS);
	/* An atomic is aligned, so it cannot wrap. */
	if (opcode_tried == IBV_WR_RDMA_READ)
		request(opcode_tried, key, address, 16, 2);
	else
		request(opcode_tried, key, (address + 7) & ~UINT64_C(7), 8, 2);
	post_send(a, IBV_WR_SEND, 0, 8, 0, 3, 0);
	streams_settle(&streams);
	expect(&a->send_cq, 2, IBV_WC_REM_ACCESS_ERR);
	expect(&a->send_cq, 3, IBV_WC_WR_FLUSH_ERR);
	expect(&b->recv_cq, 60, IBV_WC_WR_FLUSH_ERR);
	expect_events(a, 1, IBV_EVENT_QP_FATAL);
	expect_events(b, 1, IBV_EVENT_QP_ACCESS_ERR);
	expect_cause((uint16_t)(0x0100 | (fault_tried == WRAPS && opcode_tried != IBV_WR_RDMA_READ ? 0x01 : read_codes[fault_tried])));
	expect_closed();
}

static void test_refused_access(void **state)
{
	(void)state;
	for (fault_tried = 0; fault_tried < ACCESS_FAULTS; fault_tried++) {
		twice(write_is_refused);
		opcode_tried = IBV_WR_RDMA_READ;
		twice(read_is_refused);
		opcode_tried = IBV_WR_ATOMIC_FETCH_AND_ADD;
		twice(read_is_refused);
	}
}

/* A region that goes while a READ is answered from it. */
static void region_goes(void)
{
	uint32_t key;

	options.room = 4000;
	options.most_taken = 1000;
	open_streams();
	key = register_part(b, &b->pd, 0, 1 << 20, ALL_ACCESS);
	request(IBV_WR_RDMA_READ, key, (uintptr_t)b->arena, 1 << 20, 1);
	end_transmit(a);
	{
		uint8_t bytes[100];
		size_t length = end_drain(a, bytes, sizeof(bytes));

		if (length > 0)
			end_feed(b, bytes, length);
	}
	assert_true(b->written > b->read);
	assert_int_equal(vb_region_deregister(b->memory, key), 0);
	streams_settle(&streams);
	expect(&a->send_cq, 1, IBV_WC_REM_ACCESS_ERR);
	expect_events(b, 1, IBV_EVENT_QP_ACCESS_ERR);
	expect_cause(0x0100);
	expect_closed();
}

static void test_region_goes(void **state)
{
	(void)state;
	twice(region_goes);
}

/* ---- SENDs ---- */

static void too_long(void)
{
	open_streams();
	post_receive(b, 0, 5000, 60);
	post_receive(b, 0, 64, 61);
	post_send(a, IBV_WR_SEND, 0, 5001, 0, 1, 0);
	streams_settle(&streams);
	expect(&a->send_cq, 1, IBV_WC_SUCCESS);
	expect(&b->recv_cq, 60, IBV_WC_LOC_LEN_ERR);
	expect(&b->recv_cq, 61, IBV_WC_WR_FLUSH_ERR);
	expect_events(a, 1, IBV_EVENT_QP_FATAL);
	expect_events(b, 1, IBV_EVENT_QP_FATAL);
	expect_cause(0x1205);
	expect_closed();
}

static void test_too_long(void **state)
{
	(void)state;
	twice(too_long);
}

/* Nothing to receive into: the stream stands still for up to five seconds. */
static void no_receive(void)
{
	open_streams();
	post_send(a, IBV_WR_SEND, 0, 100, 0, 1, 0);
	streams_settle(&streams);
	expect(&a->send_cq, 1, IBV_WC_SUCCESS);
	assert_true(vb_iwarp_is_stalled(b->qp));
	assert_int_equal(vb_iwarp_next_deadline(b->qp), streams.now + VB_SECONDS(5));
	streams_run(&streams, streams.now + VB_SECONDS(5) - 1);
	assert_int_equal(b->qp->state, IBV_QPS_RTS);
	streams_run(&streams, streams.now + 1);
	expect_events(a, 1, IBV_EVENT_QP_FATAL);
	expect_events(b, 1, IBV_EVENT_QP_FATAL);
	expect_cause(0x1202);
	assert_int_equal(b->qp->fault.fault, VB_FAULT_NO_RECEIVE);
	expect_closed();
}

static void receive_comes_late(void)
{
	open_streams();
	fill(a, 0, 4096, 1);
	for (uint64_t i = 0; i < 3; i++)
		post_send(a, IBV_WR_SEND, 0, 4096, 0, i, 0);
	post_send(a, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 10, 0, 3, 0);
	for (uint64_t i = 0; i < 4; i++) {
		streams_run(&streams, streams.now + VB_SECONDS(4));
		assert_true(vb_iwarp_is_stalled(b->qp));
		post_receive(b, 1 << 20, 4096, 60 + i);
		streams_settle(&streams);
		expect(&a->send_cq, i, IBV_WC_SUCCESS);
		expect(&b->recv_cq, 60 + i, IBV_WC_SUCCESS);
		verify(b, 1 << 20, 4096, 1);
	}
	assert_false(vb_iwarp_is_stalled(b->qp));
	streams_run(&streams, streams.now + VB_SECONDS(10));
	assert_int_equal(b->qp->state, IBV_QPS_RTS);
}

static void receive_comes_late_with_srq(void)
{
	options.srq = true;
	receive_comes_late();
}

static void test_no_receive(void **state)
{
	(void)state;
	twice(no_receive);
	twice(receive_comes_late);
	twice(receive_comes_late_with_srq);
}

/* A region is not the peer's to invalidate. */
static void refused_invalidation(void)
{
	struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_SEND_WITH_INV, .send_flags = IBV_SEND_SIGNALED};

	open_streams();
	post_receive(b, 0, 64, 60);
	wr.invalidate_rkey = b->key;
	assert_int_equal(post(a, &wr), 0);
	streams_settle(&streams);
	expect(&a->send_cq, 1, IBV_WC_SUCCESS);
	expect(&b->recv_cq, 60, IBV_WC_LOC_ACCESS_ERR);
	expect_events(b, 1, IBV_EVENT_QP_ACCESS_ERR);
	expect_cause(0x0109);
	expect_closed();
}

static void test_refused_invalidation(void **state)
{
	(void)state;
	twice(refused_invalidation);
}

/* ---- our own memory and work ---- */

static void local_key(void)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.wr_id = 2, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED};

	open_streams();
	wr.opcode = opcode_tried;
	sge = sge_of(a, 0, 64);
	sge.lkey = 0x999;
	wr.wr.rdma.remote_addr = (uintptr_t)b->arena;
	wr.wr.rdma.rkey = b->key;
	post_receive(b, 0, 64, 60);
	post_send(a, IBV_WR_RDMA_READ, 0, 64, 0, 1, 0);
	assert_int_equal(post(a, &wr), 0);
	post_send(a, IBV_WR_SEND, 0, 64, 0, 3, 0);
	streams_settle(&streams);
	expect(&a->send_cq, 1, IBV_WC_SUCCESS);
	expect(&a->send_cq, 2, IBV_WC_LOC_PROT_ERR);
	expect(&a->send_cq, 3, IBV_WC_WR_FLUSH_ERR);
	expect(&b->recv_cq, 60, IBV_WC_WR_FLUSH_ERR);
	expect_events(a, 0, 0);
	expect_events(b, 1, IBV_EVENT_QP_FATAL);
	assert_int_equal(b->qp->fault.terminate, 0x00ff);
	expect_closed();
}

/* What was posted before it leaves first, though the socket was full when the fault was found. */
static void fault_behind_a_full_socket(void)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.wr_id = 3, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};

	open_streams();
	a->room = 1000;
	sge = sge_of(a, 0, 64);
	sge.lkey = 0x999;
	wr.wr.rdma.remote_addr = (uintptr_t)b->arena;
	wr.wr.rdma.rkey = b->key;
	fill(a, 0, 9000, 5);
	post_send(a, IBV_WR_RDMA_WRITE, 0, 4000, 0, 1, 0);
	post_send(a, IBV_WR_RDMA_WRITE, 4000, 5000, 4000, 2, 0);
	assert_int_equal(post(a, &wr), 0);
	streams_settle(&streams);
	expect(&a->send_cq, 1, IBV_WC_SUCCESS);
	expect(&a->send_cq, 2, IBV_WC_SUCCESS);
	expect(&a->send_cq, 3, IBV_WC_LOC_PROT_ERR);
	verify(b, 0, 9000, 5);
	assert_int_equal(b->qp->fault.terminate, 0x00ff);
	expect_closed();
}

/* The target of a READ goes before the answer comes; the memory of a receive is gone. */
static void sink_goes(void)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED};

	open_streams();
	sge = sge_of(a, 0, 64);
	sge.lkey = register_part(a, &a->pd, 0, 64, IBV_ACCESS_LOCAL_WRITE);
	wr.wr.rdma.remote_addr = (uintptr_t)b->arena;
	wr.wr.rdma.rkey = b->key;
	assert_int_equal(post(a, &wr), 0);
	end_transmit(a);
	assert_int_equal(vb_region_deregister(a->memory, sge.lkey), 0);
	streams_settle(&streams);
	expect(&a->send_cq, 2, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(b->qp->fault.terminate, 0x00ff);
	expect_closed();
}

static void receive_at_fault(void)
{
	struct ibv_sge sge;

	open_streams();
	sge = sge_of(b, 0, 64);
	sge.lkey = 0x777;
	post_list(b, &sge, 1, 60);
	post_receive(b, 0, 64, 61);
	post_send(a, IBV_WR_SEND, 0, 64, 0, 1, 0);
	streams_settle(&streams);
	expect(&a->send_cq, 1, IBV_WC_SUCCESS);
	expect(&b->recv_cq, 60, IBV_WC_LOC_PROT_ERR);
	expect(&b->recv_cq, 61, IBV_WC_WR_FLUSH_ERR);
	expect_events(b, 0, 0);
	expect_cause(0x00ff);
	expect_closed();
}

static void refused_bind(void)
{
	struct ibv_send_wr wr = {.wr_id = 2, .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED, .invalidate_rkey = 0x1234};

	open_streams();
	assert_int_equal(post(a, &wr), 0);
	streams_settle(&streams);
	expect(&a->send_cq, 2, IBV_WC_MW_BIND_ERR);
	expect_events(b, 1, IBV_EVENT_QP_FATAL);
	expect_closed();
}

static void test_local_faults(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		opcode_tried = opcodes[i];
		twice(local_key);
	}
	twice(fault_behind_a_full_socket);
	twice(sink_goes);
	twice(receive_at_fault);
	twice(refused_bind);
}

/* ---- depths ---- */

static void no_depth(void)
{
	options.no_reads = true;
	open_streams();
	post_send(a, IBV_WR_RDMA_READ, 0, 8, 0, 1, 0);
	streams_settle(&streams);
	expect(&a->send_cq, 1, IBV_WC_LOC_QP_OP_ERR);
	expect_closed();
}

/* More than the peer answers at once. It had refused to say so. */
static void beyond_ird(void)
{
	options.ord[0] = 4;
	options.ird[1] = 2;
	open_streams();
	for (uint64_t i = 0; i < 4; i++)
		post_send(a, IBV_WR_RDMA_READ, 0, 8, 0, i, 0);
	streams_settle(&streams);
	for (uint64_t i = 0; i < 4; i++)
		expect(&a->send_cq, i, i < 2 ? IBV_WC_WR_FLUSH_ERR : i == 2 ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_WR_FLUSH_ERR);
	expect_events(b, 1, IBV_EVENT_QP_FATAL);
	expect_cause(0x1202);
	expect_closed();
}

static void test_depths(void **state)
{
	(void)state;
	twice(no_depth);
	twice(beyond_ird);
}

/* ---- the connection itself ---- */

static void peer_closes(void)
{
	open_streams();
	post_receive(a, 0, 64, 50);
	post_receive(b, 0, 64, 60);
	post_receive(b, 0, 64, 61);
	/* What was posted before is sent before the stream is shut. */
	post_send(a, IBV_WR_SEND, 0, 8, 0, 1, 0);
	post_send(a, IBV_WR_RDMA_READ, 0, 100000, 0, 2, 0);
	assert_int_equal(modify(a, IBV_QPS_SQD), 0);
	streams_settle(&streams);
	expect(&a->send_cq, 1, IBV_WC_SUCCESS);
	expect(&a->send_cq, 2, IBV_WC_SUCCESS);
	expect(&b->recv_cq, 60, IBV_WC_SUCCESS);
	expect(&b->recv_cq, 61, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(b->qp->fault.fault, VB_FAULT_CLOSED);
	assert_int_equal(b->qp->state, IBV_QPS_ERR);
	expect_events(a, 0, 0);
	expect_events(b, 0, 0);
	/* a has shut its side; when b's application closes, too, it is over. */
	assert_true(a->shut && b->over);
	vb_lock_take(&a->qp->lock);
	vb_iwarp_ended(a->qp, streams.now, VB_IWARP_END_FIN);
	a->over = true;
	vb_lock_release(&a->qp->lock);
	expect(&a->recv_cq, 50, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(a->qp->fault.fault, VB_FAULT_NONE);
	expect_events(a, 0, 0);
}

static void end_with(struct end *end, enum vb_iwarp_end how)
{
	vb_lock_take(&end->qp->lock);
	vb_iwarp_ended(end->qp, streams.now, how);
	end->over = true;
	vb_lock_release(&end->qp->lock);
	assert_int_equal(end->qp->state, IBV_QPS_ERR);
}

/* FIN while a READ is outstanding, and in the middle of a message. */
static void fin_too_soon(void)
{
	uint8_t bytes[200];

	open_streams();
	post_send(a, IBV_WR_RDMA_READ, 0, 8, 0, 1, 0);
	end_transmit(a);
	end_with(a, VB_IWARP_END_FIN);
	expect(&a->send_cq, 1, IBV_WC_WR_FLUSH_ERR);
	expect_events(a, 1, IBV_EVENT_QP_FATAL);
	streams_close(&streams);

	open_streams();
	post_receive(b, 0, 64, 60);
	post_send(a, IBV_WR_SEND, 0, 64, 0, 1, 0);
	assert_true(end_drain(a, bytes, 50) == 50);
	end_feed(b, bytes, 50);
	end_with(b, VB_IWARP_END_FIN);
	expect(&b->recv_cq, 60, IBV_WC_WR_FLUSH_ERR);
	expect_events(b, 1, IBV_EVENT_QP_FATAL);
}

static void reset(void)
{
	open_streams();
	post_receive(a, 0, 64, 50);
	end_with(a, VB_IWARP_END_RESET);
	expect(&a->recv_cq, 50, IBV_WC_WR_FLUSH_ERR);
	expect_events(a, 1, IBV_EVENT_QP_FATAL);
	assert_int_equal(a->qp->fault.fault, VB_FAULT_RESET);
}

static void tcp_gives_up(void)
{
	options.room = 2000;
	open_streams();
	post_send(a, IBV_WR_RDMA_WRITE, 0, 100, 0, 1, 0);
	post_send(a, IBV_WR_RDMA_WRITE, 0, 100000, 0, 2, 0);
	post_send(a, IBV_WR_RDMA_WRITE, 0, 100, 0, 3, 0);
	end_transmit(a);
	end_with(a, VB_IWARP_END_TIMEOUT);
	expect(&a->send_cq, 1, IBV_WC_SUCCESS);
	expect(&a->send_cq, 2, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(a->qp->fault.fault, VB_FAULT_TIMED_OUT);
	expect(&a->send_cq, 3, IBV_WC_WR_FLUSH_ERR);
	expect_events(a, 1, IBV_EVENT_QP_FATAL);
}

static void application_aborts(void)
{
	open_streams();
	post_receive(a, 0, 64, 50);
	post_receive(b, 0, 64, 60);
	assert_int_equal(modify(a, IBV_QPS_ERR), 0);
	assert_int_equal(vb_iwarp_wish(a->qp), VB_IWARP_ABORT);
	streams_settle(&streams);
	expect(&a->recv_cq, 50, IBV_WC_WR_FLUSH_ERR);
	expect(&b->recv_cq, 60, IBV_WC_WR_FLUSH_ERR);
	expect_events(a, 0, 0);
	expect_events(b, 1, IBV_EVENT_QP_FATAL);
	/* From ERR to RESET, and it can be connected anew. */
	assert_int_equal(modify(a, IBV_QPS_RESET), 0);
	assert_int_equal(modify(a, IBV_QPS_INIT), 0);
	assert_int_equal(streams_begin(a, true), 0);
}

static void test_ends(void **state)
{
	(void)state;
	twice(peer_closes);
	twice(fin_too_soon);
	twice(reset);
	twice(tcp_gives_up);
	twice(application_aborts);
}

/* A completion queue that overruns ends the stream in the middle of anything. */
static void overrun(void)
{
	options.cq_capacity = 2;
	open_streams();
	for (uint64_t i = 0; i < 8; i++) {
		post_receive(b, 0, 64, i);
		post_send(a, IBV_WR_SEND, 0, 8, 0, i, 0);
	}
	streams_settle(&streams);
	assert_int_equal(a->qp->state, IBV_QPS_ERR);
	assert_true(was_told(a, IBV_EVENT_CQ_ERR));
	assert_true(was_told(b, IBV_EVENT_QP_FATAL));
}

static void test_overrun(void **state)
{
	(void)state;
	twice(overrun);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused_access), cmocka_unit_test(test_region_goes), cmocka_unit_test(test_too_long),
		cmocka_unit_test(test_no_receive), cmocka_unit_test(test_refused_invalidation), cmocka_unit_test(test_local_faults),
		cmocka_unit_test(test_depths), cmocka_unit_test(test_ends), cmocka_unit_test(test_overrun),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
