/* SPDX-License-Identifier: MIT
 *
 * See cancellation.h.
 */
#include "io/cancellation.h"

#include <pthread.h>

#include "base/inline.h"

static VB_THREAD_LOCAL struct {
	unsigned depth;
	int before;                        /* what the program has it be, outside of all scopes */
} scope;

int vb_cancellation_enter(void)
{
	if (scope.depth++ == 0)
		(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &scope.before);
	return 0;
}

void vb_cancellation_leave(int *unused)
{
	int now;

	(void)unused;
	if (--scope.depth == 0)
		(void)pthread_setcancelstate(scope.before, &now);
}

void vb_cancellation_allow(void)
{
	int now;

	if (scope.depth > 0)
		(void)pthread_setcancelstate(scope.before, &now);
}

void vb_cancellation_forbid(void)
{
	int now;

	if (scope.depth > 0)
		(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &now);
}
