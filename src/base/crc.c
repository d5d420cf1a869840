/* SPDX-License-Identifier: MIT
 *
 * CRC-32 of polynomial 0x04c11db7, reflected (bit 31 of a register is the coefficient of x^0). On aarch64 and x86-64 with the
 * instructions for it base/crc_fold_arm.c and crc_fold_x86.c compute it, elsewhere libdeflate; where that is not at hand
 * (cross builds) a plain table does.
 *
 * Rewinding. Appending one byte to two messages multiplies the difference of their CRCs by x^8 modulo the polynomial,
 * so undoing n bytes multiplies it by x^(-8n). Every packet of a peer whose IP identification we cannot see needs one
 * such multiplication: the powers for the low and the high byte of n are kept in two tables, so that any datagram
 * costs at most two multiplications whatever its length.
 */
#include "base/crc.h"

#include <pthread.h>
#include <string.h>

#include "base/crc_fold.h"

#define POLYNOMIAL 0xedb88320u
#define ONE 0x80000000u /* x^0 */

#ifdef VB_CRC_PORTABLE

static uint32_t byte_table[256];
static pthread_once_t byte_table_once = PTHREAD_ONCE_INIT;

static void fill_byte_table(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t r = i;

		for (int bit = 0; bit < 8; bit++)
			r = r >> 1 ^ (r & 1 ? POLYNOMIAL : 0);
		byte_table[i] = r;
	}
}

static uint32_t plain_crc32(uint32_t crc, const void *bytes, size_t length)
{
	const uint8_t *at = bytes, *end = at + length;

	pthread_once(&byte_table_once, fill_byte_table);
	crc = ~crc;
	while (at < end)
		crc = crc >> 8 ^ byte_table[(crc ^ *at++) & 0xff];
	return ~crc;
}

#else

#include <libdeflate.h>

static uint32_t plain_crc32(uint32_t crc, const void *bytes, size_t length)
{
	/* libdeflate takes a NULL buffer to mean "begin anew". */
	return length ? libdeflate_crc32(crc, bytes, length) : crc;
}

#endif

static uint32_t plain_crc32_copy(uint32_t crc, void *to, const void *from, size_t length)
{
	if (length == 0)
		return crc;
	memcpy(to, from, length);
	return plain_crc32(crc, to, length);
}

static uint32_t plain_crc32_words(uint32_t crc, uint64_t first, uint32_t second)
{
	uint8_t bytes[sizeof(first) + sizeof(second)];

	memcpy(bytes, &first, sizeof(first));
	memcpy(bytes + sizeof(first), &second, sizeof(second));
	return plain_crc32(crc, bytes, sizeof(bytes));
}

static uint32_t plain_crc32_words_bytes(uint32_t crc, uint64_t first, uint32_t second, const void *bytes, size_t length)
{
	return plain_crc32(plain_crc32_words(crc, first, second), bytes, length);
}

static uint32_t plain_crc32_words_copy(uint32_t crc, uint64_t first, uint32_t second, void *to, const void *from, size_t length)
{
	return plain_crc32_copy(plain_crc32_words(crc, first, second), to, from, length);
}

static uint32_t plain_crc32_pair_copy(uint32_t crc, uint64_t first, uint64_t second, void *to, const void *from, size_t length)
{
	uint64_t pair[] = {first, second};

	return plain_crc32_copy(plain_crc32(crc, pair, sizeof(pair)), to, from, length);
}

static uint32_t plain_crc32_words_word_copy(uint32_t crc, uint64_t first, uint32_t second, uint64_t third, void *to, const void *from,
					    size_t length)
{
	return plain_crc32_copy(plain_crc32(plain_crc32_words(crc, first, second), &third, sizeof(third)), to, from, length);
}

static uint32_t plain_crc32_words_pair_copy(uint32_t crc, uint64_t first, uint32_t second, const uint64_t pair[2], void *to,
					    const void *from, size_t length)
{
	return plain_crc32_pair_copy(plain_crc32_words(crc, first, second), pair[0], pair[1], to, from, length);
}

#ifdef VB_CRC_FOLD

/* Chosen once, when the library is loaded: what the processor can do is asked of itself, or of what the kernel left on the stack. */
static uint32_t (*way)(uint32_t crc, const void *bytes, size_t length) = plain_crc32;
static uint32_t (*way_to_copy)(uint32_t crc, void *to, const void *from, size_t length) = plain_crc32_copy;
static uint32_t (*way_of_words_and_bytes)(uint32_t crc, uint64_t first, uint32_t second, const void *bytes,
					  size_t length) = plain_crc32_words_bytes;
static uint32_t (*way_of_words_to_copy)(uint32_t crc, uint64_t first, uint32_t second, void *to, const void *from,
					size_t length) = plain_crc32_words_copy;
static uint32_t (*way_of_pair_to_copy)(uint32_t crc, uint64_t first, uint64_t second, void *to, const void *from,
				       size_t length) = plain_crc32_pair_copy;
static uint32_t (*way_of_words_and_word_to_copy)(uint32_t crc, uint64_t first, uint32_t second, uint64_t third, void *to,
						 const void *from, size_t length) = plain_crc32_words_word_copy;
static uint32_t (*way_of_words_and_pair_to_copy)(uint32_t crc, uint64_t first, uint32_t second, const uint64_t pair[2], void *to,
						 const void *from, size_t length) = plain_crc32_words_pair_copy;

