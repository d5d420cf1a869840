/* SPDX-License-Identifier: MIT
 *
 * THE opcode table. The upper three bits of an opcode are the service, the lower five the operation (IBA 9.2.1, table
 * 38); CNP is of RoCEv2 annex A17.9.3, XRC of annex A14: as RC, and each request names a shared receive queue; codes
 * from 0xC0 on are manufacturers' own, and two of them ours (roce/flow.c). A row says what cannot be derived; name,
 * header length, direction and what a packet does to the receive queue follow from it.
 */
#include "wire/roce_opcode.h"

#include <pthread.h>

#include "wire/roce_packet.h"

/* Bits of enum vb_roce_header, named as the specification's tables do. */
#define NONE 0
#define XRCETH VB_HEADER_XRCETH
#define DETH VB_HEADER_DETH
#define RETH VB_HEADER_RETH
#define AETH VB_HEADER_AETH
#define IMM VB_HEADER_IMMEDIATE
#define IETH VB_HEADER_IETH
#define ATOMIC VB_HEADER_ATOMIC_ETH
#define ATOMIC_ACK VB_HEADER_ATOMIC_ACK_ETH
#define RESERVED VB_HEADER_CNP_RESERVED

/*    code  service name                          kind                 position headers         payload */
#define VB_ROCE_OPCODES(X)                                                                                   \
	X(0x00, RC,  SEND_FIRST,                  SEND,                FIRST,   NONE,              true)     \
	X(0x01, RC,  SEND_MIDDLE,                 SEND,                MIDDLE,  NONE,              true)     \
	X(0x02, RC,  SEND_LAST,                   SEND,                LAST,    NONE,              true)     \
	X(0x03, RC,  SEND_LAST_WITH_IMMEDIATE,    SEND,                LAST,    IMM,               true)     \
	X(0x04, RC,  SEND_ONLY,                   SEND,                ONLY,    NONE,              true)     \
	X(0x05, RC,  SEND_ONLY_WITH_IMMEDIATE,    SEND,                ONLY,    IMM,               true)     \
	X(0x06, RC,  RDMA_WRITE_FIRST,            WRITE,               FIRST,   RETH,              true)     \
	X(0x07, RC,  RDMA_WRITE_MIDDLE,           WRITE,               MIDDLE,  NONE,              true)     \
	X(0x08, RC,  RDMA_WRITE_LAST,             WRITE,               LAST,    NONE,              true)     \
	X(0x09, RC,  RDMA_WRITE_LAST_WITH_IMMEDIATE, WRITE,            LAST,    IMM,               true)     \
	X(0x0a, RC,  RDMA_WRITE_ONLY,             WRITE,               ONLY,    RETH,              true)     \
	X(0x0b, RC,  RDMA_WRITE_ONLY_WITH_IMMEDIATE, WRITE,            ONLY,    RETH | IMM,        true)     \
	X(0x0c, RC,  RDMA_READ_REQUEST,           READ_REQUEST,        ONLY,    RETH,              false)    \
	X(0x0d, RC,  RDMA_READ_RESPONSE_FIRST,    READ_RESPONSE,       FIRST,   AETH,              true)     \
	X(0x0e, RC,  RDMA_READ_RESPONSE_MIDDLE,   READ_RESPONSE,       MIDDLE,  NONE,              true)     \
	X(0x0f, RC,  RDMA_READ_RESPONSE_LAST,     READ_RESPONSE,       LAST,    AETH,              true)     \
	X(0x10, RC,  RDMA_READ_RESPONSE_ONLY,     READ_RESPONSE,       ONLY,    AETH,              true)     \
	X(0x11, RC,  ACKNOWLEDGE,                 ACKNOWLEDGE,         ONLY,    AETH,              false)    \
	X(0x12, RC,  ATOMIC_ACKNOWLEDGE,          ATOMIC_ACKNOWLEDGE,  ONLY,    AETH | ATOMIC_ACK, false)    \
	X(0x13, RC,  COMPARE_SWAP,                ATOMIC_CMP_SWP,      ONLY,    ATOMIC,            false)    \
	X(0x14, RC,  FETCH_ADD,                   ATOMIC_FETCH_ADD,    ONLY,    ATOMIC,            false)    \
	X(0x16, RC,  SEND_LAST_WITH_INVALIDATE,   SEND,                LAST,    IETH,              true)     \
	X(0x17, RC,  SEND_ONLY_WITH_INVALIDATE,   SEND,                ONLY,    IETH,              true)     \
	X(0x1d, RC,  ATOMIC_WRITE,                ATOMIC_WRITE,        ONLY,    RETH,              true)     \
	X(0x20, UC,  SEND_FIRST,                  SEND,                FIRST,   NONE,              true)     \
	X(0x21, UC,  SEND_MIDDLE,                 SEND,                MIDDLE,  NONE,              true)     \
	X(0x22, UC,  SEND_LAST,                   SEND,                LAST,    NONE,              true)     \
	X(0x23, UC,  SEND_LAST_WITH_IMMEDIATE,    SEND,                LAST,    IMM,               true)     \
	X(0x24, UC,  SEND_ONLY,                   SEND,                ONLY,    NONE,              true)     \
	X(0x25, UC,  SEND_ONLY_WITH_IMMEDIATE,    SEND,                ONLY,    IMM,               true)     \
	X(0x26, UC,  RDMA_WRITE_FIRST,            WRITE,               FIRST,   RETH,              true)     \
	X(0x27, UC,  RDMA_WRITE_MIDDLE,           WRITE,               MIDDLE,  NONE,              true)     \
	X(0x28, UC,  RDMA_WRITE_LAST,             WRITE,               LAST,    NONE,              true)     \
	X(0x29, UC,  RDMA_WRITE_LAST_WITH_IMMEDIATE, WRITE,            LAST,    IMM,               true)     \
	X(0x2a, UC,  RDMA_WRITE_ONLY,             WRITE,               ONLY,    RETH,              true)     \
	X(0x2b, UC,  RDMA_WRITE_ONLY_WITH_IMMEDIATE, WRITE,            ONLY,    RETH | IMM,        true)     \
	X(0x64, UD,  SEND_ONLY,                   SEND,                ONLY,    DETH,              true)     \
	X(0x65, UD,  SEND_ONLY_WITH_IMMEDIATE,    SEND,                ONLY,    DETH | IMM,        true)     \
	X(0x81, CNP, NOTIFICATION,                CNP,                 ONLY,    RESERVED,          false)    \
	X(0xa0, XRC, SEND_FIRST,                  SEND,                FIRST,   XRCETH,            true)     \
	X(0xa1, XRC, SEND_MIDDLE,                 SEND,                MIDDLE,  XRCETH,            true)     \
	X(0xa2, XRC, SEND_LAST,                   SEND,                LAST,    XRCETH,            true)     \
	X(0xa3, XRC, SEND_LAST_WITH_IMMEDIATE,    SEND,                LAST,    XRCETH | IMM,      true)     \
	X(0xa4, XRC, SEND_ONLY,                   SEND,                ONLY,    XRCETH,            true)     \
	X(0xa5, XRC, SEND_ONLY_WITH_IMMEDIATE,    SEND,                ONLY,    XRCETH | IMM,      true)     \
	X(0xa6, XRC, RDMA_WRITE_FIRST,            WRITE,               FIRST,   XRCETH | RETH,     true)     \
	X(0xa7, XRC, RDMA_WRITE_MIDDLE,           WRITE,               MIDDLE,  XRCETH,            true)     \
	X(0xa8, XRC, RDMA_WRITE_LAST,             WRITE,               LAST,    XRCETH,            true)     \
	X(0xa9, XRC, RDMA_WRITE_LAST_WITH_IMMEDIATE, WRITE,            LAST,    XRCETH | IMM,      true)     \
	X(0xaa, XRC, RDMA_WRITE_ONLY,             WRITE,               ONLY,    XRCETH | RETH,     true)     \
	X(0xab, XRC, RDMA_WRITE_ONLY_WITH_IMMEDIATE, WRITE,            ONLY,    XRCETH | RETH | IMM, true)   \
	X(0xac, XRC, RDMA_READ_REQUEST,           READ_REQUEST,        ONLY,    XRCETH | RETH,     false)    \
	X(0xad, XRC, RDMA_READ_RESPONSE_FIRST,    READ_RESPONSE,       FIRST,   AETH,              true)     \
	X(0xae, XRC, RDMA_READ_RESPONSE_MIDDLE,   READ_RESPONSE,       MIDDLE,  NONE,              true)     \
	X(0xaf, XRC, RDMA_READ_RESPONSE_LAST,     READ_RESPONSE,       LAST,    AETH,              true)     \
	X(0xb0, XRC, RDMA_READ_RESPONSE_ONLY,     READ_RESPONSE,       ONLY,    AETH,              true)     \
	X(0xb1, XRC, ACKNOWLEDGE,                 ACKNOWLEDGE,         ONLY,    AETH,              false)    \
	X(0xb2, XRC, ATOMIC_ACKNOWLEDGE,          ATOMIC_ACKNOWLEDGE,  ONLY,    AETH | ATOMIC_ACK, false)    \
	X(0xb3, XRC, COMPARE_SWAP,                ATOMIC_CMP_SWP,      ONLY,    XRCETH | ATOMIC,   false)    \
	X(0xb4, XRC, FETCH_ADD,                   ATOMIC_FETCH_ADD,    ONLY,    XRCETH | ATOMIC,   false)    \
	X(0xb6, XRC, SEND_LAST_WITH_INVALIDATE,   SEND,                LAST,    XRCETH | IETH,     true)     \
	X(0xb7, XRC, SEND_ONLY_WITH_INVALIDATE,   SEND,                ONLY,    XRCETH | IETH,     true)     \
	X(0xc0, VENDOR, FLOW_PROBE,               FLOW_PROBE,          ONLY,    DETH,              false)    \
	X(0xc1, VENDOR, FLOW_REPORT,              FLOW_REPORT,         ONLY,    IMM,               false)

