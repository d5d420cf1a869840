/* SPDX-License-Identifier: MIT
 *
 * What a process holds, as `verbena res` shows it: a head and rows, written by the process (or, for communication ids,
 * by verbenad) into shared memory whose descriptor travels to the asker. Host byte order: both ends are on this machine;
 * the same layout for 32- and 64-bit programs. A reader takes it for hostile: copy it, then vb_resource_next.
 *
 * Numbers of objects (pd, cq, srq, wq, table) are unique within a session, that is one opening of a device and what was imported
 * from it; interface_index names the device.
 */
#ifndef VB_WIRE_RESOURCE_H
#define VB_WIRE_RESOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/cm_command.h"

#define VB_RESOURCE_MAGIC 0x56425201u

/* Sixteen thousand queue pairs with their CQs and regions; what is more is counted and left out. */
enum { VB_RESOURCE_MOST_BYTES = 16 * 1024 * 1024 };

/* X(name, value, member, body) */
#define VB_RESOURCES(X)                                    \
	X(DEVICE, 1, device, struct vb_resource_device)    \
	X(PD, 2, pd, struct vb_resource_pd)                \
	X(CQ, 3, cq, struct vb_resource_cq)                \
	X(SRQ, 4, srq, struct vb_resource_srq)             \
	X(MR, 5, mr, struct vb_resource_mr)                \
	X(QP, 6, qp, struct vb_resource_qp)                \
	X(CM_ID, 7, cm_id, struct vb_resource_cm_id)       \
	X(WQ, 8, wq, struct vb_resource_wq)                \
	X(RWQ_TABLE, 9, rwq_table, struct vb_resource_rwq_table)

enum vb_resource_kind {
	VB_RESOURCE_END = 0,
#define X(name, value, member, body) VB_RESOURCE_##name = value,
	VB_RESOURCES(X)
#undef X
	VB_RESOURCE_KINDS = VB_RESOURCE_RWQ_TABLE + 1,
};

struct vb_resource_head {
	uint32_t magic;
	uint32_t length;                   /* of head and rows */
	uint32_t left_out;                 /* rows that found no room */
	uint32_t reserved;
};

struct vb_resource_row {
	uint32_t kind;
	uint32_t length;                   /* this and the body */
};

struct vb_resource_device {
	char name[64];
	uint32_t interface_index, session;
};

struct vb_resource_pd {
	uint32_t interface_index, session;
	uint32_t number;
	uint32_t users;                    /* objects that name it */
};

struct vb_resource_cq {
	uint32_t interface_index, session;
	uint32_t number;
	uint32_t capacity, waiting;        /* completions */
	uint32_t users;                    /* queue pairs' send and receive queues */
	uint32_t armed;                    /* enum vb_cq_armed: 0 no, 1 for solicited events, 2 for any */
	uint32_t has_channel;
	uint32_t overrun;
	uint32_t reserved;
};

struct vb_resource_srq {
	uint32_t interface_index, session;
	uint32_t number;
	uint32_t pd;
	uint32_t depth, posted, limit;
	uint32_t users;
};

struct vb_resource_wq {
	uint32_t interface_index, session;
	uint32_t number;
	uint32_t wq_num;                   /* as completions name it */
	uint32_t pd, cq;
	uint32_t state;                    /* enum ibv_wq_state */
	uint32_t depth, posted;
	uint32_t users;                    /* entries of indirection tables */
};

struct vb_resource_rwq_table {
	uint32_t interface_index, session;
	uint32_t number;
	uint32_t size, queues;             /* entries, and different work queues among them */
	uint32_t users;                    /* queue pairs */
};

struct vb_resource_mr {
	uint64_t address, length, iova;
	uint32_t interface_index, session;
	uint32_t key;                      /* lkey and rkey alike */
	uint32_t access;                   /* IBV_ACCESS_* */
	uint32_t pd;
	uint32_t reserved;
};

enum vb_through_memory {
	VB_THROUGH_MEMORY = 1,                   /* its peer is on this host, and no packet is sent; UD: the one it sent to last */
	VB_THROUGH_MEMORY_PAST_WIRE,             /* its peer is on this host: WRITEs and READs go past the wire, which carries the rest */
};

