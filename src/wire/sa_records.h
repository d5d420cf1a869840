/* SPDX-License-Identifier: MIT
 *
 * Requests to the subnet administration and the records that we ask it for (IBA 15.2): MAD header, RMPP, SM_Key, AttributeOffset,
 * ComponentMask, which says which fields of the record count, and the record.
 */
#ifndef VB_WIRE_SA_RECORDS_H
#define VB_WIRE_SA_RECORDS_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "wire/mad.h"

enum vb_sa_attribute { VB_SA_SERVICE_RECORD = 0x0031, VB_SA_PATH_RECORD = 0x0035, VB_SA_MEMBER_RECORD = 0x0038 };
enum { VB_SA_CLASS_VERSION = 2, VB_SA_DELETE = 0x15 };

/* Status of an answer, IBA 15.2.3. */
enum vb_sa_status { VB_SA_NO_RECORDS = 0x0300, VB_SA_TOO_MANY_RECORDS = 0x0400 };

struct vb_sa_mad {
	struct vb_mad_header_bytes {
		uint8_t base_version, mgmt_class, class_version, method;
		struct be16 status, class_specific;
		struct be64 transaction;
		struct be16 attribute, reserved;
		struct be32 modifier;
	} header;
	uint8_t rmpp[12];
	struct be64 sm_key;
	struct be16 attribute_offset, reserved;
	struct be64 component_mask;
	uint8_t data[200];
};

/* IBA 15.2.5.14. */
struct vb_service_record {
	struct be64 id;
	uint8_t gid[16];
	struct be16 pkey, reserved;
	struct be32 lease;                 /* seconds */
	uint8_t key[16];
	char name[64];
	uint8_t data[64];
};

enum {
	VB_SERVICE_HAS_ID = 1 << 0, VB_SERVICE_HAS_GID = 1 << 1, VB_SERVICE_HAS_PKEY = 1 << 2, VB_SERVICE_HAS_LEASE = 1 << 4,
	VB_SERVICE_HAS_NAME = 1 << 6,
};

/* IBA 15.2.5.16. */
struct vb_path_record {
	struct be64 service_id;
	uint8_t dgid[16], sgid[16];
	struct be16 dlid, slid;
	struct be32 flow_hops;             /* raw traffic, flow label << 8, hop limit */
	uint8_t traffic_class, numb_path;  /* reversible << 7 */
	struct be16 pkey, qos_sl;          /* QoS class << 4 | SL */
	uint8_t mtu, rate, lifetime;       /* selector << 6 each */
	uint8_t preference, reserved[6];
};

enum {
	VB_PATH_HAS_DGID = 1 << 2, VB_PATH_HAS_SGID = 1 << 3, VB_PATH_HAS_REVERSIBLE = 1 << 11, VB_PATH_HAS_NUMB_PATH = 1 << 12,
	VB_PATH_HAS_PKEY = 1 << 13,
};

/* IBA 15.2.5.17: a port's membership in a multicast group. */
struct vb_member_record {
	uint8_t mgid[16], port_gid[16];
	struct be32 qkey;
	struct be16 mlid;
	uint8_t mtu, traffic_class;
	struct be16 pkey;
	uint8_t rate, lifetime;
	struct be32 sl_flow_hops;          /* SL << 28, flow label << 8, hop limit */
	uint8_t scope_state, proxy;        /* scope << 4 | join state */
	uint8_t reserved[2];
};

enum { VB_MEMBER_FULL = 1, VB_MEMBER_SEND_ONLY = 4 };
enum {
	VB_MEMBER_HAS_MGID = 1 << 0, VB_MEMBER_HAS_PORT_GID = 1 << 1, VB_MEMBER_HAS_QKEY = 1 << 2, VB_MEMBER_HAS_TRAFFIC_CLASS = 1 << 6,
	VB_MEMBER_HAS_PKEY = 1 << 7, VB_MEMBER_HAS_SL = 1 << 12, VB_MEMBER_HAS_FLOW_LABEL = 1 << 13, VB_MEMBER_HAS_JOIN_STATE = 1 << 16,
};

_Static_assert(sizeof(struct vb_member_record) == 52, "member_record");
_Static_assert(sizeof(struct vb_sa_mad) == VB_MAD_LENGTH && offsetof(struct vb_sa_mad, data) == VB_SA_DATA, "sa_mad");
_Static_assert(sizeof(struct vb_service_record) == 176, "service_record");
_Static_assert(sizeof(struct vb_path_record) == 64, "path_record");

#endif
