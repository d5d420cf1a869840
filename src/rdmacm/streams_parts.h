/* SPDX-License-Identifier: MIT
 *
 * Shared by the files that make up streams.h:
 *
 *   streams.c            the calls of the API
 *   streams_thread.c     the thread: it waits on all sockets, and keeps the time limits
 *   streams_handshake.c  what is done with a socket: accept, connect, both frames, handing over, events
 *   streams_show.c       what ids are, for those who look
 *   streams_records.c    the records of sockets, what the poller looks for, and whose turn it is to ask
 *
 * Each calls those below it.
 */
#ifndef VB_RDMACM_STREAMS_PARTS_H
#define VB_RDMACM_STREAMS_PARTS_H

#include "base/list.h"
#include "base/mutex.h"
#include "connect/mpa_settings.h"
#include "rdmacm/streams.h"
#include "wire/stream_handover.h"

enum vb_rdmacm_stream_kind {
	VB_STREAM_LISTENER,
	VB_STREAM_INCOMING,              /* accepted by the system; its request is not whole, or not answered */
	VB_STREAM_REFUSED,               /* it was, and the peer has not ended its side */
	VB_STREAM_OUTGOING,              /* connecting, or its reply is not whole */
	VB_STREAM_ADOPTED,               /* libibverbs has the socket */
};

struct vb_rdmacm_stream {
	struct vb_list node;             /* of those with a limit of time, of the others, or of those that are dead */
	struct vb_list unfinished;       /* INCOMING without a whole request, REFUSED; oldest first */
	struct vb_list asking;           /* OUTGOING that has not sent its request; in the order of the calls */
	enum vb_rdmacm_stream_kind kind;
	bool dead;                       /* the thread frees it */
	bool polls_read, polls_write;    /* what the poller looks for; neither: it does not know it */
	bool connected;
	int fd;
	/* Whose it is. INCOMING: the listener, until there is a request. ADOPTED: NULL if it is gone. REFUSED: NULL. */
	struct vb_rdmacm_id *id;
	struct ibv_context *context;     /* OUTGOING, ADOPTED: of the device */
	uint32_t qpn;
	struct vb_mpa *mpa;              /* INCOMING, OUTGOING */
	struct vb_tcp_address remote;    /* OUTGOING */
	unsigned refusals;
	vb_time retry_at;                /* OUTGOING: after a refusal, or not begun. VB_TIME_NEVER: under way. REFUSED: when it is closed.
					  * LISTENER: when no more could be accepted */
};

/* All of it under the lock. */
struct vb_rdmacm_streams {
	struct vb_mutex lock;
	bool started;
	int poller, wake_fd, report_fd;
	struct ibv_context *reporter;    /* whom to ask for reports */
	struct vb_list timed, untimed, dead, unfinished, asking;
	struct vb_list ids;              /* that have, or had, a stream; not listeners */
	uint32_t requests;               /* counted */
	unsigned unfinished_count;
	vb_time due;                     /* none of the timed ones is due earlier */
	bool is_serving;                 /* the thread, in a batch: it wakes up who waits for events at the end of it */
	struct vb_rdmacm_channel *to_wake; /* then; NULL: none */
	struct vb_mpa_settings settings;
	struct {
		uint8_t address[16];
		bool is_of_this_host;
		vb_time until;           /* then it is looked up again */
	} peer;                          /* the last that was looked up */
};

extern struct vb_rdmacm_streams vb_rdmacm_streams;

/* ---- streams_records.c; caller holds the lock ---- */

/* A record of a socket, which is the record's from now on. NULL: no memory; the socket is not closed. */
struct vb_rdmacm_stream *vb_rdmacm_stream_create(enum vb_rdmacm_stream_kind kind, int fd, struct vb_rdmacm_id *id);
/* Have the poller report that it can be read, written to, neither. 0 or -errno. */
int vb_rdmacm_stream_poll(struct vb_rdmacm_stream *stream, bool read, bool write);
/* When it must be looked at; VB_TIME_NEVER: no time runs. */
vb_time vb_rdmacm_stream_deadline(const struct vb_rdmacm_stream *stream);
/* Its time limit has changed: the thread wakes up for it. */
void vb_rdmacm_stream_due(const struct vb_rdmacm_stream *stream);
/* The socket is closed (unless libibverbs has it), and the record is gone for everybody but the thread. */
void vb_rdmacm_stream_reap(struct vb_rdmacm_stream *stream);

/* A channel has events, and may have a sleeper: it is woken, by the thread when it has served what it was to serve. */
void vb_rdmacm_streams_wake_later(struct vb_rdmacm_channel *channel);
void vb_rdmacm_streams_wake(void);

/* Has an earlier call not sent its request there yet? */
bool vb_rdmacm_streams_are_asking(const struct vb_tcp_address *remote);
/* OUTGOING: it is asking from now on. `waits`: for those before it, if there are any left. */
void vb_rdmacm_stream_ask(struct vb_rdmacm_stream *stream, bool waits);
/* Its time has come. Does it go on waiting? */
bool vb_rdmacm_stream_waits(struct vb_rdmacm_stream *stream, vb_time now);
/* It has asked, or will not: the next may. */
void vb_rdmacm_stream_asked(struct vb_rdmacm_stream *stream);
/* No program listens there: so those that wait behind it would have been refused, too. */
void vb_rdmacm_stream_refused(struct vb_rdmacm_stream *stream);

/* ---- streams_handshake.c; caller holds the lock ---- */

/* Something can be read or written. */
void vb_rdmacm_stream_serve(struct vb_rdmacm_stream *stream, vb_time now);
/* Its time has come, or not yet. */
void vb_rdmacm_stream_expire(struct vb_rdmacm_stream *stream, vb_time now);
void vb_rdmacm_stream_report(const struct vb_handover_report *report);
/* OUTGOING: an attempt to connect has begun, or was refused at once. Often it has succeeded by now. It may be dead afterwards. */
void vb_rdmacm_stream_attempt(struct vb_rdmacm_stream *stream, bool refused);
/* Try to send what the handshake has to say; all of it, as a rule. */
void vb_rdmacm_stream_send(struct vb_rdmacm_stream *stream);
/* Refused: it has no owner, and closed when the peer has ended its side, or has had time to read why. */
void vb_rdmacm_stream_leave(struct vb_rdmacm_stream *stream);
/* Agreed: libibverbs takes over. 0 or -errno. */
int vb_rdmacm_stream_hand_over(struct vb_rdmacm_stream *stream);
/* What we would have of the peer at that address. The thread was started. */
struct vb_mpa_wishes vb_rdmacm_stream_wishes(const struct vb_rdmacm_id *id, const uint8_t remote[16]);
/* An event for its id, with what the peer said. */
void vb_rdmacm_stream_tell(struct vb_rdmacm_stream *stream, enum vb_cm_event_kind kind, int status);

/* ---- streams_show.c; caller holds no lock ---- */

vb_handover_show_ids vb_rdmacm_streams_show;

/* ---- streams_thread.c; caller holds the lock ---- */

/* The thread runs, and hears of that device's streams (NULL: of none yet). 0 or -errno. */
int vb_rdmacm_streams_start(struct ibv_context *context);

#endif
