/* SPDX-License-Identifier: MIT
 *
 * A stream rsocket: its state, its two buffers and what it knows of the peer's.
 *
 * The receive buffer is a ring of two halves. The peer writes into it in order and may fill what it has been granted;
 * when the program has read a half, that half is granted again. The send buffer is a ring too, from which the queue
 * pair reads until the peer has acknowledged.
 *
 *   stream_connect.c   the events of rdma_cm
 *   stream_shutdown.c  the end
 *   stream_progress.c  completions and grants         stream_send.c, stream_receive.c, stream_iowrite.c  what the program asks for
 *   stream_endpoint.c  queue pair and buffers
 *   stream_iomap.c     memory that is open to the peer
 *   stream_message.c   how the peer is told something           stream_cut.c    where a long message is cut
 *   stream_place.c     long messages within one host
 *   stream_state.c     what the stream may do, and how it ends
 *
 * Each calls those below it.
 *
 * All functions here: caller holds rs->lock, unless they say otherwise.
 */
#ifndef VB_RDMACM_RSOCKET_STREAM_H
#define VB_RDMACM_RSOCKET_STREAM_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "rdmacm/rsocket/rsocket.h"
#include "rdmacm/rsocket/stream_wire.h"

struct vb_iov_cursor;

enum vb_rstream_state {
	VB_RSTREAM_IDLE,
	VB_RSTREAM_BOUND,
	VB_RSTREAM_LISTENING,
	VB_RSTREAM_RESOLVING_ADDRESS,
	VB_RSTREAM_RESOLVING_ROUTE,
	VB_RSTREAM_CONNECTING,
	VB_RSTREAM_ACCEPTING,            /* our answer to the peer's request is on its way */
	VB_RSTREAM_CONNECTED,
	VB_RSTREAM_DISCONNECTED,         /* in order: the peer said so, or we did, or its process is gone */
	VB_RSTREAM_REFUSED,              /* the connection was never made; rs->error says why */
	VB_RSTREAM_BROKEN,               /* it was lost; rs->error says why */
};

enum {
	VB_RSTREAM_CONTROLS = 4,         /* control messages under way at once; their share of the send queue */
	VB_RSTREAM_LOW_WATER = 8,        /* a smaller fraction of the send buffer is no room, only crumbs */
	VB_RSTREAM_QUIET_SLOTS = 16,     /* writes in succession that ask for no completion, and which part of the queue and of the */
	VB_RSTREAM_QUIET_PART = 4,       /* send buffer they may hold */
	VB_RSTREAM_TRANSFER_MOST = 131072,
	VB_RSTREAM_INLINE_MOST = 512,
	VB_RSTREAM_RECEIVES_OWED = 16,   /* receives are posted again so many at a time: an answer does not wait for that of its question */
};

/* What the peer writes to; registered. */
struct vb_rstream_lists {
	struct vb_rstream_span targets[VB_RSTREAM_TARGETS];
	struct vb_rstream_iomap iomaps[];
};

struct vb_rstream {
	enum vb_rstream_state state;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	bool may_read, may_write;        /* the peer has not finished; we have not */
	bool failure_told;               /* a call has returned why it is BROKEN */
	bool is_making;                  /* atomic: a queue pair, or looks for the way, with the lock. Who watches is told of the end */

	/* rconnect */
	union vb_rsocket_address destination;
	bool success_told;
	void *route;                     /* RDMA_ROUTE: to be used instead of resolving one */
	size_t route_length;

	/* For TCP connections that become rsockets: what our hello carries, if has_token, and what the peer's did. */
	bool has_token, peer_has_token;
	uint8_t token[VB_RSTREAM_TOKEN], peer_token[VB_RSTREAM_TOKEN];

	/* rlisten, raccept */
	struct vb_list accepted;         /* connections not fetched yet */
	unsigned children;               /* those, and those on their way */
	struct vb_list accept_node;
	struct vb_rsocket *listener;     /* ACCEPTING: a reference */

	struct ibv_comp_channel *completions;
	struct ibv_cq *cq;
	bool armed;                      /* a completion will raise, or has raised, an event */
	uint32_t changes;                /* how often progress has found something, modulo 2^32 */
	uint32_t inline_most;
	bool by_send;                    /* stream_message.c */
	int (*placing)(struct ibv_context *context, void *command); /* stream_place.c; NULL: not on one host */
	int (*sleeping)(struct ibv_context *context, void *command); /* stream_sleep.c; NULL: its threads sleep on completions alone */
	uint32_t packet;                 /* payload of one, on a wire where it is worth while to make them alike; or 0 */

