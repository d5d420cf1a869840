/* SPDX-License-Identifier: MIT
 *
 * shared_region serve DEVICE GID_INDEX MEMORY
 * shared_region ADDRESS DEVICE GID_INDEX MEMORY TEST BYTES COUNT
 *
 * RDMA WRITE and READ against a region that lies in MEMORY: `memfd` (sealed), `dm` (ibv_alloc_dm) or `private`. perftest can allocate
 * only the last.
 *
 * TEST: talk      a SEND each way in turn, inline, each with its completion; half a round trip in ns, median. The region is not used.
 *                 (perftest takes an adapter that it does not know for one without inline data.)
 *       latency   both sides write into each other's region and wait for the bytes there; prints half a round trip in ns, median
 *       write, read   a stream of them, 128 outstanding, as ib_write_bw does; prints GB/s (10^9 bytes) and messages a second
 *       write-beside, read-beside   the same of `private` memory, and in turn with that process_vm_writev or process_vm_readv between the
 *                 very same bytes; prints GB/s of either. What such a copy takes depends on the pages that both sides were given: one
 *                 process cannot be set beside another.
 *       idle      like write, but prints which part of the time the other side's process used the processor instead
 */
#include "connection.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

const char *bench_name = "shared_region";

enum { PORT = 18520, DEPTH = 128, SIGNALED = 64, BATCH = 100, LARGEST = 4 << 20, INLINE = 64, RECEIVES = 16, TURNS = 20 };

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

struct plan {
	char test[16];
	uint64_t bytes, count;
};

struct name {
	uint64_t address;
	uint32_t key;
	pid_t process;
};

static struct bench_device device;
static struct ibv_dm *dm;
static struct ibv_mr *region;              /* written to by the other side */
static volatile uint64_t *region_bytes;    /* NULL: device memory */
static struct ibv_mr *source;
static uint8_t *source_bytes;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct name theirs;

static uint8_t *map_memory(int fd)
{
	void *memory = mmap(NULL, LARGEST, PROT_READ | PROT_WRITE, fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0);

	if (memory == MAP_FAILED)
		bench_give_up("mmap");
	return memset(memory, 0, LARGEST);
}

static int create_memfd(void)
{
	int fd = memfd_create("shared_region", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, LARGEST) != 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
		bench_give_up("memfd");
	return fd;
}

static void create_region(const char *memory)
{
	struct ibv_alloc_dm_attr attr = {.length = LARGEST};

	if (strcmp(memory, "dm") == 0) {
		dm = ibv_alloc_dm(device.context, &attr);
		region = dm ? ibv_reg_dm_mr(device.pd, dm, 0, LARGEST, ACCESS | IBV_ACCESS_ZERO_BASED) : NULL;
	} else {
		region_bytes = (void *)map_memory(strcmp(memory, "memfd") == 0 ? create_memfd() : -1);
		region = ibv_reg_mr(device.pd, (void *)region_bytes, LARGEST, ACCESS);
	}
	source_bytes = map_memory(-1);
	source = ibv_reg_mr(device.pd, source_bytes, LARGEST, IBV_ACCESS_LOCAL_WRITE);
	if (!region || !source)
		bench_give_up(memory);
}

static void open_all(int line, const char *name, const char *gid_index, const char *memory)
{
	struct bench_queues queues = {.sends = DEPTH, .receives = RECEIVES, .inline_bytes = INLINE};
	struct name mine;

	bench_open(&device, name, (unsigned)strtoul(gid_index, NULL, 0));
	create_region(memory);
	cq = queues.send_cq = queues.receive_cq = ibv_create_cq(device.context, DEPTH, NULL, NULL, 0);
	if (!cq)
		bench_give_up("ibv_create_cq");
	qp = bench_create_qp(&device, &queues);
	bench_connect_qps(&device, line, &qp, 1);
	mine = (struct name){.address = (uintptr_t)region_bytes, .key = region->rkey, .process = getpid()};
	bench_swap(line, &mine, &theirs, sizeof(mine));
}

static void post(enum ibv_wr_opcode opcode, uint64_t bytes, bool signaled)
{
	struct ibv_sge sge = {.addr = (uintptr_t)source_bytes, .length = (uint32_t)bytes, .lkey = source->lkey};
	struct ibv_send_wr wr = {
		.opcode = opcode,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = (signaled ? IBV_SEND_SIGNALED : 0) |
			      (opcode == IBV_WR_RDMA_WRITE && bytes <= INLINE ? IBV_SEND_INLINE : 0),
		.wr.rdma = {.remote_addr = theirs.address, .rkey = theirs.key},
	}, *bad;

	errno = ibv_post_send(qp, &wr, &bad);
	if (errno)
		bench_give_up("ibv_post_send");
}

