/* SPDX-License-Identifier: MIT
 *
 * Objects of each kind until no more are given: as many as ibv_query_device promises, then the errno of the kind. All are given
 * back, and once more as many can be had; the second time costs neither descriptors nor memory that the first did not.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/descriptors.h"
#include "lib/one_world.h"
#include "lib/private_network.h"
#include "lib/resident.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
/* Kinds with a hundred thousand and more take minutes there; as many others must do. */
enum { ENOUGH = 1 << 14, IS_SANITIZED = 1 };
#else
enum { ENOUGH = 1 << 20, IS_SANITIZED = 0 };
#endif
enum { MOST = (1 << 20) + 1, DESCRIPTORS = 200, XRC_DOMAINS = 10000, MAY_GROW = 1 << 20 };

static void **objects;
static uint8_t bytes[4096] __attribute__((aligned(4096)));
static struct ibv_cq *cq;
static struct ibv_wq *wq;

static size_t resident(void)
{
	malloc_trim(0);
	return resident_bytes("/proc/self");
}

/* ---- one of each kind ---- */

static void *make_pd(void)
{
	return ibv_alloc_pd(world.context);
}

static int end_pd(void *object)
{
	return ibv_dealloc_pd(object);
}

static void *make_mr(void)
{
	return ibv_reg_mr(world.pd, bytes, sizeof(bytes), IBV_ACCESS_LOCAL_WRITE);
}

static int end_mr(void *object)
{
	return ibv_dereg_mr(object);
}

static void *make_mw(void)
{
	return ibv_alloc_mw(world.pd, IBV_MW_TYPE_2);
}

static int end_mw(void *object)
{
	return ibv_dealloc_mw(object);
}

static void *make_cq(void)
{
	return ibv_create_cq(world.context, 1, NULL, NULL, 0);
}

static int end_cq(void *object)
{
	return ibv_destroy_cq(object);
}

static void *make_srq(void)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 1, .max_sge = 1}};

	return ibv_create_srq(world.pd, &attr);
}

static int end_srq(void *object)
{
	return ibv_destroy_srq(object);
}

static void *make_qp(void)
{
	struct ibv_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = {1, 1, 1, 1, 0}};

	return ibv_create_qp(world.pd, &attr);
}

static int end_qp(void *object)
{
	return ibv_destroy_qp(object);
}

static void *make_wq(void)
{
	struct ibv_wq_init_attr attr = {.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = world.pd, .cq = cq};

	return ibv_create_wq(world.context, &attr);
}

static int end_wq(void *object)
{
	return ibv_destroy_wq(object);
}

static void *make_table(void)
{
	struct ibv_rwq_ind_table_init_attr attr = {.ind_tbl = &wq};

	return ibv_create_rwq_ind_table(world.context, &attr);
}

static int end_table(void *object)
{
	return ibv_destroy_rwq_ind_table(object);
}

static void *make_ah(void)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = world.gid, .sgid_index = (uint8_t)world.gid_index}};

	return ibv_create_ah(world.pd, &attr);
}

static int end_ah(void *object)
{
	return ibv_destroy_ah(object);
}

static void *make_dm(void)
{
	struct ibv_alloc_dm_attr attr = {.length = 4096};

	return ibv_alloc_dm(world.context, &attr);
}

static int end_dm(void *object)
{
	return ibv_free_dm(object);
}

static void *make_channel(void)
{
	return ibv_create_comp_channel(world.context);
}

static int end_channel(void *object)
{
	return ibv_destroy_comp_channel(object);
}

static void *make_xrcd(void)
{
	struct ibv_xrcd_init_attr attr = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};

	return ibv_open_xrcd(world.context, &attr);
}

static int end_xrcd(void *object)
{
	return ibv_close_xrcd(object);
}

struct kind {
	void *(*make)(void);
	int (*end)(void *object);
	unsigned most;                   /* 0: nobody said */
	int error;                       /* of one more */
	unsigned others;                 /* there already */
};

/* Returns how many there were. */
static unsigned exhaust(const struct kind *kind, unsigned limit)
{
	unsigned count = 0;

	for (errno = 0; count < limit && (objects[count] = kind->make()) != NULL; errno = 0)
		count++;
	if (count < limit) {
		assert_int_equal(errno, kind->error);
		/* Nor does it change. */
		assert_null(kind->make());
		assert_int_equal(errno, kind->error);
	}
	/* Every other one first, so that neither end is always the one that is free. */
	for (unsigned i = 0; i < count; i += 2)
		assert_int_equal(kind->end(objects[i]), 0);
	for (unsigned i = 1; i < count; i += 2)
		assert_int_equal(kind->end(objects[i]), 0);
	return count;
}

