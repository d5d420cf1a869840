/* SPDX-License-Identifier: MIT
 *
 * The rings of a cable of memory, as they are compiled, in every execution that the memory model allows (model.h): what is published
 * is found by a reader that is about to sleep, or the writer is told to wake it; and what is found is whole. test_base.c has the whole
 * life of the flag.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "model_atomics.h"

#include "io/frame_ring.c"

enum { LENGTH = 100, SEGMENT = 50 };

static struct vb_frame_ring_segment segment;
/* Nothing is written to it but by atomics, which the model has. */
static struct vb_frame_ring_reader reader = {.words = &segment.words[0], .ring = segment.ring[0]};

static void publish_by(bool (*publish)(struct vb_frame_ring_writer *))
{
	struct vb_frame_ring_writer writer = {.words = &segment.words[0], .ring = segment.ring[0]};

	model_note(publish(&writer) ? 2 : 1);
}

static bool publish(struct vb_frame_ring_writer *writer)
{
	return vb_frame_ring_publish(writer, LENGTH, SEGMENT);
}

static void publish_one(void)
{
	publish_by(publish);
}

/* What is left of it without its fence. */
static bool publish_weakly(struct vb_frame_ring_writer *writer)
{
	leave(writer, (uint64_t)LENGTH << 32 | SEGMENT, size_of(LENGTH));
	return vb_sleep_must_wake(&writer->words->asleep, false);
}

static void publish_one_weakly(void)
{
	publish_by(publish_weakly);
}

static void sleep_and_look(void)
{
	vb_frame_ring_sleep(&reader);
	model_note(vb_frame_ring_has_more(&reader) ? 2 : 1);
}

static void look_and_sleep(void)
{
	model_note(vb_frame_ring_has_more(&reader) ? 2 : 1);
	vb_frame_ring_sleep(&reader);
}

static void take(void)
{
	struct vb_frame_ring_record record;

	if (vb_frame_ring_look(&reader, &record) != VB_FRAME_RING_EMPTY)
		model_note(record.length == LENGTH && record.segment == SEGMENT ? 2 : 3);
}

static bool not_missed(const uint64_t note[MODEL_THREADS])
{
	return !(note[0] == 1 && note[1] == 1);
}

static bool not_broken(const uint64_t note[MODEL_THREADS])
{
	return note[1] != 3;
}

static uint64_t count_refused(void (*writing)(void), void (*reading)(void), bool (*judge)(const uint64_t *))
{
	const struct model_program program = {2, {writing, reading}, judge, false};
	struct model_outcome outcome = model_explore(&program);

	print_message("%llu executions, %llu refused\n", (unsigned long long)outcome.executions, (unsigned long long)outcome.refused);
	assert_true(outcome.interesting > 0);
	return outcome.refused;
}

static void a_record_is_found_or_its_reader_woken(void **state)
{
	(void)state;
	assert_int_equal(count_refused(publish_one, sleep_and_look, not_missed), 0);
	assert_true(count_refused(publish_one_weakly, sleep_and_look, not_missed) > 0);
	assert_true(count_refused(publish_one, look_and_sleep, not_missed) > 0);
}

static void a_record_is_whole(void **state)
{
	(void)state;
	assert_int_equal(count_refused(publish_one, take, not_broken), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_record_is_found_or_its_reader_woken),
		cmocka_unit_test(a_record_is_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
