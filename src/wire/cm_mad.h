/* SPDX-License-Identifier: MIT
 *
 * InfiniBand communication management messages (IBA 12.6, tables 106 to 116): what each says (struct vb_cm_mad) and its
 * 256 bytes. A MAD is a 24-byte header and 232 bytes of message; RoCEv2 carries it in a UD SEND_ONLY packet between the
 * two QP1s. rdma_cm prefixes the private data of REQ and SIDR_REQ with 36 bytes about IP addresses (annex A11), struct
 * vb_cm_ip_header here.
 *
 * Pure functions; every field's place stands once, in the tables of cm_mad.c.
 */
#ifndef VB_WIRE_CM_MAD_H
#define VB_WIRE_CM_MAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/roce_packet.h"

enum {
	VB_CM_MAD_LENGTH = 256,
	VB_CM_MAD_HEADER_LENGTH = 24,
	VB_CM_QPN = 1,                   /* the general services interface */
	VB_CM_NO_QPN = 0,                /* in a DREQ: no connection has QP0 */
	VB_CM_REQ_PRIVATE = 92,
	VB_CM_MRA_PRIVATE = 222,
	VB_CM_REJ_ARI = 72,
	VB_CM_REJ_PRIVATE = 148,
	VB_CM_REP_PRIVATE = 196,
	VB_CM_RTU_PRIVATE = 224,
	VB_CM_DREQ_PRIVATE = 220,
	VB_CM_DREP_PRIVATE = 224,
	VB_CM_LAP_PRIVATE = 168,
	VB_CM_APR_INFO = 72,
	VB_CM_APR_PRIVATE = 148,
	VB_CM_SIDR_REQ_PRIVATE = 216,
	VB_CM_SIDR_REP_INFO = 72,
	VB_CM_SIDR_REP_PRIVATE = 136,
	VB_CM_IP_HEADER_LENGTH = 36,
};

#define VB_CM_QKEY 0x80010000u
#define VB_CM_PERMISSIVE_LID 0xffff

/* Attribute ids, IBA table 104; the rows of the state table are in this order. */
enum vb_cm_attribute {
	VB_CM_REQ = 0x10,
	VB_CM_MRA,
	VB_CM_REJ,
	VB_CM_REP,
	VB_CM_RTU,
	VB_CM_DREQ,
	VB_CM_DREP,
	VB_CM_SIDR_REQ,
	VB_CM_SIDR_REP,
	VB_CM_LAP,
	VB_CM_APR,
	VB_CM_ATTRIBUTE_END,
};

/* Which message an MRA or REJ is about (tables 107 and 108). */
enum vb_cm_about { VB_CM_ABOUT_REQ = 0, VB_CM_ABOUT_REP = 1, VB_CM_ABOUT_OTHER = 2 };

/* REJ reasons, IBA table 109. */
enum vb_cm_reject_reason {
	VB_CM_REJECT_NO_QP = 1,
	VB_CM_REJECT_NO_RESOURCES = 3,
	VB_CM_REJECT_TIMEOUT = 4,
	VB_CM_REJECT_UNSUPPORTED = 5,
	VB_CM_REJECT_INVALID_ID = 6,
	VB_CM_REJECT_INVALID_SERVICE_ID = 8,
	VB_CM_REJECT_INVALID_SERVICE_TYPE = 9,
	VB_CM_REJECT_STALE = 10,
	VB_CM_REJECT_CONSUMER = 28,
	VB_CM_REJECT_UNSUPPORTED_VERSION = 31,
};

/* SIDR_REP status, IBA table 115. */
enum vb_cm_sidr_status {
	VB_CM_SIDR_VALID = 0,
	VB_CM_SIDR_NO_SERVICE = 1,
	VB_CM_SIDR_REJECTED = 2,
	VB_CM_SIDR_NO_QP = 3,
	VB_CM_SIDR_REDIRECT = 4,
	VB_CM_SIDR_UNSUPPORTED_VERSION = 5,
};

/* APR status, IBA table 113. */
enum vb_cm_apr_status { VB_CM_APR_INVALID_ID = 1, VB_CM_APR_NOT_SUPPORTED = 2 };

/* Transport service type of a REQ. 3 says: look at extended_transport (XRC is 1). */
enum vb_cm_transport {
	VB_CM_TRANSPORT_RC = 0,
	VB_CM_TRANSPORT_UC = 1,
	VB_CM_TRANSPORT_RD = 2,
	VB_CM_TRANSPORT_EXTENDED = 3         /* see extended_transport */
};

/* Annex A14: of the extended ones. */
enum { VB_CM_EXTENDED_XRC = 1 };

struct vb_cm_req_path {
	uint16_t local_lid, remote_lid;
	uint8_t local_gid[16], remote_gid[16];
	uint32_t flow_label;
	uint8_t rate, traffic_class, hop_limit, service_level, subnet_local, local_ack_timeout;
};

struct vb_cm_req {
	uint32_t local_id, vendor_id;
	uint64_t service_id, local_ca_guid;
	uint32_t local_qkey, local_qpn, local_eecn, remote_eecn, starting_psn;
	uint8_t responder_resources, initiator_depth;
	uint8_t remote_response_timeout, transport, flow_control;
	uint8_t local_response_timeout, retry_count;
	uint16_t pkey;
	uint8_t path_mtu, rdc_exists, rnr_retry_count, max_cm_retries, srq, extended_transport;
	struct vb_cm_req_path primary, alternate;
	uint8_t private_data[VB_CM_REQ_PRIVATE];
};

