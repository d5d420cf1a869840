/* SPDX-License-Identifier: MIT
 *
 * The engine thread: sleeps until a socket, a timer, verbenad or somebody in the process wants something, and does what
 * the application's threads do not do themselves.
 *
 * While an application thread spins on an empty CQ it does all the work (vb_endpoint_progress), and a second thread
 * woken by every packet would only be in its way. A spinner is known by its stamp: the time of its last vain poll. When
 * the engine thread is woken and the stamp is fresh, it takes a nap during which sockets do not wake it, and looks
 * again. Naps grow as long as the spinner goes on, up to a millisecond. A nap in which nobody polled and after which
 * packets lie unserved was one too many: naps shrink. After a few of those in a row (a program that spins on its memory
 * and polls now and then, say) there are none for a while, which is twice as long each time.
 *
 * Arming a CQ means that its user is going to sleep: it ends a nap at once, and the stamp does not count until somebody
 * has polled in vain many times since. With nothing to do there is no timeout at all.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/log.h"
#include "io/clock.h"
#include "io/event.h"
#include "progress/endpoint_parts.h"
#include "progress/same_host.h"

#define STAMP_IS_FRESH VB_MICROSECONDS(50)
#define STAMP_LASTS VB_MICROSECONDS(1)
#define POSTS_ARE_NOTED VB_MICROSECONDS(8)
#define LONGEST_POSTING VB_MICROSECONDS(500)
#define FIRST_NAP VB_MICROSECONDS(16)
#define LONGEST_NAP VB_MILLISECONDS(1)
#define SHORTEST_NAP VB_MICROSECONDS(4)
/* Longer than a peer takes to answer, shorter than two wake-ups cost. */
#define LINGER VB_MICROSECONDS(20)
#define OTHER_AT_WORK VB_MICROSECONDS(20)
#define LONGEST_WORK VB_MILLISECONDS(5)

enum {
	SHORTEST_HOLDOFF = 128,            /* wake-ups without naps */
	LONGEST_HOLDOFF = 16384,
	BAD_NAPS = 3,                      /* in a row: no more naps */
	POLLS_OF_A_SPINNER = 32,           /* vain polls after arming that show a spinner */
	/* Of vain polls of memory, some 50 us. A pass over the sockets takes as long as ten of them and counts as more: 15 us, which is
	 * longer than an answer takes that does not wait for anybody's core. Yielding to nobody takes 0.3 us. */
	POLLS_BEFORE_YIELD = 1024,
	POLLS_PER_YIELD = 160,
	POLLS_OF_A_PASS = 40,
	POLLS_OF_A_LOSER = 10,
	RELAXES_OF_A_LOSER = 16,
};

enum { ITEM_IPV4, ITEM_IPV6, ITEM_EVENT, ITEM_DAEMON, ITEMS };

void vb_engine_kick(struct vb_endpoint *endpoint)
{
	vb_event_raise(endpoint->event_fd);
}

/* ---- called by the application's threads ---- */

/* Where there are more spinners than cores, the one we wait for may be waiting for our core. Two threads that exchange 128 messages with
 * two others on two cores do 1.8 million a second so; with half a millisecond before the first yield, 0.5 million where the
 * scheduler happened to put them so that they wait for each other. */
void vb_engine_yield_sometimes(uint32_t *vain_polls, unsigned polls, bool done)
{
	uint32_t before = __atomic_load_n(vain_polls, __ATOMIC_RELAXED), vain = before + polls;

	if (done) {
		if (before != 0)
			__atomic_store_n(vain_polls, 0, __ATOMIC_RELAXED);
		return;
	}
	__atomic_store_n(vain_polls, vain, __ATOMIC_RELAXED);
	if (vain > POLLS_BEFORE_YIELD && vain / POLLS_PER_YIELD != before / POLLS_PER_YIELD)
		vb_thread_yield();
}

/* Not each time: threads that poll would take the line away from each other. */
static void leave_stamp(struct vb_endpoint *endpoint, vb_time now)
{
	if (now - __atomic_load_n(&endpoint->spin_stamp, __ATOMIC_RELAXED) >= STAMP_LASTS)
		__atomic_store_n(&endpoint->spin_stamp, now, __ATOMIC_RELAXED);
}

