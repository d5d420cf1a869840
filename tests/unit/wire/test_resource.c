/* SPDX-License-Identifier: MIT
 *
 * Lists of resources: what was added comes back; a list has an end; one that somebody damaged is refused and never read
 * past its end.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/resource.h"

static const void *make_list(struct vb_resource_list *list, size_t *length)
{
	const struct vb_resource_device device = {.name = "roce_eth0", .interface_index = 2, .session = 1};
	const struct vb_resource_qp qp = {.qpn = 0x123456, .state = 3, .send_psn = 77, .interface_index = 2};
	const struct vb_resource_cm_id id = {.number = 9, .state = "LISTENING"};
	const void *bytes;

	vb_resource_list_init(list);
	vb_resource_list_add(list, VB_RESOURCE_DEVICE, &device);
	vb_resource_list_add(list, VB_RESOURCE_QP, &qp);
	vb_resource_list_add(list, VB_RESOURCE_CM_ID, &id);
	bytes = vb_resource_list_finish(list, length);
	assert_non_null(bytes);
	return bytes;
}

static void rows_come_back(void **state)
{
	struct vb_resource_list list;
	union vb_resource resource;
	uint32_t left_out = 9;
	size_t length, at;
	const void *bytes = make_list(&list, &length);

	(void)state;
	assert_int_equal(vb_resource_begin(bytes, length, &at, &left_out), 0);
	assert_int_equal(left_out, 0);
	assert_int_equal(vb_resource_next(bytes, length, &at, &resource), VB_RESOURCE_DEVICE);
	assert_string_equal(resource.device.name, "roce_eth0");
	assert_int_equal(vb_resource_next(bytes, length, &at, &resource), VB_RESOURCE_QP);
	assert_int_equal(resource.qp.qpn, 0x123456);
	assert_int_equal(resource.qp.send_psn, 77);
	assert_int_equal(vb_resource_next(bytes, length, &at, &resource), VB_RESOURCE_CM_ID);
	assert_string_equal(resource.cm_id.state, "LISTENING");
	assert_int_equal(vb_resource_next(bytes, length, &at, &resource), VB_RESOURCE_END);
	assert_int_equal(vb_resource_next(bytes, length, &at, &resource), VB_RESOURCE_END);
	vb_resource_list_fini(&list);
}

static void an_empty_list_is_one(void **state)
{
	struct vb_resource_list list;
	union vb_resource resource;
	uint32_t left_out;
	size_t length, at;
	const void *bytes;

	(void)state;
	vb_resource_list_init(&list);
	bytes = vb_resource_list_finish(&list, &length);
	assert_int_equal(length, sizeof(struct vb_resource_head));
	assert_int_equal(vb_resource_begin(bytes, length, &at, &left_out), 0);
	assert_int_equal(vb_resource_next(bytes, length, &at, &resource), VB_RESOURCE_END);
	vb_resource_list_fini(&list);
}

/* More rows than there is room for are counted. */
static void the_rest_is_counted(void **state)
{
	const struct vb_resource_pd pd = {.number = 1};
	const uint32_t row = sizeof(struct vb_resource_row) + sizeof(pd);
	const uint32_t fit = (VB_RESOURCE_MOST_BYTES - sizeof(struct vb_resource_head)) / row;
	struct vb_resource_list list;
	union vb_resource resource;
	uint32_t left_out, rows = 0;
	size_t length, at;
	const void *bytes;

	(void)state;
	vb_resource_list_init(&list);
	for (uint32_t i = 0; i < fit + 1000; i++)
		vb_resource_list_add(&list, VB_RESOURCE_PD, &pd);
	bytes = vb_resource_list_finish(&list, &length);
	assert_int_equal(vb_resource_begin(bytes, length, &at, &left_out), 0);
	while (vb_resource_next(bytes, length, &at, &resource) == VB_RESOURCE_PD)
		rows++;
	assert_int_equal(rows, fit);
	assert_int_equal(left_out, 1000);
	vb_resource_list_fini(&list);
}

