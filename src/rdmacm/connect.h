/* SPDX-License-Identifier: MIT
 *
 * The active side's second half: what a REP sets off.
 */
#ifndef VB_RDMACM_CONNECT_H
#define VB_RDMACM_CONNECT_H

#include "rdmacm/id.h"

/* Our own answer to REP, for an id with a QP: QP to RTS, RTU to the peer. 0 or -1 with errno, the QP then in error. */
int vb_rdmacm_connect_finish(struct vb_rdmacm_id *id);

/* Take over what a REQ, REP or SIDR_REP said. */
void vb_rdmacm_connect_learn(struct vb_rdmacm_id *id, const struct vb_cm_event *event);

/* The saved REQ is not needed any more. */
void vb_rdmacm_connect_forget(struct vb_rdmacm_id *id);

#endif
