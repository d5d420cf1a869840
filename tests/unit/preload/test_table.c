/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "preload/sockets/table.h"

static void what_is_set_is_found(void **state)
{
	static struct vb_fd_table table = {.lock = VB_MUTEX_INITIALIZER(VB_RANK_SOCKETS_TABLE)};
	static const int fds[] = {0, 7, 1023, 1024, 5000, VB_FD_TABLE_PAGE * VB_FD_TABLE_PAGES - 1};
	const size_t count = sizeof(fds) / sizeof(fds[0]);
	int objects[6], at = 0;

	(void)state;
	assert_int_equal(vb_fd_table_next(&table, 0), -1);
	for (size_t i = 0; i < count; i++) {
		assert_null(vb_fd_table_look(&table, fds[i]));
		assert_int_equal(vb_fd_table_set(&table, fds[i], &objects[i]), 0);
		assert_ptr_equal(vb_fd_table_look(&table, fds[i]), &objects[i]);
	}
	for (size_t i = 0; i < count; i++, at++) {
		at = vb_fd_table_next(&table, at);
		assert_int_equal(at, fds[i]);
	}
	assert_int_equal(vb_fd_table_next(&table, at), -1);
	assert_int_equal(vb_fd_table_set(&table, 1024, NULL), 0);
	assert_null(vb_fd_table_look(&table, 1024));
	assert_int_equal(vb_fd_table_next(&table, 1024), 5000);
	for (size_t i = 0; i < VB_FD_TABLE_PAGES; i++)
		free(table.pages[i]);
}

static void numbers_that_cannot_be_are_not_there(void **state)
{
	static struct vb_fd_table table = {.lock = VB_MUTEX_INITIALIZER(VB_RANK_SOCKETS_TABLE)};

	(void)state;
	assert_null(vb_fd_table_look(&table, -1));
	assert_null(vb_fd_table_look(&table, INT32_MAX));
	assert_int_equal(vb_fd_table_set(&table, -1, &table), -EMFILE);
	assert_int_equal(vb_fd_table_set(&table, INT32_MAX, &table), -EMFILE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_set_is_found),
		cmocka_unit_test(numbers_that_cannot_be_are_not_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
