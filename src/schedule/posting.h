/* SPDX-License-Identifier: MIT
 *
 * When what is posted leaves. The first requests leave at once, as does what is large; small ones behind them wait for
 * one another until they are as many as leave together, of whatever queue pairs, or until the next pass of a thread
 * that polls (VB_LONGEST_PUT_OFF at the latest: schedule/naps.h). A thousand requests of 1 KiB, posted one by one, so
 * cost sixteen system calls instead of a thousand. Of longer ones fewer are as much as leaves together.
 *
 * Pure, and the same for all links that make system calls.
 */
#ifndef VB_SCHEDULE_POSTING_H
#define VB_SCHEDULE_POSTING_H

#include <stdbool.h>
#include <stdint.h>

enum {
	VB_POSTS_AT_ONCE = 4,
	VB_POSTS_TOGETHER = 62,            /* as many as leave in one run of packets of 1 KiB */
	VB_BYTES_TOGETHER = 62 * 1024,     /* about what a run holds */
	VB_SMALL_REQUEST = 16 * 1024,
	VB_COPIED_TOGETHER = 1 << 20,
};

enum vb_posting {
	VB_POSTING_NOW,
	VB_POSTING_WAIT,                   /* until the next pass, if a thread makes one soon; else now */
	VB_POSTING_TOGETHER,               /* with all that wait */
};

/* Requests of that length, no longer than VB_SMALL_REQUEST. */
static inline unsigned vb_posts_together(uint32_t length)
{
	return length <= VB_BYTES_TOGETHER / VB_POSTS_TOGETHER ? VB_POSTS_TOGETHER : VB_BYTES_TOGETHER / length;
}

/* `posts`: requests that this thread has posted since it last polled an empty CQ, with this one; `length`: of the
 * request; `delivering`: a thread is in the middle of a pass, perhaps for us, and will send when it is through. */
static inline enum vb_posting vb_posting_decide(unsigned posts, uint32_t length, bool delivering)
{
	if (length > VB_SMALL_REQUEST || (posts <= VB_POSTS_AT_ONCE && !delivering))
		return VB_POSTING_NOW;
	return posts % vb_posts_together(length) == 0 ? VB_POSTING_TOGETHER : VB_POSTING_WAIT;
}

/* The same of a request that a copy carries, past the wire: as many as are copied at once (queue/bypass.h). */
static inline enum vb_posting vb_posting_decide_copied(unsigned posts, uint32_t length)
{
	unsigned together = length <= VB_COPIED_TOGETHER / VB_POSTS_TOGETHER ? VB_POSTS_TOGETHER : VB_COPIED_TOGETHER / length;

	if (posts <= VB_POSTS_AT_ONCE || together < 2)
		return VB_POSTING_NOW;
	return posts % together == 0 ? VB_POSTING_TOGETHER : VB_POSTING_WAIT;
}

#endif
