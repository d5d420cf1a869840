/* SPDX-License-Identifier: MIT
 *
 * See key.h. SipHash: Aumasson and Bernstein, 2012. Its input is always one word, so the word that would tell the length is
 * left out.
 */
#include "memory/key.h"

enum { ROUNDS = 8, HALF_BITS = VB_KEY_INDEX_BITS / 2, HALF_MASK = (1 << HALF_BITS) - 1, FINAL_ROUNDS = 3 };

struct state {
	uint64_t v0, v1, v2, v3;
};

static inline uint64_t rotate(uint64_t v, unsigned bits)
{
	return v << bits | v >> (64 - bits);
}

static inline void sip_round(struct state *s)
{
	s->v0 += s->v1;
	s->v2 += s->v3;
	s->v1 = rotate(s->v1, 13) ^ s->v0;
	s->v3 = rotate(s->v3, 16) ^ s->v2;
	s->v0 = rotate(s->v0, 32) + s->v3;
	s->v2 += s->v1;
	s->v3 = rotate(s->v3, 21) ^ s->v0;
	s->v1 = rotate(s->v1, 17) ^ s->v2;
	s->v2 = rotate(s->v2, 32);
}

static uint32_t mix(const struct vb_key_secret *secret, unsigned round, uint32_t half)
{
	uint64_t word = (uint64_t)round << 32 | half;
	struct state s = {
		secret->half[0] ^ UINT64_C(0x736f6d6570736575),
		secret->half[1] ^ UINT64_C(0x646f72616e646f6d),
		secret->half[0] ^ UINT64_C(0x6c7967656e657261),
		secret->half[1] ^ UINT64_C(0x7465646279746573) ^ word,
	};

	sip_round(&s);
	s.v0 ^= word;
	s.v2 ^= 0xff;
	for (unsigned i = 0; i < FINAL_ROUNDS; i++)
		sip_round(&s);
	return (uint32_t)(s.v0 ^ s.v1 ^ s.v2 ^ s.v3) & HALF_MASK;
}

uint32_t vb_key_scramble(const struct vb_key_secret *secret, uint32_t index)
{
	uint32_t left = index >> HALF_BITS, right = index & HALF_MASK;

	for (unsigned i = 0; i < ROUNDS; i++) {
		uint32_t next = left ^ mix(secret, i, right);

		left = right;
		right = next;
	}
	return left << HALF_BITS | right;
}

uint32_t vb_key_unscramble(const struct vb_key_secret *secret, uint32_t scrambled)
{
	uint32_t left = scrambled >> HALF_BITS, right = scrambled & HALF_MASK;

	for (unsigned i = ROUNDS; i-- > 0;) {
		uint32_t before = right ^ mix(secret, i, left);

		right = left;
		left = before;
	}
	return left << HALF_BITS | right;
}