	/* Towards the peer. */
	uint8_t *send_bytes;
	struct ibv_mr *send_mr;
	uint32_t send_size, send_at, send_free;
	unsigned send_slots, send_slots_all, control_slots;
	unsigned quiet_slots;            /* of writes that ask for no completion: given back with that of the next request that does */
	uint32_t quiet_bytes;
	uint16_t sent, send_limit;       /* messages, modulo 2^16 */
	uint16_t spare;                  /* of the limit: not for data */
	struct vb_rstream_span target;   /* where the next bytes go; length: what is left of it */
	unsigned target_at, targets_ready; /* the entry to use next, and how many are filled in */

	/* From the peer. */
	struct vb_rstream_lists *lists;
	struct ibv_mr *lists_mr;
	uint8_t *receive_bytes;
	int receive_fd;                  /* the memory's, or -1: the peer may map it too (docs/same-host.md) */
	struct ibv_mr *receive_mr;
	uint32_t receive_size, receive_at, available;
	uint32_t granted;                /* bytes the peer may still write */
	uint32_t freed, grant_at;        /* bytes read and not granted again; the half that is next */
	uint16_t received, receive_mark; /* messages; grant more when `received` passes the mark */
	unsigned receives_owed;          /* used up and not posted again yet */

	uint32_t *words;                 /* by SEND: what the receives receive */
	struct ibv_mr *words_mr;
	uint32_t words_all, word_at;     /* the one for the next receive */

	/* The peer's lists. */
	struct vb_rstream_span remote_targets;
	uint32_t remote_target_at;
	bool foreign;                    /* the peer's byte order is not ours */

	/* riomap */
	struct vb_rstream_iomap *peer_iomaps; /* rs->sizes.iomaps of them: what we may write to */
	uint64_t remote_iomaps_address;
	uint32_t remote_iomaps;
	struct vb_list mappings;         /* ours, of struct mapping (stream_iomap.c) */
	unsigned unsent_mappings;
};

/* Parts of its kind (stream_connect.c). */
void vb_rstream_arm(struct vb_rsocket *rs);
void vb_rstream_collect(struct vb_rsocket *rs);
int vb_rstream_wait_fd(struct vb_rsocket *rs);
short vb_rstream_revents(struct vb_rsocket *rs);
/* No lock. */
void vb_rstream_close(struct vb_rsocket *rs);
void vb_rstream_destroy(struct vb_rsocket *rs);

/* rsocket(): an rsocket in the table, or -errno. No lock. */
int vb_rstream_open(int domain, int type_flags);
/* One that the program does not know of: its descriptor is none of the low numbers, and its hello carries the
 * token. With a reference of the caller's; NULL with -errno in *error. No lock. */
struct vb_rsocket *vb_rstream_open_hidden(int domain, const uint8_t token[VB_RSTREAM_TOKEN], int *error);
int vb_rstream_bind(struct vb_rsocket *rs, const struct sockaddr *address, socklen_t length);
int vb_rstream_listen(struct vb_rsocket *rs, int backlog);
/* The new rsocket, with a reference of the caller's, and the descriptor it is to be named by; or NULL and -errno. */
struct vb_rsocket *vb_rstream_accept(struct vb_rsocket *rs, int *fd);
int vb_rstream_rename(struct vb_rsocket *child, int fd);
/* A connection to a listener that has come about, with a reference of the caller's and no other descriptor than its
 * own; NULL: none has. */
struct vb_rsocket *vb_rstream_take_accepted(struct vb_rsocket *listener);
int vb_rstream_connect(struct vb_rsocket *rs, const struct sockaddr *address, socklen_t length);
/* 0 once connected; otherwise what a send or receive has to return. */
int vb_rstream_await_connection(struct vb_rsocket *rs, vb_time patience);
bool vb_rstream_has_finished_opening(struct vb_rsocket *rs);

static inline bool vb_rstream_has_room(const struct vb_rstream *stream)
{
	return stream->send_slots > 0 && stream->send_free >= stream->send_size / VB_RSTREAM_LOW_WATER;
}

