/* SPDX-License-Identifier: MIT
 *
 * See adapter.h. One row for each adapter.
 */
#include "profiles/adapter.h"

#include <string.h>

#define ROCE (1u << VB_DEVICE_ROCE)
#define IWARP (1u << VB_DEVICE_IWARP)
#define RC (1u << IBV_QPT_RC)
#define UC (1u << IBV_QPT_UC)
#define UD (1u << IBV_QPT_UD)
#define RAW (1u << IBV_QPT_RAW_PACKET)
#define XRC (1u << IBV_QPT_XRC_SEND | 1u << IBV_QPT_XRC_RECV)

#define NO_SRQ .srq = VB_NONE, .srq_wr = VB_NONE, .srq_sge = VB_NONE
/* erdma has one receive element, and reports as many queue pairs as its virtual function was given: the smallest has these. */
#define ERDMA_LIMITS                                                                                                             \
	{.qp = 1023, .qp_wr = 8192, .send_sge = 6, .recv_sge = 1, .sge_rd = 1, .read_sge = 1, .rd_atomic = 128,                  \
	 .init_rd_atomic = 128, NO_SRQ}

static const struct vb_adapter adapters[] = {
	{"mlx5", "NVIDIA ConnectX-6", .kinds = ROCE, .types = RC | UC | UD | RAW | XRC, .max_inline = 988, .max_inline_datagram = 512,
	 .atomic_cap = IBV_ATOMIC_HCA, .speaks_rocev1 = true,
	 .limits = {.qp = 131072, .qp_wr = 32768, .send_sge = 30, .recv_sge = 30, .sge_rd = 30, .read_sge = 30, .cqe = 4194303,
		    .rd_atomic = 16, .init_rd_atomic = 16, .srq = 8388608, .srq_wr = 32767}},
	{"rxe", "Soft-RoCE of Linux 6.1", .kinds = ROCE, .types = RC | UC | UD, .max_inline = 512, .max_message = 8 << 20,
	 .gid_table_length = 1024, .atomic_cap = IBV_ATOMIC_HCA,
	 .limits = {.qp = 1048560, .qp_wr = 1048576, .send_sge = 32, .recv_sge = 32, .sge_rd = 32, .read_sge = 32, .cqe = 32767,
		    .srq_sge = 27, .rd_atomic = 128, .init_rd_atomic = 128, .multicast_qps = 56}},
	{"irdma", "Intel E810", .kinds = ROCE | IWARP, .types = RC | UD, .max_inline = 101, .max_message = (1u << 31) - 1,
	 .gid_table_length = 32, .atomic_cap = IBV_ATOMIC_NONE, .grants_less_inline = true,
	 .limits = {.qp = 262144, .qp_wr = 4063, .send_sge = 13, .recv_sge = 13, .sge_rd = 13, .read_sge = 13, .cqe = 1048574,
		    .mr_size = 1ull << 45, .rd_atomic = 127, .init_rd_atomic = 255, NO_SRQ}},
	{"x722", "Intel X722 (irdma)", .kinds = IWARP, .types = RC, .max_inline = 48, .max_message = (1u << 31) - 1,
	 .gid_table_length = 1, .atomic_cap = IBV_ATOMIC_NONE, .grants_less_inline = true,
	 .limits = {.qp_wr = 895, .send_sge = 3, .recv_sge = 3, .sge_rd = 1, .read_sge = 1, .mr_size = 1ull << 45,
		    .rd_atomic = 63, .init_rd_atomic = 127, NO_SRQ}},
	{"bnxt_re", "Broadcom NetXtreme-E P5", .kinds = ROCE, .types = RC | UD, .max_inline = 96, .max_message = 1u << 30,
	 .atomic_cap = IBV_ATOMIC_HCA, .speaks_rocev1 = true,
	 .limits = {.send_sge = 6, .recv_sge = 6, .sge_rd = 6, .read_sge = 6, .mr_size = 1ull << 39, .rd_atomic = 126,
		    .init_rd_atomic = 126}},
	{"siw", "Soft-iWARP of Linux 6.1", .kinds = IWARP, .types = RC, .max_inline = 80, .gid_table_length = 1,
	 .atomic_cap = IBV_ATOMIC_NONE, .grants_less_inline = true,
	 .limits = {.qp = 102400, .qp_wr = 32768, .send_sge = 6, .recv_sge = 6, .sge_rd = 1, .read_sge = 1, .cqe = 3276800,
		    .srq_sge = 6, .mr = 1024000, .mw = VB_NONE, .rd_atomic = 128, .init_rd_atomic = 128}},
	{"erdma", "Alibaba eRDMA, as Linux drives it", .kinds = IWARP, .types = RC, .max_inline = 96, .gid_table_length = 1,
	 .atomic_cap = IBV_ATOMIC_NONE, .needs_both_queues = true, .limits = ERDMA_LIMITS},
	{"erdma-compat", "Alibaba eRDMA, its vendor's driver in compat mode", .kinds = ROCE, .types = RC, .max_inline = 96,
	 .atomic_cap = IBV_ATOMIC_NONE, .needs_both_queues = true, .limits = ERDMA_LIMITS},
};

