/* SPDX-License-Identifier: MIT
 *
 * The monotonic clock, read through the vDSO: no system call.
 *
 * On ARM even that is slow: 30 ns measured (Neoverse V1), since it waits for all instructions before it, while a SEND through memory takes
 * ten times as long in all, and asks for the time three times. The counter behind the clock takes 7 ns. So the clock is read
 * once in a millisecond in each thread, and counted on from there: too short for its rate to differ.
 */
#include "io/clock.h"

#include <time.h>

#include "base/inline.h"

static vb_time read_clock(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (vb_time)t.tv_sec * 1000000000 + t.tv_nsec;
}

#ifdef __aarch64__
static uint64_t read_counter(void)
{
	uint64_t count;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(count)::"memory");
	return count;
}

struct mark {
	uint64_t count;
	vb_time time;
	uint64_t limit;                    /* as far as it is counted on, a millisecond; 0: not read yet */
	uint64_t scale;                    /* nanoseconds in a count, times 2^32: a division takes longer than the counter */
};

/* Both at once, that is without having been interrupted in between. */
static struct mark read_both(void)
{
	uint64_t before, after = 0, rate;
	struct mark mark;

	__asm__ volatile("mrs %0, cntfrq_el0" : "=r"(rate));
	mark.limit = rate / 1024;
	mark.scale = (UINT64_C(1000000000) << 32) / rate;
	for (unsigned tries = 0; tries < 4; tries++) {
		before = read_counter();
		mark.time = read_clock(CLOCK_MONOTONIC);
		after = read_counter();
		mark.count = before + (after - before) / 2;
		if (after - before < rate / 8000000)
			break;
	}
	return mark;
}

vb_time vb_clock_now(void)
{
	static VB_THREAD_LOCAL struct mark last;
	uint64_t passed = read_counter() - last.count;

	if (__builtin_expect(passed > last.limit, 0)) {
		last = read_both();
		return last.time;
	}
	return last.time + (vb_time)(passed * last.scale >> 32);
}
#else
vb_time vb_clock_now(void)
{
	return read_clock(CLOCK_MONOTONIC);
}
#endif

vb_time vb_clock_coarse(void)
{
	return read_clock(CLOCK_MONOTONIC_COARSE);
}

vb_time vb_clock_of_thread(void)
{
	return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

vb_time vb_clock_wall(void)
{
	return read_clock(CLOCK_REALTIME);
}

void vb_clock_sleep(vb_time duration)
{
	struct timespec pause = {.tv_sec = (time_t)(duration / VB_SECONDS(1)), .tv_nsec = (long)(duration % VB_SECONDS(1))};

	nanosleep(&pause, NULL);
}
