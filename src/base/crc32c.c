/* SPDX-License-Identifier: MIT
 *
 * CRC-32C of polynomial 0x1edc6f41, reflected. On aarch64 base/crc_fold_arm.c computes it, on x86-64 the instruction of SSE4.2, where this
 * processor has them; elsewhere eight tables do.
 */
#include "base/crc32c.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/crc_fold.h"

#define POLYNOMIAL 0x82f63b78u

/* table[k][b]: of byte b with k zeros behind it. Eight bytes at a time are eight looks side by side. */
enum { SLICES = 8 };
static uint32_t table[SLICES][256];
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static void fill_table(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t r = i;

		for (int bit = 0; bit < 8; bit++)
			r = r >> 1 ^ (r & 1 ? POLYNOMIAL : 0);
		table[0][i] = r;
	}
	for (int k = 1; k < SLICES; k++)
		for (uint32_t i = 0; i < 256; i++)
			table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 0xff];
}

static uint32_t portable(uint32_t crc, const uint8_t *at, size_t length)
{
	pthread_once(&table_once, fill_table);
	crc = ~crc;
	for (; length >= SLICES; length -= SLICES, at += SLICES)
		crc = table[7][(crc ^ at[0]) & 0xff] ^ table[6][(crc >> 8 ^ at[1]) & 0xff] ^ table[5][(crc >> 16 ^ at[2]) & 0xff] ^
		      table[4][(crc >> 24 ^ at[3]) & 0xff] ^ table[3][at[4]] ^ table[2][at[5]] ^ table[1][at[6]] ^ table[0][at[7]];
	for (; length > 0; length--)
		crc = crc >> 8 ^ table[0][(crc ^ *at++) & 0xff];
	return ~crc;
}

static uint32_t plain(uint32_t crc, const void *bytes, size_t length)
{
	return portable(crc, bytes, length);
}

static uint32_t plain_copy(uint32_t crc, void *to, const void *from, size_t length)
{
	if (length == 0)
		return crc;
	memcpy(to, from, length);
	return portable(crc, to, length);
}

/* Chosen once, when the library is loaded. */
static uint32_t (*way)(uint32_t crc, const void *bytes, size_t length) = plain;
static uint32_t (*way_to_copy)(uint32_t crc, void *to, const void *from, size_t length) = plain_copy;

#if defined(VB_CRC_FOLD_CASTAGNOLI)

__attribute__((constructor)) static void look_at_processor(void)
{
	if (!vb_crc_can_fold())
		return;
	way = vb_crc_fold_castagnoli;
	way_to_copy = vb_crc_fold_copy_castagnoli;
#ifdef VB_CRC_THREE
	if (vb_crc_can_add_three()) {
		way = vb_crc_fold_three_castagnoli;
		way_to_copy = vb_crc_fold_copy_three_castagnoli;
	}
#endif
}

#elif defined(__x86_64__) && !defined(VB_CRC_PORTABLE)

/* An instruction takes eight bytes, and its result is there three cycles later: three parts of PART bytes are taken side by side.
 * behind[k][b]: what byte k of a remainder becomes with PART zeros behind it. */
enum { PART = 256, PARTS = 3 };
static uint32_t behind[4][256];

static uint32_t with_zeros(uint32_t crc)
{
	return behind[0][crc & 0xff] ^ behind[1][crc >> 8 & 0xff] ^ behind[2][crc >> 16 & 0xff] ^ behind[3][crc >> 24];
}

/* It is linear: of the 32 bits one by one, and then of bytes. */
__attribute__((target("sse4.2"))) static void fill_behind(void)
{
	for (unsigned k = 0; k < 4; k++) {
		for (unsigned bit = 0; bit < 8; bit++) {
			uint64_t sum = (uint64_t)1 << (8 * k + bit);

			for (unsigned i = 0; i < PART; i += 8)
				sum = __builtin_ia32_crc32di(sum, 0);
			behind[k][1u << bit] = (uint32_t)sum;
		}
		for (unsigned b = 1; b < 256; b++)
			behind[k][b] = behind[k][b & -b] ^ behind[k][b & (b - 1)];
	}
}

/* `to` NULL: without a copy. */
__attribute__((target("sse4.2"))) static inline uint64_t take_word(uint64_t sum, uint8_t *to, const uint8_t *from)
{
	uint64_t word;

	memcpy(&word, from, sizeof(word));
	if (to)
		memcpy(to, &word, sizeof(word));
	return __builtin_ia32_crc32di(sum, word);
}

__attribute__((target("sse4.2"))) static inline uint32_t by_instruction(uint32_t crc, uint8_t *to, const uint8_t *from, size_t length)
{
	uint64_t sum = ~crc;

	for (; length >= PARTS * PART; length -= PARTS * PART, from += PARTS * PART, to = to ? to + PARTS * PART : NULL) {
		uint64_t second = 0, third = 0;

		for (unsigned i = 0; i < PART; i += 8) {
			sum = take_word(sum, to ? to + i : NULL, from + i);
			second = take_word(second, to ? to + PART + i : NULL, from + PART + i);
			third = take_word(third, to ? to + 2 * PART + i : NULL, from + 2 * PART + i);
		}
		sum = with_zeros(with_zeros((uint32_t)sum) ^ (uint32_t)second) ^ third;
	}
	for (; length >= 8; length -= 8, from += 8, to = to ? to + 8 : NULL)
		sum = take_word(sum, to, from);
	for (; length > 0; length--, from++) {
		if (to)
			*to++ = *from;
		sum = __builtin_ia32_crc32qi((uint32_t)sum, *from);
	}
	return ~(uint32_t)sum;
}

__attribute__((target("sse4.2"))) static uint32_t quick(uint32_t crc, const void *bytes, size_t length)
{
	return by_instruction(crc, NULL, bytes, length);
}

__attribute__((target("sse4.2"))) static uint32_t quick_copy(uint32_t crc, void *to, const void *from, size_t length)
{
	return by_instruction(crc, to, from, length);
}

__attribute__((constructor)) static void look_at_processor(void)
{
	__builtin_cpu_init();
	if (!__builtin_cpu_supports("sse4.2"))
		return;
	fill_behind();
	way = quick;
	way_to_copy = quick_copy;
}

#endif

uint32_t vb_crc32c(uint32_t crc, const void *bytes, size_t length)
{
	return way(crc, bytes, length);
}

uint32_t vb_crc32c_copy(uint32_t crc, void *to, const void *from, size_t length)
{
	return way_to_copy(crc, to, from, length);
}