static void exhaust_twice(const struct kind *kind, unsigned limit)
{
	unsigned first = exhaust(kind, limit), descriptors = count_descriptors();
	size_t before = resident(), after;

	if (kind->most)
		assert_int_equal(first, kind->most - kind->others < limit ? kind->most - kind->others : limit);
	assert_true(first > 0);
	assert_int_equal(exhaust(kind, limit), first);
	assert_int_equal(count_descriptors(), descriptors);
	after = resident();
	if (!IS_SANITIZED && after > before + MAY_GROW)
		fail_msg("%u objects, twice: %zu bytes, then %zu", first, before, after);
}

/* ---- tests ---- */

static struct ibv_device_attr_ex promised(void)
{
	struct ibv_device_attr_ex attr;

	assert_int_equal(ibv_query_device_ex(world.context, NULL, &attr), 0);
	return attr;
}

static void protection_domains(void **state)
{
	(void)state;
	exhaust_twice(&(struct kind){make_pd, end_pd, (unsigned)promised().orig_attr.max_pd, ENOMEM, 1}, ENOUGH);
}

static void memory_regions(void **state)
{
	(void)state;
	exhaust_twice(&(struct kind){make_mr, end_mr, (unsigned)promised().orig_attr.max_mr, ENOMEM, 0}, ENOUGH);
}

static void memory_windows(void **state)
{
	(void)state;
	exhaust_twice(&(struct kind){make_mw, end_mw, (unsigned)promised().orig_attr.max_mw, ENOMEM, 0}, ENOUGH);
}

static void completion_queues(void **state)
{
	(void)state;
	exhaust_twice(&(struct kind){make_cq, end_cq, (unsigned)promised().orig_attr.max_cq, ENOMEM, 0}, ENOUGH);
}

static void shared_receive_queues(void **state)
{
	(void)state;
	exhaust_twice(&(struct kind){make_srq, end_srq, (unsigned)promised().orig_attr.max_srq, ENOMEM, 0}, ENOUGH);
}

static void queue_pairs(void **state)
{
	(void)state;
	cq = make_cq();
	assert_non_null(cq);
	exhaust_twice(&(struct kind){make_qp, end_qp, (unsigned)promised().orig_attr.max_qp, ENOMEM, 0}, ENOUGH);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void work_queues_and_tables(void **state)
{
	(void)state;
	cq = make_cq();
	assert_non_null(cq);
	exhaust_twice(&(struct kind){make_wq, end_wq, promised().max_wq_type_rq, ENOMEM, 0}, ENOUGH);
	wq = make_wq();
	assert_non_null(wq);
	exhaust_twice(&(struct kind){make_table, end_table, promised().rss_caps.max_rwq_indirection_tables, ENOMEM, 0}, ENOUGH);
	assert_int_equal(ibv_destroy_wq(wq), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void address_handles(void **state)
{
	(void)state;
	exhaust_twice(&(struct kind){make_ah, end_ah, (unsigned)promised().orig_attr.max_ah, ENOMEM, 0}, ENOUGH);
}

static void device_memory(void **state)
{
	(void)state;
	exhaust_twice(&(struct kind){make_dm, end_dm, (unsigned)(promised().max_dm_size / 4096), ENOMEM, 0}, ENOUGH);
}

/* Each has descriptors of its own. */
static void completion_channels(void **state)
{
	struct rlimit before, few;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = (struct rlimit){DESCRIPTORS, before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	/* What the C library needs to count them. */
	exhaust(&(struct kind){make_channel, end_channel, 0, EMFILE, 0}, ENOUGH);
	exhaust_twice(&(struct kind){make_channel, end_channel, 0, EMFILE, 0}, ENOUGH);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

/* Nothing but memory limits these. */
static void xrc_domains(void **state)
{
	(void)state;
	exhaust_twice(&(struct kind){make_xrcd, end_xrcd, 0, ENOMEM, 0}, XRC_DOMAINS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(protection_domains),
		cmocka_unit_test(memory_regions),
		cmocka_unit_test(memory_windows),
		cmocka_unit_test(completion_queues),
		cmocka_unit_test(shared_receive_queues),
		cmocka_unit_test(queue_pairs),
		cmocka_unit_test(work_queues_and_tables),
		cmocka_unit_test(address_handles),
		cmocka_unit_test(device_memory),
		cmocka_unit_test(completion_channels),
		cmocka_unit_test(xrc_domains),
	};

	private_network_enter();
	objects = calloc(MOST, sizeof(*objects));
	return objects ? cmocka_run_group_tests(tests, open_world, close_world) : 1;
}
