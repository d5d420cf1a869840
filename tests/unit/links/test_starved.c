/* SPDX-License-Identifier: MIT
 *
 * A sender of UC or UD misses its receiver: when that and its host's verbenad are asked, and what the engine is told (links/udp/starved.c).
 * The engine and the exchange of datagrams are the test's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "io/inquiry.h"
#include "links/udp/udp_link.h"
#include "queue/qp.h"
#include "roce/roce.h"

enum { SENDER = 17, RECEIVER = 42, OTHER = 43 };

static struct {
	bool misses;
	uint32_t receiver;
	bool lives;                      /* as the engine was told last */
	unsigned open, asked;
	const struct vb_inquiry_answer *answer, *daemon_answer; /* that have come; NULL: none */
} play;

bool __wrap_vb_roce_misses_receiver(const struct vb_qp *qp, struct vb_path *path, uint32_t *qpn);
void __wrap_vb_roce_receiver_lives(struct vb_qp *qp, bool lives);
bool __wrap_vb_inquiry_begin(struct vb_inquiry_exchange *exchange, const struct vb_path *path, const struct vb_inquiry *question);
void __wrap_vb_inquiry_send(struct vb_inquiry_exchange *exchange);
bool __wrap_vb_inquiry_look(struct vb_inquiry_exchange *exchange);
void __wrap_vb_inquiry_end(struct vb_inquiry_exchange *exchange);

bool __wrap_vb_roce_misses_receiver(const struct vb_qp *qp, struct vb_path *path, uint32_t *qpn)
{
	assert_int_equal(qp->qpn, SENDER);
	*path = (struct vb_path){.source_port = 7};
	*qpn = play.receiver;
	return play.misses;
}

void __wrap_vb_roce_receiver_lives(struct vb_qp *qp, bool lives)
{
	assert_int_equal(qp->qpn, SENDER);
	play.lives = lives;
}

bool __wrap_vb_inquiry_begin(struct vb_inquiry_exchange *exchange, const struct vb_path *path, const struct vb_inquiry *question)
{
	assert_int_equal(path->source_port, 7);
	assert_int_equal(question->asker_qpn, SENDER);
	*exchange = (struct vb_inquiry_exchange){.process = *question, .reach = VB_REACH_SILENT};
	play.open++;
	return true;
}

void __wrap_vb_inquiry_send(struct vb_inquiry_exchange *exchange)
{
	assert_int_equal(exchange->process.qpn, play.receiver);
	play.asked++;
}

bool __wrap_vb_inquiry_look(struct vb_inquiry_exchange *exchange)
{
	if (play.daemon_answer) {
		exchange->daemon_answered = true;
		exchange->daemon_answer = *play.daemon_answer;
	}
	if (play.answer)
		exchange->reach = VB_REACH_ANSWERED;
	return exchange->reach != VB_REACH_SILENT;
}

void __wrap_vb_inquiry_end(struct vb_inquiry_exchange *exchange)
{
	(void)exchange;
	play.open--;
}

static const struct vb_inquiry_answer lives = {.status = VB_INQUIRY_LIVES}, stopped = {.status = VB_INQUIRY_STOPPED},
				      gone = {.status = VB_INQUIRY_NO_PROCESS}, no_qp = {.status = VB_INQUIRY_NO_QP};
static struct vb_udp_link *udp;
static struct vb_qp qp = {.qpn = SENDER};
static vb_time now;

static int begin(void **state)
{
	(void)state;
	udp = aligned_alloc(VB_LINE, (sizeof(*udp) + VB_LINE - 1) / VB_LINE * VB_LINE);
	assert_non_null(udp);
	udp->questions = NULL;
	play = (typeof(play)){.receiver = RECEIVER};
	now = VB_SECONDS(1000);
	return 0;
}

static int end(void **state)
{
	(void)state;
	vb_udp_close_questions(udp);
	assert_int_equal(play.open, 0);
	free(udp->questions);
	free(udp);
	return 0;
}

static void expire_after(vb_time time)
{
	now += time;
	vb_udp_ask_for_receiver(udp, &qp, now);
}

static void one_that_is_not_missed_is_not_asked(void **state)
{
	(void)state;
	expire_after(0);
	assert_int_equal(play.open, 0);
	/* One that reports while it is asked is asked no more. */
	play.misses = true;
	expire_after(VB_MILLISECONDS(4));
	assert_int_equal(play.open, 1);
	assert_int_equal(play.asked, 1);
	play.misses = false;
	expire_after(VB_MILLISECONDS(4));
	assert_int_equal(play.open, 0);
	assert_int_equal(play.asked, 1);
}

static void verbenad_says_that_it_lives(void **state)
{
	(void)state;
	play.misses = true;
	expire_after(0);
	expire_after(VB_MILLISECONDS(4));
	assert_false(play.lives);
	play.daemon_answer = &lives;
	expire_after(VB_MILLISECONDS(4));
	assert_true(play.lives);
	/* But it runs: it has another reason not to report. */
	play.answer = &no_qp;
	expire_after(VB_MILLISECONDS(4));
	assert_false(play.lives);
}

static void one_that_is_stopped_or_gone_does_not_count(void **state)
{
	const struct vb_inquiry_answer *const answers[] = {&stopped, &gone};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		play.misses = true;
		expire_after(0);
		play.daemon_answer = answers[i];
		expire_after(VB_MILLISECONDS(4));
		assert_false(play.lives);
		play.misses = false;
		expire_after(VB_MILLISECONDS(4));
	}
}

/* What a process that does not run is asked fills its socket; verbenad answers only so often. */
static void it_is_asked_again_now_and_then(void **state)
{
	(void)state;
	play.misses = true;
	for (unsigned i = 0; i < 250; i++)
		expire_after(VB_MILLISECONDS(4));
	assert_in_range(play.asked, 40, 51);
	assert_int_equal(play.open, 1);
}

static void of_another_one_nothing_is_known(void **state)
{
	(void)state;
	play.misses = true;
	expire_after(0);
	play.daemon_answer = &lives;
	play.receiver = OTHER;
	expire_after(VB_MILLISECONDS(4));
	assert_false(play.lives);
	assert_int_equal(play.open, 1);
	assert_int_equal(play.asked, 2);
	expire_after(VB_MILLISECONDS(4));
	assert_true(play.lives);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(one_that_is_not_missed_is_not_asked, begin, end),
		cmocka_unit_test_setup_teardown(verbenad_says_that_it_lives, begin, end),
		cmocka_unit_test_setup_teardown(one_that_is_stopped_or_gone_does_not_count, begin, end),
		cmocka_unit_test_setup_teardown(it_is_asked_again_now_and_then, begin, end),
		cmocka_unit_test_setup_teardown(of_another_one_nothing_is_known, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
