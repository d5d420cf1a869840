/* SPDX-License-Identifier: MIT
 *
 * Scatter/gather lists against a flat copy: every offset and length, elements of length 0, lists that end too soon.
 */
#include "fixture.h"

enum { TOTAL = 24, QPN = 3 };

struct world {
	struct fixture f;
	struct vb_memory *memory;
	struct vb_pd pd;
	uint8_t a[16], b[16], c[16];
	struct ibv_sge list[5];
	struct vb_fault_record why;
};

static void element(struct ibv_sge *sge, const uint8_t *at, uint32_t length, uint32_t key)
{
	*sge = (struct ibv_sge){.addr = (uintptr_t)at, .length = length, .lkey = key};
}

/* 5 + 0 + 16 + 0 + 3 = 24 bytes in pieces at odd places. */
static int set_up(void **state)
{
	static struct world w;

	memset(&w, 0, sizeof(w));
	w.memory = fixture_memory(&w.f, 11, 16);
	element(&w.list[0], w.a + 3, 5, fixture_register(w.memory, &w.pd, w.a, 16, IBV_ACCESS_LOCAL_WRITE));
	element(&w.list[1], NULL, 0, 0xbad);
	element(&w.list[2], w.b, 16, fixture_register(w.memory, &w.pd, w.b, 16, IBV_ACCESS_LOCAL_WRITE));
	element(&w.list[3], w.b, 0, 0xbad);
	element(&w.list[4], w.c + 13, 3, fixture_register(w.memory, &w.pd, w.c, 16, IBV_ACCESS_LOCAL_WRITE));
	*state = &w;
	return 0;
}

static int tear_down(void **state)
{
	vb_memory_destroy(((struct world *)*state)->memory);
	return 0;
}

static uint8_t *byte_of(struct world *w, unsigned offset)
{
	return offset < 5 ? &w->a[3 + offset] : offset < 21 ? &w->b[offset - 5] : &w->c[13 + offset - 21];
}

static void scatter_equals_a_flat_copy(void **state)
{
	struct world *w = *state;
	uint8_t from[TOTAL], back[TOTAL];

	for (unsigned i = 0; i < TOTAL; i++)
		from[i] = (uint8_t)(i + 1);
	for (unsigned offset = 0; offset <= TOTAL; offset++)
		for (unsigned length = 0; offset + length <= TOTAL; length++) {
			memset(w->a, 0, 16);
			memset(w->b, 0, 16);
			memset(w->c, 0, 16);
			assert_true(vb_memory_scatter(w->memory, &w->pd, QPN, w->list, 5, offset, from, length,
						      &w->why));
			for (unsigned i = 0; i < TOTAL; i++)
				assert_int_equal(*byte_of(w, i),
						 i >= offset && i < offset + length ? from[i - offset] : 0);
			assert_int_equal(w->a[2] | w->a[8] | w->c[12], 0);
			assert_true(vb_memory_gather(w->memory, &w->pd, QPN, w->list, 5, offset, back, length,
						     &w->why));
			assert_memory_equal(back, from, length);
		}
}

static void a_list_that_ends_too_soon(void **state)
{
	struct world *w = *state;
	uint8_t bytes[TOTAL + 1] = {0};
	struct iovec spans[5];
	struct vb_hold holds[5];

	assert_false(vb_memory_scatter(w->memory, &w->pd, QPN, w->list, 5, 0, bytes, TOTAL + 1, &w->why));
	assert_int_equal(w->why.fault, VB_FAULT_LOCAL_LENGTH);
	assert_false(vb_memory_gather(w->memory, &w->pd, QPN, w->list, 5, TOTAL, bytes, 1, &w->why));
	assert_int_equal(w->why.fault, VB_FAULT_LOCAL_LENGTH);
	assert_false(vb_memory_gather(w->memory, &w->pd, QPN, NULL, 0, 0, bytes, 1, &w->why));
	assert_int_equal(w->why.fault, VB_FAULT_LOCAL_LENGTH);
	assert_int_equal(vb_memory_gather_spans(w->memory, &w->pd, QPN, w->list, 5, UINT64_MAX, 1, spans, holds, 5,
						&w->why), -1);
	assert_int_equal(w->why.fault, VB_FAULT_LOCAL_LENGTH);
	assert_true(vb_memory_scatter(w->memory, &w->pd, QPN, NULL, 0, 0, NULL, 0, &w->why));
}

