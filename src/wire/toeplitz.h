/* SPDX-License-Identifier: MIT
 *
 * The Toeplitz hash of receive side scaling, by which adapters spread flows over queues (Microsoft's "RSS hashing functions"). Bit by bit,
 * the most significant of each byte first: where the input has a 1, the 32 bits of the key that begin at the same place go into the sum
 * without carry.
 */
#ifndef VB_WIRE_TOEPLITZ_H
#define VB_WIRE_TOEPLITZ_H

#include <stddef.h>
#include <stdint.h>

enum {
	VB_TOEPLITZ_KEY = 40,
	VB_TOEPLITZ_INPUT = VB_TOEPLITZ_KEY - 4, /* at most: two IPv6 addresses and two ports */
};

uint32_t vb_toeplitz(const uint8_t key[VB_TOEPLITZ_KEY], const uint8_t *input, size_t length);

#endif
