/* SPDX-License-Identifier: MIT
 *
 * What this implementation can hold at all: sizes of arrays, bits of numbers, messages of the protocols. What a device grants is said by
 * its profile (profiles/profile.h), and is never more.
 */
#ifndef VB_PROFILES_LIMITS_H
#define VB_PROFILES_LIMITS_H

enum {
	VB_MAX_QP = 16000,               /* of the 14 index bits of a QPN */
	VB_MAX_QP_WR = 32768,
	VB_MAX_SGE = 30,
	VB_MAX_INLINE = 1024,
	VB_MAX_CQ = 65536,
	VB_MAX_CQE = 4 * 1024 * 1024,
	VB_MAX_SRQ = 65536,
	VB_MAX_SRQ_WR = 32768,
	VB_MAX_RWQ_TABLES = 65536,       /* indirection tables of receive side scaling */
	VB_MAX_LOG_RWQ_TABLE = 11,       /* entries of one, as a power of two */
	VB_MAX_MR = 1024 * 1024,
	VB_MAX_MW = 1024 * 1024,
	VB_MAX_PD = 65536,
	VB_MAX_AH = 128 * 1024,
	VB_MAX_RD_ATOMIC = 128,          /* per QP, each direction */
	VB_MAX_MULTICAST_GROUPS = 8192,
	VB_MAX_MULTICAST_QPS = 1024,     /* per group */
	VB_MAX_PKEYS = 32,               /* one block of a port's table */
	VB_MAX_GIDS = 64,                /* of an interface's addresses */
	VB_COMPLETION_VECTORS = 4,
	VB_MAX_RATE_LIMIT = 100 * 1000 * 1000, /* of raw packets, kilobits a second */
};

#define VB_MAX_MESSAGE (1u << 31)        /* IBA 9.7.2: 2^31 bytes */

#endif
