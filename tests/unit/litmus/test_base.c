/* SPDX-License-Identifier: MIT
 *
 * The types of base/ that threads and processes share without a lock, in every execution that the memory model allows
 * (model.h). Each is also tried in the way that does not hold, so that the model is seen to find it; and the model
 * itself answers the questions that everybody knows the answers to.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "model_atomics.h"

#include "base/favourite.h"
#include "base/generation.h"
#include "base/sequence_lock.h"
#include "base/sleep_flag.h"
#include "base/stamped_ring.h"

static uint64_t x, y, word, shown;

static bool nobody_notes_bad(const uint64_t note[MODEL_THREADS])
{
	for (unsigned i = 0; i < MODEL_THREADS; i++)
		if (note[i] == UINT64_MAX)
			return false;
	return true;
}

static bool not_both_saw_nothing(const uint64_t note[MODEL_THREADS])
{
	return !(note[0] == 1 && note[1] == 1);
}

static bool no_total_order;

static struct model_outcome explore(void (*first)(void), void (*second)(void), bool (*judge)(const uint64_t *))
{
	const struct model_program program = {2, {first, second}, judge, no_total_order};
	struct model_outcome outcome = model_explore(&program);

	print_message("%llu executions, %llu in which something happened, %llu refused\n", (unsigned long long)outcome.executions,
		      (unsigned long long)outcome.interesting, (unsigned long long)outcome.refused);
	assert_true(outcome.interesting > 0);
	return outcome;
}

static void never(void (*first)(void), void (*second)(void), bool (*judge)(const uint64_t *))
{
	assert_int_equal(explore(first, second, judge).refused, 0);
}

static void sometimes(void (*first)(void), void (*second)(void), bool (*judge)(const uint64_t *))
{
	assert_true(explore(first, second, judge).refused > 0);
}

/* ---- the model ---- */

/* A message and a flag. */
#define MESSAGE(name, before, store_order)                                 \
	static void name(void)                                             \
	{                                                                  \
		__atomic_store_n(&x, 1, __ATOMIC_RELAXED);                 \
		before;                                                    \
		__atomic_store_n(&y, 1, store_order);                      \
	}
#define RECEIPT(name, load_order, after)                                   \
	static void name(void)                                             \
	{                                                                  \
		bool flag = __atomic_load_n(&y, load_order) == 1;          \
		after;                                                     \
		if (flag)                                                  \
			model_note(__atomic_load_n(&x, __ATOMIC_RELAXED) == 1 ? 1 : UINT64_MAX); \
	}

MESSAGE(send_relaxed, (void)0, __ATOMIC_RELAXED)
MESSAGE(send_release, (void)0, __ATOMIC_RELEASE)
MESSAGE(send_fence, __atomic_thread_fence(__ATOMIC_RELEASE), __ATOMIC_RELAXED)
RECEIPT(receive_relaxed, __ATOMIC_RELAXED, (void)0)
RECEIPT(receive_acquire, __ATOMIC_ACQUIRE, (void)0)
RECEIPT(receive_fence, __ATOMIC_RELAXED, __atomic_thread_fence(__ATOMIC_ACQUIRE))

/* Each shows itself and looks for the other. */
#define MEETING(name, mine, theirs, order, between)                        \
	static void name(void)                                             \
	{                                                                  \
		__atomic_store_n(&(mine), 1, order);                       \
		between;                                                   \
		model_note(__atomic_load_n(&(theirs), order) == 0 ? 1 : 2); \
	}

MEETING(meet_first, x, y, __ATOMIC_SEQ_CST, (void)0)
MEETING(meet_second, y, x, __ATOMIC_SEQ_CST, (void)0)
MEETING(pass_first, x, y, __ATOMIC_RELAXED, (void)0)
MEETING(pass_second, y, x, __ATOMIC_RELAXED, (void)0)
MEETING(fenced_first, x, y, __ATOMIC_RELAXED, __atomic_thread_fence(__ATOMIC_SEQ_CST))
MEETING(fenced_second, y, x, __ATOMIC_RELAXED, __atomic_thread_fence(__ATOMIC_SEQ_CST))

static void count_up(void)
{
	__atomic_store_n(&x, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&x, 2, __ATOMIC_RELAXED);
}

static void look_twice(void)
{
	uint64_t first = __atomic_load_n(&x, __ATOMIC_RELAXED), second = __atomic_load_n(&x, __ATOMIC_RELAXED);

	model_note(second < first ? UINT64_MAX : 1);
}

