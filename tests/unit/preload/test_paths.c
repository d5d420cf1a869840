/* SPDX-License-Identifier: MIT
 *
 * Which paths lead into a view, and where: neighbours of its places stay the kernel's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "preload/paths.h"

static const char root[] = "/run/v";

static void places_lead_into_the_view(void **state)
{
	static const struct { const char *path, *expected; } rows[] = {
		{"/sys/class/infiniband", "/run/v/sys/class/infiniband"},
		{"/sys/class/infiniband/", "/run/v/sys/class/infiniband/"},
		{"/sys/class/infiniband/roce_lo/ports/1/state", "/run/v/sys/class/infiniband/roce_lo/ports/1/state"},
		{"//sys/./class//infiniband/roce_lo/.", "/run/v/sys/class/infiniband/roce_lo/."},
		{"/sys/class/infiniband_verbs/uverbs1", "/run/v/sys/class/infiniband_verbs/uverbs1"},
		{"/sys/devices/virtual/infiniband_mad/umad0", "/run/v/sys/devices/virtual/infiniband_mad/umad0"},
		{"/sys/class/infiniband_mad/abi_version", "/run/v/sys/class/infiniband_mad/abi_version"},
		{"/sys/devices/virtual/infiniband/roce_lo", "/run/v/sys/devices/virtual/infiniband/roce_lo"},
		{"/sys/devices/virtual/verbena/f000:01:00.0/class", "/run/v/sys/devices/virtual/verbena/f000:01:00.0/class"},
		{"/dev/infiniband/uverbs1", "/run/v/dev/infiniband/uverbs1"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char found[VB_PRELOAD_PATH_ROOM];

		assert_true(vb_preload_path_may_lead_into_view(rows[i].path));
		assert_true(vb_preload_path_enter(root, rows[i].path, found));
		assert_string_equal(found, rows[i].expected);
	}
}

static void others_do_not(void **state)
{
	static const char *const rows[] = {
		"", "/", "/sys", "/sys/class", "/sys/class/net/eth0", "/sys/class/infiniband_srp", "/sys/class/infinibands/x",
		"/dev/infiniband2", "/home/me/sys/class/infiniband", "sys/class/infiniband", "/sys/devices/virtual/net/lo",
		"/sys/devices/virtual/verbenas",
	};
	char found[VB_PRELOAD_PATH_ROOM] = "untouched";

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_false(vb_preload_path_enter(root, rows[i], found));
	assert_string_equal(found, "untouched");
	assert_false(vb_preload_path_may_lead_into_view(NULL));
	assert_false(vb_preload_path_may_lead_into_view("/etc/passwd"));
}

/* One byte less than there is room for passes, one more does not. */
static void what_is_too_long_passes_by(void **state)
{
	static const char place[] = "/dev/infiniband/";
	char path[2 * VB_PRELOAD_PATH_ROOM], found[VB_PRELOAD_PATH_ROOM];
	size_t fits = VB_PRELOAD_PATH_ROOM - strlen(root) - 1;

	(void)state;
	for (size_t length = fits - 1; length < sizeof(path); length++) {
		memset(path, 'x', length);
		memcpy(path, place, strlen(place));
		path[length] = '\0';
		assert_int_equal(vb_preload_path_enter(root, path, found), length <= fits);
	}
}

static void names_come_back(void **state)
{
	char inside[] = "/run/v/sys/devices/virtual/infiniband/roce_lo", beside[] = "/run/views/x", self[] = "/run/v";

	(void)state;
	assert_true(vb_preload_path_leave(root, inside));
	assert_string_equal(inside, "/sys/devices/virtual/infiniband/roce_lo");
	assert_false(vb_preload_path_leave(root, beside));
	assert_string_equal(beside, "/run/views/x");
	assert_false(vb_preload_path_leave(root, self));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(places_lead_into_the_view),
		cmocka_unit_test(others_do_not),
		cmocka_unit_test(what_is_too_long_passes_by),
		cmocka_unit_test(names_come_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
