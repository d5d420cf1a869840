/* SPDX-License-Identifier: MIT
 *
 * A memory model, explored exhaustively: small programs of a few threads are run in every way that C11 allows them to
 * be, and a judge looks at each outcome. What is run is the code itself: include this header, then model_atomics.h,
 * then the header with the code.
 *
 * The model is the one with views (as in the literature on "promising" semantics, without promises). Memory is not
 * one value per location but all that were ever stored there, in order; a thread has a view, which says for each
 * location what it must not look behind. A load takes any store that is not older than its view. A release store
 * hands the thread's view on, an acquire load takes it over; fences do the same for the relaxed stores after and the
 * relaxed loads before them. Sequentially consistent accesses are ordered as they are executed, for the location they
 * access: that is Dekker's argument. C11 gives a little less (the order need not be that of execution), so what does
 * not need it is explored without (`no_total_order`). So loads may see old values, and stores may be seen in another
 * order than they were made, as far as nobody forbids it. What is left out: a store that is seen before an earlier
 * load of its own thread (load buffering). Whoever relies on that order must argue by other means.
 *
 * A thread is a function without effects but by atomics. It is run anew up to its next operation: what it did before
 * is answered as it was.
 */
#ifndef TESTS_UNIT_LITMUS_MODEL_H
#define TESTS_UNIT_LITMUS_MODEL_H

#include <stdbool.h>
#include <stdint.h>

enum { MODEL_THREADS = 3, MODEL_LOCATIONS = 8, MODEL_STORES = 32, MODEL_STEPS = 48 };

struct model_program {
	unsigned threads;
	void (*thread[MODEL_THREADS])(void);
	/* False: that must not happen. Looks at what the threads noted with model_note(). */
	bool (*judge)(const uint64_t note[MODEL_THREADS]);
	/* Sequentially consistent loads and stores are no more than acquire and release. */
	bool no_total_order;
};

struct model_outcome {
	uint64_t executions;
	uint64_t refused;                  /* by the judge */
	uint64_t interesting;              /* in which a thread noted something other than 0 */
};

/* Locations are named by their addresses, and hold 0 at first. */
struct model_outcome model_explore(const struct model_program *program);

/* What a thread found out; 0 if it says nothing. */
void model_note(uint64_t value);
/* Nothing else can be done before another thread's stores are seen: give this execution up. It is no outcome. */
void model_give_up(void);

uint64_t model_load(const void *location, int order);
void model_store(void *location, uint64_t value, int order);
uint64_t model_exchange(void *location, uint64_t value, int order);
void model_fence(int order);
/* membarrier(2): a full fence of every thread, each at the point of its program where it happens to be. */
void model_barrier(void);

#endif