#define LENGTH_IF(headers, bit, length) ((headers) & (bit) ? (length) : 0)
#define LENGTH_OF(headers)                                                  \
	(VB_BTH_LENGTH +                                                    \
	 LENGTH_IF(headers, XRCETH, VB_XRCETH_LENGTH) +                     \
	 LENGTH_IF(headers, DETH, VB_DETH_LENGTH) +                         \
	 LENGTH_IF(headers, RETH, VB_RETH_LENGTH) +                         \
	 LENGTH_IF(headers, ATOMIC, VB_ATOMIC_ETH_LENGTH) +                 \
	 LENGTH_IF(headers, AETH, VB_AETH_LENGTH) +                         \
	 LENGTH_IF(headers, ATOMIC_ACK, VB_ATOMIC_ACK_ETH_LENGTH) +         \
	 LENGTH_IF(headers, IMM, VB_IMMEDIATE_LENGTH) +                     \
	 LENGTH_IF(headers, IETH, VB_IETH_LENGTH) +                         \
	 LENGTH_IF(headers, RESERVED, VB_CNP_RESERVED_LENGTH))

/* IBA 9.7.5: requests go to the responder. */
#define IS_REQUEST(kind) ((kind) <= VB_KIND_ATOMIC_WRITE)
#define STARTS(position) ((position) == VB_POSITION_FIRST || (position) == VB_POSITION_ONLY)
#define ENDS(position) ((position) == VB_POSITION_LAST || (position) == VB_POSITION_ONLY)
/* A SEND needs its receive for the first byte; a WRITE only for the immediate data, which come last (IBA C9-42). */
#define CONSUMES(kind, position, headers)                                   \
	(((kind) == VB_KIND_SEND && STARTS(position)) || ((kind) == VB_KIND_WRITE && ((headers) & IMM) != 0))
