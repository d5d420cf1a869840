/* SPDX-License-Identifier: MIT
 *
 * The link through memory: what ties the same-host engine (local/local.h) to this process, shared by the files that make it up:
 *
 *   memory_link.c   our segment: opening, closing, region tables, waiting for those who copy
 *   host_peers.c    other processes of this host: asking verbenad for them, proving who they are, copying
 *   pairs.c         queue pairs: who goes through memory, and the pass over those that do
 *   serve.c         one of them, served
 *   pollers.c       which of them a thread looks at that polls a CQ
 *   attention.c     who looks at rings, and when a thread must be woken for it
 *   share.c         memory that a peer has from a file which we can map, too
 *   meetings.c      queue pairs of a stream: a way past it for WRITEs and READs
 *   datagrams.c     UD: whom we send to and attend to; introductions.c: how both get to know each other
 *
 * There is no such link where packets must be seen: a capture, faults on purpose, VERBENA_WIRE=rocev2; nor in 32-bit programs.
 *
 * Locks: `lock` guards host peers and tables; it is taken under any other and nothing is taken under it. A poller's is
 * taken under qp->lock, and queue pairs are only tried under it. `asking` is held while verbenad is asked, with no
 * other. Who is on the lists of queue pairs and host peers stays there while `progress` is held.
 */
#ifndef VB_LINKS_MEMORY_MEMORY_LINK_H
#define VB_LINKS_MEMORY_MEMORY_LINK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "base/mutex.h"
#include "base/time.h"
#include "io/daemon_client.h"
#include "links/link.h"
#include "links/memory/meetings.h"
#include "links/memory/share.h"
#include "local/doorbells.h"
#include "local/segment.h"
#include "local/local.h"
#include "schedule/poller.h"
#include "schedule/schedule.h"

enum {
	VB_HOST_PEER_GIDS = 4,
	VB_NEGATIVE_CACHE = 256,
	VB_CROWD = 16,                     /* more queue pairs than these are not looked at one by one in every pass */
};

/* Another process of this host, or this one. Once met it stays for as long as it lives: it may copy by our keys even
 * when none of our queue pairs knows it any more. */
struct vb_host_peer {
	struct vb_local_peer peer;         /* first: the engine hands this back */
	struct vb_host_peer *next;         /* atomic */
	uint64_t id;                       /* of its segment */
	pid_t pid;
	int watch_fd, wake_fd;             /* of oneself: -1, and the link's own */
	bool is_self;
	bool consents;                     /* under the lock. Proved: we can copy to and from its memory */
	uint32_t users;                    /* under the lock: queue pairs, and who waits for its copies */
	unsigned gids;                     /* under the lock */
	uint8_t gid[VB_HOST_PEER_GIDS][16]; /* under which verbenad has confirmed it */
	vb_time checked;                   /* atomic: when it was last seen alive */
	struct vb_doorbells_heard doorbells; /* under progress */
	struct vb_local_share share;       /* of its memory, what we have too */
};

struct vb_datagrams;
struct vb_local_bypass;

struct vb_shared_table {
	struct vb_same_host *owner;
	uint32_t index;
	bool taken;
};

/* A queue pair that may go through memory; under qp->lock unless it says otherwise. */
struct vb_pair {
	struct vb_qp *qp;                  /* atomic: there whenever it is carried */
	struct vb_local *local;            /* atomic; taken away under progress */
	struct vb_host_peer *host_peer;    /* who has the peer, asked for at RTR, or of `bypass` */
	struct vb_local_bypass *bypass;    /* it stays with its wire, and has a way past it (meetings.c); NULL: none */
	struct vb_pair *next_member;       /* atomic; written under same_host->lock */
	struct vb_pair **member_link;      /* what points to it, NULL: not listed; same_host->lock */
	struct vb_pair *next_unfinished;   /* progress */
	struct vb_list as_sender, as_receiver; /* of a CQ's poller, under its lock */
	struct vb_poller *receiver;        /* XRC_RECV: of the latter, NULL: none */
	uint32_t table;                    /* of the device's regions */
	uint8_t resolution;                /* enum vb_resolution */
	bool attached;                     /* shown in the segment */
	bool carried;                      /* atomic: goes through memory */
	bool stalled;                      /* atomic: the peer's message waits for a receive of ours */
	bool unfinished;                   /* progress: on that list */
	bool strays;                       /* atomic; XRC_RECV: its receives complete in another CQ than the one it is looked at for */
};

