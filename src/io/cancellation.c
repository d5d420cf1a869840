/* SPDX-License-Identifier: MIT
 *
 * See cancellation.h.
 */
#include "io/cancellation.h"

#include <pthread.h>
#include <stdbool.h>

#include "base/inline.h"

static VB_THREAD_LOCAL struct {
	unsigned depth;
	int before, type;                  /* what the program has them be, outside of all scopes */
	bool in_call;
	int type_before;
} scope;

/* Those of waits that were left by longjmp stay until the thread ends. Where there is no room for more a thread that is cancelled leaves
 * something behind. */
enum { MOST_OWED = 4 };

/* Not VB_THREAD_LOCAL: that room is scarce, and who waits has time. */
static _Thread_local struct {
	struct {
		void (*settle)(void *argument);
		void *argument;
	} duty[MOST_OWED];
	unsigned count;
	bool is_watched;                   /* its thread's end is */
} owed;

static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

int vb_cancellation_enter(void)
{
	/* One that was left by longjmp. */
	if (scope.in_call)
		vb_cancellation_end_call();
	if (scope.depth++ > 0)
		return 0;
	/* The type as well: glibc's handler of a thread that is cancelled asynchronously does not look at the state again (seen with
	 * 2.36). */
	(void)pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &scope.type);
	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &scope.before);
	return 0;
}

void vb_cancellation_leave(int *unused)
{
	int now;

	(void)unused;
	if (scope.depth == 0 || --scope.depth > 0)
		return;
	(void)pthread_setcancelstate(scope.before, &now);
	if (scope.type != PTHREAD_CANCEL_DEFERRED)
		(void)pthread_setcanceltype(scope.type, &now);
}

unsigned vb_cancellation_depth(void)
{
	return scope.depth;
}

unsigned vb_cancellation_allow(void)
{
	unsigned depth = scope.depth;
	int now;

	scope.depth = 0;
	if (depth > 0)
		(void)pthread_setcancelstate(scope.before, &now);
	return depth;
}

void vb_cancellation_forbid(unsigned depth)
{
	if (depth > 0)
		(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &scope.before);
	scope.depth = depth;
}

void vb_cancellation_begin_call(void)
{
	int before;

	/* Noted first: a handler may run in between, and leave. */
	(void)pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &before);
	scope.type_before = before;
	scope.in_call = true;
	(void)pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before);
}

void vb_cancellation_end_call(void)
{
	int now;

	(void)pthread_setcanceltype(scope.type_before, &now);
	scope.in_call = false;
}

static void settle_at_end(void *unused)
{
	(void)unused;
	while (owed.count > 0) {
		owed.count--;
		owed.duty[owed.count].settle(owed.duty[owed.count].argument);
	}
}

static void make_key(void)
{
	(void)pthread_key_create(&key, settle_at_end);
}

unsigned vb_cancellation_owe(void (*settle)(void *argument), void *argument)
{
	unsigned before = owed.count;

	if (!owed.is_watched) {
		(void)pthread_once(&once, make_key);
		owed.is_watched = pthread_setspecific(key, &owed) == 0;
	}
	if (before == MOST_OWED)
		return before;
	owed.duty[before].settle = settle;
	owed.duty[before].argument = argument;
	owed.count = before + 1;
	return before;
}

void vb_cancellation_settled(unsigned before)
{
	owed.count = before;
}