#define COMPLETES(kind, position, headers)                                  \
	(((kind) == VB_KIND_SEND && ENDS(position)) || ((kind) == VB_KIND_WRITE && ((headers) & IMM) != 0))

static const struct vb_roce_opcode table[256] = {
#define X(code, of_service, of_name, of_kind, of_position, of_headers, payload)                            \
	[code] = {                                                                                         \
		.name = #of_service "_" #of_name,                                                          \
		.service = VB_SERVICE_##of_service,                                                        \
		.kind = VB_KIND_##of_kind,                                                                 \
		.position = VB_POSITION_##of_position,                                                     \
		.headers = of_headers,                                                                     \
		.header_length = LENGTH_OF(of_headers),                                                    \
		.carries_payload = payload,                                                                \
		.is_request = IS_REQUEST(VB_KIND_##of_kind),                                               \
		.consumes_receive = CONSUMES(VB_KIND_##of_kind, VB_POSITION_##of_position, of_headers),    \
		.makes_completion = COMPLETES(VB_KIND_##of_kind, VB_POSITION_##of_position, of_headers),   \
	},
	VB_ROCE_OPCODES(X)
#undef X
};

/* Each code lies in its service's range, and each header fits the buffer callers provide. */
#define X(code, of_service, of_name, of_kind, of_position, of_headers, payload)                            \
	_Static_assert(((code) & 0xe0) == VB_SERVICE_##of_service, #of_service "_" #of_name " is out of range"); \
	_Static_assert(LENGTH_OF(of_headers) <= VB_ROCE_MAX_HEADER, #of_service "_" #of_name " is too long");
VB_ROCE_OPCODES(X)
#undef X

const struct vb_roce_opcode *vb_roce_opcode(uint8_t opcode)
{
	return &table[opcode];
}

/* The table turned round: code + 1, 0: none. Asked for every packet that is sent. */
enum { SERVICES = 7, KINDS = VB_KIND_FLOW_REPORT + 1, POSITIONS = VB_POSITION_ONLY + 1, SUFFIXES = 4 };
static uint8_t code_of[SERVICES][KINDS][POSITIONS][SUFFIXES];
static pthread_once_t code_once = PTHREAD_ONCE_INIT;

static unsigned suffix_index(unsigned headers)
{
	return (headers & VB_HEADER_IMMEDIATE ? 1 : 0) | (headers & VB_HEADER_IETH ? 2 : 0);
}

static void turn_table_round(void)
{
	for (unsigned code = 0; code < 256; code++) {
		const struct vb_roce_opcode *op = &table[code];

		if (op->name)
			code_of[op->service >> 5][op->kind][op->position][suffix_index(op->headers)] = (uint8_t)(code + 1);
	}
}

int vb_roce_opcode_find(enum vb_roce_service service, enum vb_roce_kind kind, enum vb_roce_position position,
			unsigned suffix_header)
{
	pthread_once(&code_once, turn_table_round);
	return code_of[service >> 5][kind][position][suffix_index(suffix_header)] - 1;
}
