/* SPDX-License-Identifier: MIT
 *
 * Two processes that behave in every combination of the ways below, over a wire that delivers, loses, doubles or delays
 * each of the first messages in every combination: whatever happens, each side is told an end that makes sense, and
 * nothing is left over. Then the same by chance, with heavier weather, and processes that do anything at any time.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "sim.h"

enum { PORT = 7174, MOST_IDS = 64 };

/* What the asking process does when the answer comes (CANCEL: before). */
enum active_way { A_STAY, A_HANG_UP, A_VANISH, A_REFUSE, A_CANCEL, A_CANCEL_LATE, ACTIVE_WAYS };
/* What the asked process does. */
enum passive_way {
	P_STAY,
	P_HANG_UP,
	P_HANG_UP_EARLY,
	P_VANISH_EARLY,
	P_REFUSE,
	P_IGNORE,
	P_VANISH,
	P_NOTIFY,
	PASSIVE_WAYS
};

/* What an id has been told. */
struct life {
	uint32_t id;
	bool is_active, gone;
	bool answered, established, disconnected, over;
	unsigned timewait_exits;
};

struct story {
	enum active_way active;
	enum passive_way passive;
	bool answer_by_destroying; /* DISCONNECTED is answered by destroying the id rather than by disconnecting */
	struct life life[MOST_IDS];
	unsigned lives;
};

static struct sim sim;
static struct story story;

static struct life *begin_life(uint32_t id, bool is_active)
{
	struct life *life = &story.life[story.lives++];

	assert_true(story.lives <= MOST_IDS);
	*life = (struct life){.id = id, .is_active = is_active};
	return life;
}

static struct life *find_life(uint32_t id)
{
	for (unsigned i = 0; i < story.lives; i++)
		if (story.life[i].id == id)
			return &story.life[i];
	fail_msg("an event for an id nobody knows");
	return NULL;
}

static void vanish(struct sim_process *process, struct life *life)
{
	if (life->gone)
		return;
	life->gone = true;
	assert_int_equal(sim_order(process, VB_CM_DESTROY, life->id), 0);
}

/* Is the event one that may come now? */
static void check_order(struct life *life, const struct vb_cm_event *event)
{
	assert_false(life->gone);
	switch (event->kind) {
	case VB_CM_EVENT_CONNECT_RESPONSE:
		assert_true(life->is_active);
		assert_false(life->answered || life->over);
		life->answered = true;
		break;
	case VB_CM_EVENT_ESTABLISHED:
		assert_false(life->is_active);
		assert_false(life->established || life->disconnected || life->over);
		life->established = true;
		break;
	case VB_CM_EVENT_DISCONNECTED:
		assert_false(life->disconnected || life->over);
		assert_true(!life->is_active || life->answered);
		life->disconnected = true;
		break;
	case VB_CM_EVENT_REJECTED:
	case VB_CM_EVENT_UNREACHABLE:
		assert_false(life->disconnected || life->over);
		life->over = true;
		break;
	case VB_CM_EVENT_TIMEWAIT_EXIT:
		assert_true(life->disconnected || life->over);
		assert_int_equal(life->timewait_exits++, 0);
		break;
	default:
		fail_msg("event %u", event->kind);
	}
}

static void answer_request(struct sim_process *process, struct life *life)
{
	switch (story.passive) {
	case P_REFUSE:
		assert_int_equal(sim_order(process, VB_CM_REJECT, life->id), 0);
		vanish(process, life);
		return;
	case P_VANISH:
		vanish(process, life);
		return;
	case P_IGNORE:
		return;
	default:
		assert_int_equal(sim_accept(process, life->id, 0x8000 + life->id % 0x1000), 0);
	}
	if (story.passive == P_HANG_UP_EARLY)
		assert_int_equal(sim_order(process, VB_CM_DISCONNECT, life->id), 0);
	else if (story.passive == P_VANISH_EARLY)
		vanish(process, life);
	else if (story.passive == P_NOTIFY)
		assert_int_equal(sim_order(process, VB_CM_NOTIFY, life->id), 0);
}

static void answer_reply(struct sim_process *process, struct life *life)
{
	switch (story.active) {
	case A_REFUSE:
		assert_int_equal(sim_order(process, VB_CM_REJECT, life->id), 0);
		vanish(process, life);
		return;
	case A_VANISH:
		vanish(process, life);
		return;
	default:
		assert_int_equal(sim_order(process, VB_CM_ESTABLISH, life->id), 0);
	}
	if (story.active == A_HANG_UP)
		assert_int_equal(sim_order(process, VB_CM_DISCONNECT, life->id), 0);
}