static uint64_t region_word(void)
{
	uint64_t value;

	if (region_bytes)
		return *region_bytes;
	if (ibv_memcpy_from_dm(&value, dm, 0, sizeof(value)) != 0)
		bench_give_up("ibv_memcpy_from_dm");
	return value;
}

static void wait_for(uint64_t value)
{
	double limit = bench_now() + 30;

	for (unsigned tries = 1; region_word() != value; tries++)
		if (tries % (1 << 20) == 0 && bench_now() > limit) {
			errno = ETIMEDOUT;
			bench_give_up("nothing was written");
		}
}

static void write_word(uint64_t value)
{
	struct ibv_wc wc;

	memcpy(source_bytes, &value, sizeof(value));
	post(IBV_WR_RDMA_WRITE, sizeof(value), true);
	bench_poll(cq, &wc);
}

static double measure_latency(uint64_t count)
{
	unsigned batches = (unsigned)(count / BATCH) + 1;
	double *times = calloc(batches, sizeof(*times)), median;
	uint64_t value = 1;

	for (unsigned i = 0; i < batches; i++) {
		double began = bench_now();

		for (unsigned j = 0; j < BATCH; j++, value += 2) {
			write_word(value);
			wait_for(value + 1);
		}
		times[i] = (bench_now() - began) / BATCH / 2 * 1e9;
	}
	median = bench_median(times, batches);
	free(times);
	return median;
}

static void answer(uint64_t count)
{
	unsigned batches = (unsigned)(count / BATCH) + 1;

	for (uint64_t value = 1; value < 2ull * batches * BATCH; value += 2) {
		wait_for(value);
		write_word(value + 1);
	}
}

/* ---- talking ---- */

static void post_receive(void)
{
	struct ibv_sge sge = {.addr = (uintptr_t)source_bytes + 4096, .length = 4096, .lkey = source->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	errno = ibv_post_recv(qp, &wr, &bad);
	if (errno)
		bench_give_up("ibv_post_recv");
}

static void listen_for(unsigned messages)
{
	for (unsigned i = 0; i < messages; i++)
		post_receive();
}

static void say(uint64_t bytes)
{
	struct ibv_sge sge = {.addr = (uintptr_t)source_bytes, .length = (uint32_t)bytes};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1,
				 .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE}, *bad;

	errno = ibv_post_send(qp, &wr, &bad);
	if (errno)
		bench_give_up("ibv_post_send");
}

/* Until what was said has arrived, and something was heard. */
static void hear(void)
{
	struct ibv_wc wc;

	bench_poll(cq, &wc);
	bench_poll(cq, &wc);
	post_receive();
}

static double measure_talk(uint64_t bytes, uint64_t count)
{
	unsigned batches = (unsigned)(count / BATCH) + 1;
	double *times = calloc(batches, sizeof(*times)), median;

	for (unsigned i = 0; i < batches; i++) {
		double began = bench_now();

		for (unsigned j = 0; j < BATCH; j++) {
			say(bytes);
			hear();
		}
		times[i] = (bench_now() - began) / BATCH / 2 * 1e9;
	}
	median = bench_median(times, batches);
	free(times);
	return median;
}

static void talk_back(uint64_t bytes, uint64_t count)
{
	uint64_t turns = (count / BATCH + 1) * BATCH;
	struct ibv_wc wc;

	bench_poll(cq, &wc);
	for (uint64_t i = 0; i + 1 < turns; i++) {
		post_receive();
		say(bytes);
		bench_poll(cq, &wc);
		bench_poll(cq, &wc);
	}
	say(bytes);
	bench_poll(cq, &wc);
}

/* Seconds. */
static double stream(enum ibv_wr_opcode opcode, uint64_t bytes, uint64_t count)
{
	uint64_t posted = 0, done = 0;
	double began = bench_now();
	struct ibv_wc wc;

	while (done < count) {
		while (posted < count && posted - done < DEPTH) {
			bool signaled = ++posted % SIGNALED == 0 || posted == count;

			post(opcode, bytes, signaled);
		}
		bench_poll(cq, &wc);
		done += done + SIGNALED <= count ? SIGNALED : count - done;
	}
	return bench_now() - began;
}

