/* SPDX-License-Identifier: MIT
 *
 * Which devices a program sees, and in which order: VERBENA_TRANSPORT and VERBENA_DEVICES.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "progress/devices.h"

/* Of what verbenad lists: one of each kind for each interface. The names of those chosen, joined. `down` are the interfaces that are. */
static const char *chosen_while(const char *down, const char *transports, const char *wanted)
{
	static const char *const names[] = {"roce_a", "iwarp_a", "roce_b", "iwarp_b", "roce_lo", "iwarp_lo"};
	static char text[6 * 64 + 6];
	struct vb_device_info list[6] = {0};
	unsigned count;

	for (unsigned i = 0; i < 6; i++) {
		snprintf(list[i].name, sizeof(list[i].name), "%s", names[i]);
		list[i].kind = i % 2 == 0 ? VB_DEVICE_ROCE : VB_DEVICE_IWARP;
		list[i].state = strchr(down, strchr(names[i], '_')[1]) ? IBV_PORT_DOWN : IBV_PORT_ACTIVE;
	}
	count = vb_devices_choose(list, 6, transports, wanted);
	text[0] = '\0';
	for (unsigned i = 0; i < count; i++) {
		strcat(text, i > 0 ? " " : "");
		strcat(text, list[i].name);
	}
	return text;
}

static const char *chosen(const char *transports, const char *wanted)
{
	return chosen_while("", transports, wanted);
}

static void roce_unless_something_else_is_said(void **state)
{
	(void)state;
	assert_string_equal(chosen(NULL, NULL), "roce_a roce_b roce_lo");
	assert_string_equal(chosen("", ""), "roce_a roce_b roce_lo");
	assert_string_equal(chosen("roce", NULL), "roce_a roce_b roce_lo");
	assert_string_equal(chosen("iwarp", NULL), "iwarp_a iwarp_b iwarp_lo");
}

static void kinds_come_in_the_order_of_preference(void **state)
{
	(void)state;
	assert_string_equal(chosen("roce,iwarp", NULL), "roce_a roce_b roce_lo iwarp_a iwarp_b iwarp_lo");
	assert_string_equal(chosen("iwarp,roce", NULL), "iwarp_a iwarp_b iwarp_lo roce_a roce_b roce_lo");
	/* Said twice, or not known. */
	assert_string_equal(chosen("iwarp,iwarp", NULL), "iwarp_a iwarp_b iwarp_lo");
	assert_string_equal(chosen("iwar,rocee,ro", NULL), "");
	assert_string_equal(chosen("token-ring,iwarp", NULL), "iwarp_a iwarp_b iwarp_lo");
}

static void devices_are_chosen_by_name(void **state)
{
	(void)state;
	assert_string_equal(chosen(NULL, "roce_b"), "roce_b");
	assert_string_equal(chosen(NULL, "iwarp_lo,roce_b"), "roce_b iwarp_lo");
	assert_string_equal(chosen("iwarp", "iwarp_lo,roce_b"), "iwarp_lo");
	assert_string_equal(chosen("roce", "iwarp_lo"), "");
}

/* A program that takes the first one takes one that works. */
static void those_that_are_down_come_last(void **state)
{
	(void)state;
	assert_string_equal(chosen_while("a", NULL, NULL), "roce_b roce_lo roce_a");
	assert_string_equal(chosen_while("ab", NULL, NULL), "roce_lo roce_a roce_b");
	assert_string_equal(chosen_while("a", "roce,iwarp", NULL), "roce_b roce_lo iwarp_b iwarp_lo roce_a iwarp_a");
	assert_string_equal(chosen_while("a", NULL, "roce_a,iwarp_b"), "iwarp_b roce_a");
	assert_string_equal(chosen_while("abl", NULL, NULL), "roce_a roce_b roce_lo");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(roce_unless_something_else_is_said),
		cmocka_unit_test(kinds_come_in_the_order_of_preference),
		cmocka_unit_test(devices_are_chosen_by_name),
		cmocka_unit_test(those_that_are_down_come_last),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
