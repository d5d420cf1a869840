/* SPDX-License-Identifier: MIT
 *
 * How work ends: completions, failures of either side, flush order, overrun, events; and the translations of faults.
 */
#include "fixture.h"

static struct world w;

static void open_with(enum ibv_qp_type type, uint32_t cq_capacity, bool with_srq)
{
	world_open(&w, type, cq_capacity, with_srq, false);
	bring_to(w.qp, IBV_QPS_RTS);
}

static void complete(enum ibv_wc_status status)
{
	vb_lock_take(&w.qp->lock);
	vb_qp_complete_send(w.qp, status, VB_FAULT_NONE, FIXTURE_NOW);
	vb_lock_release(&w.qp->lock);
}

static void fail_send(enum vb_fault fault)
{
	struct vb_fault_record why = {.fault = fault};

	vb_lock_take(&w.qp->lock);
	vb_qp_fail_send(w.qp, vb_fault_to_wc_status(fault), &why, FIXTURE_NOW);
	vb_lock_release(&w.qp->lock);
}

static void only_the_signalled_and_the_failed_complete(void **state)
{
	(void)state;
	open_with(IBV_QPT_RC, 16, false);
	assert_int_equal(post_one(w.qp, IBV_WR_SEND, 1, 0), 0);
	assert_int_equal(post_one(w.qp, IBV_WR_SEND, 2, IBV_SEND_SIGNALED), 0);
	assert_int_equal(post_one(w.qp, IBV_WR_SEND, 3, 0), 0);
	complete(IBV_WC_SUCCESS);
	complete(IBV_WC_SUCCESS);
	complete(IBV_WC_LOC_QP_OP_ERR);
	assert_completion(&w.send_cq, 2, IBV_WC_SUCCESS, IBV_WC_SEND);
	assert_completion(&w.send_cq, 3, IBV_WC_LOC_QP_OP_ERR, IBV_WC_SEND);
	assert_empty(&w.send_cq);
	world_close(&w);
}

static void a_failed_send_takes_the_rest_with_it(void **state)
{
	struct ibv_wc wc;

	(void)state;
	open_with(IBV_QPT_RC, 16, false);
	for (uint64_t i = 1; i <= 3; i++)
		assert_int_equal(post_one(w.qp, IBV_WR_RDMA_WRITE, i, 0), 0);
	assert_int_equal(post_receive(w.qp, 11), 0);
	assert_int_equal(post_receive(w.qp, 12), 0);
	fail_send(VB_FAULT_REMOTE_ACCESS);
	assert_int_equal(w.qp->state, IBV_QPS_ERR);
	assert_int_equal(w.qp->fault.fault, VB_FAULT_REMOTE_ACCESS);
	assert_int_equal(w.qp->fault.wr_id, 1);
	assert_int_equal(w.qp->fault.qpn, FIXTURE_QPN);
	assert_int_equal(notes.modified_to, IBV_QPS_ERR);
	assert_int_equal(notes.modified_from, IBV_QPS_RTS);
	assert_int_equal(vb_cq_poll(&w.send_cq, 1, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(wc.opcode, IBV_WC_RDMA_WRITE);
	assert_int_equal(wc.vendor_err, VB_FAULT_REMOTE_ACCESS);
	assert_completion(&w.send_cq, 2, IBV_WC_WR_FLUSH_ERR, IBV_WC_RDMA_WRITE);
	assert_completion(&w.send_cq, 3, IBV_WC_WR_FLUSH_ERR, IBV_WC_RDMA_WRITE);
	assert_completion(&w.recv_cq, 11, IBV_WC_WR_FLUSH_ERR, IBV_WC_RECV);
	assert_completion(&w.recv_cq, 12, IBV_WC_WR_FLUSH_ERR, IBV_WC_RECV);
	/* A late echo changes nothing, and the first fault stays. */
	fail_send(VB_FAULT_RETRY_EXCEEDED);
	assert_int_equal(w.qp->fault.fault, VB_FAULT_REMOTE_ACCESS);
	assert_empty(&w.send_cq);
	assert_int_equal(notes.events, 0);
	world_close(&w);
}

/* IBA 10.3.1.6: datagrams and unreliable connections only stop sending. */
static void unreliable_sends_fail_into_sqe(void **state)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_UC, IBV_QPT_UD};

	(void)state;
	for (unsigned t = 0; t < 2; t++) {
		open_with(types[t], 16, false);
		assert_int_equal(post_one(w.qp, IBV_WR_SEND, 1, 0), 0);
		assert_int_equal(post_one(w.qp, IBV_WR_SEND, 2, 0), 0);
		assert_int_equal(post_receive(w.qp, 3), 0);
		fail_send(VB_FAULT_KEY_UNKNOWN);
		assert_int_equal(w.qp->state, IBV_QPS_SQE);
		assert_completion(&w.send_cq, 1, IBV_WC_LOC_PROT_ERR, IBV_WC_SEND);
		assert_completion(&w.send_cq, 2, IBV_WC_WR_FLUSH_ERR, IBV_WC_SEND);
		assert_int_equal(post_one(w.qp, IBV_WR_SEND, 4, 0), 0);
		assert_completion(&w.send_cq, 4, IBV_WC_WR_FLUSH_ERR, IBV_WC_SEND);
		assert_empty(&w.recv_cq); /* receiving goes on */
		assert_int_equal(vb_receive_queue_count(&w.qp->receive), 1);
		assert_int_equal(step(w.qp, IBV_QPS_RTS, 0), 0);
		assert_int_equal(post_one(w.qp, IBV_WR_SEND, 5, IBV_SEND_SIGNALED), 0);
		complete(IBV_WC_SUCCESS);
		assert_completion(&w.send_cq, 5, IBV_WC_SUCCESS, IBV_WC_SEND);
		world_close(&w);
	}
}

