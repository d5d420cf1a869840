/* SPDX-License-Identifier: MIT
 *
 * Attributes of subnet and performance management: THE table, and the layouts that node and subnet manager share (IBA 14.2.5, 16.1.3).
 *
 * A row: name, class, id, bytes of data, what the modifier says, who answers.
 */
#ifndef VB_WIRE_MAD_ATTRIBUTES_H
#define VB_WIRE_MAD_ATTRIBUTES_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

/* ATTRIBUTE(NAME, "name", class, id, length, modifier, answered by) */
#define VB_MAD_ATTRIBUTES(ATTRIBUTE)                                                                       \
	ATTRIBUTE(NOTICE, "Notice", SMP_LID, 0x0002, 64, NONE, SM)                                         \
	ATTRIBUTE(NODE_DESCRIPTION, "NodeDescription", SMP_LID, 0x0010, 64, NONE, ANY)                     \
	ATTRIBUTE(NODE_INFO, "NodeInfo", SMP_LID, 0x0011, 40, NONE, ANY)                                   \
	ATTRIBUTE(SWITCH_INFO, "SwitchInfo", SMP_LID, 0x0012, 20, NONE, SWITCH)                            \
	ATTRIBUTE(GUID_INFO, "GUIDInfo", SMP_LID, 0x0014, 64, BLOCK, ANY)                                  \
	ATTRIBUTE(PORT_INFO, "PortInfo", SMP_LID, 0x0015, 64, PORT, ANY)                                   \
	ATTRIBUTE(PKEY_TABLE, "P_KeyTable", SMP_LID, 0x0016, 64, PORT_BLOCK, ANY)                          \
	ATTRIBUTE(SL_TO_VL, "SLtoVLMappingTable", SMP_LID, 0x0017, 8, IN_OUT_PORT, ANY)                    \
	ATTRIBUTE(VL_ARBITRATION, "VLArbitrationTable", SMP_LID, 0x0018, 64, PART_PORT, ANY)               \
	ATTRIBUTE(LINEAR_TABLE, "LinearForwardingTable", SMP_LID, 0x0019, 64, BLOCK, SWITCH)               \
	ATTRIBUTE(MULTICAST_TABLE, "MulticastForwardingTable", SMP_LID, 0x001b, 64, POSITION_BLOCK, SWITCH) \
	ATTRIBUTE(SM_INFO, "SMInfo", SMP_LID, 0x0020, 21, NONE, SM)                                        \
	ATTRIBUTE(CLASS_PORT_INFO, "ClassPortInfo", PERFORMANCE, 0x0001, 72, NONE, ANY)                    \
	ATTRIBUTE(PORT_COUNTERS, "PortCounters", PERFORMANCE, 0x0012, 44, NONE, ANY)                       \
	ATTRIBUTE(PORT_COUNTERS_EXTENDED, "PortCountersExtended", PERFORMANCE, 0x001d, 184, NONE, ANY)

enum vb_attribute {
#define ATTRIBUTE(symbol, name, mgmt_class, id, length, modifier, who) VB_ATTRIBUTE_##symbol,
	VB_MAD_ATTRIBUTES(ATTRIBUTE)
#undef ATTRIBUTE
	VB_ATTRIBUTE_COUNT,
	VB_ATTRIBUTE_UNKNOWN = VB_ATTRIBUTE_COUNT,
};

enum vb_attribute_modifier {
	VB_MODIFIER_NONE,                  /* not looked at */
	VB_MODIFIER_BLOCK,
	VB_MODIFIER_PORT,
	VB_MODIFIER_PORT_BLOCK,            /* port << 16 | block */
	VB_MODIFIER_IN_OUT_PORT,           /* in << 8 | out */
	VB_MODIFIER_PART_PORT,             /* 1..4 << 16 | port */
	VB_MODIFIER_POSITION_BLOCK,        /* position << 28 | block */
};

enum vb_attribute_answerer { VB_ANSWERED_BY_ANY, VB_ANSWERED_BY_SWITCH, VB_ANSWERED_BY_SM };

struct vb_attribute_row {
	const char *name;
	uint8_t mgmt_class;                /* the LID-routed one of the two subnet management classes */
	uint16_t id;
	uint16_t length;
	enum vb_attribute_modifier modifier;
	enum vb_attribute_answerer answerer;
};

extern const struct vb_attribute_row vb_attributes[VB_ATTRIBUTE_COUNT];
/* Both classes of SMPs have the same attributes. */
enum vb_attribute vb_attribute_find(uint8_t mgmt_class, uint16_t id);

enum vb_node_type { VB_NODE_CA = 1, VB_NODE_SWITCH = 2, VB_NODE_ROUTER = 3 };

struct vb_node_info {
	uint8_t base_version, class_version, node_type, ports;
	struct be64 system_guid, node_guid, port_guid;
	struct be16 partition_cap, device_id;
	struct be32 revision;
	uint8_t local_port;
	struct be24 vendor_id;
};

struct vb_switch_info {
	struct be16 linear_cap, random_cap, multicast_cap, linear_top;
	uint8_t default_port, default_primary, default_other;
	uint8_t life_state;                /* LifeTimeValue << 3 | PortStateChange << 2 | OptimizedSLtoVL */
	struct be16 lids_per_port, partition_cap;
	uint8_t flags;
	uint8_t reserved;
	struct be16 multicast_top;
};

enum { VB_SWITCH_STATE_CHANGE = 1 << 2 };

