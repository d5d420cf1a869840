/* SPDX-License-Identifier: MIT
 *
 * Completion queues: order, overrun, resizing, arming, moderation, discarding.
 */
#include "fixture.h"
#include "profiles/limits.h"

static struct vb_cq cq;

static int set_up(void **state)
{
	(void)state;
	memset(&notes, 0, sizeof(notes));
	assert_int_equal(vb_cq_init(&cq, &fixture_host, NULL, 5), 0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	vb_cq_fini(&cq);
	return 0;
}

static bool push_as(uint64_t wr_id, enum ibv_wc_status status, bool solicited, vb_time when, uint32_t qpn)
{
	struct vb_completion completion = {
		.wr_id = wr_id, .status = status, .solicited = solicited, .timestamp = when, .qpn = qpn};

	return vb_cq_push(&cq, &completion);
}

static bool push_plain(uint64_t wr_id)
{
	return push_as(wr_id, IBV_WC_SUCCESS, false, 0, 1);
}

static void assert_polls(uint64_t wr_id)
{
	struct ibv_wc wc;

	assert_int_equal(vb_cq_poll(&cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, wr_id);
}

static void completions_come_out_in_order(void **state)
{
	struct ibv_wc wc[8];

	(void)state;
	assert_true(vb_cq_looks_empty(&cq));
	assert_int_equal(vb_cq_poll(&cq, 8, wc), 0);
	for (uint64_t i = 0; i < 100; i++) {
		assert_true(push_plain(2 * i));
		assert_true(push_plain(2 * i + 1));
		assert_false(vb_cq_looks_empty(&cq));
		assert_int_equal(vb_cq_poll(&cq, 0, wc), 0);
		assert_int_equal(vb_cq_poll(&cq, 8, wc), 2);
		assert_int_equal(wc[0].wr_id, 2 * i);
		assert_int_equal(wc[1].wr_id, 2 * i + 1);
	}
}

static void every_field_reaches_the_public_struct(void **state)
{
	struct vb_completion completion = {
		.wr_id = 1, .status = IBV_WC_LOC_LEN_ERR, .opcode = IBV_WC_RECV, .vendor_error = 3, .byte_length = 4,
		.immediate = 0x01020304, .qpn = 6, .source_qpn = 7, .wc_flags = IBV_WC_WITH_IMM | IBV_WC_GRH,
		.pkey_index = 9, .service_level = 10,
	};
	struct ibv_wc wc;

	(void)state;
	vb_completion_to_wc(&completion, &wc);
	assert_int_equal(wc.wr_id, 1);
	assert_int_equal(wc.status, IBV_WC_LOC_LEN_ERR);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.vendor_err, 3);
	assert_int_equal(wc.byte_len, 4);
	assert_int_equal(wc.imm_data, 0x01020304);
	assert_int_equal(wc.qp_num, 6);
	assert_int_equal(wc.src_qp, 7);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM | IBV_WC_GRH);
	assert_int_equal(wc.pkey_index, 9);
	assert_int_equal(wc.sl, 10);
	completion.wc_flags = IBV_WC_WITH_INV;
	vb_completion_to_wc(&completion, &wc);
	assert_int_equal(wc.invalidated_rkey, 0x01020304);
}

static void sizes_are_checked(void **state)
{
	struct vb_cq other;

	(void)state;
	assert_int_equal(vb_cq_init(&other, &fixture_host, NULL, 0), -EINVAL);
	assert_int_equal(vb_cq_init(&other, &fixture_host, NULL, VB_MAX_CQE + 1), -EINVAL);
	assert_int_equal(vb_cq_resize(&cq, 0), -EINVAL);
	assert_int_equal(vb_cq_resize(&cq, VB_MAX_CQE + 1), -EINVAL);
	assert_int_equal(cq.capacity, 5);
}

static void an_overrun_is_told_once_and_for_good(void **state)
{
	struct ibv_wc wc[8];

	(void)state;
	for (uint64_t i = 0; i < 5; i++)
		assert_true(push_plain(i));
	assert_int_equal(notes.events, 0);
	assert_false(push_plain(5));
	assert_int_equal(notes.events, 1);
	assert_int_equal(notes.event[0], IBV_EVENT_CQ_ERR);
	assert_false(push_plain(6));
	/* What was there can still be polled; room does not heal it. */
	assert_int_equal(vb_cq_poll(&cq, 8, wc), 5);
	assert_false(push_plain(7));
	assert_int_equal(notes.events, 1);
}