static void a_failed_receive_says_so_and_raises_its_event(void **state)
{
	struct vb_fault_record why = {.fault = VB_FAULT_LOCAL_LENGTH};
	struct vb_taken_receive taken;

	(void)state;
	open_with(IBV_QPT_RC, 16, false);
	assert_int_equal(post_one(w.qp, IBV_WR_SEND, 1, 0), 0);
	assert_int_equal(post_receive(w.qp, 2), 0);
	assert_int_equal(post_receive(w.qp, 3), 0);
	vb_lock_take(&w.qp->lock);
	assert_true(vb_qp_take_receive(w.qp, &taken));
	vb_qp_fail_receive(w.qp, &taken, IBV_WC_LOC_LEN_ERR, &why, IBV_EVENT_QP_REQ_ERR, true, FIXTURE_NOW);
	/* Nothing more to take, and a second failure is no news. */
	assert_false(vb_qp_take_receive(w.qp, &taken));
	vb_qp_fail_receive(w.qp, NULL, IBV_WC_LOC_LEN_ERR, &why, IBV_EVENT_QP_ACCESS_ERR, false, FIXTURE_NOW);
	vb_lock_release(&w.qp->lock);
	assert_int_equal(w.qp->fault.fault, VB_FAULT_LOCAL_LENGTH);
	assert_int_equal(w.qp->fault.wr_id, 2);
	assert_completion(&w.recv_cq, 2, IBV_WC_LOC_LEN_ERR, IBV_WC_RECV);
	assert_completion(&w.recv_cq, 3, IBV_WC_WR_FLUSH_ERR, IBV_WC_RECV);
	assert_completion(&w.send_cq, 1, IBV_WC_WR_FLUSH_ERR, IBV_WC_SEND);
	assert_int_equal(notes.events, 1);
	assert_int_equal(notes.event[0], IBV_EVENT_QP_REQ_ERR);
	world_close(&w);
}

static void users_of_a_shared_queue_say_when_they_are_done(void **state)
{
	struct ibv_recv_wr wr = {.wr_id = 5}, *bad;
	struct vb_taken_receive taken;

	(void)state;
	open_with(IBV_QPT_RC, 16, true);
	assert_int_equal(w.srq.users, 1);
	assert_int_equal(vb_srq_post(&w.srq, &wr, &bad), 0);
	assert_int_equal(vb_srq_post(&w.srq, &wr, &bad), 0);
	vb_lock_take(&w.qp->lock);
	assert_true(vb_qp_take_receive(w.qp, &taken));
	vb_lock_release(&w.qp->lock);
	assert_int_equal(taken.wr_id, 5);
	assert_int_equal(step(w.qp, IBV_QPS_ERR, 0), 0);
	assert_int_equal(notes.events, 1);
	assert_int_equal(notes.event[0], IBV_EVENT_QP_LAST_WQE_REACHED);
	/* The shared queue is not flushed: others use it. */
	assert_empty(&w.recv_cq);
	assert_int_equal(vb_receive_queue_count(&w.srq.queue), 1);
	assert_int_equal(step(w.qp, IBV_QPS_RESET, 0), 0);
	assert_int_equal(step(w.qp, IBV_QPS_ERR, 0), 0);
	assert_int_equal(notes.events, 2);
	world_close(&w);
}

