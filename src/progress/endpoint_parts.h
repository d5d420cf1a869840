/* SPDX-License-Identifier: MIT
 *
 * The inside of an endpoint, shared by the files that make it up:
 *
 *   endpoint.c      opening and closing, QPNs, publishing queue pairs, fork
 *   transmit.c      from an engine's burst to the sockets
 *   receive.c       from the sockets to the engines; one pass of progress
 *   multicast.c     who listens to which group
 *   source_ports.c  the pool of sending sockets
 *   inquiry.c       peers that ask why something failed
 *   resources.c     users who ask what the process holds
 *   tap.c, faults.c what a capture sees of it, and faults on purpose
 *   engine.c        the thread that works when nobody polls
 *   daemon_link.c   the connection to verbenad, and what happens when it breaks
 *   same_host.h     what goes through memory instead, and the files for that
 *
 * Locks, outermost first: progress, qp->lock, ..., then (innermost, never two at once) table_lock, schedule_lock, the
 * timers', the ports' and watcher_lock. watcher_lock alone is held while calling out, with no other.
 */
#ifndef VB_PROGRESS_ENDPOINT_PARTS_H
#define VB_PROGRESS_ENDPOINT_PARTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/counters.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/time.h"
#include "io/daemon_client.h"
#include "progress/endpoint.h"
#include "progress/source_ports.h"
#include "progress/timers.h"
#include "wire/daemon_message.h"

struct vb_burst;
struct vb_local;
struct vb_neighbour;
struct vb_same_host;
struct vb_tap;
struct vb_udp_batch;

enum { VB_IPV4, VB_IPV6, VB_FAMILIES };
enum { VB_SPARE_BURSTS = 4, VB_KEPT_PROBES = 64, VB_LINE = 64 };

/* A published queue pair; qp->scheduler points to it. */
struct vb_binding {
	struct vb_qp *qp;                  /* NULL: none. Written with release, so that the counters are there */
	struct vb_counters *counters;
	uint64_t leaves_with;              /* packets of it are in the outbox until that has been sent so often; under qp->lock */
	uint64_t batch;                    /* receive.c: the last that has touched it; under progress */

	/* For those that may go through memory (same_host.h); under qp->lock unless it says otherwise. */
	struct vb_local *local;            /* atomic; taken away under progress */
	struct vb_neighbour *neighbour;    /* who has the peer, asked for at RTR */
	struct vb_binding *next_member;    /* atomic; written under same_host->lock */
	struct vb_binding **member_link;   /* what points to it, NULL: not listed; same_host->lock */
	struct vb_binding *next_unfinished; /* progress */
	struct vb_list as_sender, as_receiver; /* of a CQ's poller, under its lock */
	uint32_t table;                    /* of the device's regions */
	uint8_t meeting;                   /* enum vb_meeting */
	bool attached;                     /* shown on the board */
	bool carried;                      /* atomic: goes through memory */
	bool stalled;                      /* atomic: the peer's message waits for a receive of ours */
	bool unfinished;                   /* progress: on that list */
};

/* What a pass sends, of all its queue pairs together (transmit.c); under progress. */
struct vb_outbox {
	struct vb_burst *burst;            /* made when first needed */
	struct vb_counters *counters;      /* of the device that all of it belongs to */
	uint64_t sent;                     /* atomic: how often it was emptied. What is put in now goes with the next time */
};

struct vb_multicast_group {
	uint8_t gid[16];
	uint32_t interface_index;
	unsigned members, room;
	struct vb_qp **member;
	int companion_fd;                  /* -1: none; see vb_udp_open_companion */
};

struct vb_endpoint {
	void *allocation;                  /* what malloc knows it by */
	unsigned users;                    /* under endpoint.c's own lock */
	bool abandoned;                    /* we are a forked child: the endpoint is the parent's */
	uint32_t slot;
	int receive_fd[VB_FAMILIES];       /* -1: that IP version is not there */
	int daemon_own_fd[VB_FAMILIES];    /* verbenad's sockets, held so that they outlive it */
	int page_fd;
	struct vb_daemon_page *page;       /* what we show of ourselves, or our own memory */

	/* Looked at by every thread that polls: in a line of its own, as is what only its holder uses. */
	struct vb_lock progress __attribute__((aligned(VB_LINE)));
	struct vb_udp_batch *batch __attribute__((aligned(VB_LINE)));
	struct vb_multicast_group *group;
	unsigned groups;
	unsigned passes;
	bool unfinished;                   /* a queue pair has more to send, and this pass goes on for it */
	uint64_t batches;                  /* receive.c: of datagrams, so far */
	uint64_t probe[VB_KEPT_PROBES];    /* nonces seen, to be told to verbenad */
	unsigned probes;
	vb_time inquiries_since;           /* peers that ask why are answered only so often a second */
	unsigned inquiries;
	vb_time strangers_since;           /* inquiry.c: of those who do not prove to be a peer, in all */
	unsigned strangers;

	/* Looked at by every thread that posts. */
	unsigned pass __attribute__((aligned(VB_LINE))); /* atomic: the number of the last one */
	bool delivering;                   /* atomic: it has received something and works on that */
	bool posted_meanwhile;             /* atomic: and somebody has posted, and relies on it */
	struct vb_outbox outbox;

	bool in_use[VB_FAMILIES];          /* atomic: worth looking at in every pass */

	pthread_mutex_t table_lock;
	uint64_t reserved[VB_DAEMON_INDICES / 64];
	uint32_t reserved_count;
	struct vb_binding binding[VB_DAEMON_INDICES];

	pthread_mutex_t schedule_lock;
	struct vb_list active;             /* queue pairs with more to send than one call may */
	uint32_t active_count;             /* atomic hint */
	struct vb_timers timers;

