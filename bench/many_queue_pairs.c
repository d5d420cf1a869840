/* SPDX-License-Identifier: MIT
 *
 * many_queue_pairs serve DEVICE GID_INDEX
 * many_queue_pairs ADDRESS DEVICE GID_INDEX OPERATION BYTES QPS THREADS SECONDS [wait]
 *
 * What a message costs when there are many queue pairs, many threads, or nothing to do. OPERATION is `write`, `read`, `send` or
 * `idle`. Each of THREADS threads has QPS queue pairs and a completion queue of its own, and goes round its queue pairs with 128 work
 * requests outstanding in all. `wait`: threads sleep until there is a completion instead of polling for it.
 *
 * Prints: SECONDS MESSAGES CLIENT_CPU SERVER_CPU BYTES_PER_CONNECTION SERVER_SWITCHES
 * CPU in seconds, of the whole process, from the first message to the last; bytes: growth of the client's resident set from before its
 * queue pairs were made until each was used, divided by their number; switches: how often the server's threads went to sleep.
 */
#include "connection.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

const char *bench_name = "many_queue_pairs";

enum { PORT = 18521, OUTSTANDING = 128, RECEIVES = 256, BATCH = 32, MOST_THREADS = 64 };

struct plan {
	char operation[8];
	uint32_t bytes, qps, threads, wait;
	double seconds;
};

struct report {
	double cpu;
	uint64_t switches;
};

struct name {
	uint64_t address;
	uint32_t key, reserved;
};

struct worker {
	pthread_t thread;
	struct ibv_qp **qp;
	unsigned *outstanding;             /* of each */
	struct ibv_cq *cq;
	struct ibv_comp_channel *channel;
	uint64_t messages;
};

static struct bench_device device;
static struct plan plan;
static struct ibv_mr *mr;
static uint8_t *buffer;
static struct name theirs;
static struct worker worker[MOST_THREADS];
static struct ibv_qp **all;
static double deadline;
static bool over;                          /* atomic */

static uint64_t switches(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (uint64_t)usage.ru_nvcsw;
}

static unsigned at_least_one(unsigned value)
{
	return value ? value : 1;
}

static unsigned depth(void)
{
	return at_least_one(OUTSTANDING / plan.qps) + 1;
}

/* Receives for all: as many as can be on their way, and as many again. */
static unsigned receives(void)
{
	return strcmp(plan.operation, "send") == 0 ? at_least_one(RECEIVES / plan.qps) + 1 : 1;
}

static void *create_worker(void *argument)
{
	struct worker *self = argument;
	struct bench_queues queues = {.sends = depth(), .receives = receives()};
	unsigned room = plan.qps * (queues.receives > queues.sends ? queues.receives : queues.sends);

	self->outstanding = calloc(plan.qps, sizeof(*self->outstanding));
	self->channel = plan.wait ? ibv_create_comp_channel(device.context) : NULL;
	self->cq = ibv_create_cq(device.context, (int)(room < 512 ? 512 : room), NULL, self->channel, 0);
	if (!self->cq || !self->outstanding)
		bench_give_up("ibv_create_cq");
	queues.send_cq = queues.receive_cq = self->cq;
	for (unsigned i = 0; i < plan.qps; i++)
		self->qp[i] = bench_create_qp(&device, &queues);
	return NULL;
}

static void create_all(int line)
{
	unsigned count = plan.qps * plan.threads;
	struct name mine;

	all = calloc(count, sizeof(*all));
	/* Each by a thread of its own: queue pairs that several threads make may have lanes of their own (docs/architecture.md). */
	for (unsigned i = 0; all && i < plan.threads; i++) {
		worker[i].qp = all + i * plan.qps;
		if (pthread_create(&worker[i].thread, NULL, create_worker, &worker[i]) != 0)
			bench_give_up("pthread_create");
		pthread_join(worker[i].thread, NULL);
	}
	bench_connect_qps(&device, line, all, count);
	mine = (struct name){.address = (uintptr_t)buffer, .key = mr->rkey};
	bench_swap(line, &mine, &theirs, sizeof(mine));
}