#define GO(kind)                                                                                                                       \
	do {                                                                                                                           \
		way = vb_crc_fold##kind;                                                                                               \
		way_to_copy = vb_crc_fold_copy##kind;                                                                                  \
		way_of_words_and_bytes = vb_crc_fold_words_bytes##kind;                                                                \
		way_of_words_to_copy = vb_crc_fold_words_copy##kind;                                                                   \
		way_of_pair_to_copy = vb_crc_fold_pair_copy##kind;                                                                     \
		way_of_words_and_word_to_copy = vb_crc_fold_words_word_copy##kind;                                                     \
		way_of_words_and_pair_to_copy = vb_crc_fold_words_pair_copy##kind;                                                     \
	} while (0)

__attribute__((constructor)) static void look_at_processor(void)
{
	if (!vb_crc_can_fold())
		return;
	GO();
#ifdef VB_CRC_THREE
	if (vb_crc_can_add_three())
		GO(_three);
#endif
#ifdef VB_CRC_WIDE
	if (vb_crc_can_fold_wide())
		GO(_wide);
#endif
}

uint32_t vb_crc32(uint32_t crc, const void *bytes, size_t length)
{
	return way(crc, bytes, length);
}

uint32_t vb_crc32_copy(uint32_t crc, void *to, const void *from, size_t length)
{
	return way_to_copy(crc, to, from, length);
}

uint32_t vb_crc32_words_bytes(uint32_t crc, uint64_t first, uint32_t second, const void *bytes, size_t length)
{
	return way_of_words_and_bytes(crc, first, second, bytes, length);
}

uint32_t vb_crc32_words_copy(uint32_t crc, uint64_t first, uint32_t second, void *to, const void *from, size_t length)
{
	return way_of_words_to_copy(crc, first, second, to, from, length);
}

uint32_t vb_crc32_pair_copy(uint32_t crc, uint64_t first, uint64_t second, void *to, const void *from, size_t length)
{
	return way_of_pair_to_copy(crc, first, second, to, from, length);
}

uint32_t vb_crc32_words_word_copy(uint32_t crc, uint64_t first, uint32_t second, uint64_t third, void *to, const void *from, size_t length)
{
	return way_of_words_and_word_to_copy(crc, first, second, third, to, from, length);
}

uint32_t vb_crc32_words_pair_copy(uint32_t crc, uint64_t first, uint32_t second, const uint64_t pair[2], void *to, const void *from,
				  size_t length)
{
	return way_of_words_and_pair_to_copy(crc, first, second, pair, to, from, length);
}

#else

uint32_t vb_crc32(uint32_t crc, const void *bytes, size_t length)
{
	return plain_crc32(crc, bytes, length);
}

uint32_t vb_crc32_copy(uint32_t crc, void *to, const void *from, size_t length)
{
	return plain_crc32_copy(crc, to, from, length);
}

uint32_t vb_crc32_words_bytes(uint32_t crc, uint64_t first, uint32_t second, const void *bytes, size_t length)
{
	return plain_crc32_words_bytes(crc, first, second, bytes, length);
}

uint32_t vb_crc32_words_copy(uint32_t crc, uint64_t first, uint32_t second, void *to, const void *from, size_t length)
{
	return plain_crc32_words_copy(crc, first, second, to, from, length);
}

uint32_t vb_crc32_pair_copy(uint32_t crc, uint64_t first, uint64_t second, void *to, const void *from, size_t length)
{
	return plain_crc32_pair_copy(crc, first, second, to, from, length);
}

uint32_t vb_crc32_words_word_copy(uint32_t crc, uint64_t first, uint32_t second, uint64_t third, void *to, const void *from, size_t length)
{
	return plain_crc32_words_word_copy(crc, first, second, third, to, from, length);
}

uint32_t vb_crc32_words_pair_copy(uint32_t crc, uint64_t first, uint32_t second, const uint64_t pair[2], void *to, const void *from,
				  size_t length)
{
	return plain_crc32_words_pair_copy(crc, first, second, pair, to, from, length);
}

#endif

static uint32_t rewind_low[256];  /* x^(-8 i) */
static uint32_t rewind_high[256]; /* x^(-8 * 256 i) */
static pthread_once_t rewind_once = PTHREAD_ONCE_INIT;

static uint32_t divide_by_x(uint32_t a)
{
	return a & ONE ? (a ^ POLYNOMIAL) << 1 | 1 : a << 1;
}

static uint32_t multiply(uint32_t a, uint32_t b)
{
	uint32_t product = 0;

	/* Masks instead of branches: the bits are as good as random and would be mispredicted half of the time. */
	for (int bit = 31; bit >= 0; bit--) {
		product ^= b & (0u - (a >> bit & 1));
		b = b >> 1 ^ (POLYNOMIAL & (0u - (b & 1)));
	}
	return product;
}

static void fill_rewind_tables(void)
{
	uint32_t power = ONE;

	for (int i = 0; i < 256; i++) {
		rewind_low[i] = power;
		for (int bit = 0; bit < 8; bit++)
			power = divide_by_x(power);
	}
	rewind_high[0] = ONE;
	for (int i = 1; i < 256; i++)
		rewind_high[i] = multiply(rewind_high[i - 1], power);
}

uint32_t vb_crc32_rewind(uint32_t difference, size_t length)
{
	pthread_once(&rewind_once, fill_rewind_tables);
	while (length > 0xffff) {
		difference = multiply(multiply(difference, rewind_high[255]), rewind_low[255]);
		length -= 0xffff;
	}
	if (length >> 8)
		difference = multiply(difference, rewind_high[length >> 8]);
	return multiply(difference, rewind_low[length & 0xff]);
}
