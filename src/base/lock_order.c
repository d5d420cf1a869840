/* SPDX-License-Identifier: MIT
 *
 * What this thread holds, see lock_order.h.
 */
#include "base/lock_order.h"

#ifdef VB_CHECK_INVARIANTS

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_HELD = 64 };

struct held {
	const void *lock;
	enum vb_lock_rank rank;
};

static _Thread_local struct held held[MOST_HELD];
static _Thread_local unsigned held_count;

static const char *name_of(enum vb_lock_rank rank)
{
	static const char *const name[] = {
#define NAME(rank, name) name,
		VB_LOCK_RANKS(NAME)
#undef NAME
	};

	return name[rank];
}

/* Not through the log: its own lock has a rank. */
_Noreturn static void refuse(enum vb_lock_rank wanted, const void *lock, const char *why, const struct held *other)
{
	if (other)
		fprintf(stderr, "verbena: lock order: %s (%p) %s %s (%p)\n", name_of(wanted), lock, why,
			name_of(other->rank), other->lock);
	else
		fprintf(stderr, "verbena: lock order: %s (%p) %s\n", name_of(wanted), lock, why);
	abort();
}

/* A program that takes several of these chooses the order itself, as with an adapter. */
static bool is_held_between_calls(enum vb_lock_rank rank)
{
	return rank == VB_RANK_POLLING || rank == VB_RANK_POSTING;
}

/* Its mutex is recursive. */
static bool is_rsocket(enum vb_lock_rank rank)
{
	return rank == VB_RANK_RSOCKET || rank == VB_RANK_RSOCKET_LISTENER;
}

static bool may_follow(const void *lock, enum vb_lock_rank rank, const struct held *other)
{
	if (lock == other->lock)
		return is_rsocket(rank);
	return other->rank < rank || (is_held_between_calls(rank) && is_held_between_calls(other->rank));
}

static void check(const void *lock, enum vb_lock_rank rank, const char *why)
{
	for (unsigned i = held_count; i-- > 0;)
		if (!may_follow(lock, rank, &held[i]))
			refuse(rank, lock, why, &held[i]);
}

void vb_lock_order_tried(const void *lock, enum vb_lock_rank rank)
{
	if (held_count == MOST_HELD)
		refuse(rank, lock, "is one more than a thread may hold", NULL);
	held[held_count++] = (struct held){lock, rank};
}

/* For the test that an inversion in an unmodified program is noticed: VERBENA_TEST_LOCK_ORDER names a lock, and a
 * thread that wants such a one holds the innermost of all first. */
static void invert(enum vb_lock_rank rank)
{
	static const char innermost, *wanted;
	const char *name = __atomic_load_n(&wanted, __ATOMIC_RELAXED);

	if (!name) {
		name = secure_getenv("VERBENA_TEST_LOCK_ORDER");
		__atomic_store_n(&wanted, name ? name : "", __ATOMIC_RELAXED);
	}
	if (name && *name && strcmp(name, name_of(rank)) == 0)
		vb_lock_order_tried(&innermost, VB_RANK_LOG);
}

void vb_lock_order_take(const void *lock, enum vb_lock_rank rank)
{
	invert(rank);
	check(lock, rank, "is wanted by a thread that holds");
	vb_lock_order_tried(lock, rank);
}

/* The last that was taken, where it is held more than once. False: none. */
static bool drop(const void *lock)
{
	for (unsigned i = held_count; i-- > 0;) {
		if (held[i].lock != lock)
			continue;
		held_count--;
		for (; i < held_count; i++)
			held[i] = held[i + 1];
		return true;
	}
	return false;
}

void vb_lock_order_release(const void *lock, enum vb_lock_rank rank)
{
	if (!drop(lock))
		refuse(rank, lock, "is released by a thread that does not hold it", NULL);
}

void vb_lock_order_wait(const void *lock, enum vb_lock_rank rank)
{
	if (!drop(lock))
		refuse(rank, lock, "is waited with by a thread that does not hold it", NULL);
	check(lock, rank, "is let go and wanted back by a thread that holds");
	vb_lock_order_tried(lock, rank);
}

void vb_lock_order_forget(const void *lock)
{
	while (drop(lock))
		;
}

bool vb_lock_order_holds(const void *lock)
{
	for (unsigned i = held_count; i-- > 0;)
		if (held[i].lock == lock)
			return true;
	return false;
}

#endif
