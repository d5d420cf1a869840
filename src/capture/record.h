/* SPDX-License-Identifier: MIT
 *
 * What a capture file holds: a pcapng section with an interface of raw IP packets (LINKTYPE_RAW), and of Ethernet or ERF where there are
 * such frames, and between its packets blocks of a type of our own, each one struct vb_capture_record: work posted, work completed, events,
 * and before each packet who sent or received it and what became of it. The type is from the range that pcapng leaves to local use: other
 * programs skip such blocks.
 *
 * Several processes append to one file at a time, whole blocks with one write each.
 */
#ifndef VB_CAPTURE_RECORD_H
#define VB_CAPTURE_RECORD_H

#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

#define VB_CAPTURE_BLOCK 0x80005642u       /* "VB" */

enum vb_capture_kind {
	VB_CAPTURE_PROCESS = 1,            /* slot, text: the program's name */
	VB_CAPTURE_PACKET,                 /* about the packet in the next block */
	VB_CAPTURE_POST_SEND,              /* opcode: enum ibv_wr_opcode */
	VB_CAPTURE_POST_RECEIVE,           /* qpn 0: to a shared queue */
	VB_CAPTURE_COMPLETION,             /* opcode: enum ibv_wc_opcode, status: enum ibv_wc_status */
	VB_CAPTURE_EVENT,                  /* asynchronous; status: enum ibv_event_type */
	VB_CAPTURE_CM_EVENT,               /* status: enum rdma_cm_event_type */
	VB_CAPTURE_KINDS,
};

enum {
	VB_CAPTURE_SENT = 1 << 0,          /* `time` is when it was sent, by `pid` */
	VB_CAPTURE_RECEIVED = 1 << 1,      /* `received` is when it was received, by `receiver` */
	VB_CAPTURE_DROPPED = 1 << 2,       /* by fault injection, as are the next three */
	VB_CAPTURE_CORRUPTED = 1 << 3,
	VB_CAPTURE_DUPLICATED = 1 << 4,    /* this is the second of the two */
	VB_CAPTURE_DELAYED = 1 << 5,
	VB_CAPTURE_REFUSED = 1 << 6,       /* the receiver could not decode it or found its ICRC wrong */
	VB_CAPTURE_HAS_WR_ID = 1 << 7,
};

/* Flags of what fault injection did to a packet; `again`: this is the second of two. */
static inline uint32_t vb_capture_fate(bool dropped, bool again, bool corrupted, bool delayed)
{
	if (dropped)
		return VB_CAPTURE_DROPPED;
	if (again)
		return VB_CAPTURE_DUPLICATED;
	return (corrupted ? VB_CAPTURE_CORRUPTED : 0) | (delayed ? VB_CAPTURE_DELAYED : 0);
}

/* In the section's byte order. */
struct vb_capture_record {
	uint32_t kind;                     /* enum vb_capture_kind */
	uint32_t flags;
	int64_t time, received;            /* nanoseconds since 1970 */
	uint32_t pid, receiver;
	uint32_t qpn;                      /* at which it happened; of packets the sender's; 0: not known */
	uint32_t peer_qpn;
	uint64_t wr_id;
	uint32_t opcode, status, length;
	uint32_t slot;                     /* of the process: bits 23..14 of its QPNs */
	uint64_t host, receiver_host;      /* network namespaces: pids of two of them may be equal */
	char text[32];
};

_Static_assert(sizeof(struct vb_capture_record) == 112, "the same for all programs");
_Static_assert(offsetof(struct vb_capture_record, wr_id) == 40, "no padding");

#endif
