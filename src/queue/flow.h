/* SPDX-License-Identifier: MIT
 *
 * Flow rules: which frames a raw packet queue pair receives (ibv_create_flow(3)). A rule is made of what the program wrote
 * (vb_flow_rule_parse) and stands in the table of its interface, which says who gets a frame:
 *
 *   sniffers        every frame, whatever the others say; what this host sends as well
 *   normal rules    by priority, the lowest number first. All queue pairs with a matching rule of the best priority get the frame; those
 *                   behind only if the rules that matched were all told not to trap it
 *   defaults        what no normal rule has trapped: all of it, or multicast
 *
 * A table is protected by its owner.
 */
#ifndef VB_QUEUE_FLOW_H
#define VB_QUEUE_FLOW_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "wire/flow_key.h"

struct vb_qp;

enum { VB_FLOW_SPECS = 16 };             /* of one rule, at most */

/* Of frames that went to rules, or were dropped by them. Atomic. */
struct vb_flow_counts {
	uint64_t frames, bytes;
};

struct vb_flow_rule {
	struct vb_list node;             /* of a table */
	struct vb_qp *qp;
	enum ibv_flow_attr_type type;
	uint16_t priority;
	bool passes_on;                  /* DONT_TRAP */
	bool drops;
	uint32_t tag;
	struct ibv_counters *counters;   /* as the program named them, or NULL */
	struct vb_flow_counts *counts;   /* NULL: nothing is counted. For who made the rule to set */
	struct vb_flow_key value, mask;
};

/* The rule as the program wrote it; its node and queue pair are the caller's to set. -EINVAL: it contradicts itself or ibv_create_flow(3).
 * -EOPNOTSUPP: it asks for headers or actions that are not known here; *what names them then. */
int vb_flow_rule_parse(struct vb_flow_rule *rule, const struct ibv_flow_attr *attr, const char **what);

/* Does it name one Ethernet destination, this one? Then no other frames of the interface are of interest. */
bool vb_flow_rule_is_for(const struct vb_flow_rule *rule, const uint8_t mac[6]);

struct vb_flow_table {
	struct vb_list rules;            /* in the order in which they are looked at */
};

void vb_flow_table_init(struct vb_flow_table *table);
void vb_flow_table_add(struct vb_flow_table *table, struct vb_flow_rule *rule);

/* The rule by which the queue pair gets the frame, or NULL. `is_sent`: by this host. */
struct vb_flow_rule *vb_flow_table_find(const struct vb_flow_table *table, const struct vb_flow_key *key, bool is_sent,
					const struct vb_qp *qp);

/* The rule has got a frame of that length. */
static inline void vb_flow_rule_count(const struct vb_flow_rule *rule, size_t length)
{
	if (!rule->counts)
		return;
	__atomic_fetch_add(&rule->counts->frames, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&rule->counts->bytes, length, __ATOMIC_RELAXED);
}

#endif
