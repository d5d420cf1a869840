/* SPDX-License-Identifier: MIT
 *
 * Regions of GPU memory, with a driver that is played (played_cuda.c): what is registered and refused, that every
 * operation reaches the memory by the driver alone and leaves nothing of it behind. The real driver:
 * tests/applications/gpu/run.
 */
#include <dlfcn.h>
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
#include "played_cuda.h"

enum {
	ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	BYTES = 128 << 10,
	LENGTH = 70001,                  /* more packets than are fetched together, and nothing even */
	OFTEN = 40,                      /* long before, each end knows what the other can: series.c, singly.c of src/roce */
};

static const struct played_cuda *cuda;
static uint64_t gpu;
static uint8_t *view;

static void begin(void)
{
	gpu = cuda->allocate(BYTES, &view);
	assert_true(gpu != 0);
	cuda->play(0, 0);
}

static void end(void)
{
	cuda->free();
	assert_int_equal(cuda->streams(), 0);
	assert_int_equal(cuda->retained(), 0);
}

static struct ibv_mr *register_all(unsigned access)
{
	return ibv_reg_mr(world.pd, (void *)(uintptr_t)gpu, BYTES, (int)access);
}

static void refused(const struct ibv_mr *mr, int error)
{
	assert_null(mr);
	assert_int_equal(errno, error);
}

static struct ibv_wc work(struct pair *pair, enum ibv_wr_opcode opcode, const struct ibv_mr *mr, uint64_t address, uint32_t length)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = pair_request(pair, 0, opcode, &sge, 0, length);

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = address;
		wr.wr.atomic.rkey = mr->rkey;
		wr.wr.atomic.compare_add = 5;
		wr.wr.atomic.swap = 77;
	} else {
		wr.wr.rdma.remote_addr = address;
		wr.wr.rdma.rkey = mr->rkey;
	}
	pair_post(pair, 0, &wr);
	return wait_completion(pair->cq[0]);
}

/* The same with the GPU's memory at this end. */
static struct ibv_wc work_from(struct pair *pair, enum ibv_wr_opcode opcode, const struct ibv_mr *mr, uint32_t length)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = pair_request(pair, 0, opcode, &sge, 0, length);

	sge.addr = gpu + 3;
	sge.lkey = mr->lkey;
	pair_post(pair, 0, &wr);
	return wait_completion(pair->cq[0]);
}

/* Before the driver is loaded. */
static void without_a_driver_it_is_not_mapped(void **state)
{
	void *nothing = mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int ends[2];

	(void)state;
	assert_true(nothing != MAP_FAILED);
	refused(ibv_reg_mr(world.pd, nothing, BYTES, ALL), EFAULT);
	assert_int_equal(pipe(ends), 0);
	refused(ibv_reg_dmabuf_mr(world.pd, 0, BYTES, (uintptr_t)nothing, ends[0], ALL), EOPNOTSUPP);
	close(ends[0]);
	close(ends[1]);
	munmap(nothing, BYTES);
}

static void the_driver_is_loaded(void **state)
{
	void *library = dlopen(getenv("PLAYED_CUDA"), RTLD_NOW);

	(void)state;
	assert_non_null(library);
	cuda = dlsym(library, "played_cuda");
	assert_non_null(cuda);
}

static void ranges_are_judged(void **state)
{
	struct ibv_mr *mr;

	(void)state;
	begin();
	refused(ibv_reg_mr(world.pd, (void *)(uintptr_t)(gpu + 1), BYTES, ALL), EFAULT);
	refused(ibv_reg_mr(world.pd, (void *)(uintptr_t)(gpu - 1), 2, ALL), EFAULT);
	refused(register_all(IBV_ACCESS_REMOTE_WRITE), EINVAL);
	mr = ibv_reg_mr(world.pd, (void *)(uintptr_t)(gpu + BYTES - 1), 1, ALL);
	assert_non_null(mr);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE), IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(cuda->streams(), 1);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	cuda->play(0, 1);
	refused(register_all(ALL), EOPNOTSUPP);
	cuda->play(1, 1);
	refused(register_all(ALL), EOPNOTSUPP);
	end();
}

