/* SPDX-License-Identifier: MIT
 *
 * Datagrams through memory: whom this process sends to and whom it attends to (datagrams.c), and how the two get to know each other
 * (introductions.c).
 *
 * UD has no connection at whose beginning verbenad could be asked who has the peer. So the first datagrams between two processes go by
 * wire, and make both of them ask: the sender by whom it sends to, the receiver by whom it hears from. Each that has the other's segment
 * attends to it, and shows that it does; a sender that sees itself attended to goes through memory from then on.
 *
 * A segment has rings for VB_DATAGRAM_RINGS processes. One more is sent to by wire, until one of the others is dead.
 *
 * Locks: entries are under progress, each exit has its own lock, wishes have theirs. The last two are taken under any other.
 */
#ifndef VB_LINKS_MEMORY_DATAGRAMS_H
#define VB_LINKS_MEMORY_DATAGRAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"
#include "base/time.h"
#include "links/memory/asking_thread.h"
#include "links/shortcut.h"
#include "local/datagrams.h"
#include "wire/daemon_message.h"

struct vb_host_peer;
struct vb_same_host;

enum {
	VB_EXIT_GIDS = 4,
	VB_WISHES = 64,
	VB_ASKED = 256,
};

/* To one process. Made when it is first met; a process that has that slot later has it, too. */
struct vb_datagram_exit {
	struct vb_lock lock;
	struct vb_host_peer *host_peer;    /* NULL: it is gone */
	struct vb_datagram_writer writer;
	uint8_t gid[VB_EXIT_GIDS][16];     /* under which it is known */
	unsigned gids;
	uint32_t news;                     /* of addresses, when it was */
	bool fenced;                       /* as in struct vb_local */
};

/* From one process. */
struct vb_datagram_entry {
	struct vb_host_peer *host_peer;
	uint64_t id;                       /* of its segment */
	struct vb_datagram_reader reader;
};

/* Who has that queue pair's process? */
struct vb_datagram_wish {
	uint8_t gid[16];
	uint32_t slot;
};

struct vb_datagrams {
	struct vb_shortcut shortcut;       /* first: the link of RoCE hands this back */
	struct vb_same_host *same_host;
	/* It was found, under that GID. One thread at a time, which holds nothing and has it in use. */
	void (*introduce)(struct vb_datagrams *datagrams, struct vb_host_peer *host_peer, const uint8_t gid[16]);
	struct vb_datagram_exit *exit[VB_DAEMON_SLOTS]; /* atomic: by slot */

	/* Under progress. */
	struct vb_datagram_entry *entry[VB_DAEMON_SLOTS];
	unsigned entries;                  /* atomic for others */
	unsigned next;                     /* to be looked at */
	struct vb_datagram_run run;        /* what was taken last */

	/* Of the thread that introduces. */
	struct vb_datagram_exit *ring[VB_DATAGRAM_RINGS]; /* whose it is; NULL: of none yet */

	/* introductions.c. Asked is for each datagram by wire, so without the lock. */
	struct vb_asked {
		uint64_t mark;             /* atomic: what gid, slot and news hash to; 0: none */
		vb_time until;             /* atomic: the question is not asked again before */
		uint64_t unreached;        /* of the thread that asks: the mark of a question whose answer was no, */
		vb_time pause;             /* and for how long it was not asked then */
	} asked[VB_ASKED];
	struct vb_lock wishes_lock;
	struct vb_datagram_wish wish[VB_WISHES];
	unsigned wishes;                   /* atomic for others */
	vb_time started;
	struct vb_asking_thread asking;
};

/* ---- datagrams.c ---- */

/* NULL: there is no memory for it, and datagrams go by wire. */
struct vb_datagrams *vb_datagrams_open(struct vb_same_host *same_host);
void vb_datagrams_close(struct vb_datagrams *datagrams);
void vb_datagrams_abandon(struct vb_datagrams *datagrams);               /* in a forked child */
bool vb_datagrams_have_work(const struct vb_datagrams *datagrams);
/* Does any process get attention? */
bool vb_datagrams_attend(const struct vb_datagrams *datagrams);

/* ---- introductions.c ---- */

void vb_introductions_open(struct vb_datagrams *datagrams);
/* Have it found out, unless it was a short time ago. Any thread, with any locks. */
void vb_introductions_wish(struct vb_datagrams *datagrams, const uint8_t gid[16], uint32_t slot);
/* The engine thread is about to sleep: a thread that has ended is not left behind. */
void vb_introductions_rest(struct vb_datagrams *datagrams);

#endif
