/* SPDX-License-Identifier: MIT
 *
 * The link of InfiniBand: frames to and from verbenad, which is the host's adapter in a software fabric, and the RoCE
 * engine's bursts and packets. Shared by the files that make it up:
 *
 *   fabric_link.c   opening and closing, and the table of what it does
 *   transmit.c      from an engine's burst to frames
 *   receive.c       from frames to the engines
 *   direct.c        both of them past verbenad
 *   memory.c        past UDP as well
 *   groups.c        who listens to which multicast group
 *   tap.c           what a capture sees of it
 *
 * The socket (wire/frame_port.h) is made with the first queue pair: a process that has none costs nothing. Its number
 * stays the same when another verbenad comes, so that a sender need not look twice.
 */
#ifndef VB_LINKS_FABRIC_FABRIC_LINK_H
#define VB_LINKS_FABRIC_FABRIC_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"
#include "base/mutex.h"
#include "base/time.h"
#include "io/frame_ring.h"
#include "links/burst_pool.h"
#include "links/link.h"
#include "schedule/schedule.h"
#include "wire/frame_port.h"

struct iovec;
struct vb_burst_run;
struct vb_cable_slot;
struct vb_datagram_batch;
struct vb_fabric_tap;

struct vb_fabric_link_group {
	uint8_t gid[16];
	struct vb_qp *qp;
};

enum vb_fabric_memory_state { VB_FABRIC_MEMORY_NONE, VB_FABRIC_MEMORY_OFFERED, VB_FABRIC_MEMORY_PLUGGED };

/* What is not said to be another's is changed under progress alone. */
struct vb_fabric_memory {
	struct vb_frame_ring_segment *segment; /* NULL until the first; stays where it is */
	enum vb_fabric_memory_state state; /* atomic; changed under progress and `sending` */
	int line;                          /* atomic: to the fabric; -1: none */
	uint32_t generation, key;          /* atomic: of the slot, for which it was last offered */
	bool is_refused;                   /* by the environment */
	struct vb_frame_ring_reader reader;
	struct vb_lock sending;            /* of what follows */
	struct vb_frame_ring_writer writer;
	bool is_stuck;                     /* it was full, and for long */
};

struct vb_fabric_link {
	struct vb_link link;
	struct vb_schedule *schedule;
	struct vb_mutex opening;           /* one thread at a time asks verbenad for the socket */
	int fd;                            /* atomic: -1 until the first queue pair */
	int udp;                           /* atomic: the process's own way to the fabric, -1: none */
	struct vb_frame_page *page;        /* atomic: with the former, and stays where it is */
	uint32_t known_generation;         /* atomic: of which the fabric knows our slot; 0: none */
	bool is_closed;                    /* atomic: by verbenad, which ended; until there is another */
	struct vb_burst_pool bursts;
	struct vb_fabric_tap *tap;         /* NULL: none */

	/* Under progress. */
	unsigned all_read_in;              /* receive.c: in which pass the socket was read until it was empty */
	struct vb_datagram_batch *batch;   /* of `udp`; made when it is first read */
	struct vb_fabric_memory memory;    /* in the place of `udp` */
	struct vb_fabric_link_group *group;
	unsigned groups, room;
	uint8_t incoming[VB_FRAME_PORT_MESSAGE];
};

static inline struct vb_fabric_link *vb_fabric_link_of(struct vb_link *link)
{
	return (struct vb_fabric_link *)link;
}

/* The socket, if frames can be sent and received; -1: not now. */
static inline int vb_fabric_link_fd(const struct vb_fabric_link *fabric)
{
	return __atomic_load_n(&fabric->is_closed, __ATOMIC_ACQUIRE) ? -1 : __atomic_load_n(&fabric->fd, __ATOMIC_RELAXED);
}

/* The socket past verbenad; -1: there is none, or verbenad, without which there is no adapter, is gone. */
static inline int vb_fabric_link_udp(const struct vb_fabric_link *fabric)
{
	return vb_fabric_link_fd(fabric) < 0 ? -1 : __atomic_load_n(&fabric->udp, __ATOMIC_ACQUIRE);
}

