/* SPDX-License-Identifier: MIT
 *
 * See model.h. Choices (which thread is next, which store a load takes) are numbered as they come; an execution is a
 * list of them. The next execution differs from the last in the last choice that had another answer left.
 */
#include "model.h"

#include <assert.h>
#include <setjmp.h>
#include <stddef.h>
#include <string.h>

enum { CHOICES = MODEL_THREADS * MODEL_STEPS * 2 };

/* For each location the number of a store there: nothing older is to be seen. */
struct view {
	uint8_t at[MODEL_LOCATIONS];
};

struct message {
	uint64_t value;
	struct view view;                  /* what a thread takes over that acquires it */
};

struct thread {
	struct view now, acquired, released;
	uint64_t log[MODEL_STEPS];         /* what its operations answered */
	unsigned done, replayed;
	bool ended;
};

static struct {
	const struct model_program *program;
	const void *location[MODEL_LOCATIONS];
	unsigned locations;
	struct message store[MODEL_LOCATIONS][MODEL_STORES];
	unsigned stores[MODEL_LOCATIONS];
	struct view consistent;            /* of sequentially consistent stores and fences */
	struct thread thread[MODEL_THREADS];
	uint64_t note[MODEL_THREADS];
	unsigned current;
	bool stepped, given_up;
	jmp_buf back;

	unsigned choice[CHOICES], of[CHOICES], chosen, known;
} model;

static unsigned choose(unsigned count)
{
	assert(count > 0 && model.chosen < CHOICES);
	if (model.chosen == model.known) {
		model.choice[model.known] = 0;
		model.of[model.known++] = count;
	}
	assert(model.of[model.chosen] == count);
	return model.choice[model.chosen++];
}

/* To the next execution. False: that was the last. */
static bool next_choices(void)
{
	while (model.known > 0 && model.choice[model.known - 1] + 1 == model.of[model.known - 1])
		model.known--;
	if (model.known == 0)
		return false;
	model.choice[model.known - 1]++;
	return true;
}

static void join(struct view *view, const struct view *other)
{
	for (unsigned i = 0; i < MODEL_LOCATIONS; i++)
		if (view->at[i] < other->at[i])
			view->at[i] = other->at[i];
}

static unsigned index_of(const void *location)
{
	unsigned i = 0;

	while (i < model.locations && model.location[i] != location)
		i++;
	if (i == model.locations) {
		assert(i < MODEL_LOCATIONS);
		model.location[model.locations++] = location;
		model.store[i][0] = (struct message){.value = 0};
		model.stores[i] = 1;
	}
	return i;
}

static bool acquires(int order)
{
	return order == __ATOMIC_ACQUIRE || order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST;
}

static bool releases(int order)
{
	return order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST;
}

static bool is_total(int order)
{
	return order == __ATOMIC_SEQ_CST && !model.program->no_total_order;
}

/* ---- one operation, executed ---- */

static uint64_t take_message(struct thread *thread, unsigned at, unsigned number, int order)
{
	const struct message *message = &model.store[at][number];

	thread->now.at[at] = (uint8_t)number;
	join(&thread->acquired, &message->view);
	if (acquires(order))
		join(&thread->now, &message->view);
	return message->value;
}

static uint64_t load(struct thread *thread, unsigned at, int order)
{
	unsigned oldest = thread->now.at[at], newest = model.stores[at] - 1;

	if (is_total(order) && oldest < model.consistent.at[at])
		oldest = model.consistent.at[at];
	/* The newest first. */
	return take_message(thread, at, newest - choose(newest - oldest + 1), order);
}

/* Each location has one writer at a time in these programs: a store is the last. */
static void store(struct thread *thread, unsigned at, uint64_t value, int order)
{
	unsigned number = model.stores[at]++;
	struct message *message = &model.store[at][number];

	assert(number < MODEL_STORES);
	thread->now.at[at] = (uint8_t)number;
	message->value = value;
	message->view = releases(order) ? thread->now : thread->released;
	message->view.at[at] = (uint8_t)number;
	if (is_total(order))
		model.consistent.at[at] = (uint8_t)number;
}