static void every_operation_reaches_it(struct pair *pair, const struct ibv_mr *mr)
{
	struct ibv_recv_wr receive = {.wr_id = 7, .num_sge = 1}, *bad;
	struct ibv_sge sge = {gpu + 3, LENGTH, mr->lkey};
	unsigned before = cuda->copies();
	struct ibv_send_wr wr;
	uint64_t number = 5;

	for (unsigned i = 0; i < OFTEN; i++) {
		fill_pattern(pair->buffer[0], LENGTH, i + 1);
		assert_int_equal(work(pair, IBV_WR_RDMA_WRITE, mr, gpu + 100, LENGTH).status, IBV_WC_SUCCESS);
		assert_true(has_pattern(view + 100, LENGTH, i + 1));
		fill_pattern(view + 200, LENGTH, i + 2);
		assert_int_equal(work(pair, IBV_WR_RDMA_READ, mr, gpu + 200, LENGTH).status, IBV_WC_SUCCESS);
		assert_true(has_pattern(pair->buffer[0], LENGTH, i + 2));
	}

	memcpy(view + 64, &number, sizeof(number));
	assert_int_equal(work(pair, IBV_WR_ATOMIC_CMP_AND_SWP, mr, gpu + 64, 8).status, IBV_WC_SUCCESS);
	memcpy(&number, pair->buffer[0], sizeof(number));
	assert_int_equal(number, 5);
	assert_int_equal(work(pair, IBV_WR_ATOMIC_FETCH_AND_ADD, mr, gpu + 64, 8).status, IBV_WC_SUCCESS);
	memcpy(&number, pair->buffer[0], sizeof(number));
	assert_int_equal(number, 77);
	memcpy(&number, view + 64, sizeof(number));
	assert_int_equal(number, 82);

	/* At the end that asks. */
	fill_pattern(view + 3, LENGTH, 3);
	assert_int_equal(work_from(pair, IBV_WR_RDMA_WRITE, mr, LENGTH).status, IBV_WC_SUCCESS);
	assert_true(has_pattern(pair->buffer[1], LENGTH, 3));
	fill_pattern(pair->buffer[1], LENGTH, 4);
	assert_int_equal(work_from(pair, IBV_WR_RDMA_READ, mr, LENGTH).status, IBV_WC_SUCCESS);
	assert_true(has_pattern(view + 3, LENGTH, 4));

	fill_pattern(view + 3, LENGTH, 5);
	pair_receive(pair, 1, 5, 0, LENGTH);
	assert_int_equal(work_from(pair, IBV_WR_SEND, mr, LENGTH).status, IBV_WC_SUCCESS);
	expect_completion(pair->cq[1], 5, IBV_WC_RECV);
	assert_true(has_pattern(pair->buffer[1], LENGTH, 5));
	fill_pattern(pair->buffer[0], LENGTH, 6);
	receive.sg_list = &sge;
	assert_int_equal(ibv_post_recv(pair->qp[1], &receive, &bad), 0);
	wr = pair_request(pair, 0, IBV_WR_SEND, &(struct ibv_sge){0}, 0, LENGTH);
	wr.sg_list = &(struct ibv_sge){(uintptr_t)pair->buffer[0], LENGTH, pair->mr[0]->lkey};
	pair_post(pair, 0, &wr);
	expect_completion(pair->cq[1], 7, IBV_WC_RECV);
	expect_completion(pair->cq[0], wr.wr_id, IBV_WC_SEND);
	assert_true(has_pattern(view + 3, LENGTH, 6));
	assert_true(cuda->copies() > before);
}

static void what_is_registered_works(void **state)
{
	struct ibv_mr *mr;
	struct pair pair;

	(void)state;
	/* Memory of a context, and of none. */
	for (int no_context = 0; no_context < 2; no_context++) {
		begin();
		cuda->play(no_context, 0);
		mr = register_all(ALL);
		assert_non_null(mr);
		assert_int_equal(cuda->retained(), no_context);
		pair_open(&pair, &world, NULL);
		every_operation_reaches_it(&pair, mr);
		/* Beyond it, within the address space. */
		assert_int_equal(work(&pair, IBV_WR_RDMA_WRITE, mr, gpu + BYTES - 10, 11).status, IBV_WC_REM_ACCESS_ERR);
		pair_close(&pair);
		assert_int_equal(ibv_dereg_mr(mr), 0);
		end();
	}
}

/* A descriptor that mmap refuses and a size is not known of: as far as the library can see, an export of the
 * address that iova names. */
static void exports_are_found_by_iova(void **state)
{
	struct ibv_mr *mr;
	struct pair pair;
	int ends[2];

	(void)state;
	begin();
	assert_int_equal(pipe(ends), 0);
	refused(ibv_reg_dmabuf_mr(world.pd, 0, BYTES, 0x5000, ends[0], ALL), EOPNOTSUPP);
	mr = ibv_reg_dmabuf_mr(world.pd, 0, BYTES, gpu, ends[0], ALL);
	assert_non_null(mr);
	close(ends[0]);
	close(ends[1]);
	pair_open(&pair, &world, NULL);
	every_operation_reaches_it(&pair, mr);
	pair_close(&pair);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	end();
}

/* Peers that copy for themselves cannot reach it: the two exclude each other. */
static void on_one_host_it_goes_by_wire(void **state)
{
	bool by_wire = getenv("VERBENA_WIRE") != NULL;
	struct ibv_mr *mr;
	struct pair pair;

	(void)state;
	begin();
	pair_open(&pair, &world, NULL);
	mr = register_all(ALL);
	if (by_wire)
		assert_non_null(mr);
	else
		refused(mr, EOPNOTSUPP);
	pair_close(&pair);
	if (!by_wire)
		mr = register_all(ALL);
	assert_non_null(mr);
	pair_open(&pair, &world, NULL);
	every_operation_reaches_it(&pair, mr);
	pair_close(&pair);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	end();
}

static void what_the_program_frees_is_at_fault(void **state)
{
	struct ibv_mr *mr;
	struct pair pair;

	(void)state;
	begin();
	mr = register_all(ALL);
	assert_non_null(mr);
	pair_open(&pair, &world, NULL);
	cuda->free();
	assert_int_equal(work(&pair, IBV_WR_RDMA_WRITE, mr, gpu, LENGTH).status, IBV_WC_REM_ACCESS_ERR);
	pair_close(&pair);
	pair_open(&pair, &world, NULL);
	assert_int_equal(work_from(&pair, IBV_WR_RDMA_WRITE, mr, LENGTH).status, IBV_WC_LOC_PROT_ERR);
	pair_close(&pair);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(cuda->streams(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_driver_it_is_not_mapped),
		cmocka_unit_test(the_driver_is_loaded),
		cmocka_unit_test(ranges_are_judged),
		cmocka_unit_test(what_is_registered_works),
		cmocka_unit_test(exports_are_found_by_iova),
		cmocka_unit_test(on_one_host_it_goes_by_wire),
		cmocka_unit_test(what_the_program_frees_is_at_fault),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, open_world, close_world);
}
