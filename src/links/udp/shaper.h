/* SPDX-License-Identifier: MIT
 *
 * Packets of a shaped device on their way out: some are lost, the rest wait for a rate and a delay, in order. A process on an unshaped
 * device pays one test of a pointer.
 */
#ifndef VB_LINKS_UDP_SHAPER_H
#define VB_LINKS_UDP_SHAPER_H

#include <stdbool.h>

#include "wire/shape.h"

struct vb_burst;
struct vb_counters;
struct vb_shaper;
struct vb_udp_link;

/* 0 or -errno. */
int vb_shaper_open(struct vb_shaper **shaper, struct vb_udp_link *udp);
/* What waits is sent at once. */
void vb_shaper_close(struct vb_shaper *shaper);

/* From now on; a shape that is none: as without. `device`: its counters, which is how packets tell whose they are. */
void vb_shaper_set(struct vb_shaper *shaper, const struct vb_counters *device, const struct vb_shape *shape);

/* A burst of the device's is about to be sent. True: the shaper sees to it. False: send it as it now is, for packets may have been taken
 * out of it. Caller holds qp->lock or progress. */
bool vb_shaper_take(struct vb_shaper *shaper, const struct vb_counters *device, struct vb_burst *burst);

#endif
