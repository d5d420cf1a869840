/* SPDX-License-Identifier: MIT
 *
 * Who has the process that a datagram goes to, or came from? verbenad is asked, which takes a while and, if it does not answer,
 * seconds: so by a thread of its own (asking_thread.h).
 */
#include <string.h>

#include "io/clock.h"
#include "links/memory/datagrams.h"
#include "links/memory/memory_link.h"

#define WHILE_ASKED VB_SECONDS(1)
/* It cannot be reached through memory, for now: it may not have shown its segment yet, and another process may get the slot. Then twice
 * as long each time. */
#define UNREACHED VB_MILLISECONDS(16)
#define UNREACHED_MOST VB_SECONDS(10)
/* Between two threads: where many peers hash to one place they are asked about again and again. */
#define BETWEEN VB_MILLISECONDS(10)

_Static_assert(VB_ASKED == 1 << 8, "the upper eight bits of a mark say where");

/* Two questions that have one mark are taken for one: the second is not asked, and its datagrams go by wire. That is one in 2^63. */
static uint64_t mark_of(const struct vb_datagrams *datagrams, const uint8_t gid[16], uint32_t slot)
{
	uint64_t news = __atomic_load_n(&datagrams->same_host->news, __ATOMIC_RELAXED), half[2];

	memcpy(half, gid, sizeof(half));
	half[0] = (half[0] ^ (news << 32 | slot)) * UINT64_C(0x9e3779b97f4a7c15);
	half[1] = (half[1] ^ half[0] >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
	return ((half[0] ^ half[1] ^ half[1] >> 32) * UINT64_C(0x94d049bb133111eb)) | 1;
}

static struct vb_asked *asked_of(struct vb_datagrams *datagrams, uint64_t mark)
{
	return &datagrams->asked[mark >> 56];
}

/* Another thread may note another question at this moment: then this one is asked once too often, or a second too late. */
static void note(struct vb_datagrams *datagrams, uint64_t mark, vb_time until)
{
	struct vb_asked *asked = asked_of(datagrams, mark);

	__atomic_store_n(&asked->until, until, __ATOMIC_RELAXED);
	__atomic_store_n(&asked->mark, mark, __ATOMIC_RELAXED);
}

static void note_unreached(struct vb_datagrams *datagrams, uint64_t mark)
{
	struct vb_asked *asked = asked_of(datagrams, mark);

	asked->pause = asked->unreached != mark ? UNREACHED : asked->pause < UNREACHED_MOST ? 2 * asked->pause : asked->pause;
	asked->unreached = mark;
	note(datagrams, mark, vb_clock_coarse() + asked->pause);
}

static bool was_asked(struct vb_datagrams *datagrams, uint64_t mark, vb_time now)
{
	const struct vb_asked *asked = asked_of(datagrams, mark);

	return __atomic_load_n(&asked->mark, __ATOMIC_RELAXED) == mark && now < __atomic_load_n(&asked->until, __ATOMIC_RELAXED);
}

static void grant(struct vb_datagrams *datagrams, const struct vb_datagram_wish *wish)
{
	uint64_t mark = mark_of(datagrams, wish->gid, wish->slot);
	struct vb_host_peer *host_peer = NULL;

	switch (vb_host_peers_resolve(datagrams->same_host, wish->gid, wish->slot << VB_DAEMON_INDEX_BITS, &host_peer)) {
	case VB_RESOLVED_HOST_PEER:
		datagrams->introduce(datagrams, host_peer, wish->gid);
		vb_host_peers_put(datagrams->same_host, host_peer);
		break;
	case VB_RESOLVED_ELSEWHERE:
		note(datagrams, mark, VB_TIME_NEVER);
		break;
	case VB_RESOLVED_WIRE:
		note_unreached(datagrams, mark);
		break;
	}
}

static bool grant_one(void *owner)
{
	struct vb_datagrams *datagrams = owner;
	struct vb_datagram_wish wish;
	bool found;

	vb_lock_take(&datagrams->wishes_lock);
	found = datagrams->wishes > 0 && !datagrams->asking.stops;
	if (found) {
		wish = datagrams->wish[datagrams->wishes - 1];
		__atomic_store_n(&datagrams->wishes, datagrams->wishes - 1, __ATOMIC_RELAXED);
	}
	datagrams->asking.runs = found;
	vb_lock_release(&datagrams->wishes_lock);
	if (found)
		grant(datagrams, &wish);
	return found;
}

void vb_introductions_open(struct vb_datagrams *datagrams)
{
	datagrams->asking.schedule = datagrams->same_host->schedule;
	datagrams->asking.answer = grant_one;
	datagrams->asking.owner = datagrams;
}

void vb_introductions_wish(struct vb_datagrams *datagrams, const uint8_t gid[16], uint32_t slot)
{
	uint64_t mark = mark_of(datagrams, gid, slot);
	vb_time now = vb_clock_coarse();

	/* A question may wait for a thread that may not be started yet. */
	if (was_asked(datagrams, mark, now) && __atomic_load_n(&datagrams->wishes, __ATOMIC_RELAXED) == 0)
		return;
	vb_lock_take(&datagrams->wishes_lock);
	if (!was_asked(datagrams, mark, now) && datagrams->wishes < VB_WISHES) {
		struct vb_datagram_wish *wish = &datagrams->wish[datagrams->wishes];

		memcpy(wish->gid, gid, sizeof(wish->gid));
		wish->slot = slot;
		__atomic_store_n(&datagrams->wishes, datagrams->wishes + 1, __ATOMIC_RELAXED);
		note(datagrams, mark, now + WHILE_ASKED);
	}
	if (datagrams->wishes > 0 && now - datagrams->started >= BETWEEN && vb_asking_thread_start(&datagrams->asking))
		datagrams->started = now;
	vb_lock_release(&datagrams->wishes_lock);
}

void vb_introductions_rest(struct vb_datagrams *datagrams)
{
	if (datagrams)
		vb_asking_thread_rest(&datagrams->asking, &datagrams->wishes_lock);
}
