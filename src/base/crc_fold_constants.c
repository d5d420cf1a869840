/* SPDX-License-Identifier: MIT
 *
 * What crc_fold_arm.c and crc_fold_x86.c multiply by.
 *
 * Reflected: bit 0 of a register is the coefficient of its highest power. The product of two reflected 64-bit numbers
 * comes out one place too low, which the exponents make up for by being one less. To carry a register over D bits its first
 * half is multiplied by x^(D + 64 - 1), its second by x^(D - 1), modulo the polynomial; the constants are these, in the upper
 * half of a 64-bit number. tests/unit/base computes them again by their definition.
 */
#include "base/crc_fold.h"

#ifdef VB_CRC_FOLD

const uint64_t vb_crc_fold_constants[VB_CRC_FOLDS][2] = {
	[VB_CRC_FOLD_128] = {0x65673b4600000000u, 0x9ba54c6f00000000u},
	[VB_CRC_FOLD_256] = {0x9570d49500000000u, 0x01b5fd1d00000000u},
	[VB_CRC_FOLD_512] = {0x653d982200000000u, 0xcad38e8f00000000u},
	[VB_CRC_FOLD_1024] = {0x7d657a1000000000u, 0x7406fa9500000000u},
	[VB_CRC_FOLD_2048] = {0x7cc8e1e700000000u, 0x03f9f86300000000u},
};

#endif

#ifdef VB_CRC_FOLD_CASTAGNOLI

const uint64_t vb_crc_fold_constants_castagnoli[VB_CRC_FOLDS][2] = {
	[VB_CRC_FOLD_128] = {0x3743f7bd00000000u, 0x3171d43000000000u},
	[VB_CRC_FOLD_256] = {0x33ccbbbc00000000u, 0xa2158b3400000000u},
	[VB_CRC_FOLD_512] = {0x1c19243b00000000u, 0x75bba45b00000000u},
	[VB_CRC_FOLD_1024] = {0x6577b24500000000u, 0x7417153f00000000u},
	[VB_CRC_FOLD_2048] = {0xe9a5d8be00000000u, 0x1426a81500000000u},
};

#endif
