/* SPDX-License-Identifier: MIT
 *
 * Verbs that came after rdma-core 44, as programs of newer distributions call them: by name and version, with the structs of those headers.
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

enum { IOVA = 1, ADDRESS = 2, FD = 4, FD_OFFSET = 8, DMA_HANDLE = 16, BUFFER = 32 };

struct init {
	size_t length;
	int access;
	uint64_t mask, iova;
	void *address;
	int fd;
	uint64_t fd_offset;
	void *dma_handle, *buffer;
};

static struct ibv_mr *(*reg_mr_ex)(struct ibv_pd *, struct init *);
static struct ibv_mr *(*reg_buf_mr)(struct ibv_pd *, void *, void *, size_t, int);
static void *(*alloc_buf)(struct ibv_pd *, size_t, void **);
static void (*free_buf)(void *);
static void *(*alloc_dmah)(struct ibv_context *, void *);
static int (*dealloc_dmah)(void *);
static int (*dm_export)(struct ibv_dm *);
static int (*port_speed)(struct ibv_context *, uint32_t, uint64_t *);

static void find(void *function, const char *name, const char *version)
{
	*(void **)function = dlvsym(RTLD_DEFAULT, name, version);
	if (*(void **)function == NULL)
		fail_msg("%s@%s is not there", name, version);
}

static void names_and_versions(void **state)
{
	(void)state;
	find(&reg_mr_ex, "ibv_reg_mr_ex", "IBVERBS_1.15");
	find(&alloc_dmah, "ibv_alloc_dmah", "IBVERBS_1.15");
	find(&dealloc_dmah, "ibv_dealloc_dmah", "IBVERBS_1.15");
	find(&dm_export, "ibv_dm_export_dmabuf_fd", "IBVERBS_1.16");
	find(&port_speed, "ibv_query_port_speed", "IBVERBS_1.16");
	find(&alloc_buf, "ibv_alloc_buf", "IBVERBS_1.17");
	find(&free_buf, "ibv_free_buf", "IBVERBS_1.17");
	find(&reg_buf_mr, "ibv_reg_buf_mr", "IBVERBS_1.17");
}

static void refused(struct init init, int error)
{
	errno = 0;
	assert_null(reg_mr_ex(world.pd, &init));
	assert_int_equal(errno, error);
}

static void a_region_by_its_address(void **state)
{
	char bytes[256];
	struct init init = {.length = 100, .access = IBV_ACCESS_LOCAL_WRITE, .mask = ADDRESS, .address = bytes, .iova = 7, .fd = -1};
	struct ibv_mr *mr = reg_mr_ex(world.pd, &init);

	(void)state;
	assert_non_null(mr);
	assert_ptr_equal(mr->addr, bytes);
	assert_int_equal(mr->length, 100);
	assert_ptr_equal(mr->pd, world.pd);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	init.mask = ADDRESS | IOVA;
	mr = reg_mr_ex(world.pd, &init);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	init.mask = IOVA;
	refused(init, EINVAL);
	init.mask = ADDRESS | FD_OFFSET;
	refused(init, EINVAL);
	init.mask = ADDRESS | DMA_HANDLE;
	refused(init, EOPNOTSUPP);
	init.mask = ADDRESS | 1ull << 40;
	refused(init, EOPNOTSUPP);
	init.mask = ADDRESS;
	init.access = IBV_ACCESS_REMOTE_WRITE;
	refused(init, EINVAL);
	assert_null(reg_mr_ex(NULL, &init));
	assert_null(reg_mr_ex(world.pd, NULL));
}

static void a_region_by_a_descriptor(void **state)
{
	int fd = memfd_create("later", 0);
	struct init init = {.length = 4096, .access = IBV_ACCESS_LOCAL_WRITE, .mask = FD | FD_OFFSET | IOVA, .fd = fd, .iova = 0x1000};
	struct ibv_mr *mr;

	(void)state;
	assert_int_equal(ftruncate(fd, 8192), 0);
	mr = reg_mr_ex(world.pd, &init);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	init.mask = FD | IOVA;
	refused(init, EINVAL);
	init.mask = FD | FD_OFFSET;
	refused(init, EINVAL);
	init.mask = FD | FD_OFFSET | IOVA | ADDRESS;
	refused(init, EINVAL);
	close(fd);
}

static void buffers(void **state)
{
	struct ibv_pd *other = ibv_alloc_pd(world.context);
	void *buffer = NULL;
	char *bytes = alloc_buf(world.pd, 5000, &buffer);
	struct init init = {.length = 10, .access = IBV_ACCESS_LOCAL_WRITE, .mask = BUFFER, .address = bytes, .buffer = buffer};
	struct ibv_mr *mr;

	(void)state;
	assert_non_null(bytes);
	assert_non_null(buffer);
	assert_int_equal((uintptr_t)bytes % (uintptr_t)sysconf(_SC_PAGESIZE), 0);
	memset(bytes, 1, 5000);
	mr = reg_buf_mr(world.pd, buffer, bytes + 1000, 4000, IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(mr);
	assert_ptr_equal(mr->addr, bytes + 1000);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_null(reg_buf_mr(world.pd, buffer, bytes + 1001, 4000, IBV_ACCESS_LOCAL_WRITE));
	assert_int_equal(errno, EINVAL);
	assert_null(reg_buf_mr(world.pd, buffer, bytes - 1, 10, IBV_ACCESS_LOCAL_WRITE));
	assert_null(reg_buf_mr(world.pd, buffer, bytes, SIZE_MAX, IBV_ACCESS_LOCAL_WRITE));
	assert_null(reg_buf_mr(other, buffer, bytes, 10, IBV_ACCESS_LOCAL_WRITE));
	assert_int_equal(errno, EINVAL);
	refused(init, EINVAL); /* where in the buffer? */
	init.mask = BUFFER | ADDRESS | FD | FD_OFFSET;
	refused(init, EINVAL);
	assert_null(alloc_buf(NULL, 10, &buffer));
	free_buf(buffer);
	free_buf(NULL);
	assert_int_equal(ibv_dealloc_pd(other), 0);
}