struct vb_resource_qp {
	uint64_t round_trip, retransmit_timeout; /* ns; 0: not known, none */
	uint64_t rate;                           /* bits a second, of congestion control; 0: it sets none */
	uint8_t local_gid[16], peer_gid[16];     /* all zero: no path (UD, or before RTR) */
	uint32_t interface_index, session;
	uint32_t qpn, type, state;               /* enum ibv_qp_type, enum ibv_qp_state */
	uint32_t peer_qpn;
	uint32_t pd, send_cq, receive_cq, srq;   /* srq 0: none */
	uint32_t path_mtu;                       /* bytes */
	uint32_t source_port;                    /* UDP */
	uint32_t send_psn, acknowledged_psn, expected_psn, msn; /* all through memory, but for UD: numbers of records, not PSNs */
	uint32_t outstanding_packets, window_packets, outstanding_reads;
	uint32_t retry_count, retries_left, rnr_retry, rnr_retries_left;
	uint32_t send_depth, send_posted, receive_depth, receive_posted;
	uint32_t fault;                          /* enum vb_fault: why it failed */
	uint32_t draining;
	uint32_t through_memory;                 /* enum vb_through_memory; 0: by wire */
	uint32_t control;                        /* congestion control: row of the table in roce/control.h */
	uint32_t kind;                           /* of its device: enum vb_device_kind */
	uint64_t work_bytes;                     /* of all messages of its own work requests, done with success */
	uint64_t received_bytes;                 /* of all messages that used up a receive */
	uint32_t sends_done, receives_done;      /* work requests since it was made, modulo 2^32; not those of a shared queue */
};

struct vb_resource_cm_id {
	struct vb_cm_address source, destination;
	uint32_t number;
	uint32_t port_space, qp_type;
	uint32_t interface_index;                /* 0: not bound to a device yet */
	uint32_t local_qpn, peer_qpn;            /* 0: not known */
	uint32_t backlog, waiting;               /* of a listener */
	char state[24];                          /* name of connect/states.h */
};

_Static_assert(sizeof(struct vb_resource_head) == 16, "head");
_Static_assert(sizeof(struct vb_resource_row) == 8, "row");
_Static_assert(sizeof(struct vb_resource_device) == 72, "device");
_Static_assert(sizeof(struct vb_resource_wq) == 10 * 4, "wq");
_Static_assert(sizeof(struct vb_resource_rwq_table) == 6 * 4, "rwq_table");
_Static_assert(sizeof(struct vb_resource_mr) == 48, "mr");
_Static_assert(sizeof(struct vb_resource_qp) == 72 + 34 * 4, "qp");
_Static_assert(sizeof(struct vb_resource_cm_id) == 80 + 32 + 24, "cm_id");

union vb_resource {
#define X(name, value, member, body) body member;
	VB_RESOURCES(X)
#undef X
};

/* ---- writing ---- */

struct vb_resource_list {
	uint8_t *bytes;                    /* head and rows; NULL: nothing was added yet */
	size_t length, room;
	uint32_t left_out;
};

void vb_resource_list_init(struct vb_resource_list *list);
void vb_resource_list_fini(struct vb_resource_list *list);
/* `body` is what the kind says. Counted as left out where there is no room. */
void vb_resource_list_add(struct vb_resource_list *list, enum vb_resource_kind kind, const void *body);
/* Fill in the head. NULL: out of memory. */
const void *vb_resource_list_finish(struct vb_resource_list *list, size_t *length);

/* ---- reading what others wrote ---- */

/* -EPROTO: this is no such list. *at is where the first row is. */
int vb_resource_begin(const void *bytes, size_t length, size_t *at, uint32_t *left_out);
/* Copy the next row out. Its kind, VB_RESOURCE_END behind the last, or -EPROTO. After success strings end and are
 * printable; numbers may be anything. Rows of unknown kinds are passed over. */
int vb_resource_next(const void *bytes, size_t length, size_t *at, union vb_resource *resource);

#endif
