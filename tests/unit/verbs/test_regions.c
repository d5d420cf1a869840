/* SPDX-License-Identifier: MIT
 *
 * Memory regions: what may be registered and how, changing them, on-demand paging, null regions, dmabufs.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/one_world.h"
#include "lib/private_network.h"

enum { ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };

static long page;

static void *map_pages(size_t count, int protection)
{
	void *pages = mmap(NULL, count * (size_t)page, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(pages != MAP_FAILED);
	return pages;
}

static void refused(struct ibv_mr *mr, int error)
{
	assert_null(mr);
	assert_int_equal(errno, error);
}

/* ibv_reg_mr(3): every combination of the rights; remote write or atomic demands local write. */
static void rights_are_judged(void **state)
{
	char *memory = map_pages(1, PROT_READ | PROT_WRITE);

	(void)state;
	for (int access = 0; access < 1 << 5; access++) {
		bool legal = !(access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) ||
			     (access & IBV_ACCESS_LOCAL_WRITE);
		struct ibv_mr *mr = ibv_reg_mr(world.pd, memory, 64, access);

		if (!legal) {
			refused(mr, EINVAL);
			continue;
		}
		assert_non_null(mr);
		assert_ptr_equal(mr->addr, memory);
		assert_int_equal(mr->length, 64);
		assert_ptr_equal(mr->pd, world.pd);
		assert_ptr_equal(mr->context, world.context);
		assert_int_equal(ibv_dereg_mr(mr), 0);
	}
	for (int bit = 20; bit < 30; bit++) {   /* optional rights are never an error */
		struct ibv_mr *mr = ibv_reg_mr(world.pd, memory, 64, ALL | 1 << bit);

		assert_non_null(mr);
		assert_int_equal(ibv_dereg_mr(mr), 0);
	}
	refused(ibv_reg_mr(world.pd, memory, 64, ALL | 1 << 12), EINVAL);
	munmap(memory, (size_t)page);
}

static void ranges_are_judged(void **state)
{
	char *memory = map_pages(4, PROT_READ | PROT_WRITE);
	struct ibv_mr *mr;

	(void)state;
	refused(ibv_reg_mr(world.pd, memory, 0, ALL), EINVAL);
	refused(ibv_reg_mr(world.pd, memory, SIZE_MAX, ALL), EINVAL);
	refused(ibv_reg_mr(world.pd, (void *)(uintptr_t)-4096, 8192, ALL), EINVAL);
	refused(ibv_reg_mr(NULL, memory, 64, ALL), EINVAL);
	refused(ibv_reg_mr(world.pd, NULL, 64, ALL), EFAULT);
	munmap(memory + page, (size_t)page);
	refused(ibv_reg_mr(world.pd, memory, 3 * (size_t)page, ALL), EFAULT);
	assert_int_equal(mprotect(memory + 2 * page, (size_t)page, PROT_READ), 0);
	refused(ibv_reg_mr(world.pd, memory + 2 * page, 2 * (size_t)page, ALL), EFAULT);
	assert_non_null(mr = ibv_reg_mr(world.pd, memory + 2 * page, 2 * (size_t)page, IBV_ACCESS_REMOTE_READ));
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(memory, (size_t)page);
	munmap(memory + 2 * page, 2 * (size_t)page);
}

/* A large reservation costs nothing, but a hole or a forbidden page in it is still found. */
static void large_ranges_are_looked_up(void **state)
{
	size_t length = (size_t)1 << 32;
	char *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct ibv_mr *mr;

	(void)state;
	if (memory == MAP_FAILED)
		skip();
	assert_non_null(mr = ibv_reg_mr(world.pd, memory, length, ALL));
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(mprotect(memory + length / 2, (size_t)page, PROT_NONE), 0);
	refused(ibv_reg_mr(world.pd, memory, length, ALL), EFAULT);
	munmap(memory, length);
}