static void what_an_adapter_alone_has(void **state)
{
	static const char *const counting[] = {
		"_ibv_query_comp_cntr_caps", "ibv_destroy_comp_cntr", "ibv_inc_comp_cntr", "ibv_inc_err_comp_cntr",
		"ibv_qp_attach_comp_cntr", "ibv_read_comp_cntr", "ibv_read_err_comp_cntr", "ibv_set_comp_cntr", "ibv_set_err_comp_cntr",
	};
	int (*number)(void *, void *, void *);

	(void)state;
	assert_null(alloc_dmah(world.context, NULL));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(dealloc_dmah(NULL), EOPNOTSUPP);
	assert_int_equal(dm_export(NULL), -1);
	assert_int_equal(errno, EOPNOTSUPP);
	for (size_t i = 0; i < sizeof(counting) / sizeof(counting[0]); i++) {
		find(&number, counting[i], "IBVERBS_1.18");
		assert_int_equal(number(NULL, NULL, NULL), EOPNOTSUPP);
	}
	find(&alloc_dmah, "ibv_create_comp_cntr", "IBVERBS_1.18");
	assert_null(alloc_dmah(world.context, NULL));
	find(&dealloc_dmah, "ibv_export_buf_dmabuf_fd", "IBVERBS_1.18");
	assert_int_equal(dealloc_dmah(NULL), -1);
}

/* The loopback device says 10 Gb/s: one lane, of code 8. */
static void the_speed_of_a_port(void **state)
{
	uint64_t speed = 0;

	(void)state;
	assert_int_equal(port_speed(world.context, 1, &speed), 0);
	assert_int_equal(speed, 100);
	assert_int_equal(port_speed(world.context, 2, &speed), EINVAL);
	assert_int_equal(port_speed(world.context, 257, &speed), EINVAL);
	assert_int_equal(port_speed(world.context, 1, NULL), EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_and_versions),
		cmocka_unit_test(a_region_by_its_address),
		cmocka_unit_test(a_region_by_a_descriptor),
		cmocka_unit_test(buffers),
		cmocka_unit_test(what_an_adapter_alone_has),
		cmocka_unit_test(the_speed_of_a_port),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, open_world, close_world);
}
