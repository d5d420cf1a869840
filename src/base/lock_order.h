/* SPDX-License-Identifier: MIT
 *
 * The order of all locks: each has a rank, and a thread that waits for a lock holds only locks of lower ranks. So no
 * circle of threads that wait for one another can come about. docs/architecture.md, section Locks, says what each
 * protects.
 *
 * Where VB_CHECK_INVARIANTS is defined each thread keeps a record of what it holds. Waiting for a lock out of order
 * ends the program and names both; it need not come to a deadlock to be found. Who only tries a lock does not wait:
 * that is always allowed, and recorded. In other builds nothing of this is there.
 *
 * The record belongs to one library. Where librdmacm calls libibverbs the order is that of the libraries. The latter calls back for one
 * thing, to have connections listed (vb_handover_show_ids), and holds no lock then.
 */
#ifndef VB_BASE_LOCK_ORDER_H
#define VB_BASE_LOCK_ORDER_H

#include <stdbool.h>

/* Outermost first. The name is that of docs/architecture.md. */
#define VB_LOCK_RANKS(RANK)                               \
	RANK(UMAD, "umad ports.lock")                     \
	RANK(POLLING, "cq.polling")                       \
	RANK(POSTING, "queue_pair.posting")               \
	RANK(SOCKETS_EPOLL, "sockets epoll set.lock")     \
	RANK(SOCKETS_CONNECTION, "sockets connection.lock") \
	RANK(RSOCKET, "rsocket.lock")                     \
	RANK(RSOCKET_LISTENER, "listening rsocket.lock")  \
	RANK(RSOCKET_SERVICE, "rsocket service.lock")     \
	RANK(RSOCKET_TABLE, "rsocket table.lock")         \
	RANK(SOCKETS_OBSERVERS, "sockets observers_lock") \
	RANK(SOCKETS_TABLE, "sockets table.lock")         \
	RANK(CM_DEVICES, "rdmacm devices_lock")           \
	RANK(CM_SEND, "rdmacm line.send_lock")            \
	RANK(CM_LINE, "rdmacm line.lock")                 \
	RANK(CM_STREAMS, "rdmacm streams.lock")           \
	RANK(CM_ID, "rdmacm id.lock")                     \
	RANK(CM_CHANNEL, "rdmacm channel.lock")           \
	RANK(SESSIONS, "sessions_lock")                   \
	RANK(ENDPOINT, "endpoint guard")                  \
	RANK(LANES, "endpoint.lanes_lock")                \
	RANK(WATCHERS, "endpoint.watcher_lock")           \
	RANK(SESSION, "session.lock")                     \
	RANK(CONTEXT, "context.lock")                     \
	RANK(PUBLIC, "public mutex")                      \
	RANK(ASKING, "same_host.asking")                  \
	RANK(PROGRESS, "schedule.progress")               \
	RANK(LANE, "lane.lock")                           \
	RANK(XRC_QPS, "xrc_domain.members")               \
	RANK(QP, "qp.lock")                               \
	RANK(INQUIRIES, "udp inquiries.lock")             \
	RANK(POLLER, "poller.lock")                       \
	RANK(XRC_SRQS, "xrc_domain.lock")                 \
	RANK(SRQ, "srq.lock")                             \
	RANK(CQ, "cq.lock")                               \
	RANK(CHANNEL, "channel.lock")                     \
	RANK(EVENTS, "event_queue.lock")                  \
	RANK(MEMORY, "memory.mutex")                      \
	RANK(GPU_ATOMICS, "memory.gpu_atomics")           \
	RANK(HOST_PEERS, "same_host.lock")                \
	RANK(SHARE, "share.lock")                         \
	RANK(DATAGRAMS, "datagram exit.lock")             \
	RANK(WISHES, "datagrams.wishes_lock")             \
	RANK(MEETINGS, "meetings.lock")                   \
	RANK(QPNS, "endpoint.table_lock")                 \
	RANK(ACTIVE, "lane.active_lock")                  \
	RANK(STREAM_REPORTS, "stream reports.lock")       \
	RANK(TIMERS, "timers.lock")                       \
	RANK(SOURCE_PORTS, "source_ports.lock")           \
	RANK(COUNTED, "source port.counted.lock")         \
	RANK(FRAME_PORT, "fabric link.opening")           \
	RANK(TAP, "tap.lock")                             \
	RANK(FRAME_CABLE, "fabric link.sending")          \
	RANK(FRAMES, "frames.lock")                       \
	RANK(SHAPER, "shaper.lock")                       \
	RANK(CAPTURE, "capture.lock")                     \
	RANK(AHEAD, "ahead.lock")                         \
	RANK(EXPLAINER, "explainer.lock")                 \
	RANK(LOG, "log limit.lock")

enum vb_lock_rank {
#define VB_LOCK_RANK(rank, name) VB_RANK_##rank,
	VB_LOCK_RANKS(VB_LOCK_RANK)
#undef VB_LOCK_RANK
};

#ifdef VB_CHECK_INVARIANTS

/* Before waiting for a lock: is it in order? Then it is recorded as held. */
void vb_lock_order_take(const void *lock, enum vb_lock_rank rank);
/* A lock that was had without waiting. */
void vb_lock_order_tried(const void *lock, enum vb_lock_rank rank);
void vb_lock_order_release(const void *lock, enum vb_lock_rank rank);
/* Waiting for a condition lets go of a lock and takes it back: all others held must be of lower ranks. */
void vb_lock_order_wait(const void *lock, enum vb_lock_rank rank);
/* It is made anew, as in a child of fork: no thread holds it. */
void vb_lock_order_forget(const void *lock);
bool vb_lock_order_holds(const void *lock);

#else

static inline void vb_lock_order_take(const void *lock, enum vb_lock_rank rank)
{
	(void)lock;
	(void)rank;
}

static inline void vb_lock_order_tried(const void *lock, enum vb_lock_rank rank)
{
	(void)lock;
	(void)rank;
}

static inline void vb_lock_order_release(const void *lock, enum vb_lock_rank rank)
{
	(void)lock;
	(void)rank;
}

static inline void vb_lock_order_wait(const void *lock, enum vb_lock_rank rank)
{
	(void)lock;
	(void)rank;
}

#endif
#endif