/* The same without verbs. */
static double stream_bare(enum ibv_wr_opcode opcode, uint64_t bytes, uint64_t count)
{
	struct iovec here = {source_bytes, bytes}, there = {(void *)(uintptr_t)theirs.address, bytes};
	double began = bench_now();

	for (uint64_t i = 0; i < count; i++) {
		ssize_t done = opcode == IBV_WR_RDMA_READ ? process_vm_readv(theirs.process, &here, 1, &there, 1, 0) :
							    process_vm_writev(theirs.process, &here, 1, &there, 1, 0);

		if (done != (ssize_t)bytes)
			bench_give_up("process_vm_readv, process_vm_writev");
	}
	return bench_now() - began;
}

static void measure_beside(enum ibv_wr_opcode opcode, uint64_t bytes, uint64_t count)
{
	double ours = 0, bare = 0;
	uint64_t each = count / TURNS + 1;

	stream_bare(opcode, bytes, DEPTH);
	for (unsigned i = 0; i < TURNS; i++) {
		if (i % 2 == 0)
			bare += stream_bare(opcode, bytes, each);
		ours += stream(opcode, bytes, each);
		if (i % 2 != 0)
			bare += stream_bare(opcode, bytes, each);
	}
	printf("%.3f %.3f\n", (double)(TURNS * each * bytes) / ours / 1e9, (double)(TURNS * each * bytes) / bare / 1e9);
}

static bool begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

static void client(const struct plan *plan, int line)
{
	enum ibv_wr_opcode opcode = begins(plan->test, "read") ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
	double seconds, used;

	if (strcmp(plan->test, "latency") == 0) {
		printf("%.1f\n", measure_latency(plan->count));
		return;
	}
	if (strcmp(plan->test, "talk") == 0) {
		listen_for(RECEIVES / 2);
		bench_meet(line);
		printf("%.1f\n", measure_talk(plan->bytes, plan->count));
		return;
	}
	stream(opcode, plan->bytes, 2 * DEPTH);
	bench_meet(line);
	if (strstr(plan->test, "-beside")) {
		measure_beside(opcode, plan->bytes, plan->count);
		bench_meet(line);
		return;
	}
	seconds = stream(opcode, plan->bytes, plan->count);
	bench_meet(line);
	bench_swap(line, &seconds, &used, sizeof(used));
	if (strcmp(plan->test, "idle") == 0)
		printf("%.4f\n", used / seconds);
	else
		printf("%.3f %.0f\n", (double)(plan->bytes * plan->count) / seconds / 1e9, (double)plan->count / seconds);
}

static void server(const struct plan *plan, int line)
{
	double used, other;

	if (strcmp(plan->test, "latency") == 0) {
		answer(plan->count);
		return;
	}
	if (strcmp(plan->test, "talk") == 0) {
		listen_for(RECEIVES / 2);
		bench_meet(line);
		talk_back(plan->bytes, plan->count);
		return;
	}
	bench_meet(line);
	used = bench_cpu_seconds();
	/* Sleeps here until the client is done. */
	bench_meet(line);
	if (strstr(plan->test, "-beside"))
		return;
	used = bench_cpu_seconds() - used;
	bench_swap(line, &used, &other, sizeof(other));
}

static bool is_test(const char *name)
{
	static const char *const names[] = {"talk", "latency", "write", "read", "write-beside", "read-beside", "idle"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

int main(int argc, char **argv)
{
	bool serves = argc == 5 && strcmp(argv[1], "serve") == 0;
	struct plan plan = {0}, nothing = {0};
	int line;

	if (!serves && argc != 8) {
		fprintf(stderr, "usage: shared_region serve DEVICE GID_INDEX MEMORY\n"
				"       shared_region ADDRESS DEVICE GID_INDEX MEMORY TEST BYTES COUNT\n");
		return 2;
	}
	if (!serves) {
		if (!is_test(argv[5])) {
			errno = EINVAL;
			bench_give_up(argv[5]);
		}
		snprintf(plan.test, sizeof(plan.test), "%s", argv[5]);
		plan.bytes = strtoull(argv[6], NULL, 0);
		plan.count = strtoull(argv[7], NULL, 0);
		if (plan.bytes == 0 || plan.bytes > (strcmp(plan.test, "talk") == 0 ? INLINE : LARGEST) || plan.count == 0) {
			errno = EINVAL;
			bench_give_up(argv[6]);
		}
	}
	line = serves ? bench_accept(PORT) : bench_connect(argv[1], PORT);
	open_all(line, argv[2], argv[3], argv[4]);
	bench_swap(line, serves ? &nothing : &plan, serves ? &plan : &nothing, sizeof(plan));
	if (serves)
		server(&plan, line);
	else
		client(&plan, line);
	bench_meet(line);
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
	ibv_dereg_mr(source);
	ibv_dereg_mr(region);
	if (dm)
		ibv_free_dm(dm);
	bench_close(&device);
	return 0;
}