static void an_overrun_ends_the_queue_pair_once(void **state)
{
	(void)state;
	open_with(IBV_QPT_RC, 2, false);
	for (uint64_t i = 1; i <= 6; i++)
		assert_int_equal(post_one(w.qp, IBV_WR_SEND, i, IBV_SEND_SIGNALED), 0);
	assert_int_equal(post_receive(w.qp, 20), 0);
	complete(IBV_WC_SUCCESS);
	complete(IBV_WC_SUCCESS);
	assert_int_equal(w.qp->state, IBV_QPS_RTS);
	complete(IBV_WC_SUCCESS);
	assert_int_equal(w.qp->state, IBV_QPS_ERR);
	assert_int_equal(w.qp->fault.fault, VB_FAULT_CQ_OVERRUN);
	assert_int_equal(w.qp->fault.wr_id, 3);
	assert_int_equal(vb_send_queue_count(&w.qp->send), 0);
	assert_int_equal(notes.events, 2);
	assert_int_equal(notes.event[0], IBV_EVENT_CQ_ERR);
	assert_int_equal(notes.event[1], IBV_EVENT_QP_FATAL);
	/* The other queue is whole: its flush arrives. */
	assert_completion(&w.recv_cq, 20, IBV_WC_WR_FLUSH_ERR, IBV_WC_RECV);
	assert_completion(&w.send_cq, 1, IBV_WC_SUCCESS, IBV_WC_SEND);
	assert_completion(&w.send_cq, 2, IBV_WC_SUCCESS, IBV_WC_SEND);
	assert_empty(&w.send_cq);
	world_close(&w);
}

/* The overrun happens in the middle of a flush, in SQE, where it still changes the state. */
static void an_overrun_while_flushing_in_sqe(void **state)
{
	(void)state;
	open_with(IBV_QPT_UD, 2, false);
	for (uint64_t i = 1; i <= 6; i++)
		assert_int_equal(post_one(w.qp, IBV_WR_SEND, i, 0), 0);
	assert_int_equal(post_receive(w.qp, 20), 0);
	fail_send(VB_FAULT_RANGE);
	assert_int_equal(w.qp->state, IBV_QPS_ERR);
	assert_int_equal(vb_send_queue_count(&w.qp->send), 0);
	assert_int_equal(w.qp->fault.fault, VB_FAULT_RANGE); /* the first */
	assert_completion(&w.recv_cq, 20, IBV_WC_WR_FLUSH_ERR, IBV_WC_RECV);
	assert_completion(&w.send_cq, 1, IBV_WC_LOC_PROT_ERR, IBV_WC_SEND);
	assert_completion(&w.send_cq, 2, IBV_WC_WR_FLUSH_ERR, IBV_WC_SEND);
	assert_empty(&w.send_cq);
	world_close(&w);
}

static void a_receive_completion_can_overrun_too(void **state)
{
	struct vb_completion completion = {.wr_id = 1, .opcode = IBV_WC_RECV, .qpn = FIXTURE_QPN};

	(void)state;
	open_with(IBV_QPT_RC, 1, false);
	vb_lock_take(&w.qp->lock);
	vb_qp_complete_receive(w.qp, &completion);
	assert_int_equal(w.qp->state, IBV_QPS_RTS);
	vb_qp_complete_receive(w.qp, &completion);
	vb_lock_release(&w.qp->lock);
	assert_int_equal(w.qp->state, IBV_QPS_ERR);
	assert_int_equal(notes.event[0], IBV_EVENT_CQ_ERR);
	world_close(&w);
}

static void communication_is_established_once(void **state)
{
	(void)state;
	world_open(&w, IBV_QPT_RC, 16, false, false);
	bring_to(w.qp, IBV_QPS_RTR);
	vb_lock_take(&w.qp->lock);
	vb_qp_communication_established(w.qp);
	vb_qp_communication_established(w.qp);
	vb_lock_release(&w.qp->lock);
	assert_int_equal(notes.events, 1);
	assert_int_equal(notes.event[0], IBV_EVENT_COMM_EST);
	bring_to(w.qp, IBV_QPS_RTS);
	vb_lock_take(&w.qp->lock);
	vb_qp_communication_established(w.qp);
	vb_lock_release(&w.qp->lock);
	assert_int_equal(notes.events, 1); /* RTS: there is nothing to tell any more */
	world_close(&w);
}

