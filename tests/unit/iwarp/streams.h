/* SPDX-License-Identifier: MIT
 *
 * Two iWARP engines, or one and a test that plays its peer, joined by a stream of bytes in each direction, in virtual time. What a socket
 * would do is done here: it takes less than is offered, gives less than was sent, cuts where it likes, and ends.
 */
#ifndef TESTS_UNIT_IWARP_STREAMS_H
#define TESTS_UNIT_IWARP_STREAMS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iwarp/engine.h"
#include "iwarp/iwarp.h"
#include "queue/qp.h"

enum {
	ARENA = 5 << 20,
	PIPE = 8 << 20,
	EVENTS = 16,
	MAX_WR = 512,
	FLIGHTS = 64,
};

#define ALL_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | \
		    IBV_ACCESS_MW_BIND)

struct streams;

struct end {
	struct streams *streams;
	struct end *other;
	struct vb_memory *memory;
	struct vb_pd pd, other_pd;
	struct vb_counters counters;
	struct vb_queue_host host;
	struct vb_cq send_cq, recv_cq;
	struct vb_srq srq;
	struct vb_qp *qp;
	uint8_t *arena;
	uint32_t key;                    /* of all of it, every right */
	uint32_t demand_key;             /* the same on demand */
	uint64_t hole_start, hole_end;   /* not mapped */
	enum ibv_event_type event[EVENTS];
	unsigned events, completion_events;

	/* The socket. */
	struct vb_iwarp_out *out;
	uint8_t *pipe;                   /* on its way to the other */
	size_t pipe_size;
	size_t written, read, landed;
	struct {
		size_t end;              /* of the stream: up to here it has come then */
		vb_time at;
	} flight[FLIGHTS];
	unsigned flights;
	bool shut, reset;                /* by us: no more will be written */
	bool over;                       /* ended was told */
	size_t room;                     /* of the socket: bytes that may be on their way; 0: all of the pipe */
	size_t damage_at;                /* a bit of this byte of the stream changes on its way; 0: of none */
	uint8_t *rest;                   /* not taken yet */
	size_t rest_length;
	unsigned short_writes, direct_reads;
};

struct options {
	bool crc, srq, signal_all, strict, attentive;
	uint64_t nonce[2];               /* 0: they are not known to be on one host */
	uint32_t mulpdu;                 /* 0: of a segment */
	uint32_t ird[2], ord[2];         /* 0: 4 */
	bool no_reads;                   /* IRD and ORD are 0 */
	enum vb_iwarp_ready ready;
	size_t most_read, most_taken;    /* at once, of the sockets; 0: any number */
	bool random_cuts;
	bool direct;                     /* use want and got */
	unsigned access;                 /* of the queue pairs; 0: all */
	unsigned cq_capacity;
	size_t room;
	uint64_t seed;
	vb_time delay;                   /* of a piece, at most */
	size_t arena, pipe;              /* 0: ARENA, PIPE */
	unsigned max_wr;                 /* 0: MAX_WR */
};

struct streams {
	struct options options;
	vb_time now;
	uint64_t random;
	bool cut;                        /* what joins them is gone: both find the stream reset */
	struct end end[2];               /* the first is the initiator */
};

void streams_open(struct streams *streams, const struct options *options);
/* The same without begin: for a test that is the peer of end[side]. */
void streams_make(struct streams *streams, const struct options *options);
int streams_begin(struct end *end, bool initiator);
void streams_close(struct streams *streams);

/* Until nothing moves at this time. */
void streams_settle(struct streams *streams);
/* When something will move, or a deadline is; VB_TIME_NEVER: not by itself. Go on to then, and settle. */
vb_time streams_next(const struct streams *streams);
void streams_step(struct streams *streams, vb_time when);
/* And on to the deadlines, up to then. */
void streams_run(struct streams *streams, vb_time until);
/* One end alone: hand it bytes, all at once; take away what it sends. */
void end_feed(struct end *end, const void *bytes, size_t length);
size_t end_drain(struct end *end, uint8_t *bytes, size_t room);
void end_transmit(struct end *end);
uint32_t streams_random(struct streams *streams);

struct ibv_sge sge_of(const struct end *end, uint32_t offset, uint32_t length);
int post(struct end *end, struct ibv_send_wr *wr);
/* Between the arenas; signalled. */
int post_send(struct end *end, enum ibv_wr_opcode opcode, uint32_t offset, uint32_t length, uint32_t remote, uint64_t wr_id,
	      unsigned flags);
int post_receive(struct end *end, uint32_t offset, uint32_t length, uint64_t wr_id);
int post_list(struct end *end, struct ibv_sge *list, int count, uint64_t wr_id);
uint32_t register_part(struct end *end, struct vb_pd *pd, uint32_t offset, uint32_t length, unsigned access);
int modify(struct end *end, enum ibv_qp_state state);

bool poll_cq(struct vb_cq *cq, struct ibv_wc *wc);
struct ibv_wc expect(struct vb_cq *cq, uint64_t wr_id, enum ibv_wc_status status);
void expect_none(struct streams *streams);
bool was_told(const struct end *end, enum ibv_event_type event);
void fill(struct end *end, uint32_t offset, uint32_t length, uint8_t first);
void verify(const struct end *end, uint32_t offset, uint32_t length, uint8_t first);

#endif
