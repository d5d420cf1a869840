/* SPDX-License-Identifier: MIT
 *
 * Importing: devices by descriptor, domains, regions and device memory by handle.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/one_world.h"
#include "lib/private_network.h"

static void an_import_shares_the_session(void **state)
{
	struct ibv_context *import = ibv_import_device(world.context->cmd_fd);
	struct ibv_pd *pd, *gone;
	struct pair pair;
	struct ibv_mr *mr;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct ibv_cq *cq;
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC,
					.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_qp *qp;

	(void)state;
	assert_non_null(import);
	assert_string_equal(import->device->name, world.context->device->name);
	assert_true(import->async_fd != world.context->async_fd);
	assert_non_null(pd = ibv_import_pd(import, world.pd->handle));
	assert_int_equal(pd->handle, world.pd->handle);
	assert_ptr_equal(pd->context, import);
	assert_null(ibv_import_pd(import, 0xdead));
	assert_int_equal(errno, ENOENT);

	/* A region imported by handle has the original's key, and works with it. */
	pair_open(&pair, &world, NULL);
	assert_non_null(mr = ibv_import_mr(pd, pair.mr[0]->handle));
	assert_int_equal(mr->lkey, pair.mr[0]->lkey);
	assert_int_equal(mr->length, PAIR_BUFFER);
	wr = pair_request(&pair, 0, IBV_WR_RDMA_WRITE, &sge, 0, 8);
	sge.lkey = mr->lkey;
	pair_post(&pair, 0, &wr);
	expect_completion(pair.cq[0], wr.wr_id, IBV_WC_RDMA_WRITE);
	ibv_unimport_mr(mr);
	assert_null(ibv_import_mr(pd, 0xdead));
	assert_int_equal(errno, ENOENT);
	pair_close(&pair);

	/* Objects of both may be mixed. */
	cq = ibv_create_cq(world.context, 1, NULL, NULL, 0);
	attr.send_cq = attr.recv_cq = cq;
	assert_non_null(qp = ibv_create_qp(pd, &attr));
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	ibv_unimport_pd(pd);
	assert_non_null(gone = ibv_alloc_pd(world.context));
	assert_int_equal(ibv_dealloc_pd(gone), 0);
	assert_int_equal(ibv_close_device(import), 0);
}

/* ibv_import_pd(3) says no word of order: what was made with an import may outlive it. AddressSanitizer sees what is freed too early. */
static void an_imported_domain_goes_first(void **state)
{
	struct ibv_context *import = ibv_import_device(world.context->cmd_fd);
	struct ibv_pd *original = ibv_alloc_pd(world.context), *pd, *parent;
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_ah_attr ah_attr = {.grh = {.dgid = world.gid, .sgid_index = (uint8_t)world.gid_index}, .is_global = 1, .port_num = 1};
	struct ibv_parent_domain_init_attr parent_attr = {0};
	struct ibv_cq_init_attr_ex cq_attr = {.cqe = 1, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD};
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC,
					.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_cq *cq = ibv_create_cq(world.context, 1, NULL, NULL, 0);
	struct ibv_mr *mr, *twin;
	struct ibv_mw *mw;
	struct ibv_ah *ah;
	struct ibv_qp *qp;
	struct ibv_cq_ex *cq_ex;
	static uint8_t bytes[64];

	(void)state;
	attr.send_cq = attr.recv_cq = cq;
	assert_non_null(pd = ibv_import_pd(import, original->handle));
	assert_non_null(attr.srq = ibv_create_srq(pd, &srq_attr));
	assert_non_null(qp = ibv_create_qp(pd, &attr));
	assert_non_null(mr = ibv_reg_mr(pd, bytes, sizeof(bytes), IBV_ACCESS_LOCAL_WRITE));
	assert_non_null(twin = ibv_import_mr(pd, mr->handle));
	assert_non_null(mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2));
	assert_non_null(ah = ibv_create_ah(pd, &ah_attr));
	parent_attr.pd = pd;
	assert_non_null(parent = ibv_alloc_parent_domain(import, &parent_attr));
	cq_attr.parent_domain = parent;
	assert_non_null(cq_ex = ibv_create_cq_ex(import, &cq_attr));

	ibv_unimport_pd(pd);
	assert_int_equal(ibv_close_device(import), 0);
	assert_int_equal(ibv_dealloc_pd(original), EBUSY);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq_ex)), 0);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	ibv_unimport_mr(twin);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, world.pd, NULL, 0, 0), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_srq(attr.srq), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(original), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void device_memory_is_shared(void **state)
{
	struct ibv_context *import = ibv_import_device(world.context->cmd_fd);
	struct ibv_alloc_dm_attr attr = {.length = 100};
	struct ibv_dm *dm = ibv_alloc_dm(world.context, &attr), *other;
	char bytes[4] = "abc", back[4] = "";

	(void)state;
	assert_non_null(other = ibv_import_dm(import, dm->handle));
	assert_int_equal(ibv_memcpy_to_dm(dm, 12, bytes, 4), 0);
	assert_int_equal(ibv_memcpy_from_dm(back, other, 12, 4), 0);
	assert_string_equal(back, "abc");
	assert_int_equal(ibv_free_dm(other), EINVAL);
	assert_int_equal(ibv_free_dm(dm), EBUSY);
	ibv_unimport_dm(other);
	assert_int_equal(ibv_free_dm(dm), 0);
	assert_null(ibv_import_dm(import, 0xdead));
	assert_int_equal(errno, ENOENT);
	assert_int_equal(ibv_close_device(import), 0);
}

static void nonsense_is_refused(void **state)
{
	int fd = open("/dev/zero", O_RDONLY);

	(void)state;
	assert_null(ibv_import_device(-1));
	assert_int_equal(errno, EBADF);
	assert_null(ibv_import_device(fd));
	assert_int_equal(errno, EINVAL);
	close(fd);
	ibv_unimport_pd(NULL);
	ibv_unimport_mr(NULL);
	ibv_unimport_dm(NULL);
	ibv_unimport_pd(world.pd);       /* not an import: nothing happens */
	assert_null(ibv_import_pd(NULL, 0));
	assert_null(ibv_import_mr(NULL, 0));
	assert_null(ibv_import_dm(NULL, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_import_shares_the_session),
		cmocka_unit_test(an_imported_domain_goes_first),
		cmocka_unit_test(device_memory_is_shared),
		cmocka_unit_test(nonsense_is_refused),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, open_world, close_world);
}
