/* SPDX-License-Identifier: MIT
 *
 * See flow.h.
 */
#include "queue/flow.h"

#include <errno.h>
#include <string.h>

/* ---- from what a program wrote to a value and a mask ---- */

/* One more condition: these bytes. False: there was another for the same bits. */
static bool require(struct vb_flow_rule *rule, size_t offset, size_t length, const void *value, const void *mask)
{
	uint8_t *values = (uint8_t *)&rule->value + offset, *masks = (uint8_t *)&rule->mask + offset;
	const uint8_t *v = value, *m = mask;

	for (size_t i = 0; i < length; i++) {
		if ((values[i] ^ v[i]) & masks[i] & m[i])
			return false;
		values[i] |= v[i] & m[i];
		masks[i] |= m[i];
	}
	return true;
}

#define REQUIRE(rule, field, wanted, where) \
	require(rule, offsetof(struct vb_flow_key, field), sizeof((rule)->value.field), wanted, where)
#define REQUIRE_BYTE(rule, field, wanted) REQUIRE(rule, field, &(uint8_t){wanted}, &(uint8_t){0xff})

static bool is_zero(const void *bytes, size_t length)
{
	const uint8_t *at = bytes;

	while (length > 0 && *at == 0)
		at++, length--;
	return length == 0;
}

static bool take_ethernet(struct vb_flow_rule *rule, const struct ibv_flow_spec *spec)
{
	const struct ibv_flow_eth_filter *val = &spec->eth.val, *mask = &spec->eth.mask;

	return REQUIRE(rule, destination, val->dst_mac, mask->dst_mac) && REQUIRE(rule, source, val->src_mac, mask->src_mac) &&
	       REQUIRE(rule, ether_type, &val->ether_type, &mask->ether_type) &&
	       REQUIRE(rule, vlan_tag, &val->vlan_tag, &mask->vlan_tag) && (mask->vlan_tag == 0 || REQUIRE_BYTE(rule, is_tagged, 1));
}

static bool take_network(struct vb_flow_rule *rule, uint8_t version, uint16_t type)
{
	const struct be16 wanted = be16_of(type), whole = be16_of(0xffff);

	return REQUIRE_BYTE(rule, ip_version, version) && REQUIRE(rule, ether_type, &wanted, &whole);
}

static bool take_ipv4(struct vb_flow_rule *rule, const struct ibv_flow_spec *spec)
{
	const struct ibv_flow_ipv4_filter *val = &spec->ipv4.val, *mask = &spec->ipv4.mask;

	return take_network(rule, 4, VB_ETHERTYPE_IPV4) &&
	       require(rule, offsetof(struct vb_flow_key, source_ip), 4, &val->src_ip, &mask->src_ip) &&
	       require(rule, offsetof(struct vb_flow_key, destination_ip), 4, &val->dst_ip, &mask->dst_ip);
}

static bool take_ipv4_ext(struct vb_flow_rule *rule, const struct ibv_flow_spec *spec)
{
	const struct ibv_flow_ipv4_ext_filter *val = &spec->ipv4_ext.val, *mask = &spec->ipv4_ext.mask;

	return take_network(rule, 4, VB_ETHERTYPE_IPV4) &&
	       require(rule, offsetof(struct vb_flow_key, source_ip), 4, &val->src_ip, &mask->src_ip) &&
	       require(rule, offsetof(struct vb_flow_key, destination_ip), 4, &val->dst_ip, &mask->dst_ip) &&
	       REQUIRE(rule, protocol, &val->proto, &mask->proto) && REQUIRE(rule, traffic_class, &val->tos, &mask->tos) &&
	       REQUIRE(rule, hop_limit, &val->ttl, &mask->ttl) && REQUIRE(rule, ip_flags, &val->flags, &mask->flags);
}

static bool take_ipv6(struct vb_flow_rule *rule, const struct ibv_flow_spec *spec)
{
	const struct ibv_flow_ipv6_filter *val = &spec->ipv6.val, *mask = &spec->ipv6.mask;

	return take_network(rule, 6, VB_ETHERTYPE_IPV6) && REQUIRE(rule, source_ip, val->src_ip, mask->src_ip) &&
	       REQUIRE(rule, destination_ip, val->dst_ip, mask->dst_ip) &&
	       REQUIRE(rule, flow_label, &val->flow_label, &mask->flow_label) && REQUIRE(rule, protocol, &val->next_hdr, &mask->next_hdr) &&
	       REQUIRE(rule, traffic_class, &val->traffic_class, &mask->traffic_class) &&
	       REQUIRE(rule, hop_limit, &val->hop_limit, &mask->hop_limit);
}

