/* SPDX-License-Identifier: MIT
 *
 * Crash points of a connection, in virtual time: before and after each act of both processes, from the first command to the last, one of
 * them dies (its daemon sees it), stands still (SIGSTOP), or its host is cut off. The other one is told: within a second where a process
 * has died, and otherwise within the time that the timeouts of the protocol say. When all is over nothing is left. Two hosts, and one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "connect/connection.h"
#include "sim.h"

enum { CLIENT, SERVER, BOTH, PORT = 7174, NEVER = 1000 };
enum act { CONNECT, ACCEPT, ESTABLISH, DISCONNECT, ANSWER, ACTS };
enum how { KILLED, STOPPED, CUT_OFF, WAYS };

static struct sim sim;

static struct life {
	struct sim_process *process;
	uint32_t id;
	bool crashed, waits, connected;    /* waits: for something that the other one does */
	bool told;                         /* that it is over */
} life[BOTH];

static enum how how;
static int victim;
static unsigned crash_point, point;    /* two of each act: before it, and after it */
static vb_time crashed_at;

static void crash(void)
{
	struct life *dead = &life[victim];

	dead->crashed = true;
	crashed_at = sim.now;
	if (how == KILLED)
		vb_connect_owner_gone(dead->process->host->connect, sim.now, &dead->process->owner);
	sim.unplugged |= how == CUT_OFF;
}

static void pass_point(void)
{
	if (point++ == crash_point)
		crash();
}

static void perform(int who, enum act act)
{
	struct life *own = &life[who];

	if (own->crashed)
		return;
	pass_point();
	if (own->crashed)
		return;
	switch (act) {
	case CONNECT:
		own->id = sim_create(own->process, VB_CM_PS_TCP);
		assert_int_equal(sim_connect(own->process, own->id, life[SERVER].process->host == &sim.host[1], PORT, 0x123), 0);
		own->waits = true;
		break;
	case ACCEPT:
		own->waits = sim_accept(own->process, own->id, 0x456) == 0;
		break;
	case ESTABLISH:
		own->connected = sim_order(own->process, VB_CM_ESTABLISH, own->id) == 0;
		own->waits = false;
		break;
	case DISCONNECT:
		own->waits = sim_order(own->process, VB_CM_DISCONNECT, own->id) == 0;
		break;
	default:
		(void)sim_order(own->process, VB_CM_DISCONNECT, own->id);
		break;
	}
	pass_point();
}

static void react(struct sim *unused, struct sim_process *process, const struct vb_cm_event *event)
{
	int who = process == life[CLIENT].process ? CLIENT : SERVER;
	struct life *own = &life[who];

	(void)unused;
	if (own->crashed)
		return;
	switch (event->kind) {
	case VB_CM_EVENT_CONNECT_REQUEST:
		own->id = event->id;
		perform(who, ACCEPT);
		break;
	case VB_CM_EVENT_CONNECT_RESPONSE:
		perform(who, ESTABLISH);
		break;
	case VB_CM_EVENT_ESTABLISHED:
		own->connected = true;
		own->waits = false;
		break;
	case VB_CM_EVENT_DISCONNECTED:
		own->told = true;
		own->waits = own->connected = false;
		if (who == SERVER)
			perform(who, ANSWER);
		break;
	case VB_CM_EVENT_UNREACHABLE:
	case VB_CM_EVENT_REJECTED:
	case VB_CM_EVENT_CONNECT_ERROR:
		own->told = true;
		own->waits = own->connected = false;
		break;
	default:
		break;
	}
}

static vb_time exponent(unsigned code)
{
	return VB_NANOSECONDS(4096) << code;
}

/* Every message as often as it may be repeated. The daemon of a process that stands still asks for patience each time (MRA). */
static vb_time timeouts(void)
{
	vb_time each = exponent(VB_CONNECT_RESPONSE_TIMEOUT) + 2 * exponent(VB_CONNECT_PACKET_LIFE);

	return (VB_CONNECT_MAX_RETRIES + 1) * (how == STOPPED ? each + exponent(VB_CONNECT_SERVICE_TIMEOUT) : each) + VB_SECONDS(1);
}

static void run_for(vb_time duration)
{
	sim_run(&sim, sim.now + duration);
}

/* The survivor of a crash at that point: is it told, and when? */
static void judge_survivor(void)
{
	struct life *survivor = &life[victim == CLIENT ? SERVER : CLIENT];
	bool concerned = survivor->waits || survivor->connected;

	run_for(VB_SECONDS(1));
	if (how == KILLED)
		assert_true(!concerned || survivor->told);
	if (survivor->connected) {
		/* No message is due on a connection that rests: work that is posted fails by its own timeouts, and then it is ended. */
		assert_int_equal(sim_order(survivor->process, VB_CM_DISCONNECT, survivor->id), 0);
		survivor->waits = true;
	}
	if (!survivor->waits)
		return;
	run_for(timeouts());
	assert_true(survivor->told);
	assert_true(sim.now - crashed_at <= timeouts() + VB_SECONDS(2));
}

/* False: there was no such point. */
static bool live_and_crash(unsigned at, bool one_host)
{
	memset(life, 0, sizeof(life));
	sim_begin(&sim, 0x517 + at);
	sim.react = react;
	life[CLIENT].process = &sim.host[0].process[0];
	life[SERVER].process = one_host ? &sim.host[0].process[1] : &sim.host[1].process[0];
	sim_listen(life[SERVER].process, VB_CM_PS_TCP, PORT, 4);
	point = 0;
	crash_point = at;
	perform(CLIENT, CONNECT);
	run_for(VB_MILLISECONDS(100));
	if (life[CLIENT].connected)
		perform(CLIENT, DISCONNECT);
	run_for(VB_MILLISECONDS(100));
	if (life[victim].crashed)
		judge_survivor();
	else
		assert_true(life[CLIENT].told);
	sim.unplugged = false;
	for (int who = CLIENT; who < BOTH; who++)
		vb_connect_owner_gone(life[who].process->host->connect, sim.now, &life[who].process->owner);
	sim_run(&sim, VB_TIME_NEVER);
	sim_end_clean(&sim);
	return point > at;
}

static void everyone_is_told(void **state)
{
	unsigned points = 0;

	(void)state;
	for (int one_host = 0; one_host < 2; one_host++)
		for (victim = CLIENT; victim < BOTH; victim++)
			for (how = KILLED; how < WAYS; how++)
				for (unsigned at = 0; live_and_crash(at, one_host); at++)
					points++;
	/* Each of five acts, before and after, twelve times. */
	assert_int_equal(points, 2 * ACTS * 2 * 2 * WAYS);
	victim = CLIENT;
	assert_false(live_and_crash(NEVER, false));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(everyone_is_told)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
