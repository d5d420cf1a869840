/* SPDX-License-Identifier: MIT
 *
 * Congestion control alone, in virtual time, against values worked out by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "roce/congestion.h"
#include "roce/engine.h"

#define G 1000000000ull
#define START VB_SECONDS(7)

static struct vb_roce_congestion open(const char *text)
{
	struct vb_roce_congestion c;
	struct vb_roce_policy policy;

	assert_true(vb_roce_policy_parse(&policy, text));
	vb_roce_congestion_init(&c, 1024, &policy);
	return c;
}

static bool notify(struct vb_roce_congestion *c, vb_time after)
{
	return c->algorithm->notified(c, START + after);
}

static void pass(struct vb_roce_congestion *c, vb_time after, uint64_t bytes)
{
	c->algorithm->passed(c, START + after, bytes);
}

/* In parts of a million. */
static void assert_near(uint64_t seen, double expected)
{
	double difference = (double)seen - expected;

	if (difference < 0)
		difference = -difference;
	if (difference > expected / 100000) {
		print_error("%.0f, expected %.0f\n", (double)seen, expected);
		fail();
	}
}

static void nothing_happens_before_the_first_notification(void **state)
{
	struct vb_roce_congestion c = open("dcqcn:paper@40G");

	(void)state;
	assert_int_equal(c.rate, 40 * G);
	pass(&c, VB_SECONDS(5), 1u << 30);
	assert_int_equal(c.rate, 40 * G);
	assert_int_equal(vb_dcqcn_alpha(&c, VB_SECONDS(50)), VB_DCQCN_ONE);
	assert_int_equal(c.requests.size, VB_WINDOW_START);
}

/* Alpha begins at 1, so the first one halves; five timers of 55 us go halfway back, each. */
static void papers_cut_and_recovery(void **state)
{
	static const double rates[] = {20e9, 30e9, 35e9, 37.5e9, 38.75e9, 39.375e9};
	struct vb_roce_congestion c = open("dcqcn:paper@40G");

	(void)state;
	assert_true(notify(&c, 0));
	for (unsigned i = 0; i < 6; i++) {
		pass(&c, i * VB_MICROSECONDS(55) + 10, 0);
		assert_near(c.rate, rates[i]);
		assert_near(c.dcqcn.target, 40e9);
	}
	assert_near(vb_dcqcn_alpha(&c, START + VB_MICROSECONDS(55)), 255.0 / 256 * VB_DCQCN_ONE);
}

/* The second finds alpha a little lower, and the rate where recovery has brought it. */
static void papers_second_cut(void **state)
{
	struct vb_roce_congestion c = open("dcqcn:paper@40G");
	double alpha = 255.0 / 256 * 255 / 256;

	(void)state;
	notify(&c, 0);
	assert_true(notify(&c, VB_MICROSECONDS(111)));
	assert_near(c.dcqcn.target, 35e9);
	assert_near(c.rate, 35e9 * (1 - alpha / 2));
	assert_near(vb_dcqcn_alpha(&c, START + VB_MICROSECONDS(111)), (alpha * 255 / 256 + 1.0 / 256) * VB_DCQCN_ONE);
	/* and each one cuts, however soon it comes */
	assert_true(notify(&c, VB_MICROSECONDS(111) + 1));
	assert_near(c.dcqcn.target, 35e9 * (1 - alpha / 2));
}

/* After five stages of one kind the target rises by R_AI; beyond five of both by R_HAI, 2 R_HAI, ... */
static void papers_additive_and_hyper_increase(void **state)
{
	struct vb_roce_congestion c = open("dcqcn:paper@40G");
	double rate, target = 10e9;

	(void)state;
	/* A rate that is far from the line: 10 Gb/s, cut to 5. */
	c.rate = 10 * G;
	notify(&c, 0);
	rate = 5e9;
	for (unsigned i = 1; i <= 5; i++, rate = (rate + target) / 2)
		pass(&c, i * VB_MICROSECONDS(55), 0);
	assert_near(c.rate, rate);
	pass(&c, 6 * VB_MICROSECONDS(55), 0);
	target += 40e6;
	rate = (rate + target) / 2;
	assert_near(c.dcqcn.target, target);
	assert_near(c.rate, rate);
	/* Ten million bytes are a stage, too. Five of them still rise by 40 Mb/s each, because time has had its five. */
	for (unsigned i = 0; i < 6; i++)
		pass(&c, 6 * VB_MICROSECONDS(55), 10 * 1000 * 1000);
	target += 6 * 40e6;
	assert_near(c.dcqcn.target, target);
	pass(&c, 6 * VB_MICROSECONDS(55), 10 * 1000 * 1000);
	target += 200e6;
	assert_near(c.dcqcn.target, target);
	/* Time is at 6, bytes at 7: after one more of each the lesser is 7. */
	pass(&c, 7 * VB_MICROSECONDS(55), 0);
	target += 200e6;
	pass(&c, 7 * VB_MICROSECONDS(55), 10 * 1000 * 1000);
	target += 2 * 200e6;
	assert_near(c.dcqcn.target, target);
}

