/* SPDX-License-Identifier: MIT
 *
 * Counters of flow rules: frames and bytes that went to a rule, or were dropped by it. A program says which of the two stands at which
 * index (ibv_attach_counters_point_flow(3)), then makes rules that name the object (IBV_FLOW_SPEC_ACTION_COUNT): several rules add to one.
 */
#include <errno.h>
#include <stdlib.h>

#include "io/cancellation.h"
#include "verbs/context.h"
#include "verbs/counters.h"
#include "verbs/explain.h"
#include "verbs/operations.h"

struct ibv_counters *vb_verbs_create_counters(struct ibv_context *context, struct ibv_counters_init_attr *attr)
{
	VB_UNCANCELLED;
	struct vb_flow_counters *counters;

	if (attr == NULL || attr->comp_mask != 0)
		return vb_fail_null(-EINVAL);
	/* They count what rules match. */
	if (vb_profile_type(vb_profile_of_context(context), IBV_QPT_RAW_PACKET) == NULL) {
		vb_explain_refused("ibv_create_counters", NULL, 0, EOPNOTSUPP, "they count what flow rules match, and the device has none.",
				   "Counters of a device and a process: 'verbena stat'.");
		return vb_fail_null(-EOPNOTSUPP);
	}
	counters = calloc(1, sizeof(*counters));
	if (counters == NULL)
		return vb_fail_null(-ENOMEM);
	counters->base.context = context;
	vb_context_hold(context);
	return &counters->base;
}

int vb_verbs_destroy_counters(struct ibv_counters *public)
{
	VB_UNCANCELLED;
	struct vb_flow_counters *counters = vb_flow_counters_of(public);
	struct ibv_context *context = public->context;

	if (vb_count_read(&counters->rules) != 0) {
		vb_explain_refused("ibv_destroy_counters", NULL, 0, EBUSY, "flow rules count in it.", "Call ibv_destroy_flow first.");
		return vb_fail_number(EBUSY);
	}
	free(counters);
	vb_context_put(context);
	return 0;
}

/* One thread at a time attaches, as with the kernel's verbs: nothing counts yet. */
int vb_verbs_attach_counters_point_flow(struct ibv_counters *public, struct ibv_counter_attach_attr *attr, struct ibv_flow *flow)
{
	VB_UNCANCELLED;
	struct vb_flow_counters *counters = vb_flow_counters_of(public);

	if (attr == NULL || attr->comp_mask != 0)
		return vb_fail_number(EINVAL);
	/* To a rule that is there already: no adapter does it. */
	if (flow != NULL || (attr->counter_desc != IBV_COUNTER_PACKETS && attr->counter_desc != IBV_COUNTER_BYTES))
		return vb_fail_number(EOPNOTSUPP);
	if (vb_count_read(&counters->rules) != 0)
		return vb_fail_number(EBUSY);
	if (counters->points == VB_COUNTER_POINTS)
		return vb_fail_number(ENOMEM);
	counters->point[counters->points++] = (struct vb_counter_point){attr->counter_desc, attr->index};
	return 0;
}

int vb_verbs_read_counters(struct ibv_counters *public, uint64_t *values, uint32_t count, uint32_t flags)
{
	VB_UNCANCELLED;
	const struct vb_flow_counters *counters = vb_flow_counters_of(public);

	if (values == NULL || (flags & ~(uint32_t)IBV_READ_COUNTERS_ATTR_PREFER_CACHED) != 0)
		return vb_fail_number(EINVAL);
	for (uint32_t i = 0; i < count; i++)
		values[i] = 0;
	for (unsigned i = 0; i < counters->points; i++) {
		const struct vb_counter_point *point = &counters->point[i];
		const uint64_t *from = point->what == IBV_COUNTER_PACKETS ? &counters->counts.frames : &counters->counts.bytes;

		if (point->index < count)
			values[point->index] += __atomic_load_n(from, __ATOMIC_RELAXED);
	}
	return 0;
}
