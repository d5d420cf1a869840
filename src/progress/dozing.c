/* SPDX-License-Identifier: MIT
 *
 * Does the calling thread poll, or does it look around a sleep? One of the latter may have to be woken all the same.
 */
#include "base/inline.h"
#include "progress/endpoint_parts.h"

static VB_THREAD_LOCAL char self;          /* its address is the thread's */
static VB_THREAD_LOCAL bool dozes;

const void *vb_thread_address(void)
{
	return &self;
}

void vb_thread_doze(bool begins)
{
	dozes = begins;
}

bool vb_thread_dozes(void)
{
	return dozes;
}

bool vb_endpoint_looks_around_sleep(const struct vb_endpoint *endpoint, vb_time now)
{
	return dozes || vb_waiter_just_left(&endpoint->waiter, &self, now);
}
