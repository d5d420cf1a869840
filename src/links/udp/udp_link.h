/* SPDX-License-Identifier: MIT
 *
 * The link of RoCE: UDP sockets, and the RoCE engine's bursts and packets. Shared by the files that make it up:
 *
 *   udp_link.c      opening and closing, and the table of what it does
 *   transmit.c      from an engine to a burst: when, and with what else
 *   send.c          from a burst to the sockets
 *   receive.c       from the sockets to the engines
 *   multicast.c     who listens to which group
 *   frames.c        RoCEv1: the same packets in frames of their own
 *   source_ports.c  the pool of sending sockets
 *   counted.c       those of them that are connected
 *   dedicated.c     sockets to which one flow comes
 *   inquiry.c       peers that ask why something failed
 *   lanes.c         sockets of threads that have their own
 *   starved.c       asking about a peer that is silent, before its connection ends or its socket is filled
 *   tap.c           what a capture sees of it, and faults on purpose
 *   shaper.c        a slower, longer or worse network on purpose
 */
#ifndef VB_LINKS_UDP_UDP_LINK_H
#define VB_LINKS_UDP_UDP_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"
#include "links/burst_pool.h"
#include "links/link.h"
#include "links/udp/dedicated.h"
#include "links/udp/source_ports.h"
#include "queue/host.h"
#include "schedule/schedule.h"
#include "wire/icrc_flows.h"

struct vb_burst;
struct vb_frames;
struct vb_inquiry;
struct vb_shaper;
struct vb_tap;
struct vb_udp_batch;
struct vb_udp_questions;

enum { VB_IPV4, VB_IPV6, VB_FAMILIES };

/* What a pass over a lane sends, of all its queue pairs together (transmit.c); under the lane's lock. */
struct vb_tx_batch {
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
	int receive_fd;                    /* -1: datagrams come in through the link's own socket */
	vb_time empty;                     /* receive.c: when that last was */
};

/* Of a queue pair. */
struct vb_udp_state {
	uint64_t leaves_with;              /* packets of it are in the tx batch until that has been sent so often; under qp->lock */
	uint64_t batch;                    /* receive.c: the last that has touched it; likewise */
};

/* What the passes over a lane (schedule/lane.h) have to themselves. */
struct vb_udp_lane {
	unsigned number;
	int receive_fd[VB_FAMILIES];       /* -1: that IP version is not there. The endpoint's */

	/* Under the lane's lock. */
	struct vb_udp_batch *batch;
	unsigned passes;
	struct vb_dedicated dedicated;
	uint64_t batches;                  /* receive.c: of datagrams, so far; the lowest bits are the lane's number */
	struct vb_icrc_flows flows;        /* receive.c: whose IPv4 identifications can be foretold */
	vb_time empty[VB_FAMILIES], dedicated_empty; /* receive.c: when those sockets last were */

	/* Looked at by every thread that posts. */
	bool delivering __attribute__((aligned(VB_LINE))); /* atomic: a pass has received something and works on that */
	bool posted_meanwhile;             /* atomic: and a thread has posted, and relies on it */
	struct vb_tx_batch tx_batch;
	struct vb_burst_pool bursts;       /* for threads that send at once */

	bool in_use[VB_FAMILIES] __attribute__((aligned(VB_LINE))); /* atomic: worth looking at in every pass */
};

struct vb_udp_link {
	struct vb_link link;
	void *allocation;                  /* what malloc knows it by */
	struct vb_schedule *schedule;
	int groups_fd;                     /* atomic: a poller of the groups' own sockets, -1: there were none yet */

	/* Under progress. */
	struct vb_multicast_group *group;
	unsigned groups;
	unsigned group_sockets;            /* groups with a socket of their own */
	unsigned all_read_in;              /* receive.c: in which pass the sockets were read until they were empty */
	vb_time came_short, sockets_seen;  /* receive.c: when something last came past the sockets; when they were last looked at */
	struct vb_receive_share share;
	struct vb_udp_questions *questions; /* starved.c; NULL: there was none yet */

	struct vb_lock inquiry_lock;       /* guards what follows */
	vb_time inquiries_since;           /* peers that ask why are answered only so often a second */
	unsigned inquiries;
	vb_time unproven_since;            /* inquiry.c: of those who do not prove to be a peer, in all */
	unsigned unproven;

	struct vb_tap *tap;                /* NULL: no capture, no faults */
	struct vb_shaper *shaper;          /* atomic; NULL: no device was shaped yet */
	struct vb_frames *frames;          /* atomic; NULL: RoCEv1 is not spoken */
	uint32_t frames_from;              /* atomic: which interfaces they come in from (frames.h) */
	struct vb_source_ports ports;

