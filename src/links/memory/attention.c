/* SPDX-License-Identifier: MIT
 *
 * Who looks at rings. A peer that left something for us looks at our segment's `asleep` afterwards and raises our
 * eventfd if it is set: so it must be set before a thread sleeps on that without limit, and what was left before that
 * is looked for once more (base/sleep_flag.h says why nothing is lost then). That is the engine thread, or one of the application that
 * sleeps there beside it (schedule/waiter.h).
 *
 *   asleep      1: no thread looks, wake us         0: one does
 *   spin        a thread polls an empty CQ: clears it, and kicks the engine thread, which from then on naps instead of sleeping
 *   rise, rest  the engine thread at the beginning and at the end of its work
 *   watch       a CQ was armed, whose user will sleep: sets it at once
 *   doze        such a thread is about to sleep here: it stays set as long as that comes and goes, which takes no barrier each time
 *
 * While threads spin the engine thread comes round once in NAP, in case they stop. Once none has polled for that long
 * it sets `asleep` and sleeps until it is woken: an idle process makes no wake-ups.
 */
#include "base/sleep_flag.h"
#include "io/barrier.h"
#include "io/clock.h"
#include "io/event.h"
#include "links/memory/datagrams.h"
#include "links/memory/memory_link.h"

#define NAP VB_MILLISECONDS(1)
#define HELD VB_MICROSECONDS(20)

/* Or processes whose datagrams come this way. */
static bool has_members(const struct vb_same_host *same_host)
{
	return __atomic_load_n(&same_host->link.members, __ATOMIC_RELAXED) != 0 || vb_datagrams_attend(same_host->datagrams);
}

static bool is_asleep(const struct vb_same_host *same_host)
{
	return __atomic_load_n(&same_host->segment->header.asleep, __ATOMIC_SEQ_CST) != 0;
}

void vb_attention_open(struct vb_same_host *same_host)
{
	struct vb_segment_header *header = &same_host->segment->header;

	header->asleep = 1;
	header->fenced = !vb_barrier_join();
}

void vb_attention_spun(struct vb_link *link)
{
	struct vb_same_host *same_host = vb_same_host_of(link);
	uint32_t *asleep = &same_host->segment->header.asleep;

	if (__atomic_load_n(asleep, __ATOMIC_RELAXED) == 0 || !has_members(same_host))
		return;
	vb_sleep_end(asleep);
	vb_schedule_kick(same_host->schedule);
}

static void fall_asleep(struct vb_same_host *same_host)
{
	struct vb_segment_header *header = &same_host->segment->header;

	if (!vb_sleep_begin(&header->asleep, header->fenced ? NULL : vb_barrier_impose))
		__atomic_store_n(&same_host->restless, true, __ATOMIC_RELAXED);
}

void vb_attention_watched(struct vb_link *link)
{
	struct vb_same_host *same_host = vb_same_host_of(link);
	struct vb_schedule *schedule = link->schedule;
	bool kick = true;

	/* Where it was set already, a peer that left something since has raised the eventfd, or the engine thread will look. */
	if (!has_members(same_host) || is_asleep(same_host))
		return;
	fall_asleep(same_host);
	/* In the middle of another's pass we cannot look; the engine thread will. */
	if (vb_lock_try(&schedule->progress)) {
		kick = vb_pairs_any_has_work(same_host);
		vb_lock_release(&schedule->progress);
	}
	if (kick)
		vb_schedule_kick(schedule);
}

bool vb_attention_doze(struct vb_link *link)
{
	struct vb_same_host *same_host = vb_same_host_of(link);

	if (!is_asleep(same_host))
		fall_asleep(same_host);
	return !__atomic_load_n(&same_host->restless, __ATOMIC_RELAXED);
}

/* What is left from now on raises it anew. */
void vb_attention_woken(struct vb_link *link)
{
	vb_event_clear(vb_same_host_of(link)->wake_fd);
}

void vb_attention_rise(struct vb_link *link)
{
	struct vb_same_host *same_host = vb_same_host_of(link);

	vb_attention_woken(link);
	if (has_members(same_host))
		vb_sleep_end(&same_host->segment->header.asleep);
}

/* What is reached past a wire may be shared memory, too. */
static void sweep(struct vb_same_host *same_host)
{
	if (!has_members(same_host) && __atomic_load_n(&same_host->bypasses, __ATOMIC_RELAXED) == 0)
		return;
	if (vb_lock_try(&same_host->schedule->progress)) {
		vb_host_peers_sweep(same_host);
		vb_lock_release(&same_host->schedule->progress);
	}
}

/* Something is there to do, for which a pass has been made already: other threads have those queue pairs locked. One of them may wait for
 * the very processor on which we look, and have had it taken away to let us run: we looked for three milliseconds, some 4 us for each
 * time, and had all processors execute a barrier each time. */
static bool is_held(struct vb_same_host *same_host)
{
	unsigned before = same_host->fruitful_at_rest;

	same_host->fruitful_at_rest = same_host->fruitful + 1;
	return same_host->fruitful_at_rest == before;
}

/* When to look at what is there to do; VB_TIME_NEVER: there is nothing. */
static vb_time work_is_due(struct vb_same_host *same_host, vb_time now)
{
	vb_time due = VB_TIME_NEVER;

	vb_lock_take(&same_host->schedule->progress);
	if (vb_pairs_any_has_work(same_host))
		due = is_held(same_host) ? now + HELD : 0;
	else
		same_host->fruitful_at_rest = 0;
	vb_lock_release(&same_host->schedule->progress);
	return due;
}

/* Until when the engine thread may sleep. */
vb_time vb_attention_rest(struct vb_link *link, vb_time until)
{
	struct vb_same_host *same_host = vb_same_host_of(link);
	struct vb_schedule *schedule = link->schedule;
	vb_time now;

	vb_introductions_rest(same_host->datagrams);
	vb_meetings_rest(&same_host->meetings);
	sweep(same_host);
	if (!has_members(same_host)) {
		if (!is_asleep(same_host))
			fall_asleep(same_host);
		return until;
	}
	now = vb_clock_now();
	if (!is_asleep(same_host)) {
		vb_time stamp = __atomic_load_n(&schedule->spinner.stamp, __ATOMIC_RELAXED);

		if (stamp != 0 && now - stamp < NAP && !__atomic_load_n(&schedule->spinner.watched, __ATOMIC_SEQ_CST))
			return vb_time_earlier(until, now + NAP);
		fall_asleep(same_host);
	}
	if (__atomic_load_n(&same_host->restless, __ATOMIC_RELAXED))
		until = vb_time_earlier(until, now + NAP);
	return vb_time_earlier(until, work_is_due(same_host, now));
}
