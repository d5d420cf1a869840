/* SPDX-License-Identifier: MIT
 *
 * What becomes of an id when its daemon was replaced:
 *
 *   idle, disconnected, failed   created anew
 *   bound, resolving, resolved,
 *   listening                    adopted with address and port
 *   connected                    adopted: data flows on regardless, and a disconnect works again
 *   accepted                     its request is adopted, and accepted again: whether the REP, or the RTU, came is not known
 *   connecting                   bound again; when all ids are back, its REQ is sent again
 *   disconnecting                the peer's answer is lost: its DREQ is sent again, and it is reported as disconnected
 *   requested                    lost; accepting it fails, as when the peer had given up
 */
#include "rdmacm/adoption.h"

#include "wire/cm_command.h"

#define ANEW {.verb = VB_CM_CREATE, .tell = VB_RDMACM_TELL_NOTHING}
#define ADOPT(state) {.verb = VB_CM_ADOPT, .adopted = VB_CM_ADOPTED_##state, .tell = VB_RDMACM_TELL_NOTHING}

struct vb_rdmacm_adoption vb_rdmacm_adoption(enum vb_rdmacm_state state)
{
	static const struct vb_rdmacm_adoption table[VB_RDMACM_STATES] = {
		[VB_RDMACM_IDLE] = ANEW,
		[VB_RDMACM_BOUND] = ADOPT(BOUND),
		[VB_RDMACM_RESOLVING] = ADOPT(BOUND),
		[VB_RDMACM_ADDRESS_RESOLVED] = ADOPT(BOUND),
		[VB_RDMACM_ROUTE_RESOLVED] = ADOPT(BOUND),
		[VB_RDMACM_LISTENING] = ADOPT(LISTENING),
		[VB_RDMACM_REQUESTED] = {.verb = VB_CM_CREATE, .tell = VB_RDMACM_TELL_NOTHING, .is_lost = true},
		[VB_RDMACM_ACCEPTED] = {.verb = VB_CM_ADOPT, .adopted = VB_CM_ADOPTED_REQUESTED, .tell = VB_RDMACM_TELL_NOTHING,
					.accepts_again = true},
		[VB_RDMACM_CONNECTING] = {.verb = VB_CM_ADOPT, .adopted = VB_CM_ADOPTED_BOUND, .tell = VB_RDMACM_TELL_NOTHING,
					  .asks_again = true},
		[VB_RDMACM_RESPONDED] = ADOPT(CONNECTED),
		[VB_RDMACM_CONNECTED] = ADOPT(CONNECTED),
		[VB_RDMACM_DISCONNECTING] = {.verb = VB_CM_CREATE, .tell = VB_CM_EVENT_DISCONNECTED},
		[VB_RDMACM_DISCONNECTED] = ANEW,
		[VB_RDMACM_FAILED] = ANEW,
	};

	return table[state];
}
