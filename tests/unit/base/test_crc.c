/* SPDX-License-Identifier: MIT
 *
 * The CRC against a bit-by-bit one written here, and its rewinding against appending.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/crc.h"
#include "base/crc_fold.h"

enum { SEED = 20240711 };

static uint32_t random_state;

static uint32_t next_random(void)
{
	random_state = random_state * 1664525u + 1013904223u;
	return random_state ^ random_state >> 15;
}

static void fill_random(uint8_t *out, size_t length)
{
	for (size_t i = 0; i < length; i++)
		out[i] = (uint8_t)(next_random() >> 8);
}

/* Most significant bit first with explicit reflection: as unlike the tested code as can be. */
static uint32_t slow_crc(const uint8_t *bytes, size_t length)
{
	uint32_t shift = 0xffffffff, reflected = 0;

	for (size_t i = 0; i < length; i++)
		for (int bit = 0; bit < 8; bit++) {
			uint32_t in = (bytes[i] >> bit & 1) ^ shift >> 31;

			shift = shift << 1 ^ (in ? 0x04c11db7u : 0);
		}
	for (int bit = 0; bit < 32; bit++)
		reflected |= (shift >> bit & 1) << (31 - bit);
	return ~reflected;
}

static void known_values(void **state)
{
	(void)state;
	assert_int_equal(vb_crc32(0, "", 0), 0);
	assert_int_equal(vb_crc32(0, "123456789", 9), 0xcbf43926);
	assert_int_equal(vb_crc32(0, "a", 1), 0xe8b7be43);
	/* No bytes change nothing, whatever they point at. */
	assert_int_equal(vb_crc32(0x12345678, NULL, 0), 0x12345678);
}

static void agrees_with_the_slow_one(void **state)
{
	static uint8_t bytes[5000];

	(void)state;
	fill_random(bytes, sizeof(bytes));
	for (size_t length = 0; length < 300; length++)
		for (size_t offset = 0; offset < 4; offset++)
			assert_int_equal(vb_crc32(0, bytes + offset, length), slow_crc(bytes + offset, length));
	assert_int_equal(vb_crc32(0, bytes, sizeof(bytes)), slow_crc(bytes, sizeof(bytes)));
}

/* All lengths around the strides, from and to any alignment, with guards on both sides of the copy. */
static void copies_on_the_way(void **state)
{
	static uint8_t bytes[5000], to[5000];

	(void)state;
	fill_random(bytes, sizeof(bytes));
	for (size_t length = 0; length < 1100; length++)
		for (size_t offset = 0; offset < 17; offset += 1 + length % 5) {
			size_t shift = (length * 7 + offset) % 19;
			uint32_t begin = next_random();

			for (size_t i = 0; i < sizeof(to); i++)
				to[i] = 0x5a;
			assert_int_equal(vb_crc32_copy(begin, to + 32 + shift, bytes + offset, length),
					 vb_crc32(begin, bytes + offset, length));
			for (size_t i = 0; i < 1200; i++)
				assert_int_equal(to[i], i >= 32 + shift && i < 32 + shift + length ?
								bytes[offset + i - 32 - shift] : 0x5a);
		}
	assert_int_equal(vb_crc32_copy(0, to, bytes, 4099), slow_crc(bytes, 4099));
	assert_int_equal(vb_crc32_copy(77, NULL, NULL, 0), 77);
}

static void copied(uint32_t crc, uint32_t expected, uint8_t *to, const uint8_t *from, size_t length)
{
	assert_int_equal(crc, expected);
	assert_memory_equal(to, from, length);
	assert_int_equal(to[length], 0x5a);
	memset(to, 0x5a, length);
}

/* Headers in registers: twelve bytes, sixteen, twelve and eight, twelve and sixteen. */
static void begins_in_registers(void **state)
{
	static uint8_t bytes[2000], to[2000];
	uint64_t first, third, pair[2], behind[2];
	uint32_t second;

	(void)state;
	fill_random(bytes, sizeof(bytes));
	memset(to, 0x5a, sizeof(to));
	memcpy(&first, bytes, sizeof(first));
	memcpy(&second, bytes + 8, sizeof(second));
	memcpy(&third, bytes + 12, sizeof(third));
	memcpy(pair, bytes, sizeof(pair));
	memcpy(behind, bytes + 12, sizeof(behind));
	for (size_t length = 0; length < 1100; length++) {
		uint32_t crc = next_random();

		assert_int_equal(vb_crc32_words_bytes(crc, first, second, bytes + 12, length), vb_crc32(crc, bytes, 12 + length));
		copied(vb_crc32_words_copy(crc, first, second, to, bytes + 12, length), vb_crc32(crc, bytes, 12 + length), to, bytes + 12,
		       length);
		copied(vb_crc32_pair_copy(crc, pair[0], pair[1], to, bytes + 16, length), vb_crc32(crc, bytes, 16 + length), to,
		       bytes + 16, length);
		copied(vb_crc32_words_word_copy(crc, first, second, third, to, bytes + 20, length), vb_crc32(crc, bytes, 20 + length), to,
		       bytes + 20, length);
		copied(vb_crc32_words_pair_copy(crc, first, second, behind, to, bytes + 28, length), vb_crc32(crc, bytes, 28 + length), to,
		       bytes + 28, length);
	}
}