static void the_model_is_the_known_one(void **state)
{
	(void)state;
	sometimes(send_relaxed, receive_relaxed, nobody_notes_bad);
	sometimes(send_release, receive_relaxed, nobody_notes_bad);
	sometimes(send_relaxed, receive_acquire, nobody_notes_bad);
	never(send_release, receive_acquire, nobody_notes_bad);
	never(send_fence, receive_acquire, nobody_notes_bad);
	never(send_release, receive_fence, nobody_notes_bad);
	never(send_fence, receive_fence, nobody_notes_bad);
	sometimes(pass_first, pass_second, not_both_saw_nothing);
	never(meet_first, meet_second, not_both_saw_nothing);
	never(fenced_first, fenced_second, not_both_saw_nothing);
	sometimes(fenced_first, pass_second, not_both_saw_nothing);
	never(count_up, look_twice, nobody_notes_bad);
}

/* ---- the sequence lock ---- */

/* What it was once: a store of the word, as strong as there is, and nothing after it. */
static void begin_without_fence(uint64_t *at, uint64_t meanwhile)
{
	__atomic_store_n(at, meanwhile, __ATOMIC_SEQ_CST);
}

static void write_contents(uint64_t number, void (*begin)(uint64_t *, uint64_t))
{
	begin(&word, 0);
	VB_SEQUENCE_SET(x, number);
	VB_SEQUENCE_SET(y, number);
	vb_sequence_end(&word, number);
}

static void write_twice(void)
{
	write_contents(1, vb_sequence_begin);
	write_contents(2, vb_sequence_begin);
}

static void write_twice_without_fence(void)
{
	write_contents(1, begin_without_fence);
	write_contents(2, begin_without_fence);
}

static void read_contents(void)
{
	uint64_t number = vb_sequence_read(&word), first, second;

	if (number == 0)
		return;
	first = VB_SEQUENCE_GET(x);
	second = VB_SEQUENCE_GET(y);
	if (vb_sequence_stands(&word, number))
		model_note(first == number && second == number ? number : UINT64_MAX);
}

static void read_contents_without_fence(void)
{
	uint64_t number = vb_sequence_read(&word), first, second;

	if (number == 0)
		return;
	first = VB_SEQUENCE_GET(x);
	second = VB_SEQUENCE_GET(y);
	if (__atomic_load_n(&word, __ATOMIC_SEQ_CST) == number)
		model_note(first == number && second == number ? number : UINT64_MAX);
}

static void contents_belong_together(void **state)
{
	(void)state;
	no_total_order = true;
	never(write_twice, read_contents, nobody_notes_bad);
	sometimes(write_twice_without_fence, read_contents, nobody_notes_bad);
	sometimes(write_twice, read_contents_without_fence, nobody_notes_bad);
	no_total_order = false;
	sometimes(write_twice_without_fence, read_contents, nobody_notes_bad);
}

/* Whoever uses what the word leads to shows that first; whoever takes it away looks who shows it (links/memory/share.c). */
static void use_what_stands(void)
{
	__atomic_store_n(&shown, 1, __ATOMIC_SEQ_CST);
	model_note(vb_sequence_read(&word) == 0 ? 1 : 2);
}

static void take_away(void)
{
	vb_sequence_begin(&word, 1);
	model_note(__atomic_load_n(&shown, __ATOMIC_SEQ_CST) == 0 ? 1 : 2);
}

static void use_relaxed(void)
{
	__atomic_store_n(&shown, 1, __ATOMIC_RELEASE);
	model_note(__atomic_load_n(&word, __ATOMIC_ACQUIRE) == 0 ? 1 : 2);
}

static void one_of_two_sees_the_other(void **state)
{
	(void)state;
	/* `word` is 0 as long as it stands, here. */
	never(use_what_stands, take_away, not_both_saw_nothing);
	sometimes(use_relaxed, take_away, not_both_saw_nothing);
}

/* ---- falling asleep ---- */

static uint32_t asleep;

static bool impose(void)
{
	model_barrier();
	return true;
}

static bool impose_nothing(void)
{
	return true;
}

