/* SPDX-License-Identifier: MIT
 *
 * Asking a Verbena peer why: two datagrams beside the protocol, of which no RoCE implementation takes notice. Both have
 * 15 as transport version in their second byte: any receiver drops that in silence (IBA 9.6.1.1.2), rxe and adapters
 * included. The inquiry goes to port 4791 and names a QPN where the BTH would, so that it reaches the process that owns
 * the queue pair; where no process does, the host's verbenad answers. The answer goes back to the port that asked.
 * A process that does not run answers nothing: then verbenad is asked whether it lives.
 *
 * Sent by a process that explains a failure (VERBENA_EXPLAIN), and before a connection ends because its peer is silent
 * (links/udp/starved.c). An answer is never longer than its inquiry, so that
 * no host can be flooded with answers, and it tells about a queue pair only to the peer of that queue pair: any user of
 * the peer's host can ask from its address, so the inquiry says what only the two ends know, their first PSNs.
 */
#ifndef VB_WIRE_INQUIRY_H
#define VB_WIRE_INQUIRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { VB_INQUIRY_LENGTH = 128 };       /* of both */

struct vb_inquiry {
	uint32_t qpn;                    /* asked about; 1: only whether a verbenad is there */
	uint32_t asker_qpn;              /* ours: its peer is told more */
	uint32_t send_psn;               /* sq_psn of ours, where it began: the peer's rq_psn */
	uint32_t receive_psn;            /* rq_psn of ours; versions before 2026-11-19 look at it, too */
	uint32_t about_qpn;              /* of verbenad (qpn 1): does a process that has this one live? 0: no question */
	uint64_t nonce;
};

enum vb_inquiry_status {
	VB_INQUIRY_NO_PROCESS = 1,       /* verbenad: no process of this host has such queue pairs */
	VB_INQUIRY_NO_QP,                /* the process: there is no such queue pair (any more) */
	VB_INQUIRY_NOT_CONNECTED,        /* it has no peer yet: RESET or INIT */
	VB_INQUIRY_OTHER_PEER,           /* it is connected to another queue pair */
	VB_INQUIRY_YOUR_PEER,            /* the rest of the answer holds */
	VB_INQUIRY_DAEMON,               /* verbenad, asked about itself */
	VB_INQUIRY_OTHER_PSN,            /* address and QPNs are those of its peer, but its rq_psn is not the sq_psn of who asks */
	VB_INQUIRY_NOT_TOLD,             /* the process is there: too many ask who do not prove to be a peer */
	VB_INQUIRY_LIVES,                /* verbenad: the process that has such queue pairs lives */
	VB_INQUIRY_STOPPED,              /* verbenad: it lives, but a signal or a debugger has stopped it */
	VB_INQUIRY_STATUS_END,
};

/* What the peer says. Fault and everything behind it as in struct vb_fault_record. */
struct vb_inquiry_answer {
	uint64_t nonce;
	uint32_t status;                 /* enum vb_inquiry_status */
	uint32_t qpn;
	uint32_t state, type;            /* enum ibv_qp_state, ibv_qp_type */
	uint32_t receives;               /* posted and not taken */
	uint32_t expected_psn;
	uint32_t fault;                  /* enum vb_fault */
	uint32_t key, rights_asked, rights_granted;
	uint32_t pd, region_pd;
	uint64_t address, length, region_start, region_length;
	uint32_t psn;
	uint32_t swapped_key;
	uint64_t gone_for;
	uint32_t version;                /* DAEMON: major, minor, patch in a byte each; 0: before it was told */
};

/* How far an inquiry came. */
enum vb_inquiry_reach {
	VB_REACH_UNASKED,
	VB_REACH_ANSWERED,               /* by a Verbena */
	VB_REACH_REFUSED,                /* ICMP: no socket has UDP port 4791 there */
	VB_REACH_NO_ROUTE,               /* this host knows no way there */
	VB_REACH_UNREACHABLE,            /* ICMP, or no neighbour answers for the address */
	VB_REACH_PINGED,                 /* no word from port 4791, but the host answers ping */
	VB_REACH_SILENT,                 /* no answer at all, not to a ping either */
	VB_REACH_SILENT_UNPINGED,        /* no word from port 4791, and this user may not ping */
};

void vb_inquiry_encode(const struct vb_inquiry *inquiry, uint8_t bytes[VB_INQUIRY_LENGTH]);
bool vb_inquiry_decode(struct vb_inquiry *inquiry, const uint8_t *bytes, size_t length);
void vb_inquiry_answer_encode(const struct vb_inquiry_answer *answer, uint8_t bytes[VB_INQUIRY_LENGTH]);
bool vb_inquiry_answer_decode(struct vb_inquiry_answer *answer, const uint8_t *bytes, size_t length);

/* A look at two bytes, for the way of every packet. */
static inline bool vb_inquiry_is_likely(const uint8_t *bytes, size_t length)
{
	return length == VB_INQUIRY_LENGTH && bytes[0] == 0xff && bytes[1] == 0x0f;
}

#endif
