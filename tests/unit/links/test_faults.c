/* SPDX-License-Identifier: MIT
 *
 * Faults on purpose: the same seed decides the same way, shares are met, single packets are singled out, and what is no
 * specification is refused with a reason.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "links/faults.h"

enum { MANY = 20000 };

static struct vb_faults *make(const char *specification)
{
	struct vb_faults *faults = NULL;
	char why[128] = "";

	if (vb_faults_create(&faults, specification, why, sizeof(why)) != 0)
		fail_msg("%s: %s", specification, why);
	return faults;
}

static struct vb_faults_action decide(struct vb_faults *faults, uint32_t qpn, uint32_t psn, bool is_request)
{
	struct vb_faults_packet packet = {.qpn = qpn, .psn = psn, .is_request = is_request};
	struct vb_faults_action action;

	vb_faults_decide(faults, &packet, &action);
	return action;
}

static uint64_t fingerprint(const char *specification, unsigned *dropped)
{
	struct vb_faults *faults = make(specification);
	uint64_t print = 0;

	*dropped = 0;
	for (uint32_t i = 0; i < MANY; i++) {
		/* Other queue pairs and PSNs than last time: the decision goes by order. */
		struct vb_faults_action action = decide(faults, 7 + *dropped % 2, i, true);

		print = print * 31 + action.drop + 2u * action.duplicate + 4u * action.corrupt + 8u * action.behind +
			(uint64_t)action.delay;
		*dropped += action.drop;
	}
	vb_faults_destroy(faults);
	return print;
}

static void test_seeds(void **state)
{
	unsigned dropped, again, other;
	uint64_t first = fingerprint("seed=7,loss=1%,dup=2%,corrupt=0.5%,reorder=3%,delay=1us..5us,delayed=10%", &dropped);

	(void)state;
	assert_true(first == fingerprint("seed=7,loss=1%,dup=2%,corrupt=0.5%,reorder=3%,delay=1us..5us,delayed=10%", &again));
	assert_int_equal(dropped, again);
	assert_true(first != fingerprint("seed=8,loss=1%,dup=2%,corrupt=0.5%,reorder=3%,delay=1us..5us,delayed=10%", &other));
	/* 1 % of 20,000 is 200, give or take five standard deviations (14). */
	assert_true(dropped > 130 && dropped < 270);
	/* Another fault added does not move those that were there. */
	(void)fingerprint("seed=7,loss=1%", &again);
	assert_int_equal(dropped, again);
	(void)fingerprint("seed=7,loss=0.01", &again);
	assert_int_equal(dropped, again);
}

static void test_singled_out(void **state)
{
	struct vb_faults *faults = make("drop-psn=+5,corrupt-psn=0xabx2,dup-packet=3");

	(void)state;
	for (uint32_t i = 0; i < 10; i++) {
		struct vb_faults_action action = decide(faults, 1, 0xfffffe + i, true);

		assert_int_equal(action.drop, i == 5);
		assert_int_equal(action.duplicate, i == 2);
	}
	assert_false(decide(faults, 1, 3, true).drop); /* sent again: passes */
	assert_true(decide(faults, 1, 0xab, true).corrupt);
	assert_true(decide(faults, 1, 0xab, true).corrupt);
	assert_false(decide(faults, 1, 0xab, true).corrupt);
	/* Another queue pair has counts of its own. */
	assert_false(decide(faults, 2, 100, true).drop);
	assert_true(decide(faults, 2, 105, true).drop);
	vb_faults_destroy(faults);
}

static void test_which(void **state)
{
	struct vb_faults *faults = make("loss=1,qp=#2,only=responses");

	(void)state;
	assert_false(decide(faults, 50, 1, false).drop);
	assert_true(decide(faults, 60, 1, false).drop);
	assert_false(decide(faults, 60, 1, true).drop);
	assert_false(decide(faults, 50, 2, false).drop);
	vb_faults_destroy(faults);
	faults = make("loss=100%,qp=60");
	assert_false(decide(faults, 50, 1, false).drop);
	assert_true(decide(faults, 60, 1, true).drop);
	vb_faults_destroy(faults);
}

static void test_delays(void **state)
{
	struct vb_faults *faults = make("delay=2ms..3ms");

	(void)state;
	for (uint32_t i = 0; i < 1000; i++) {
		vb_time delay = decide(faults, 1, i, true).delay;

		assert_true(delay >= VB_MILLISECONDS(2) && delay <= VB_MILLISECONDS(3));
	}
	vb_faults_destroy(faults);
	faults = make("reorder=100%");
	for (uint32_t i = 0; i < 1000; i++) {
		struct vb_faults_action action = decide(faults, 1, i, true);

		assert_true(action.behind >= 1 && action.behind <= 3);
	}
	vb_faults_destroy(faults);
}