static void iova_names_the_bytes(void **state)
{
	struct pair pair;
	struct ibv_mr *mr;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	pair_open(&pair, &world, NULL);
	mr = ibv_reg_mr_iova(world.pd, pair.buffer[1], 4096, 0x10000, ALL);
	assert_non_null(mr);
	fill_pattern(pair.buffer[0], 100, 7);
	wr = pair_request(&pair, 0, IBV_WR_RDMA_WRITE, &sge, 0, 100);
	wr.wr.rdma.rkey = mr->rkey;
	wr.wr.rdma.remote_addr = 0x10000 + 200;
	pair_post(&pair, 0, &wr);
	expect_completion(pair.cq[0], wr.wr_id, IBV_WC_RDMA_WRITE);
	assert_true(has_pattern(pair.buffer[1] + 200, 100, 7));
	assert_int_equal(ibv_dereg_mr(mr), 0);
	mr = ibv_reg_mr_iova2(world.pd, pair.buffer[1], 4096, UINT64_MAX - 10, ALL);
	refused(mr, EINVAL);
	/* Zero based: offsets. */
	mr = ibv_reg_mr(world.pd, pair.buffer[1], 4096, ALL | IBV_ACCESS_ZERO_BASED);
	assert_non_null(mr);
	wr.wr.rdma.rkey = mr->rkey;
	wr.wr.rdma.remote_addr = 1000;
	pair_post(&pair, 0, &wr);
	expect_completion(pair.cq[0], wr.wr_id, IBV_WC_RDMA_WRITE);
	assert_true(has_pattern(pair.buffer[1] + 1000, 100, 7));
	assert_int_equal(ibv_dereg_mr(mr), 0);
	pair_close(&pair);
}

/* Write to the other side through mr and say what came of it. */
static enum ibv_wc_status try_write(struct pair *pair, struct ibv_mr *mr, void *target)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = pair_request(pair, 0, IBV_WR_RDMA_WRITE, &sge, 0, 8);
	struct ibv_wc wc;

	wr.wr.rdma.rkey = mr->rkey;
	wr.wr.rdma.remote_addr = (uintptr_t)target;
	pair_post(pair, 0, &wr);
	wc = wait_completion(pair->cq[0]);
	if (wc.status != IBV_WC_SUCCESS) {       /* start afresh */
		pair_reset(pair, 0);
		pair_reset(pair, 1);
		pair_connect(pair);
	}
	return wc.status;
}

static void regions_change_in_place(void **state)
{
	struct pair pair;
	struct ibv_pd *other = ibv_alloc_pd(world.context);
	char *first = map_pages(1, PROT_READ | PROT_WRITE), *second = map_pages(1, PROT_READ | PROT_WRITE);
	struct ibv_mr *mr = ibv_reg_mr(world.pd, first, 64, ALL);
	uint32_t key = mr->rkey;

	(void)state;
	pair_open(&pair, &world, NULL);
	assert_int_equal(try_write(&pair, mr, first), IBV_WC_SUCCESS);

	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, second, 32, 0), 0);
	assert_int_equal(mr->rkey, key);
	assert_ptr_equal(mr->addr, second);
	assert_int_equal(mr->length, 32);
	assert_int_equal(try_write(&pair, mr, second), IBV_WC_SUCCESS);
	assert_int_equal(try_write(&pair, mr, first), IBV_WC_REM_ACCESS_ERR);

	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_READ), 0);
	assert_int_equal(try_write(&pair, mr, second), IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL), 0);

	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, other, NULL, 0, 0), 0);
	assert_ptr_equal(mr->pd, other);
	assert_int_equal(ibv_dealloc_pd(other), EBUSY);
	assert_int_equal(try_write(&pair, mr, second), IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS |
				      IBV_REREG_MR_CHANGE_TRANSLATION, world.pd, first, 64, ALL), 0);
	assert_int_equal(try_write(&pair, mr, first), IBV_WC_SUCCESS);

	/* Refusals leave the region as it was. */
	assert_int_equal(ibv_rereg_mr(mr, 1 << 3, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, first, 0, 0), IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(ibv_rereg_mr(mr, 0, NULL, NULL, 0, ALL), IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 64, 0), IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(errno, EFAULT);
	assert_int_equal(try_write(&pair, mr, first), IBV_WC_SUCCESS);

	assert_int_equal(ibv_dereg_mr(mr), 0);
	pair_close(&pair);
	assert_int_equal(ibv_dealloc_pd(other), 0);
	munmap(first, (size_t)page);
	munmap(second, (size_t)page);
}

static void on_demand_memory_may_come_later_and_go(void **state)
{
	struct pair pair;
	char *memory = map_pages(2, PROT_NONE);
	struct ibv_mr *mr = ibv_reg_mr(world.pd, memory, 2 * (size_t)page, ALL | IBV_ACCESS_ON_DEMAND);

	(void)state;
	assert_non_null(mr);
	pair_open(&pair, &world, NULL);
	assert_int_equal(mprotect(memory, (size_t)page, PROT_READ | PROT_WRITE), 0);
	memset(pair.buffer[0], 0x5a, 8);
	assert_int_equal(try_write(&pair, mr, memory), IBV_WC_SUCCESS);
	assert_int_equal(memory[7], 0x5a);
	/* What is not there is an error at the writer, not a crash here. */
	munmap(memory + page, (size_t)page);
	assert_true(try_write(&pair, mr, memory + page) != IBV_WC_SUCCESS);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	pair_close(&pair);
	munmap(memory, (size_t)page);
}

