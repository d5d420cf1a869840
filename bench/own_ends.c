/* SPDX-License-Identifier: MIT
 *
 * own_ends DEVICE GID_INDEX OPERATION BYTES THREADS SECONDS
 *
 * What threads cost each other: each has a processor of its own, makes both ends of a connection and a completion queue, and sends
 * to itself with 128 work requests outstanding. OPERATION is `send` or `write`. What one thread does, two should do twice.
 *
 * Prints: SECONDS MESSAGES
 */
#include "connection.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *bench_name = "own_ends";

enum { OUTSTANDING = 128, RECEIVES = 256, BATCH = 32, MOST_THREADS = 256, MOST_BYTES = 1 << 20 };

struct worker {
	pthread_t thread;
	struct ibv_cq *cq;
	struct ibv_qp *sender, *receiver;
	struct ibv_mr *mr;
	uint8_t *buffer;
	int cpu;
	uint64_t messages;
};

static struct bench_device device;
static struct worker worker[MOST_THREADS];
static enum ibv_wr_opcode opcode;
static uint32_t bytes;
static double deadline;
static pthread_barrier_t ready;

static void create(struct worker *self)
{
	struct bench_queues queues = {.sends = OUTSTANDING, .receives = RECEIVES};
	void *memory;

	if (posix_memalign(&memory, 4096, MOST_BYTES) != 0)
		bench_give_up("memory");
	self->buffer = memset(memory, 1, MOST_BYTES);
	self->mr = ibv_reg_mr(device.pd, self->buffer, MOST_BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	self->cq = ibv_create_cq(device.context, OUTSTANDING + RECEIVES, NULL, NULL, 0);
	if (!self->mr || !self->cq)
		bench_give_up("ibv_create_cq");
	queues.send_cq = queues.receive_cq = self->cq;
	self->sender = bench_create_qp(&device, &queues);
	self->receiver = bench_create_qp(&device, &queues);
	bench_connect_with(&device, self->sender, self->receiver);
	bench_connect_with(&device, self->receiver, self->sender);
}

static void destroy(struct worker *self)
{
	ibv_destroy_qp(self->sender);
	ibv_destroy_qp(self->receiver);
	ibv_destroy_cq(self->cq);
	ibv_dereg_mr(self->mr);
	free(self->buffer);
}

static void post_receive(struct worker *self)
{
	struct ibv_sge sge = {.addr = (uintptr_t)self->buffer, .length = bytes, .lkey = self->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	errno = ibv_post_recv(self->receiver, &wr, &bad);
	if (errno)
		bench_give_up("ibv_post_recv");
}

static void post_send(struct worker *self)
{
	struct ibv_sge sge = {.addr = (uintptr_t)self->buffer, .length = bytes, .lkey = self->mr->lkey};
	struct ibv_send_wr wr = {
		.opcode = opcode, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {.remote_addr = (uintptr_t)self->buffer, .rkey = self->mr->rkey},
	}, *bad;

	errno = ibv_post_send(self->sender, &wr, &bad);
	if (errno)
		bench_give_up("ibv_post_send");
}

/* Sends that are done. */
static unsigned complete(struct worker *self)
{
	struct ibv_wc wc[BATCH];
	int count = ibv_poll_cq(self->cq, BATCH, wc);
	unsigned sent = 0;

	if (count < 0)
		bench_give_up("ibv_poll_cq");
	for (int i = 0; i < count; i++) {
		if (wc[i].status != IBV_WC_SUCCESS) {
			fprintf(stderr, "own_ends: %s\n", ibv_wc_status_str(wc[i].status));
			exit(1);
		}
		if (wc[i].opcode & IBV_WC_RECV)
			post_receive(self);
		else
			sent++;
	}
	return sent;
}

static void *send_to_self(void *argument)
{
	struct worker *self = argument;
	unsigned outstanding = 0;
	double last;
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(self->cpu, &cpus);
	if (pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus) != 0)
		bench_give_up("pthread_setaffinity_np");
	create(self);
	for (unsigned i = 0; opcode == IBV_WR_SEND && i < RECEIVES; i++)
		post_receive(self);
	pthread_barrier_wait(&ready);
	pthread_barrier_wait(&ready);
	last = deadline + 30;
	for (bool stop = false; !stop || outstanding;) {
		unsigned done;

		for (; !stop && outstanding < OUTSTANDING; outstanding++)
			post_send(self);
		done = complete(self);
		outstanding -= done;
		self->messages += done;
		stop = bench_now() > deadline;
		if (bench_now() > last) {
			errno = ETIMEDOUT;
			bench_give_up("no completion");
		}
	}
	return NULL;
}

/* The nth that we may run on, over again where there are fewer. */
static int nth_cpu(const cpu_set_t *cpus, unsigned n)
{
	int cpu = -1;

	n %= (unsigned)CPU_COUNT(cpus);
	do
		cpu++;
	while (!CPU_ISSET(cpu, cpus) || n-- > 0);
	return cpu;
}

int main(int argc, char **argv)
{
	unsigned threads = argc == 7 ? (unsigned)strtoul(argv[5], NULL, 0) : 0;
	uint64_t messages = 0;
	double began;
	cpu_set_t cpus;

	bytes = argc == 7 ? (uint32_t)strtoul(argv[4], NULL, 0) : 0;
	if (threads == 0 || threads > MOST_THREADS || bytes == 0 || bytes > MOST_BYTES) {
		fprintf(stderr, "usage: own_ends DEVICE GID_INDEX OPERATION BYTES THREADS SECONDS\n");
		return 2;
	}
	opcode = strcmp(argv[3], "write") == 0 ? IBV_WR_RDMA_WRITE : IBV_WR_SEND;
	bench_open(&device, argv[1], (unsigned)strtoul(argv[2], NULL, 0));
	if (sched_getaffinity(0, sizeof(cpus), &cpus) != 0)
		bench_give_up("sched_getaffinity");
	for (unsigned i = 0; i < threads; i++)
		worker[i].cpu = nth_cpu(&cpus, i);
	pthread_barrier_init(&ready, NULL, threads + 1);
	for (unsigned i = 0; i < threads; i++)
		if (pthread_create(&worker[i].thread, NULL, send_to_self, &worker[i]) != 0)
			bench_give_up("pthread_create");
	pthread_barrier_wait(&ready);
	began = bench_now();
	deadline = began + strtod(argv[6], NULL);
	pthread_barrier_wait(&ready);
	for (unsigned i = 0; i < threads; i++)
		pthread_join(worker[i].thread, NULL);
	printf("%.6f ", bench_now() - began);
	for (unsigned i = 0; i < threads; i++) {
		messages += worker[i].messages;
		destroy(&worker[i]);
	}
	printf("%llu\n", (unsigned long long)messages);
	bench_close(&device);
	return 0;
}
