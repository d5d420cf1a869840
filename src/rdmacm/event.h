/* SPDX-License-Identifier: MIT
 *
 * Taking events, for calls that end in one.
 */
#ifndef VB_RDMACM_EVENT_H
#define VB_RDMACM_EVENT_H

#include "rdmacm/id.h"

/* After a call that ends in an event: on a synchronous id wait for it and turn its status into -1 with errno. */
int vb_rdmacm_event_await(struct vb_rdmacm_id *id);

#endif
