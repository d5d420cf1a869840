/* SPDX-License-Identifier: MIT
 *
 * One row for each kind of device.
 */
#include "profiles/profile.h"

#include <stddef.h>

#include "profiles/limits.h"
#include "profiles/qp_transitions.h"

/* A locally administered OUI, "Vbe": programs switch code paths on the vendors they know. */
#define VENDOR 0x566265

#define WR(name) (1u << IBV_WR_##name)
#define DATAGRAM_WORK (WR(SEND) | WR(SEND_WITH_IMM))
/* ibv_post_send(3), but for SEND_WITH_INV on UC: the wire has no opcode for it (IBA table 38). */
#define UNRELIABLE_WORK (DATAGRAM_WORK | WR(RDMA_WRITE) | WR(RDMA_WRITE_WITH_IMM) | WR(LOCAL_INV) | WR(BIND_MW))
#define RELIABLE_WORK                                                                                                            \
	(UNRELIABLE_WORK | WR(SEND_WITH_INV) | WR(RDMA_READ) | WR(ATOMIC_CMP_AND_SWP) | WR(ATOMIC_FETCH_AND_ADD))
/* No RDMAP message carries a SEND with immediate data; a WRITE with it and atomics are later extensions that nothing negotiates
 * (RFC 7306 1.1), and siw's provider refuses them at posting. */
#define STREAM_WORK                                                                                                              \
	(WR(SEND) | WR(SEND_WITH_INV) | WR(RDMA_WRITE) | WR(RDMA_READ) | WR(LOCAL_INV) | WR(BIND_MW))
#define STREAM_EXTENSIONS (WR(RDMA_WRITE_WITH_IMM) | WR(ATOMIC_CMP_AND_SWP) | WR(ATOMIC_FETCH_AND_ADD))

/* The type is there, and no work is posted to it. */
#define NO_WORK (1u << 31)

/* What all our devices can hold. */
#define OUR_LIMITS                                                                                                               \
	.mr_size = UINT64_MAX, .qp = VB_MAX_QP, .qp_wr = VB_MAX_QP_WR, .send_sge = VB_MAX_SGE, .recv_sge = VB_MAX_SGE,           \
	.read_sge = VB_MAX_SGE, .cq = VB_MAX_CQ, .cqe = VB_MAX_CQE, .srq = VB_MAX_SRQ, .srq_wr = VB_MAX_SRQ_WR,                  \
	.srq_sge = VB_MAX_SGE, .mr = VB_MAX_MR, .mw = VB_MAX_MW, .pd = VB_MAX_PD, .rd_atomic = VB_MAX_RD_ATOMIC,                 \
	.init_rd_atomic = VB_MAX_RD_ATOMIC, .completion_vectors = VB_COMPLETION_VECTORS

#define OUR_CAPABILITIES                                                                                                         \
	(IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_SRQ_RESIZE |       \
	 IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_MEM_WINDOW_TYPE_2B)

#define CHANNEL_CAPABILITIES                                                                                                     \
	(OUR_CAPABILITIES | IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR | IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_XRC)

/* What InfiniBand and RoCE have in common: the engine and all that it can do. */
#define CHANNEL_ADAPTER                                                                                                          \
	.node_type = IBV_NODE_CA, .transport_type = IBV_TRANSPORT_IB, .vendor_id = VENDOR, .hw_ver = 1,                          \
	.atomic_cap = IBV_ATOMIC_GLOB,                                                                                           \
	.limits = {OUR_LIMITS, .sge_rd = VB_MAX_SGE, .ah = VB_MAX_AH, .multicast_groups = VB_MAX_MULTICAST_GROUPS,               \
		   .multicast_qps = VB_MAX_MULTICAST_QPS},                                                                       \
	.types = {                                                                                                               \
		/* The kernel's list of opcodes has no ATOMIC WRITE of XRC. */                                                   \
		[IBV_QPT_RC] = {RELIABLE_WORK | WR(ATOMIC_WRITE), VB_MAX_INLINE},                                                \
		[IBV_QPT_UC] = {UNRELIABLE_WORK, VB_MAX_INLINE},                                                                 \
		[IBV_QPT_UD] = {DATAGRAM_WORK, VB_MAX_INLINE},                                                                   \
		[IBV_QPT_XRC_SEND] = {RELIABLE_WORK, VB_MAX_INLINE},                                                             \
		[IBV_QPT_XRC_RECV] = {NO_WORK, 0},                                                                               \
	},                                                                                                                       \
	.transitions = &vb_transitions_iba, .created_in = IBV_QPS_RESET, .connection = VB_CONNECT_CM

