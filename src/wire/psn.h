/* SPDX-License-Identifier: MIT
 *
 * Packet sequence numbers: 24 bits that wrap. Of two PSNs the later one is the one less than 2^23
 * ahead (IBA 9.7.1).
 */
#ifndef VB_WIRE_PSN_H
#define VB_WIRE_PSN_H

#include <stdbool.h>
#include <stdint.h>

#define VB_PSN_MASK 0xffffffu

struct psn {
	uint32_t v;
};

static inline struct psn psn_of(uint32_t v)
{
	return (struct psn){v & VB_PSN_MASK};
}

static inline struct psn psn_add(struct psn a, uint32_t n)
{
	return psn_of(a.v + n);
}

/* How far a is ahead of b; negative when it is behind. */
static inline int32_t psn_distance(struct psn a, struct psn b)
{
	return (int32_t)((a.v - b.v) << 8) >> 8;
}

static inline bool psn_equal(struct psn a, struct psn b)
{
	return a.v == b.v;
}

static inline bool psn_before(struct psn a, struct psn b)
{
	return psn_distance(a, b) < 0;
}

#endif
