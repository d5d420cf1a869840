/* SPDX-License-Identifier: MIT
 *
 * The engine thread: sleeps until a socket, a timer, verbenad or another thread wants something, and does what
 * the application's threads do not do themselves.
 *
 * While an application thread spins on an empty CQ it does all the work (vb_endpoint_progress), and a second thread
 * woken by every packet would only be in its way. A spinner is known by its stamp: the time of its last vain poll. When
 * the engine thread is woken and the stamp is fresh, it takes a nap during which sockets do not wake it, and looks
 * again (schedule/naps.h).
 *
 * Arming a CQ means that its user is going to sleep: it ends a nap at once, and the stamp does not count until a
 * thread has found its queue empty many times since. With nothing to do there is no timeout at all.
 *
 * A thread that sleeps on the sockets itself (schedule/waiter.h) counts as one that spins; if there is nothing to do after a nap the
 * engine thread sleeps as ever, and is woken by the next packet as that thread is.
 */
#include <errno.h>
#include <string.h>

#include "base/inline.h"
#include "base/log.h"
#include "io/clock.h"
#include "io/event.h"
#include "io/thread.h"
#include "progress/endpoint_parts.h"
#include "schedule/looks.h"
#include "schedule/round.h"

#define OTHER_AT_WORK VB_MICROSECONDS(20)
#define LONGEST_WORK VB_MILLISECONDS(5)

enum {
	/* In polls of an empty CQ: a pass over the sockets takes as long as ten of them and counts as more, 15 us before a thread
	 * yields, which is longer than an answer takes that does not wait for a core. */
	POLLS_OF_A_PASS = 40,
	POLLS_OF_A_BRIEF_PASS = 6,         /* memory alone was looked at */
	POLLS_WHEN_BUSY = 10,
	LANE_POLLS_PER_PASS = 16,          /* then a thread with a lane of its own makes a pass over all, unless another does */
	RELAXES_WHEN_BUSY = 16,
};

static VB_THREAD_LOCAL struct vb_looks looks;
static VB_THREAD_LOCAL struct vb_round poll_round;
static VB_THREAD_LOCAL unsigned round_lane; /* over which the pass went that counts for all of the round; 0: over all */

enum { ITEM_EVENT, ITEM_DAEMON, FIRST_LINK_ITEM };

/* ---- called by the application's threads ---- */

static void show_spinner(struct vb_endpoint *endpoint, vb_time now)
{
	if (!vb_spinner_polled_empty(&endpoint->schedule.spinner, now) || vb_endpoint_looks_around_sleep(endpoint, now))
		return;
	for (struct vb_link *link = endpoint->schedule.spun; link; link = link->next_spun)
		link->driver->spun(link);
}

/* Where another thread is at it nothing is missed. But threads that ask again and again whether it is through keep it
 * from it: four of them, on 16 cores, sent 1.2 million messages a second where 1.6 are possible. Returns as how many
 * polls of an empty CQ it counts. */
static unsigned join_pass(struct vb_endpoint *endpoint, vb_time now, bool *done)
{
	struct vb_schedule *schedule = &endpoint->schedule;
	unsigned polls;

	vb_spinner_forget_posts();
	if (!vb_lock_try(&schedule->progress)) {
		for (unsigned i = 0; i < RELAXES_WHEN_BUSY; i++)
			vb_lock_relax();
		return POLLS_WHEN_BUSY;
	}
	__atomic_store_n(&schedule->spinner.polling, true, __ATOMIC_RELAXED);
	if (__atomic_load_n(&schedule->lanes, __ATOMIC_RELAXED) > 1)
		__atomic_store_n(&schedule->lane[0].polled, now, __ATOMIC_RELAXED);
	*done |= vb_endpoint_pass(endpoint, now, false);
	__atomic_store_n(&schedule->spinner.polling, false, __ATOMIC_RELAXED);
	polls = schedule->is_brief ? POLLS_OF_A_BRIEF_PASS : POLLS_OF_A_PASS;
	vb_lock_release(&schedule->progress);
	return polls;
}

