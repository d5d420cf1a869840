/* SPDX-License-Identifier: MIT
 *
 * regions [COUNT]: what a memory region costs. Registers COUNT of them (default 10,000; 4 KiB each, in memory that is there already), then
 * single ones of sizes from 4 KiB to 1 GiB, whose memory nobody has touched but for that.
 *
 * Prints: COUNT BYTES_PER_REGION CREATE_MICROSECONDS DESTROY_MICROSECONDS, then a line SIZE MICROSECONDS for each size.
 */
#include "connection.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

const char *bench_name = "regions";

enum { ROUNDS = 101 };

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static struct ibv_mr *register_or_die(struct ibv_pd *pd, void *memory, size_t length)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, length, ACCESS);

	if (!mr)
		bench_give_up("ibv_reg_mr");
	return mr;
}

static void measure_many(struct ibv_pd *pd, uint8_t *memory, unsigned count)
{
	struct ibv_mr **mr = calloc(count, sizeof(*mr));
	uint64_t before;
	double began, created, destroyed;

	if (!mr)
		bench_give_up("memory");
	memset(mr, 0, count * sizeof(*mr));
	memset(memory, 1, count * 4096ull);
	before = bench_resident_bytes();
	began = bench_now();
	for (unsigned i = 0; i < count; i++)
		mr[i] = register_or_die(pd, memory + i * 4096ull, 4096);
	created = bench_now();
	printf("%u %.0f ", count, (double)(bench_resident_bytes() - before) / count);
	for (unsigned i = 0; i < count; i++)
		if (ibv_dereg_mr(mr[i]) != 0)
			bench_give_up("ibv_dereg_mr");
	destroyed = bench_now();
	printf("%.3f %.3f\n", (created - began) / count * 1e6, (destroyed - created) / count * 1e6);
	free(mr);
}

static void measure_size(struct ibv_pd *pd, uint8_t *memory, size_t length)
{
	double times[ROUNDS];

	for (unsigned i = 0; i < ROUNDS; i++) {
		double began = bench_now();
		struct ibv_mr *mr = register_or_die(pd, memory, length);

		times[i] = (bench_now() - began) * 1e6;
		ibv_dereg_mr(mr);
	}
	printf("%zu %.3f\n", length, bench_median(times, ROUNDS));
}

int main(int argc, char **argv)
{
	unsigned count = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 10000;
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
	uint8_t *memory = mmap(NULL, 1u << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (!pd || memory == MAP_FAILED || count == 0 || count > (1u << 30) / 4096)
		bench_give_up("no device");
	measure_many(pd, memory, count);
	for (size_t length = 4096; length <= 1u << 30; length *= 8)
		measure_size(pd, memory, length);
	ibv_dealloc_pd(pd);
	ibv_close_device(context);
	ibv_free_device_list(list);
	return 0;
}
