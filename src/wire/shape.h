/* SPDX-License-Identifier: MIT
 *
 * Conditions of a network that a device's own packets are given on purpose (`verbena shape`).
 */
#ifndef VB_WIRE_SHAPE_H
#define VB_WIRE_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

struct vb_shape {
	uint64_t rate;                     /* bits a second, with all headers down to Ethernet's; 0: as fast as it goes */
	uint64_t delay, jitter;            /* nanoseconds, one way; the latter is added evenly from 0 on */
	uint64_t queue;                    /* bytes that may wait for the rate; 0: VB_SHAPE_QUEUE */
	uint32_t loss;                     /* of a billion packets */
	uint32_t reserved;
};

#define VB_SHAPE_QUEUE (UINT64_C(1) << 20)
#define VB_SHAPE_BILLION 1000000000u
/* Beyond these nothing sensible is meant, and sums might overflow. */
#define VB_SHAPE_LONGEST UINT64_C(60000000000)
#define VB_SHAPE_FASTEST UINT64_C(10000000000000)
#define VB_SHAPE_SLOWEST UINT64_C(1000)

static inline bool vb_shape_is_sound(const struct vb_shape *shape)
{
	return (shape->rate == 0 || (shape->rate >= VB_SHAPE_SLOWEST && shape->rate <= VB_SHAPE_FASTEST)) &&
	       shape->delay <= VB_SHAPE_LONGEST && shape->jitter <= VB_SHAPE_LONGEST && shape->queue <= UINT64_C(1) << 40 &&
	       shape->loss <= VB_SHAPE_BILLION && shape->reserved == 0;
}

/* Does it change nothing? */
static inline bool vb_shape_is_none(const struct vb_shape *shape)
{
	return shape->rate == 0 && shape->delay == 0 && shape->jitter == 0 && shape->loss == 0;
}

#endif
