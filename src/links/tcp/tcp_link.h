/* SPDX-License-Identifier: MIT
 *
 * The link of iWARP: one TCP socket for each queue pair, handed over by librdmacm when the MPA frames are exchanged. Shared by the files
 * that make it up:
 *
 *   tcp_link.c   opening and closing, and the table of what it does
 *   streams.c    the life of a stream: adopted, ended, left over when its queue pair goes; what is reported of it
 *   transmit.c   from the engine to the socket
 *   receive.c    from the socket to the engine: a link's share of a pass, timers
 *   tap.c        between the two and the socket, if asked for: a capture, faults on purpose
 *
 * A stream belongs to the pass: it is added, removed and closed under progress. What is in it besides changes under the lock of its
 * queue pair, or under progress where there is none any more.
 */
#ifndef VB_LINKS_TCP_TCP_LINK_H
#define VB_LINKS_TCP_TCP_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/mutex.h"
#include "base/time.h"
#include "links/link.h"
#include "schedule/schedule.h"
#include "wire/stream_handover.h"

struct vb_iwarp_out;
struct vb_tcp_tap;
struct vb_tcp_tapped;

enum {
	VB_TCP_SPARE_OUTS = 2,
	VB_TCP_STAGING = 256 * 1024,       /* what a stream reads in a pass, at most */
	VB_TCP_FEW = 4,                    /* so many streams are looked at one by one; of more the poller knows which */
};

struct vb_tcp_stream {
	struct vb_list node;               /* of all; under progress */
	int fd;
	struct vb_qp *qp;                  /* NULL: it is gone, and what is left is to end well */
	struct vb_tcp_tapped *tapped;      /* NULL: it is not (tap.h) */
	uint64_t cookie;
	bool is_polled;                    /* is it in the poller */
	bool wants_write;                  /* the socket had no room */
	bool broken;                       /* it takes no more: what it says when read tells the rest */
	bool stalled;                      /* nothing is read: a message waits for a receive */
	bool shut;                         /* we have said that nothing more will come */
	bool met;                          /* where the peer may be found on this host was passed on */
	int table;                         /* of the queue pair's device (links/link.h) */
	bool told_heard;                   /* librdmacm knows that the first message came */
	int error;                         /* of a send that failed */
	uint8_t *kept;                     /* stalled: what was read behind the message that waits */
	size_t kept_length;
	/* Shut: how long the peer's end is waited for. Else: when that may be done which was asked for; VB_TIME_NEVER: it was not. */
	vb_time until;
	vb_time patience;                  /* it is not shut for so long behind the last bytes that came (docs/iwarp.md, last) */
	vb_time received;                  /* with patience: when those came */
	vb_time put_off;                   /* since when requests of READs wait for others; 0: none do */

	/* Under the lock of the reports. */
	struct vb_list report_node;
	bool heard, ended, reported_end;
	int status;
	bool closed;                       /* the socket is; once that is reported it can go */
};

struct vb_tcp_link {
	struct vb_link link;
	struct vb_schedule *schedule;
	int poller;
	int report_fd;                     /* an event: there are reports */
	struct vb_tcp_tap *tap;            /* NULL: none */
	struct vb_mutex report_lock;
	struct vb_list reports;

	/* Under progress. */
	struct vb_list streams;
	unsigned count;
	uint8_t *staging;                  /* made with the first stream */

	uint8_t foreign[16];               /* the last address that was not of this host, */
	bool foreign_stands;               /* atomic: unless they have changed since */

	uint32_t stalled, writers;         /* atomic: streams that wait for receives, for room in the socket */
	bool replenished;                  /* atomic: a shared queue has receives again */
	vb_time leftover;                  /* atomic: when the first of the streams without a queue pair has had its time */
	struct vb_iwarp_out *spare_out[VB_TCP_SPARE_OUTS]; /* atomic */
	struct vb_tcp_stream *stream[VB_DAEMON_INDICES]; /* by the lower bits of the queue pair's number; under its lock */
};

static inline struct vb_tcp_link *vb_tcp_link_of(struct vb_link *link)
{
	return (struct vb_tcp_link *)link;
}

/* NULL: it is not connected. */
static inline struct vb_tcp_stream *vb_tcp_stream_of(struct vb_tcp_link *tcp, const struct vb_qp *qp)
{
	return tcp->stream[vb_schedule_index(qp->qpn)];
}

/* ---- tcp_link.c ---- */

/* 0 or -errno with the reason logged. */
int vb_tcp_link_open(struct vb_link **link, struct vb_schedule *schedule);

/* ---- streams.c; struct vb_link_driver has the words ---- */

int vb_tcp_adopt(struct vb_link *link, uint32_t qpn, int table, int fd, const struct vb_handover_terms *terms, uint64_t cookie,
		 vb_time now);
unsigned vb_tcp_report(struct vb_link *link, struct vb_handover_report *reports, unsigned room);
void vb_tcp_withdraw(struct vb_link *link, struct vb_qp *qp);
void vb_tcp_modified(struct vb_link *link, struct vb_qp *qp, enum ibv_qp_state from, int attr_mask, vb_time now);
/* Its socket is closed. Caller holds progress, and qp->lock where there is one. */
void vb_tcp_stream_close(struct vb_tcp_link *tcp, struct vb_tcp_stream *stream, int status, bool abort);
/* Have the poller report what the engine waits for. Caller holds qp->lock, or progress where there is none. */
void vb_tcp_stream_watch(struct vb_tcp_link *tcp, struct vb_tcp_stream *stream, bool write);
/* Nothing more will be sent; the peer has two seconds to say the same. Too soon behind what came, it is put off: `until` says to when. */
void vb_tcp_stream_shut(struct vb_tcp_stream *stream, vb_time now);
/* Be called in time. Caller holds qp->lock. */
void vb_tcp_stream_arm(struct vb_tcp_link *tcp, struct vb_tcp_stream *stream);
/* Has the peer said that it is a queue pair of this host? Then a way past the stream is looked for. Caller holds progress and qp->lock. */
void vb_tcp_stream_meet(struct vb_tcp_link *tcp, struct vb_tcp_stream *stream);
/* For those who wait to hear of it. */
void vb_tcp_stream_tell_heard(struct vb_tcp_link *tcp, struct vb_tcp_stream *stream);
bool vb_tcp_lingers(struct vb_link *link, vb_time now);
void vb_tcp_streams_free(struct vb_tcp_link *tcp);

/* ---- transmit.c ---- */

void vb_tcp_transmit(struct vb_link *link, struct vb_qp *qp, vb_time now);
void vb_tcp_posted(struct vb_link *link, struct vb_qp *qp, vb_time now);
void vb_tcp_transmit_in_pass(struct vb_link *link, struct vb_qp *qp, vb_time now);
void vb_tcp_free_outs(struct vb_tcp_link *tcp);

/* ---- receive.c ---- */

bool vb_tcp_drain(struct vb_link *link, vb_time now, bool all);
bool vb_tcp_expire(struct vb_link *link, struct vb_qp *qp, vb_time now);
void vb_tcp_received(struct vb_link *link, struct vb_qp *qp);
void vb_tcp_replenished(struct vb_link *link);
bool vb_tcp_has_work(struct vb_link *link);
vb_time vb_tcp_rest(struct vb_link *link, vb_time until);

#endif