static bool take_ports(struct vb_flow_rule *rule, const struct ibv_flow_spec *spec)
{
	const struct ibv_flow_tcp_udp_filter *val = &spec->tcp_udp.val, *mask = &spec->tcp_udp.mask;

	return REQUIRE_BYTE(rule, protocol, spec->hdr.type == IBV_FLOW_SPEC_TCP ? VB_PROTOCOL_TCP : VB_PROTOCOL_UDP) &&
	       REQUIRE(rule, destination_port, &val->dst_port, &mask->dst_port) &&
	       REQUIRE(rule, source_port, &val->src_port, &mask->src_port) &&
	       (is_zero(mask, sizeof(*mask)) || REQUIRE_BYTE(rule, has_ports, 1));
}

static bool take_tag(struct vb_flow_rule *rule, const struct ibv_flow_spec *spec)
{
	rule->tag = spec->flow_tag.tag_id;
	return true;
}

static bool take_drop(struct vb_flow_rule *rule, const struct ibv_flow_spec *spec)
{
	(void)spec;
	rule->drops = true;
	return true;
}

static bool take_count(struct vb_flow_rule *rule, const struct ibv_flow_spec *spec)
{
	rule->counters = spec->flow_count.counters;
	return rule->counters != NULL;
}

/* One row for each spec: `layer`, of which a rule has one at most. */
static const struct spec {
	uint32_t type;
	const char *name;
	size_t size;
	bool (*take)(struct vb_flow_rule *rule, const struct ibv_flow_spec *spec); /* NULL: not known here */
	enum { LAYER_LINK = 1, LAYER_NETWORK = 2, LAYER_TRANSPORT = 4, LAYER_TAG = 8, LAYER_DROP = 16, LAYER_COUNT = 32 } layer;
} specs[] = {
	{IBV_FLOW_SPEC_ETH, "ETH", sizeof(struct ibv_flow_spec_eth), take_ethernet, LAYER_LINK},
	{IBV_FLOW_SPEC_IPV4, "IPV4", sizeof(struct ibv_flow_spec_ipv4), take_ipv4, LAYER_NETWORK},
	{IBV_FLOW_SPEC_IPV4_EXT, "IPV4_EXT", sizeof(struct ibv_flow_spec_ipv4_ext), take_ipv4_ext, LAYER_NETWORK},
	{IBV_FLOW_SPEC_IPV6, "IPV6", sizeof(struct ibv_flow_spec_ipv6), take_ipv6, LAYER_NETWORK},
	{IBV_FLOW_SPEC_TCP, "TCP", sizeof(struct ibv_flow_spec_tcp_udp), take_ports, LAYER_TRANSPORT},
	{IBV_FLOW_SPEC_UDP, "UDP", sizeof(struct ibv_flow_spec_tcp_udp), take_ports, LAYER_TRANSPORT},
	{IBV_FLOW_SPEC_ACTION_TAG, "ACTION_TAG", sizeof(struct ibv_flow_spec_action_tag), take_tag, LAYER_TAG},
	{IBV_FLOW_SPEC_ACTION_DROP, "ACTION_DROP", sizeof(struct ibv_flow_spec_action_drop), take_drop, LAYER_DROP},
	{IBV_FLOW_SPEC_ACTION_COUNT, "ACTION_COUNT", sizeof(struct ibv_flow_spec_counter_action), take_count, LAYER_COUNT},
	{.type = IBV_FLOW_SPEC_ESP, .name = "ESP"},
	{.type = IBV_FLOW_SPEC_VXLAN_TUNNEL, .name = "VXLAN_TUNNEL"},
	{.type = IBV_FLOW_SPEC_GRE, .name = "GRE"},
	{.type = IBV_FLOW_SPEC_MPLS, .name = "MPLS"},
	{.type = IBV_FLOW_SPEC_ACTION_HANDLE, .name = "ACTION_HANDLE"},
};

static const struct spec *find_spec(uint32_t type)
{
	for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++)
		if (specs[i].type == type)
			return &specs[i];
	return NULL;
}

/* Specs may stand at any address: programs pack them behind the attributes. `seen`: the layers before it. Returns its size or -errno. */
static int take_spec(struct vb_flow_rule *rule, const uint8_t *at, unsigned *seen, const char **what)
{
	struct ibv_flow_spec spec;
	const struct spec *row;

	memset(&spec, 0, sizeof(spec));
	memcpy(&spec, at, sizeof(spec.hdr));
	if (spec.hdr.type & IBV_FLOW_SPEC_INNER) {
		*what = "INNER";
		return -EOPNOTSUPP;
	}
	row = find_spec(spec.hdr.type);
	if (!row)
		return -EINVAL;
	if (!row->take) {
		*what = row->name;
		return -EOPNOTSUPP;
	}
	if (spec.hdr.size != row->size || (*seen & row->layer))
		return -EINVAL;
	*seen |= row->layer;
	memcpy(&spec, at, row->size);
	return row->take(rule, &spec) ? (int)row->size : -EINVAL;
}