/* Work is a message with a flag, as in a ring: two of them, so that the barrier finds the waker in the middle. */
static void leave_work(bool fenced)
{
	bool woken = false;

	for (uint64_t i = 1; i <= 2; i++) {
		__atomic_store_n(&x, i, __ATOMIC_RELAXED);
		__atomic_store_n(&y, i, __ATOMIC_RELEASE);
		woken |= vb_sleep_must_wake(&asleep, fenced);
	}
	model_note(woken ? 3 : 1);
}

static void leave_and_look(void)
{
	leave_work(false);
}

static void leave_fence_and_look(void)
{
	leave_work(true);
}

/* 1: asleep, and nothing was there. Work that came after it would need a waker. */
static void sleep_by(bool (*barrier)(void))
{
	(void)vb_sleep_begin(&asleep, barrier);
	model_note(__atomic_load_n(&y, __ATOMIC_ACQUIRE) < 2 ? 1 : 2);
}

static void sleep_by_barrier(void)
{
	sleep_by(impose);
}

static void sleep_without_barrier(void)
{
	sleep_by(impose_nothing);
}

static void sleep_by_fence(void)
{
	sleep_by(NULL);
}

/* Not: the sleeper missed the last of the work, and no look at the flag found it set. */
static void work_is_found_or_the_sleeper_woken(void **state)
{
	(void)state;
	never(leave_and_look, sleep_by_barrier, not_both_saw_nothing);
	never(leave_fence_and_look, sleep_by_fence, not_both_saw_nothing);
	never(leave_fence_and_look, sleep_by_barrier, not_both_saw_nothing);
	sometimes(leave_and_look, sleep_by_fence, not_both_saw_nothing);
	sometimes(leave_and_look, sleep_without_barrier, not_both_saw_nothing);
	no_total_order = true;
	never(leave_and_look, sleep_by_barrier, not_both_saw_nothing);
	never(leave_fence_and_look, sleep_by_fence, not_both_saw_nothing);
	no_total_order = false;
}

/* ---- a lock's favourite (base/favourite.h) ---- */

static uint32_t inside;
static uintptr_t favoured;

enum { FAVOURITE = 4 };

static bool has_entered(void)
{
	return vb_favourite_enters(&inside, &favoured, FAVOURITE);
}

static bool has_entered_without_a_second_look(void)
{
	__atomic_store_n(&inside, 1, __ATOMIC_RELAXED);
	return true;
}

/* Whoever is in the lock makes x odd, or y 1. */
static void be_inside(unsigned round)
{
	uint64_t theirs = __atomic_load_n(&y, __ATOMIC_RELAXED);

	__atomic_store_n(&x, 2 * round + 1, __ATOMIC_RELAXED);
	__atomic_store_n(&x, 2 * round + 2, __ATOMIC_RELAXED);
	model_note(theirs == 0 ? 1 : UINT64_MAX);
}

static void enter_often(unsigned times, bool (*enter)(void))
{
	__atomic_store_n(&favoured, FAVOURITE, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < times; i++) {
		if (!vb_favourite_is_favoured(&favoured, FAVOURITE) || vb_favourite_is_inside(&inside) || !enter())
			return;
		be_inside(i);
		vb_favourite_leaves(&inside);
	}
}

static void enter_once(void)
{
	enter_often(1, has_entered);
}

static void enter_twice(void)
{
	enter_often(2, has_entered);
}

static void enter_without_a_second_look(void)
{
	enter_often(1, has_entered_without_a_second_look);
}

static void end_favour_by(bool (*barrier)(void))
{
	uint64_t before, after;

	if (__atomic_load_n(&favoured, __ATOMIC_ACQUIRE) != FAVOURITE)
		model_give_up();
	vb_favourite_is_no_more(&favoured, 0);
	(void)barrier();
	if (vb_favourite_is_inside(&inside))
		return;
	before = __atomic_load_n(&x, __ATOMIC_RELAXED);
	__atomic_store_n(&y, 1, __ATOMIC_RELAXED);
	after = __atomic_load_n(&x, __ATOMIC_RELAXED);
	model_note(before % 2 == 0 && after == before ? 1 + before : UINT64_MAX);
}

static void end_favour(void)
{
	end_favour_by(impose);
}

static void end_favour_without_barrier(void)
{
	end_favour_by(impose_nothing);
}