/* Without the lock: is there nothing new to be seen, while it is held for long? */
static inline bool vb_rstream_is_making(const struct vb_rstream *stream)
{
	return __atomic_load_n(&stream->is_making, __ATOMIC_ACQUIRE);
}

static inline bool vb_rstream_is_opening(const struct vb_rstream *stream)
{
	return stream->state >= VB_RSTREAM_RESOLVING_ADDRESS && stream->state <= VB_RSTREAM_ACCEPTING;
}

/* Queue pair, buffers and posted receives for stream->id. 0 or -errno. */
int vb_rstream_endpoint_create(struct vb_rsocket *rs);
/* All of it, and the id; caller has rs to itself or has marked it closed. */
void vb_rstream_endpoint_destroy(struct vb_rsocket *rs);
/* What to say to the peer; its length. */
unsigned vb_rstream_endpoint_introduce(const struct vb_rsocket *rs, struct vb_rstream_greeting_bytes *bytes);
/* Believe the peer's hello. 0 or -errno. */
int vb_rstream_endpoint_meet(struct vb_rsocket *rs, const void *private_data, unsigned length);

bool vb_rstream_progress(struct vb_rsocket *rs);
/* Tell the peer of room it does not know of, if that is worth a message. */
void vb_rstream_grant(struct vb_rsocket *rs);
/* The connection is lost: first reason wins. */
void vb_rstream_break(struct vb_rsocket *rs, int error);
void vb_rstream_disconnected(struct vb_rsocket *rs);
bool vb_rstream_can_send(struct vb_rsocket *rs);
bool vb_rstream_all_sent(struct vb_rsocket *rs);

/* The work requests of a stream, told apart by their wr_id when they complete. */
enum vb_rstream_work {
	VB_RSTREAM_RECEIVE,
	VB_RSTREAM_WRITE,                /* holds a slot of the send queue and bytes of the send buffer */
	VB_RSTREAM_TELL,                 /* holds a control slot */
	VB_RSTREAM_TELL_DISCONNECT,      /* likewise; the connection is over when it has arrived */
	VB_RSTREAM_PLACE,                /* asks for no completion: what it holds is given back with that of a request behind it */
};

/* Bytes of the send buffer and slots of the send queue are given back when it completes. A receive's bytes: which one it is. */
static inline uint64_t vb_rstream_work_id(enum vb_rstream_work work, unsigned slots, uint32_t bytes)
{
	return (uint64_t)work << 56 | (uint64_t)slots << 32 | bytes;
}

static inline enum vb_rstream_work vb_rstream_work_of(uint64_t work_id)
{
	return (enum vb_rstream_work)(work_id >> 56);
}

static inline unsigned vb_rstream_work_slots(uint64_t work_id)
{
	return (unsigned)(work_id >> 32 & 0xffffff);
}

/* For a request that asks for a completion: all before it in the send queue have completed by then. */
static inline uint64_t vb_rstream_work_with_quiet(struct vb_rstream *stream, enum vb_rstream_work work)
{
	uint64_t id = vb_rstream_work_id(work, stream->quiet_slots, stream->quiet_bytes);

	stream->quiet_slots = 0;
	stream->quiet_bytes = 0;
	return id;
}

/* RDMA WRITE of `count` pieces to `to`, and a message about it. Both break the connection when they cannot. 0 or -errno. */
int vb_rstream_write(struct vb_rsocket *rs, uint64_t work_id, struct ibv_sge *pieces, int count, unsigned flags,
		     const struct vb_rstream_span *to);
int vb_rstream_write_and_tell(struct vb_rsocket *rs, uint64_t work_id, struct ibv_sge *pieces, int count, unsigned flags,
			      const struct vb_rstream_span *to, uint32_t message);
/* The same of what is cut in two (stream_cut.h), and takes two slots. */
struct vb_rstream_cut;
int vb_rstream_write_cut(struct vb_rsocket *rs, uint64_t work_id, struct vb_rstream_cut *cut, const struct vb_rstream_span *to,
			 uint32_t message);