/* As above, over a lane alone. */
static unsigned join_lane(struct vb_endpoint *endpoint, unsigned number, vb_time now, bool *done) VB_UNCHECKED
{
	struct vb_lane *lane = &endpoint->schedule.lane[number];

	vb_spinner_forget_posts();
	if (!vb_lock_try(lane->lock)) {
		for (unsigned i = 0; i < RELAXES_WHEN_BUSY; i++)
			vb_lock_relax();
		return POLLS_WHEN_BUSY;
	}
	__atomic_store_n(&lane->polled, now, __ATOMIC_RELAXED);
	*done |= vb_endpoint_pass_lane(endpoint, number, now, false);
	vb_lock_release(lane->lock);
	return POLLS_OF_A_PASS;
}

/* The lane that this poll passes over alone; 0: all of them. */
static unsigned lane_of(const struct vb_endpoint *endpoint, struct vb_poller *poller, vb_time now)
{
	const struct vb_lane *first = &endpoint->schedule.lane[0];
	uint8_t lane = poller ? __atomic_load_n(&poller->lane, __ATOMIC_RELAXED) : 0;
	uint32_t polls;

	/* Where all go through memory there is nothing in its sockets. */
	if (lane == 0 || lane == VB_NO_LANE || __atomic_load_n(&endpoint->schedule.lane[lane].members, __ATOMIC_RELAXED) == 0)
		return 0;
	polls = __atomic_load_n(&poller->lane_polls, __ATOMIC_RELAXED) + 1;
	__atomic_store_n(&poller->lane_polls, polls, __ATOMIC_RELAXED);
	return polls % LANE_POLLS_PER_PASS == 0 && now - __atomic_load_n(&first->polled, __ATOMIC_RELAXED) > VB_LANE_IS_POLLED ? 0 : lane;
}

/* What was posted and waits for a pass is not kept waiting. Who has a lane does not look at what others do with theirs. */
static bool look_is_due(const struct vb_endpoint *endpoint, const struct vb_poller *poller, vb_time now)
{
	const struct vb_schedule *schedule = &endpoint->schedule;
	uint8_t lane = __atomic_load_n(&poller->lane, __ATOMIC_RELAXED);
	bool waits = lane == 0 || lane == VB_NO_LANE ? vb_schedule_active(schedule) > 0 :
						      __atomic_load_n(&schedule->lane[lane].active_count, __ATOMIC_RELAXED) > 0;

	if (vb_looks_is_left_to_another(&looks, now))
		return false;
	if ((round_lane == 0 || round_lane == lane) && vb_round_has_looked(&poll_round, poller, now) && !waits)
		return false;
	return vb_looks_is_due(&looks, now) || waits;
}

bool vb_endpoint_poll(struct vb_endpoint *endpoint, struct vb_poller *poller)
{
	vb_time now = vb_clock_now();
	bool done = false, keeps = false;
	unsigned polls = 1, lane;

	if (endpoint->schedule.abandoned)
		return false;
	show_spinner(endpoint, now);
	if (!(poller && vb_poller_has_pairs(poller) && endpoint->fast &&
	      endpoint->fast->driver->poll(endpoint->fast, poller, now, &done))) {
		if (poller && !look_is_due(endpoint, poller, now))
			return false;
		lane = lane_of(endpoint, poller, now);
		polls = lane > 0 ? join_lane(endpoint, lane, now, &done) : join_pass(endpoint, now, &done);
		if (poller && polls == POLLS_OF_A_PASS && !done) {
			vb_round_begin(&poll_round, poller, now);
			round_lane = lane;
		}
		if (poller && polls == POLLS_OF_A_PASS && vb_looks_is_timed(&looks, now))
			vb_looks_made(&looks, now, vb_clock_now(), done);
		else if (poller && polls == POLLS_WHEN_BUSY)
			vb_looks_leave_to_another(&looks, now);
		else
			vb_looks_waited(&looks);
		keeps = poller && vb_looks_keeps_processor(&looks, now);
	}
	if (vb_spinner_must_yield(poller ? &poller->vain_polls : &endpoint->schedule.spinner.vain_polls, polls, done) && !keeps)
		vb_looks_yielded(&looks, vb_schedule_yield());
	return done;
}

