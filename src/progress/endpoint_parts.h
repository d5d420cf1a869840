/* SPDX-License-Identifier: MIT
 *
 * The inside of an endpoint, shared by the files that make it up:
 *
 *   endpoint.c      opening and closing, QPNs, publishing queue pairs, fork
 *   carriers.c      which link carries a queue pair, and what is asked of that link
 *   pass.c          one pass of progress over all links
 *   lanes.c         sockets and passes that threads have to themselves
 *   engine.c        the thread that works when no thread polls
 *   sleeping.c      threads that sleep; dozing.c: what is known of each; wire_sockets.c: what they sleep on
 *   daemon_link.c   the connection to verbenad, and what happens when it breaks
 *   port.c          UDP port 4791, and who can do without
 *   resources.c     users who ask what the process holds
 *   shapes.c        devices whose packets are given a worse network
 *
 * Locks: base/lock_order.h. watcher_lock is held while calling out.
 */
#ifndef VB_PROGRESS_ENDPOINT_PARTS_H
#define VB_PROGRESS_ENDPOINT_PARTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/mutex.h"
#include "base/time.h"
#include "io/daemon_client.h"
#include "links/link.h"
#include "progress/endpoint.h"
#include "progress/links.h"
#include "schedule/linger.h"
#include "schedule/naps.h"
#include "schedule/schedule.h"
#include "schedule/waiter.h"
#include "wire/daemon_message.h"
#include "wire/device_kind.h"

/* The engine of a wire, with its queue pairs' changes told to all links. */
struct vb_wire_transport {
	struct vb_transport transport;
	const struct vb_transport *engine;
	struct vb_link *wire;
};

enum { VB_ENDPOINT_IPV4, VB_ENDPOINT_IPV6, VB_ENDPOINT_FAMILIES };

struct vb_endpoint {
	struct vb_schedule schedule;       /* what links see of it */
	void *allocation;                  /* what malloc knows it by */
	unsigned users;                    /* under endpoint.c's own lock */
	int receive_fd[VB_ENDPOINT_FAMILIES]; /* our slot of port 4791; -1: that IP version is not there */
	int daemon_own_fd[VB_ENDPOINT_FAMILIES]; /* verbenad's sockets, held so that they outlive it */
	int page_fd;
	int claim_fd;                      /* held so that no other process is given our slot; -1: none */
	uint64_t serial;                   /* tells endpoints apart, that one of before too */
	struct vb_mutex lanes_lock;        /* guards what follows; verbenad is asked under it */
	unsigned most_lanes;               /* atomic for others */
	unsigned threads;                  /* that were given a lane */
	int lane_fd[VB_DAEMON_LANES][VB_ENDPOINT_FAMILIES]; /* of lanes beyond the first; -1: none */
	struct vb_link *wire[VB_WIRES];    /* of each kind of device, and of raw packets */
	struct vb_link *fast;              /* the link with a fast path for polling; NULL: none */
	struct vb_wire_transport transport[VB_WIRES];
	vb_handover_show_ids *show_ids[VB_DEVICE_KINDS]; /* librdmacm's; atomic, NULL: nothing was connected by it */

	struct vb_mutex table_lock;
	uint64_t reserved[VB_DAEMON_INDICES / 64];
	uint32_t reserved_count;

	/* The engine thread. */
	pthread_t engine;
	bool engine_runs, stopping;        /* atomic */
	struct vb_naps naps;
	struct vb_linger linger;
	struct vb_waiter waiter;

	/* Those that packets come by, for threads that wait for them (wire_sockets.c). */
	int poller;                        /* they are to be in it; negative: there is none */
	int sockets;                       /* atomic; the same once they are; -1: not yet */
	bool sockets_wanted;               /* atomic */
	unsigned sockets_kept;             /* the engine thread's: how many are in it; 0: to be looked at again */

	/* The connection to verbenad: the engine thread's once that runs. */
	struct vb_daemon_client daemon;
	vb_time next_try;
	unsigned tries;
	pthread_t seeker;                  /* looks for a new daemon, so that the engine thread need not wait */
	bool seeker_runs;
	bool seeker_done;                  /* atomic: `found` and `found_error` are there */
	struct vb_daemon_client found;
	int found_error;
	bool daemon_needed;                /* atomic: a thread wants it back now */
	bool slot_refused;                 /* the seeker's: what it found does not take our slot over, nor will it */
	bool lost;                         /* atomic: another process has our slot */
	struct vb_endpoint *next;          /* among all that are open, under endpoint.c's own lock */
	struct vb_device_info *device;
	unsigned devices;
	struct vb_daemon_shape shape[VB_DAEMON_PAGE_DEVICES]; /* interface_index 0: none */
	struct vb_mutex watcher_lock;
	struct vb_endpoint_watcher *watchers;
};