static void a_favourite_is_alone_inside(void **state)
{
	(void)state;
	never(enter_twice, end_favour, nobody_notes_bad);
	sometimes(enter_once, end_favour_without_barrier, nobody_notes_bad);
	sometimes(enter_without_a_second_look, end_favour, nobody_notes_bad);
	no_total_order = true;
	never(enter_twice, end_favour, nobody_notes_bad);
	no_total_order = false;
}

/* ---- leaving a region without a release (memory/table.h) ---- */

/* Two copies, so that the barrier finds the thread in the middle. `y`: how many it has left. */
static void copy_and_leave(void)
{
	for (uint64_t i = 1; i <= 2; i++) {
		__atomic_store_n(&x, i, __ATOMIC_RELAXED);
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		__atomic_store_n(&y, i, __ATOMIC_RELAXED);
	}
}

static void await_leaving(bool (*barrier)(void))
{
	uint64_t left = __atomic_load_n(&y, __ATOMIC_SEQ_CST);

	if (left == 0)
		model_give_up();
	(void)barrier();
	model_note(__atomic_load_n(&x, __ATOMIC_RELAXED) >= left ? left : UINT64_MAX);
}

static void await_by_barrier(void)
{
	await_leaving(impose);
}

static void await_without_barrier(void)
{
	await_leaving(impose_nothing);
}

/* Behind the barrier all is there that was copied by those who were seen to have left. */
static void copies_are_done_behind_the_barrier(void **state)
{
	(void)state;
	never(copy_and_leave, await_by_barrier, nobody_notes_bad);
	sometimes(copy_and_leave, await_without_barrier, nobody_notes_bad);
	no_total_order = true;
	never(copy_and_leave, await_by_barrier, nobody_notes_bad);
	no_total_order = false;
}

/* ---- a flag that the waker takes away ---- */

static uint64_t bell;                      /* how often it was rung: kept until it is heard */

static bool take_flag_and_ring(bool fenced)
{
	bool taken = fenced ? vb_sleep_take_flag(&asleep) : vb_sleep_must_wake(&asleep, false);

	if (taken && !fenced)
		vb_sleep_end(&asleep);
	if (taken)
		__atomic_store_n(&bell, 1, __ATOMIC_RELEASE);
	return taken;
}

static bool ring_and_take_flag(bool fenced)
{
	bool taken = vb_sleep_must_wake(&asleep, fenced);

	if (taken) {
		__atomic_store_n(&bell, 1, __ATOMIC_RELEASE);
		vb_sleep_end(&asleep);
	}
	return taken;
}

/* Two messages. Of the second it is enough to know whether it would ring: who hears that finds all. Notes 1 + how often it rang. */
static void leave_two_messages(bool (*wake)(bool fenced), bool fenced)
{
	uint64_t rings;

	__atomic_store_n(&y, 1, __ATOMIC_RELEASE);
	rings = wake(fenced);
	__atomic_store_n(&y, 2, __ATOMIC_RELEASE);
	model_note(1 + rings + vb_sleep_must_wake(&asleep, fenced));
}

static void leave_and_ring(void)
{
	leave_two_messages(take_flag_and_ring, true);
}

static void leave_and_ring_without_fence(void)
{
	leave_two_messages(take_flag_and_ring, false);
}

static void leave_and_ring_early(void)
{
	leave_two_messages(ring_and_take_flag, true);
}

/* Until it sleeps with no bell to be heard, and gets up twice at most. Notes 1 + how many it has heard. */
static void sleep_and_hear(bool say_again)
{
	uint64_t found = 0, heard = 0, now;
	bool says = true;

	for (unsigned i = 0; i < 3 && found < 2; i++) {
		if (says)
			(void)vb_sleep_begin(&asleep, NULL);
		now = __atomic_load_n(&y, __ATOMIC_ACQUIRE);
		if (now > found) {
			found = now;
			says = true;
		} else {
			now = __atomic_load_n(&bell, __ATOMIC_ACQUIRE);
			if (now == heard) {
				model_note(1 + heard);
				return;
			}
			heard = now;
			says = say_again;
		}
		if (says)
			vb_sleep_end(&asleep);
	}
}

static void sleep_and_say_again(void)
{
	sleep_and_hear(true);
}

static void sleep_and_say_once(void)
{
	sleep_and_hear(false);
}

/* Not: it sleeps, a message lies there, and it has heard all the bells that there will be. */
static bool nobody_sleeps_over_work(const uint64_t note[MODEL_THREADS])
{
	return note[1] == 0 || note[1] < note[0];
}