static void show_spinner(struct vb_endpoint *endpoint, vb_time now)
{
	if (!__atomic_load_n(&endpoint->watched, __ATOMIC_RELAXED)) {
		leave_stamp(endpoint, now);
		if (endpoint->same_host)
			vb_local_attention_spin(endpoint->same_host);
	} else if (__atomic_add_fetch(&endpoint->polls_since_watch, 1, __ATOMIC_RELAXED) > POLLS_OF_A_SPINNER) {
		__atomic_store_n(&endpoint->watched, false, __ATOMIC_RELAXED);
	}
}

/* Where somebody else is at it nothing is missed. But threads that ask again and again whether he is through keep him from it: four of
 * them, on 16 cores, sent 1.2 million messages a second where 1.6 are possible. Returns as how many vain polls it counts. */
static unsigned join_pass(struct vb_endpoint *endpoint, vb_time now, bool *done)
{
	vb_endpoint_polled_in_vain();
	if (!vb_lock_try(&endpoint->progress)) {
		for (unsigned i = 0; i < RELAXES_OF_A_LOSER; i++)
			vb_lock_relax();
		return POLLS_OF_A_LOSER;
	}
	__atomic_store_n(&endpoint->polling, true, __ATOMIC_RELAXED);
	*done |= vb_endpoint_pass(endpoint, now, false);
	__atomic_store_n(&endpoint->polling, false, __ATOMIC_RELAXED);
	vb_lock_release(&endpoint->progress);
	return POLLS_OF_A_PASS;
}

bool vb_endpoint_poll(struct vb_endpoint *endpoint, struct vb_poller *poller)
{
	vb_time now = vb_clock_now();
	bool done = false;
	unsigned polls = 1;

	if (endpoint->abandoned)
		return false;
	show_spinner(endpoint, now);
	if (!(poller && endpoint->same_host && vb_local_pollers_suffice(endpoint, poller, now, &done)))
		polls = join_pass(endpoint, now, &done);
	vb_engine_yield_sometimes(poller ? &poller->vain_polls : &endpoint->vain_polls, polls, done);
	return done;
}

bool vb_endpoint_progress(struct vb_endpoint *endpoint)
{
	return vb_endpoint_poll(endpoint, NULL);
}

void vb_endpoint_polled(struct vb_endpoint *endpoint, bool after_pass)
{
	/* Polling with success is polling. */
	if (!after_pass && !__atomic_load_n(&endpoint->watched, __ATOMIC_RELAXED))
		leave_stamp(endpoint, vb_clock_now());
	/* Whoever armed a CQ and now finds something is no spinner. */
	if (__atomic_load_n(&endpoint->polls_since_watch, __ATOMIC_RELAXED) != 0)
		__atomic_store_n(&endpoint->polls_since_watch, 0, __ATOMIC_RELAXED);
}

void vb_endpoint_watch(struct vb_endpoint *endpoint)
{
	__atomic_store_n(&endpoint->polls_since_watch, 0, __ATOMIC_RELAXED);
	/* Sequentially consistent, with the store of `napping` and the load of `watched` in take_nap: one of the two
	 * sees the other. */
	__atomic_store_n(&endpoint->watched, true, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&endpoint->napping, __ATOMIC_SEQ_CST))
		vb_engine_kick(endpoint);
	if (endpoint->same_host && !endpoint->abandoned)
		vb_local_attention_watch(endpoint->same_host);
}

void vb_engine_note_post(struct vb_endpoint *endpoint, vb_time now)
{
	if (now - __atomic_load_n(&endpoint->post_stamp, __ATOMIC_RELAXED) > POSTS_ARE_NOTED)
		__atomic_store_n(&endpoint->post_stamp, now, __ATOMIC_RELAXED);
}

/* Whoever posts a lot does not poll meanwhile. */
bool vb_engine_is_polled_for(struct vb_endpoint *endpoint)
{
	vb_time stamp = __atomic_load_n(&endpoint->spin_stamp, __ATOMIC_RELAXED);

	return stamp != 0 && !__atomic_load_n(&endpoint->watched, __ATOMIC_RELAXED) && vb_clock_now() - stamp < LONGEST_NAP;
}

/* ---- the thread ---- */

/* When a spinner was last seen. One that posts many requests at once polls when it is through with them. */
static vb_time last_seen(struct vb_endpoint *endpoint)
{
	vb_time polled = __atomic_load_n(&endpoint->spin_stamp, __ATOMIC_RELAXED);
	vb_time posted = __atomic_load_n(&endpoint->post_stamp, __ATOMIC_RELAXED);

	return polled != 0 && posted > polled && posted - polled < LONGEST_POSTING ? posted : polled;
}

