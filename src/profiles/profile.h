/* SPDX-License-Identifier: MIT
 *
 * What a device says of itself and what it refuses: data, no code. Code that answers for a device or checks what is
 * asked of it reads the row: verbs (ibv_query_device, ibv_query_port, refusals), queue (creation, posting,
 * transitions), rdmacm (how connections are made), the daemon (names). No other place may ask which kind of device it
 * has before it.
 *
 *   device = profile + engine + link
 *
 * Query and creation agree: query_device reports these limits, and creation refuses more (EINVAL), because programs
 * probe by doubling until creation fails.
 */
#ifndef VB_PROFILES_PROFILE_H
#define VB_PROFILES_PROFILE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "wire/device_kind.h"

struct vb_transition_table;

/* At most. 0 of a kind of object: there are none, and creating one is EOPNOTSUPP. */
struct vb_profile_limits {
	uint64_t mr_size;
	uint32_t qp, qp_wr;
	uint32_t send_sge, recv_sge;     /* query_device's max_sge: the smaller one */
	uint32_t sge_rd;                 /* as query_device tells it */
	uint32_t read_sge;               /* of a READ, at posting: most devices mean sge_rd by it */
	uint32_t cq, cqe;
	uint32_t srq, srq_wr, srq_sge;
	uint32_t mr, mw, pd, ah;
	uint32_t rd_atomic;              /* READs and atomics a queue pair answers at once (IRD): max_dest_rd_atomic */
	uint32_t init_rd_atomic;         /* and has outstanding (ORD): max_rd_atomic */
	uint32_t multicast_groups, multicast_qps;
	uint32_t completion_vectors;
};

/* Of one type of queue pairs. */
struct vb_profile_type {
	uint32_t opcodes;                /* bits 1 << IBV_WR_*: what may be posted. 0: there are no such queue pairs (EOPNOTSUPP) */
	uint32_t max_inline;
	uint32_t extensions;             /* opcodes beside those, where the user asks for extensions of the protocol */
};

enum { VB_PROFILE_TYPES = IBV_QPT_XRC_RECV + 1 };

struct vb_profile_port {
	uint32_t cap_flags;              /* IBV_PORT_* */
	uint32_t max_message;            /* bytes of one message */
	uint16_t gid_table_length;
	uint16_t pkey_table_length;      /* 0: none; all that there are is 0xffff */
	uint8_t max_vl_num;
	uint8_t flags;                   /* IBV_QPF_*; GRH_REQUIRED: addresses must be global */
	uint8_t link_layer;              /* IBV_LINK_LAYER_* */
	bool shows_phys_state;
};

/* What stands in the GID table. */
enum vb_gid_layout {
	VB_GIDS_ADDRESSES,               /* the interface's IP addresses, each once: RoCE v2 */
	VB_GIDS_MAC,                     /* one entry: the MAC, then zeros (RNICs) */
	VB_GIDS_GUID,                    /* one entry: the subnet's prefix and the port's GUID (InfiniBand) */
};

/* What leads to a peer. */
enum vb_addressing {
	VB_ADDRESS_GID,                  /* two GIDs, which are IP addresses */
	VB_ADDRESS_LID,                  /* LIDs, which a subnet manager gives out; GIDs if asked for. So are P_Keys */
};

/* How connections are made. */
enum vb_connection_protocol {
	VB_CONNECT_CM,                   /* MADs to QP 1 (IBA chapter 12); the program or librdmacm walks through the states */
	VB_CONNECT_MPA,                  /* a TCP stream and two frames (RFC 5044, 6581); only a connection leads to RTS */
};

struct vb_profile {
	const char *name;                /* of the row: "roce"; or of the adapter put over it (profiles/adapter.h): "mlx5" */
	enum vb_device_kind kind;
	const char *device_prefix;       /* of device names, before that of the interface */
	enum ibv_node_type node_type;
	enum ibv_transport_type transport_type;
	uint32_t vendor_id, vendor_part_id, hw_ver;
	unsigned device_cap_flags;       /* IBV_DEVICE_* */
	enum ibv_atomic_cap atomic_cap, extended_atomic_cap; /* the latter with extensions */
	struct vb_profile_limits limits;
	struct vb_profile_type types[VB_PROFILE_TYPES]; /* by enum ibv_qp_type: vb_profile_type */
	const struct vb_transition_table *transitions;
	enum ibv_qp_state created_in;    /* the state of a new queue pair */
	struct vb_profile_port port;
	enum vb_gid_layout gid_layout;
	enum vb_addressing addressing;
	enum vb_connection_protocol connection;
	bool grants_less_inline;         /* more inline data than there is: less is granted, as iWARP's providers do; else EINVAL */
	bool needs_both_queues;          /* a queue of no work requests is EINVAL */
};

extern const struct vb_profile vb_profile_roce, vb_profile_iwarp, vb_profile_infiniband;

/* The row of a kind of device. */
const struct vb_profile *vb_profile_of(enum vb_device_kind kind);

/* Has an adapter been put over it? */
static inline bool vb_profile_is_lowered(const struct vb_profile *profile)
{
	return profile->name != vb_profile_of(profile->kind)->name;
}

/* With the extensions of its protocol, if it has some. */
void vb_profile_extend(struct vb_profile *profile);

/* What it grants queue pairs of that type; NULL: there are none. */
static inline const struct vb_profile_type *vb_profile_type(const struct vb_profile *profile, enum ibv_qp_type type)
{
	return (unsigned)type < VB_PROFILE_TYPES && profile->types[type].opcodes != 0 ? &profile->types[type] : NULL;
}

#endif
