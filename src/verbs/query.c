/* SPDX-License-Identifier: MIT
 *
 * What a device and its port can do, as they say of themselves. Everything advertised here is kept elsewhere; what
 * cannot be done is not advertised.
 */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "io/cancellation.h"
#include "profiles/limits.h"
#include "verbs/context.h"
#include "verbs/device_memory.h"
#include "verbs/explain_objects.h"
#include "verbs/export.h"
#include "verbs/operations.h"
#include "wire/mtu.h"

static void fill_device_attr(struct ibv_context *context, struct ibv_device_attr *attr)
{
	const struct vb_profile *profile = vb_profile_of_context(context);
	const struct vb_profile_limits *most = &profile->limits;
	struct vb_device_info info;

	vb_context_info(context, &info);
	*attr = (struct ibv_device_attr){
		.node_guid = htobe64(info.guid),
		.sys_image_guid = htobe64(info.guid),
		.max_mr_size = most->mr_size,
		.page_size_cap = 0xfffff000,
		.vendor_id = profile->vendor_id,
		.vendor_part_id = profile->vendor_part_id,
		.hw_ver = profile->hw_ver,
		.max_qp = (int)most->qp,
		.max_qp_wr = (int)most->qp_wr,
		.device_cap_flags = profile->device_cap_flags,
		.max_sge = (int)(most->send_sge < most->recv_sge ? most->send_sge : most->recv_sge),
		.max_sge_rd = (int)most->sge_rd,
		.max_cq = (int)most->cq,
		.max_cqe = (int)most->cqe,
		.max_mr = (int)most->mr,
		.max_pd = (int)most->pd,
		.max_qp_rd_atom = (int)most->rd_atomic,
		.max_res_rd_atom = (int)(most->rd_atomic * most->qp),
		.max_qp_init_rd_atom = (int)most->init_rd_atomic,
		.atomic_cap = profile->atomic_cap,
		.max_mw = (int)most->mw,
		.max_mcast_grp = (int)most->multicast_groups,
		.max_mcast_qp_attach = (int)most->multicast_qps,
		.max_total_mcast_qp_attach = (int)(most->multicast_groups * most->multicast_qps),
		.max_ah = (int)most->ah,
		.max_srq = (int)most->srq,
		.max_srq_wr = (int)most->srq_wr,
		.max_srq_sge = (int)most->srq_sge,
		.max_pkeys = profile->port.pkey_table_length,
		.local_ca_ack_delay = 15,        /* 4.096 us * 2^15 = 134 ms: an engine thread may have to be woken */
		.phys_port_cnt = 1,
	};
	snprintf(attr->fw_ver, sizeof(attr->fw_ver), "verbena %s", VB_VERSION);
}

VB_EXPORT int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *device_attr)
{
	VB_UNCANCELLED;
	if (context == NULL || device_attr == NULL)
		return vb_fail_number(EINVAL);
	fill_device_attr(context, device_attr);
	return 0;
}
VB_EXPORT_COMPAT(ibv_query_device);

/* What queue pairs of a type do with such regions: all that they do at all. */
static uint32_t odp_caps_of(const struct vb_profile *profile, enum ibv_qp_type type)
{
	const struct vb_profile_type *granted = vb_profile_type(profile, type);
	uint32_t caps = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV;

	if (granted == NULL)
		return 0;
	if (profile->limits.srq > 0)
		caps |= IBV_ODP_SUPPORT_SRQ_RECV;
	if (granted->opcodes & 1u << IBV_WR_RDMA_WRITE)
		caps |= IBV_ODP_SUPPORT_WRITE;
	if (granted->opcodes & 1u << IBV_WR_RDMA_READ)
		caps |= IBV_ODP_SUPPORT_READ;
	if (granted->opcodes & 1u << IBV_WR_ATOMIC_CMP_AND_SWP)
		caps |= IBV_ODP_SUPPORT_ATOMIC;
	return caps;
}

/* On-demand paging is natural here: nothing is pinned. */
static void fill_odp_caps(const struct vb_profile *profile, struct ibv_odp_caps *caps)
{
	caps->general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
	caps->per_transport_caps.rc_odp_caps = odp_caps_of(profile, IBV_QPT_RC);
	caps->per_transport_caps.uc_odp_caps = odp_caps_of(profile, IBV_QPT_UC);
	caps->per_transport_caps.ud_odp_caps = odp_caps_of(profile, IBV_QPT_UD);
}

/* The kernel's IB_UVERBS_DEVICE_ATOMIC_WRITE; verbs.h has no name for it. */
#define DEVICE_ATOMIC_WRITE (UINT64_C(1) << 40)

int vb_verbs_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
			     struct ibv_device_attr_ex *attr, size_t attr_size)
{
	VB_UNCANCELLED;
	struct ibv_device_attr_ex full = {0};

