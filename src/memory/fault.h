/* SPDX-License-Identifier: MIT
 *
 * What went wrong, in one vocabulary for the whole stack, with the evidence. Each room that owns a target
 * vocabulary translates: NAK syndromes in roce/, ibv_wc_status in queue/. First fault wins: a record once filled
 * is not overwritten, so the cause of a flush is still there when a program asks.
 */
#ifndef VB_MEMORY_FAULT_H
#define VB_MEMORY_FAULT_H

#include <stdbool.h>
#include <stdint.h>

/* X(name, sentence): the sentence says what was found, without numbers. */
#define VB_FAULTS(X)                                                                        \
	X(NONE, "no fault")                                                                 \
	/* memory: the access to user bytes was refused */                                  \
	X(KEY_UNKNOWN, "the key names no region or window")                                 \
	X(KEY_INVALIDATED, "the key's window or region is not bound or was invalidated")    \
	X(KEY_NOT_LOCAL, "the key of a window was used as a local key")                     \
	X(PD_MISMATCH, "the region belongs to another protection domain")                   \
	X(QP_MISMATCH, "the window is bound to another queue pair")                         \
	X(RIGHTS, "the region lacks the right that was asked for")                          \
	X(QP_RIGHTS, "the queue pair's qp_access_flags lack the right that was asked for")  \
	X(RANGE, "the range is not inside the region")                                      \
	X(UNALIGNED_ATOMIC, "an atomic's address is not a multiple of eight")               \
	X(UNMAPPED, "the memory behind the region is not mapped any more")                  \
	X(BIND, "the window cannot be bound as asked")                                      \
	/* local queue */                                                                   \
	X(LOCAL_LENGTH, "the message is longer than the receive's buffers")                 \
	X(LOCAL_OPERATION, "the work request cannot be executed on this queue pair")        \
	X(CQ_OVERRUN, "the completion queue was full")                                      \
	X(FLUSHED, "the queue pair is in the error state")                                  \
	/* protocol, found by our responder */                                              \
	X(PSN_SEQUENCE, "a packet of the sequence is missing")                              \
	X(OPCODE_SEQUENCE, "the opcode does not continue the message under way")            \
	X(OPCODE_UNSUPPORTED, "the queue pair does not take this opcode")                   \
	X(PACKET_LENGTH, "the payload length does not fit the path MTU and the opcode")     \
	X(MESSAGE_LENGTH, "the message's length differs from what its first packet said")   \
	X(TOO_MANY_READS, "more reads and atomics are outstanding than max_dest_rd_atomic") \
	X(NO_RECEIVE, "no receive was posted")                                              \
	X(RESPONDER_OPERATION, "the responder could not complete the operation")            \
	/* protocol, found by our requester or told by the peer */                          \
	X(RETRY_EXCEEDED, "no answer from the peer")                                        \
	X(RNR_RETRY_EXCEEDED, "the peer had no receive posted")                             \
	X(REMOTE_INVALID_REQUEST, "the peer refused the request as invalid")                \
	X(REMOTE_ACCESS, "the peer refused access to its memory")                           \
	X(REMOTE_OPERATION, "the peer could not complete the operation")                    \
	X(BAD_RESPONSE, "the peer's answer does not fit what was asked")                    \
	/* a stream (iWARP) */                                                              \
	X(FRAME, "what stands in the stream is no frame, or of an unknown kind")            \
	X(FRAME_CRC, "the CRC of a frame is wrong")                                         \
	X(MESSAGE_SEQUENCE, "a message's queue, number or offset is not the next")          \
	X(TERMINATED, "the peer ended the stream with an error message")                    \
	X(CLOSED, "the peer closed the connection")                                         \
	X(RESET, "the connection was reset")                                                \
	X(TIMED_OUT, "TCP had no answer from the peer's host, and gave up")                 \
	/* XRC, found by our responder */                                                   \
	X(XRC_SRQ, "the XRC domain has no shared receive queue of that number")

enum vb_fault {
#define X(name, sentence) VB_FAULT_##name,
	VB_FAULTS(X)
#undef X
	VB_FAULT_COUNT
};

struct vb_fault_record {
	enum vb_fault fault;
	bool remote;                /* found by the peer's check, not ours */
	uint32_t key;
	uint64_t address, length;   /* asked for; PACKET_LENGTH: of the packet's payload */
	uint64_t region_start, region_length; /* PACKET_LENGTH: the length is the path MTU */
	uint32_t rights_asked, rights_granted; /* IBV_ACCESS_* */
	uint32_t pd, region_pd;     /* handles: of who asked, of what the key names; 0: none */
	uint32_t swapped_key;       /* KEY_UNKNOWN: the key with its bytes swapped, where that one is known; else 0 */
	int64_t gone_for;           /* KEY_UNKNOWN: ns since the region that had this key was deregistered; else 0 */
	uint32_t psn, opcode, qpn, peer_qpn;
	uint8_t syndrome;           /* of the NAK sent or received */
	uint16_t terminate;         /* iWARP: cause of the TERMINATE sent or received (wire/terminate.h); 0: none */
	uint64_t wr_id;
	uint32_t tries;             /* retries used */
	int64_t waited;             /* ns from first try to giving up */
};

const char *vb_fault_name(enum vb_fault fault);
const char *vb_fault_sentence(enum vb_fault fault);

/* Keep the first. */
static inline void vb_fault_keep(struct vb_fault_record *kept, const struct vb_fault_record *found)
{
	if (kept->fault == VB_FAULT_NONE)
		*kept = *found;
}

#endif
