/* SPDX-License-Identifier: MIT
 *
 * The CM messages in bytes. Each message is a table of fields: member, byte and bit where it begins (bit 0 is the most
 * significant, as the specification counts), width. Integers of up to 64 bits and byte strings; what no row names is
 * reserved: sent as zero, ignored when received (IBA 13.4.3). Adding a field is adding a row.
 */
#include "wire/cm_mad.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

enum {
	BASE_VERSION = 1,
	CLASS_COMMUNICATION = 0x07,
	CLASS_VERSION = 2,
	METHOD_SEND = 0x03,
	BODY_LENGTH = VB_CM_MAD_LENGTH - VB_CM_MAD_HEADER_LENGTH,
};

struct field {
	uint16_t member, size;           /* in struct vb_cm_mad */
	uint16_t byte;                   /* in the message, which begins after the MAD header */
	uint8_t bit, bits;               /* bits 0: a string of `size` bytes */
};

#define NUMBER(path, at, first_bit, width)                                                           \
	{offsetof(struct vb_cm_mad, path), sizeof(((struct vb_cm_mad *)0)->path), at, first_bit, width}
#define BYTES(path, at) \
	{offsetof(struct vb_cm_mad, path), sizeof(((struct vb_cm_mad *)0)->path), at, 0, 0}