static void react(struct sim *s, struct sim_process *process, const struct vb_cm_event *event)
{
	struct life *life;

	(void)s;
	if (event->kind == VB_CM_EVENT_CONNECT_REQUEST) {
		answer_request(process, begin_life(event->id, false));
		return;
	}
	life = find_life(event->id);
	check_order(life, event);
	switch (event->kind) {
	case VB_CM_EVENT_CONNECT_RESPONSE:
		answer_reply(process, life);
		break;
	case VB_CM_EVENT_ESTABLISHED:
		if (story.passive == P_HANG_UP)
			assert_int_equal(sim_order(process, VB_CM_DISCONNECT, life->id), 0);
		break;
	case VB_CM_EVENT_DISCONNECTED:
		if (story.answer_by_destroying)
			vanish(process, life);
		else
			assert_int_equal(sim_order(process, VB_CM_DISCONNECT, life->id), 0);
		break;
	default:
		vanish(process, life);
	}
}

/* Both hosts listen and ask each other at the same time, or one asks the other. */
static void tell_story(bool both_ask)
{
	struct sim_process *process[SIM_HOSTS] = {&sim.host[0].process[0], &sim.host[1].process[0]};
	struct life *asked[SIM_HOSTS] = {NULL};
	unsigned askers = both_ask ? 2 : 1;

	sim.react = react;
	story.lives = 0;
	for (unsigned i = 0; i < SIM_HOSTS; i++)
		sim_listen(process[i], VB_CM_PS_TCP, PORT, 8);
	for (unsigned i = 0; i < askers; i++) {
		asked[i] = begin_life(sim_create(process[i], VB_CM_PS_TCP), true);
		assert_int_equal(sim_connect(process[i], asked[i]->id, 1 - i, PORT, 0x4000 + i), 0);
		if (story.active == A_CANCEL)
			vanish(process[i], asked[i]);
	}
	if (story.active == A_CANCEL_LATE) {
		sim_run(&sim, sim.now + VB_MICROSECONDS(15));
		for (unsigned i = 0; i < askers; i++)
			vanish(process[i], asked[i]);
	}
	sim_run(&sim, sim.now + VB_SECONDS(150));
	/* Who still waits or stays has had his time. */
	for (unsigned i = 0; i < askers; i++) {
		if (!asked[i]->gone && asked[i]->answered && !asked[i]->over)
			assert_int_equal(sim_order(process[i], VB_CM_DISCONNECT, asked[i]->id), 0);
		else
			vanish(process[i], asked[i]);
	}
	sim_run(&sim, sim.now + VB_SECONDS(200));
	for (unsigned i = 0; i < story.lives; i++)
		if (!story.life[i].gone)
			fail_msg("%s id was left without an end: active way %u, passive way %u",
				 story.life[i].is_active ? "active" : "passive", story.active, story.passive);
	for (unsigned i = 0; i < SIM_HOSTS; i++) {
		assert_int_equal(process[i]->owner.count, 1); /* the listener */
		vb_connect_owner_gone(sim.host[i].connect, sim.now, &process[i]->owner);
	}
	sim_run(&sim, VB_TIME_NEVER);
	sim_end_clean(&sim);
}

/* A withdrawal is said once. Who neither answers the request nor is sent the withdrawal hears no more; and nobody who
 * withdraws has sent the data that NOTIFY speaks of. */
static bool makes_sense(enum active_way active, enum passive_way passive)
{
	bool stays = active == A_STAY || active == A_HANG_UP;

	return stays || (passive != P_IGNORE && passive != P_NOTIFY);
}

/* A process that refuses or vanishes is asked again if the repetition of a request outlives its answer; that is the
 * protocol. */
static void every_fate_of_the_first_messages(void **state)
{
	enum { MASKED = 4 };

	(void)state;
	for (unsigned a = 0; a < ACTIVE_WAYS; a++) {
		for (unsigned p = 0; p < PASSIVE_WAYS; p++) {
			for (uint64_t mask = 0; mask < 1u << 2 * MASKED; mask++) {
				if (!makes_sense(a, p))
					continue;
				story.active = a;
				story.passive = p;
				story.answer_by_destroying = (mask ^ mask >> 3) & 1;
				sim_begin(&sim, mask + 1);
				sim.mask = mask;
				sim.masked = MASKED;
				tell_story(false);
			}
		}
	}
}

static void simultaneous_requests(void **state)
{
	enum { MASKED = 5 };

	(void)state;
	for (unsigned a = 0; a < ACTIVE_WAYS; a++) {
		for (unsigned p = 0; p < PASSIVE_WAYS; p++) {
			for (uint64_t mask = 0; mask < 1u << 2 * MASKED; mask++) {
				if (!makes_sense(a, p))
					continue;
				story.active = a;
				story.passive = p;
				story.answer_by_destroying = mask & 1;
				sim_begin(&sim, mask + 1);
				sim.mask = mask;
				sim.masked = MASKED;
				tell_story(true);
			}
		}
	}
}