static void agrees_at_every_length(void **state)
{
	static uint8_t bytes[4400];
	uint32_t crc = 0;

	(void)state;
	fill_random(bytes, sizeof(bytes));
	/* A byte at a time takes another way through the code. */
	for (size_t length = 0; length < sizeof(bytes); length++) {
		assert_int_equal(vb_crc32(0, bytes, length), crc);
		crc = vb_crc32(crc, bytes + length, 1);
	}
	assert_int_equal(crc, slow_crc(bytes, sizeof(bytes)));
}

#ifdef VB_CRC_FOLD
/* Whichever of them this processor would use: the others work as well, if it has the instructions for that. */
struct way {
	bool (*is_there)(void);
	uint32_t (*sum)(uint32_t crc, const void *bytes, size_t length);
	uint32_t (*copy)(uint32_t crc, void *to, const void *from, size_t length);
	uint32_t (*words_bytes)(uint32_t crc, uint64_t first, uint32_t second, const void *bytes, size_t length);
	uint32_t (*words_copy)(uint32_t crc, uint64_t first, uint32_t second, void *to, const void *from, size_t length);
	uint32_t (*pair_copy)(uint32_t crc, uint64_t first, uint64_t second, void *to, const void *from, size_t length);
	uint32_t (*words_word_copy)(uint32_t crc, uint64_t first, uint32_t second, uint64_t third, void *to, const void *from,
				    size_t length);
	uint32_t (*words_pair_copy)(uint32_t crc, uint64_t first, uint32_t second, const uint64_t pair[2], void *to, const void *from,
				    size_t length);
};

#define WAY(kind, is_there)                                                                                                            \
	{                                                                                                                              \
		is_there, vb_crc_fold##kind, vb_crc_fold_copy##kind, vb_crc_fold_words_bytes##kind, vb_crc_fold_words_copy##kind,      \
			vb_crc_fold_pair_copy##kind, vb_crc_fold_words_word_copy##kind, vb_crc_fold_words_pair_copy##kind              \
	}

static const struct way ways[] = {
	WAY(, vb_crc_can_fold),
#ifdef VB_CRC_THREE
	WAY(_three, vb_crc_can_add_three),
#endif
#ifdef VB_CRC_WIDE
	WAY(_wide, vb_crc_can_fold_wide),
#endif
};

static void agrees(const struct way *way, uint32_t crc, const uint8_t *bytes, size_t length)
{
	static uint8_t to[4400];
	uint64_t first, pair[2];
	uint32_t second;

	memset(to, 0x5a, sizeof(to));
	assert_int_equal(way->sum(crc, bytes, length), vb_crc32(crc, bytes, length));
	copied(way->copy(crc, to, bytes, length), vb_crc32(crc, bytes, length), to, bytes, length);
	memcpy(&first, bytes, sizeof(first));
	memcpy(&second, bytes + 8, sizeof(second));
	memcpy(pair, bytes + 12, sizeof(pair));
	assert_int_equal(way->words_bytes(crc, first, second, bytes + 12, length), vb_crc32(crc, bytes, 12 + length));
	copied(way->words_copy(crc, first, second, to, bytes + 12, length), vb_crc32(crc, bytes, 12 + length), to, bytes + 12, length);
	copied(way->words_word_copy(crc, first, second, pair[0], to, bytes + 20, length), vb_crc32(crc, bytes, 20 + length), to, bytes + 20,
	       length);
	copied(way->words_pair_copy(crc, first, second, pair, to, bytes + 28, length), vb_crc32(crc, bytes, 28 + length), to, bytes + 28,
	       length);
	memcpy(pair, bytes, sizeof(pair));
	copied(way->pair_copy(crc, pair[0], pair[1], to, bytes + 16, length), vb_crc32(crc, bytes, 16 + length), to, bytes + 16, length);
}