static int check_attr(const struct ibv_flow_attr *attr, const char **what)
{
	if (attr->comp_mask != 0 || (unsigned)attr->type > IBV_FLOW_ATTR_SNIFFER || attr->num_of_specs > VB_FLOW_SPECS)
		return -EINVAL;
	if (attr->flags & IBV_FLOW_ATTR_FLAGS_EGRESS) {
		*what = "EGRESS";
		return -EOPNOTSUPP;
	}
	/* Notes 4 and 5 of the manual. */
	if ((attr->flags & ~(uint32_t)IBV_FLOW_ATTR_FLAGS_DONT_TRAP) != 0 ||
	    (attr->type != IBV_FLOW_ATTR_NORMAL && (attr->flags != 0 || attr->num_of_specs != 0)))
		return -EINVAL;
	return 0;
}

int vb_flow_rule_parse(struct vb_flow_rule *rule, const struct ibv_flow_attr *attr, const char **what)
{
	const uint8_t *at = (const uint8_t *)(attr + 1);
	unsigned seen = 0;
	int used = check_attr(attr, what);

	*rule = (struct vb_flow_rule){
		.type = attr->type,
		.priority = attr->priority,
		.passes_on = (attr->flags & IBV_FLOW_ATTR_FLAGS_DONT_TRAP) != 0,
	};
	vb_list_init(&rule->node);
	for (unsigned i = 0; used >= 0 && i < attr->num_of_specs; i++) {
		used = take_spec(rule, at, &seen, what);
		at += used > 0 ? used : 0;
	}
	if (used < 0)
		return used;
	/* Ports are the transport's: of which network, the frame says. Without one of the two they mean nothing. */
	return rule->drops && rule->passes_on ? -EINVAL : 0;
}

bool vb_flow_rule_is_for(const struct vb_flow_rule *rule, const uint8_t mac[6])
{
	static const uint8_t all[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

	return rule->type == IBV_FLOW_ATTR_NORMAL && memcmp(rule->mask.destination, all, 6) == 0 &&
	       memcmp(rule->value.destination, mac, 6) == 0;
}

/* ---- who gets a frame ---- */

void vb_flow_table_init(struct vb_flow_table *table)
{
	vb_list_init(&table->rules);
}

/* Sniffers, normal rules, defaults. */
static unsigned rank(const struct vb_flow_rule *rule)
{
	return rule->type == IBV_FLOW_ATTR_SNIFFER ? 0 : rule->type == IBV_FLOW_ATTR_NORMAL ? 1 : 2;
}

static bool stands_behind(const struct vb_flow_rule *rule, const struct vb_flow_rule *other)
{
	if (rank(rule) != rank(other))
		return rank(rule) > rank(other);
	return rule->priority >= other->priority;
}

/* Behind all that come before it. From the end: mostly rules come in order. */
void vb_flow_table_add(struct vb_flow_table *table, struct vb_flow_rule *rule)
{
	struct vb_list *before = table->rules.previous;

	while (before != &table->rules && !stands_behind(rule, vb_container_of(before, struct vb_flow_rule, node)))
		before = before->previous;
	vb_list_append(before->next, &rule->node);
}

/* What this host sends to a group comes to its own members as well, as on an adapter: that is what IBV_QP_CREATE_BLOCK_SELF_MCAST_LB is
 * against. */
static bool matches(const struct vb_flow_rule *rule, const struct vb_flow_key *key, bool is_sent)
{
	bool is_for_group = key->destination[0] & 1, comes_in = !is_sent || is_for_group;

	switch (rule->type) {
	case IBV_FLOW_ATTR_SNIFFER:
		return true;
	case IBV_FLOW_ATTR_MC_DEFAULT:
		return is_for_group;
	case IBV_FLOW_ATTR_ALL_DEFAULT:
		return comes_in;
	default:
		return comes_in && vb_flow_key_matches(key, &rule->value, &rule->mask);
	}
}

struct vb_flow_rule *vb_flow_table_find(const struct vb_flow_table *table, const struct vb_flow_key *key, bool is_sent,
					const struct vb_qp *qp)
{
	struct vb_flow_rule *found = NULL;
	const struct vb_flow_rule *trap = NULL; /* the first that traps the frame */

	VB_LIST_FOR_EACH(node, &table->rules) {
		struct vb_flow_rule *rule = vb_container_of(node, struct vb_flow_rule, node);

		if (trap && (rank(rule) != rank(trap) || rule->priority != trap->priority))
			break;
		if (!matches(rule, key, is_sent))
			continue;
		if (rule->qp == qp && !found)
			found = rule;
		if (rule->type != IBV_FLOW_ATTR_SNIFFER && !rule->passes_on)
			trap = rule;
	}
	return found;
}