bool vb_endpoint_progress(struct vb_endpoint *endpoint)
{
	return vb_endpoint_poll(endpoint, NULL);
}

void vb_endpoint_polled(struct vb_endpoint *endpoint, bool after_pass)
{
	vb_looks_found(&looks);
	if (vb_spinner_polled(&endpoint->schedule.spinner, after_pass))
		(void)vb_spinner_seen(&endpoint->schedule.spinner, vb_clock_now());
}

void vb_engine_slept(void)
{
	vb_looks_waited(&looks);
	poll_round = (struct vb_round){0};
}

/* ---- the thread ---- */

/* One that sleeps on the sockets comes with each packet, and for nothing else. */
static bool a_thread_spins(struct vb_endpoint *endpoint)
{
	vb_time now = vb_clock_now();

	return vb_spinner_spins(&endpoint->schedule.spinner, now) ||
	       (vb_waiter_attends(&endpoint->waiter, now) && now < vb_timers_next(&endpoint->schedule.timers));
}

/* In the middle of a pass: what lies in the sockets is being served, however long ago the last vain poll was. */
static bool a_thread_works(const struct vb_endpoint *endpoint)
{
	return vb_lock_is_held(&endpoint->schedule.progress);
}

/* Something waits that no descriptor need tell of. `told`: of links that wake a thread which sleeps on theirs; or of the others. */
static bool some_have_work(struct vb_endpoint *endpoint, bool told)
{
	for (struct vb_link *link = endpoint->schedule.links; link; link = link->next)
		if (link->driver->wakes_sleepers == told && link->driver->has_work && link->driver->has_work(link))
			return true;
	return false;
}

static bool links_have_work(struct vb_endpoint *endpoint)
{
	return some_have_work(endpoint, true) || some_have_work(endpoint, false);
}

/* The links' descriptors behind `count` items. Returns how many there are then. */
static unsigned add_descriptors(struct vb_endpoint *endpoint, struct vb_wait_item items[VB_WAIT_ITEMS], unsigned count)
{
	int fd[VB_LINK_DESCRIPTORS];

	for (struct vb_link *link = endpoint->schedule.links; link && count + VB_LINK_DESCRIPTORS <= VB_WAIT_ITEMS; link = link->next) {
		unsigned more = link->driver->descriptors ? link->driver->descriptors(link, fd) : 0;

		for (unsigned i = 0; i < more; i++)
			items[count++] = (struct vb_wait_item){.fd = fd[i]};
	}
	return count;
}

static bool some_are_readable(const struct vb_wait_item *items, unsigned first, unsigned count)
{
	for (unsigned i = first; i < count; i++)
		if (items[i].readable)
			return true;
	return false;
}

static bool descriptors_are_readable(struct vb_endpoint *endpoint)
{
	struct vb_wait_item items[VB_WAIT_ITEMS];
	unsigned count = add_descriptors(endpoint, items, 0);

	vb_wait(items, count, 0);
	return some_are_readable(items, 0, count);
}

/* Sleep for one nap. True: undisturbed. */
static bool take_nap(struct vb_endpoint *endpoint)
{
	struct vb_wait_item items[] = {{.fd = endpoint->schedule.event_fd}, {.fd = endpoint->daemon.fd}};
	vb_time now = vb_clock_now(), until = now + endpoint->naps.length;
	bool polls = vb_spinner_spins(&endpoint->schedule.spinner, now);
	/* What is posted waits for threads that poll, and for no other. */
	bool *napping = polls ? &endpoint->schedule.spinner.napping : &endpoint->waiter.napping;

	if (!polls)
		until = vb_time_earlier(until, vb_timers_next(&endpoint->schedule.timers));
	__atomic_store_n(napping, true, __ATOMIC_SEQ_CST);
	if (a_thread_spins(endpoint))
		vb_wait(items, 2, until);
	__atomic_store_n(napping, false, __ATOMIC_SEQ_CST);
	return !items[0].readable && !items[1].readable;
}