static void ways_of_folding_agree(void **state)
{
	static uint8_t bytes[4400];

	(void)state;
	fill_random(bytes, sizeof(bytes));
	for (const struct way *way = ways; way < ways + sizeof(ways) / sizeof(ways[0]) && vb_crc_can_fold(); way++) {
		if (!way->is_there())
			continue;
		for (size_t length = 0; length < 1100; length++)
			agrees(way, (uint32_t)length * 2654435761u, bytes + length % 67, length);
		agrees(way, 1, bytes + 3, 4096);
		agrees(way, 2, bytes + 3, 4300);
	}
}

/* x^exponent modulo the polynomial, by multiplying with x that often. */
static uint64_t power_of_x(unsigned exponent)
{
	uint32_t power = 0x80000000u;

	while (exponent-- > 0)
		power = power >> 1 ^ (power & 1 ? 0xedb88320u : 0);
	return (uint64_t)power << 32;
}

static void constants_are_powers_of_x(void **state)
{
	static const unsigned over[VB_CRC_FOLDS] = {128, 256, 512, 1024, 2048};

	(void)state;
	for (unsigned i = 0; i < VB_CRC_FOLDS; i++) {
		assert_true(vb_crc_fold_constants[i][0] == power_of_x(over[i] + 63));
		assert_true(vb_crc_fold_constants[i][1] == power_of_x(over[i] - 1));
	}
}
#endif

static void may_be_continued(void **state)
{
	static uint8_t bytes[700];

	(void)state;
	fill_random(bytes, sizeof(bytes));
	for (size_t cut = 0; cut <= sizeof(bytes); cut++)
		assert_int_equal(vb_crc32(vb_crc32(0, bytes, cut), bytes + cut, sizeof(bytes) - cut),
				 vb_crc32(0, bytes, sizeof(bytes)));
}

/* Two messages that differ early and then go on alike: rewinding over the common rest gives back the difference. */
static void rewinding_undoes_appending(void **state)
{
	static uint8_t rest[200000];
	static const size_t lengths[] = {0, 1, 2, 3, 4, 5, 16, 255, 256, 257, 511, 512, 1058, 4150, 9000, 65506,
					 65535, 65536, 65537, 131071, 200000};

	(void)state;
	fill_random(rest, sizeof(rest));
	for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		for (int round = 0; round < 8; round++) {
			uint32_t a = next_random(), b = next_random();
			uint32_t difference = vb_crc32(a, rest, lengths[i]) ^ vb_crc32(b, rest, lengths[i]);

			assert_int_equal(vb_crc32_rewind(difference, lengths[i]), a ^ b);
		}
	for (size_t length = 0; length < 1100; length++) {
		uint32_t a = next_random();

		assert_int_equal(vb_crc32_rewind(vb_crc32(a, rest, length) ^ vb_crc32(0, rest, length), length), a);
	}
}

/* What the ICRC check uses: rewound over the differing bytes too, the first bytes of the difference are theirs. */
static void rewinding_finds_the_bytes_that_differ(void **state)
{
	uint8_t message[64], other[64];

	(void)state;
	for (int round = 0; round < 1000; round++) {
		uint32_t rewound;

		fill_random(message, sizeof(message));
		for (unsigned i = 0; i < sizeof(other); i++)
			other[i] = message[i];
		other[10] ^= (uint8_t)next_random();
		other[11] ^= (uint8_t)next_random();
		rewound = vb_crc32_rewind(vb_crc32(0, message, 64) ^ vb_crc32(0, other, 64), 64 - 10);
		assert_int_equal(rewound & 0xff, message[10] ^ other[10]);
		assert_int_equal(rewound >> 8, message[11] ^ other[11]);
	}
}

static void no_difference_stays_none(void **state)
{
	(void)state;
	for (size_t length = 0; length < 70000; length += 997)
		assert_int_equal(vb_crc32_rewind(0, length), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_values),
		cmocka_unit_test(agrees_with_the_slow_one),
		cmocka_unit_test(agrees_at_every_length),
		cmocka_unit_test(copies_on_the_way),
		cmocka_unit_test(begins_in_registers),
#ifdef VB_CRC_FOLD
		cmocka_unit_test(ways_of_folding_agree),
		cmocka_unit_test(constants_are_powers_of_x),
#endif
		cmocka_unit_test(may_be_continued),
		cmocka_unit_test(rewinding_undoes_appending),
		cmocka_unit_test(rewinding_finds_the_bytes_that_differ),
		cmocka_unit_test(no_difference_stays_none),
	};

	random_state = SEED;
	print_message("seed %d\n", SEED);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
