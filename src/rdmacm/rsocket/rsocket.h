/* SPDX-License-Identifier: MIT
 *
 * rsockets: the socket calls of rdma/rsocket.h over rdma_cm and verbs (man 7 rsocket).
 *
 * A stream rsocket is an RC connection on which each side writes its bytes straight into the other's receive buffer
 * (RDMA WRITE with immediate); a datagram rsocket is a set of UD queue pairs with a UDP socket that tells which queue
 * pair answers for an address. This folder uses only the public rdma_* and ibv_* calls; the ids and events underneath
 * are not its business.
 *
 *   calls_*.c     the exported names: descriptor -> object, -errno -> errno
 *   table.c       which descriptor is which rsocket
 *   wait.c        sleeping until something changes, and waking those who sleep
 *   service.c     one thread for connection events and for the UDP side of datagrams
 *   stream_*.c    SOCK_STREAM        datagram_*.c  SOCK_DGRAM
 *   poll.c        rpoll and rselect  options.c     rsetsockopt, rgetsockopt, rfcntl
 *
 * Locks, outermost first: rsocket.lock of a connection being accepted -> rsocket.lock of its listener -> table,
 * service. No thread sleeps with rsocket.lock held: vb_rsocket_wait lets go of it.
 */
#ifndef VB_RDMACM_RSOCKET_RSOCKET_H
#define VB_RDMACM_RSOCKET_RSOCKET_H

#include <fcntl.h>
#include <infiniband/ib.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/list.h"
#include "base/mutex.h"
#include "base/time.h"

struct vb_rsocket;
struct vb_rstream;
struct vb_rdatagram;

union vb_rsocket_address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct sockaddr_storage storage;
};

/* What the two types do differently, for those who sleep on an rsocket. All but attend and close: caller holds
 * rsocket.lock. */
struct vb_rsocket_kind {
	bool (*progress)(struct vb_rsocket *rs);  /* take what has arrived, without waiting; true: something changed */
	void (*arm)(struct vb_rsocket *rs);       /* from here on a completion makes wait_fd readable */
	void (*collect)(struct vb_rsocket *rs);   /* wait_fd was readable: take what made it so */
	int (*wait_fd)(struct vb_rsocket *rs);    /* -1: only vb_rsocket_wake tells of changes */
	short (*revents)(struct vb_rsocket *rs);  /* everything that poll(2) could report */
	void (*keep_alive)(struct vb_rsocket *rs); /* show the peer that we live. NULL: there is no connection to keep */
	void (*attend)(struct vb_rsocket *rs);    /* in the service thread: rs->event_fd is readable */
	void (*close)(struct vb_rsocket *rs);     /* already out of the table; the rest of rclose */
	void (*destroy)(struct vb_rsocket *rs);   /* it has no reference any more */
};

/* Sizes, in the order of man 7 rsocket; from files below /etc/rdma/rsocket, then from rsetsockopt. */
struct vb_rsocket_sizes {
	uint32_t receive_buffer, send_buffer;     /* mem_default, wmem_default */
	uint32_t send_queue, receive_queue;       /* sqsize_default, rqsize_default */
	uint32_t inline_data;                     /* inline_default */
	uint32_t iomaps;                          /* iomap_size */
};

struct vb_rsocket {
	const struct vb_rsocket_kind *kind;
	int fd;                                   /* what the program holds; the table's key */
	int event_fd;                             /* what the service thread watches: event channel or UDP socket */
	int domain, type;
	unsigned references;                      /* atomic: the table's and those of calls under way */

	/* Everything below. Recursive, for the sake of programs that leave a call of ours by longjmp from a signal
	 * handler. */
	struct vb_mutex lock;
	struct vb_list watchers;                  /* of struct watch (wait.c) */
	struct {                                  /* told of events of rdma_cm, in the service thread, under this lock */
		void (*changed)(void *context);
		void *context;
	} observer;
	bool closed;                              /* its verbs objects are gone */
	bool attended;                            /* the service thread watches event_fd */
	int status_flags, descriptor_flags;       /* F_SETFL, F_SETFD */
	int error;                                /* for SO_ERROR */
	struct vb_rsocket_sizes sizes;
	struct {
		bool reuse_address, reuse_port, out_of_band_inline, keep_alive, no_delay, v6_only;
		int type_of_service;
		struct linger linger;
		unsigned keep_alive_seconds;
		vb_time receive_timeout, send_timeout; /* 0: none */
	} options;

	struct vb_rstream *stream;                /* one of the two */
	struct vb_rdatagram *datagram;
};

/* NULL: no memory. One reference, the caller's; not yet in the table. */
struct vb_rsocket *vb_rsocket_create(const struct vb_rsocket_kind *kind, int domain, int type);

/* The rsocket of a descriptor with a reference of the caller's, or NULL. */
struct vb_rsocket *vb_rsocket_get(int fd);
struct vb_rsocket *vb_rsocket_hold(struct vb_rsocket *rs);
void vb_rsocket_put(struct vb_rsocket *rs);

/* Enter it under rs->fd, with a reference of the table's. 0 or -errno. */
int vb_rsocket_publish(struct vb_rsocket *rs);
/* Out of the table, with the reference the table had; NULL: it is not there. */
struct vb_rsocket *vb_rsocket_withdraw(int fd);

/* Show each rsocket of the table. */
void vb_rsocket_for_each(void (*visit)(struct vb_rsocket *rs));

/* The rsocket, referenced and locked and not closed; NULL: there is none. */
struct vb_rsocket *vb_rsocket_enter(int fd);
void vb_rsocket_leave(struct vb_rsocket *rs);

/* How long a call may wait: 0, not at all; SO_RCVTIMEO or SO_SNDTIMEO, if it is set; without end. */
static inline vb_time vb_rsocket_patience(const struct vb_rsocket *rs, int flags, vb_time timeout)
{
	if ((rs->status_flags & O_NONBLOCK) != 0 || (flags & MSG_DONTWAIT) != 0)
		return 0;
	return timeout != 0 ? timeout : VB_TIME_NEVER;
}

/* Length of an address of this family; 0: a family rsockets do not know. */
static inline socklen_t vb_rsocket_address_length(int family)
{
	return family == AF_INET ? sizeof(struct sockaddr_in) : family == AF_INET6 ? sizeof(struct sockaddr_in6) :
	       family == AF_IB ? sizeof(struct sockaddr_ib) : 0;
}

/* Take a program's address: 0, -EINVAL, -EAFNOSUPPORT. */
int vb_rsocket_address_take(union vb_rsocket_address *address, const struct sockaddr *from, socklen_t length);
/* Give an address to a program as getsockname(2) does: cut to its room, the true length told. */
void vb_rsocket_address_give(const struct sockaddr *address, struct sockaddr *to, socklen_t *length);

#endif
