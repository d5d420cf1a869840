/* SPDX-License-Identifier: MIT
 *
 * How ULPDUs stand in the stream (RFC 5044 4): FPDUs without markers. The CRC is there in any case, and 0 where it is not in use.
 *
 *   0              2       2 + n         a multiple of 4
 *   ULPDU_Length | ULPDU | 0-3 zeros   | CRC32C of all before, least significant byte first
 */
#ifndef VB_WIRE_FPDU_H
#define VB_WIRE_FPDU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	VB_FPDU_LENGTH_FIELD = 2,
	VB_FPDU_CRC_LENGTH = 4,
	VB_FPDU_MOST_TRAILER = 3 + VB_FPDU_CRC_LENGTH,
	VB_FPDU_LONGEST_ULPDU = 0xffff,
	VB_FPDU_LONGEST = (VB_FPDU_LENGTH_FIELD + VB_FPDU_LONGEST_ULPDU + 3) / 4 * 4 + VB_FPDU_CRC_LENGTH,
	/* Of what we send. */
	VB_MULPDU_LEAST = 128,
	VB_MULPDU_MOST = 64768,
	VB_MULPDU_LARGE = (32 << 10) + 18, /* to a peer that welcomes FPDUs longer than a segment */
};

static inline uint32_t vb_fpdu_pad(uint32_t ulpdu_length)
{
	return -(VB_FPDU_LENGTH_FIELD + ulpdu_length) & 3;
}

static inline uint32_t vb_fpdu_length(uint32_t ulpdu_length)
{
	return VB_FPDU_LENGTH_FIELD + ulpdu_length + vb_fpdu_pad(ulpdu_length) + VB_FPDU_CRC_LENGTH;
}

/* The longest ULPDU whose FPDU fits a TCP segment of `emss` bytes (RFC 5044 5.1). */
uint32_t vb_fpdu_mulpdu(uint32_t emss);

static inline void vb_fpdu_put_length(uint8_t *bytes, uint32_t ulpdu_length)
{
	bytes[0] = (uint8_t)(ulpdu_length >> 8);
	bytes[1] = (uint8_t)ulpdu_length;
}

static inline uint32_t vb_fpdu_get_length(const uint8_t *bytes)
{
	return (uint32_t)bytes[0] << 8 | bytes[1];
}

/* Pad and CRC at `bytes`, where the ULPDU ended; `crc` over all before them. Returns how many bytes these are. */
uint32_t vb_fpdu_put_trailer(uint8_t *bytes, uint32_t ulpdu_length, uint32_t crc, bool crc_is_used);
uint32_t vb_fpdu_get_crc(const uint8_t bytes[VB_FPDU_CRC_LENGTH]);

#endif