enum vb_port_state { VB_PORT_NO_CHANGE, VB_PORT_DOWN, VB_PORT_INIT, VB_PORT_ARMED, VB_PORT_ACTIVE };
enum vb_port_physical {
	VB_PHYSICAL_NO_CHANGE,
	VB_PHYSICAL_SLEEP,
	VB_PHYSICAL_POLLING,
	VB_PHYSICAL_DISABLED,
	VB_PHYSICAL_TRAINING,
	VB_PHYSICAL_LINK_UP,
};

struct vb_port_info {
	struct be64 m_key, gid_prefix;
	struct be16 lid, sm_lid;
	struct be32 capabilities;
	struct be16 diag_code, m_key_lease;
	uint8_t local_port, width_enabled, width_supported, width_active;
	uint8_t speed_state;               /* LinkSpeedSupported << 4 | PortState */
	uint8_t physical_default;          /* PortPhysicalState << 4 | LinkDownDefaultState */
	uint8_t protect_lmc;               /* M_KeyProtectBits << 6 | LMC */
	uint8_t speed_active_enabled;      /* LinkSpeedActive << 4 | LinkSpeedEnabled */
	uint8_t mtu_sm_sl;                 /* NeighborMTU << 4 | MasterSMSL */
	uint8_t vl_cap_init;               /* VLCap << 4 | InitType */
	uint8_t vl_high_limit, vl_high_cap, vl_low_cap;
	uint8_t init_reply_mtu_cap;        /* InitTypeReply << 4 | MTUCap */
	uint8_t stall_hoq;                 /* VLStallCount << 5 | HOQLife */
	uint8_t vls_enforcement;           /* OperationalVLs << 4 | four flags of partition and raw packet enforcement */
	struct be16 m_key_violations, pkey_violations, qkey_violations;
	uint8_t guid_cap;
	uint8_t reregister_timeout;        /* ClientReregister << 7 | SubnetTimeOut */
	uint8_t response_time;             /* RespTimeValue */
	uint8_t error_thresholds;
	struct be16 credit_hint;
	struct be32 round_trip;
	struct be16 capabilities2;
	uint8_t ext_active_supported;      /* LinkSpeedExtActive << 4 | LinkSpeedExtSupported */
	uint8_t ext_enabled;
};

/* CapabilityMask, IBA 14.2.5.6. */
enum {
	VB_PORT_CAP_SM = 1u << 1,
	VB_PORT_CAP_NOTICE = 1u << 2,
	VB_PORT_CAP_TRAP = 1u << 3,
	VB_PORT_CAP_SL_MAPPING = 1u << 6,
	VB_PORT_CAP_SYSTEM_GUID = 1u << 11,
	VB_PORT_CAP_EXTENDED_SPEEDS = 1u << 14,
	VB_PORT_CAP_CM = 1u << 16,
	VB_PORT_CAP_VENDOR_CLASS = 1u << 20,
	VB_PORT_CAP_CAPABILITY_NOTICE = 1u << 22,
	VB_PORT_CAP_CLIENT_REREGISTER = 1u << 25,
};

struct vb_notice {
	uint8_t type;                      /* 0x80: generic; | urgency */
	struct be24 producer;
	struct be16 trap, issuer_lid, toggle_count;
	uint8_t details[54];
};

enum { VB_TRAP_LINK_STATE = 128, VB_TRAP_CAPABILITIES = 144 };

struct vb_port_counters {
	uint8_t reserved, port;
	struct be16 select;
	struct be16 symbol_errors;
	uint8_t link_recoveries, link_downed;
	struct be16 receive_errors, remote_physical_errors, relay_errors, transmit_discards;
	uint8_t transmit_constraints, receive_constraints, select2, integrity_overrun;
	struct be16 reserved2, vl15_dropped;
	struct be32 transmit_data, receive_data, transmit_packets, receive_packets, transmit_wait;
};

struct vb_port_counters_extended {
	uint8_t reserved, port;
	struct be16 select;
	struct be32 select2;
	struct be64 transmit_data, receive_data, transmit_packets, receive_packets;
	struct be64 unicast_transmit, unicast_receive, multicast_transmit, multicast_receive;
	struct be64 symbol_errors, link_recoveries, link_downed, receive_errors, remote_physical_errors, relay_errors,
		transmit_discards, transmit_constraints, receive_constraints, integrity_errors, overruns, vl15_dropped,
		transmit_wait, qp1_dropped;
};

struct vb_class_port_info {
	uint8_t base_version, class_version;
	struct be16 capabilities;
	struct be32 capabilities2_time;    /* CapabilityMask2 << 5 | RespTimeValue */
	uint8_t redirection[32], trap[32];
};

_Static_assert(sizeof(struct vb_node_info) == 40 && sizeof(struct vb_switch_info) == 20, "node");
_Static_assert(sizeof(struct vb_port_info) == 64 && offsetof(struct vb_port_info, reregister_timeout) == 51, "port");
_Static_assert(offsetof(struct vb_port_info, ext_active_supported) == 62, "extended speeds");
_Static_assert(sizeof(struct vb_notice) == 64, "notice");
_Static_assert(sizeof(struct vb_port_counters) == 44 && offsetof(struct vb_port_counters, transmit_data) == 24, "counters");
_Static_assert(sizeof(struct vb_port_counters_extended) == 184, "extended counters");
_Static_assert(sizeof(struct vb_class_port_info) == 72, "class port info");

#endif
