/* SPDX-License-Identifier: MIT
 *
 * The endpoint's side of the same-host engine (local/local.h), shared by the files that make it up:
 *
 *   same_host.c         our board: opening, closing, region tables, waiting for those who copy
 *   neighbours.c        other processes of this host: asking verbenad for them, proving who they are, copying
 *   local_pairs.c       queue pairs: who goes through memory, and serving those that do
 *   local_pollers.c     which of them a thread looks at that polls a CQ
 *   local_attention.c   who looks at rings, and when somebody must be woken for it
 *
 * There is none of this (endpoint->same_host is NULL) where packets must be seen: a capture, faults on purpose,
 * VERBENA_WIRE=rocev2; nor in 32-bit programs.
 *
 * Locks: `lock` guards neighbours and tables; it is taken under any other and nothing is taken under it. A poller's is taken under
 * qp->lock, and queue pairs are only tried under it. `asking` is held while verbenad is asked, with no other. Who is on the lists of
 * queue pairs and neighbours stays there while `progress` is held.
 */
#ifndef VB_PROGRESS_SAME_HOST_H
#define VB_PROGRESS_SAME_HOST_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/time.h"
#include "io/daemon_client.h"
#include "local/bells.h"
#include "local/board.h"
#include "local/local.h"
#include "progress/local_share.h"

struct ibv_wc;
struct vb_binding;
struct vb_cq;
struct vb_endpoint;
struct vb_poller;
struct vb_same_host;

enum { VB_NEIGHBOUR_GIDS = 4, VB_KNOWN_STRANGERS = 256 };

/* Another process of this host, or this one. Once met it stays for as long as it lives: it may copy by our keys even when none of our
 * queue pairs knows it any more. */
struct vb_neighbour {
	struct vb_local_peer peer;         /* first: the engine hands this back */
	struct vb_neighbour *next;         /* atomic */
	uint64_t id;                       /* of its board */
	pid_t pid;
	int watch_fd, wake_fd;             /* of oneself: -1, and the endpoint's */
	bool is_self;
	bool consents;                     /* under the lock. Proved: we can copy to and from its memory */
	uint32_t users;                    /* under the lock: queue pairs, and who waits for its copies */
	unsigned gids;                     /* under the lock */
	uint8_t gid[VB_NEIGHBOUR_GIDS][16]; /* under which verbenad has confirmed it */
	vb_time checked;                   /* atomic: when it was last seen alive */
	struct vb_bells_heard bells;       /* under progress */
	struct vb_local_share share;       /* of its memory, what we have too */
};

struct vb_shared_table {
	struct vb_same_host *owner;
	uint32_t index;
	bool taken;
};

struct vb_same_host {
	struct vb_endpoint *endpoint;
	struct vb_board *board;
	int board_fd;
	uint64_t cookie;                   /* the board's id again: whoever can read it here can copy */

	pthread_mutex_t lock;
	struct vb_neighbour *neighbours;   /* atomic */
	struct vb_shared_table table[VB_BOARD_TABLES];
	uint32_t places;                   /* atomic: on the board, given to queue pairs */

	/* GIDs that verbenad said are not of this host, since it last had news of addresses; by what they hash to. Under the lock. */
	uint8_t stranger[VB_KNOWN_STRANGERS][16];
	uint32_t news;                     /* how often there were */

	pthread_mutex_t asking;
	struct vb_daemon_client broker;

	/* Queue pairs on their way through memory. Added under the lock, removed under it and progress. */
	struct vb_binding *pairs;          /* atomic: linked by next_member */
	uint32_t members;                  /* atomic: how many of them are carried */
	uint32_t stalled;                  /* atomic: of those, how many wait for a receive */
	bool look_at_all;                  /* atomic: in the next pass, whoever beckons or not */

	/* Under progress. */
	struct vb_binding *unfinished;     /* to be looked at again, rung for or not: linked by next_unfinished */
	struct vb_binding *inspected;      /* which of all was last looked at unasked, NULL: begin anew */
	unsigned passes;
	vb_time asleep_since;              /* atomic: the board says so since then, or not any more */
};

/* ---- same_host.c ---- */

/* After the slot is known. Without a board everything goes by wire: not an error. */
void vb_same_host_open(struct vb_endpoint *endpoint);
void vb_same_host_close(struct vb_endpoint *endpoint);
void vb_same_host_abandon(struct vb_same_host *same_host);                /* in a forked child */

