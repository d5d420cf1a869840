/* SPDX-License-Identifier: MIT
 *
 * End-to-end credits: how many receives a responder has posted, as five bits of an acknowledgement (IBA 9.7.7.2.2,
 * table 46). Codes 0 to 4 are their own number; above, they rise by halves of a power of two: 6, 8, 12, 16, 24, ...
 * up to 32,768. 31 says nothing, and nothing is what shared receive queues must say (C9-157).
 */
#include "roce/engine.h"

enum { LAST_CODE = 30 };

uint32_t vb_roce_credits_decode(uint8_t code)
{
	if (code <= 4)
		return code;
	if (code > LAST_CODE)
		return UINT32_MAX;
	/* even: a power of two; odd: one and a half of the one below */
	return code % 2 == 0 ? 1u << (code / 2) : 3u << (code / 2 - 1);
}

uint8_t vb_roce_credits_encode(uint32_t receives)
{
	unsigned power;

	if (receives <= 4)
		return (uint8_t)receives;
	power = 31 - (unsigned)__builtin_clz(receives);
	return power * 2 >= LAST_CODE ? LAST_CODE : (uint8_t)(power * 2 + (receives >> (power - 1) & 1));
}

uint8_t vb_roce_acknowledge_syndrome(const struct vb_qp *qp)
{
	if (qp->srq || qp->xrc_domain)
		return VB_AETH_ACK | VB_AETH_NO_CREDITS;
	return VB_AETH_ACK | vb_roce_credits_encode(vb_receive_queue_count(&qp->receive));
}
