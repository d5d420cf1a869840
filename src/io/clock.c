/* SPDX-License-Identifier: MIT
 *
 * The monotonic clock, read through the vDSO: no system call.
 *
 * Even that is slow: 30 ns on ARM (Neoverse V1), 33 ns on x86-64 (Cascade Lake), since it waits for all instructions before it, while a
 * SEND through memory takes ten times as long in all, and asks for the time three times. The counter behind it takes 7 ns and 13 ns. So
 * the clock is read once in a millisecond in each thread, and counted on from there: too short for its rate to differ.
 *
 * ARM's counter says how fast it is. That of x86-64 does not: a thread takes the rate of its last interval, so that what was wrong once, as
 * after a machine stood still, is right a millisecond later. Until a thread is a millisecond old it asks the clock. And that counter is
 * the clock's only where the system has found it to be the same on all processors, and to run always.
 */
#include "io/clock.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

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
#elif defined(__x86_64__)
static uint64_t read_counter(void)
{
	uint32_t low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high)::"memory");
	return (uint64_t)high << 32 | low;
}
#endif

#if defined(__aarch64__) || defined(__x86_64__)
struct mark {
	uint64_t count;
	vb_time time;
	uint64_t limit;                    /* as far as it is counted on, a millisecond; 0: not at all */
	uint64_t scale;                    /* nanoseconds in a count, times 2^32: a division takes longer than the counter */
};

/* Both at once, that is without having been interrupted in between. `soon`: counts that the clock takes at most if it was not. */
static void read_both(struct mark *mark, uint64_t soon)
{
	uint64_t shortest = UINT64_MAX;

	for (unsigned tries = 0; tries < 4 && shortest > soon; tries++) {
		uint64_t before = read_counter();
		vb_time time = read_clock(CLOCK_MONOTONIC);
		uint64_t took = read_counter() - before;

		if (took >= shortest)
			continue;
		shortest = took;
		mark->time = time;
		mark->count = before + took / 2;
	}
}
#endif

#ifdef __aarch64__
VB_APART static vb_time mark_anew(struct mark *last)
{
	uint64_t rate;

	__asm__ volatile("mrs %0, cntfrq_el0" : "=r"(rate));
	last->limit = rate / 1024;
	last->scale = (UINT64_C(1000000000) << 32) / rate;
	read_both(last, rate / 8000000);
	return last->time;
}
#elif defined(__x86_64__)
enum { SOON = 512 };                       /* counts; the clock takes some 80 */

#define SLOWEST (UINT64_C(1) << 36)        /* scales: counters of 62 MHz ... */
#define FASTEST (UINT64_C(1) << 28)        /* ... and of 16 GHz */

static bool counter_is_the_clocks;         /* never changes once the library is loaded */

/* When it is loaded: no thread posts or polls yet, and a filter of system calls comes later. Not by the C library's functions, which a
 * library before us may have in its place. */
__attribute__((constructor)) static void ask_whose_counter_it_is(void)
{
	char name[8] = "";
	int fd = (int)syscall(SYS_openat, AT_FDCWD, "/sys/devices/system/clocksource/clocksource0/current_clocksource",
			      O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	counter_is_the_clocks = syscall(SYS_read, fd, name, sizeof(name) - 1) > 0 && strcmp(name, "tsc\n") == 0;
	syscall(SYS_close, fd);
}

/* The latest that was said to be the time. */
static vb_time latest(const struct mark *last, uint64_t count)
{
	uint64_t passed = count - last->count;

	return last->time + (vb_time)((passed < last->limit ? passed : last->limit) * last->scale >> 32);
}

VB_APART static vb_time mark_anew(struct mark *last)
{
	vb_time elapsed, said;
	uint64_t counted;
	struct mark now;

	if (!counter_is_the_clocks)
		return read_clock(CLOCK_MONOTONIC);
	read_both(&now, SOON);
	/* From what was said, which may have been a little late or early: so it comes right again. */
	elapsed = now.time - last->time;
	counted = now.count - last->count;
	said = latest(last, now.count);
	/* Counted on at a rate that was a little too high: time stands for a moment, and does not go back. */
	if (now.time < said)
		now.time = said;
	/* Too short to know the rate by. */
	if (last->count != 0 && last->limit == 0 && elapsed < VB_MILLISECONDS(1))
		return now.time;
	now.scale = last->count != 0 && counted != 0 && elapsed > 0 ? (uint64_t)(((unsigned __int128)elapsed << 32) / counted) : 0;
	now.limit = now.scale > FASTEST && now.scale < SLOWEST ? (VB_MILLISECONDS(1) << 32) / now.scale : 0;
	*last = now;
	return now.time;
}
#endif

vb_time vb_clock_now(void)
{
#if defined(__aarch64__) || defined(__x86_64__)
	static VB_THREAD_LOCAL struct mark last;
	uint64_t passed = read_counter() - last.count;

	if (__builtin_expect(passed > last.limit, 0))
		return mark_anew(&last);
	return last.time + (vb_time)(passed * last.scale >> 32);
#else
	return read_clock(CLOCK_MONOTONIC);
#endif
}

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