static void create_buffer(void)
{
	void *memory;

	if (posix_memalign(&memory, 4096, plan.bytes + 4096) != 0)
		bench_give_up("memory");
	buffer = memset(memory, 1, plan.bytes + 4096);
	mr = ibv_reg_mr(device.pd, buffer, plan.bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	if (!mr)
		bench_give_up("ibv_reg_mr");
}

/* ---- either side ---- */

static void post_send(struct worker *self, unsigned i)
{
	enum ibv_wr_opcode opcode = strcmp(plan.operation, "send") == 0 ? IBV_WR_SEND :
				    strcmp(plan.operation, "read") == 0 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
	struct ibv_sge sge = {.addr = (uintptr_t)buffer, .length = plan.bytes, .lkey = mr->lkey};
	struct ibv_send_wr wr = {
		.wr_id = i, .opcode = opcode, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {.remote_addr = theirs.address, .rkey = theirs.key},
	}, *bad;

	errno = ibv_post_send(self->qp[i], &wr, &bad);
	if (errno)
		bench_give_up("ibv_post_send");
}

static void post_receive(struct worker *self, unsigned i)
{
	struct ibv_sge sge = {.addr = (uintptr_t)buffer, .length = plan.bytes, .lkey = mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;

	errno = ibv_post_recv(self->qp[i], &wr, &bad);
	if (errno)
		bench_give_up("ibv_post_recv");
}

/* Until there is something, or a tenth of a second has passed. */
static void sleep_for_event(struct worker *self)
{
	struct pollfd readable = {.fd = self->channel->fd, .events = POLLIN};
	struct ibv_cq *cq;
	void *context;

	if (poll(&readable, 1, 100) == 1 && ibv_get_cq_event(self->channel, &cq, &context) == 0)
		ibv_ack_cq_events(cq, 1);
}

/* Completions, or 0: none for now. */
static unsigned complete(struct worker *self, struct ibv_wc *wc)
{
	int count = ibv_poll_cq(self->cq, BATCH, wc);

	if (count == 0 && self->channel) {
		errno = ibv_req_notify_cq(self->cq, 0);
		if (errno)
			bench_give_up("ibv_req_notify_cq");
		count = ibv_poll_cq(self->cq, BATCH, wc);
		if (count == 0)
			sleep_for_event(self);
	}
	if (count < 0)
		bench_give_up("ibv_poll_cq");
	for (int i = 0; i < count; i++)
		if (wc[i].status != IBV_WC_SUCCESS) {
			fprintf(stderr, "many_queue_pairs: %s\n", ibv_wc_status_str(wc[i].status));
			exit(1);
		}
	return (unsigned)count;
}

/* ---- the client ---- */

static void *send_messages(void *argument)
{
	struct worker *self = argument;
	unsigned next = 0, outstanding = 0;
	double last = deadline + 30;
	struct ibv_wc wc[BATCH];
	bool stop = false;

	while (!stop || outstanding) {
		while (!stop && outstanding < OUTSTANDING && self->outstanding[next] < depth()) {
			post_send(self, next);
			self->outstanding[next]++;
			outstanding++;
			next = next + 1 < plan.qps ? next + 1 : 0;
		}
		for (unsigned count = complete(self, wc), i = 0; i < count; i++) {
			self->outstanding[wc[i].wr_id]--;
			outstanding--;
			self->messages++;
		}
		stop = bench_now() > deadline;
		if (bench_now() > last) {
			errno = ETIMEDOUT;
			bench_give_up("no completion");
		}
	}
	return NULL;
}

static double run_client(double seconds)
{
	double began = bench_now();

	deadline = began + seconds;
	for (unsigned i = 0; i < plan.threads; i++)
		worker[i].messages = 0;
	for (unsigned i = 0; i < plan.threads; i++)
		if (pthread_create(&worker[i].thread, NULL, send_messages, &worker[i]) != 0)
			bench_give_up("pthread_create");
	for (unsigned i = 0; i < plan.threads; i++)
		pthread_join(worker[i].thread, NULL);
	return bench_now() - began;
}

static void be_client(int line, uint64_t resident_before)
{
	unsigned count = plan.qps * plan.threads;
	struct report mine = {0}, other;
	uint64_t messages = 0, resident;
	double seconds, cpu;

	bench_meet(line);                  /* receives are there */
	if (strcmp(plan.operation, "idle") != 0)
		/* Each queue pair is used at least once. */
		run_client(0.05 + 20e-6 * count);
	resident = bench_resident_bytes();
	bench_meet(line);
	cpu = bench_cpu_seconds();
	if (strcmp(plan.operation, "idle") == 0) {
		seconds = plan.seconds;
		usleep((useconds_t)(plan.seconds * 1e6));
	} else {
		seconds = run_client(plan.seconds);
	}
	cpu = bench_cpu_seconds() - cpu;
	for (unsigned i = 0; i < plan.threads; i++)
		messages += worker[i].messages;
	bench_meet(line);                  /* it is over */
	bench_swap(line, &mine, &other, sizeof(mine));
	printf("%.6f %llu %.6f %.6f %.0f %llu\n", seconds, (unsigned long long)messages, cpu, other.cpu,
	       (double)(resident - resident_before) / count, (unsigned long long)other.switches);
}

/* ---- the server ---- */

static void *receive_messages(void *argument)
{
	struct worker *self = argument;
	struct ibv_wc wc[BATCH];

	while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE))
		for (unsigned count = complete(self, wc), i = 0; i < count; i++)
			post_receive(self, (unsigned)wc[i].wr_id);
	return NULL;
}

