/* SPDX-License-Identifier: MIT
 *
 * The permutation behind keys: nothing is lost in it, every bit of the secret counts, and the regularity by which a Feistel
 * network of few rounds is told from chance is not there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "memory/key.h"

enum { HALVES = 4096 };

static const struct vb_key_secret secret = {{UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)}};

static void the_permutation_loses_nothing(void **state)
{
	uint8_t *seen = calloc(1 << 24, 1);
	unsigned twice = 0, not_inverted = 0;

	(void)state;
	assert_non_null(seen);
	/* All of them would take seconds. */
	for (uint32_t i = 0; i < 1u << 24; i += i < 1 << 16 ? 1 : 61) {
		uint32_t scrambled = vb_key_scramble(&secret, i);

		assert_true(scrambled < 1u << 24);
		twice += seen[scrambled]++;
		not_inverted += vb_key_unscramble(&secret, scrambled) != i;
	}
	assert_int_equal(twice, 0);
	assert_int_equal(not_inverted, 0);
	free(seen);
}

/* Two indices with the same right half. After four Feistel rounds the left halves of the results differ just as those of the indices
 * twice as often as by chance: by chance, and where the second round collides (Patarin, 1991). Of 8,386,560 pairs 2,047.5 do by
 * chance, give or take 45. A peer who sees that knows bits of keys that it was not given. */
static void few_rounds_would_show(void **state)
{
	static uint32_t left[HALVES];

	(void)state;
	for (uint32_t right = 0; right < 3; right++) {
		unsigned alike = 0;

		for (uint32_t i = 0; i < HALVES; i++)
			left[i] = vb_key_scramble(&secret, i << 12 | right) >> 12;
		for (uint32_t i = 0; i < HALVES; i++)
			for (uint32_t j = 0; j < i; j++)
				alike += (left[i] ^ left[j]) == (i ^ j);
		print_message("right half %u: %u pairs\n", right, alike);
		assert_true(alike > 1800 && alike < 2300);
	}
}

static void every_bit_of_the_secret_counts(void **state)
{
	(void)state;
	for (unsigned bit = 0; bit < 128; bit++) {
		struct vb_key_secret other = secret;
		unsigned same = 0;

		other.half[bit / 64] ^= UINT64_C(1) << bit % 64;
		for (uint32_t i = 0; i < 256; i++)
			same += vb_key_scramble(&other, i) == vb_key_scramble(&secret, i);
		assert_true(same <= 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_permutation_loses_nothing),
		cmocka_unit_test(few_rounds_would_show),
		cmocka_unit_test(every_bit_of_the_secret_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
