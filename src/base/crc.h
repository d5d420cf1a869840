/* SPDX-License-Identifier: MIT
 *
 * CRC-32 (the polynomial of Ethernet and of the RoCE invariant CRC), reflected, as in zlib.
 */
#ifndef VB_BASE_CRC_H
#define VB_BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

/* Continue `crc` (0 to begin) over `length` bytes. */
uint32_t vb_crc32(uint32_t crc, const void *bytes, size_t length);
/* The same while copying the bytes; the two places do not overlap. */
uint32_t vb_crc32_copy(uint32_t crc, void *to, const void *from, size_t length);
/* The same over twelve bytes that are in registers, as if they were loaded from memory, and then bytes in memory; */
uint32_t vb_crc32_words_bytes(uint32_t crc, uint64_t first, uint32_t second, const void *bytes, size_t length);
/* then bytes that are copied. */
uint32_t vb_crc32_words_copy(uint32_t crc, uint64_t first, uint32_t second, void *to, const void *from, size_t length);
/* The same with sixteen. */
uint32_t vb_crc32_pair_copy(uint32_t crc, uint64_t first, uint64_t second, void *to, const void *from, size_t length);
/* The same with twelve, then eight; */
uint32_t vb_crc32_words_word_copy(uint32_t crc, uint64_t first, uint32_t second, uint64_t third, void *to, const void *from, size_t length);
/* with twelve, then sixteen. */
uint32_t vb_crc32_words_pair_copy(uint32_t crc, uint64_t first, uint32_t second, const uint64_t pair[2], void *to, const void *from,
				  size_t length);

/* CRC is linear: two equally long messages that differ only in some bytes have CRCs that differ by
 * a value determined by those bytes and by how many bytes follow them. Given the difference of the
 * two CRCs, undo `length` following (equal) bytes. */
uint32_t vb_crc32_rewind(uint32_t difference, size_t length);

#endif
