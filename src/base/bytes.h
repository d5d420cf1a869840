/* SPDX-License-Identifier: MIT
 *
 * Numbers as they stand on the wire: big-endian, unaligned, in types of their own, so that a field
 * cannot be read without saying so. Works on any host byte order.
 */
#ifndef VB_BASE_BYTES_H
#define VB_BASE_BYTES_H

#include <stdint.h>

struct be16 { uint8_t b[2]; };
struct be24 { uint8_t b[3]; };
struct be32 { uint8_t b[4]; };
struct be64 { uint8_t b[8]; };

static inline uint16_t be16_get(struct be16 v)
{
	return (uint16_t)(v.b[0] << 8 | v.b[1]);
}

static inline uint32_t be24_get(struct be24 v)
{
	return (uint32_t)v.b[0] << 16 | (uint32_t)v.b[1] << 8 | v.b[2];
}

static inline uint32_t be32_get(struct be32 v)
{
	return (uint32_t)v.b[0] << 24 | (uint32_t)v.b[1] << 16 | (uint32_t)v.b[2] << 8 | v.b[3];
}

static inline uint64_t be64_get(struct be64 v)
{
	return (uint64_t)be32_get((struct be32){{v.b[0], v.b[1], v.b[2], v.b[3]}}) << 32 |
	       be32_get((struct be32){{v.b[4], v.b[5], v.b[6], v.b[7]}});
}

static inline struct be16 be16_of(uint16_t v)
{
	return (struct be16){{(uint8_t)(v >> 8), (uint8_t)v}};
}

static inline struct be24 be24_of(uint32_t v)
{
	return (struct be24){{(uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v}};
}

static inline struct be32 be32_of(uint32_t v)
{
	return (struct be32){{(uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v}};
}

static inline struct be64 be64_of(uint64_t v)
{
	struct be32 hi = be32_of((uint32_t)(v >> 32)), lo = be32_of((uint32_t)v);

	return (struct be64){{hi.b[0], hi.b[1], hi.b[2], hi.b[3], lo.b[0], lo.b[1], lo.b[2], lo.b[3]}};
}

#endif
