/* SPDX-License-Identifier: MIT
 *
 * Path MTU: how many payload bytes a packet may carry. Five sizes, numbered as enum ibv_mtu does (which this room may
 * not include): 1 is 256 bytes, 5 is 4096.
 */
#ifndef VB_WIRE_MTU_H
#define VB_WIRE_MTU_H

#include <stdint.h>

enum { VB_MTU_CODE_MIN = 1, VB_MTU_CODE_MAX = 5 };

/* 0 for what is no MTU code. */
static inline uint32_t vb_mtu_bytes(unsigned code)
{
	return code >= VB_MTU_CODE_MIN && code <= VB_MTU_CODE_MAX ? 128u << code : 0;
}

/* The largest MTU code whose payload fits into `bytes`; 0 when not even 256 do. */
static inline unsigned vb_mtu_code(uint32_t bytes)
{
	unsigned code = VB_MTU_CODE_MAX;

	while (code >= VB_MTU_CODE_MIN && vb_mtu_bytes(code) > bytes)
		code--;
	return code;
}

#endif
