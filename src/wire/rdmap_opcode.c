/* SPDX-License-Identifier: MIT
 *
 * THE table of RDMAP messages. A row says what cannot be derived; lengths follow from it.
 */
#include "wire/rdmap_opcode.h"

#include "wire/ddp.h"

#define READ_REQUEST_BODY VB_RDMAP_READ_LENGTH
#define ATOMIC_REQUEST_BODY VB_RDMAP_ATOMIC_LENGTH
#define ATOMIC_RESPONSE_BODY VB_RDMAP_ATOMIC_RESPONSE_LENGTH
#define IMMEDIATE_BODY VB_RDMAP_IMMEDIATE_LENGTH
#define TERMINATE_BODY VB_RDMAP_TERMINATE_LENGTH

#define QUEUE_NONE 0
#define QUEUE_0 VB_DDP_QUEUE_SEND
#define QUEUE_1 VB_DDP_QUEUE_READ
#define QUEUE_2 VB_DDP_QUEUE_TERMINATE
#define QUEUE_3 VB_DDP_QUEUE_ATOMIC_RESPONSE

#define NO 0
#define YES 1

/*    name                       kind             tagged queue       body                  payload solicited invalidates */
#define VB_RDMAP_MESSAGES(X)                                                                                             \
	X(WRITE,                     WRITE,           YES,   QUEUE_NONE, 0,                    YES,    NO,       NO)     \
	X(READ_REQUEST,              READ_REQUEST,    NO,    QUEUE_1,    READ_REQUEST_BODY,    NO,     NO,       NO)     \
	X(READ_RESPONSE,             READ_RESPONSE,   YES,   QUEUE_NONE, 0,                    YES,    NO,       NO)     \
	X(SEND,                      SEND,            NO,    QUEUE_0,    0,                    YES,    NO,       NO)     \
	X(SEND_INVALIDATE,           SEND,            NO,    QUEUE_0,    0,                    YES,    NO,       YES)    \
	X(SEND_SOLICITED,            SEND,            NO,    QUEUE_0,    0,                    YES,    YES,      NO)     \
	X(SEND_SOLICITED_INVALIDATE, SEND,            NO,    QUEUE_0,    0,                    YES,    YES,      YES)    \
	X(TERMINATE,                 TERMINATE,       NO,    QUEUE_2,    TERMINATE_BODY,       NO,     NO,       NO)     \
	X(IMMEDIATE,                 IMMEDIATE,       NO,    QUEUE_0,    IMMEDIATE_BODY,       NO,     NO,       NO)     \
	X(IMMEDIATE_SOLICITED,       IMMEDIATE,       NO,    QUEUE_0,    IMMEDIATE_BODY,       NO,     YES,      NO)     \
	X(ATOMIC_REQUEST,            ATOMIC_REQUEST,  NO,    QUEUE_1,    ATOMIC_REQUEST_BODY,  NO,     NO,       NO)     \
	X(ATOMIC_RESPONSE,           ATOMIC_RESPONSE, NO,    QUEUE_3,    ATOMIC_RESPONSE_BODY, NO,     NO,       NO)

static const struct vb_rdmap_opcode table[VB_RDMAP_OPCODES] = {
#define X(of_name, of_kind, of_tagged, of_queue, of_body, of_payload, of_solicited, of_invalidates)                     \
	[VB_RDMAP_##of_name] = {                                                                                        \
		.name = #of_name,                                                                                       \
		.kind = VB_RDMAP_KIND_##of_kind,                                                                        \
		.tagged = of_tagged,                                                                                    \
		.queue = of_queue,                                                                                      \
		.body_length = of_body,                                                                                 \
		.header_length = (of_tagged ? VB_DDP_TAGGED_LENGTH : VB_DDP_UNTAGGED_LENGTH) + of_body,                 \
		.carries_payload = of_payload,                                                                          \
		.solicited = of_solicited,                                                                              \
		.invalidates = of_invalidates,                                                                          \
		.extended = VB_RDMAP_##of_name > VB_RDMAP_TERMINATE,                                                    \
	},
	VB_RDMAP_MESSAGES(X)
#undef X
};

const struct vb_rdmap_opcode *vb_rdmap_opcode(uint8_t opcode)
{
	return &table[opcode % VB_RDMAP_OPCODES];
}