/* A message ends with its private data. */
#define ENDS_WITH(path, at)                                                                          \
	_Static_assert((at) + sizeof(((struct vb_cm_mad *)0)->path) == BODY_LENGTH, #path " ends the MAD")

#define REQ_PATH(path, at)                                                                           \
	NUMBER(path.local_lid, (at), 0, 16), NUMBER(path.remote_lid, (at) + 2, 0, 16),               \
	BYTES(path.local_gid, (at) + 4), BYTES(path.remote_gid, (at) + 20),                          \
	NUMBER(path.flow_label, (at) + 36, 0, 20), NUMBER(path.rate, (at) + 39, 2, 6),               \
	NUMBER(path.traffic_class, (at) + 40, 0, 8), NUMBER(path.hop_limit, (at) + 41, 0, 8),        \
	NUMBER(path.service_level, (at) + 42, 0, 4), NUMBER(path.subnet_local, (at) + 42, 4, 1),     \
	NUMBER(path.local_ack_timeout, (at) + 43, 0, 5)

/* Table 106. The vendor id stands in what was reserved (IBA 1.5: enhanced connection establishment). */
static const struct field req_fields[] = {
	NUMBER(req.local_id, 0, 0, 32),
	NUMBER(req.vendor_id, 5, 0, 24),
	NUMBER(req.service_id, 8, 0, 64),
	NUMBER(req.local_ca_guid, 16, 0, 64),
	NUMBER(req.local_qkey, 28, 0, 32),
	NUMBER(req.local_qpn, 32, 0, 24),
	NUMBER(req.responder_resources, 35, 0, 8),
	NUMBER(req.local_eecn, 36, 0, 24),
	NUMBER(req.initiator_depth, 39, 0, 8),
	NUMBER(req.remote_eecn, 40, 0, 24),
	NUMBER(req.remote_response_timeout, 43, 0, 5),
	NUMBER(req.transport, 43, 5, 2),
	NUMBER(req.flow_control, 43, 7, 1),
	NUMBER(req.starting_psn, 44, 0, 24),
	NUMBER(req.local_response_timeout, 47, 0, 5),
	NUMBER(req.retry_count, 47, 5, 3),
	NUMBER(req.pkey, 48, 0, 16),
	NUMBER(req.path_mtu, 50, 0, 4),
	NUMBER(req.rdc_exists, 50, 4, 1),
	NUMBER(req.rnr_retry_count, 50, 5, 3),
	NUMBER(req.max_cm_retries, 51, 0, 4),
	NUMBER(req.srq, 51, 4, 1),
	NUMBER(req.extended_transport, 51, 5, 3),
	REQ_PATH(req.primary, 52),
	REQ_PATH(req.alternate, 96),
	BYTES(req.private_data, 140),
};
ENDS_WITH(req.private_data, 140);

/* Table 107 */
static const struct field mra_fields[] = {
	NUMBER(mra.local_id, 0, 0, 32),
	NUMBER(mra.remote_id, 4, 0, 32),
	NUMBER(mra.about, 8, 0, 2),
	NUMBER(mra.service_timeout, 9, 0, 5),
	BYTES(mra.private_data, 10),
};
ENDS_WITH(mra.private_data, 10);

/* Table 108 */
static const struct field rej_fields[] = {
	NUMBER(rej.local_id, 0, 0, 32),
	NUMBER(rej.remote_id, 4, 0, 32),
	NUMBER(rej.about, 8, 0, 2),
	NUMBER(rej.info_length, 9, 0, 7),
	NUMBER(rej.reason, 10, 0, 16),
	BYTES(rej.ari, 12),
	BYTES(rej.private_data, 84),
};
ENDS_WITH(rej.private_data, 84);

/* Table 110. The three bytes of the vendor id fill what was reserved after each 24-bit number. */
static const struct field rep_fields[] = {
	NUMBER(rep.local_id, 0, 0, 32),
	NUMBER(rep.remote_id, 4, 0, 32),
	NUMBER(rep.local_qkey, 8, 0, 32),
	NUMBER(rep.local_qpn, 12, 0, 24),
	NUMBER(rep.vendor_id_high, 15, 0, 8),
	NUMBER(rep.local_eecn, 16, 0, 24),
	NUMBER(rep.vendor_id_middle, 19, 0, 8),
	NUMBER(rep.starting_psn, 20, 0, 24),
	NUMBER(rep.vendor_id_low, 23, 0, 8),
	NUMBER(rep.responder_resources, 24, 0, 8),
	NUMBER(rep.initiator_depth, 25, 0, 8),
	NUMBER(rep.target_ack_delay, 26, 0, 5),
	NUMBER(rep.failover_accepted, 26, 5, 2),
	NUMBER(rep.flow_control, 26, 7, 1),
	NUMBER(rep.rnr_retry_count, 27, 0, 3),
	NUMBER(rep.srq, 27, 3, 1),
	NUMBER(rep.local_ca_guid, 28, 0, 64),
	BYTES(rep.private_data, 36),
};
ENDS_WITH(rep.private_data, 36);

/* Table 111 */
static const struct field rtu_fields[] = {
	NUMBER(rtu.local_id, 0, 0, 32),
	NUMBER(rtu.remote_id, 4, 0, 32),
	BYTES(rtu.private_data, 8),
};
ENDS_WITH(rtu.private_data, 8);

static const struct field dreq_fields[] = {
	NUMBER(dreq.local_id, 0, 0, 32),
	NUMBER(dreq.remote_id, 4, 0, 32),
	NUMBER(dreq.remote_qpn, 8, 0, 24),
	BYTES(dreq.private_data, 12),
};
ENDS_WITH(dreq.private_data, 12);

static const struct field drep_fields[] = {
	NUMBER(drep.local_id, 0, 0, 32),
	NUMBER(drep.remote_id, 4, 0, 32),
	BYTES(drep.private_data, 8),
};
ENDS_WITH(drep.private_data, 8);

static const struct field sidr_req_fields[] = {
	NUMBER(sidr_req.request_id, 0, 0, 32),
	NUMBER(sidr_req.pkey, 4, 0, 16),
	NUMBER(sidr_req.service_id, 8, 0, 64),
	BYTES(sidr_req.private_data, 16),
};
ENDS_WITH(sidr_req.private_data, 16);

static const struct field sidr_rep_fields[] = {
	NUMBER(sidr_rep.request_id, 0, 0, 32),
	NUMBER(sidr_rep.status, 4, 0, 8),
	NUMBER(sidr_rep.info_length, 5, 0, 8),
	NUMBER(sidr_rep.vendor_id_high, 6, 0, 16),
	NUMBER(sidr_rep.qpn, 8, 0, 24),
	NUMBER(sidr_rep.vendor_id_low, 11, 0, 8),
	NUMBER(sidr_rep.service_id, 12, 0, 64),
	NUMBER(sidr_rep.qkey, 20, 0, 32),
	BYTES(sidr_rep.info, 24),
	BYTES(sidr_rep.private_data, 96),
};
ENDS_WITH(sidr_rep.private_data, 96);

/* Table 112: not the layout of the REQ's alternate path, though it says the same. */
static const struct field lap_fields[] = {
	NUMBER(lap.local_id, 0, 0, 32),
	NUMBER(lap.remote_id, 4, 0, 32),
	NUMBER(lap.remote_qpn, 12, 0, 24),
	NUMBER(lap.remote_response_timeout, 15, 0, 5),
	NUMBER(lap.local_lid, 20, 0, 16),
	NUMBER(lap.remote_lid, 22, 0, 16),
	BYTES(lap.local_gid, 24),
	BYTES(lap.remote_gid, 40),
	NUMBER(lap.flow_label, 56, 0, 20),
	NUMBER(lap.traffic_class, 59, 0, 8),
	NUMBER(lap.hop_limit, 60, 0, 8),
	NUMBER(lap.rate, 61, 2, 6),
	NUMBER(lap.service_level, 62, 0, 4),
	NUMBER(lap.subnet_local, 62, 4, 1),
	NUMBER(lap.local_ack_timeout, 63, 0, 5),
	BYTES(lap.private_data, 64),
};
ENDS_WITH(lap.private_data, 64);

static const struct field apr_fields[] = {
	NUMBER(apr.local_id, 0, 0, 32),
	NUMBER(apr.remote_id, 4, 0, 32),
	NUMBER(apr.info_length, 8, 0, 8),
	NUMBER(apr.status, 9, 0, 8),
	BYTES(apr.info, 12),
	BYTES(apr.private_data, 84),
};
ENDS_WITH(apr.private_data, 84);

struct message {
	const char *name;
	const struct field *fields;
	unsigned count;
};

#define MESSAGE(attribute, table) \
	[VB_CM_##attribute - VB_CM_REQ] = {#attribute, table, sizeof(table) / sizeof(table[0])}

static const struct message messages[] = {
	MESSAGE(REQ, req_fields),           MESSAGE(MRA, mra_fields),
	MESSAGE(REJ, rej_fields),           MESSAGE(REP, rep_fields),
	MESSAGE(RTU, rtu_fields),           MESSAGE(DREQ, dreq_fields),
	MESSAGE(DREP, drep_fields),         MESSAGE(SIDR_REQ, sidr_req_fields),
	MESSAGE(SIDR_REP, sidr_rep_fields), MESSAGE(LAP, lap_fields),
	MESSAGE(APR, apr_fields),
};

_Static_assert(sizeof(messages) / sizeof(messages[0]) == VB_CM_ATTRIBUTE_END - VB_CM_REQ, "a row for every message");

static const struct message *message_of(unsigned attribute)
{
	return attribute >= VB_CM_REQ && attribute < VB_CM_ATTRIBUTE_END ? &messages[attribute - VB_CM_REQ] : NULL;
}

static uint64_t load_number(const void *member, unsigned size)
{
	switch (size) {
	case 1: return *(const uint8_t *)member;
	case 2: return *(const uint16_t *)member;
	case 4: return *(const uint32_t *)member;
	default: return *(const uint64_t *)member;
	}
}

static void store_number(void *member, unsigned size, uint64_t value)
{
	switch (size) {
	case 1: *(uint8_t *)member = (uint8_t)value; break;
	case 2: *(uint16_t *)member = (uint16_t)value; break;
	case 4: *(uint32_t *)member = (uint32_t)value; break;
	default: *(uint64_t *)member = value; break;
	}
}

/* A field either lies within one byte or begins on one; the loop runs over the bytes it touches. */
static void put_bits(uint8_t *at, unsigned bit, unsigned bits, uint64_t value)
{
	while (bits > 0) {
		unsigned here = bits < 8 - bit ? bits : 8 - bit, shift = 8 - bit - here;
		unsigned mask = ((1u << here) - 1) << shift;

		*at = (uint8_t)((*at & ~mask) | ((unsigned)(value >> (bits - here)) << shift & mask));
		at++;
		bit = 0;
		bits -= here;
	}
}

static uint64_t get_bits(const uint8_t *at, unsigned bit, unsigned bits)
{
	uint64_t value = 0;

	while (bits > 0) {
		unsigned here = bits < 8 - bit ? bits : 8 - bit, shift = 8 - bit - here;

		value = value << here | (*at >> shift & ((1u << here) - 1));
		at++;
		bit = 0;
		bits -= here;
	}
	return value;
}

int vb_cm_mad_decode(struct vb_cm_mad *mad, const void *bytes, size_t length)
{
	const uint8_t *in = bytes, *body = in + VB_CM_MAD_HEADER_LENGTH;
	const struct message *message;

	if (length < VB_CM_MAD_LENGTH)
		return -EBADMSG;
	if (in[0] != BASE_VERSION || in[1] != CLASS_COMMUNICATION || in[2] != CLASS_VERSION || in[3] != METHOD_SEND)
		return -EBADMSG;
	message = message_of((unsigned)get_bits(in + 16, 0, 16));
	if (!message)
		return -EOPNOTSUPP;
	memset(mad, 0, sizeof(*mad));
	mad->status = (uint16_t)get_bits(in + 4, 0, 16);
	mad->class_specific = (uint16_t)get_bits(in + 6, 0, 16);
	mad->transaction = get_bits(in + 8, 0, 64);
	mad->attribute = (uint16_t)get_bits(in + 16, 0, 16);
	mad->modifier = (uint32_t)get_bits(in + 20, 0, 32);
	for (unsigned i = 0; i < message->count; i++) {
		const struct field *f = &message->fields[i];
		uint8_t *member = (uint8_t *)mad + f->member;

		if (f->bits)
			store_number(member, f->size, get_bits(body + f->byte, f->bit, f->bits));
		else
			memcpy(member, body + f->byte, f->size);
	}
	return 0;
}

void vb_cm_mad_encode(const struct vb_cm_mad *mad, uint8_t out[VB_CM_MAD_LENGTH])
{
	const struct message *message = message_of(mad->attribute);
	uint8_t *body = out + VB_CM_MAD_HEADER_LENGTH;

	assert(message);
	memset(out, 0, VB_CM_MAD_LENGTH);
	out[0] = BASE_VERSION;
	out[1] = CLASS_COMMUNICATION;
	out[2] = CLASS_VERSION;
	out[3] = METHOD_SEND;
	put_bits(out + 4, 0, 16, mad->status);
	put_bits(out + 6, 0, 16, mad->class_specific);
	put_bits(out + 8, 0, 64, mad->transaction);
	put_bits(out + 16, 0, 16, mad->attribute);
	put_bits(out + 20, 0, 32, mad->modifier);
	for (unsigned i = 0; i < message->count; i++) {
		const struct field *f = &message->fields[i];
		const uint8_t *member = (const uint8_t *)mad + f->member;

		if (f->bits)
			put_bits(body + f->byte, f->bit, f->bits, load_number(member, f->size));
		else
			memcpy(body + f->byte, member, f->size);
	}
}

const char *vb_cm_attribute_name(unsigned attribute)
{
	const struct message *message = message_of(attribute);

	return message ? message->name : "?";
}

/* Annex A11.3: version 0, IP version in the high half of the second byte, port, then both addresses in 16 bytes each,
 * an IPv4 address in the last four. */
int vb_cm_ip_header_decode(struct vb_cm_ip_header *header, const uint8_t bytes[VB_CM_IP_HEADER_LENGTH])
{
	static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

	header->ip_version = bytes[1] >> 4;
	if (bytes[0] != 0 || (header->ip_version != 4 && header->ip_version != 6))
		return -EBADMSG;
	header->port = (uint16_t)get_bits(bytes + 2, 0, 16);
	memcpy(header->source, bytes + 4, 16);
	memcpy(header->destination, bytes + 20, 16);
	if (header->ip_version == 4) {
		memcpy(header->source, mapped, sizeof(mapped));
		memcpy(header->destination, mapped, sizeof(mapped));
	}
	return 0;
}

void vb_cm_ip_header_encode(const struct vb_cm_ip_header *header, uint8_t out[VB_CM_IP_HEADER_LENGTH])
{
	out[0] = 0;
	out[1] = (uint8_t)(header->ip_version << 4);
	put_bits(out + 2, 0, 16, header->port);
	memcpy(out + 4, header->source, 16);
	memcpy(out + 20, header->destination, 16);
	if (header->ip_version == 4) {
		memset(out + 4, 0, 12);
		memset(out + 20, 0, 12);
	}
}

void vb_cm_packet_describe(struct vb_roce_packet *packet, uint32_t psn)
{
	int opcode = vb_roce_opcode_find(VB_SERVICE_UD, VB_KIND_SEND, VB_POSITION_ONLY, 0);

	assert(opcode >= 0);
	memset(packet, 0, sizeof(*packet));
	packet->opcode = (uint8_t)opcode;
	packet->op = vb_roce_opcode(packet->opcode);
	packet->pkey = VB_DEFAULT_PKEY;
	packet->destination_qpn = VB_CM_QPN;
	/* The kernel's driver asks for an acknowledgement of MADs, which a datagram cannot get; ours look the same. */
	packet->ack_request = true;
	packet->psn = psn_of(psn);
	packet->deth.qkey = VB_CM_QKEY;
	packet->deth.source_qpn = VB_CM_QPN;
}

bool vb_cm_packet_is_mad(const struct vb_roce_packet *packet)
{
	return packet->op->service == VB_SERVICE_UD && packet->op->kind == VB_KIND_SEND &&
	       packet->op->position == VB_POSITION_ONLY && packet->destination_qpn == VB_CM_QPN &&
	       packet->deth.qkey == VB_CM_QKEY && packet->payload_length == VB_CM_MAD_LENGTH;
}