static void be_server(int line)
{
	bool sends = strcmp(plan.operation, "send") == 0;
	struct report mine = {0}, other;

	for (unsigned i = 0; sends && i < plan.threads; i++)
		for (unsigned j = 0; j < plan.qps; j++)
			for (unsigned k = 0; k < receives(); k++)
				post_receive(&worker[i], j);
	for (unsigned i = 0; sends && i < plan.threads; i++)
		if (pthread_create(&worker[i].thread, NULL, receive_messages, &worker[i]) != 0)
			bench_give_up("pthread_create");
	bench_meet(line);
	bench_meet(line);
	mine = (struct report){.cpu = bench_cpu_seconds(), .switches = switches()};
	bench_meet(line);                  /* sleeps here while the client works */
	mine = (struct report){.cpu = bench_cpu_seconds() - mine.cpu, .switches = switches() - mine.switches};
	__atomic_store_n(&over, true, __ATOMIC_RELEASE);
	for (unsigned i = 0; sends && i < plan.threads; i++)
		pthread_join(worker[i].thread, NULL);
	bench_swap(line, &mine, &other, sizeof(mine));
}

static void read_plan(char **argv, bool wait)
{
	snprintf(plan.operation, sizeof(plan.operation), "%s", argv[4]);
	plan.bytes = (uint32_t)strtoul(argv[5], NULL, 0);
	plan.qps = (uint32_t)strtoul(argv[6], NULL, 0);
	plan.threads = (uint32_t)strtoul(argv[7], NULL, 0);
	plan.seconds = strtod(argv[8], NULL);
	plan.wait = wait;
	errno = EINVAL;
	if (plan.bytes == 0 || plan.qps == 0 || plan.threads == 0 || plan.threads > MOST_THREADS || plan.seconds <= 0)
		bench_give_up("arguments");
}

int main(int argc, char **argv)
{
	bool serves = argc == 4 && strcmp(argv[1], "serve") == 0;
	struct plan nothing = {0};
	uint64_t resident;
	int line;

	if (!serves && argc != 9 && argc != 10) {
		fprintf(stderr, "usage: many_queue_pairs serve DEVICE GID_INDEX\n"
				"       many_queue_pairs ADDRESS DEVICE GID_INDEX OPERATION BYTES QPS THREADS SECONDS [wait]\n");
		return 2;
	}
	if (!serves)
		read_plan(argv, argc == 10);
	line = serves ? bench_accept(PORT) : bench_connect(argv[1], PORT);
	bench_swap(line, serves ? &nothing : &plan, serves ? &plan : &nothing, sizeof(plan));
	bench_open(&device, argv[2], (unsigned)strtoul(argv[3], NULL, 0));
	create_buffer();
	resident = bench_resident_bytes();
	create_all(line);
	if (serves)
		be_server(line);
	else
		be_client(line, resident);
	bench_meet(line);
	for (unsigned i = 0; i < plan.qps * plan.threads; i++)
		ibv_destroy_qp(all[i]);
	for (unsigned i = 0; i < plan.threads; i++) {
		ibv_destroy_cq(worker[i].cq);
		if (worker[i].channel)
			ibv_destroy_comp_channel(worker[i].channel);
		free(worker[i].outstanding);
	}
	free(all);
	ibv_dereg_mr(mr);
	free(buffer);
	bench_close(&device);
	return 0;
}
