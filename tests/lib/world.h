/* SPDX-License-Identifier: MIT
 *
 * Verbs for tests: an open device, and pairs of queue pairs connected to each other in one process, over the
 * loopback device unless said otherwise. Everything asserts; a test reads as what it tests.
 */
#ifndef TESTS_LIB_WORLD_H
#define TESTS_LIB_WORLD_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

struct world {
	struct ibv_context *context;
	struct ibv_pd *pd;
	union ibv_gid gid;
	int gid_index;
};

/* Opens the device of that interface ("lo"). */
void world_open(struct world *world, const char *interface);
void world_close(struct world *world);

struct pair_options {
	enum ibv_qp_type type;           /* 0: RC */
	uint32_t depth;                  /* of queues and CQs; 0: 64 */
	uint32_t sge;                    /* 0: 4 */
	uint32_t inline_data;
	uint64_t send_ops;               /* not 0: extended queue pairs */
	struct ibv_srq *srq;             /* for the receiver, qp[1] */
	struct ibv_comp_channel *channel;/* of both CQs */
	bool signal_all;
	enum ibv_mtu mtu;                /* 0: 1024 */
	uint8_t timeout, retry, rnr_retry, min_rnr_timer; /* 0: 14, 7, 7, 1 */
	bool no_rnr_retry, no_retry, no_timeout;          /* the value 0 where 0 means "default" above */
	unsigned access;                 /* 0: all remote rights */
	int read_depth;                  /* 0: 16 */
	bool stay_in_reset;
};

enum { PAIR_BUFFER = 256 * 1024, PAIR_QKEY = 0x11111111 };

struct pair {
	struct world *world;
	struct pair_options options;
	struct ibv_cq *cq[2];
	struct ibv_qp *qp[2];
	struct ibv_ah *ah[2];            /* UD: ah[i] leads to qp[i] */
	struct ibv_mr *mr[2];            /* all rights */
	uint8_t *buffer[2];              /* PAIR_BUFFER bytes each */
	uint32_t elsewhere;              /* not 0: the peer is this QPN of another process, which plays the other side */
};

void pair_open(struct pair *pair, struct world *world, const struct pair_options *options);
void pair_close(struct pair *pair);
void pair_connect(struct pair *pair);    /* RESET to RTS, both */
/* The first PSN of that sender. Not the same for all: a number may be given to another queue pair while packets for the one
 * before are under way, and they must not fit. */
uint32_t pair_psn(uint32_t qpn);
void pair_to_init(struct pair *pair, int side);
void pair_to_rtr(struct pair *pair, int side);
void pair_to_rts(struct pair *pair, int side);
void pair_reset(struct pair *pair, int side);

/* Work on side's own buffer at `offset`. */
void pair_receive(struct pair *pair, int side, uint64_t wr_id, size_t offset, uint32_t length);
/* A send request with one element, for side; RDMA ones are aimed at the same offset of the other's buffer. */
struct ibv_send_wr pair_request(struct pair *pair, int side, enum ibv_wr_opcode opcode, struct ibv_sge *sge, size_t offset,
				uint32_t length);
void pair_post(struct pair *pair, int side, struct ibv_send_wr *wr);

/* The next completion, waited for with patience (lib/patience.h). */
struct ibv_wc wait_completion(struct ibv_cq *cq);
/* Fails unless it is a success with that wr_id and opcode. */
struct ibv_wc expect_completion(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_opcode opcode);
struct ibv_wc expect_status(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status);
/* Polls for a short while and asserts that nothing comes. Prefer to look at what comes next: this may look too early. */
void expect_silence(struct ibv_cq *cq);

/* The next asynchronous event, acknowledged. */
struct ibv_async_event expect_event(struct ibv_context *context, enum ibv_event_type type);

enum ibv_qp_state state_of(struct ibv_qp *qp);
void to_error(struct ibv_qp *qp);

void fill_pattern(uint8_t *bytes, size_t length, uint32_t seed);
bool has_pattern(const uint8_t *bytes, size_t length, uint32_t seed);

#endif
