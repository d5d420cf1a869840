/* SPDX-License-Identifier: MIT
 *
 * Counters of flow rules as an object of the program's.
 */
#ifndef VB_VERBS_COUNTERS_H
#define VB_VERBS_COUNTERS_H

#include "queue/flow.h"
#include "verbs/objects.h"

enum { VB_COUNTER_POINTS = 64 };

struct vb_counter_point {
	enum ibv_counter_description what;
	uint32_t index;
};

struct vb_flow_counters {
	struct ibv_counters base;
	uint32_t rules;                  /* atomic: that count in it */
	struct vb_flow_counts counts;
	struct vb_counter_point point[VB_COUNTER_POINTS];
	unsigned points;
};
_Static_assert(offsetof(struct vb_flow_counters, base) == 0, "the public object comes first");

static inline struct vb_flow_counters *vb_flow_counters_of(struct ibv_counters *counters)
{
	return (struct vb_flow_counters *)(void *)counters;
}

#endif