/* Connected to an address of its own: what that makes possible. */
void vb_rstream_place_prepare(struct vb_rstream *stream);
/* The next `length` bytes are where the peer granted room for them, and left to be told of. False: nothing has happened. */
bool vb_rstream_place(struct vb_rstream *stream, struct vb_iov_cursor *from, uint32_t length, const struct vb_rstream_span *to);
/* Connected to another host: threads may wait for its packets. On one host the peer answers while a thread looks. If that said that it may
 * have to be woken, each message would take a system call (redis-benchmark, 50 clients: 180,000 requests a second, 110,000 so). */
void vb_rstream_sleep_prepare(struct vb_rstream *stream);
/* And who waits for its completions decides so here alone. */
void vb_rstream_sleep_alone(struct vb_rstream *stream);
/* The calling thread is about to sleep. What it is to sleep on, too; -1: on the completions alone. Before they are armed. Caller holds
 * rs->lock. settle: nothing is left to look at, as the last thing before it sleeps. end: it has slept, or will not. woken: by that, and it
 * looks after this. pass: what has come raises events, as CQs are armed. disarm: or does not, unless it has already; or another thread
 * watches rs. Caller holds rs->lock. */
int vb_rstream_sleep_begin(struct vb_rsocket *rs);
void vb_rstream_sleep_settle(void);
void vb_rstream_sleep_end(void);
void vb_rstream_sleep_woken(void);
void vb_rstream_sleep_pass(void);
void vb_rstream_disarm(struct vb_rsocket *rs);
int vb_rstream_post_receives(struct vb_rstream *stream, unsigned count);
/* How messages travel on the device of stream->id, before anything else of this is asked; memory for them, behind the
 * queue pair. */
void vb_rstream_message_choose(struct vb_rstream *stream);
/* Connected: the size of packets is known now. */
void vb_rstream_message_measure(struct vb_rstream *stream);
int vb_rstream_message_prepare(struct vb_rstream *stream, unsigned receives);
void vb_rstream_message_release(struct vb_rstream *stream);
/* How many work requests one takes, and how many of the peer's credits are not for data. */
unsigned vb_rstream_message_requests(const struct vb_rstream *stream);
uint16_t vb_rstream_message_spare(const struct vb_rstream *stream, uint16_t credits);
/* What a receive has brought. False: no message. Of a grant: with room for data, or with messages alone. */
bool vb_rstream_message_read(const struct vb_rstream *stream, const struct ibv_wc *completion, uint32_t *message);
bool vb_rstream_message_has_room(const struct vb_rstream *stream, const struct ibv_wc *completion);
/* A control message, when a control slot is free; -EAGAIN when none is. */
int vb_rstream_tell(struct vb_rsocket *rs, enum vb_rstream_control control);
void vb_rstream_keep_alive(struct vb_rsocket *rs);

ssize_t vb_rstream_send(struct vb_rsocket *rs, struct vb_iov_cursor *from, int flags);
ssize_t vb_rstream_receive(struct vb_rsocket *rs, struct vb_iov_cursor *to, int flags);

/* Why nothing can be sent in this state, as -errno. */
int vb_rstream_why_not_send(struct vb_rsocket *rs);
/* Put bytes into the send buffer (or inline) and post them. Returns how many, or -errno. `most` > 0. */
ssize_t vb_rstream_write_piece(struct vb_rsocket *rs, struct vb_iov_cursor *from, uint32_t most,
			       const struct vb_rstream_span *to, bool is_data);

int vb_rstream_shutdown(struct vb_rsocket *rs, int how);
/* Before an rsocket that is to be closed leaves the table: disconnect and wait until that has arrived, or until the peer is
 * known to be gone, which only rsockets of the table are told of. Locks rs. */
void vb_rstream_disconnect(struct vb_rsocket *rs);

off_t vb_rstream_iomap(struct vb_rsocket *rs, void *bytes, size_t length, int protection, int flags, off_t offset);
int vb_rstream_iounmap(struct vb_rsocket *rs, void *bytes, size_t length);
ssize_t vb_rstream_iowrite(struct vb_rsocket *rs, const void *bytes, size_t count, off_t offset, int flags);
/* Tell the peer of mappings it does not know of. 0 or -errno. */
int vb_rstream_iomap_announce(struct vb_rsocket *rs, vb_time patience);
void vb_rstream_iomap_learn(struct vb_rsocket *rs, uint32_t index);
void vb_rstream_iomap_release_all(struct vb_rstream *stream);

#endif
