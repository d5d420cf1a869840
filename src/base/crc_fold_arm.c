/* SPDX-License-Identifier: MIT
 *
 * CRC-32 by folding, for aarch64: carry-less multiplication (PMULL) carries 128 bits of remainder over the 128 bytes
 * that follow them, eight of which run side by side. Each sixteen bytes are in a register once, and on request are
 * stored from there: a copy costs hardly more than the CRC alone.
 *
 * Measured on a Neoverse V1 with 1 KiB at a time: 33 ns and with the copy 37 ns, against 58 ns and 72 ns for libdeflate
 * 1.14 and memcpy.
 *
 * How a register is carried, and by what: crc_fold_constants.c.
 *
 * This file alone is compiled for processors with these instructions (meson.build), and called on no others; and a second time for
 * those that also add three registers at once, an instruction that came with SHA-3: 29 ns then, and with the copy 34. Twice more
 * (VB_CRC_CASTAGNOLI) with the other polynomial, for base/crc32c.c.
 */
#include "base/crc_fold.h"

#ifdef VB_CRC_FOLD

#include <arm_acle.h>
#include <arm_neon.h>
#include <string.h>
#include <sys/auxv.h>

#ifndef HWCAP_PMULL
#define HWCAP_PMULL (1 << 4)
#endif
#ifndef HWCAP_CRC32
#define HWCAP_CRC32 (1 << 7)
#endif
#ifndef HWCAP_SHA3
#define HWCAP_SHA3 (1 << 17)
#endif

/* Whether it copies is a constant where it is called: without this it would be asked for every lane. */
#define INLINED static inline __attribute__((always_inline))

enum { LANE = 16, LANES = 8, STRIDE = LANE * LANES };

#ifdef VB_CRC_THREE
#define NAMED(name) FOR_POLYNOMIAL(name##_three)
#define ADD_THREE(a, b, c) veor3q_u64(a, b, c)
#else
#define NAMED(name) FOR_POLYNOMIAL(name)
#define ADD_THREE(a, b, c) veorq_u64(veorq_u64(a, b), c)
#endif

#ifdef VB_CRC_CASTAGNOLI
#define FOR_POLYNOMIAL(name) name##_castagnoli
#define CONSTANTS vb_crc_fold_constants_castagnoli
#define CRC8 __crc32cb
#define CRC32 __crc32cw
#define CRC64 __crc32cd
#else
#define FOR_POLYNOMIAL(name) name
#define CONSTANTS vb_crc_fold_constants
#define CRC8 __crc32b
#define CRC32 __crc32w
#define CRC64 __crc32d
#endif

#if !defined(VB_CRC_CASTAGNOLI) && !defined(VB_CRC_THREE)
bool vb_crc_can_fold(void)
{
	unsigned long capabilities = getauxval(AT_HWCAP);

	return (capabilities & HWCAP_PMULL) && (capabilities & HWCAP_CRC32);
}

bool vb_crc_can_add_three(void)
{
	return getauxval(AT_HWCAP) & HWCAP_SHA3;
}
#endif

INLINED uint64x2_t constant(enum vb_crc_fold which)
{
	return vld1q_u64(CONSTANTS[which]);
}

/* The sixteen bytes at `from`, which are also stored at `to` if it copies. */
INLINED uint64x2_t take(bool copies, uint8_t *to, const uint8_t *from)
{
	uint8x16_t bytes = vld1q_u8(from);

	if (copies)
		vst1q_u8(to, bytes);
	return vreinterpretq_u64_u8(bytes);
}

INLINED uint64x2_t fold(uint64x2_t a, uint64x2_t k, uint64x2_t next)
{
	poly64_t a_first = (poly64_t)vgetq_lane_u64(a, 0), k_first = (poly64_t)vgetq_lane_u64(k, 0);
	uint64x2_t first = vreinterpretq_u64_p128(vmull_p64(a_first, k_first));
	uint64x2_t second = vreinterpretq_u64_p128(vmull_high_p64(vreinterpretq_p64_u64(a), vreinterpretq_p64_u64(k)));

	return ADD_THREE(first, second, next);
}

/* Fewer than sixteen bytes. */
INLINED uint32_t finish(bool copies, uint32_t crc, uint8_t *to, const uint8_t *from, size_t length)
{
	uint64_t v64;
	uint32_t v32;

	if (copies && length > 0)
		memcpy(to, from, length);
	if (length & 8) {
		memcpy(&v64, from, 8);
		crc = CRC64(crc, v64);
		from += 8;
	}
	if (length & 4) {
		memcpy(&v32, from, 4);
		crc = CRC32(crc, v32);
		from += 4;
	}
	for (size_t left = length & 3; left > 0; left--)
		crc = CRC8(crc, *from++);
	return crc;
}

