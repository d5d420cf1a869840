/* SPDX-License-Identifier: MIT
 *
 * Go-back-N (IBA 9.7.5.1.1): the requester's position returns to the oldest packet that was not acknowledged. A NAK leads
 * here, an expiry, and a packet sent alone that was not enough (selective.c).
 */
#include "roce/engine.h"

void vb_roce_requester_rewind(struct vb_qp *qp, vb_time now)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;

	requester->send = requester->acknowledged;
	requester->send_index = qp->send.tail;
	requester->in_flight = 0;
	requester->since_ack_request = 0;
	requester->probing = false;
	requester->asked_sent = requester->asked_tail;
	requester->read_in_flight = 0;
	vb_roce_early_forget(requester);
	requester->lost_ask_owed = false;
	requester->rewound = true;
	requester->rewound_to = requester->acknowledged;
	requester->rewound_at = now;
	requester->selective_before = false;
	vb_roce_selective_end(requester);
	vb_roce_timers_rewound(qp, now);
}
