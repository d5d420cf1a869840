/* SPDX-License-Identifier: MIT
 *
 * CRC-32 with the carry-less multiplication of aarch64 and x86-64, for base/crc.c alone: where VB_CRC_FOLD is defined it may be
 * there, and vb_crc_can_fold says whether it is. The same for CRC-32C, for base/crc32c.c, on aarch64: VB_CRC_FOLD_CASTAGNOLI.
 */
#ifndef VB_BASE_CRC_FOLD_H
#define VB_BASE_CRC_FOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef VB_CRC_PORTABLE
/* Neither. */
#elif defined(__aarch64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define VB_CRC_FOLD
#define VB_CRC_FOLD_CASTAGNOLI
#elif defined(__x86_64__)
#define VB_CRC_FOLD
#endif

/* Over so many bits. */
enum vb_crc_fold { VB_CRC_FOLD_128, VB_CRC_FOLD_256, VB_CRC_FOLD_512, VB_CRC_FOLD_1024, VB_CRC_FOLD_2048, VB_CRC_FOLDS };
extern const uint64_t vb_crc_fold_constants[VB_CRC_FOLDS][2];

bool vb_crc_can_fold(void);

/* The functions of crc.h, for one kind of processors. */
#define VB_CRC_FOLD_FUNCTIONS(kind)                                                                                                    \
	uint32_t vb_crc_fold##kind(uint32_t crc, const void *bytes, size_t length);                                                    \
	uint32_t vb_crc_fold_copy##kind(uint32_t crc, void *to, const void *from, size_t length);                                      \
	uint32_t vb_crc_fold_words_bytes##kind(uint32_t crc, uint64_t first, uint32_t second, const void *bytes, size_t length);       \
	uint32_t vb_crc_fold_words_copy##kind(uint32_t crc, uint64_t first, uint32_t second, void *to, const void *from,               \
					      size_t length);                                                                          \
	uint32_t vb_crc_fold_pair_copy##kind(uint32_t crc, uint64_t first, uint64_t second, void *to, const void *from,                \
					     size_t length);                                                                           \
	uint32_t vb_crc_fold_words_word_copy##kind(uint32_t crc, uint64_t first, uint32_t second, uint64_t third, void *to,            \
						   const void *from, size_t length);                                                   \
	uint32_t vb_crc_fold_words_pair_copy##kind(uint32_t crc, uint64_t first, uint32_t second, const uint64_t pair[2], void *to,    \
						   const void *from, size_t length);

VB_CRC_FOLD_FUNCTIONS()
/* With an instruction more: where VB_CRC_THREE is defined they are there. */
bool vb_crc_can_add_three(void);
VB_CRC_FOLD_FUNCTIONS(_three)
/* With registers of 64 bytes: where VB_CRC_WIDE is defined, on x86-64. */
bool vb_crc_can_fold_wide(void);
VB_CRC_FOLD_FUNCTIONS(_wide)

/* All of it for CRC-32C. */
extern const uint64_t vb_crc_fold_constants_castagnoli[VB_CRC_FOLDS][2];
uint32_t vb_crc_fold_castagnoli(uint32_t crc, const void *bytes, size_t length);
uint32_t vb_crc_fold_copy_castagnoli(uint32_t crc, void *to, const void *from, size_t length);
uint32_t vb_crc_fold_three_castagnoli(uint32_t crc, const void *bytes, size_t length);
uint32_t vb_crc_fold_copy_three_castagnoli(uint32_t crc, void *to, const void *from, size_t length);

#endif
