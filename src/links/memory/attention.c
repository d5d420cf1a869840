/* SPDX-License-Identifier: MIT
 *
 * Who looks at rings. Whoever leaves something for us looks at our board's `asleep` afterwards and raises our eventfd if it is set: so
 * it must be set before the engine thread sleeps without limit, and what was left before that is looked for once more.
 *
 *   asleep      1: nobody looks, wake us            0: somebody does
 *   spin        a thread polls in vain: clears it, and kicks the engine thread, which from then on naps instead of sleeping
 *   rise, rest  the engine thread at the beginning and at the end of its work
 *   watch       a CQ was armed, whose user will sleep: sets it at once
 *
 * While threads spin the engine thread comes round once in NAP, in case they stop. Once nobody has polled for that long it sets `asleep`
 * and sleeps until it is woken: an idle process makes no wake-ups.
 *
 * Whoever leaves something does not wait until it is visible before it looks at `asleep` (local/local.c says why): it may see 0 and be seen
 * only after we looked. A store becomes visible within a microsecond or so, whatever its processor does, so the engine thread
 * looks once more after a hundred, and sleeps without limit only then.
 */
#include "io/clock.h"
#include "links/memory/memory_link.h"

#define NAP VB_MILLISECONDS(1)
#define ALL_HAS_COME VB_MICROSECONDS(100)

static bool has_members(const struct vb_same_host *same_host)
{
	return __atomic_load_n(&same_host->link.members, __ATOMIC_RELAXED) != 0;
}

void vb_attention_spun(struct vb_link *link)
{
	struct vb_same_host *same_host = vb_same_host_of(link);
	uint32_t *asleep = &same_host->board->header.asleep;

	if (__atomic_load_n(asleep, __ATOMIC_RELAXED) == 0 || !has_members(same_host))
		return;
	__atomic_store_n(asleep, 0, __ATOMIC_SEQ_CST);
	vb_schedule_kick(same_host->schedule);
}

/* The time first: who finds `asleep` set finds since when. */
static void set_asleep(struct vb_same_host *same_host, vb_time now)
{
	__atomic_store_n(&same_host->asleep_since, now, __ATOMIC_RELAXED);
	__atomic_store_n(&same_host->board->header.asleep, 1, __ATOMIC_SEQ_CST);
}

void vb_attention_watched(struct vb_link *link)
{
	struct vb_same_host *same_host = vb_same_host_of(link);
	struct vb_schedule *schedule = link->schedule;
	bool kick = true;

	/* Where it was set already, whoever left something since has raised the eventfd, or the engine thread will look. */
	if (!has_members(same_host) || __atomic_load_n(&same_host->board->header.asleep, __ATOMIC_SEQ_CST) != 0)
		return;
	set_asleep(same_host, vb_clock_now());
	/* In the middle of another's pass we cannot look; the engine thread will. */
	if (vb_lock_try(&schedule->progress)) {
		kick = vb_pairs_any_has_work(same_host);
		vb_lock_release(&schedule->progress);
	}
	if (kick)
		vb_schedule_kick(schedule);
}

void vb_attention_rise(struct vb_link *link)
{
	struct vb_same_host *same_host = vb_same_host_of(link);

	if (has_members(same_host))
		__atomic_store_n(&same_host->board->header.asleep, 0, __ATOMIC_SEQ_CST);
}

/* Until when the engine thread may sleep. */
vb_time vb_attention_rest(struct vb_link *link, vb_time until)
{
	struct vb_same_host *same_host = vb_same_host_of(link);
	struct vb_schedule *schedule = link->schedule;
	bool members = has_members(same_host), has_work = false;
	vb_time now = vb_clock_now(), settled;

	if (members && vb_lock_try(&schedule->progress)) {
		vb_host_peers_sweep(same_host);
		vb_lock_release(&schedule->progress);
	}
	if (__atomic_load_n(&same_host->board->header.asleep, __ATOMIC_SEQ_CST) == 0) {
		vb_time stamp = __atomic_load_n(&schedule->spinner.stamp, __ATOMIC_RELAXED);

		if (members && stamp != 0 && now - stamp < NAP && !__atomic_load_n(&schedule->spinner.watched, __ATOMIC_SEQ_CST))
			return vb_time_earlier(until, now + NAP);
		set_asleep(same_host, now);
	}
	if (members) {
		vb_lock_take(&schedule->progress);
		has_work = vb_pairs_any_has_work(same_host);
		vb_lock_release(&schedule->progress);
	}
	settled = __atomic_load_n(&same_host->asleep_since, __ATOMIC_RELAXED) + ALL_HAS_COME;
	if (has_work)
		return 0;
	return now < settled ? vb_time_earlier(until, settled) : until;
}
