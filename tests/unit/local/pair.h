/* SPDX-License-Identifier: MIT
 *
 * Two processes with a queue pair each, in one test and in virtual time: connected through memory, or for comparison by
 * the wire engine or by a stream of iWARP. Each process has a segment, a region table in it, an arena of bytes that is
 * all its memory as far as the other can reach, and a host of the engine that copies with memcpy and fails when told
 * to.
 */
#ifndef TESTS_UNIT_LOCAL_PAIR_H
#define TESTS_UNIT_LOCAL_PAIR_H

#include <endian.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "iwarp/iwarp.h"
#include "local/bypass.h"
#include "local/engine.h"
#include "local/local.h"
#include "memory/foreign.h"
#include "queue/qp.h"
#include "roce/roce.h"

/* The last: by a stream, and what may go past it through memory. */
enum carrier { BY_MEMORY, BY_WIRE, BY_STREAM, BY_BYPASS };

enum {
	ARENA = 6 << 20,
	PAIR_EVENTS = 64,
	PAIR_MAX_WR = 1024,
	PAIR_QPN_INDEX = 5,              /* of the queue pairs, in both processes */
	PAIR_QP_INDEX = 3,               /* in the segment */
	PAIR_LOG = 1 << 16,
	PAIR_TABLE = 2,                  /* index of the region tables */
	PAIR_SRQS = 3,                   /* XRC: of process 1 */
	PAIR_SRQ_INDEX = 100,            /* of the first one's number */
};

#define PAIR_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | \
		     IBV_ACCESS_MW_BIND)

struct pair;

struct process {
	struct pair *pair;
	struct process *other;
	unsigned index;
	struct vb_segment *segment;
	uint32_t slot;
	struct vb_local_peer peer;       /* the other, as this one sees it */
	uint64_t seed;
	struct vb_memory *memory;
	struct vb_counters counters;
	struct vb_queue_host queue_host;
	struct vb_pd pd, other_pd;
	struct vb_srq srq;
	/* XRC: `srq` and [1] are of domain[0], [2] is of domain[1]; [1] is of other_pd. */
	struct vb_srq *srqs[PAIR_SRQS], others[PAIR_SRQS];
	struct vb_xrc_domain domain[2];
	uint8_t *arena;
	uint32_t key;                    /* of the whole arena, every right */
	uint32_t null_key, demand_key;   /* null region; the arena on demand */
	uint64_t hole_start, hole_end;   /* "not mapped": checked and foreign copies fail */

	struct vb_qp *qp;
	struct vb_local *local;
	struct vb_local_bypass *bypass;  /* past the stream; NULL: none */
	uint8_t *rest;                   /* by stream: came, and waits for a receive */
	size_t rest_length;
	bool shut;                       /* its stream has ended */
	struct vb_cq send_cq, recv_cq;

	enum ibv_event_type event[PAIR_EVENTS];
	unsigned events;
	unsigned writes, reads, wakes, shares; /* calls of the engine's host */
	int copy_result;                 /* of the next copies, if not 0 */
	bool shares_memory;              /* host->shared says yes */
	uint64_t mappings;               /* what it says of mappings that went */
	bool dawdles;                    /* in the middle of copies */
	unsigned pauses;
	vb_time pause;                   /* how long host->pause takes */
};

struct pair {
	enum carrier carrier;
	vb_time now;
	bool with_srq, unreliable, xrc;
	struct process process[2];
	uint64_t connection[2];          /* BY_BYPASS: as each side shows it */
	struct vb_burst *burst;
	struct vb_iwarp_out *out;
	char log[PAIR_LOG];
	size_t logged;
};

struct pair_options {
	bool with_srq, signal_all;
	bool unreliable;                 /* UC */
	bool xrc;                        /* process 0 sends, process 1 receives */
	unsigned cq_capacity;            /* 0: plenty */
	unsigned max_inline;
};

struct connection {
	uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer, max_rd_atomic, max_dest_rd_atomic;
	unsigned access;
	enum ibv_mtu mtu[2];
	uint32_t psn[2];                 /* each side's first sent */
	uint32_t wrong_psn;              /* added to what side 1 expects */
};
extern const struct connection usual;

void pair_open(struct pair *pair, enum carrier carrier, const struct pair_options *options);
void pair_close(struct pair *pair);

void pair_to_init(struct process *p, const struct connection *c);
void pair_to_rtr(struct process *p, const struct connection *c);
void pair_to_rts(struct process *p, const struct connection *c);
int pair_to(struct process *p, enum ibv_qp_state state);
void pair_connect(struct pair *pair, const struct connection *c);

/* One call of serve (or, by wire, of send). True: something was done or there is more. */
bool pair_serve(struct process *p);
/* Both until nothing is left to do; then time goes on to the next deadline, but not beyond `until`. */
void pair_run(struct pair *pair, vb_time until);
/* Both until nothing is left to do now. */
void pair_settle(struct pair *pair);

/* XRC: the number of the SRQ; it leaves its domain. */
uint32_t pair_srqn(const struct process *p, unsigned index);
void pair_drop_srq(struct process *p, unsigned index);

/* XRC: to the first SRQ where it names none. */
int pair_post(struct process *p, struct ibv_send_wr *wr);
int pair_post_receive(struct process *p, struct ibv_sge *list, int count, uint64_t wr_id);
/* One element of the process's arena. */
struct ibv_sge pair_sge(struct process *p, uint32_t offset, uint32_t length);
int pair_receive(struct process *p, uint32_t offset, uint32_t length, uint64_t wr_id);
int pair_send(struct process *p, enum ibv_wr_opcode opcode, uint32_t offset, uint32_t length, uint32_t remote_offset,
	      uint64_t wr_id, unsigned flags);
int pair_atomic(struct process *p, enum ibv_wr_opcode opcode, uint32_t offset, uint32_t remote_offset, uint64_t compare_add,
		uint64_t swap, uint64_t wr_id);

/* Take what completed and what was told into the log, then the log's text. */
const char *pair_collect(struct pair *pair);
bool pair_poll(struct vb_cq *cq, struct ibv_wc *wc);
void pair_expect(struct vb_cq *cq, uint64_t wr_id, enum ibv_wc_status status);
void pair_expect_nothing(struct pair *pair);
uint32_t pair_random(struct process *p);
/* Of every byte of the arena. */
uint64_t pair_digest(const struct process *p);
void pair_fill(struct process *p, uint32_t offset, uint32_t length, uint8_t first);
void pair_verify(struct process *p, uint32_t offset, uint32_t length, uint8_t first);
bool pair_was_told(const struct process *p, enum ibv_event_type event);

#endif
