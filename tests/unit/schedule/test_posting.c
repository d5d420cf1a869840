/* SPDX-License-Identifier: MIT
 *
 * When what is posted leaves (schedule/posting.h).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "schedule/posting.h"

/* A thousand small ones in a row: the first at once, then in runs, and none waits behind the run that it belongs to. */
static void small_requests_leave_in_runs(void **state)
{
	unsigned calls = 0, waiting = 0;

	(void)state;
	for (unsigned posts = 1; posts <= 1000; posts++) {
		enum vb_posting posting = vb_posting_decide(posts, 1024, false);

		assert_int_equal(posting == VB_POSTING_NOW, posts <= VB_POSTS_AT_ONCE);
		waiting = posting == VB_POSTING_WAIT ? waiting + 1 : 0;
		calls += posting != VB_POSTING_WAIT;
		assert_true(waiting < VB_POSTS_TOGETHER);
	}
	assert_int_equal(calls, VB_POSTS_AT_ONCE + 1000 / VB_POSTS_TOGETHER);
}

/* As many as are a run: at no length do more bytes wait than that. */
static void longer_ones_wait_for_fewer(void **state)
{
	(void)state;
	for (uint32_t length = 1; length <= VB_SMALL_REQUEST; length++) {
		unsigned waiting = 0, calls = 0;

		for (unsigned posts = VB_POSTS_AT_ONCE + 1; posts <= 200; posts++) {
			enum vb_posting posting = vb_posting_decide(posts, length, false);

			waiting = posting == VB_POSTING_WAIT ? waiting + 1 : 0;
			calls += posting != VB_POSTING_WAIT;
			assert_true(waiting < VB_POSTS_TOGETHER && waiting * length < VB_BYTES_TOGETHER);
		}
		assert_true(calls <= 200 / VB_POSTS_TOGETHER + 200 * length / VB_BYTES_TOGETHER * 4 / 3 + 1);
	}
	assert_int_equal(vb_posts_together(1024), VB_POSTS_TOGETHER);
	assert_int_equal(vb_posts_together(4096), 15);
	assert_int_equal(vb_posts_together(VB_SMALL_REQUEST), 3);
}

static void large_requests_leave_at_once(void **state)
{
	(void)state;
	for (unsigned posts = 1; posts <= 1000; posts++) {
		assert_int_equal(vb_posting_decide(posts, VB_SMALL_REQUEST + 1, false), VB_POSTING_NOW);
		assert_int_equal(vb_posting_decide(posts, VB_SMALL_REQUEST + 1, true), VB_POSTING_NOW);
	}
	assert_int_equal(vb_posting_decide(VB_POSTS_AT_ONCE + 1, VB_SMALL_REQUEST, false), VB_POSTING_WAIT);
}

/* A thread in the middle of a pass sends them when it is through, so even the first may wait for that. */
static void a_thread_that_delivers_is_waited_for(void **state)
{
	(void)state;
	assert_int_equal(vb_posting_decide(1, 8, true), VB_POSTING_WAIT);
	assert_int_equal(vb_posting_decide(VB_POSTS_TOGETHER, 8, true), VB_POSTING_TOGETHER);
}

/* Where a copy carries them, large ones wait for one another too: for no more than is copied at once. */
static void copied_ones_leave_together(void **state)
{
	(void)state;
	for (uint32_t length = 1; length <= VB_COPIED_TOGETHER; length *= 2) {
		unsigned waiting = 0, calls = 0;

		for (unsigned posts = 1; posts <= 1000; posts++) {
			enum vb_posting posting = vb_posting_decide_copied(posts, length);

			assert_true(posts > VB_POSTS_AT_ONCE || posting == VB_POSTING_NOW);
			waiting = posting == VB_POSTING_WAIT ? waiting + 1 : 0;
			calls += posting != VB_POSTING_WAIT;
			assert_true(waiting < VB_POSTS_TOGETHER && waiting * length < VB_COPIED_TOGETHER);
		}
		assert_true(length != 65536 || calls == VB_POSTS_AT_ONCE + 1000 / 16);
		assert_true(length != VB_COPIED_TOGETHER || calls == 1000);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(small_requests_leave_in_runs),
		cmocka_unit_test(longer_ones_wait_for_fewer),
		cmocka_unit_test(large_requests_leave_at_once),
		cmocka_unit_test(a_thread_that_delivers_is_waited_for),
		cmocka_unit_test(copied_ones_leave_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