static void resizing_keeps_what_waits(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 3; i++)
		assert_true(push_plain(i));
	assert_polls(0);
	for (uint64_t i = 3; i < 6; i++)
		assert_true(push_plain(i));
	assert_int_equal(vb_cq_resize(&cq, 4), -EINVAL);
	assert_int_equal(vb_cq_resize(&cq, 5), 0);
	assert_int_equal(vb_cq_resize(&cq, 100), 0);
	for (uint64_t i = 6; i < 101; i++)
		assert_true(push_plain(i));
	assert_int_equal(notes.events, 0);
	assert_false(push_plain(101));
	for (uint64_t i = 1; i < 101; i++)
		assert_polls(i);
	assert_int_equal(vb_cq_resize(&cq, 1), 0);
	assert_int_equal(cq.capacity, 1);
}

static void arming_is_one_shot(void **state)
{
	(void)state;
	assert_true(push_plain(0));
	assert_int_equal(notes.completion_events, 0);
	/* What waits already does not fire. */
	vb_cq_arm(&cq, false);
	assert_int_equal(notes.completion_events, 0);
	assert_true(push_plain(1));
	assert_int_equal(notes.completion_events, 1);
	assert_true(push_plain(2));
	assert_int_equal(notes.completion_events, 1);
	vb_cq_arm(&cq, false);
	assert_true(push_plain(3));
	assert_int_equal(notes.completion_events, 2);
}

static void disarmed_it_makes_no_event(void **state)
{
	(void)state;
	assert_false(vb_cq_disarm(&cq));
	vb_cq_arm(&cq, false);
	assert_true(vb_cq_disarm(&cq));
	assert_false(vb_cq_disarm(&cq));
	assert_true(push_plain(0));
	assert_int_equal(notes.completion_events, 0);
	/* Too late: it was told. */
	vb_cq_arm(&cq, false);
	assert_true(push_plain(1));
	assert_int_equal(notes.completion_events, 1);
	assert_false(vb_cq_disarm(&cq));
	/* An event that moderation owes is not taken back. */
	vb_cq_moderate(&cq, 2, 0);
	vb_cq_arm(&cq, false);
	assert_true(push_plain(2));
	assert_false(vb_cq_disarm(&cq));
	assert_true(push_plain(3));
	assert_int_equal(notes.completion_events, 2);
}

static void what_a_handful_leaves_makes_an_event(void **state)
{
	struct ibv_wc wc[4];

	(void)state;
	for (uint64_t i = 0; i < 5; i++)
		assert_true(push_plain(i));
	vb_cq_arm(&cq, false);
	assert_int_equal(notes.completion_events, 0);
	/* One by one: to the end. */
	assert_int_equal(vb_cq_poll(&cq, 1, wc), 1);
	assert_int_equal(notes.completion_events, 0);
	assert_int_equal(vb_cq_poll(&cq, 3, wc), 3);
	assert_int_equal(notes.completion_events, 1);
	/* Not armed any more. */
	assert_true(push_plain(5));
	assert_int_equal(vb_cq_poll(&cq, 2, wc), 2);
	assert_int_equal(notes.completion_events, 1);
	/* All of it: nothing is left to be told. */
	assert_true(push_plain(6));
	vb_cq_arm(&cq, false);
	assert_int_equal(vb_cq_poll(&cq, 4, wc), 1);
	assert_int_equal(notes.completion_events, 1);
}

static void solicited_arming_waits_for_solicited_or_error(void **state)
{
	(void)state;
	vb_cq_arm(&cq, true);
	assert_true(push_plain(0));
	assert_int_equal(notes.completion_events, 0);
	assert_true(push_as(1, IBV_WC_SUCCESS, true, 0, 1));
	assert_int_equal(notes.completion_events, 1);
	vb_cq_arm(&cq, true);
	assert_true(push_as(2, IBV_WC_WR_FLUSH_ERR, false, 0, 1));
	assert_int_equal(notes.completion_events, 2);
	/* Stronger arming replaces weaker; weaker does not weaken. */
	vb_cq_arm(&cq, true);
	vb_cq_arm(&cq, false);
	assert_true(push_plain(3));
	assert_int_equal(notes.completion_events, 3);
	vb_cq_arm(&cq, false);
	vb_cq_arm(&cq, true);
	assert_true(push_plain(4));
	assert_int_equal(notes.completion_events, 4);
}