/* Typed from IBA 11.6.2 and ibv_poll_cq(3). */
static void every_fault_has_its_status(void **state)
{
	static const struct {
		const char *fault;
		enum ibv_wc_status status;
	} expected[] = {
		{"NONE", IBV_WC_SUCCESS},
		{"KEY_UNKNOWN", IBV_WC_LOC_PROT_ERR},
		{"KEY_INVALIDATED", IBV_WC_LOC_PROT_ERR},
		{"KEY_NOT_LOCAL", IBV_WC_LOC_PROT_ERR},
		{"PD_MISMATCH", IBV_WC_LOC_PROT_ERR},
		{"QP_MISMATCH", IBV_WC_LOC_PROT_ERR},
		{"RIGHTS", IBV_WC_LOC_PROT_ERR},
		{"QP_RIGHTS", IBV_WC_LOC_ACCESS_ERR},
		{"RANGE", IBV_WC_LOC_PROT_ERR},
		{"UNALIGNED_ATOMIC", IBV_WC_LOC_QP_OP_ERR},
		{"UNMAPPED", IBV_WC_LOC_PROT_ERR},
		{"BIND", IBV_WC_MW_BIND_ERR},
		{"LOCAL_LENGTH", IBV_WC_LOC_LEN_ERR},
		{"LOCAL_OPERATION", IBV_WC_LOC_QP_OP_ERR},
		{"CQ_OVERRUN", IBV_WC_FATAL_ERR},
		{"FLUSHED", IBV_WC_WR_FLUSH_ERR},
		{"PSN_SEQUENCE", IBV_WC_REM_INV_REQ_ERR},
		{"OPCODE_SEQUENCE", IBV_WC_REM_INV_REQ_ERR},
		{"OPCODE_UNSUPPORTED", IBV_WC_REM_INV_REQ_ERR},
		{"PACKET_LENGTH", IBV_WC_REM_INV_REQ_ERR},
		{"MESSAGE_LENGTH", IBV_WC_REM_INV_REQ_ERR},
		{"TOO_MANY_READS", IBV_WC_REM_INV_REQ_ERR},
		{"NO_RECEIVE", IBV_WC_REM_OP_ERR},
		{"RESPONDER_OPERATION", IBV_WC_REM_OP_ERR},
		{"RETRY_EXCEEDED", IBV_WC_RETRY_EXC_ERR},
		{"RNR_RETRY_EXCEEDED", IBV_WC_RNR_RETRY_EXC_ERR},
		{"REMOTE_INVALID_REQUEST", IBV_WC_REM_INV_REQ_ERR},
		{"REMOTE_ACCESS", IBV_WC_REM_ACCESS_ERR},
		{"REMOTE_OPERATION", IBV_WC_REM_OP_ERR},
		{"BAD_RESPONSE", IBV_WC_BAD_RESP_ERR},
		{"FRAME", IBV_WC_WR_FLUSH_ERR},
		{"FRAME_CRC", IBV_WC_WR_FLUSH_ERR},
		{"MESSAGE_SEQUENCE", IBV_WC_WR_FLUSH_ERR},
		{"TERMINATED", IBV_WC_WR_FLUSH_ERR},
		{"CLOSED", IBV_WC_WR_FLUSH_ERR},
		{"RESET", IBV_WC_WR_FLUSH_ERR},
		{"TIMED_OUT", IBV_WC_RETRY_EXC_ERR},
		{"XRC_SRQ", IBV_WC_LOC_QP_OP_ERR},
	};

	(void)state;
	for (int fault = 0; fault < VB_FAULT_COUNT; fault++) {
		bool found = false;

		for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
			if (strcmp(expected[i].fault, vb_fault_name((enum vb_fault)fault)) == 0) {
				assert_int_equal(vb_fault_to_wc_status((enum vb_fault)fault), expected[i].status);
				found = true;
			}
		if (!found)
			print_error("%s is not listed here\n", vb_fault_name((enum vb_fault)fault));
		assert_true(found);
	}
	assert_int_equal(vb_fault_to_wc_status(VB_FAULT_COUNT), IBV_WC_GENERAL_ERR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_the_signalled_and_the_failed_complete),
		cmocka_unit_test(a_failed_send_takes_the_rest_with_it),
		cmocka_unit_test(unreliable_sends_fail_into_sqe),
		cmocka_unit_test(a_failed_receive_says_so_and_raises_its_event),
		cmocka_unit_test(users_of_a_shared_queue_say_when_they_are_done),
		cmocka_unit_test(an_overrun_ends_the_queue_pair_once),
		cmocka_unit_test(an_overrun_while_flushing_in_sqe),
		cmocka_unit_test(a_receive_completion_can_overrun_too),
		cmocka_unit_test(communication_is_established_once),
		cmocka_unit_test(every_fault_has_its_status),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