static struct vb_naps_view view(struct vb_endpoint *endpoint)
{
	const struct vb_schedule *schedule = &endpoint->schedule;
	vb_time polled = vb_spinner_last_seen(&schedule->spinner), woke = vb_waiter_last_seen(&endpoint->waiter);

	return (struct vb_naps_view){
		.spins = a_thread_spins(endpoint),
		.seen = polled > woke ? polled : woke,
		.pass = __atomic_load_n(&schedule->spinner.pass, __ATOMIC_RELAXED),
		.put_off = vb_schedule_waits(schedule),
	};
}

/* Returns when it is time to work; false: there is nothing to do, and a thread sleeps on the sockets that will hear of more as we do. */
static bool stay_out_of_the_way(struct vb_endpoint *endpoint)
{
	struct vb_naps_view seen = view(endpoint);
	vb_time lies_since = 0;

	while (vb_naps_begin(&endpoint->naps, &seen)) {
		vb_time before = vb_naps_is_measured(&endpoint->naps) ? vb_clock_of_thread() : 0;
		enum vb_nap_end end;
		bool others;

		if (!take_nap(endpoint))
			return true;
		if (before != 0)
			vb_naps_learn_cost(&endpoint->naps, vb_clock_of_thread() - before);
		seen = view(endpoint);
		end = vb_naps_end(&endpoint->naps, &seen);
		if (end == VB_NAP_WORK)
			return true;
		if (end == VB_NAP_AGAIN || a_thread_works(endpoint)) {
			lies_since = 0;
			continue;
		}
		others = some_have_work(endpoint, false);
		if (others || some_have_work(endpoint, true) || descriptors_are_readable(endpoint)) {
			if (!others && vb_waiter_may_still_come(&endpoint->waiter, &lies_since, vb_clock_now())) {
				vb_naps_lengthen(&endpoint->naps);
				continue;
			}
			vb_naps_learn_bad(&endpoint->naps);
			return true;
		}
		if (vb_waiter_sleeps(&endpoint->waiter) && vb_clock_now() < vb_timers_next(&endpoint->schedule.timers))
			return false;
	}
	return true;
}

/* One pass, if no other thread is at it. */
static bool make_pass(struct vb_endpoint *endpoint, bool all, bool *done)
{
	if (!vb_lock_try(&endpoint->schedule.progress))
		return false;
	endpoint->schedule.lane[0].by_engine = true;
	*done = vb_endpoint_pass(endpoint, vb_clock_now(), all);
	endpoint->schedule.lane[0].by_engine = false;
	vb_lock_release(&endpoint->schedule.progress);
	return true;
}

static bool goes_on(const struct vb_endpoint *endpoint, vb_time idle, vb_time now)
{
	return !vb_spinner_has_one_processor() &&
	       vb_linger_goes_on(&endpoint->linger, idle, vb_thread_cpu(), vb_schedule_application_cpu(&endpoint->schedule),
				 vb_spinner_sleeps(&endpoint->schedule.spinner, now));
}

/* Work until there has been nothing to do for a while (schedule/linger.h). */
static void work(struct vb_endpoint *endpoint)
{
	vb_time began = vb_clock_now(), idle_since = began, now = began;
	bool done = false, first = true;

	/* Verbenad's news wait meanwhile, so not for ever. */
	while (now - began < LONGEST_WORK) {
		vb_time before = now;

		if (!make_pass(endpoint, first, &done)) {
			/* The thread that is at it does what we would. */
			struct vb_wait_item items[] = {{.fd = endpoint->schedule.event_fd}, {.fd = endpoint->daemon.fd}};

			vb_wait(items, 2, vb_clock_now() + OTHER_AT_WORK);
			return;
		}
		first = false;
		now = vb_clock_now();
		vb_linger_looked(&endpoint->linger, now - before, done);
		if (done)
			idle_since = now;
		/* A spinner that came meanwhile carries on. */
		if ((!done && !goes_on(endpoint, now - idle_since, now)) ||
		    (endpoint->naps.length > 0 && a_thread_spins(endpoint)) ||
		    __atomic_load_n(&endpoint->stopping, __ATOMIC_RELAXED))
			return;
	}
}

