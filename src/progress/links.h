/* SPDX-License-Identifier: MIT
 *
 * The links that there are. The only place of this room that knows them by name.
 */
#ifndef VB_PROGRESS_LINKS_H
#define VB_PROGRESS_LINKS_H

#include "wire/device_kind.h"

struct vb_link;
struct vb_schedule;

/* A device has one wire for all its queue pairs, and all have one together for raw packets. */
enum { VB_WIRE_RAW = VB_DEVICE_KINDS, VB_WIRES };

/* All that this process can have, linked in the order in which a pass serves them; `wire` are those of each kind of device, and that of raw
 * packets. The sockets stay the caller's. 0 or -errno with the reason logged. */
int vb_links_open(struct vb_schedule *schedule, const int receive_fd[2], struct vb_link *wire[VB_WIRES]);
/* Close one that is in the schedule's list, or all. */
void vb_links_close(struct vb_schedule *schedule, struct vb_link *link);
void vb_links_close_all(struct vb_schedule *schedule);

#endif