/* The late messages of a conversation meet their fates too. */
static void bad_weather(void **state)
{
	enum { RUNS = 1500 };

	(void)state;
	for (unsigned seed = 1; seed <= RUNS; seed++) {
		sim_begin(&sim, 0xbad0000 + seed);
		sim.lose = 150;
		sim.duplicate = 100;
		sim.delay = 100;
		story.active =
			sim_draw(&sim) % 3; /* those that do not give up early: their peers might never hear of it */
		story.passive = sim_draw(&sim) % 4;
		story.answer_by_destroying = sim_draw(&sim) & 1;
		tell_story(seed & 1);
	}
}

/* ---- anything at any time */

enum { CHAOS_IDS = 40, CHAOS_STEPS = 4000, CHAOS_RUNS = 20 };

static struct {
	uint32_t id[SIM_HOSTS * SIM_PROCESSES][CHAOS_IDS];
} chaos;

static unsigned process_number(const struct sim_process *process)
{
	return (unsigned)(process->host - sim.host) * SIM_PROCESSES + (unsigned)(process - process->host->process);
}

static void remember(struct sim_process *process, uint32_t id)
{
	uint32_t *slot = &chaos.id[process_number(process)][sim_draw(&sim) % CHAOS_IDS];

	if (*slot)
		assert_int_equal(sim_order(process, VB_CM_DESTROY, *slot), 0);
	*slot = id;
}

static void react_to_chaos(struct sim *s, struct sim_process *process, const struct vb_cm_event *event)
{
	bool known = false;

	if (event->kind == VB_CM_EVENT_CONNECT_REQUEST) {
		remember(process, event->id);
		return;
	}
	for (unsigned i = 0; i < CHAOS_IDS; i++)
		known |= chaos.id[process_number(process)][i] == event->id;
	assert_true(known); /* no event of a destroyed id */
	(void)s;
}

static void do_anything(struct sim_process *process)
{
	uint32_t *slot = &chaos.id[process_number(process)][sim_draw(&sim) % CHAOS_IDS];
	struct vb_cm_command command = {
		.verb = sim_draw(&sim) % 13,
		.id = *slot,
		.port_space = sim_draw(&sim) % 4 ? VB_CM_PS_TCP : VB_CM_PS_UDP,
		.source = sim_address(&sim, (unsigned)(process->host - sim.host), 0),
		.destination = sim_address(&sim, sim_draw(&sim) % 2, (uint16_t)(1 + sim_draw(&sim) % 4)),
		.conn = {.qpn = 1 + sim_draw(&sim) % 64},
	};
	struct vb_cm_reply reply;
	int error;

	if (command.verb == VB_CM_ADOPT)
		return;
	if (command.verb == VB_CM_BIND)
		command.source.port = (uint16_t)(1 + sim_draw(&sim) % 4);
	error = sim_command(process, &command, &reply);
	if (command.verb == VB_CM_CREATE && error == 0)
		remember(process, reply.id);
	if (command.verb == VB_CM_DESTROY && error == 0)
		*slot = 0;
	assert_true(error == 0 || error == EINVAL || error == ENOENT || error == EADDRINUSE || error == EADDRNOTAVAIL ||
		    error == EISCONN);
}

static void chaos_leaves_nothing(void **state)
{
	(void)state;
	for (unsigned run = 1; run <= CHAOS_RUNS; run++) {
		memset(&chaos, 0, sizeof(chaos));
		sim_begin(&sim, 0xc4a05 + run);
		sim.react = react_to_chaos;
		sim.lose = 20 * (run % 10);
		sim.duplicate = sim.delay = 10 * (run % 7);
		for (unsigned step = 0; step < CHAOS_STEPS; step++) {
			struct sim_host *host = &sim.host[sim_draw(&sim) % SIM_HOSTS];
			struct sim_process *process = &host->process[sim_draw(&sim) % SIM_PROCESSES];

			if (sim_draw(&sim) % 500 == 0) {
				vb_connect_owner_gone(host->connect, sim.now, &process->owner);
				memset(chaos.id[process_number(process)], 0, sizeof(chaos.id[0]));
			} else {
				do_anything(process);
			}
			sim_run(&sim, sim.now + VB_MICROSECONDS(1) * (sim_draw(&sim) % 4 ? sim_draw(&sim) % 50
											 : sim_draw(&sim) % 3000000));
		}
		for (unsigned h = 0; h < SIM_HOSTS; h++)
			for (unsigned p = 0; p < SIM_PROCESSES; p++)
				vb_connect_owner_gone(sim.host[h].connect, sim.now, &sim.host[h].process[p].owner);
		sim_run(&sim, VB_TIME_NEVER);
		sim_end_clean(&sim);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_fate_of_the_first_messages),
		cmocka_unit_test(simultaneous_requests),
		cmocka_unit_test(bad_weather),
		cmocka_unit_test(chaos_leaves_nothing),
	};

	puts("seeds are the numbers in the loops");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
