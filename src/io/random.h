/* SPDX-License-Identifier: MIT
 *
 * Unpredictable numbers from the kernel: QPNs, keys, nonces. Safe from any thread, and different after fork.
 */
#ifndef VB_IO_RANDOM_H
#define VB_IO_RANDOM_H

#include <stddef.h>
#include <stdint.h>

void vb_random_bytes(void *out, size_t length);
uint32_t vb_random_u32(void);
uint64_t vb_random_u64(void);

#endif