struct vb_cm_mra {
	uint32_t local_id, remote_id;
	uint8_t about, service_timeout;
	uint8_t private_data[VB_CM_MRA_PRIVATE];
};

struct vb_cm_rej {
	uint32_t local_id, remote_id;
	uint8_t about, info_length;
	uint16_t reason;
	uint8_t ari[VB_CM_REJ_ARI];
	uint8_t private_data[VB_CM_REJ_PRIVATE];
};

struct vb_cm_rep {
	uint32_t local_id, remote_id, local_qkey, local_qpn, local_eecn, starting_psn;
	uint8_t vendor_id_high, vendor_id_middle, vendor_id_low;
	uint8_t responder_resources, initiator_depth, target_ack_delay, failover_accepted, flow_control,
		rnr_retry_count, srq;
	uint64_t local_ca_guid;
	uint8_t private_data[VB_CM_REP_PRIVATE];
};

struct vb_cm_rtu {
	uint32_t local_id, remote_id;
	uint8_t private_data[VB_CM_RTU_PRIVATE];
};

struct vb_cm_dreq {
	uint32_t local_id, remote_id, remote_qpn;
	uint8_t private_data[VB_CM_DREQ_PRIVATE];
};

struct vb_cm_drep {
	uint32_t local_id, remote_id;
	uint8_t private_data[VB_CM_DREP_PRIVATE];
};

struct vb_cm_sidr_req {
	uint32_t request_id;
	uint16_t pkey;
	uint64_t service_id;
	uint8_t private_data[VB_CM_SIDR_REQ_PRIVATE];
};

struct vb_cm_sidr_rep {
	uint32_t request_id;
	uint8_t status, info_length;
	uint16_t vendor_id_high;
	uint32_t qpn;
	uint8_t vendor_id_low;
	uint64_t service_id;
	uint32_t qkey;
	uint8_t info[VB_CM_SIDR_REP_INFO];
	uint8_t private_data[VB_CM_SIDR_REP_PRIVATE];
};

struct vb_cm_lap {
	uint32_t local_id, remote_id, remote_qpn;
	uint8_t remote_response_timeout;
	uint16_t local_lid, remote_lid;
	uint8_t local_gid[16], remote_gid[16];
	uint32_t flow_label;
	uint8_t traffic_class, hop_limit, rate, service_level, subnet_local, local_ack_timeout;
	uint8_t private_data[VB_CM_LAP_PRIVATE];
};

struct vb_cm_apr {
	uint32_t local_id, remote_id;
	uint8_t info_length, status;
	uint8_t info[VB_CM_APR_INFO];
	uint8_t private_data[VB_CM_APR_PRIVATE];
};

struct vb_cm_mad {
	uint16_t attribute;              /* enum vb_cm_attribute: says which member of the union counts */
	uint16_t status, class_specific;
	uint32_t modifier;               /* REQ, REP: options of enhanced connection establishment */
	uint64_t transaction;
	union {
		struct vb_cm_req req;
		struct vb_cm_mra mra;
		struct vb_cm_rej rej;
		struct vb_cm_rep rep;
		struct vb_cm_rtu rtu;
		struct vb_cm_dreq dreq;
		struct vb_cm_drep drep;
		struct vb_cm_sidr_req sidr_req;
		struct vb_cm_sidr_rep sidr_rep;
		struct vb_cm_lap lap;
		struct vb_cm_apr apr;
	};
};

/* 0, or -EBADMSG (too short, another class or version, no Send), -EOPNOTSUPP (an attribute that is none of ours). */
int vb_cm_mad_decode(struct vb_cm_mad *mad, const void *bytes, size_t length);
void vb_cm_mad_encode(const struct vb_cm_mad *mad, uint8_t out[VB_CM_MAD_LENGTH]);
const char *vb_cm_attribute_name(unsigned attribute);

/* The private header of rdma_cm, IBA annex A11.3. Addresses as GIDs, IPv4 mapped. */
struct vb_cm_ip_header {
	uint8_t ip_version;              /* 4 or 6 */
	uint16_t port;                   /* the sender's */
	uint8_t source[16], destination[16];
};

int vb_cm_ip_header_decode(struct vb_cm_ip_header *header,
			   const uint8_t bytes[VB_CM_IP_HEADER_LENGTH]); /* 0 or -EBADMSG */
void vb_cm_ip_header_encode(const struct vb_cm_ip_header *header, uint8_t out[VB_CM_IP_HEADER_LENGTH]);

/* Annex A11.2: the service id of a port is 0x0000000001, IP protocol (the low byte of the port space), port. */
static inline uint64_t vb_cm_service_id(uint32_t port_space, uint16_t port)
{
	return (uint64_t)port_space << 16 | port;
}

static inline uint32_t vb_cm_service_port_space(uint64_t service_id)
{
	return service_id >> 32 ? 0 : (uint32_t)(service_id >> 16);
}

static inline uint16_t vb_cm_service_port(uint64_t service_id)
{
	return (uint16_t)service_id;
}

/* All but the payload of a packet that carries a MAD. */
void vb_cm_packet_describe(struct vb_roce_packet *packet, uint32_t psn);
/* Is a decoded packet a MAD for our QP1? Its payload then has VB_CM_MAD_LENGTH bytes. */
bool vb_cm_packet_is_mad(const struct vb_roce_packet *packet);

#endif