static bool somebody_spins(struct vb_endpoint *endpoint)
{
	vb_time stamp = last_seen(endpoint);

	return stamp != 0 && !__atomic_load_n(&endpoint->watched, __ATOMIC_SEQ_CST) &&
	       (__atomic_load_n(&endpoint->polling, __ATOMIC_RELAXED) || vb_clock_now() - stamp < STAMP_IS_FRESH);
}

/* In the middle of a pass: what lies in the sockets is being served, however long ago the last vain poll was. */
static bool somebody_works(struct vb_endpoint *endpoint)
{
	if (!vb_lock_try(&endpoint->progress))
		return true;
	vb_lock_release(&endpoint->progress);
	return false;
}

/* What goes through memory waits for somebody to look at it. */
static bool memory_beckons(struct vb_endpoint *endpoint)
{
	bool beckons;

	if (!endpoint->same_host || __atomic_load_n(&endpoint->same_host->members, __ATOMIC_RELAXED) == 0)
		return false;
	vb_lock_take(&endpoint->progress);
	beckons = vb_local_pairs_beckon(endpoint);
	vb_lock_release(&endpoint->progress);
	return beckons;
}

static bool sockets_are_readable(struct vb_endpoint *endpoint)
{
	struct vb_wait_item items[] = {{.fd = endpoint->receive_fd[VB_IPV4]}, {.fd = endpoint->receive_fd[VB_IPV6]}};

	vb_wait(items, 2, 0);
	return items[0].readable || items[1].readable;
}

/* Sleep for one nap. True: undisturbed. */
static bool take_nap(struct vb_endpoint *endpoint)
{
	struct vb_wait_item items[] = {{.fd = endpoint->event_fd}, {.fd = endpoint->daemon.fd}};

	__atomic_store_n(&endpoint->napping, true, __ATOMIC_SEQ_CST);
	if (somebody_spins(endpoint))
		vb_wait(items, 2, vb_clock_now() + endpoint->nap);
	__atomic_store_n(&endpoint->napping, false, __ATOMIC_SEQ_CST);
	return !items[0].readable && !items[1].readable;
}

static void learn_from_bad_nap(struct vb_endpoint *endpoint)
{
	endpoint->nap = endpoint->nap / 4 > SHORTEST_NAP ? endpoint->nap / 4 : SHORTEST_NAP;
	if (++endpoint->bad_naps < BAD_NAPS)
		return;
	endpoint->nap = 0;
	endpoint->holdoff_left = endpoint->holdoff;
	endpoint->holdoff = endpoint->holdoff * 2 < LONGEST_HOLDOFF ? endpoint->holdoff * 2 : LONGEST_HOLDOFF;
	/* The next nap, when it comes, is a trial: if that is bad too, there are none again. */
	endpoint->bad_naps = BAD_NAPS - 1;
}

static void learn_from_good_nap(struct vb_endpoint *endpoint)
{
	if (endpoint->nap == LONGEST_NAP)
		endpoint->holdoff = SHORTEST_HOLDOFF;
	endpoint->nap = endpoint->nap * 2 < LONGEST_NAP ? endpoint->nap * 2 : LONGEST_NAP;
	endpoint->bad_naps = 0;
}

/* Returns when it is time to work. */
static void stay_out_of_the_way(struct vb_endpoint *endpoint)
{
	while (somebody_spins(endpoint)) {
		vb_time stamp = last_seen(endpoint);

		if (endpoint->nap == 0) {
			if (--endpoint->holdoff_left > 0)
				return;
			endpoint->nap = SHORTEST_NAP;
		}
		if (!take_nap(endpoint))
			return;
		if (last_seen(endpoint) != stamp) {
			learn_from_good_nap(endpoint);
		} else if (somebody_works(endpoint)) {
			continue;
		} else if (sockets_are_readable(endpoint) || memory_beckons(endpoint)) {
			learn_from_bad_nap(endpoint);
			return;
		}
	}
}

/* One pass, if nobody else is at it. */
static bool make_pass(struct vb_endpoint *endpoint, bool all_families, bool *done)
{
	if (!vb_lock_try(&endpoint->progress))
		return false;
	*done = vb_endpoint_pass(endpoint, vb_clock_now(), all_families);
	vb_lock_release(&endpoint->progress);
	return true;
}