/* ---- fabric_link.c ---- */

/* 0 or -errno. */
int vb_fabric_link_open(struct vb_link **link, struct vb_schedule *schedule);

/* ---- transmit.c: struct vb_link_driver has the words ---- */

void vb_fabric_link_transmit(struct vb_link *link, struct vb_qp *qp, vb_time now);
void vb_fabric_link_transmit_in_pass(struct vb_link *link, struct vb_qp *qp, vb_time now);

/* ---- send.c ---- */

/* How many of its packets are lost, because verbenad is gone or too slow. */
uint32_t vb_fabric_link_send_run(struct vb_fabric_link *fabric, const struct vb_burst_run *run);

/* ---- receive.c ---- */

bool vb_fabric_link_drain(struct vb_link *link, vb_time now, bool all);
bool vb_fabric_link_expire(struct vb_link *link, struct vb_qp *qp, vb_time now);

/* ---- direct.c ---- */

/* Send a run past verbenad. False: it has to go by verbenad. *lost grows by the packets that could not be sent. */
bool vb_fabric_direct_send(struct vb_fabric_link *fabric, const struct vb_burst_run *run, uint32_t *lost);
/* Take in what has come past verbenad: frames of one length that agree in LRH and GRH, and the end of each bundle. The first lies at
 * `frame`, those behind it from `others` on, `stride` apart, in memory that may change meanwhile. `all`: by UDP, too, where there is a
 * cable of memory. True: there was something. Caller holds progress. */
typedef void vb_fabric_direct_take(void *context, const uint8_t *frame, size_t length, const uint8_t *others, size_t stride,
				   unsigned count);
typedef void vb_fabric_direct_end(void *context);
bool vb_fabric_direct_receive(struct vb_fabric_link *fabric, unsigned batches, bool all, vb_fabric_direct_take *take,
	vb_fabric_direct_end *end, void *context);

/* ---- memory.c ---- */

void vb_fabric_memory_init(struct vb_fabric_memory *memory);
void vb_fabric_memory_fini(struct vb_fabric_memory *memory);
/* The fabric has answered for our slot, and says where it listens. Caller holds progress. */
void vb_fabric_memory_offer(struct vb_fabric_link *fabric, const struct vb_cable_slot *slot);
/* What the fabric rang for, and whether it is still there. Caller holds progress. */
void vb_fabric_memory_listen(struct vb_fabric_link *fabric);
/* Does what is sent past verbenad go by memory? */
bool vb_fabric_memory_is_there(const struct vb_fabric_link *fabric);
/* Datagrams of `segment` bytes each but perhaps the last. False: there is no room, or it has ended. */
bool vb_fabric_memory_send(struct vb_fabric_link *fabric, const struct iovec *parts, unsigned count, size_t segment);
/* The next record; done with it. Caller holds progress. */
bool vb_fabric_memory_look(struct vb_fabric_link *fabric, struct vb_frame_ring_record *record);
void vb_fabric_memory_done(struct vb_fabric_link *fabric, const struct vb_frame_ring_record *record);
/* struct vb_link_driver has the words. */
bool vb_fabric_memory_has_work(struct vb_link *link);
void vb_fabric_memory_spun(struct vb_link *link);
void vb_fabric_memory_watched(struct vb_link *link);
void vb_fabric_memory_rise(struct vb_link *link);
vb_time vb_fabric_memory_rest(struct vb_link *link, vb_time until);

/* ---- groups.c ---- */

int vb_fabric_link_join_group(struct vb_link *link, struct vb_qp *qp, const uint8_t gid[16], uint32_t interface_index);
int vb_fabric_link_leave_group(struct vb_link *link, struct vb_qp *qp, const uint8_t gid[16], uint32_t interface_index);
/* Caller holds progress. */
void vb_fabric_link_forget_qp(struct vb_fabric_link *fabric, const struct vb_qp *qp);

#endif