	struct vb_same_host *same_host;    /* NULL: everything goes by wire */
	struct vb_tap *tap;                /* NULL: nobody captures or disturbs (progress/tap.h) */
	struct vb_source_ports ports;
	struct vb_burst *spare_burst[VB_SPARE_BURSTS]; /* atomic */

	/* The engine thread. */
	pthread_t engine;
	bool engine_runs, stopping;        /* atomic */
	int event_fd;
	bool polling;                      /* atomic: a thread that polls makes a pass */
	/* Read by every thread that polls, seldom written. */
	vb_time spin_stamp __attribute__((aligned(VB_LINE))); /* atomic: when somebody last polled in vain; 0: never */
	vb_time post_stamp;                /* atomic: when somebody last posted sends, more or less */
	bool watched;                      /* atomic: a CQ was armed and nobody spins since */
	uint32_t polls_since_watch;        /* atomic */
	uint32_t vain_polls;               /* atomic: in succession, more or less; of whoever polls no CQ */
	bool napping;                      /* atomic */
	vb_time nap __attribute__((aligned(VB_LINE)));
	unsigned bad_naps, holdoff, holdoff_left;

	/* The connection to verbenad: the engine thread's once that runs. */
	struct vb_daemon_client daemon;
	vb_time next_try;
	unsigned tries;
	pthread_t seeker;                  /* looks for a new daemon, so that the engine thread need not wait */
	bool seeker_runs;
	bool seeker_done;                  /* atomic: `found` and `found_error` are there */
	struct vb_daemon_client found;
	int found_error;
	bool daemon_needed;                /* atomic: somebody wants it back now */
	struct vb_device_info *device;
	unsigned devices;
	pthread_mutex_t watcher_lock;
	struct vb_endpoint_watcher *watchers;
};

#define VB_ENDPOINT_COUNTERS(endpoint) (&(endpoint)->page->counters)

/* transmit.c */
void vb_endpoint_arm(struct vb_endpoint *endpoint, struct vb_qp *qp);     /* caller holds qp->lock */
/* vb_endpoint_transmit in a pass, by who has progress: what there is to send waits for that of other queue pairs, until flush. */
void vb_endpoint_transmit_in_pass(struct vb_endpoint *endpoint, struct vb_qp *qp, vb_time now);
void vb_endpoint_flush(struct vb_endpoint *endpoint);                     /* send it; before progress is released */
/* It has more to do than one call may. */
void vb_endpoint_mark_active(struct vb_endpoint *endpoint, struct vb_qp *qp);
void vb_endpoint_polled_in_vain(void);                                    /* by this thread: it has posted what it had to */
bool vb_endpoint_defer(struct vb_endpoint *endpoint, struct vb_qp *qp);   /* false: nobody would see to it soon */
struct vb_qp *vb_endpoint_next_active(struct vb_endpoint *endpoint);
/* Those of them that are there now, of which a pass sends no more than it should; caller holds progress. True: there were some. */
bool vb_endpoint_send_active(struct vb_endpoint *endpoint, vb_time now);
void vb_endpoint_send_enlisted(struct vb_endpoint *endpoint, struct vb_qp *qp); /* if it is one; caller holds progress, qp->lock */
void vb_endpoint_forget_active(struct vb_endpoint *endpoint, struct vb_qp *qp);
void vb_endpoint_free_bursts(struct vb_endpoint *endpoint);

/* receive.c: one pass; caller holds progress. True: something was done. */
bool vb_endpoint_pass(struct vb_endpoint *endpoint, vb_time now, bool all_families);

/* inquiry.c; caller holds progress and, where there is one, the lock of the queue pair asked about. */
struct vb_inquiry;
void vb_endpoint_answer_inquiry(struct vb_endpoint *endpoint, vb_time now, const struct vb_path *from,
				const struct vb_inquiry *inquiry, struct vb_qp *qp);

/* multicast.c; caller holds progress. */
typedef void vb_multicast_deliver(void *context, struct vb_qp *qp);
void vb_multicast_for_each(struct vb_endpoint *endpoint, const uint8_t gid[16], uint32_t interface_index,
			   vb_multicast_deliver *deliver, void *context);
void vb_multicast_forget_qp(struct vb_endpoint *endpoint, struct vb_qp *qp);
void vb_multicast_free(struct vb_endpoint *endpoint);

/* engine.c */
int vb_engine_start(struct vb_endpoint *endpoint);
void vb_engine_stop(struct vb_endpoint *endpoint);
void vb_engine_kick(struct vb_endpoint *endpoint);
void vb_engine_note_post(struct vb_endpoint *endpoint, vb_time now);
void vb_engine_yield_sometimes(uint32_t *vain_polls, unsigned polls, bool done); /* after each poll, which counts as so many */
bool vb_engine_is_polled_for(struct vb_endpoint *endpoint);               /* a thread of the application polls, now and then */

/* resources.c; engine thread. */
void vb_endpoint_show_resources(struct vb_endpoint *endpoint);

/* daemon_link.c; but for open, called by the engine thread only. */
int vb_daemon_link_open(struct vb_endpoint *endpoint);
void vb_daemon_link_serve(struct vb_endpoint *endpoint);                  /* its socket is readable */
void vb_daemon_link_retry(struct vb_endpoint *endpoint);                  /* next_try has come, or the seeker is back */
void vb_daemon_link_report_probes(struct vb_endpoint *endpoint);
/* Show our board to that daemon. 0 or -errno. */
int vb_daemon_link_show_board(struct vb_endpoint *endpoint, struct vb_daemon_client *daemon, const struct vb_same_host *same_host);
void vb_daemon_link_close(struct vb_endpoint *endpoint);

#endif
