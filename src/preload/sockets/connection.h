/* SPDX-License-Identifier: MIT
 *
 * A TCP connection of the program that goes on by RDMA where its peer can do so too.
 *
 * The program's descriptor is the kernel's TCP socket, always: listening, accepting, addresses, options, fork and exec
 * are the kernel's affair. Behind its back an rsocket is made between the two processes that hold the connection's
 * ends, and each direction of the stream moves over when both know of it:
 *
 *   connector                                     acceptor
 *   connect: an rsocket listens on the            accept: nothing yet; who accepts may leave the connection
 *   port that the TCP socket is bound to          to a child. At the first use of it:
 *                     ◀── REQ, token A ────       an rsocket connects to the peer's port
 *                      ─── REP, token C ──▶
 *   writes token A to TCP, from then on           reads TCP up to token A, from then on the rsocket;
 *   everything to the rsocket                     writes token C to TCP, from then on everything to the rsocket
 *   reads TCP up to token C, then the rsocket
 *
 * What TCP has before a token can be in it is the program's, and is counted when that may change: by a connector before it writes
 * its token, by an acceptor before it looks whether its rsocket is there. So what poll or FIONREAD has told of can be read.
 *
 * Until then, and for good where no rsocket comes about, the bytes go by TCP as they would without us; no thread waits
 * for RDMA. A peer that knows nothing of this is never sent a byte that the program did not write: a token goes only
 * to a side from whose rsocket it came.
 *
 *   connection.c  the object and which descriptor is which       upgrade.c    how an rsocket comes about
 *   stream.c      TCP, token and rsocket as one stream           readiness.c  what poll(2) would say, and sleeping
 *   transfer.c    whole calls: blocking, timeouts, sendfile      epoll.c, poll.c   many at once
 *   calls_*.c     the names that programs call
 *
 * Locks, outermost first: epoll set, connection.lock, those of rsockets, connection.observers_lock, the tables.
 */
#ifndef VB_PRELOAD_SOCKETS_CONNECTION_H
#define VB_PRELOAD_SOCKETS_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "base/mutex.h"
#include "base/time.h"
#include "preload/sockets/patience.h"
#include "preload/sockets/token.h"
#include "preload/sockets/token_reader.h"

struct vb_rsocket;

enum vb_connection_phase {
	VB_CONNECTION_FRESH,             /* accepted; this process has not used it yet */
	VB_CONNECTION_OPENING,           /* an rsocket listens, or connects */
	VB_CONNECTION_SWITCHING,         /* the rsocket is there; at least one direction is still TCP's */
	VB_CONNECTION_UP,                /* both directions go by RDMA */
	VB_CONNECTION_PLAIN,             /* TCP for good */
	VB_CONNECTION_ELSEWHERE,         /* it went by RDMA when we were forked off: it is our parent's */
};

struct vb_connection {
	unsigned references;             /* atomic: one of each descriptor and of each call under way */
	enum vb_connection_phase phase;  /* atomic: changed under lock */

	/* Everything below. Recursive: programs leave calls by longjmp from signal handlers
	 * (rdmacm/rsocket/rsocket.h). */
	struct vb_mutex lock;
	int fd;                          /* one of the descriptors it is known by */
	bool is_connector;
	bool nonblocking;                /* O_NONBLOCK, as the program set it */
	bool give_up;                    /* no rsocket from here on, unless one is in use already */
	vb_time receive_timeout, send_timeout; /* SO_RCVTIMEO, SO_SNDTIMEO; 0: none */
	vb_time opening_until;

	struct vb_rsocket *listener;     /* a connector's, until its peer has come */
	struct vb_rsocket *rs;
	uint8_t token[VB_TOKEN];         /* ours, which the peer puts into TCP */
	struct vb_token_reader token_reader;
	unsigned token_sent;             /* bytes of the peer's token that TCP has taken */
	bool receives_by_rdma, sends_by_rdma;
	bool sending_is_over;            /* shutdown(2) */
	uint64_t received, sent;         /* by RDMA */
	struct vb_patience patience;     /* of calls that wait for it alone */
	uint32_t changes;                /* of the rsocket, when it was last looked at (rdmacm/rsocket/stream.h) */

