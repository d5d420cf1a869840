/* SPDX-License-Identifier: MIT
 *
 * Device memory: allocating, copying, registering.
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/one_world.h"
#include "lib/private_network.h"

enum { ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
	     IBV_ACCESS_ZERO_BASED };

static struct ibv_dm *allocate(size_t length)
{
	struct ibv_alloc_dm_attr attr = {.length = length};

	return ibv_alloc_dm(world.context, &attr);
}

static void copies_stay_inside(void **state)
{
	struct ibv_dm *dm = allocate(1000);
	char bytes[8] = "verbena", back[8] = "";

	(void)state;
	assert_non_null(dm);
	assert_int_equal(ibv_memcpy_to_dm(dm, 992, bytes, 8), 0);
	assert_int_equal(ibv_memcpy_from_dm(back, dm, 992, 8), 0);
	assert_string_equal(back, "verbena");
	assert_int_equal(ibv_memcpy_to_dm(dm, 993, bytes, 8), EFAULT);
	assert_int_equal(ibv_memcpy_from_dm(back, dm, UINT64_MAX - 3, 8), EFAULT);
	assert_int_equal(ibv_memcpy_from_dm(back, dm, 1000, 0), 0);
	/* Words only. */
	assert_int_equal(ibv_memcpy_to_dm(dm, 990, bytes, 8), EINVAL);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_memcpy_to_dm(dm, 992, bytes, 7), EINVAL);
	assert_int_equal(ibv_memcpy_from_dm(back, dm, 990, 8), EINVAL);
	assert_int_equal(ibv_memcpy_from_dm(back, dm, 992, 2), EINVAL);
	assert_int_equal(ibv_memcpy_from_dm(back, dm, 992, 8), 0);
	assert_string_equal(back, "verbena");
	assert_int_equal(ibv_free_dm(dm), 0);
}

static void allocation_has_limits(void **state)
{
	struct ibv_device_attr_ex device;
	struct ibv_alloc_dm_attr attr = {.length = 64, .comp_mask = 1};
	struct ibv_dm *all;

	(void)state;
	assert_int_equal(ibv_query_device_ex(world.context, NULL, &device), 0);
	assert_null(ibv_alloc_dm(world.context, &attr));
	assert_int_equal(errno, EINVAL);
	attr = (struct ibv_alloc_dm_attr){.length = 64, .log_align_req = 40};
	assert_null(ibv_alloc_dm(world.context, &attr));
	assert_null(allocate(0));
	assert_int_equal(errno, EINVAL);
	assert_null(allocate(device.max_dm_size + 1));
	assert_int_equal(errno, ENOMEM);
	assert_non_null(all = allocate(device.max_dm_size));
	assert_null(allocate(1));
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(ibv_free_dm(all), 0);
	assert_non_null(all = allocate(device.max_dm_size));
	assert_int_equal(ibv_free_dm(all), 0);
}

