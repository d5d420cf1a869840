/* SPDX-License-Identifier: MIT
 *
 * CRC-32C against the vectors of RFC 3720 B.4 and a bit-by-bit one written here, at every length, and with its copy.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/crc32c.h"
#include "base/crc_fold.h"

static uint32_t random_state = 20240712;

static void fill_random(uint8_t *out, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		random_state = random_state * 1664525u + 1013904223u;
		out[i] = (uint8_t)(random_state >> 16);
	}
}

/* Most significant bit first with explicit reflection: as unlike the tested code as can be. */
static uint32_t slow_crc(const uint8_t *bytes, size_t length)
{
	uint32_t shift = 0xffffffff, reflected = 0;

	for (size_t i = 0; i < length; i++)
		for (int bit = 0; bit < 8; bit++) {
			uint32_t in = (bytes[i] >> bit & 1) ^ shift >> 31;

			shift = shift << 1 ^ (in ? 0x1edc6f41u : 0);
		}
	for (int bit = 0; bit < 32; bit++)
		reflected |= (shift >> bit & 1) << (31 - bit);
	return ~reflected;
}

static void known_values(void **state)
{
	uint8_t bytes[32];

	(void)state;
	assert_int_equal(vb_crc32c(0, "123456789", 9), 0xe3069283);
	memset(bytes, 0, sizeof(bytes));
	assert_int_equal(vb_crc32c(0, bytes, 32), 0x8a9136aa);
	memset(bytes, 0xff, sizeof(bytes));
	assert_int_equal(vb_crc32c(0, bytes, 32), 0x62a8ab43);
	for (uint8_t i = 0; i < 32; i++)
		bytes[i] = i;
	assert_int_equal(vb_crc32c(0, bytes, 32), 0x46dd794e);
	for (uint8_t i = 0; i < 32; i++)
		bytes[i] = (uint8_t)(31 - i);
	assert_int_equal(vb_crc32c(0, bytes, 32), 0x113fdb5c);
	assert_int_equal(vb_crc32c(0x12345678, bytes, 0), 0x12345678);
}

static void agrees_with_the_slow_one(void **state)
{
	static uint8_t bytes[5000];

	(void)state;
	fill_random(bytes, sizeof(bytes));
	for (size_t length = 0; length < 1700; length++)
		for (size_t offset = 0; offset < 3; offset++)
			assert_int_equal(vb_crc32c(0, bytes + offset, length), slow_crc(bytes + offset, length));
	assert_int_equal(vb_crc32c(0, bytes, sizeof(bytes)), slow_crc(bytes, sizeof(bytes)));
}

static void may_be_continued(void **state)
{
	static uint8_t bytes[1700];

	(void)state;
	fill_random(bytes, sizeof(bytes));
	for (size_t cut = 0; cut <= sizeof(bytes); cut++)
		assert_int_equal(vb_crc32c(vb_crc32c(0, bytes, cut), bytes + cut, sizeof(bytes) - cut), vb_crc32c(0, bytes, sizeof(bytes)));
}

/* Lengths around the strides, from and to any alignment, with guards on both sides of the copy. */
static void copies_on_the_way(void **state)
{
	static uint8_t bytes[3000], to[3000];

	(void)state;
	fill_random(bytes, sizeof(bytes));
	for (size_t length = 0; length < 1700; length++) {
		size_t offset = length % 17, shift = 32 + length * 7 % 19;

		memset(to, 0x5a, sizeof(to));
		assert_int_equal(vb_crc32c_copy((uint32_t)length, to + shift, bytes + offset, length),
				 vb_crc32c((uint32_t)length, bytes + offset, length));
		assert_memory_equal(to + shift, bytes + offset, length);
		assert_int_equal(to[shift - 1], 0x5a);
		assert_int_equal(to[shift + length], 0x5a);
	}
}

#ifdef VB_CRC_FOLD_CASTAGNOLI
/* x^exponent modulo the polynomial, by multiplying with x that often. */
static uint64_t power_of_x(unsigned exponent)
{
	uint32_t power = 0x80000000u;

	while (exponent-- > 0)
		power = power >> 1 ^ (power & 1 ? 0x82f63b78u : 0);
	return (uint64_t)power << 32;
}

static void constants_are_powers_of_x(void **state)
{
	static const unsigned over[VB_CRC_FOLDS] = {128, 256, 512, 1024, 2048};

	(void)state;
	for (unsigned i = 0; i < VB_CRC_FOLDS; i++) {
		assert_true(vb_crc_fold_constants_castagnoli[i][0] == power_of_x(over[i] + 63));
		assert_true(vb_crc_fold_constants_castagnoli[i][1] == power_of_x(over[i] - 1));
	}
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_values),
		cmocka_unit_test(agrees_with_the_slow_one),
		cmocka_unit_test(may_be_continued),
		cmocka_unit_test(copies_on_the_way),
#ifdef VB_CRC_FOLD_CASTAGNOLI
		cmocka_unit_test(constants_are_powers_of_x),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
