/* SPDX-License-Identifier: MIT
 *
 * Every allocation of the create paths fails once: the Nth, for all N until a run needs fewer. Each failure must be
 * -ENOMEM (or NULL), leave nothing behind and nothing counted, and the same call must succeed when memory is back.
 *
 * The linker sends malloc and calloc here (--wrap); what is outstanding is counted, so a leak shows without a
 * sanitizer.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "profiles/profile.h"
#include "memory/region.h"
#include "queue/qp.h"
#include "queue/wq.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void __real_free(void *pointer);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void __wrap_free(void *pointer);

static bool watching;
static long outstanding;
static unsigned allocations, fail_at;    /* fail_at 0: none */

static bool fails_now(void)
{
	return watching && ++allocations == fail_at;
}

void *__wrap_malloc(size_t size)
{
	void *pointer = fails_now() ? NULL : __real_malloc(size);

	if (watching && pointer)
		outstanding++;
	return pointer;
}

void *__wrap_calloc(size_t count, size_t size)
{
	void *pointer = fails_now() ? NULL : __real_calloc(count, size);

	if (watching && pointer)
		outstanding++;
	return pointer;
}

void __wrap_free(void *pointer)
{
	if (watching && pointer)
		outstanding--;
	__real_free(pointer);
}

/* One create path: run it once, undo it if it worked. Returns 0 or -errno. */
typedef int (*attempt)(void);

static void fail_each_allocation(attempt run, unsigned at_least)
{
	unsigned n = 0;
	int result;

	do {
		watching = true;
		outstanding = 0;
		allocations = 0;
		fail_at = ++n;
		result = run();
		watching = false;
		assert_int_equal(outstanding, 0);
		if (allocations >= n)
			assert_int_equal(result, -ENOMEM);
		else
			assert_int_equal(result, 0);
	} while (allocations >= n);
	/* The last run failed nothing: it made n - 1 allocations. */
	assert_true(n - 1 >= at_least);
}

static void no_cq_event(struct vb_cq *cq)
{
	(void)cq;
}

static const struct vb_queue_host host = {.profile = &vb_profile_roce, .completion_event = no_cq_event};
static const struct vb_transport transport = {.name = "none", .engine_size = 128};
static struct vb_pd pd;
static struct vb_cq cq;

static int create_cq(void)
{
	struct vb_cq other;
	int rc = vb_cq_init(&other, &host, NULL, 100);

	if (rc == 0)
		vb_cq_fini(&other);
	return rc;
}

static int resize_cq(void)
{
	uint32_t before = cq.capacity;
	int rc = vb_cq_resize(&cq, before * 2);

	assert_int_equal(cq.capacity, rc == 0 ? before * 2 : before);
	/* Back to the ring that was allocated unwatched, so that what is outstanding stays balanced. */
	if (rc == 0) {
		vb_cq_fini(&cq);
		watching = false;
		assert_int_equal(vb_cq_init(&cq, &host, NULL, 16), 0);
		watching = true;
		outstanding++; /* the unwatched ring was freed while watching */
	} else {
		struct vb_completion completion = {.wr_id = 1};
		struct ibv_wc wc;

		assert_true(vb_cq_push(&cq, &completion));
		assert_int_equal(vb_cq_poll(&cq, 1, &wc), 1);
	}
	return rc;
}

static int create_srq(void)
{
	struct vb_srq srq;
	struct ibv_srq_attr attr = {.max_wr = 50, .max_sge = 2};
	int rc = vb_srq_init(&srq, &host, NULL, &pd, &attr);

	if (rc == 0)
		vb_srq_fini(&srq);
	assert_int_equal(pd.users, 0);
	return rc;
}

static int resize_srq(void)
{
	struct vb_srq srq;
	struct ibv_srq_attr attr = {.max_wr = 50, .max_sge = 2}, back;
	int rc = vb_srq_init(&srq, &host, NULL, &pd, &attr);

	if (rc != 0)
		return rc;
	attr.max_wr = 100;
	attr.srq_limit = 60;
	rc = vb_srq_modify(&srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT);
	vb_srq_query(&srq, &back);
	assert_int_equal(back.max_wr, rc == 0 ? 100 : 50);
	assert_int_equal(back.srq_limit, rc == 0 ? 60 : 0);
	vb_srq_fini(&srq);
	return rc;
}