static void spans_point_into_the_regions(void **state)
{
	struct world *w = *state;
	struct iovec spans[5];
	struct vb_hold holds[5];
	struct vb_region_info null_info = {.kind = VB_REGION_NULL_MR, .pd = &w->pd};

	assert_int_equal(vb_memory_gather_spans(w->memory, &w->pd, QPN, w->list, 5, 2, 20, spans, holds, 5, &w->why), 3);
	assert_ptr_equal(spans[0].iov_base, w->a + 5);
	assert_int_equal(spans[0].iov_len, 3);
	assert_ptr_equal(spans[1].iov_base, w->b);
	assert_int_equal(spans[1].iov_len, 16);
	assert_ptr_equal(spans[2].iov_base, w->c + 13);
	assert_int_equal(spans[2].iov_len, 1);
	vb_memory_let_go_all(holds, 3);
	assert_int_equal(vb_memory_gather_spans(w->memory, &w->pd, QPN, w->list, 5, 2, 20, spans, holds, 2, &w->why), 0);
	assert_int_equal(vb_region_register(w->memory, &null_info, &w->list[2].lkey), 0);
	assert_int_equal(vb_memory_gather_spans(w->memory, &w->pd, QPN, w->list, 5, 2, 20, spans, holds, 5, &w->why), 0);
	w->list[2].lkey ^= 1;
	assert_int_equal(vb_memory_gather_spans(w->memory, &w->pd, QPN, w->list, 5, 2, 20, spans, holds, 5, &w->why), -1);
	assert_int_equal(w->why.fault, VB_FAULT_KEY_UNKNOWN);
}

static void each_element_is_checked(void **state)
{
	struct world *w = *state;
	uint8_t bytes[TOTAL] = {0};

	assert_true(vb_memory_check_list(w->memory, &w->pd, QPN, w->list, 5, IBV_ACCESS_LOCAL_WRITE, &w->why));
	w->list[4].length = 4;
	assert_false(vb_memory_check_list(w->memory, &w->pd, QPN, w->list, 5, 0, &w->why));
	assert_int_equal(w->why.fault, VB_FAULT_RANGE);
	/* Untouched elements are not looked at while copying. */
	assert_true(vb_memory_gather(w->memory, &w->pd, QPN, w->list, 5, 0, bytes, 21, &w->why));
	w->list[4].length = 3;
	w->list[4].lkey = fixture_register(w->memory, &w->pd, w->c, 16, 0);
	assert_true(vb_memory_check_list(w->memory, &w->pd, QPN, w->list, 5, 0, &w->why));
	assert_false(vb_memory_check_list(w->memory, &w->pd, QPN, w->list, 5, IBV_ACCESS_LOCAL_WRITE, &w->why));
	assert_int_equal(w->why.fault, VB_FAULT_RIGHTS);
	assert_false(vb_memory_scatter(w->memory, &w->pd, QPN, w->list, 5, 0, bytes, TOTAL, &w->why));
	assert_int_equal(w->why.fault, VB_FAULT_RIGHTS);
	assert_true(vb_memory_gather(w->memory, &w->pd, QPN, w->list, 5, 0, bytes, TOTAL, &w->why));
}

int main(void)
{
#define LIST_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		LIST_TEST(scatter_equals_a_flat_copy),
		LIST_TEST(a_list_that_ends_too_soon),
		LIST_TEST(spans_point_into_the_regions),
		LIST_TEST(each_element_is_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
