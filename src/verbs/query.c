/* SPDX-License-Identifier: MIT
 *
 * What a device and its port can do, as they say of themselves. Everything advertised here is kept elsewhere; what
 * cannot be done is not advertised.
 */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "queue/limits.h"
#include "verbs/context.h"
#include "verbs/device_memory.h"
#include "verbs/explain_objects.h"
#include "verbs/export.h"
#include "verbs/operations.h"

/* A locally administered OUI, "Vbe": programs switch code paths on the vendors they know. */
enum { VENDOR_ID = 0x566265, VENDOR_PART_ID = 1 };

static void fill_device_attr(struct ibv_context *context, struct ibv_device_attr *attr)
{
	struct vb_device_info info;

	vb_context_info(context, &info);
	*attr = (struct ibv_device_attr){
		.node_guid = htobe64(info.guid),
		.sys_image_guid = htobe64(info.guid),
		.max_mr_size = UINT64_MAX,
		.page_size_cap = 0xfffff000,
		.vendor_id = VENDOR_ID,
		.vendor_part_id = VENDOR_PART_ID,
		.hw_ver = 1,
		.max_qp = VB_MAX_QP,
		.max_qp_wr = VB_MAX_QP_WR,
		.device_cap_flags = IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR |
				    IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT |
				    IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE |
				    IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_MGT_EXTENSIONS |
				    IBV_DEVICE_MEM_WINDOW_TYPE_2B,
		.max_sge = VB_MAX_SGE,
		.max_sge_rd = VB_MAX_SGE,
		.max_cq = VB_MAX_CQ,
		.max_cqe = VB_MAX_CQE,
		.max_mr = VB_MAX_MR,
		.max_pd = VB_MAX_PD,
		.max_qp_rd_atom = VB_MAX_RD_ATOMIC,
		.max_res_rd_atom = VB_MAX_RD_ATOMIC * VB_MAX_QP,
		.max_qp_init_rd_atom = VB_MAX_RD_ATOMIC,
		.atomic_cap = IBV_ATOMIC_GLOB,
		.max_mw = VB_MAX_MW,
		.max_mcast_grp = VB_MAX_MULTICAST_GROUPS,
		.max_mcast_qp_attach = VB_MAX_MULTICAST_QPS,
		.max_total_mcast_qp_attach = VB_MAX_MULTICAST_GROUPS * VB_MAX_MULTICAST_QPS,
		.max_ah = VB_MAX_AH,
		.max_srq = VB_MAX_SRQ,
		.max_srq_wr = VB_MAX_SRQ_WR,
		.max_srq_sge = VB_MAX_SGE,
		.max_pkeys = 1,
		.local_ca_ack_delay = 15,        /* 4.096 us * 2^15 = 134 ms: an engine thread may have to be woken */
		.phys_port_cnt = 1,
	};
	snprintf(attr->fw_ver, sizeof(attr->fw_ver), "verbena %s", VB_VERSION);
}

VB_EXPORT int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *device_attr)
{
	if (context == NULL || device_attr == NULL)
		return EINVAL;
	fill_device_attr(context, device_attr);
	return 0;
}
VB_EXPORT_COMPAT(ibv_query_device);

/* On-demand paging is natural here: nothing is pinned. */
static void fill_odp_caps(struct ibv_odp_caps *caps)
{
	const uint32_t datagram = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
	const uint32_t connected = datagram | IBV_ODP_SUPPORT_WRITE;

	caps->general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
	caps->per_transport_caps.rc_odp_caps = connected | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC;
	caps->per_transport_caps.uc_odp_caps = connected;
	caps->per_transport_caps.ud_odp_caps = datagram;
}

int vb_verbs_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
			     struct ibv_device_attr_ex *attr, size_t attr_size)
{
	struct ibv_device_attr_ex full = {0};

	if (attr == NULL || attr_size < sizeof(attr->orig_attr) || (input != NULL && input->comp_mask != 0))
		return EINVAL;
	fill_device_attr(context, &full.orig_attr);
	fill_odp_caps(&full.odp_caps);
	full.completion_timestamp_mask = UINT64_MAX;
	full.hca_core_clock = 1000000;   /* kHz: timestamps count nanoseconds */
	full.device_cap_flags_ex = full.orig_attr.device_cap_flags;
	full.cq_mod_caps.max_cq_count = UINT16_MAX;
	full.cq_mod_caps.max_cq_period = UINT16_MAX;
	full.max_dm_size = VB_DEVICE_MEMORY_SIZE;
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
		return EINVAL;
	if (values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK) {
		values->raw_clock.tv_sec = 0;
		values->raw_clock.tv_nsec = (long)vb_endpoint_now();
	}
	return 0;
}

int vb_verbs_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr, size_t length)
{
	enum { PHYS_STATE_DISABLED = 3, PHYS_STATE_LINK_UP = 5 };
	struct vb_counters *counters;
	struct vb_device_info info;
	struct ibv_port_attr full;

	if (context == NULL || attr == NULL || port_num != 1) {
		vb_explain_no_entry("ibv_query_port", port_num, 0, 1);
		return EINVAL;
	}
	counters = vb_context_of(context)->session->counters;
	vb_context_info(context, &info);
	full = (struct ibv_port_attr){
		.state = info.state,
		.max_mtu = IBV_MTU_4096,
		.active_mtu = info.active_mtu,
		.gid_tbl_len = VB_MAX_GIDS,
		.port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS,
		.max_msg_sz = VB_MAX_MESSAGE,
		.bad_pkey_cntr = (uint32_t)__atomic_load_n(&counters->bad_pkey_pkts, __ATOMIC_RELAXED),
		.qkey_viol_cntr = (uint32_t)__atomic_load_n(&counters->bad_qkey_pkts, __ATOMIC_RELAXED),
		.pkey_tbl_len = 1,
		.max_vl_num = 1,
		.phys_state = info.state == IBV_PORT_ACTIVE ? PHYS_STATE_LINK_UP : PHYS_STATE_DISABLED,
		.link_layer = IBV_LINK_LAYER_ETHERNET,
		.flags = IBV_QPF_GRH_REQUIRED,
	};
	vb_device_link_speed(&info, &full.active_width, &full.active_speed);
	/* Callers of today give 52 bytes, of yesterday 48, of tomorrow perhaps more. */
	memset(attr, 0, length);
	memcpy(attr, &full, length < sizeof(full) ? length : sizeof(full));
	return 0;
}

/* The exported name is only called by binaries from before port_cap_flags2 was added. */
VB_EXPORT int ibv_query_port(struct ibv_context *context, uint8_t port_num, struct _compat_ibv_port_attr *port_attr)
{
	return vb_verbs_query_port(context, port_num, (struct ibv_port_attr *)(void *)port_attr,
				   offsetof(struct ibv_port_attr, port_cap_flags2));
}
VB_EXPORT_COMPAT(ibv_query_port);
