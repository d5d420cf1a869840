/* SPDX-License-Identifier: MIT
 *
 * How rsockets have bytes of a program written into the memory of a peer of this host: straight from where they are, which is in no region,
 * and before the call returns. As wire/stream_handover.h does it: by a name of libibverbs' private node, which refuses what it does not
 * know.
 */
#ifndef VB_WIRE_PLACING_CALL_H
#define VB_WIRE_PLACING_CALL_H

#include <stdint.h>
#include <sys/uio.h>

struct ibv_qp;

#define VB_PLACING_MAGIC UINT64_C(0x9d5662506c616302) /* no pointer, which is what providers' calls begin with */

enum { VB_PLACING_VERSION = 1 };

/* 0, or EOPNOTSUPP: nothing was written. It is no work of the queue pair: what is posted behind it tells the peer of it. */
struct vb_placing_call {
	uint64_t magic;
	uint32_t version, key;
	uint64_t address;                /* the peer's */
	struct ibv_qp *qp;
	const struct iovec *spans;
	uint32_t count;
};

#endif
