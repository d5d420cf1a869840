/* SPDX-License-Identifier: MIT
 *
 * Events come in the order of their times and, within a moment, in that in which they were planned: compared with a list that is
 * searched from end to end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "sim/events.h"

enum { MOST = 400, TURNS = 60000 };

struct model {
	struct {
		vb_time when;
		uintptr_t number;
	} planned[MOST];
	unsigned count;
	uintptr_t number;
	vb_time now;
	uint64_t random;
};

static uint32_t below(struct model *model, uint32_t limit)
{
	model->random = model->random * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((model->random >> 33) % limit);
}

static void nothing(struct sim *sim, void *object, vb_time when)
{
	(void)sim;
	(void)object;
	(void)when;
}

static void plan(struct model *model, struct sim_events *events, vb_time when)
{
	model->planned[model->count].when = when;
	model->planned[model->count++].number = ++model->number;
	sim_events_plan(events, when, nothing, (void *)model->number);
}

static void take(struct model *model, struct sim_events *events)
{
	struct sim_event event;
	unsigned first = 0;

	for (unsigned i = 1; i < model->count; i++)
		if (model->planned[i].when < model->planned[first].when)
			first = i;
	assert_int_equal(sim_events_count(events), model->count);
	assert_int_equal(sim_events_next(events), model->planned[first].when);
	event = sim_events_take(events);
	assert_int_equal(event.when, model->planned[first].when);
	assert_int_equal((uintptr_t)event.object, model->planned[first].number);
	model->now = event.when;
	/* The others stay in the order in which they were planned. */
	for (unsigned i = first + 1; i < model->count; i++)
		model->planned[i - 1] = model->planned[i];
	model->count--;
}

/* Times as they come in a network, and the corners of the wheel. */
static vb_time some_time(struct model *model)
{
	switch (below(model, 8)) {
	case 0:
		return model->now;
	case 1:
		return model->now + below(model, 3);
	case 2:
		return model->now + SIM_WHEEL_SLOTS - 2 + below(model, 4);
	case 3:
		return model->now + below(model, 4 * SIM_WHEEL_SLOTS);
	case 4:
		return model->now + below(model, 1u << 30);
	case 5:
		return model->now - below(model, 50);
	default:
		return model->now + below(model, 2000);
	}
}

static void they_come_in_order(void **state)
{
	(void)state;
	for (unsigned most = 1; most <= MOST; most = most * 3 + 1) {
		struct model model = {.random = most, .now = 1000};
		struct sim_events events = {0};

		for (unsigned turn = 0; turn < TURNS / 6; turn++) {
			if (model.count < most && below(&model, 2) == 0)
				plan(&model, &events, some_time(&model));
			else if (model.count > 0)
				take(&model, &events);
		}
		while (model.count > 0)
			take(&model, &events);
		assert_int_equal(sim_events_next(&events), VB_TIME_NEVER);
		sim_events_free(&events);
	}
}

static void those_ahead_are_the_next_ones(void **state)
{
	const struct sim_event *ahead[3];
	struct sim_events events = {0};

	(void)state;
	assert_int_equal(sim_events_ahead(&events, ahead, 3), 0);
	sim_events_plan(&events, 70, nothing, (void *)3);
	sim_events_plan(&events, 5, nothing, (void *)1);
	sim_events_plan(&events, 5, nothing, (void *)2);
	sim_events_plan(&events, SIM_WHEEL_SLOTS - 1, nothing, (void *)4);
	for (uintptr_t taken = 0; taken < 4; taken++) {
		unsigned count = sim_events_ahead(&events, ahead, 3);

		assert_int_equal(count, taken < 1 ? 3 : 4 - taken);
		for (unsigned i = 0; i < count; i++)
			assert_int_equal((uintptr_t)ahead[i]->object, taken + 1 + i);
		sim_events_take(&events);
	}
	sim_events_free(&events);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(they_come_in_order),
		cmocka_unit_test(those_ahead_are_the_next_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
