/* SPDX-License-Identifier: MIT
 *
 * Waiting in tests: by the clock, and long. A wait counted in polls is too short on a busy machine, because a poll
 * returns at once while the thread that has the work in hand is off the processor. Only a failing test waits to the
 * end.
 */
#ifndef TESTS_LIB_PATIENCE_H
#define TESTS_LIB_PATIENCE_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { PATIENCE_SECONDS = 30, PATIENCE_MS = PATIENCE_SECONDS * 1000 };

/* Milliseconds that pass whatever happens to the time of day. */
static inline int64_t patience_clock(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Lets others work: what we wait for may need the processor we have. */
static inline void patience_rest(int64_t waiting_since)
{
	const struct timespec nap = {.tv_nsec = 200000};

	if (patience_clock() - waiting_since < 20)
		sched_yield();
	else
		nanosleep(&nap, NULL);
}

/* One of two threads that answer each other thousands of times, and how long it has waited for the other. The answer
 * comes within microseconds, or once the other is given a processor: then we sleep, because where many want one, those
 * who yield come last and those who wake come soon. A limit on all turns together would be one on how many others want
 * it; the limit is on each. */
struct patience_turn {
	int64_t since;
	unsigned tries;
};

static inline void patience_turn_is_ours(struct patience_turn *turn)
{
	*turn = (struct patience_turn){0};
}

static inline void patience_turn_is_theirs(struct patience_turn *turn)
{
	const struct timespec nap = {.tv_nsec = 50000};

	if (++turn->tries % 256 != 0)
		return;
	if (turn->since == 0) {
		turn->since = patience_clock();
	} else if (patience_clock() - turn->since > 4 * PATIENCE_MS) {
		fprintf(stderr, "the other thread does not answer\n");
		abort();
	}
	nanosleep(&nap, NULL);
}

/* Evaluates the condition until it holds, and gives it: false if time is up. It is asked once more after that, for
 * it may be us who were off the processor. */
#define eventually(condition) eventually_within(PATIENCE_MS, condition)
#define eventually_within(milliseconds, condition)                               \
	({                                                                       \
		int64_t patience_begun_ = patience_clock();                      \
		bool patience_over_ = false, patience_holds_ = false;            \
                                                                                 \
		while (!(patience_holds_ = (condition)) && !patience_over_) {    \
			patience_over_ = patience_clock() - patience_begun_ >= (milliseconds); \
			patience_rest(patience_begun_);                          \
		}                                                                \
		patience_holds_;                                                 \
	})

#endif