/* ibv_alloc_dm(3) and the kernel ask of a region only that it is inside: one of no bytes is. */
static void a_region_may_be_empty(void **state)
{
	struct ibv_dm *dm = allocate(64);
	struct ibv_mr *mr = ibv_reg_dm_mr(world.pd, dm, 64, 0, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	assert_non_null(mr);
	assert_null(ibv_reg_dm_mr(world.pd, dm, 65, 0, IBV_ACCESS_ZERO_BASED));
	assert_int_equal(errno, EINVAL);
	pair_open(&pair, &world, NULL);
	for (uint32_t length = 0; length <= 1; length++) {
		wr = pair_request(&pair, 0, IBV_WR_RDMA_WRITE, &sge, 0, length);
		wr.wr.rdma.remote_addr = 0;
		wr.wr.rdma.rkey = mr->rkey;
		pair_post(&pair, 0, &wr);
		expect_status(pair.cq[0], wr.wr_id, length == 0 ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
	}
	pair_close(&pair);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_free_dm(dm), 0);
}

static void registered_it_is_written_read_and_counted_in(void **state)
{
	struct pair pair;
	struct ibv_dm *dm = allocate(4096);
	struct ibv_mr *mr;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	uint8_t bytes[200];
	uint64_t number = 40;

	(void)state;
	pair_open(&pair, &world, NULL);
	mr = ibv_reg_dm_mr(world.pd, dm, 1024, 1024, ALL);
	assert_non_null(mr);
	assert_int_equal(ibv_free_dm(dm), EBUSY);
	fill_pattern(pair.buffer[0], 200, 3);
	wr = pair_request(&pair, 0, IBV_WR_RDMA_WRITE, &sge, 0, 200);
	wr.wr.rdma.rkey = mr->rkey;
	wr.wr.rdma.remote_addr = 100;
	pair_post(&pair, 0, &wr);
	expect_completion(pair.cq[0], wr.wr_id, IBV_WC_RDMA_WRITE);
	assert_int_equal(ibv_memcpy_from_dm(bytes, dm, 1124, 200), 0);
	assert_true(has_pattern(bytes, 200, 3));
	/* As a local buffer of a send. */
	wr = pair_request(&pair, 0, IBV_WR_RDMA_WRITE, &sge, 8192, 200);
	sge = (struct ibv_sge){100, 200, mr->lkey};
	pair_post(&pair, 0, &wr);
	expect_completion(pair.cq[0], wr.wr_id, IBV_WC_RDMA_WRITE);
	assert_true(has_pattern(pair.buffer[1] + 8192, 200, 3));
	/* Atomics. */
	assert_int_equal(ibv_memcpy_to_dm(dm, 1024, &number, 8), 0);
	wr = pair_request(&pair, 0, IBV_WR_ATOMIC_FETCH_AND_ADD, &sge, 0, 8);
	wr.wr.atomic.rkey = mr->rkey;
	wr.wr.atomic.remote_addr = 0;
	wr.wr.atomic.compare_add = 2;
	pair_post(&pair, 0, &wr);
	expect_completion(pair.cq[0], wr.wr_id, IBV_WC_FETCH_ADD);
	assert_int_equal(ibv_memcpy_from_dm(&number, dm, 1024, 8), 0);
	assert_int_equal(number, 42);
	/* Past its end. */
	wr = pair_request(&pair, 0, IBV_WR_RDMA_WRITE, &sge, 0, 200);
	wr.wr.rdma.rkey = mr->rkey;
	wr.wr.rdma.remote_addr = 1000;
	pair_post(&pair, 0, &wr);
	expect_status(pair.cq[0], wr.wr_id, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dereg_mr(mr), 0);

	assert_null(ibv_reg_dm_mr(world.pd, dm, 0, 64, ALL & ~IBV_ACCESS_ZERO_BASED));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_reg_dm_mr(world.pd, dm, 4000, 97, ALL));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_reg_dm_mr(world.pd, dm, UINT64_MAX, 1, ALL));
	assert_int_equal(ibv_free_dm(dm), 0);
	pair_close(&pair);
}

/* As another process finds it: which of our descriptors is the file that was mapped? */
static int descriptor_of_device_memory(void)
{
	DIR *list = opendir("/proc/self/fd");
	struct dirent *entry;
	char target[256];
	int found = -1;

	assert_non_null(list);
	while ((entry = readdir(list)) != NULL) {
		ssize_t length = readlinkat(dirfd(list), entry->d_name, target, sizeof(target) - 1);

		target[length > 0 ? length : 0] = '\0';
		if (strstr(target, "verbena-device-memory") != NULL)
			found = atoi(entry->d_name);
	}
	closedir(list);
	return found;
}

static void other_processes_can_map_it_safely(void **state)
{
	struct ibv_dm *dm = allocate(100);
	uint32_t word = 7;
	int fd = descriptor_of_device_memory();

	(void)state;
	assert_true(fd > 2);
	assert_int_equal(ibv_memcpy_to_dm(dm, 96, &word, sizeof(word)), 0);
	word = 0;
	assert_int_equal(pread(fd, &word, sizeof(word), 96), sizeof(word));
	assert_int_equal(word, 7);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_int_equal(ibv_free_dm(dm), 0);
	assert_int_equal(descriptor_of_device_memory(), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copies_stay_inside),
		cmocka_unit_test(allocation_has_limits),
		cmocka_unit_test(a_region_may_be_empty),
		cmocka_unit_test(registered_it_is_written_read_and_counted_in),
		cmocka_unit_test(other_processes_can_map_it_safely),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, open_world, close_world);
}