static void test_nonsense(void **state)
{
	static const char *const wrong[] = {
		"loss", "loss=", "loss=2", "loss=101%", "loss=-1%", "loss=x", "los=1%", "delay=5", "delay=5ms..1ms", "delayed=5%",
		"drop-psn=", "drop-psn=0x1000000", "drop-psn=+", "drop-packet=0", "drop-packet=+1", "melt-psn=1", "qp=0", "qp=",
		"only=some", "seed=x", "seed=-1", "delay-psn=5", "loss=1%,=", "drop-psn=5x", "delay=0ms", "drop-cm=", "drop-cm=XYZ",
		"drop-cm=REQx", "drop-cm=REQx300", "drop-cm=RE",
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct vb_faults *faults;
		char why[128] = "";

		if (vb_faults_create(&faults, wrong[i], why, sizeof(why)) != -EINVAL)
			fail_msg("`%s` was taken", wrong[i]);
		assert_true(strlen(why) > 10);
	}
}

static void test_messages(void **state)
{
	struct vb_faults *faults = make("drop-cm=REQx3,drop-cm=SIDR_REP,loss=1%");
	struct vb_faults_messages messages;

	(void)state;
	assert_true(vb_faults_connection_messages(faults, &messages));
	for (unsigned i = VB_CM_REQ; i < VB_CM_ATTRIBUTE_END; i++)
		assert_int_equal(messages.lost[i - VB_CM_REQ], i == VB_CM_REQ ? 3 : i == VB_CM_SIDR_REP ? 1 : 0);
	vb_faults_destroy(faults);
	faults = make("loss=1%");
	assert_false(vb_faults_connection_messages(faults, &messages));
	vb_faults_destroy(faults);
}

static void test_keep_runs(void **state)
{
	static const struct {
		const char *specification;
		bool keep;
	} cases[] = {
		{"loss=1%", true},           {"corrupt=1%,seed=3", true},  {"drop-psn=+2,drop-cm=REQ", true},
		{"corrupt-packet=4", true},  {"loss=1%,dup=1%", false},    {"loss=1%,dup=0", true},
		{"delay=1ms", false},        {"reorder=1%", false},        {"loss=1%,dup-psn=3", false},
		{"reorder-packet=2", false}, {"delay=1us,delayed=1%", false}, {"cut=1%,short=50%,cut-packet=3", true},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct vb_faults *faults = make(cases[i].specification);

		if (vb_faults_keep_runs(faults) != cases[i].keep)
			fail_msg("%s", cases[i].specification);
		vb_faults_destroy(faults);
	}
}

/* FPDUs of a stream: what was said of packets holds, and they may be cut. Of the words for streams packets know nothing. */
static void test_streams(void **state)
{
	struct vb_faults *faults = make("cut-packet=3,corrupt-packet=2,corrupt-psn=0,short=50%,seed=9");
	struct vb_faults_packet fpdu = {.qpn = 1, .is_request = true, .is_fpdu = true};
	struct vb_faults_action action;
	unsigned shorter = 0, dropped, with_cut;

	(void)state;
	for (unsigned i = 1; i <= 5; i++) {
		vb_faults_decide(faults, &fpdu, &action);
		assert_int_equal(action.cut, i == 3);
		assert_int_equal(action.corrupt, i == 2);
	}
	for (unsigned i = 0; i < MANY; i++) {
		size_t length = vb_faults_shorten(faults, 1000);

		assert_in_range(length, 1, 1000);
		shorter += length < 1000;
		assert_int_equal(vb_faults_shorten(faults, 1), 1);
	}
	assert_in_range(shorter, MANY * 45 / 100, MANY * 55 / 100);
	vb_faults_destroy(faults);
	assert_int_equal(fingerprint("loss=5%,seed=4", &dropped), fingerprint("loss=5%,cut=50%,short=50%,seed=4", &with_cut));
	assert_int_equal(dropped, with_cut);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_seeds), cmocka_unit_test(test_singled_out), cmocka_unit_test(test_which),
		cmocka_unit_test(test_delays), cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_messages), cmocka_unit_test(test_keep_runs), cmocka_unit_test(test_streams),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