static void a_flag_may_be_taken_before_the_bell_rings(void **state)
{
	(void)state;
	never(leave_and_ring, sleep_and_say_again, nobody_sleeps_over_work);
	sometimes(leave_and_ring_early, sleep_and_say_again, nobody_sleeps_over_work);
	sometimes(leave_and_ring_without_fence, sleep_and_say_again, nobody_sleeps_over_work);
	sometimes(leave_and_ring, sleep_and_say_once, nobody_sleeps_over_work);
	no_total_order = true;
	never(leave_and_ring, sleep_and_say_again, nobody_sleeps_over_work);
	no_total_order = false;
}

/* Where something was found is used again while its two words stand (local/direct.c): a registration's, whose owner withdraws it, and a
 * number of mappings given up. Each is changed before the one who changes it looks who uses it. */
static void use_what_is_known(void)
{
	(void)__atomic_exchange_n(&shown, 1, __ATOMIC_SEQ_CST);
	model_note(vb_sequence_read(&word) == 0 && __atomic_load_n(&x, __ATOMIC_SEQ_CST) == 0 ? 1 : 2);
}

static void give_up_mapping(void)
{
	__atomic_store_n(&x, 1, __ATOMIC_SEQ_CST);
	model_note(__atomic_load_n(&shown, __ATOMIC_SEQ_CST) == 0 ? 1 : 2);
}

static void what_is_known_is_not_used_when_gone(void **state)
{
	(void)state;
	never(use_what_is_known, take_away, not_both_saw_nothing);
	never(use_what_is_known, give_up_mapping, not_both_saw_nothing);
}

/* ---- generations ---- */

/* A queue pair in its first two generations, 5 and 6. Flags change within the first. */
static void live_twice(void (*begin)(uint64_t *, uint64_t))
{
	uint64_t number = vb_generation_next(0, 5);

	begin(&word, number);
	VB_SEQUENCE_SET(x, number);
	VB_SEQUENCE_SET(y, number);
	vb_generation_show(&word, number, 1);
	vb_generation_show(&word, number, 3);
	number = vb_generation_next(vb_generation_word(number, 3), 0);
	begin(&word, number);
	VB_SEQUENCE_SET(x, number);
	VB_SEQUENCE_SET(y, number);
	vb_generation_show(&word, number, 1);
}

static void begin_generation_without_fence(uint64_t *at, uint64_t number)
{
	__atomic_store_n(at, vb_generation_word(number, 0), __ATOMIC_SEQ_CST);
}

static void live(void)
{
	live_twice(vb_generation_begin);
}

static void live_without_fence(void)
{
	live_twice(begin_generation_without_fence);
}

static void take_fields(bool look_again)
{
	uint64_t read = vb_generation_read(&word), number = vb_generation_of(read), first, second;

	if (!(read & 1))
		return;
	first = VB_SEQUENCE_GET(x);
	second = VB_SEQUENCE_GET(y);
	if (!look_again || vb_generation_stands(&word, number))
		model_note(first == number && second == number ? number : UINT64_MAX);
}

static void take(void)
{
	take_fields(true);
}

static void take_without_a_second_look(void)
{
	take_fields(false);
}

static void fields_are_of_one_generation(void **state)
{
	(void)state;
	never(live, take, nobody_notes_bad);
	no_total_order = true;
	never(live, take, nobody_notes_bad);
	no_total_order = false;
	sometimes(live_without_fence, take, nobody_notes_bad);
	sometimes(live, take_without_a_second_look, nobody_notes_bad);
}

/* It works with our generation 1 (`shown` names it) and counts in x; then begins anew, and goes with the same generation of ours: another
 * connection, by chance. */
static void work_in_two_generations(void (*begin)(uint64_t *, uint64_t))
{
	vb_generation_show(&word, 5, 1);
	vb_generation_join(&shown, 1);
	__atomic_store_n(&x, 2, __ATOMIC_RELEASE);
	begin(&word, 6);
	VB_SEQUENCE_SET(shown, 0);
	VB_SEQUENCE_SET(x, 0);
	vb_generation_show(&word, 6, 1);
	vb_generation_join(&shown, 1);
	__atomic_store_n(&x, 7, __ATOMIC_RELEASE);
}

static void work(void)
{
	work_in_two_generations(vb_generation_begin);
}

static void work_without_fence(void)
{
	work_in_two_generations(begin_generation_without_fence);
}