static vb_time plan_sleep(struct vb_endpoint *endpoint)
{
	vb_time until = vb_timers_sleep(&endpoint->schedule.timers);

	if (vb_schedule_has_active(&endpoint->schedule))
		return 0;
	until = vb_time_earlier(until, endpoint->next_try);
	for (struct vb_link *link = endpoint->schedule.links; link; link = link->next)
		if (link->driver->rest)
			until = link->driver->rest(link, until);
	return until;
}

static void rise(struct vb_endpoint *endpoint)
{
	for (struct vb_link *link = endpoint->schedule.links; link; link = link->next)
		if (link->driver->rise)
			link->driver->rise(link);
}

static void *run_engine(void *argument)
{
	struct vb_endpoint *endpoint = argument;

	vb_thread_prepare("verbena");
	while (!__atomic_load_n(&endpoint->stopping, __ATOMIC_ACQUIRE)) {
		struct vb_wait_item items[VB_WAIT_ITEMS] = {
			[ITEM_EVENT] = {.fd = endpoint->schedule.event_fd},
			[ITEM_DAEMON] = {.fd = endpoint->daemon.fd},
		};
		unsigned count = add_descriptors(endpoint, items, FIRST_LINK_ITEM);
		vb_time until = plan_sleep(endpoint), asleep_since = vb_clock_now(), now;

		vb_endpoint_keep_sockets(endpoint);
		vb_wait(items, count, until);
		vb_timers_awake(&endpoint->schedule.timers);
		if (items[ITEM_EVENT].readable)
			vb_event_clear(endpoint->schedule.event_fd);
		if (items[ITEM_DAEMON].readable)
			vb_daemon_link_serve(endpoint);
		now = vb_clock_now();
		if (some_are_readable(items, FIRST_LINK_ITEM, count))
			vb_linger_slept(&endpoint->linger, now - asleep_since);
		if (now >= endpoint->next_try || __atomic_load_n(&endpoint->seeker_done, __ATOMIC_ACQUIRE) ||
		    __atomic_exchange_n(&endpoint->daemon_needed, false, __ATOMIC_RELAXED))
			vb_daemon_link_retry(endpoint);
		if (some_are_readable(items, FIRST_LINK_ITEM, count) || now >= vb_timers_next(&endpoint->schedule.timers) ||
		    vb_schedule_waits(&endpoint->schedule) || links_have_work(endpoint)) {
			if (stay_out_of_the_way(endpoint)) {
				rise(endpoint);
				work(endpoint);
			}
		}
		vb_daemon_link_report_probes(endpoint);
		vb_daemon_link_tend_lanes(endpoint);
	}
	return NULL;
}

int vb_engine_start(struct vb_endpoint *endpoint)
{
	int error;

	vb_naps_init(&endpoint->naps);
	vb_linger_init(&endpoint->linger);
	error = vb_thread_start(&endpoint->engine, run_engine, endpoint);
	if (error != 0) {
		vb_log(VB_LOG_ERROR, "cannot start the engine thread: %s", strerror(-error));
		return error;
	}
	endpoint->engine_runs = true;
	return 0;
}

void vb_engine_stop(struct vb_endpoint *endpoint)
{
	if (!endpoint->engine_runs)
		return;
	__atomic_store_n(&endpoint->stopping, true, __ATOMIC_RELEASE);
	vb_schedule_kick(&endpoint->schedule);
	pthread_join(endpoint->engine, NULL);
	endpoint->engine_runs = false;
}
