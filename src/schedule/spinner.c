/* SPDX-License-Identifier: MIT
 *
 * See spinner.h.
 */
#include "schedule/spinner.h"

#include "base/inline.h"

#define STAMP_IS_FRESH VB_MICROSECONDS(50)
#define STAMP_LASTS VB_MICROSECONDS(1)
#define POSTS_ARE_NOTED VB_MICROSECONDS(8)
#define LONGEST_POSTING VB_MICROSECONDS(500)
#define POLLED_LATELY VB_MILLISECONDS(1)
/* An engine thread that shares its processor with such a program may get it after a few milliseconds only. */
#define POLLED_BEFORE VB_MILLISECONDS(20)
#define ARMED_LATELY VB_MILLISECONDS(1)

_Static_assert(LONGEST_POSTING + STAMP_IS_FRESH == VB_LONGEST_SPIN, "as long as one that posts counts as polling");

enum {
	POLLS_OF_A_SPINNER = 32,           /* vain polls after arming that show a spinner */
	/* Of vain polls of memory, some 50 us. Yielding to no other thread takes 0.3 us. */
	POLLS_BEFORE_YIELD = 1024,
	POLLS_PER_YIELD = 160,
	POLLS_PER_YIELD_OF_ONE = 16,       /* one processor, on which others run, too */
	YIELDS_IN_VAIN = 4,                /* in a row: they do not */
};

/* A call of a yield to which no other thread comes takes less. */
#define OTHERS_RAN (VB_MICROSECONDS(3) / 2)

static bool one_processor;                 /* atomic */
static VB_THREAD_LOCAL unsigned yields_in_vain;

void vb_spinner_set_processors(unsigned count)
{
	__atomic_store_n(&one_processor, count == 1, __ATOMIC_RELAXED);
}

bool vb_spinner_has_one_processor(void)
{
	return __atomic_load_n(&one_processor, __ATOMIC_RELAXED);
}

void vb_spinner_yielded(vb_time how_long)
{
	if (how_long >= OTHERS_RAN)
		yields_in_vain = 0;
	else if (yields_in_vain < YIELDS_IN_VAIN)
		yields_in_vain++;
}

/* Where there are more spinners than cores, the one we wait for may be waiting for our core. Two threads that exchange 128
 * messages with two others on two cores do 1.8 million a second so; with half a millisecond before the first yield, 0.5
 * million where the scheduler happened to put them so that they wait for each other. */
bool vb_spinner_must_yield(uint32_t *vain_polls, unsigned polls, bool done)
{
	uint32_t before = __atomic_load_n(vain_polls, __ATOMIC_RELAXED), vain = before + polls;

	if (done) {
		if (before != 0)
			__atomic_store_n(vain_polls, 0, __ATOMIC_RELAXED);
		return false;
	}
	__atomic_store_n(vain_polls, vain, __ATOMIC_RELAXED);
	if (vb_spinner_has_one_processor() && yields_in_vain < YIELDS_IN_VAIN)
		return vain / POLLS_PER_YIELD_OF_ONE != before / POLLS_PER_YIELD_OF_ONE;
	return vain > POLLS_BEFORE_YIELD && vain / POLLS_PER_YIELD != before / POLLS_PER_YIELD;
}

/* Not each time: threads that poll would take the line away from each other. */
bool vb_spinner_seen(struct vb_spinner *spinner, vb_time now)
{
	if (now - __atomic_load_n(&spinner->stamp, __ATOMIC_RELAXED) < STAMP_LASTS)
		return false;
	__atomic_store_n(&spinner->stamp, now, __ATOMIC_RELAXED);
	return true;
}

bool vb_spinner_polled_empty(struct vb_spinner *spinner, vb_time now)
{
	if (!__atomic_load_n(&spinner->watched, __ATOMIC_RELAXED))
		return vb_spinner_seen(spinner, now);
	if (__atomic_add_fetch(&spinner->polls_since_watch, 1, __ATOMIC_RELAXED) > POLLS_OF_A_SPINNER)
		__atomic_store_n(&spinner->watched, false, __ATOMIC_RELAXED);
	return false;
}