/* ---- neighbours.c ---- */

enum vb_meeting {
	VB_MEET_ELSEWHERE,                 /* the peer is not on this host */
	VB_MEET_WIRE,                      /* it may be, but cannot be reached through memory */
	VB_MEET_NEIGHBOUR,                 /* *neighbour, which must be put back */
};

/* Who has the queue pair? Asks verbenad where that is not known; waits for it two seconds at most. Caller holds no lock. */
enum vb_meeting vb_neighbours_meet(struct vb_same_host *same_host, const uint8_t gid[16], uint32_t qpn,
				   struct vb_neighbour **neighbour);
void vb_neighbours_put(struct vb_same_host *same_host, struct vb_neighbour *neighbour);
/* Addresses of this host have changed: whose GID is whose must be asked again. */
void vb_neighbours_doubt(struct vb_same_host *same_host);
/* Is it dead? Looks, and remembers. */
bool vb_neighbour_has_ended(struct vb_neighbour *neighbour);
/* Oneself is the first. 0 or -ENOMEM. */
int vb_neighbours_open(struct vb_same_host *same_host);
void vb_neighbours_close(struct vb_same_host *same_host);
void vb_neighbours_abandon(struct vb_same_host *same_host);               /* in a forked child */
/* Give back memory that they shared with us and have given up. Caller holds progress. */
void vb_neighbours_sweep(struct vb_same_host *same_host);
/* Does one that lives copy by that key of ours? */
bool vb_neighbours_are_copying(struct vb_same_host *same_host, uint32_t table, uint32_t key);
/* Between two such questions, of which there were `looks` before. */
void vb_neighbours_pause(unsigned looks);

/* ---- local_pairs.c ---- */

/* It is about to be published. */
void vb_local_pair_settle(struct vb_endpoint *endpoint, const struct vb_qp *qp);
/* Does this queue pair (still) go through memory? Caller holds its lock. */
bool vb_local_pair_carries(const struct vb_binding *binding);
/* Serve it. False: it goes by wire from now on. Caller holds qp->lock. */
bool vb_local_pair_serve(struct vb_endpoint *endpoint, struct vb_qp *qp, vb_time now);
/* Its deadline may have come. Caller holds qp->lock. */
void vb_local_pair_expire(struct vb_endpoint *endpoint, struct vb_qp *qp, vb_time now);
/* A look at one: serve it if it beckons and nobody else has it. Caller holds progress or the lock of a poller that it has joined.
 * `polled`: its receives complete in a CQ that is polled just now. */
bool vb_local_pair_look(struct vb_endpoint *endpoint, struct vb_binding *binding, vb_time now, bool polled);
/* The same in short: how many completions it has for a poller of that CQ, up to `room`. -1: it is not as simple as that. */
int vb_local_pair_take(struct vb_endpoint *endpoint, struct vb_binding *binding, const struct vb_cq *cq, int room, struct ibv_wc *wc);
/* One look at all of them. Caller holds progress. True: something was done. */
bool vb_local_pairs_pass(struct vb_endpoint *endpoint, vb_time now);
/* Does any of them want to be served? Caller holds progress. */
bool vb_local_pairs_beckon(struct vb_endpoint *endpoint);
/* Every queue pair of the process goes through memory: little can be expected of the sockets. */
bool vb_local_pairs_are_all(const struct vb_endpoint *endpoint);
/* It is withdrawn. Caller holds progress. */
void vb_local_pair_withdraw(struct vb_endpoint *endpoint, struct vb_qp *qp);

/* ---- local_pollers.c ---- */

/* It can be looked at; it can no more. Caller holds qp->lock, and progress for the latter. */
void vb_local_pollers_join(const struct vb_qp *qp, struct vb_binding *binding);
void vb_local_pollers_quit(const struct vb_qp *qp, struct vb_binding *binding);
/* Look at the poller's queue pairs. False: make a pass as well. */
bool vb_local_pollers_suffice(struct vb_endpoint *endpoint, struct vb_poller *poller, vb_time now, bool *done);

/* ---- local_attention.c: see there ---- */

void vb_local_attention_spin(struct vb_same_host *same_host);
void vb_local_attention_watch(struct vb_same_host *same_host);
vb_time vb_local_attention_rest(struct vb_same_host *same_host, vb_time until);
void vb_local_attention_rise(struct vb_same_host *same_host);

#endif
