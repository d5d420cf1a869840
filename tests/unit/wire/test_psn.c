/* SPDX-License-Identifier: MIT
 *
 * Sequence numbers around the wrap, RNR and acknowledge timer codes, MTU codes, GIDs: the small arithmetic of the wire.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "wire/mtu.h"
#include "wire/path.h"
#include "wire/psn.h"
#include "wire/rnr_timer.h"

static void psn_wraps_at_24_bits(void **state)
{
	(void)state;
	assert_int_equal(psn_of(0x1234567).v, 0x234567);
	assert_int_equal(psn_add(psn_of(0xffffff), 1).v, 0);
	assert_int_equal(psn_add(psn_of(0xfffff0), 0x20).v, 0x10);
	assert_int_equal(psn_add(psn_of(5), 0u - 6).v, 0xffffff);
	assert_true(psn_equal(psn_of(0x1000005), psn_of(5)));
}

/* Every base and step, by arithmetic that never wraps. */
static void psn_distance_is_signed(void **state)
{
	static const uint32_t bases[] = {0, 1, 0x7fffff, 0x800000, 0x800001, 0xfffffe, 0xffffff, 0x123456};
	static const int32_t steps[] = {0, 1, -1, 2, -2, 1000, -1000, 0x7fffff, -0x7fffff, -0x800000};

	(void)state;
	for (unsigned b = 0; b < sizeof(bases) / sizeof(bases[0]); b++)
		for (unsigned s = 0; s < sizeof(steps) / sizeof(steps[0]); s++) {
			uint32_t moved = (uint32_t)(((int64_t)bases[b] + steps[s] + 0x1000000) % 0x1000000);

			assert_int_equal(psn_distance(psn_of(moved), psn_of(bases[b])), steps[s]);
			assert_int_equal(psn_before(psn_of(moved), psn_of(bases[b])), steps[s] < 0);
		}
}

/* IBA table 45, in milliseconds as printed there. */
static void rnr_timers_are_the_specification_s(void **state)
{
	static const double milliseconds[32] = {
		655.36, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.16, 0.24, 0.32, 0.48, 0.64, 0.96, 1.28, 1.92,
		2.56, 3.84, 5.12, 7.68, 10.24, 15.36, 20.48, 30.72, 40.96, 61.44, 81.92, 122.88, 163.84, 245.76, 327.68,
		491.52,
	};

	(void)state;
	for (unsigned code = 0; code < 32; code++) {
		vb_time exact = (vb_time)(milliseconds[code] * 1e6 + 0.5);

		assert_true(vb_rnr_timer_delay((uint8_t)code) == exact);
		/* The three syndrome bits above do not matter. */
		assert_true(vb_rnr_timer_delay((uint8_t)(code | 0x20)) == exact);
	}
	assert_true(vb_rnr_timer_delay(25) == 61440000);
}

static void ack_timeouts_double(void **state)
{
	vb_time expected = 4096;

	(void)state;
	assert_true(vb_local_ack_timeout(0) == VB_TIME_NEVER);
	for (uint8_t code = 1; code < 32; code++) {
		expected *= 2;
		assert_true(vb_local_ack_timeout(code) == expected);
	}
	assert_true(vb_local_ack_timeout(14) == 67108864);       /* the usual one: 67 ms */
	assert_true(vb_local_ack_timeout(31) == 8796093022208);  /* 2.4 hours */
}

static void mtu_codes(void **state)
{
	static const struct { unsigned code; uint32_t bytes; } list[] = {
		{1, 256}, {2, 512}, {3, 1024}, {4, 2048}, {5, 4096},
	};

	(void)state;
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(vb_mtu_bytes(list[i].code), list[i].bytes);
		assert_int_equal(vb_mtu_code(list[i].bytes), list[i].code);
		assert_int_equal(vb_mtu_code(list[i].bytes + 1), list[i].code);
		assert_int_equal(vb_mtu_code(list[i].bytes - 1), list[i].code - 1);
	}
	assert_int_equal(vb_mtu_bytes(0), 0);
	assert_int_equal(vb_mtu_bytes(6), 0);
	assert_int_equal(vb_mtu_bytes(0xffffffff), 0);
	assert_int_equal(vb_mtu_code(0), 0);
	assert_int_equal(vb_mtu_code(0xffffffff), 5);
}

static void gids_say_what_they_are(void **state)
{
	static const struct {
		uint8_t gid[16];
		bool ipv4, multicast, travels_as_ipv4;
	} list[] = {
		{{[10] = 0xff, 0xff, 192, 0, 2, 1}, true, false, true},
		{{[10] = 0xff, 0xff, 127, 0, 0, 1}, true, false, true},
		{{[10] = 0xff, 0xff, 223, 255, 255, 255}, true, false, true},
		{{[10] = 0xff, 0xff, 224, 0, 0, 1}, true, true, true},
		{{[10] = 0xff, 0xff, 239, 1, 2, 3}, true, true, true},
		{{[10] = 0xff, 0xff, 240, 0, 0, 1}, true, false, true},
		{{0xff, 0x0e, [10] = 0xff, 0xff, 239, 1, 2, 3}, false, true, true},
		{{0xff, 0x0e, [10] = 0xff, 0xff, 192, 1, 2, 3}, false, true, false},
		{{0xff, 0x02, [10] = 0xff, 0xff, 239, 1, 2, 3}, false, true, false},
		{{0xff, 0x02, [15] = 1}, false, true, false},
		{{0x20, 0x01, 0x0d, 0xb8, [15] = 1}, false, false, false},
		{{0xfe, 0x80, [10] = 0xff, 0xff, 1, 2, 3, 4}, false, false, false},
		{{0}, false, false, false},
		{{[15] = 1}, false, false, false},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
		struct vb_path path;

		memset(&path, 0, sizeof(path));
		memcpy(path.destination, list[i].gid, 16);
		assert_int_equal(vb_gid_is_ipv4(list[i].gid), list[i].ipv4);
		assert_int_equal(vb_gid_is_multicast(list[i].gid), list[i].multicast);
		assert_int_equal(vb_path_is_ipv4(&path), list[i].travels_as_ipv4);
		vb_gid_canonical(path.destination);
		assert_int_equal(vb_gid_is_ipv4(path.destination), list[i].travels_as_ipv4);
		assert_int_equal(vb_gid_is_multicast(path.destination), list[i].multicast);
		if (!vb_gid_is_ipv4_group_alias(list[i].gid))
			assert_memory_equal(path.destination, list[i].gid, 16);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(psn_wraps_at_24_bits),
		cmocka_unit_test(psn_distance_is_signed),
		cmocka_unit_test(rnr_timers_are_the_specification_s),
		cmocka_unit_test(ack_timeouts_double),
		cmocka_unit_test(mtu_codes),
		cmocka_unit_test(gids_say_what_they_are),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
