/* SPDX-License-Identifier: MIT
 *
 * CRC-32C (Castagnoli; RFC 3720 B.4), reflected: of MPA, as of iSCSI and SCTP.
 */
#ifndef VB_BASE_CRC32C_H
#define VB_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Continue `crc` (0 to begin) over `length` bytes. */
uint32_t vb_crc32c(uint32_t crc, const void *bytes, size_t length);
/* The same while copying the bytes; the two places do not overlap. */
uint32_t vb_crc32c_copy(uint32_t crc, void *to, const void *from, size_t length);

#endif