static void adapters_cut(void **state)
{
	struct vb_roce_congestion c = open("dcqcn@100G");
	double alpha = 1, g = 5.0 / 1024;

	(void)state;
	assert_true(notify(&c, 0));
	assert_near(c.rate, 50e9);
	assert_near(c.dcqcn.target, 100e9);
	/* Too soon for another cut. */
	assert_false(notify(&c, VB_MICROSECONDS(3)));
	assert_near(c.rate, 50e9);
	/* The CNP of the third period has raised alpha when that was over; nothing has raised the rate, so the target stays. */
	for (unsigned i = 0; i < 50; i++)
		alpha = i == 3 ? alpha * (1 - g) + g : alpha * (1 - g);
	assert_near(vb_dcqcn_alpha(&c, START + VB_MICROSECONDS(50)), alpha * VB_DCQCN_ONE);
	assert_true(notify(&c, VB_MICROSECONDS(50)));
	assert_near(c.rate, 50e9 * (1 - alpha / 2));
	assert_near(c.dcqcn.target, 100e9);
	/* One stage of recovery, by bytes; then the next cut takes the target along. */
	pass(&c, VB_MICROSECONDS(60), 32767);
	assert_near(c.rate, (50e9 * (1 - alpha / 2) + 100e9) / 2);
	notify(&c, VB_MICROSECONDS(100));
	assert_near(c.dcqcn.target, (50e9 * (1 - alpha / 2) + 100e9) / 2);
}

static void a_rate_stays_in_its_bounds(void **state)
{
	struct vb_roce_congestion c = open("dcqcn@100G");

	(void)state;
	for (unsigned i = 0; i < 10000; i++)
		notify(&c, i * VB_MICROSECONDS(4));
	assert_int_equal(c.rate, vb_dcqcn_adapter.minimum);
	/* An hour later it is at the line's again, in bounded time. */
	pass(&c, VB_SECONDS(3600), 0);
	assert_int_equal(c.rate, 100 * G);
	assert_int_equal(c.dcqcn.target, 100 * G);
	assert_true(notify(&c, VB_SECONDS(3601)));
	/* Alpha is forgotten by then. */
	assert_near(c.rate, 100e9);
}

static void timely_follows_the_gradient(void **state)
{
	struct vb_roce_congestion c = open("timely@40G");

	(void)state;
	c.rate = 10 * G;
	/* Short: faster, whatever the change. */
	c.algorithm->round_trip(&c, VB_MICROSECONDS(30));
	c.algorithm->round_trip(&c, VB_MICROSECONDS(45));
	assert_near(c.rate, 10.02e9);
	/* 45 to 100 us: the change is 0.875 * 55 + 0.125 * 13.125 us = 49.77, more than the minimum round trip of 20: slower by half, the
	 * most that one sample may do. */
	c.algorithm->round_trip(&c, VB_MICROSECONDS(100));
	assert_near(c.rate, 5.01e9);
	c.rate = vb_timely_default.minimum;
	/* Falling: the first still feels the rise; then each is a step, and the fifth five of them. */
	for (unsigned i = 1; i <= 6; i++)
		c.algorithm->round_trip(&c, VB_MICROSECONDS(100 - i * 5));
	assert_near(c.rate, 10e6 + (4 + 5) * 10e6);
	/* Far too long: by 0.8 (1 - high / sample). */
	c.rate = 10 * G;
	c.algorithm->round_trip(&c, VB_MICROSECONDS(1000));
	assert_true(c.rate > 59 * G / 10 && c.rate < 61 * G / 10);
	assert_false(notify(&c, 0));
}