/* Everything up to a row's end, or an error; never a byte more. The copy is exactly as long, for the sanitizer. */
static int read_all(const void *bytes, size_t length)
{
	uint8_t *copy = malloc(length ? length : 1);
	union vb_resource resource;
	uint32_t left_out;
	size_t at;
	int kind;

	memcpy(copy, bytes, length);
	kind = vb_resource_begin(copy, length, &at, &left_out);
	if (kind == 0)
		while ((kind = vb_resource_next(copy, length, &at, &resource)) > 0)
			assert_true(at <= length);
	free(copy);
	return kind;
}

static void damaged_lists_are_refused(void **state)
{
	struct vb_resource_list list;
	struct vb_resource_row row;
	size_t length, first = sizeof(struct vb_resource_head);
	const void *bytes = make_list(&list, &length);
	uint8_t *damaged = malloc(length + 8);
	struct vb_resource_head head;

	(void)state;
	for (size_t cut = 0; cut < length; cut++)
		assert_int_equal(read_all(bytes, cut), -EPROTO);
	/* Also when the head agrees with the cut, but where a row ends there. */
	for (size_t cut = first + 1; cut < first + sizeof(row) + sizeof(struct vb_resource_device); cut++) {
		memcpy(damaged, bytes, length);
		memcpy(&head, damaged, sizeof(head));
		head.length = (uint32_t)cut;
		memcpy(damaged, &head, sizeof(head));
		assert_int_equal(read_all(damaged, cut), -EPROTO);
	}
	const uint32_t wrong[] = {0, 1, 7, 8, 79, 81, 0x7fffffff, 0xffffffff};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		memcpy(damaged, bytes, length);
		row = (struct vb_resource_row){.kind = VB_RESOURCE_DEVICE, .length = wrong[i]};
		memcpy(damaged + first, &row, sizeof(row));
		assert_int_equal(read_all(damaged, length), -EPROTO);
	}
	memcpy(damaged, bytes, length);
	damaged[0] ^= 1;
	assert_int_equal(read_all(damaged, length), -EPROTO);
	free(damaged);
	vb_resource_list_fini(&list);
}

/* Kinds of a later release are passed over; text that would do things to a terminal does not. */
static void strange_rows_do_no_harm(void **state)
{
	struct vb_resource_list list;
	union vb_resource resource;
	struct vb_resource_row row = {.kind = 99, .length = sizeof(row) + sizeof(struct vb_resource_device)};
	size_t length, at, first = sizeof(struct vb_resource_head);
	const void *bytes = make_list(&list, &length);
	uint8_t *strange = malloc(length);
	uint32_t left_out;

	(void)state;
	memcpy(strange, bytes, length);
	memcpy(strange + first, &row, sizeof(row));
	assert_int_equal(vb_resource_begin(strange, length, &at, &left_out), 0);
	assert_int_equal(vb_resource_next(strange, length, &at, &resource), VB_RESOURCE_QP);

	memcpy(strange, bytes, length);
	memset(strange + first + sizeof(row), 0x1b, sizeof(resource.device.name));
	assert_int_equal(vb_resource_begin(strange, length, &at, &left_out), 0);
	assert_int_equal(vb_resource_next(strange, length, &at, &resource), VB_RESOURCE_DEVICE);
	assert_int_equal(strlen(resource.device.name), sizeof(resource.device.name) - 1);
	assert_int_equal(strspn(resource.device.name, "?"), sizeof(resource.device.name) - 1);
	free(strange);
	vb_resource_list_fini(&list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_come_back),
		cmocka_unit_test(an_empty_list_is_one),
		cmocka_unit_test(the_rest_is_counted),
		cmocka_unit_test(damaged_lists_are_refused),
		cmocka_unit_test(strange_rows_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