	if (attr == NULL || attr_size < sizeof(attr->orig_attr) || (input != NULL && input->comp_mask != 0))
		return vb_fail_number(EINVAL);
	fill_device_attr(context, &full.orig_attr);
	fill_odp_caps(vb_profile_of_context(context), &full.odp_caps);
	full.xrc_odp_caps = odp_caps_of(vb_profile_of_context(context), IBV_QPT_XRC_SEND);
	full.completion_timestamp_mask = UINT64_MAX;
	full.hca_core_clock = 1000000;   /* kHz: timestamps count nanoseconds */
	full.device_cap_flags_ex = full.orig_attr.device_cap_flags;
	if (vb_profile_of_context(context)->types[IBV_QPT_RC].opcodes & 1u << IBV_WR_ATOMIC_WRITE)
		full.device_cap_flags_ex |= DEVICE_ATOMIC_WRITE;
	full.cq_mod_caps.max_cq_count = UINT16_MAX;
	full.cq_mod_caps.max_cq_period = UINT16_MAX;
	full.max_dm_size = VB_DEVICE_MEMORY_SIZE;
	if (vb_profile_type(vb_profile_of_context(context), IBV_QPT_RAW_PACKET) != NULL) {
		full.packet_pacing_caps.qp_rate_limit_min = 1;
		full.packet_pacing_caps.qp_rate_limit_max = VB_MAX_RATE_LIMIT;
		full.packet_pacing_caps.supported_qpts = 1u << IBV_QPT_RAW_PACKET;
		full.rss_caps = (struct ibv_rss_caps){
			.supported_qpts = 1u << IBV_QPT_RAW_PACKET,
			.max_rwq_indirection_tables = VB_MAX_RWQ_TABLES,
			.max_rwq_indirection_table_size = 1u << VB_MAX_LOG_RWQ_TABLE,
			.rx_hash_fields_mask = VB_RSS_FIELDS,
			.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
		};
		full.max_wq_type_rq = vb_profile_of_context(context)->limits.qp;
	}
	full.phys_port_cnt_ex = 1;
	memset(attr, 0, attr_size);
	memcpy(attr, &full, attr_size < sizeof(full) ? attr_size : sizeof(full));
	return 0;
}

/* The clock completions are stamped with. As other providers do, all of it stands in tv_nsec. */
int vb_verbs_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
	(void)context;
	if (values == NULL || (values->comp_mask & ~(uint32_t)IBV_VALUES_MASK_RAW_CLOCK) != 0)
		return vb_fail_number(EINVAL);
	if (values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK) {
		values->raw_clock.tv_sec = 0;
		values->raw_clock.tv_nsec = (long)vb_endpoint_now();
	}
	return 0;
}

/* On InfiniBand the subnet manager's may be more than the way to the fabric carries whole; queue pairs may have it all the same. */
static enum ibv_mtu good_mtu(const struct vb_device_info *info)
{
	unsigned whole = vb_mtu_code(info->interface_mtu);

	return whole != 0 && whole < info->active_mtu ? (enum ibv_mtu)whole : info->active_mtu;
}

int vb_verbs_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr, size_t length)
{
	VB_UNCANCELLED;
	enum { PHYS_STATE_DISABLED = 3, PHYS_STATE_LINK_UP = 5 };
	const struct vb_profile_port *port;
	struct vb_counters *counters;
	struct vb_device_info info;
	struct ibv_port_attr full;

	if (context == NULL || attr == NULL || port_num != 1) {
		vb_explain_no_entry("ibv_query_port", port_num, 0, 1);
		return vb_fail_number(EINVAL);
	}
	port = &vb_profile_of_context(context)->port;
	counters = vb_context_of(context)->session->counters;
	vb_context_info(context, &info);
	full = (struct ibv_port_attr){
		.state = info.state,
		.max_mtu = IBV_MTU_4096,
		.active_mtu = good_mtu(&info),
		.gid_tbl_len = port->gid_table_length,
		.port_cap_flags = port->cap_flags,
		.max_msg_sz = port->max_message,
		.bad_pkey_cntr = (uint32_t)__atomic_load_n(&counters->bad_pkey_pkts, __ATOMIC_RELAXED),
		.qkey_viol_cntr = (uint32_t)__atomic_load_n(&counters->bad_qkey_pkts, __ATOMIC_RELAXED),
		.pkey_tbl_len = port->pkey_table_length,
		.max_vl_num = port->max_vl_num,
		.phys_state = !port->shows_phys_state ? 0 : info.state == IBV_PORT_ACTIVE ? PHYS_STATE_LINK_UP : PHYS_STATE_DISABLED,
		.link_layer = port->link_layer,
		.flags = port->flags,
	};
	vb_device_link_speed(&info, &full.active_width, &full.active_speed);
	if (vb_profile_of_context(context)->addressing == VB_ADDRESS_LID) {
		full.lid = info.subnet.lid;
		full.lmc = info.subnet.lmc;
		full.sm_lid = info.subnet.sm_lid;
		full.sm_sl = info.subnet.sm_sl;
		full.port_cap_flags = info.subnet.capabilities;
		full.phys_state = info.subnet.physical;
	}
	/* Callers of today give 52 bytes, of yesterday 48, of tomorrow perhaps more. */
	memset(attr, 0, length);
	memcpy(attr, &full, length < sizeof(full) ? length : sizeof(full));
	return 0;
}

/* The exported name is only called by binaries from before port_cap_flags2 was added. */
VB_EXPORT int ibv_query_port(struct ibv_context *context, uint8_t port_num, struct _compat_ibv_port_attr *port_attr)
{
	VB_UNCANCELLED;
	return vb_verbs_query_port(context, port_num, (struct ibv_port_attr *)(void *)port_attr,
				   offsetof(struct ibv_port_attr, port_cap_flags2));
}
VB_EXPORT_COMPAT(ibv_query_port);
