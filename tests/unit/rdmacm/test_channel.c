/* SPDX-License-Identifier: MIT
 *
 * Event channels: who is woken by what. Threads that sleep are told of the first event only, and each wakes the next.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "rdmacm/channel.h"

enum { SLEEPERS = 8, ROUNDS = 50 };

static struct vb_rdmacm_channel *channel;
static struct vb_rdmacm_id owner;

static int open_channel(void **state)
{
	struct rdma_event_channel *made = rdma_create_event_channel();

	(void)state;
	if (made == NULL)
		return -1;
	channel = vb_rdmacm_channel_of(made);
	owner = (struct vb_rdmacm_id){.id.channel = made};
	vb_mutex_init(&owner.lock, VB_RANK_CM_ID);
	return 0;
}

static int close_channel(void **state)
{
	(void)state;
	rdma_destroy_event_channel(&channel->channel);
	vb_mutex_fini(&owner.lock);
	return 0;
}

static bool append(void)
{
	struct vb_rdmacm_event *event = calloc(1, sizeof(*event));
	bool sleeps;

	assert_non_null(event);
	event->owner = &owner;
	vb_mutex_lock(&owner.lock);
	sleeps = vb_rdmacm_channel_append(channel, event);
	vb_mutex_unlock(&owner.lock);
	return sleeps;
}

static void *take_one(void *unused)
{
	struct vb_rdmacm_event *event = NULL;

	while (vb_rdmacm_channel_take(channel, &event) != 0)
		;
	free(event);
	return unused;
}

static void only_the_first_is_told(void **state)
{
	(void)state;
	assert_true(append());
	assert_false(append());
	take_one(NULL);
	assert_false(append());
	take_one(NULL);
	take_one(NULL);
	assert_true(vb_rdmacm_channel_is_empty(channel));
	assert_true(append());
	take_one(NULL);
}

/* Each takes one event and leaves: an event that lies there while a thread sleeps would lie there for ever. */
static void one_call_wakes_all_that_are_needed(void **state)
{
	(void)state;
	for (unsigned round = 0; round < ROUNDS; round++) {
		pthread_t threads[SLEEPERS];
		bool sleeps = false;

		for (unsigned i = 0; i < SLEEPERS; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, take_one, NULL), 0);
		/* In every other round they may not have come to sleep yet. */
		while (round % 2 == 0 && __atomic_load_n(&channel->sleepers, __ATOMIC_SEQ_CST) < SLEEPERS)
			sched_yield();
		for (unsigned i = 0; i < SLEEPERS; i++)
			sleeps |= append();
		assert_true(sleeps);
		vb_rdmacm_channel_wake(channel);
		for (unsigned i = 0; i < SLEEPERS; i++)
			assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_true(vb_rdmacm_channel_is_empty(channel));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(only_the_first_is_told, open_channel, close_channel),
		cmocka_unit_test_setup_teardown(one_call_wakes_all_that_are_needed, open_channel, close_channel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