	struct vb_mutex observers_lock;
	struct vb_list observers;        /* of struct vb_connection_observer */
};

/* An epoll set that wants to look again when something has changed that no descriptor tells of. */
struct vb_connection_observer {
	struct vb_list node;
	int wake_fd;                     /* eventfd */
	bool rung;                       /* atomic */
};

/* The connection of a descriptor, with a reference of the caller's; NULL: it has none or TCP has it for good. */
struct vb_connection *vb_connection_get(int fd);
/* Is or was it one? */
bool vb_connection_is_known(int fd);
struct vb_connection *vb_connection_hold(struct vb_connection *connection);
void vb_connection_put(struct vb_connection *connection);

/* Is this a child of vfork(2), as posix_spawn(3) and Python make it? Its descriptors are its own; its memory, and what is known of
 * descriptors here, is its parent's. */
bool vb_connection_is_vforked(void);

/* From now on fd is a connection. One that exists already is replaced. */
void vb_connection_track(int fd, bool is_connector, bool nonblocking, struct vb_rsocket *listener,
			 const uint8_t token[VB_TOKEN]);
/* A copy of a descriptor is the same connection; the copy's number is free for it. */
void vb_connection_copy(int from, int to);
/* Before close(2) or whatever else ends the descriptor. */
void vb_connection_forget(int fd);
void vb_connection_forget_range(unsigned first, unsigned last);

static inline enum vb_connection_phase vb_connection_phase(const struct vb_connection *connection)
{
	return __atomic_load_n(&connection->phase, __ATOMIC_ACQUIRE);
}

void vb_connection_observe(struct vb_connection *connection, struct vb_connection_observer *observer);
void vb_connection_unobserve(struct vb_connection *connection, struct vb_connection_observer *observer);
/* Raise all of them but that of `but`. */
/* Are there others than that one? */
bool vb_connection_is_observed(struct vb_connection *connection, const struct vb_connection_observer *but);
void vb_connection_ring(struct vb_connection *connection, const struct vb_connection_observer *but);

/* ---- upgrade.c; caller holds connection->lock ---- */

/* Before connect(2): an rsocket that waits for the peer, or NULL. */
struct vb_rsocket *vb_upgrade_listen(int fd, int family, uint8_t token[VB_TOKEN]);
/* One step further, if there is one to be made without waiting. */
void vb_upgrade_advance(struct vb_connection *connection);
/* No rsocket, if it is not too late. */
void vb_upgrade_decline(struct vb_connection *connection);
void vb_upgrade_close_rsocket(struct vb_rsocket *rs);
/* Epoll sets look again when something becomes of it. Also without the lock, before others know of the connection. */
void vb_upgrade_observe(struct vb_connection *connection, struct vb_rsocket *rs);

/* ---- stream.c; caller holds connection->lock. Nothing here waits. ---- */

struct vb_iov_cursor;
/* Bytes moved, 0 at the end of the stream, or -errno. */
ssize_t vb_stream_receive(struct vb_connection *connection, struct vb_iov_cursor *to, int flags);
ssize_t vb_stream_send(struct vb_connection *connection, struct vb_iov_cursor *from, int flags);
/* Bytes that TCP has for us. */
size_t vb_stream_tcp_has(const struct vb_connection *connection);
/* Has TCP something for the program? Takes a token that is next. */
bool vb_stream_tcp_is_readable(struct vb_connection *connection);
/* Write the peer's token, as far as TCP takes it. */
void vb_stream_switch_sending(struct vb_connection *connection);
int vb_stream_shutdown(struct vb_connection *connection, int how);
/* FIONREAD */
int vb_stream_readable_bytes(struct vb_connection *connection);

#endif
