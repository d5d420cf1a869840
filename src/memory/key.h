/* SPDX-License-Identifier: MIT
 *
 * The upper 24 bits of a key: an entry's index under a keyed permutation.
 *
 * A peer is given keys and must not learn from them which others there are. Sequential indices go through a Feistel network
 * of two 12-bit halves, whose round function is SipHash-1-3 of the round and the half under the table's 128-bit secret. With
 * eight rounds the network itself gives nothing away that can be seen in 2^24 values (Luby and Rackoff; four rounds do, and
 * tests/unit/memory/test_key.c shows it); with a pseudorandom function in them the secret cannot be worked out from keys.
 * Where an index was found once is remembered (table.c, foreign.c), so that these 100 ns are not spent on each message.
 */
#ifndef VB_MEMORY_KEY_H
#define VB_MEMORY_KEY_H

#include <stdint.h>

enum { VB_KEY_INDEX_BITS = 24, VB_KEY_TAG_BITS = 8 };

struct vb_key_secret {
	uint64_t half[2];
};

uint32_t vb_key_scramble(const struct vb_key_secret *secret, uint32_t index);
uint32_t vb_key_unscramble(const struct vb_key_secret *secret, uint32_t scrambled);

#endif
