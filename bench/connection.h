/* SPDX-License-Identifier: MIT
 *
 * What the benchmarks that speak verbs share: a device, a TCP connection to the other side, and queue pairs connected over it.
 * Whatever fails ends the program with a line that says what.
 */
#ifndef BENCH_CONNECTION_H
#define BENCH_CONNECTION_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

extern const char *bench_name;

void bench_give_up(const char *what) __attribute__((noreturn));
double bench_now(void);                    /* seconds */
double bench_cpu_seconds(void);            /* of this process, all threads, user and system */
uint64_t bench_resident_bytes(void);       /* of this process */
double bench_median(double *values, unsigned count); /* sorts them */

struct bench_device {
	struct ibv_context *context;
	struct ibv_pd *pd;
	uint8_t gid_index;
	union ibv_gid gid;
};

void bench_open(struct bench_device *device, const char *name, unsigned gid_index);
void bench_close(struct bench_device *device);

/* Listen and take one, or connect to one that listens. */
int bench_accept(uint16_t port);
int bench_connect(const char *address, uint16_t port);
/* Give the other side `bytes` of mine and get as many of theirs; both have come this far then. */
void bench_swap(int line, const void *mine, void *theirs, size_t bytes);
void bench_meet(int line);

struct bench_queues {
	struct ibv_cq *send_cq, *receive_cq;
	unsigned sends, receives, inline_bytes;
};

struct ibv_qp *bench_create_qp(struct bench_device *device, const struct bench_queues *queues);
/* To RTS, with one of the same process; the other wants the same. */
void bench_connect_with(struct bench_device *device, struct ibv_qp *qp, struct ibv_qp *other);
/* All of them, each with the one of the same place on the other side, to RTS. */
void bench_connect_qps(struct bench_device *device, int line, struct ibv_qp **qp, unsigned count);

/* Wait for one completion, which must be good. */
void bench_poll(struct ibv_cq *cq, struct ibv_wc *wc);

#endif
