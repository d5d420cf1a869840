/* SPDX-License-Identifier: MIT
 *
 * What a program has never seen: the id of a request, and events that it did not take.
 */
#ifndef VB_RDMACM_DISCARD_H
#define VB_RDMACM_DISCARD_H

#include "rdmacm/id.h"

/* The id of a request that is not shown to the program; the peer is refused. */
void vb_rdmacm_discard_child(struct vb_rdmacm_id *child);

/* The events of an id that are still queued. Requests among them are refused. */
void vb_rdmacm_discard_events(struct vb_rdmacm_id *id);

#endif