/* Counts of generation 5 are 0, then 2: not 7, nor less than before. */
static void believe(uint64_t first, uint64_t second)
{
	model_note(second == 7 || second < first ? UINT64_MAX : 1 + second);
}

static void look_at_counts(void)
{
	uint64_t first, second;

	if (vb_generation_of(vb_generation_read(&word)) != 5)
		return;
	first = __atomic_load_n(&x, __ATOMIC_ACQUIRE);
	second = __atomic_load_n(&x, __ATOMIC_ACQUIRE);
	if (first != 7 && vb_generation_goes_with(&shown, 1, &word, 5))
		believe(first, second);
}

static void look_at_names_first(void)
{
	bool ours;

	if (vb_generation_of(vb_generation_read(&word)) != 5)
		return;
	ours = vb_generation_goes_with(&shown, 1, &word, 5);
	if (ours)
		believe(0, __atomic_load_n(&x, __ATOMIC_ACQUIRE));
}

static void look_at_counts_without_acquire(void)
{
	uint64_t first, second;

	if (vb_generation_of(vb_generation_read(&word)) != 5)
		return;
	first = __atomic_load_n(&x, __ATOMIC_RELAXED);
	second = __atomic_load_n(&x, __ATOMIC_RELAXED);
	if (first != 7 && vb_generation_of(__atomic_load_n(&word, __ATOMIC_RELAXED)) == 5)
		believe(first, second);
}

static void counts_are_about_our_generation(void **state)
{
	(void)state;
	never(work, look_at_counts, nobody_notes_bad);
	no_total_order = true;
	never(work, look_at_counts, nobody_notes_bad);
	no_total_order = false;
	sometimes(work_without_fence, look_at_counts, nobody_notes_bad);
	sometimes(work, look_at_names_first, nobody_notes_bad);
	sometimes(work, look_at_counts_without_acquire, nobody_notes_bad);
}

/* A registration is withdrawn, its owner looks who uses it (y), and its key comes again for another. x: the generation. */
enum { KEY = 9 };

static void withdraw_and_use_the_key_again(void)
{
	VB_SEQUENCE_SET(x, 1);
	vb_sequence_end(&word, KEY);
	vb_sequence_begin(&word, 0);
	model_note(__atomic_load_n(&y, __ATOMIC_SEQ_CST) == 0 ? 1 : 2);
	VB_SEQUENCE_SET(x, 2);
	vb_sequence_end(&word, KEY);
}

static void use_the_first(bool compare)
{
	uint64_t number;

	if (vb_sequence_read(&word) != KEY)
		return;
	number = VB_SEQUENCE_GET(x);
	if (!vb_sequence_stands(&word, KEY) || number != 1)
		return;
	(void)__atomic_exchange_n(&y, 1, __ATOMIC_SEQ_CST);
	model_note((compare ? vb_generation_is_named(&word, KEY, &x, number) : vb_sequence_read(&word) == KEY) ? 1 : 2);
}

static void use_known_generation(void)
{
	use_the_first(true);
}

static void use_known_key(void)
{
	use_the_first(false);
}

/* Not: it is used, and whoever withdrew it saw no user. */
static void a_key_that_comes_again_is_another(void **state)
{
	(void)state;
	never(use_known_generation, withdraw_and_use_the_key_again, not_both_saw_nothing);
	sometimes(use_known_key, withdraw_and_use_the_key_again, not_both_saw_nothing);
}

static void numbers_of_generations_grow(void **state)
{
	(void)state;
	assert_int_equal(vb_generation_next(0, 5), 5);
	assert_int_equal(vb_generation_next(vb_generation_word(5, 3), 1), 6);
	/* Not 0, whatever they begin with, and wherever they end. */
	assert_int_equal(vb_generation_next(0, 0), 1);
	assert_int_equal(vb_generation_next(0, UINT64_C(1) << 56), 1);
	assert_int_equal(vb_generation_next(vb_generation_word(UINT64_MAX >> VB_GENERATION_FLAGS, 3), 7), 1);
	assert_int_equal(vb_generation_of(vb_generation_word(UINT64_MAX >> VB_GENERATION_FLAGS, 0xff)), UINT64_MAX >> VB_GENERATION_FLAGS);
}

/* ---- records in a ring ---- */

/* Two records, of which x and y are the bodies. Where the second will be lies one from the lap before that has its very stamp. */
static uint64_t ring[2][2];