static uint64_t exchange(struct thread *thread, unsigned at, uint64_t value, int order)
{
	unsigned number = model.stores[at] - 1;
	uint64_t old = take_message(thread, at, number, order);

	store(thread, at, value, order);
	/* A release sequence: who acquires this acquires what was released there before. */
	join(&model.store[at][number + 1].view, &model.store[at][number].view);
	return old;
}

static void fence(struct thread *thread, int order)
{
	if (acquires(order))
		join(&thread->now, &thread->acquired);
	if (order == __ATOMIC_SEQ_CST) {
		join(&thread->now, &model.consistent);
		model.consistent = thread->now;
	}
	if (releases(order))
		thread->released = thread->now;
	join(&thread->acquired, &thread->now);
}

/* The caller's before and after those of all others: it returns when all have had theirs. */
static void barrier(struct thread *thread)
{
	fence(thread, __ATOMIC_SEQ_CST);
	for (unsigned i = 0; i < model.program->threads; i++)
		fence(&model.thread[i], __ATOMIC_SEQ_CST);
	fence(thread, __ATOMIC_SEQ_CST);
}

/* ---- operations of the threads ---- */

enum operation { LOAD, STORE, EXCHANGE, FENCE, BARRIER };

static uint64_t operate(enum operation operation, const void *location, uint64_t value, int order)
{
	struct thread *thread = &model.thread[model.current];
	uint64_t answer = 0;

	if (thread->replayed < thread->done)
		return thread->log[thread->replayed++];
	if (model.stepped)
		longjmp(model.back, 1);
	model.stepped = true;
	switch (operation) {
	case LOAD:
		answer = load(thread, index_of(location), order);
		break;
	case STORE:
		store(thread, index_of(location), value, order);
		break;
	case EXCHANGE:
		answer = exchange(thread, index_of(location), value, order);
		break;
	case FENCE:
		fence(thread, order);
		break;
	case BARRIER:
		barrier(thread);
		break;
	}
	assert(thread->done < MODEL_STEPS);
	thread->log[thread->done++] = answer;
	thread->replayed = thread->done;
	return answer;
}

uint64_t model_load(const void *location, int order)
{
	return operate(LOAD, location, 0, order);
}

void model_store(void *location, uint64_t value, int order)
{
	(void)operate(STORE, location, value, order);
}

uint64_t model_exchange(void *location, uint64_t value, int order)
{
	return operate(EXCHANGE, location, value, order);
}

void model_fence(int order)
{
	(void)operate(FENCE, NULL, 0, order);
}

void model_barrier(void)
{
	(void)operate(BARRIER, NULL, 0, __ATOMIC_SEQ_CST);
}

void model_note(uint64_t value)
{
	model.note[model.current] = value;
}

void model_give_up(void)
{
	model.given_up = true;
	longjmp(model.back, 1);
}

/* ---- executions ---- */

/* One more operation of that thread, and on to the next, which is not executed. */
static void step(unsigned number)
{
	struct thread *thread = &model.thread[number];

	model.current = number;
	model.stepped = false;
	model.note[number] = 0;
	thread->replayed = 0;
	if (setjmp(model.back) == 0) {
		model.program->thread[number]();
		thread->ended = true;
	}
}

static bool execute(void)
{
	model.locations = 0;
	model.chosen = 0;
	model.given_up = false;
	memset(&model.consistent, 0, sizeof(model.consistent));
	memset(model.thread, 0, sizeof(model.thread));
	memset(model.note, 0, sizeof(model.note));
	while (!model.given_up) {
		unsigned can[MODEL_THREADS], count = 0;

		for (unsigned i = 0; i < model.program->threads; i++)
			if (!model.thread[i].ended)
				can[count++] = i;
		if (count == 0)
			return true;
		step(can[count == 1 ? 0 : choose(count)]);
	}
	return false;
}

struct model_outcome model_explore(const struct model_program *program)
{
	struct model_outcome outcome = {0};

	model.program = program;
	model.known = 0;
	do {
		bool noted = false;

		if (!execute())
			continue;
		outcome.executions++;
		for (unsigned i = 0; i < program->threads; i++)
			noted |= model.note[i] != 0;
		outcome.interesting += noted;
		outcome.refused += !program->judge(model.note);
	} while (next_choices());
	return outcome;
}