const struct vb_adapter *vb_adapter_at(unsigned index)
{
	return index < sizeof(adapters) / sizeof(adapters[0]) ? &adapters[index] : NULL;
}

const struct vb_adapter *vb_adapter_find(const char *name)
{
	const struct vb_adapter *adapter;

	for (unsigned i = 0; (adapter = vb_adapter_at(i)) != NULL; i++)
		if (strcmp(adapter->name, name) == 0)
			return adapter;
	return NULL;
}

static uint32_t smaller(uint32_t ours, uint32_t theirs)
{
	return theirs == VB_NONE ? 0 : theirs != 0 && theirs < ours ? theirs : ours;
}

static void lower_limits(struct vb_profile_limits *ours, const struct vb_profile_limits *theirs)
{
	if (theirs->mr_size != 0 && theirs->mr_size < ours->mr_size)
		ours->mr_size = theirs->mr_size;
#define LOWER(field) ours->field = smaller(ours->field, theirs->field)
	LOWER(qp);
	LOWER(qp_wr);
	LOWER(send_sge);
	LOWER(recv_sge);
	LOWER(sge_rd);
	LOWER(read_sge);
	LOWER(cq);
	LOWER(cqe);
	LOWER(srq);
	LOWER(srq_wr);
	LOWER(srq_sge);
	LOWER(mr);
	LOWER(mw);
	LOWER(pd);
	LOWER(ah);
	LOWER(rd_atomic);
	LOWER(init_rd_atomic);
	LOWER(multicast_groups);
	LOWER(multicast_qps);
	LOWER(completion_vectors);
#undef LOWER
}

static void lower_types(struct vb_profile *profile, const struct vb_adapter *adapter)
{
	const uint32_t atomics = 1u << IBV_WR_ATOMIC_CMP_AND_SWP | 1u << IBV_WR_ATOMIC_FETCH_AND_ADD;
	const uint32_t windows = 1u << IBV_WR_BIND_MW;
	/* None of them has it; rxe learned it in Linux 6.2. */
	const uint32_t extensions = 1u << IBV_WR_ATOMIC_WRITE;

	for (unsigned i = 0; i < VB_PROFILE_TYPES; i++) {
		struct vb_profile_type *type = &profile->types[i];
		bool datagram = i == IBV_QPT_UD && adapter->max_inline_datagram != 0;

		if (!(adapter->types & 1u << i))
			*type = (struct vb_profile_type){0};
		type->opcodes &= ~extensions;
		if (adapter->atomic_cap == IBV_ATOMIC_NONE)
			type->opcodes &= ~atomics;
		if (profile->limits.mw == 0)
			type->opcodes &= ~windows;
		type->max_inline = smaller(type->max_inline, datagram ? adapter->max_inline_datagram : adapter->max_inline);
	}
}

void vb_profile_lower(struct vb_profile *profile, const struct vb_adapter *adapter)
{
	profile->name = adapter->name;
	lower_limits(&profile->limits, &adapter->limits);
	lower_types(profile, adapter);
	if (adapter->atomic_cap < profile->atomic_cap)
		profile->atomic_cap = adapter->atomic_cap;
	if (vb_profile_type(profile, IBV_QPT_UD) == NULL)
		profile->limits.ah = profile->limits.multicast_groups = profile->limits.multicast_qps = 0;
	if (vb_profile_type(profile, IBV_QPT_XRC_RECV) == NULL)
		profile->device_cap_flags &= ~(unsigned)IBV_DEVICE_XRC;
	if (vb_profile_type(profile, IBV_QPT_RAW_PACKET) == NULL)
		profile->device_cap_flags &= ~(unsigned)IBV_DEVICE_MANAGED_FLOW_STEERING;
	if (profile->limits.mw == 0)
		profile->device_cap_flags &= ~(unsigned)(IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B);
	if (profile->limits.srq == 0)
		profile->device_cap_flags &= ~(unsigned)IBV_DEVICE_SRQ_RESIZE;
	profile->port.max_message = smaller(profile->port.max_message, adapter->max_message);
	profile->port.gid_table_length = (uint16_t)smaller(profile->port.gid_table_length, adapter->gid_table_length);
	profile->grants_less_inline = adapter->grants_less_inline;
	profile->needs_both_queues = adapter->needs_both_queues;
}