bool vb_spinner_polled(struct vb_spinner *spinner, bool after_pass)
{
	/* A thread that armed a CQ and now finds something is no spinner. */
	if (__atomic_load_n(&spinner->polls_since_watch, __ATOMIC_RELAXED) != 0)
		__atomic_store_n(&spinner->polls_since_watch, 0, __ATOMIC_RELAXED);
	return !after_pass && !__atomic_load_n(&spinner->watched, __ATOMIC_RELAXED);
}

bool vb_spinner_watch(struct vb_spinner *spinner, vb_time now)
{
	__atomic_store_n(&spinner->armed, now, __ATOMIC_RELAXED);
	__atomic_store_n(&spinner->polls_since_watch, 0, __ATOMIC_RELAXED);
	/* Sequentially consistent, with the store of `napping` and the load of `watched` before a nap: one of the two
	 * sees the other. */
	__atomic_store_n(&spinner->watched, true, __ATOMIC_SEQ_CST);
	return __atomic_load_n(&spinner->napping, __ATOMIC_SEQ_CST);
}

/* A program may arm a CQ once and then wait by looking at its memory. */
bool vb_spinner_sleeps(const struct vb_spinner *spinner, vb_time now)
{
	return __atomic_load_n(&spinner->watched, __ATOMIC_RELAXED) &&
	       now - __atomic_load_n(&spinner->armed, __ATOMIC_RELAXED) < ARMED_LATELY;
}

bool vb_spinner_note_post(struct vb_spinner *spinner, vb_time now)
{
	if (now - __atomic_load_n(&spinner->post_stamp, __ATOMIC_RELAXED) <= POSTS_ARE_NOTED)
		return false;
	__atomic_store_n(&spinner->post_stamp, now, __ATOMIC_RELAXED);
	return true;
}

/* A thread that posts a lot does not poll meanwhile. */
bool vb_spinner_is_polled_for(const struct vb_spinner *spinner, vb_time now)
{
	vb_time stamp = __atomic_load_n(&spinner->stamp, __ATOMIC_RELAXED);

	return stamp != 0 && !__atomic_load_n(&spinner->watched, __ATOMIC_RELAXED) && now - stamp < POLLED_LATELY;
}

/* One that posts many requests at once polls when it is through with them. */
vb_time vb_spinner_last_seen(const struct vb_spinner *spinner)
{
	vb_time polled = __atomic_load_n(&spinner->stamp, __ATOMIC_RELAXED);
	vb_time posted = __atomic_load_n(&spinner->post_stamp, __ATOMIC_RELAXED);

	return polled != 0 && posted > polled && posted - polled < LONGEST_POSTING ? posted : polled;
}

bool vb_spinner_may_put_off(const struct vb_spinner *spinner, vb_time now)
{
	return __atomic_load_n(&spinner->napping, __ATOMIC_RELAXED) || vb_spinner_is_polled_for(spinner, now);
}

bool vb_spinner_looks_elsewhere(const struct vb_spinner *spinner, vb_time now)
{
	vb_time stamp = vb_spinner_last_seen(spinner);

	return stamp != 0 && !__atomic_load_n(&spinner->watched, __ATOMIC_RELAXED) && now - stamp < POLLED_BEFORE;
}

bool vb_spinner_spins(const struct vb_spinner *spinner, vb_time now)
{
	vb_time stamp = vb_spinner_last_seen(spinner);

	return stamp != 0 && !__atomic_load_n(&spinner->watched, __ATOMIC_SEQ_CST) &&
	       (__atomic_load_n(&spinner->polling, __ATOMIC_RELAXED) || now - stamp < STAMP_IS_FRESH);
}

/* ---- posting ---- */

static VB_THREAD_LOCAL struct {
	unsigned pass, count;
	bool polls;
} posts;

void vb_spinner_forget_posts(void)
{
	posts.count = 0;
	posts.polls = true;
}

unsigned vb_spinner_count_post(const struct vb_spinner *spinner)
{
	unsigned pass = __atomic_load_n(&spinner->pass, __ATOMIC_RELAXED);

	if (!posts.polls && posts.pass != pass)
		posts.count = 0;
	posts.pass = pass;
	return ++posts.count;
}