struct vb_same_host {
	struct vb_link link;
	struct vb_schedule *schedule;
	struct vb_segment *segment;
	int segment_fd;
	int wake_fd;                       /* raised by those that left something for us while we are asleep (attention.c) */
	uint64_t cookie;                   /* the segment's id again: a process that can read it here can copy */

	struct vb_mutex lock;
	struct vb_host_peer *host_peers;   /* atomic */
	struct vb_shared_table table[VB_SEGMENT_TABLES];
	struct vb_local_qp_indices qp_indices; /* of the segment; under the lock */

	/* GIDs that verbenad said are not of this host, since it last had news of addresses; by what they hash to.
	 * Under the lock. */
	uint8_t negative[VB_NEGATIVE_CACHE][16];
	uint32_t news;                     /* how often there were; atomic for others */

	struct vb_mutex asking;
	struct vb_daemon_client broker;

	struct vb_datagrams *datagrams;    /* NULL: all of them go by wire */
	struct vb_memory_meetings meetings;
	uint32_t bypasses;                 /* atomic: queue pairs that have one */
	/* Of datagrams: a host peer is dead. False: something of it has not been taken in yet. Under progress. NULL: as above. */
	bool (*forget)(struct vb_same_host *same_host, struct vb_host_peer *host_peer);

	/* Queue pairs on their way through memory. Added under the lock, removed under it and progress. */
	struct vb_pair *pairs;             /* atomic: linked by next_member */
	uint32_t stalled;                  /* atomic: of those, how many wait for a receive */
	bool look_at_all;                  /* atomic: in the next pass, whether they say that they have work or not */

	/* Under progress. */
	struct vb_pair *unfinished;        /* to be looked at again, rung for or not: linked by next_unfinished */
	struct vb_pair *inspected;         /* which of all was last looked at unasked, NULL: begin anew */
	unsigned passes;
	unsigned fruitful;                 /* of those: something was done */
	unsigned fruitful_at_rest;         /* as the engine thread last came to its end with something left to do, plus 1; 0: nothing was */
	bool restless;                     /* atomic: barriers can be had no more, so the engine thread comes round by itself */

	struct vb_pair pair[VB_DAEMON_INDICES]; /* by the lower bits of the queue pair's number */
};

static inline struct vb_same_host *vb_same_host_of(struct vb_link *link)
{
	return (struct vb_same_host *)link;
}

static inline struct vb_pair *vb_pair_of(struct vb_same_host *same_host, const struct vb_qp *qp)
{
	return &same_host->pair[vb_schedule_index(qp->qpn)];
}

/* ---- memory_link.c ---- */

/* After the slot is known. NULL: everything goes by wire, which is not an error. */
struct vb_link *vb_memory_link_open(struct vb_schedule *schedule);

/* ---- host_peers.c ---- */

enum vb_resolution {
	VB_RESOLVED_ELSEWHERE,             /* the peer is not on this host */
	VB_RESOLVED_WIRE,                  /* it may be, but cannot be reached through memory */
	VB_RESOLVED_HOST_PEER,             /* *host_peer, which must be put back */
};

/* Who has the queue pair? Asks verbenad where that is not known; waits for it two seconds at most. Caller holds no lock. */
enum vb_resolution vb_host_peers_resolve(struct vb_same_host *same_host, const uint8_t gid[16], uint32_t qpn,
				   struct vb_host_peer **host_peer);
/* The same of one that is known already: nothing is asked, and any lock may be held but same_host->lock. NULL: it is not. */
struct vb_host_peer *vb_host_peers_known(struct vb_same_host *same_host, const uint8_t gid[16], uint32_t qpn);
void vb_host_peers_put(struct vb_same_host *same_host, struct vb_host_peer *host_peer);
/* Addresses of this host have changed: whose GID is whose must be asked again. */
void vb_host_peers_invalidate(struct vb_same_host *same_host);
/* Is it dead? Looks, and remembers. */
bool vb_host_peer_has_ended(struct vb_host_peer *host_peer);
/* The same for who asks often: it may have ended a few milliseconds ago. */
bool vb_host_peer_is_there(struct vb_host_peer *host_peer);
/* Oneself is the first. 0 or -ENOMEM. */
int vb_host_peers_open(struct vb_same_host *same_host);
void vb_host_peers_close(struct vb_same_host *same_host);
void vb_host_peers_abandon(struct vb_same_host *same_host);               /* in a forked child */
/* Give back memory that they shared with us and have given up. Caller holds progress. */
void vb_host_peers_sweep(struct vb_same_host *same_host);
/* Does one that lives copy by that key of ours? */
bool vb_host_peers_are_copying(struct vb_same_host *same_host, uint32_t table, uint32_t key);
/* Between two such questions, of which there were `looks` before. */
void vb_host_peers_pause(unsigned looks);