static void implicit_on_demand_names_everything(void **state)
{
	struct pair pair;
	struct ibv_mr *mr = ibv_reg_mr(world.pd, NULL, SIZE_MAX, ALL | IBV_ACCESS_ON_DEMAND);
	char *memory = map_pages(1, PROT_READ | PROT_WRITE);
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	assert_non_null(mr);
	pair_open(&pair, &world, NULL);
	memset(pair.buffer[0], 0x33, 8);
	assert_int_equal(try_write(&pair, mr, memory + 100), IBV_WC_SUCCESS);
	assert_int_equal(memory[107], 0x33);
	/* Local use of the same key. */
	wr = pair_request(&pair, 0, IBV_WR_RDMA_WRITE, &sge, 0, 8);
	sge = (struct ibv_sge){(uintptr_t)memory + 100, 8, mr->lkey};
	pair_post(&pair, 0, &wr);
	expect_completion(pair.cq[0], wr.wr_id, IBV_WC_RDMA_WRITE);
	assert_int_equal(pair.buffer[1][7], 0x33);
	munmap(memory, (size_t)page);
	assert_true(try_write(&pair, mr, memory) != IBV_WC_SUCCESS);
	wr = pair_request(&pair, 0, IBV_WR_RDMA_WRITE, &sge, 0, 8);
	sge = (struct ibv_sge){(uintptr_t)memory, 8, mr->lkey};
	pair_post(&pair, 0, &wr);
	assert_int_equal(wait_completion(pair.cq[0]).status, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	refused(ibv_reg_mr(world.pd, NULL, SIZE_MAX, ALL), EINVAL);
	pair_close(&pair);
}

static void advice(void **state)
{
	char *memory = map_pages(3, PROT_READ | PROT_WRITE);
	struct ibv_mr *demand = ibv_reg_mr(world.pd, memory, 3 * (size_t)page, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
	struct ibv_mr *readable = ibv_reg_mr(world.pd, memory, 3 * (size_t)page, IBV_ACCESS_ON_DEMAND);
	struct ibv_mr *pinned = ibv_reg_mr(world.pd, memory, (size_t)page, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_pd *other = ibv_alloc_pd(world.context);
	struct ibv_sge sge = {(uintptr_t)memory, (uint32_t)page, demand->lkey};
	unsigned char resident[3];

	(void)state;
	madvise(memory, 3 * (size_t)page, MADV_DONTNEED);
	sge.addr = (uintptr_t)memory + (size_t)page;
	assert_int_equal(ibv_advise_mr(world.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1), 0);
	assert_int_equal(mincore(memory, 3 * (size_t)page, resident), 0);
	assert_true(resident[1] & 1);
	assert_int_equal(ibv_advise_mr(world.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), 0);
	assert_int_equal(ibv_advise_mr(world.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, 0, &sge, 1), 0);
	assert_int_equal(ibv_advise_mr(world.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0x80, &sge, 1), EINVAL);
	assert_int_equal(ibv_advise_mr(world.pd, (enum ibv_advise_mr_advice)99, 0, &sge, 1), ENOTSUP);
	assert_int_equal(ibv_advise_mr(world.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, NULL, 0), EINVAL);
	assert_int_equal(ibv_advise_mr(other, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EPERM);
	sge.length = 3 * (uint32_t)page;
	assert_int_equal(ibv_advise_mr(world.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EFAULT);
	sge = (struct ibv_sge){(uintptr_t)memory, (uint32_t)page, readable->lkey};
	assert_int_equal(ibv_advise_mr(world.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, &sge, 1), EPERM);
	sge.lkey = pinned->lkey;
	assert_int_equal(ibv_advise_mr(world.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EINVAL);
	assert_int_equal(ibv_dereg_mr(pinned), 0);
	assert_int_equal(ibv_dereg_mr(readable), 0);
	munmap(memory, 3 * (size_t)page);
	sge.lkey = demand->lkey;
	assert_int_equal(ibv_advise_mr(world.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EFAULT);
	assert_int_equal(ibv_dereg_mr(demand), 0);
	assert_int_equal(ibv_advise_mr(world.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EFAULT);
	assert_int_equal(ibv_dealloc_pd(other), 0);
}

static void null_regions_swallow_and_give_zeros(void **state)
{
	struct pair pair;
	struct ibv_mr *null = ibv_alloc_null_mr(world.pd);
	struct ibv_sge sge[2];
	struct ibv_send_wr wr;
	struct ibv_recv_wr receive = {.wr_id = 9, .sg_list = sge, .num_sge = 2}, *bad;

	(void)state;
	assert_non_null(null);
	pair_open(&pair, &world, NULL);
	/* Receive the second half of a message only. */
	sge[0] = (struct ibv_sge){0x1234, 50, null->lkey};
	sge[1] = (struct ibv_sge){(uintptr_t)pair.buffer[1], 50, pair.mr[1]->lkey};
	assert_int_equal(ibv_post_recv(pair.qp[1], &receive, &bad), 0);
	for (int i = 0; i < 100; i++)
		pair.buffer[0][i] = (uint8_t)(i + 1);
	wr = pair_request(&pair, 0, IBV_WR_SEND, &sge[0], 0, 100);
	pair_post(&pair, 0, &wr);
	expect_completion(pair.cq[1], 9, IBV_WC_RECV);
	expect_completion(pair.cq[0], wr.wr_id, IBV_WC_SEND);
	assert_int_equal(pair.buffer[1][0], 51);
	assert_int_equal(pair.buffer[1][49], 100);
	/* Write from it: zeros. */
	wr = pair_request(&pair, 0, IBV_WR_RDMA_WRITE, &sge[0], 0, 20);
	sge[0] = (struct ibv_sge){0, 20, null->lkey};
	pair_post(&pair, 0, &wr);
	expect_completion(pair.cq[0], wr.wr_id, IBV_WC_RDMA_WRITE);
	assert_int_equal(pair.buffer[1][0], 0);
	assert_int_equal(pair.buffer[1][19], 0);
	assert_int_equal(pair.buffer[1][20], 71);
	assert_int_equal(ibv_dereg_mr(null), 0);
	pair_close(&pair);
}

static void a_buffer_behind_a_descriptor(void **state)
{
	struct pair pair;
	int fd = memfd_create("test", MFD_CLOEXEC);
	struct ibv_mr *mr;
	char *view;

	(void)state;
	assert_int_equal(ftruncate(fd, 4 * page), 0);
	mr = ibv_reg_dmabuf_mr(world.pd, (uint64_t)page + 100, 200, 0x5000, fd, ALL);
	assert_non_null(mr);
	pair_open(&pair, &world, NULL);
	memset(pair.buffer[0], 0x77, 8);
	assert_int_equal(try_write(&pair, mr, (void *)0x5010), IBV_WC_SUCCESS);
	view = mmap(NULL, 4 * (size_t)page, PROT_READ, MAP_SHARED, fd, 0);
	assert_int_equal(view[page + 100 + 0x10], 0x77);
	assert_int_equal(view[page + 100 + 0x17], 0x77);
	assert_int_equal(view[page + 100 + 0x18], 0);
	munmap(view, 4 * (size_t)page);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	refused(ibv_reg_dmabuf_mr(world.pd, 3 * (uint64_t)page, 2 * (size_t)page, 0, fd, ALL), EINVAL);
	refused(ibv_reg_dmabuf_mr(world.pd, 0, 0, 0, fd, ALL), EINVAL);
	refused(ibv_reg_dmabuf_mr(world.pd, 0, 1, 0, fd, ALL | IBV_ACCESS_ON_DEMAND), EINVAL);
	refused(ibv_reg_dmabuf_mr(world.pd, 0, 1, 0, -1, ALL), EBADF);
	close(fd);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rights_are_judged),
		cmocka_unit_test(ranges_are_judged),
		cmocka_unit_test(large_ranges_are_looked_up),
		cmocka_unit_test(iova_names_the_bytes),
		cmocka_unit_test(regions_change_in_place),
		cmocka_unit_test(on_demand_memory_may_come_later_and_go),
		cmocka_unit_test(implicit_on_demand_names_everything),
		cmocka_unit_test(advice),
		cmocka_unit_test(null_regions_swallow_and_give_zeros),
		cmocka_unit_test(a_buffer_behind_a_descriptor),
	};

	page = sysconf(_SC_PAGESIZE);
	private_network_enter();
	return cmocka_run_group_tests(tests, open_world, close_world);
}