static void moderation_counts(void **state)
{
	(void)state;
	vb_cq_moderate(&cq, 3, 0);
	vb_cq_arm(&cq, false);
	assert_true(push_plain(0));
	assert_true(push_plain(1));
	assert_int_equal(notes.completion_events, 0);
	assert_int_equal(notes.deadlines, 0);
	assert_true(push_plain(2));
	assert_int_equal(notes.completion_events, 1);
	/* Counting starts anew with each event. */
	vb_cq_arm(&cq, false);
	assert_true(push_plain(3));
	assert_int_equal(notes.completion_events, 1);
	/* An event that is owed is told when the rule changes. */
	vb_cq_moderate(&cq, 0, 0);
	assert_int_equal(notes.completion_events, 2);
}

static void moderation_waits_no_longer_than_its_period(void **state)
{
	(void)state;
	vb_cq_moderate(&cq, 3, 50);
	vb_cq_arm(&cq, false);
	assert_true(push_as(0, IBV_WC_SUCCESS, false, 1000, 1));
	assert_true(push_as(1, IBV_WC_SUCCESS, false, 2000, 1));
	assert_int_equal(notes.deadlines, 1);
	assert_int_equal(notes.deadline, 1000 + VB_MICROSECONDS(50));
	vb_cq_expire(&cq, notes.deadline - 1);
	assert_int_equal(notes.completion_events, 0);
	assert_int_equal(notes.deadlines, 2);
	vb_cq_expire(&cq, notes.deadline);
	assert_int_equal(notes.completion_events, 1);
	vb_cq_expire(&cq, notes.deadline + 1);
	assert_int_equal(notes.completion_events, 1);
	/* Period alone: every event waits for it. */
	vb_cq_moderate(&cq, 0, 10);
	vb_cq_arm(&cq, false);
	assert_true(push_as(2, IBV_WC_SUCCESS, false, 5000, 1));
	assert_int_equal(notes.completion_events, 1);
	vb_cq_expire(&cq, 15000);
	assert_int_equal(notes.completion_events, 2);
}

static void discarding_takes_one_queue_pair_only(void **state)
{
	struct ibv_wc wc[8];

	(void)state;
	for (uint64_t i = 0; i < 3; i++)
		assert_true(push_plain(i));
	assert_int_equal(vb_cq_poll(&cq, 3, wc), 3);
	assert_true(push_as(10, IBV_WC_SUCCESS, false, 0, 1));
	assert_true(push_as(11, IBV_WC_SUCCESS, false, 0, 2));
	assert_true(push_as(12, IBV_WC_SUCCESS, false, 0, 1));
	assert_true(push_as(13, IBV_WC_SUCCESS, false, 0, 3));
	vb_cq_discard(&cq, 1);
	assert_polls(11);
	assert_polls(13);
	assert_true(vb_cq_looks_empty(&cq));
	vb_cq_discard(&cq, 1);
	assert_true(vb_cq_looks_empty(&cq));
}

static void extended_polling_takes_one_at_a_time(void **state)
{
	struct vb_completion current = {0};

	(void)state;
	assert_false(vb_cq_take(&cq, &current));
	assert_true(push_plain(1));
	assert_true(push_plain(2));
	assert_true(vb_cq_take(&cq, &current));
	assert_int_equal(current.wr_id, 1);
	assert_polls(2);
	assert_false(vb_cq_take(&cq, &current));
	assert_int_equal(current.wr_id, 1);
}

/* A thread that is preempted between the clock and the lock stamps what comes behind others. */
static void timestamps_never_run_backwards(void **state)
{
	const vb_time stamps[] = {100, 70, 90, 130}, taken[] = {100, 100, 100, 130};
	struct vb_completion current = {0};

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		struct vb_completion completion = {.wr_id = i, .timestamp = stamps[i]};

		assert_true(vb_cq_push(&cq, &completion));
	}
	for (unsigned i = 0; i < 4; i++) {
		assert_true(vb_cq_take(&cq, &current));
		assert_int_equal(current.wr_id, i);
		assert_int_equal(current.timestamp, taken[i]);
	}
}

int main(void)
{
#define CQ_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		CQ_TEST(completions_come_out_in_order),
		CQ_TEST(every_field_reaches_the_public_struct),
		CQ_TEST(sizes_are_checked),
		CQ_TEST(an_overrun_is_told_once_and_for_good),
		CQ_TEST(resizing_keeps_what_waits),
		CQ_TEST(arming_is_one_shot),
		CQ_TEST(disarmed_it_makes_no_event),
		CQ_TEST(what_a_handful_leaves_makes_an_event),
		CQ_TEST(solicited_arming_waits_for_solicited_or_error),
		CQ_TEST(moderation_counts),
		CQ_TEST(moderation_waits_no_longer_than_its_period),
		CQ_TEST(discarding_takes_one_queue_pair_only),
		CQ_TEST(extended_polling_takes_one_at_a_time),
		CQ_TEST(timestamps_never_run_backwards),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