typedef void leave_function(uint64_t *at, uint64_t first, uint64_t second, uint64_t *next);

static void leave_without_release(uint64_t *at, uint64_t first, uint64_t second, uint64_t *next)
{
	__atomic_store_n(&at[1], second, __ATOMIC_RELAXED);
	__atomic_store_n(next, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&at[0], first, __ATOMIC_RELAXED);
}

static void leave_and_let_lie(uint64_t *at, uint64_t first, uint64_t second, uint64_t *next)
{
	(void)next;
	__atomic_store_n(&at[1], second, __ATOMIC_RELAXED);
	__atomic_store_n(&at[0], first, __ATOMIC_RELEASE);
}

static void leave_and_clear_late(uint64_t *at, uint64_t first, uint64_t second, uint64_t *next)
{
	leave_and_let_lie(at, first, second, next);
	__atomic_store_n(next, 0, __ATOMIC_RELAXED);
}

static void leave_two(leave_function *leave)
{
	__atomic_store_n(&ring[1][0], 2, __ATOMIC_RELAXED);
	__atomic_store_n(&x, 1, __ATOMIC_RELAXED);
	leave(ring[0], 1, 11, &ring[1][0]);
	__atomic_store_n(&y, 2, __ATOMIC_RELAXED);
	leave(ring[1], 2, 22, &shown);
}

static void leave_records(void)
{
	leave_two(vb_stamped_leave);
}

static void leave_records_without_release(void)
{
	leave_two(leave_without_release);
}

static void leave_records_and_let_lie(void)
{
	leave_two(leave_and_let_lie);
}

static void leave_records_and_clear_late(void)
{
	leave_two(leave_and_clear_late);
}

static void find_records(void)
{
	if (vb_stamped_look(ring[0]) != 1)
		return;
	if (vb_stamped_second(ring[0]) != 11 || __atomic_load_n(&x, __ATOMIC_RELAXED) != 1) {
		model_note(UINT64_MAX);
		return;
	}
	model_note(1);
	if (vb_stamped_look(ring[1]) == 2)
		model_note(vb_stamped_second(ring[1]) == 22 && __atomic_load_n(&y, __ATOMIC_RELAXED) == 2 ? 2 : UINT64_MAX);
}

static void records_are_whole_and_of_this_lap(void **state)
{
	(void)state;
	never(leave_records, find_records, nobody_notes_bad);
	sometimes(leave_records_without_release, find_records, nobody_notes_bad);
	sometimes(leave_records_and_let_lie, find_records, nobody_notes_bad);
	sometimes(leave_records_and_clear_late, find_records, nobody_notes_bad);
}

static void look_the_other_way_round(void)
{
	uint64_t released = vb_stamped_released(&shown), consumed = vb_stamped_consumed(&word);

	model_note(released < consumed ? UINT64_MAX : 1);
}

static void give_back(void)
{
	vb_stamped_give_back(&shown, 1, &word, 1);
}

/* Whoever sees that a record was consumed sees its bytes released, if it looks in that order. */
static void look_in_order(void)
{
	uint64_t consumed = vb_stamped_consumed(&word), released = vb_stamped_released(&shown);

	model_note(released < consumed ? UINT64_MAX : 1);
}

static void what_is_consumed_is_released(void **state)
{
	(void)state;
	never(give_back, look_in_order, nobody_notes_bad);
	sometimes(give_back, look_the_other_way_round, nobody_notes_bad);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_model_is_the_known_one),
		cmocka_unit_test(contents_belong_together),
		cmocka_unit_test(one_of_two_sees_the_other),
		cmocka_unit_test(work_is_found_or_the_sleeper_woken),
		cmocka_unit_test(a_favourite_is_alone_inside),
		cmocka_unit_test(copies_are_done_behind_the_barrier),
		cmocka_unit_test(a_flag_may_be_taken_before_the_bell_rings),
		cmocka_unit_test(what_is_known_is_not_used_when_gone),
		cmocka_unit_test(numbers_of_generations_grow),
		cmocka_unit_test(fields_are_of_one_generation),
		cmocka_unit_test(counts_are_about_our_generation),
		cmocka_unit_test(a_key_that_comes_again_is_another),
		cmocka_unit_test(records_are_whole_and_of_this_lap),
		cmocka_unit_test(what_is_consumed_is_released),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