	struct vb_udp_lane *lane[VB_DAEMON_LANES]; /* atomic; NULL: not opened. Those that are stay as long as the link */
	struct vb_udp_lane first;          /* lane 0 */

	struct vb_udp_state state[VB_DAEMON_INDICES]; /* by the lower bits of the queue pair's number */
};

static inline struct vb_udp_link *vb_udp_link_of(struct vb_link *link)
{
	return (struct vb_udp_link *)link;
}

static inline struct vb_udp_state *vb_udp_state_of(struct vb_udp_link *udp, const struct vb_qp *qp)
{
	return &udp->state[vb_schedule_index(qp->qpn)];
}

/* That of the queue pair, while this link carries it. */
static inline struct vb_udp_lane *vb_udp_lane_of(const struct vb_udp_link *udp, const struct vb_qp *qp)
{
	const struct vb_binding *binding = qp->scheduler;

	/* It was there before the queue pair was. */
	return __atomic_load_n(&udp->lane[binding->home], __ATOMIC_RELAXED);
}

/* Does this link carry the queue pair? */
static inline bool vb_udp_carries(const struct vb_udp_link *udp, const struct vb_qp *qp)
{
	const struct vb_binding *binding = qp->scheduler;

	return __atomic_load_n(&binding->carrier, __ATOMIC_RELAXED) == &udp->link;
}

/* ---- udp_link.c ---- */

/* Of the process's slot of port 4791; the sockets stay the caller's. 0 or -errno with the reason logged. */
int vb_udp_link_open(struct vb_link **link, struct vb_schedule *schedule, const int receive_fd[VB_FAMILIES]);

/* ---- send.c ---- */

/* Returns how many packets were not sent. */
uint32_t vb_udp_send_all(struct vb_udp_link *udp, struct vb_burst *burst);

/* ---- transmit.c: struct vb_link_driver has the words ---- */

void vb_udp_transmit(struct vb_link *link, struct vb_qp *qp, vb_time now);
void vb_udp_transmit_in_pass(struct vb_link *link, struct vb_qp *qp, vb_time now);
void vb_udp_posted(struct vb_link *link, struct vb_qp *qp, vb_time now);
bool vb_udp_is_behind(struct vb_link *link, const struct vb_qp *qp);
void vb_udp_flush(struct vb_link *link);
void vb_udp_flush_lane(struct vb_link *link, unsigned lane);

/* ---- receive.c ---- */

bool vb_udp_drain(struct vb_link *link, vb_time now, bool all);
bool vb_udp_drain_lane(struct vb_link *link, unsigned lane, vb_time now, bool all);
void vb_udp_finish(struct vb_link *link);
void vb_udp_finish_lane(struct vb_link *link, unsigned lane);
bool vb_udp_expire(struct vb_link *link, struct vb_qp *qp, vb_time now);

/* ---- inquiry.c; caller holds, where there is one, the lock of the queue pair asked about ---- */

void vb_udp_answer_inquiry(struct vb_udp_link *udp, vb_time now, const struct vb_path *from, const struct vb_inquiry *inquiry,
			   struct vb_qp *qp);

/* ---- lanes.c ---- */

void vb_udp_init_lane(struct vb_udp_lane *lane, unsigned number, const int receive_fd[VB_FAMILIES]);
/* Answers of that IP version may come to any of them. */
void vb_udp_expect(struct vb_udp_link *udp, unsigned family);
void vb_udp_free_lanes(struct vb_udp_link *udp);
extern const struct vb_link_lanes vb_udp_lanes;

/* ---- starved.c; caller holds progress and qp->lock ---- */

/* A timer of the queue pair has run out, perhaps the last. */
void vb_udp_ask_before_the_end(struct vb_udp_link *udp, struct vb_qp *qp, vb_time now);
/* The same of UC and UD, which may wait for their receiver's report. */
void vb_udp_ask_for_receiver(struct vb_udp_link *udp, struct vb_qp *qp, vb_time now);
void vb_udp_drop_question(struct vb_udp_link *udp, uint32_t qpn);
void vb_udp_close_questions(struct vb_udp_link *udp);

/* ---- multicast.c ---- */

int vb_multicast_join(struct vb_link *link, struct vb_qp *qp, const uint8_t gid[16], uint32_t interface_index);
int vb_multicast_leave(struct vb_link *link, struct vb_qp *qp, const uint8_t gid[16], uint32_t interface_index);
/* Caller holds progress. */
typedef void vb_multicast_deliver(void *context, struct vb_qp *qp);
void vb_multicast_for_each(struct vb_udp_link *udp, const uint8_t gid[16], uint32_t interface_index,
			   vb_multicast_deliver *deliver, void *context);
void vb_multicast_forget_qp(struct vb_udp_link *udp, struct vb_qp *qp);
void vb_multicast_free(struct vb_udp_link *udp);

#endif
