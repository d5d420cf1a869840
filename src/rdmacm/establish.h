/* SPDX-License-Identifier: MIT
 *
 * The active side's second half: what a REP sets off.
 */
#ifndef VB_RDMACM_ESTABLISH_H
#define VB_RDMACM_ESTABLISH_H

#include "rdmacm/id.h"

/* Our own answer to REP, for an id with a QP: QP to RTS, RTU to the peer. 0 or -1 with errno, the QP then in error. */
int vb_rdmacm_establish(struct vb_rdmacm_id *id);

#endif
