/* SPDX-License-Identifier: MIT
 *
 * THE table: messages by states. Read a column to see what an id in that state answers; read a row to see what becomes
 * of a message. IBA 12.9 draws it as figures; where the figures leave a message out (duplicates mostly) 12.9.8 decides.
 *
 *  - A repeated REQ is answered by what we last said about it: REP, REJ, or MRA while our process still thinks. Who repeats it while our
 *    DREQ is on its way has not had the REP, and takes no DREQ.
 *  - A DREQ is always answered, known or not: the peer only wants to hear that nothing is left (12.9.8.3.4).
 *  - DREQ meets DREQ: both sides answer and are done, neither waits for its process (figure 133, DREQ Sent).
 *  - A REP may be followed by DREQ with its RTU lost in between: REP_SENT takes the DREQ. The other way round a DREQ
 *    may overtake our own process's ESTABLISH: REP_RECEIVED takes it too.
 */
#include "connect/states.h"

#include <stdint.h>

#include "wire/cm_mad.h"

#define admit_ VB_CONNECT_DO_ADMIT
#define patien VB_CONNECT_DO_ASK_PATIENCE
#define repeat VB_CONNECT_DO_REPEAT
#define stale_ VB_CONNECT_DO_REFUSE_STALE
#define reply_ VB_CONNECT_DO_TAKE_REPLY
#define refuse VB_CONNECT_DO_REFUSE_REPLY
#define ready_ VB_CONNECT_DO_TAKE_READY
#define longer VB_CONNECT_DO_BE_PATIENT
#define reject VB_CONNECT_DO_TAKE_REJECT
#define discon VB_CONNECT_DO_TAKE_DISCONNECT
#define cross_ VB_CONNECT_DO_CROSS_DISCONNECT
#define confrm VB_CONNECT_DO_CONFIRM_DISCONNECT
#define ended_ VB_CONNECT_DO_END
#define forgot VB_CONNECT_DO_TAKE_FORGOTTEN
#define nopath VB_CONNECT_DO_REFUSE_PATH
#define s_admt VB_CONNECT_DO_ADMIT_SIDR
#define s_take VB_CONNECT_DO_TAKE_SIDR_REPLY

#define ROW(message) [VB_CM_##message - VB_CM_REQ]

_Static_assert(VB_CONNECT_DO_IGNORE == 0, "0 in the table");

static const uint8_t reactions[VB_CM_ATTRIBUTE_END - VB_CM_REQ][VB_CONNECT_STATE_COUNT] = {
/*
 *                UNKNOWN IDLE    BOUND   LISTEN- REQ_    MRA_REQ REP_    REQ_    REP_    MRA_REP ESTAB-  DREQ_
 *                                        ING     SENT    RECVD   RECVD   RECVD   SENT    RECVD   LISHED  SENT
 *                DREQ_   TIME-   REJEC-  CLOSED  SIDR_RQ SIDR_RQ SIDR_
 *                RECVD   WAIT    TED             SENT    RECVD   ANSWERED
 */
ROW(REQ)      = { admit_,      0,      0,      0,      0,      0,      0, patien, repeat, repeat,      0, stale_,
                       0, stale_, repeat,      0,      0,      0,      0 },
ROW(MRA)      = {      0,      0,      0,      0, longer, longer,      0,      0, longer, longer,      0,      0,
                       0,      0,      0,      0,      0,      0,      0 },
ROW(REJ)      = {      0,      0,      0,      0, reject, reject, reject, reject, reject, reject, reject, ended_,
                       0,      0,      0,      0,      0,      0,      0 },
ROW(REP)      = { refuse,      0,      0,      0, reply_, reply_, patien,      0,      0,      0, repeat,      0,
                       0,      0, repeat, refuse,      0,      0,      0 },
ROW(RTU)      = {      0,      0,      0,      0,      0,      0,      0,      0, ready_, ready_,      0,      0,
                       0,      0,      0,      0,      0,      0,      0 },
ROW(DREQ)     = { confrm,      0,      0,      0,      0,      0, discon,      0, discon, discon, discon, cross_,
                       0, confrm, confrm, confrm,      0,      0,      0 },
ROW(DREP)     = {      0,      0,      0,      0,      0,      0,      0,      0,      0,      0, forgot, ended_,
                       0,      0,      0,      0,      0,      0,      0 },
ROW(SIDR_REQ) = { s_admt,      0,      0,      0,      0,      0,      0,      0,      0,      0,      0,      0,
                       0,      0,      0,      0,      0,      0, repeat },
ROW(SIDR_REP) = {      0,      0,      0,      0,      0,      0,      0,      0,      0,      0,      0,      0,
                       0,      0,      0,      0, s_take,      0,      0 },
ROW(LAP)      = { nopath,      0,      0,      0,      0,      0,      0,      0,      0,      0, nopath,      0,
                       0,      0,      0,      0,      0,      0,      0 },
ROW(APR)      = {      0,      0,      0,      0,      0,      0,      0,      0,      0,      0,      0,      0,
                       0,      0,      0,      0,      0,      0,      0 },
};

enum vb_connect_reaction vb_connect_reaction(unsigned attribute, enum vb_connect_state state)
{
	if (attribute < VB_CM_REQ || attribute >= VB_CM_ATTRIBUTE_END || state >= VB_CONNECT_STATE_COUNT)
		return VB_CONNECT_DO_IGNORE;
	return reactions[attribute - VB_CM_REQ][state];
}

const char *vb_connect_state_name(enum vb_connect_state state)
{
	static const char *const names[] = {
#define X(name) #name,
		VB_CONNECT_STATES(X)
#undef X
	};

	return state < VB_CONNECT_STATE_COUNT ? names[state] : "?";
}

const char *vb_connect_reaction_name(enum vb_connect_reaction reaction)
{
	static const char *const names[] = {
#define X(name) #name,
		VB_CONNECT_REACTIONS(X)
#undef X
	};

	return reaction < VB_CONNECT_REACTION_COUNT ? names[reaction] : "?";
}