const struct vb_profile vb_profile_roce = {
	.name = "roce",
	.kind = VB_DEVICE_ROCE,
	.device_prefix = "roce_",
	CHANNEL_ADAPTER,
	.device_cap_flags = CHANNEL_CAPABILITIES | IBV_DEVICE_MANAGED_FLOW_STEERING,
	.types[IBV_QPT_RAW_PACKET] = {WR(SEND), VB_MAX_INLINE},
	.vendor_part_id = 1,
	.port = {
		.cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS,
		.max_message = VB_MAX_MESSAGE,
		.gid_table_length = VB_MAX_GIDS,
		.pkey_table_length = 1,  /* RoCE annex A16.4.1: the default P_Key, full membership */
		.max_vl_num = 1,
		.flags = IBV_QPF_GRH_REQUIRED,
		.link_layer = IBV_LINK_LAYER_ETHERNET,
		.shows_phys_state = true,
	},
	.gid_layout = VB_GIDS_ADDRESSES,
};

/* Of port attributes only what no subnet manager decides: the rest comes from the fabric. */
const struct vb_profile vb_profile_infiniband = {
	.name = "infiniband",
	.kind = VB_DEVICE_INFINIBAND,
	.device_prefix = "vib",
	CHANNEL_ADAPTER,
	.device_cap_flags = CHANNEL_CAPABILITIES,
	.vendor_part_id = 3,
	.port = {
		.max_message = VB_MAX_MESSAGE,
		.gid_table_length = 1,
		.pkey_table_length = VB_MAX_PKEYS,
		.max_vl_num = 1,
		.link_layer = IBV_LINK_LAYER_INFINIBAND,
		.shows_phys_state = true,
	},
	.gid_layout = VB_GIDS_GUID,
	.addressing = VB_ADDRESS_LID,
};

/* Where it matters to programs, as Linux's siw: they tell RNICs by these. */
const struct vb_profile vb_profile_iwarp = {
	.name = "iwarp",
	.kind = VB_DEVICE_IWARP,
	.device_prefix = "iwarp_",
	.node_type = IBV_NODE_RNIC,
	.transport_type = IBV_TRANSPORT_IWARP,
	.vendor_id = VENDOR,
	.vendor_part_id = 2,
	.hw_ver = 1,
	.device_cap_flags = OUR_CAPABILITIES,
	.atomic_cap = IBV_ATOMIC_NONE,
	.extended_atomic_cap = IBV_ATOMIC_GLOB,
	/* A READ of several elements becomes several RDMAP READs, so more are taken than are promised: programs expect 1 of RNICs. */
	.limits = {OUR_LIMITS, .sge_rd = 1},
	.types = {[IBV_QPT_RC] = {.opcodes = STREAM_WORK, .extensions = STREAM_EXTENSIONS, .max_inline = VB_MAX_INLINE}},
	.transitions = &vb_transitions_iwarp,
	.created_in = IBV_QPS_INIT,
	.port = {
		.cap_flags = IBV_PORT_CM_SUP | IBV_PORT_DEVICE_MGMT_SUP,
		.max_message = VB_MAX_MESSAGE,
		.gid_table_length = 1,
		.link_layer = IBV_LINK_LAYER_ETHERNET,
	},
	.gid_layout = VB_GIDS_MAC,
	.connection = VB_CONNECT_MPA,
	.grants_less_inline = true,
};

const struct vb_profile *vb_profile_of(enum vb_device_kind kind)
{
	static const struct vb_profile *const rows[] = {
		[VB_DEVICE_ROCE] = &vb_profile_roce,
		[VB_DEVICE_IWARP] = &vb_profile_iwarp,
		[VB_DEVICE_INFINIBAND] = &vb_profile_infiniband,
	};

	_Static_assert(sizeof(rows) / sizeof(rows[0]) == VB_DEVICE_KINDS, "a kind of device has no profile");
	return rows[kind];
}

void vb_profile_extend(struct vb_profile *profile)
{
	for (unsigned type = 0; type < VB_PROFILE_TYPES; type++)
		profile->types[type].opcodes |= profile->types[type].extensions;
	if (profile->extended_atomic_cap != IBV_ATOMIC_NONE)
		profile->atomic_cap = profile->extended_atomic_cap;
}