/* Work until there has been nothing to do for a while: where packets come in a stream, the next is a few
 * microseconds away, and falling asleep in between costs its sender the waking. */
static void work(struct vb_endpoint *endpoint)
{
	vb_time began = vb_clock_now(), idle_since = began, now = began;
	bool done = false, first = true;

	/* Verbenad's news wait meanwhile, so not for ever. */
	while (now - began < LONGEST_WORK) {
		if (!make_pass(endpoint, first, &done)) {
			/* Whoever is at it does what we would. */
			struct vb_wait_item items[] = {{.fd = endpoint->event_fd}, {.fd = endpoint->daemon.fd}};

			vb_wait(items, 2, vb_clock_now() + OTHER_AT_WORK);
			return;
		}
		first = false;
		now = vb_clock_now();
		if (done)
			idle_since = now;
		/* A spinner that came meanwhile carries on. */
		if (now - idle_since > LINGER || (endpoint->nap > 0 && somebody_spins(endpoint)) ||
		    __atomic_load_n(&endpoint->stopping, __ATOMIC_RELAXED))
			return;
	}
}

static vb_time plan_sleep(struct vb_endpoint *endpoint)
{
	vb_time until = vb_timers_sleep(&endpoint->timers);

	if (__atomic_load_n(&endpoint->active_count, __ATOMIC_SEQ_CST) > 0)
		return 0;
	until = vb_time_earlier(until, endpoint->next_try);
	return endpoint->same_host ? vb_local_attention_rest(endpoint->same_host, until) : until;
}

static void *run_engine(void *argument)
{
	struct vb_endpoint *endpoint = argument;

	vb_thread_prepare("verbena");
	while (!__atomic_load_n(&endpoint->stopping, __ATOMIC_ACQUIRE)) {
		struct vb_wait_item items[ITEMS] = {
			[ITEM_IPV4] = {.fd = endpoint->receive_fd[VB_IPV4]},
			[ITEM_IPV6] = {.fd = endpoint->receive_fd[VB_IPV6]},
			[ITEM_EVENT] = {.fd = endpoint->event_fd},
			[ITEM_DAEMON] = {.fd = endpoint->daemon.fd},
		};
		vb_time now;

		vb_wait(items, ITEMS, plan_sleep(endpoint));
		vb_timers_awake(&endpoint->timers);
		if (items[ITEM_EVENT].readable)
			vb_event_clear(endpoint->event_fd);
		if (items[ITEM_DAEMON].readable)
			vb_daemon_link_serve(endpoint);
		now = vb_clock_now();
		if (now >= endpoint->next_try || __atomic_load_n(&endpoint->seeker_done, __ATOMIC_ACQUIRE) ||
		    __atomic_exchange_n(&endpoint->daemon_needed, false, __ATOMIC_RELAXED))
			vb_daemon_link_retry(endpoint);
		if (items[ITEM_IPV4].readable || items[ITEM_IPV6].readable ||
		    now >= vb_timers_next(&endpoint->timers) || __atomic_load_n(&endpoint->active_count, __ATOMIC_SEQ_CST) > 0 ||
		    memory_beckons(endpoint)) {
			stay_out_of_the_way(endpoint);
			if (endpoint->same_host)
				vb_local_attention_rise(endpoint->same_host);
			work(endpoint);
		}
		vb_daemon_link_report_probes(endpoint);
	}
	return NULL;
}

int vb_engine_start(struct vb_endpoint *endpoint)
{
	sigset_t all, before;
	int error;

	endpoint->nap = FIRST_NAP;
	endpoint->holdoff = SHORTEST_HOLDOFF;
	/* Signals belong to the application's threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&endpoint->engine, NULL, run_engine, endpoint);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error != 0) {
		vb_log(VB_LOG_ERROR, "cannot start the engine thread: %s", strerror(error));
		return -error;
	}
	endpoint->engine_runs = true;
	return 0;
}

void vb_engine_stop(struct vb_endpoint *endpoint)
{
	if (!endpoint->engine_runs)
		return;
	__atomic_store_n(&endpoint->stopping, true, __ATOMIC_RELEASE);
	vb_engine_kick(endpoint);
	pthread_join(endpoint->engine, NULL);
	endpoint->engine_runs = false;
}