/* ---- carriers.c ---- */

void vb_carriers_open(struct vb_endpoint *endpoint);
/* Its wire carries it now; it is withdrawn. Caller holds, for the latter, progress. */
void vb_carriers_publish(struct vb_endpoint *endpoint, struct vb_qp *qp);
void vb_carriers_withdraw(struct vb_endpoint *endpoint, struct vb_qp *qp);
/* What it would put off for longer than the next pass is enlisted for that. Caller holds qp->lock. */
void vb_carriers_hurry(struct vb_endpoint *endpoint, struct vb_qp *qp);
/* If sending was put off for it: now. Caller holds progress and qp->lock. */
void vb_carriers_send_enlisted(struct vb_endpoint *endpoint, struct vb_qp *qp);

/* ---- pass.c; caller holds progress. `all`: look also where nothing is expected. True: something was done ---- */

bool vb_endpoint_pass(struct vb_endpoint *endpoint, vb_time now, bool all);
/* Over that lane alone, which is not the first. Caller holds its lock. */
bool vb_endpoint_pass_lane(struct vb_endpoint *endpoint, unsigned lane, vb_time now, bool all);

/* ---- lanes.c ---- */

void vb_lanes_init(struct vb_endpoint *endpoint);
void vb_lanes_close_descriptors(struct vb_endpoint *endpoint);
/* That daemon has our slot now; `news` takes what else it says meanwhile, with the endpoint as its context. */
void vb_lanes_adopt(struct vb_endpoint *endpoint, struct vb_daemon_client *daemon, vb_daemon_take *news);
/* No pass goes over the queue pair's lane, nor over the first, until they are let go. hold: caller holds no lock. */
void vb_lanes_hold(struct vb_endpoint *endpoint, const struct vb_qp *qp);
void vb_lanes_let_go(struct vb_endpoint *endpoint, unsigned lane);
/* Passes over lanes beyond the first that are under way are over. Caller holds none of them. */
void vb_lanes_wait_for_passes(struct vb_endpoint *endpoint);

/* ---- shapes.c ---- */

/* Also before there are links: then they are told when they are there. */
void vb_endpoint_take_shape(struct vb_endpoint *endpoint, const struct vb_daemon_shape *shape);
void vb_endpoint_shape_links(struct vb_endpoint *endpoint);

/* ---- engine.c ---- */

int vb_engine_start(struct vb_endpoint *endpoint);
void vb_engine_stop(struct vb_endpoint *endpoint);
/* The calling thread has slept: that was no work, and what it saw before is of no account. */
void vb_engine_slept(void);

/* ---- dozing.c: the calling thread ---- */

const void *vb_thread_address(void);                                      /* its own, as schedule/waiter.h wants it */
/* Between vb_endpoint_sleep_begin and vb_endpoint_sleep_end. */
void vb_thread_doze(bool begins);
bool vb_thread_dozes(void);
/* It is about to sleep, or has just slept, and does not go on polling. */
bool vb_endpoint_looks_around_sleep(const struct vb_endpoint *endpoint, vb_time now);

/* ---- wire_sockets.c; engine thread ---- */

void vb_endpoint_keep_sockets(struct vb_endpoint *endpoint);

/* ---- resources.c; engine thread ---- */

void vb_endpoint_show_resources(struct vb_endpoint *endpoint);

/* ---- daemon_link.c; but for open, called by the engine thread only ---- */

int vb_daemon_link_open(struct vb_endpoint *endpoint);
void vb_daemon_link_serve(struct vb_endpoint *endpoint);                  /* its socket is readable */
void vb_daemon_link_retry(struct vb_endpoint *endpoint);                  /* next_try has come, or the seeker is back */
void vb_daemon_link_report_probes(struct vb_endpoint *endpoint);
/* See to sockets of one flow (links/udp/dedicated.h). */
void vb_daemon_link_tend_lanes(struct vb_endpoint *endpoint);
/* Tell that daemon of a link. 0 or -errno. */
int vb_daemon_link_introduce(struct vb_endpoint *endpoint, struct vb_daemon_client *daemon, struct vb_link *link);
void vb_daemon_link_close(struct vb_endpoint *endpoint);

#endif
