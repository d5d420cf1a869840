/* SPDX-License-Identifier: MIT
 *
 * How rsockets register memory that they have mapped themselves a moment ago: that it is there need not be looked for, and its pages need
 * not be brought in, which took longer than all else of making a connection. As wire/placing_call.h does it.
 */
#ifndef VB_WIRE_MAPPED_CALL_H
#define VB_WIRE_MAPPED_CALL_H

#include <stddef.h>
#include <stdint.h>

struct ibv_mr;
struct ibv_pd;

#define VB_MAPPED_MAGIC UINT64_C(0x9d5662506c616304) /* no pointer, as VB_PLACING_MAGIC */

enum { VB_MAPPED_VERSION = 1 };

/* As ibv_reg_mr; 0 with `mr`, or an errno. */
struct vb_mapped_call {
	uint64_t magic;
	uint32_t version, access;
	struct ibv_pd *pd;
	void *address;
	size_t length;
	struct ibv_mr *mr;
};

#endif
