/* SPDX-License-Identifier: MIT
 *
 * THE table: messages by states. Read a column to see what an id in that state answers; read a row to see what becomes of a
 * message. IBA 12.9 draws it as figures; where the figures leave a message out (duplicates mostly) 12.9.8 decides.
 *
 *  - A repeated REQ is answered by what we last said about it: REP, REJ, or MRA while our process still thinks.
 *  - A DREQ is always answered, known or not: the peer only wants to hear that nothing is left (12.9.8.3.4).
 *  - DREQ meets DREQ: both sides answer and are done, neither waits for its process (figure 133, DREQ Sent).
 *  - A REP may be followed by DREQ with its RTU lost in between: REP_SENT takes the DREQ. The other way round a DREQ may overtake
 *    our own process's ESTABLISH: REP_RECEIVED takes it too.
 */
#include "connect/states.h"

#include <stdint.h>

#include "wire/cm_mad.h"

#define ignore VB_CONNECT_DO_IGNORE
#define admit_ VB_CONNECT_DO_ADMIT
#define patien VB_CONNECT_DO_ASK_PATIENCE
#define repeat VB_CONNECT_DO_REPEAT
#define stale_ VB_CONNECT_DO_REFUSE_STALE
#define reply_ VB_CONNECT_DO_TAKE_REPLY
#define nobody VB_CONNECT_DO_REFUSE_REPLY
#define ready_ VB_CONNECT_DO_TAKE_READY
#define longer VB_CONNECT_DO_BE_PATIENT
#define reject VB_CONNECT_DO_TAKE_REJECT
#define discon VB_CONNECT_DO_TAKE_DISCONNECT
#define cross_ VB_CONNECT_DO_CROSS_DISCONNECT
#define confrm VB_CONNECT_DO_CONFIRM_DISCONNECT
#define ended_ VB_CONNECT_DO_END
#define nopath VB_CONNECT_DO_REFUSE_PATH
#define s_admt VB_CONNECT_DO_ADMIT_SIDR
#define s_take VB_CONNECT_DO_TAKE_SIDR_REPLY

#define ROW(message) [VB_CM_##message - VB_CM_REQ]

static const uint8_t reactions[VB_CM_ATTRIBUTE_END - VB_CM_REQ][VB_CONNECT_STATE_COUNT] = {
/*                 .       .       .       LISTE-  .       MRA_REQ REP_    REQ_    .       MRA_REP ESTAB-  .       .       */
/*                 UNKNOWN IDLE    BOUND   NING    REQSENT _RECVD  RECVD   RECVD   REPSENT _RECVD  LISHED  DREQSNT DREQRCV */
/*                                                                 TIMEWAI REJECTD CLOSED  SIDRSNT SIDRRCV SIDRANS         */
ROW(REQ)      = {  admit_, ignore, ignore, ignore, ignore, ignore, ignore, patien, repeat, repeat, ignore, ignore, ignore,
								   stale_, repeat, ignore, ignore, ignore, ignore },
ROW(MRA)      = {  ignore, ignore, ignore, ignore, longer, longer, ignore, ignore, longer, longer, ignore, ignore, ignore,
								   ignore, ignore, ignore, ignore, ignore, ignore },
ROW(REJ)      = {  ignore, ignore, ignore, ignore, reject, reject, reject, reject, reject, reject, reject, ended_, ignore,
								   ignore, ignore, ignore, ignore, ignore, ignore },
ROW(REP)      = {  nobody, ignore, ignore, ignore, reply_, reply_, patien, ignore, ignore, ignore, repeat, ignore, ignore,
								   ignore, repeat, nobody, ignore, ignore, ignore },
ROW(RTU)      = {  ignore, ignore, ignore, ignore, ignore, ignore, ignore, ignore, ready_, ready_, ignore, ignore, ignore,
								   ignore, ignore, ignore, ignore, ignore, ignore },
ROW(DREQ)     = {  confrm, ignore, ignore, ignore, ignore, ignore, discon, ignore, discon, discon, discon, cross_, ignore,
								   confrm, confrm, confrm, ignore, ignore, ignore },
ROW(DREP)     = {  ignore, ignore, ignore, ignore, ignore, ignore, ignore, ignore, ignore, ignore, ignore, ended_, ignore,
								   ignore, ignore, ignore, ignore, ignore, ignore },
ROW(SIDR_REQ) = {  s_admt, ignore, ignore, ignore, ignore, ignore, ignore, ignore, ignore, ignore, ignore, ignore, ignore,
								   ignore, ignore, ignore, ignore, ignore, repeat },
ROW(SIDR_REP) = {  ignore, ignore, ignore, ignore, ignore, ignore, ignore, ignore, ignore, ignore, ignore, ignore, ignore,
								   ignore, ignore, ignore, s_take, ignore, ignore },
ROW(LAP)      = {  nopath, ignore, ignore, ignore, ignore, ignore, ignore, ignore, ignore, ignore, nopath, ignore, ignore,
								   ignore, ignore, ignore, ignore, ignore, ignore },
ROW(APR)      = {  ignore, ignore, ignore, ignore, ignore, ignore, ignore, ignore, ignore, ignore, ignore, ignore, ignore,
								   ignore, ignore, ignore, ignore, ignore, ignore },
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