INLINED uint32_t reduce(uint64x2_t a)
{
	return CRC64(CRC64(0, vgetq_lane_u64(a, 0)), vgetq_lane_u64(a, 1));
}

/* Each lane has a name and so a register: as an array that loops go over, the lanes would live in memory at -O2, which makes it
 * no faster than libdeflate. */
#define EACH_LANE(step) step(0) step(1) step(2) step(3) step(4) step(5) step(6) step(7)
#define AT(base, i) (copies ? (base) + (i) * LANE : NULL)
#define BEGIN(i) lane##i = take(copies, AT(to, i), from + (i) * LANE);
#define ADVANCE(i) lane##i = fold(lane##i, over_stride, take(copies, AT(to, i), from + (i) * LANE));

/* Whole strides, at least two: returns what is left of the length, and moves the pointers there. */
INLINED size_t advance_strides(bool copies, uint32_t *crc, uint8_t **copy, const uint8_t **bytes, size_t length)
{
	uint64x2_t lane0, lane1, lane2, lane3, lane4, lane5, lane6, lane7, over;
	uint64x2_t over_stride = constant(VB_CRC_FOLD_1024);
	const uint8_t *from = *bytes;
	uint8_t *to = *copy;

	EACH_LANE(BEGIN)
	lane0 = veorq_u64(lane0, vsetq_lane_u64(*crc, vdupq_n_u64(0), 0));
	for (length -= STRIDE; length >= STRIDE; length -= STRIDE) {
		from += STRIDE;
		to = AT(to, LANES);
		EACH_LANE(ADVANCE)
	}
	over = constant(VB_CRC_FOLD_512);
	lane0 = fold(lane0, over, lane4);
	lane1 = fold(lane1, over, lane5);
	lane2 = fold(lane2, over, lane6);
	lane3 = fold(lane3, over, lane7);
	over = constant(VB_CRC_FOLD_256);
	lane0 = fold(lane0, over, lane2);
	lane1 = fold(lane1, over, lane3);
	*crc = reduce(fold(lane0, constant(VB_CRC_FOLD_128), lane1));
	*bytes = from + STRIDE;
	*copy = AT(to, LANES);
	return length;
}

INLINED uint32_t advance(bool copies, uint32_t crc, uint8_t *to, const uint8_t *from, size_t length)
{
	if (length >= 2 * STRIDE)
		length = advance_strides(copies, &crc, &to, &from, length);
	for (; length >= LANE; length -= LANE) {
		uint64x2_t bytes = take(copies, to, from);

		crc = CRC64(CRC64(crc, vgetq_lane_u64(bytes, 0)), vgetq_lane_u64(bytes, 1));
		from += LANE;
		to = AT(to, 1);
	}
	return finish(copies, crc, to, from, length);
}

uint32_t NAMED(vb_crc_fold)(uint32_t crc, const void *bytes, size_t length)
{
	return ~advance(false, ~crc, NULL, bytes, length);
}

uint32_t NAMED(vb_crc_fold_copy)(uint32_t crc, void *to, const void *from, size_t length)
{
	return ~advance(true, ~crc, to, from, length);
}

#ifndef VB_CRC_CASTAGNOLI
uint32_t NAMED(vb_crc_fold_words_bytes)(uint32_t crc, uint64_t first, uint32_t second, const void *bytes, size_t length)
{
	return ~advance(false, CRC32(CRC64(~crc, first), second), NULL, bytes, length);
}

uint32_t NAMED(vb_crc_fold_words_copy)(uint32_t crc, uint64_t first, uint32_t second, void *to, const void *from, size_t length)
{
	return ~advance(true, CRC32(CRC64(~crc, first), second), to, from, length);
}

uint32_t NAMED(vb_crc_fold_pair_copy)(uint32_t crc, uint64_t first, uint64_t second, void *to, const void *from, size_t length)
{
	return ~advance(true, CRC64(CRC64(~crc, first), second), to, from, length);
}

uint32_t NAMED(vb_crc_fold_words_word_copy)(uint32_t crc, uint64_t first, uint32_t second, uint64_t third, void *to,
					    const void *from, size_t length)
{
	return ~advance(true, CRC64(CRC32(CRC64(~crc, first), second), third), to, from, length);
}

uint32_t NAMED(vb_crc_fold_words_pair_copy)(uint32_t crc, uint64_t first, uint32_t second, const uint64_t pair[2], void *to,
					    const void *from, size_t length)
{
	return ~advance(true, CRC64(CRC64(CRC32(CRC64(~crc, first), second), pair[0]), pair[1]), to, from, length);
}
#endif

#endif