static void policies_as_text(void **state)
{
	static const char *const wrong[] = {"", "dcqcn:", "dcqcn:book", "window@5G", "dcqcn@", "dcqcn@0", "dcqcn@5X", "dcqcn@G",
					    "dcqcn@5:paper", "window:paper", "DCQCN", "dcqcn ", "dcqcn@99999999999999999999G",
					    "timely:paper"};
	struct vb_roce_policy policy = {.window = 17};

	(void)state;
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_false(vb_roce_policy_parse(&policy, wrong[i]));
	assert_int_equal(policy.window, 17);
	assert_true(vb_roce_policy_parse(&policy, "dcqcn:paper@25G"));
	assert_ptr_equal(policy.dcqcn, &vb_dcqcn_paper);
	assert_int_equal(policy.line_rate, 25 * G);
	assert_string_equal(policy.algorithm->name, "dcqcn");
	assert_true(vb_roce_policy_parse(&policy, "timely@500M"));
	assert_int_equal(policy.line_rate, G / 2);
	assert_true(vb_roce_policy_parse(&policy, "window"));
	assert_false(policy.algorithm->has_rate);
}

static void policies_by_device(void **state)
{
	static const char *const wrong[] = {"", ",", "dcqcn,", "=dcqcn", "roce_a=", "roce_a=book", "roce_a=dcqcn,book", "a=b=dcqcn"};
	static struct vb_roce_policies policies;
	char word[VB_ROCE_DEVICE_NAME], many[400] = "dcqcn";

	(void)state;
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_false(vb_roce_policies_parse(&policies, wrong[i], word));
	assert_false(vb_roce_policies_parse(&policies, "roce_a=dcqcn,roce_b=book", word));
	assert_string_equal(word, "roce_b=book");
	for (unsigned i = 0; i < VB_ROCE_MOST_POLICIES; i++)
		strcat(many, ",dcqcn");
	assert_false(vb_roce_policies_parse(&policies, many, word));
	memset(many, 'x', 100);
	assert_false(vb_roce_policies_parse(&policies, many, word));

	assert_string_equal(vb_roce_policy_for("roce_a")->algorithm->name, "window");
	assert_true(vb_roce_policies_parse(&policies, "roce_a=dcqcn@25G,timely,roce_b=window", word));
	vb_roce_policies_set(&policies);
	assert_int_equal(vb_roce_policy_for("roce_a")->line_rate, 25 * G);
	assert_string_equal(vb_roce_policy_for("roce_b")->algorithm->name, "window");
	assert_string_equal(vb_roce_policy_for("roce_c")->algorithm->name, "timely");
	assert_string_equal(vb_roce_policy_for(NULL)->algorithm->name, "timely");
	vb_roce_policies_set(NULL);
	assert_string_equal(vb_roce_policy_for("roce_a")->algorithm->name, "window");
}

/* At 8 Gb/s a packet of 1,024 bytes takes 1,106 ns on the line; a burst's worth may leave at once, then half of it at a time. */
static void rc_is_paced(void **state)
{
	struct vb_roce_requester requester = {.congestion = open("dcqcn@8G")};
	unsigned sent = 0, again = 0;
	vb_time now = START;

	(void)state;
	for (; vb_roce_pace_allows(&requester, now); sent++)
		vb_roce_pace_sent(&requester, now, 1, 1024);
	assert_int_equal(sent, 50000 / 1106 + 1);
	assert_int_equal(requester.paced - START, sent * 1106);
	assert_int_equal(requester.pace_until, requester.paced - VB_MICROSECONDS(25));
	assert_false(vb_roce_pace_allows(&requester, requester.pace_until - 1));
	now = requester.pace_until;
	for (; vb_roce_pace_allows(&requester, now); again++)
		vb_roce_pace_sent(&requester, now, 1, 1024);
	assert_in_range(again, 25000 / 1106, 25000 / 1106 + 1);
	/* A long silence saves nothing up. */
	now += VB_SECONDS(1);
	for (sent = 0; vb_roce_pace_allows(&requester, now); sent++)
		vb_roce_pace_sent(&requester, now, 1, 1024);
	assert_int_equal(sent, 50000 / 1106 + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_happens_before_the_first_notification),
		cmocka_unit_test(papers_cut_and_recovery),
		cmocka_unit_test(papers_second_cut),
		cmocka_unit_test(papers_additive_and_hyper_increase),
		cmocka_unit_test(adapters_cut),
		cmocka_unit_test(a_rate_stays_in_its_bounds),
		cmocka_unit_test(timely_follows_the_gradient),
		cmocka_unit_test(policies_as_text),
		cmocka_unit_test(policies_by_device),
		cmocka_unit_test(rc_is_paced),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