static int create_qp(void)
{
	struct vb_qp_config config = {
		.type = IBV_QPT_RC, .pd = &pd, .send_cq = &cq, .recv_cq = &cq, .qpn = 5,
		.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct vb_qp *qp;
	int rc = vb_qp_create(&config, &host, &transport, NULL, &qp);

	if (rc == 0) {
		assert_int_equal(pd.users, 1);
		vb_qp_destroy(qp);
	}
	assert_int_equal(pd.users, 0);
	assert_int_equal(cq.users, 0);
	return rc;
}

/* A work queue, a table of it, and a queue pair over that. */
static int create_scaled(void)
{
	const struct vb_wq_config queue = {.pd = &pd, .cq = &cq, .max_wr = 16, .max_sge = 1, .number = 6};
	struct vb_qp_config config = {.type = IBV_QPT_RAW_PACKET, .pd = &pd, .qpn = 5};
	struct vb_rss rss = {.fields = IBV_RX_HASH_SRC_IPV4};
	struct vb_wq wq, *entries[] = {&wq, &wq};
	struct vb_qp *qp;
	int rc = vb_wq_init(&wq, &host, NULL, &queue);

	if (rc != 0)
		return rc;
	rss.table = vb_rss_table_create(entries, 2);
	rc = rss.table ? 0 : -ENOMEM;
	config.rss = &rss;
	if (rc == 0)
		rc = vb_qp_create(&config, &host, &transport, NULL, &qp);
	if (rc == 0)
		vb_qp_destroy(qp);
	if (rss.table) {
		assert_int_equal(rss.table->users, 0);
		vb_rss_table_destroy(rss.table);
	}
	assert_int_equal(wq.receives.users, 0);
	vb_wq_fini(&wq);
	assert_int_equal(pd.users, 0);
	assert_int_equal(cq.users, 0);
	return rc;
}

static uint32_t seven(void *context)
{
	(void)context;
	return 7;
}

static int register_region(void)
{
	struct vb_memory_host memory_host = {.random = seven};
	struct vb_memory *memory = vb_memory_create(&memory_host, 2048);
	struct vb_region_info info = {.kind = VB_REGION_MR, .pd = &pd};
	uint32_t keys[600], made = 0;
	int rc = 0;

	if (!memory)
		return -ENOMEM;
	/* Enough for a second chunk of slots. */
	while (made < 600 && rc == 0) {
		rc = vb_region_register(memory, &info, &keys[made]);
		made += rc == 0;
	}
	assert_int_equal(pd.users, made);
	assert_int_equal(vb_memory_count(memory, VB_REGION_MR), made);
	if (rc != 0) {
		/* It was only short of memory: the next one works. */
		unsigned saved = fail_at;

		fail_at = 0;
		assert_int_equal(vb_region_register(memory, &info, &keys[made]), 0);
		made++;
		fail_at = saved;
	}
	while (made > 0)
		assert_int_equal(vb_region_deregister(memory, keys[--made]), 0);
	vb_memory_destroy(memory);
	assert_int_equal(pd.users, 0);
	return rc;
}

static int allocate_window(void)
{
	struct vb_memory_host memory_host = {.random = seven};
	struct vb_memory *memory = vb_memory_create(&memory_host, 16);
	uint32_t key;
	int rc;

	if (!memory)
		return -ENOMEM;
	rc = vb_window_allocate(memory, VB_REGION_MW_TYPE_1, &pd, &key);
	if (rc == 0)
		assert_int_equal(vb_window_deallocate(memory, key), 0);
	vb_memory_destroy(memory);
	assert_int_equal(pd.users, 0);
	return rc;
}

static int open_cq(void **state)
{
	(void)state;
	return vb_cq_init(&cq, &host, NULL, 16);
}

static int close_cq(void **state)
{
	(void)state;
	vb_cq_fini(&cq);
	return 0;
}

#define FAULT_TEST(name, at_least)                          \
	static void name##_survives(void **state)           \
	{                                                   \
		(void)state;                                \
		fail_each_allocation(name, at_least);       \
	}

FAULT_TEST(create_cq, 1)
FAULT_TEST(resize_cq, 1)
FAULT_TEST(create_srq, 1)
FAULT_TEST(resize_srq, 2)
FAULT_TEST(create_qp, 3)
FAULT_TEST(create_scaled, 4)
FAULT_TEST(register_region, 4)
FAULT_TEST(allocate_window, 3)

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name##_survives, open_cq, close_cq)
	const struct CMUnitTest tests[] = {
		TEST(create_cq), TEST(resize_cq), TEST(create_srq), TEST(resize_srq),
		TEST(create_qp), TEST(create_scaled), TEST(register_region), TEST(allocate_window),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
