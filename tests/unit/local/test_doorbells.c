/* SPDX-License-Identifier: MIT
 *
 * Doorbells: whoever rings is heard, in order, by whom it concerns; when there were too many that is noticed; and no
 * segment keeps us from hearing others for ever.
 */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "local/doorbells.h"
#include "pair.h"

enum { SLOT = 7, ROOM = 16, THREADS = 4, RINGS = 20000 };

static struct vb_segment *segment;
static struct vb_doorbells_heard heard;
static uint32_t qpn[ROOM];
static bool missed;

static uint32_t number(uint32_t slot, uint32_t index)
{
	return slot << 14 | index;
}

static unsigned hear(unsigned room)
{
	return vb_doorbells_hear(segment, SLOT, &heard, qpn, room, &missed);
}

static int begin(void **state)
{
	void *memory = aligned_alloc(_Alignof(struct vb_segment), offsetof(struct vb_segment, qp));

	if (!memory)
		return -1;
	(void)state;
	segment = memory;
	memset(segment, 0, offsetof(struct vb_segment, qp));
	missed = false;
	vb_doorbells_attend(segment, SLOT, &heard);
	return 0;
}

static int end(void **state)
{
	(void)state;
	free(segment);
	return 0;
}

static void doorbells_are_heard_in_order(void **state)
{
	uint32_t said = 0, told = 0;

	(void)state;
	assert_int_equal(hear(ROOM), 0);
	/* Several times round. */
	for (unsigned i = 0; i < 3 * VB_SEGMENT_DOORBELLS; i++) {
		for (unsigned k = i % 5; k > 0; k--)
			vb_doorbells_ring(segment, number(SLOT, said++ % VB_SEGMENT_QPS), 2);
		for (unsigned count = hear(i % 2 ? ROOM : 3), k = 0; k < count; k++)
			assert_int_equal(qpn[k], number(SLOT, told++ % VB_SEGMENT_QPS));
	}
	while (hear(ROOM) > 0)
		;
	assert_false(missed);
}

static void each_hears_its_own(void **state)
{
	(void)state;
	vb_doorbells_ring(segment, number(SLOT + 1, 3), 0);
	assert_int_equal(hear(ROOM), 0);
	/* Two slots that share a ring: whose it is stands in the doorbell. */
	vb_doorbells_ring(segment, number(SLOT + VB_SEGMENT_DOORBELL_RINGS, 4), 0);
	assert_int_equal(hear(ROOM), 1);
	assert_int_equal(qpn[0], number(SLOT + VB_SEGMENT_DOORBELL_RINGS, 4));
	/* What rang before one came is not for it. */
	vb_doorbells_ring(segment, number(SLOT, 5), 0);
	vb_doorbells_attend(segment, SLOT, &heard);
	assert_int_equal(hear(ROOM), 0);
	for (unsigned lane = 0; lane < VB_SEGMENT_LANES; lane++)
		vb_doorbells_ring(segment, number(SLOT, lane), lane);
	assert_int_equal(hear(ROOM), VB_SEGMENT_LANES);
	assert_false(missed);
}

static void too_many_are_noticed(void **state)
{
	unsigned count = 0;

	(void)state;
	for (unsigned i = 0; i < VB_SEGMENT_DOORBELLS; i++)
		vb_doorbells_ring(segment, number(SLOT, i), 1);
	while (hear(ROOM) > 0)
		count += ROOM;
	assert_true(count >= VB_SEGMENT_DOORBELLS && !missed);
	for (unsigned i = 0; i <= VB_SEGMENT_DOORBELLS; i++)
		vb_doorbells_ring(segment, number(SLOT, i), 1);
	while (hear(ROOM) > 0)
		;
	assert_true(missed);
	missed = false;
	vb_doorbells_ring(segment, number(SLOT, 9), 1);
	assert_int_equal(hear(ROOM), 1);
	assert_int_equal(qpn[0], number(SLOT, 9));
	assert_false(missed);
}

/* A thread that took a place and is stopped, or fills it when all have gone past. */
static void a_gap_does_not_last(void **state)
{
	struct vb_segment_doorbells *doorbells = &segment->doorbells[SLOT][0];

	(void)state;
	doorbells->rung++;
	vb_doorbells_ring(segment, number(SLOT, 1), 0);
	assert_int_equal(hear(ROOM), 0);
	/* Others are heard. */
	vb_doorbells_ring(segment, number(SLOT, 2), 1);
	assert_int_equal(hear(ROOM), 1);
	for (unsigned i = 0; i < VB_SEGMENT_DOORBELLS; i++)
		vb_doorbells_ring(segment, number(SLOT, i), 0);
	while (hear(ROOM) > 0)
		;
	assert_true(missed);
	missed = false;
	vb_doorbells_ring(segment, number(SLOT, 3), 0);
	assert_int_equal(hear(ROOM), 1);
}

static void nonsense_is_bounded(void **state)
{
	struct vb_segment_doorbells *doorbells = &segment->doorbells[SLOT][0];

	(void)state;
	for (unsigned seed = 1; seed < 200; seed++) {
		srand(seed);
		for (unsigned i = 0; i < VB_SEGMENT_DOORBELLS; i++)
			doorbells->doorbell[i] = (uint64_t)rand() << 33 ^ (uint64_t)rand() << 11 ^ (uint64_t)rand();
		for (unsigned i = 0; i < 8; i++)
			assert_true(hear(ROOM) <= ROOM);
	}
}

static void *ring_for_all(void *lane)
{
	for (uint32_t i = 0; i < RINGS; i++)
		vb_doorbells_ring(segment, number(SLOT, i % VB_SEGMENT_QPS), (unsigned)(uintptr_t)lane);
	return NULL;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Threads that ring at once, in lanes that some of them share: each ring is heard, or it is noticed that some were not. */
static void threads_ring_at_once(void **state)
{
	pthread_t thread[THREADS];
	unsigned count = 0;
	double limit = now() + 60;

	(void)state;
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, ring_for_all, (void *)(uintptr_t)(i / 2)), 0);
	while (count < THREADS * RINGS && !missed && now() < limit)
		for (unsigned got = hear(ROOM); got > 0; got--, count++)
			assert_true(qpn[got - 1] >> 14 == SLOT);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	assert_true(missed || count == THREADS * RINGS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(doorbells_are_heard_in_order, begin, end),
		cmocka_unit_test_setup_teardown(each_hears_its_own, begin, end),
		cmocka_unit_test_setup_teardown(too_many_are_noticed, begin, end),
		cmocka_unit_test_setup_teardown(a_gap_does_not_last, begin, end),
		cmocka_unit_test_setup_teardown(nonsense_is_bounded, begin, end),
		cmocka_unit_test_setup_teardown(threads_ring_at_once, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
