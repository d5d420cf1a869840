/* SPDX-License-Identifier: MIT
 *
 * The states of an rdma_cm id, and THE table: what becomes of an id in each of them when its daemon was replaced. adopt.c carries
 * it out; the worlds of tests/sim do the same in virtual time.
 */
#ifndef VB_RDMACM_ADOPTION_H
#define VB_RDMACM_ADOPTION_H

#include <stdbool.h>
#include <stdint.h>

enum vb_rdmacm_state {
	VB_RDMACM_IDLE,
	VB_RDMACM_BOUND,
	VB_RDMACM_RESOLVING,             /* the next hop has not answered for its address yet */
	VB_RDMACM_ADDRESS_RESOLVED,
	VB_RDMACM_ROUTE_RESOLVED,
	VB_RDMACM_LISTENING,
	VB_RDMACM_REQUESTED,             /* passive: the peer's REQ is in hand */
	VB_RDMACM_ACCEPTED,              /* passive: our REP is on its way */
	VB_RDMACM_CONNECTING,            /* active: our REQ is on its way */
	VB_RDMACM_RESPONDED,             /* active: the peer's REP is in hand, RTU not yet sent */
	VB_RDMACM_CONNECTED,
	VB_RDMACM_DISCONNECTING,         /* our DREQ is on its way */
	VB_RDMACM_DISCONNECTED,
	VB_RDMACM_FAILED,                /* rejected, unreachable, error */
	VB_RDMACM_STATES,
};

enum { VB_RDMACM_TELL_NOTHING = -1 };

struct vb_rdmacm_adoption {
	uint32_t verb;                   /* what the new daemon is told: VB_CM_CREATE or VB_CM_ADOPT */
	uint32_t adopted;                /* VB_CM_ADOPT: enum vb_cm_adopted_state */
	int tell;                        /* what the program is told: enum vb_cm_event_kind */
	bool asks_again;                 /* its REQ is sent again when all ids are back */
	bool accepts_again;              /* and so is its REP */
	bool is_lost;                    /* its peer's REQ is forgotten: FAILED */
};

struct vb_rdmacm_adoption vb_rdmacm_adoption(enum vb_rdmacm_state state);

#endif
