/* SPDX-License-Identifier: MIT
 *
 * Enhanced connection establishment: two adapters of one vendor agreeing on extras.
 */
#ifndef VB_RDMACM_ECE_H
#define VB_RDMACM_ECE_H

#include "rdmacm/id.h"

/* Around the initialisation of an id's new QP: take what the device offers, set what the peer said. 0 or -1 with
 * errno. */
int vb_rdmacm_ece_begin(struct vb_rdmacm_id *id, struct ibv_qp *qp);
int vb_rdmacm_ece_finish(struct vb_rdmacm_id *id, struct ibv_qp *qp);

/* The peer's answer, on the active side with a QP. 0 or -1 with errno. */
int vb_rdmacm_ece_answer(struct vb_rdmacm_id *id);

#endif
