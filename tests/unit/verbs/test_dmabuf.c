/* SPDX-License-Identifier: MIT
 *
 * Accesses to a dmabuf stand between two DMA_BUF_IOCTL_SYNC. A real one comes from /dev/udmabuf, where there is such a
 * thing; elsewhere a memfd plays one: this program's ioctl stands before the C library's, and says yes to it. Either way
 * it sees each call of the library. By wire: a process of this host that copies for itself brackets nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <linux/udmabuf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/one_world.h"
#include "lib/private_network.h"

enum {
	ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	PAGES = 4,
	LENGTH = 5000,
};

/* Atomic. */
static unsigned begun_reads, begun_writes, ended, nested;
static bool is_played, fails;
static unsigned char *view;

__attribute__((visibility("default"))) int ioctl(int fd, unsigned long request, ...)
{
	va_list arguments;
	void *argument;

	va_start(arguments, request);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	if (request == DMA_BUF_IOCTL_SYNC) {
		uint64_t flags = ((struct dma_buf_sync *)argument)->flags;

		if (fails) {
			errno = EIO;
			return -1;
		}
		if (flags & DMA_BUF_SYNC_END) {
			__atomic_fetch_add(&ended, 1, __ATOMIC_SEQ_CST);
		} else {
			unsigned open = begun_reads + begun_writes - ended;

			nested += open > 1;
			__atomic_fetch_add((flags & DMA_BUF_SYNC_WRITE) ? &begun_writes : &begun_reads, 1, __ATOMIC_SEQ_CST);
		}
		if (is_played)
			return 0;
	}
	return (int)syscall(SYS_ioctl, fd, request, argument);
}

static void forget(void)
{
	begun_reads = begun_writes = ended = 0;
}

/* Everything that was begun was ended, reads and writes as told. */
static void expect_brackets(bool reads, bool writes)
{
	assert_int_equal(begun_reads + begun_writes, ended);
	assert_true(reads == (begun_reads > 0));
	assert_true(writes == (begun_writes > 0));
	forget();
}

/* Gives the buffer's descriptor, and `view`. */
static int open_buffer(void)
{
	int memory = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING), device = open("/dev/udmabuf", O_RDWR | O_CLOEXEC), fd;
	size_t bytes = PAGES * (size_t)sysconf(_SC_PAGESIZE);

	assert_int_equal(ftruncate(memory, (off_t)bytes), 0);
	assert_int_equal(fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	view = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	assert_true(view != MAP_FAILED);
	is_played = device < 0;
	if (is_played) {
		print_message("no /dev/udmabuf: a memfd plays the buffer\n");
		return memory;
	}
	fd = (int)syscall(SYS_ioctl, device, UDMABUF_CREATE,
			  &(struct udmabuf_create){.memfd = (uint32_t)memory, .flags = UDMABUF_FLAGS_CLOEXEC, .size = bytes});
	assert_true(fd >= 0);
	close(device);
	close(memory);
	return fd;
}

/* A request of side 0 that moves bytes between its buffer and the region. */
static struct ibv_wc move(struct pair *pair, enum ibv_wr_opcode opcode, const struct ibv_mr *mr, uint32_t length)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = pair_request(pair, 0, opcode, &sge, 0, length);

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = 0x5000;
		wr.wr.atomic.rkey = mr->rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = 0x5000;
		wr.wr.rdma.rkey = mr->rkey;
	}
	pair_post(pair, 0, &wr);
	return wait_completion(pair->cq[0]);
}

static void each_access_is_bracketed(void **state)
{
	struct ibv_recv_wr receive = {.wr_id = 7, .num_sge = 1}, *bad;
	int fd = open_buffer();
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct ibv_mr *mr;
	uint64_t counter;

	(void)state;
	mr = ibv_reg_dmabuf_mr(world.pd, 0, LENGTH, 0x5000, fd, ALL);
	assert_non_null(mr);
	/* The library has a descriptor of its own. */
	close(fd);
	pair_open(&pair, &world, NULL);
	forget();

	fill_pattern(pair.buffer[0], LENGTH, 1);
	assert_int_equal(move(&pair, IBV_WR_RDMA_WRITE, mr, LENGTH).status, IBV_WC_SUCCESS);
	expect_brackets(false, true);
	assert_true(has_pattern(view, LENGTH, 1));

	fill_pattern(view, LENGTH, 2);
	assert_int_equal(move(&pair, IBV_WR_RDMA_READ, mr, LENGTH).status, IBV_WC_SUCCESS);
	expect_brackets(true, false);
	assert_true(has_pattern(pair.buffer[0], LENGTH, 2));

	memcpy(&counter, view, sizeof(counter));
	assert_int_equal(move(&pair, IBV_WR_ATOMIC_FETCH_AND_ADD, mr, 8).status, IBV_WC_SUCCESS);
	expect_brackets(false, true);
	assert_int_equal(*(uint64_t *)view, counter + 1);

	/* As the source of a SEND, and as the target of one. */
	fill_pattern(view, LENGTH, 3);
	pair_receive(&pair, 1, 5, 0, LENGTH);
	wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, LENGTH);
	sge = (struct ibv_sge){0x5000, LENGTH, mr->lkey};
	pair_post(&pair, 0, &wr);
	expect_completion(pair.cq[1], 5, IBV_WC_RECV);
	expect_completion(pair.cq[0], wr.wr_id, IBV_WC_SEND);
	expect_brackets(true, false);
	assert_true(has_pattern(pair.buffer[1], LENGTH, 3));
	fill_pattern(pair.buffer[0], LENGTH, 4);
	receive.sg_list = &(struct ibv_sge){0x5000, LENGTH, mr->lkey};
	assert_int_equal(ibv_post_recv(pair.qp[1], &receive, &bad), 0);
	wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, LENGTH);
	pair_post(&pair, 0, &wr);
	expect_completion(pair.cq[1], 7, IBV_WC_RECV);
	expect_completion(pair.cq[0], wr.wr_id, IBV_WC_SEND);
	expect_brackets(false, true);
	assert_true(has_pattern(view, LENGTH, 4));
	assert_int_equal(nested, 0);

	/* The exporter refuses: so does the responder, and no byte has changed. */
	fails = true;
	fill_pattern(pair.buffer[0], LENGTH, 5);
	assert_int_equal(move(&pair, IBV_WR_RDMA_WRITE, mr, LENGTH).status, IBV_WC_REM_ACCESS_ERR);
	assert_true(has_pattern(view, LENGTH, 4));
	fails = false;
	assert_int_equal(ibv_dereg_mr(mr), 0);
	pair_close(&pair);
	munmap(view, PAGES * (size_t)sysconf(_SC_PAGESIZE));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(each_access_is_bracketed)};

	private_network_enter();
	return cmocka_run_group_tests(tests, open_world, close_world);
}
