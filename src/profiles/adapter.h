/* SPDX-License-Identifier: MIT
 *
 * Adapters that people have: their limits and what they refuse, put over a device of ours, so that a program meets them before it meets
 * the adapter (VERBENA_PROFILE, docs/profiles.md). An adapter lowers what a profile grants and never raises it. Vendor ids stay
 * ours, since libraries go past libibverbs when they know the vendor.
 *
 * Facts: Linux 6.1, drivers/infiniband/{hw,sw}; ConnectX-6: ibv_devinfo -vv of firmware 20.37.
 */
#ifndef VB_PROFILES_ADAPTER_H
#define VB_PROFILES_ADAPTER_H

#include "profiles/profile.h"

/* Of a number: 0 leaves ours (the adapter's firmware decides), VB_NONE means 0. */
#define VB_NONE UINT32_MAX

struct vb_adapter {
	const char *name;                /* as VERBENA_PROFILE has it */
	const char *describes;
	unsigned kinds;                  /* bits 1 << enum vb_device_kind: what it can be put over */
	unsigned types;                  /* bits 1 << enum ibv_qp_type */
	uint32_t max_inline;
	uint32_t max_inline_datagram;    /* of UD; 0: the same */
	uint32_t max_message, gid_table_length;
	enum ibv_atomic_cap atomic_cap;  /* NONE: no atomics; never more than the device's */
	struct vb_profile_limits limits;
	bool grants_less_inline, needs_both_queues; /* as in struct vb_profile */
	bool speaks_rocev1;              /* beside v2: each address has two GIDs */
};

/* NULL: no adapter has that name. */
const struct vb_adapter *vb_adapter_find(const char *name);
/* One by one; NULL: there are no more. */
const struct vb_adapter *vb_adapter_at(unsigned index);

static inline bool vb_adapter_suits(const struct vb_adapter *adapter, enum vb_device_kind kind)
{
	return (adapter->kinds & 1u << kind) != 0;
}

/* Put it over a device of a kind that it suits. */
void vb_profile_lower(struct vb_profile *profile, const struct vb_adapter *adapter);

#endif
