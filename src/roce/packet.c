/* SPDX-License-Identifier: MIT
 *
 * What all packets of a queue pair have in common.
 */
#include <assert.h>
#include <string.h>

#include "roce/engine.h"

void vb_roce_prepare(const struct vb_qp *qp, struct vb_roce_packet *packet, int opcode, struct psn psn)
{
	assert(opcode >= 0);
	memset(packet, 0, sizeof(*packet));
	packet->opcode = (uint8_t)opcode;
	packet->op = vb_roce_opcode((uint8_t)opcode);
	packet->pkey = qp->pkey;
	packet->destination_qpn = qp->attr.dest_qp_num;
	packet->psn = psn;
	packet->of_datagrams = qp->type == IBV_QPT_UD;
}
