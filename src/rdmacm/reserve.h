/* SPDX-License-Identifier: MIT
 *
 * Ports are verbenad's to give out.
 */
#ifndef VB_RDMACM_RESERVE_H
#define VB_RDMACM_RESERVE_H

#include "rdmacm/id.h"

/* Let the daemon reserve the port. On success the id knows its source. 0 or -errno. */
int vb_rdmacm_reserve_port(struct vb_rdmacm_id *id, const struct vb_cm_address *source);

#endif