/* ---- serve.c: struct vb_link_driver has the words ---- */

void vb_pairs_query(struct vb_link *link, const struct vb_qp *qp, struct vb_transport_status *status);
bool vb_pairs_gives_back(struct vb_link *link, struct vb_qp *qp, vb_time now);
void vb_pairs_transmit(struct vb_link *link, struct vb_qp *qp, vb_time now);
bool vb_pairs_post_fast(struct vb_link *link, struct vb_qp *qp, const struct ibv_send_wr *wr);
bool vb_pairs_place(struct vb_link *link, struct vb_qp *qp, uint64_t address, uint32_t key, const struct iovec *spans, unsigned count);
bool vb_pairs_expire(struct vb_link *link, struct vb_qp *qp, vb_time now);

/* A look at one: serve it if it has work and no other thread has it. Caller holds progress or the lock of a poller that
 * it has joined. `polled`: its receives complete in a CQ that is polled just now. */
bool vb_pair_look(struct vb_same_host *same_host, struct vb_pair *pair, vb_time now, bool polled);
/* The same in short: how many completions it has for a poller of that CQ, up to `room`. -1: it is not as simple as that. */
int vb_pair_take(struct vb_same_host *same_host, struct vb_pair *pair, const struct vb_cq *cq, int room, struct ibv_wc *wc);
/* It goes through memory no more. Caller holds the queue pair's lock. */
void vb_pair_leave(struct vb_same_host *same_host, struct vb_qp *qp, struct vb_pair *pair);

/* ---- pollers.c ---- */

/* It can be looked at; it can no more. Caller holds qp->lock, and progress for the latter. */
void vb_pollers_join(const struct vb_qp *qp, struct vb_pair *pair);
void vb_pollers_quit(const struct vb_qp *qp, struct vb_pair *pair);
/* XRC_RECV: it is looked at for the CQ of the SRQ that was named last; for that CQ no more. Caller holds qp->lock, and no poller's. */
void vb_pollers_follow(const struct vb_qp *qp, struct vb_pair *pair);
void vb_pollers_leave(struct vb_pair *pair, const struct vb_cq *cq);
int vb_pollers_take(struct vb_link *link, struct vb_poller *poller, const struct vb_cq *cq, int room, struct ibv_wc *wc);
bool vb_pollers_poll(struct vb_link *link, struct vb_poller *poller, vb_time now, bool *done);

/* ---- pairs.c ---- */

void vb_pairs_publish(struct vb_link *link, const struct vb_qp *qp);
void vb_pairs_withdraw(struct vb_link *link, struct vb_qp *qp);
void vb_pairs_resolve(struct vb_link *link, struct vb_qp *qp, const struct vb_path *path, uint32_t destination_qpn, int table);
void vb_pairs_modified(struct vb_link *link, struct vb_qp *qp, enum ibv_qp_state from, int attr_mask, vb_time now);
bool vb_pairs_bypasses(struct vb_link *link, const struct vb_qp *qp);
void vb_pairs_srq_gone(struct vb_link *link, struct vb_qp *qp, const struct vb_srq *srq);
void vb_pairs_received(struct vb_link *link, struct vb_qp *qp);
void vb_pairs_replenished(struct vb_link *link);
bool vb_pairs_drain(struct vb_link *link, vb_time now, bool all);
bool vb_pairs_have_work(struct vb_link *link);
/* Does any of them want to be served? Caller holds progress. */
bool vb_pairs_any_has_work(struct vb_same_host *same_host);

/* ---- attention.c: see there ---- */

void vb_attention_open(struct vb_same_host *same_host);
void vb_attention_spun(struct vb_link *link);
void vb_attention_watched(struct vb_link *link);
vb_time vb_attention_rest(struct vb_link *link, vb_time until);
void vb_attention_rise(struct vb_link *link);
bool vb_attention_doze(struct vb_link *link);
void vb_attention_woken(struct vb_link *link);

#endif
