/* SPDX-License-Identifier: MIT
 *
 * Flow rules: what a program may write, and which queue pair gets a frame.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "queue/flow.h"
#include "queue/qp.h"

/* Packed behind the attributes, as programs write them: nothing is aligned. */
struct written {
	struct ibv_flow_attr attr;
	uint8_t specs[512];
	size_t used;
};

static struct written write_rule(enum ibv_flow_attr_type type, uint16_t priority, uint32_t flags)
{
	return (struct written){.attr = {.type = type, .priority = priority, .flags = flags, .port = 1,
					 .size = sizeof(struct ibv_flow_attr)}};
}

static void add(struct written *written, const void *spec, size_t size)
{
	assert_true(written->used + size <= sizeof(written->specs));
	memcpy(written->specs + written->used, spec, size);
	written->used += size;
	written->attr.num_of_specs++;
}

static int parse(struct written *written, struct vb_flow_rule *rule)
{
	const char *what = NULL;
	int error = vb_flow_rule_parse(rule, &written->attr, &what);

	assert_int_equal(what != NULL, error == -EOPNOTSUPP);
	return error;
}

#define ETH(...) (&(struct ibv_flow_spec_eth){.type = IBV_FLOW_SPEC_ETH, .size = sizeof(struct ibv_flow_spec_eth), __VA_ARGS__}), \
	sizeof(struct ibv_flow_spec_eth)
#define IPV4(...) (&(struct ibv_flow_spec_ipv4){.type = IBV_FLOW_SPEC_IPV4, .size = sizeof(struct ibv_flow_spec_ipv4), __VA_ARGS__}), \
	sizeof(struct ibv_flow_spec_ipv4)
#define IPV4_EXT(...) (&(struct ibv_flow_spec_ipv4_ext){.type = IBV_FLOW_SPEC_IPV4_EXT, .size = sizeof(struct ibv_flow_spec_ipv4_ext), \
	__VA_ARGS__}), sizeof(struct ibv_flow_spec_ipv4_ext)
#define IPV6(...) (&(struct ibv_flow_spec_ipv6){.type = IBV_FLOW_SPEC_IPV6, .size = sizeof(struct ibv_flow_spec_ipv6), __VA_ARGS__}), \
	sizeof(struct ibv_flow_spec_ipv6)
#define PORTS(kind, ...) (&(struct ibv_flow_spec_tcp_udp){.type = IBV_FLOW_SPEC_##kind, .size = sizeof(struct ibv_flow_spec_tcp_udp), \
	__VA_ARGS__}), sizeof(struct ibv_flow_spec_tcp_udp)

static const uint8_t udp_frame[] = {
	0x02, 1, 2, 3, 4, 5, 0x02, 6, 7, 8, 9, 10, 0x08, 0x00,
	0x45, 0x10, 0, 28, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 2, 10, 0, 0, 1, 0x17, 0x70, 0x13, 0x88, 0, 8, 0, 0,
};

static uint32_t address(uint8_t a, uint8_t b, uint8_t c, uint8_t d)
{
	uint32_t number;

	memcpy(&number, (uint8_t[]){a, b, c, d}, 4);
	return number;
}

static uint16_t port(uint16_t host_order)
{
	uint16_t number;

	memcpy(&number, (uint8_t[]){(uint8_t)(host_order >> 8), (uint8_t)host_order}, 2);
	return number;
}

static struct vb_flow_key key_of(const uint8_t *frame, size_t length)
{
	struct vb_flow_key key;

	assert_true(vb_flow_key_decode(&key, frame, length, NULL));
	return key;
}

static bool takes(struct written *written, const struct vb_flow_key *key)
{
	struct vb_flow_rule rule;

	assert_int_equal(parse(written, &rule), 0);
	return vb_flow_key_matches(key, &rule.value, &rule.mask);
}

static void each_layer_counts(void **state)
{
	const struct vb_flow_key key = key_of(udp_frame, sizeof(udp_frame));
	struct written rule;

	(void)state;
	for (int wrong = 0; wrong < 6; wrong++) {
		rule = write_rule(IBV_FLOW_ATTR_NORMAL, 0, 0);
		/* In any order. */
		add(&rule, PORTS(UDP, .val = {.dst_port = port(wrong == 1 ? 5001 : 5000), .src_port = port(wrong == 2 ? 1 : 6000)},
				 .mask = {0xffff, 0xffff}));
		add(&rule, IPV4(.val = {.src_ip = address(10, 0, 0, wrong == 3 ? 3 : 2), .dst_ip = address(10, 0, 0, 1)},
				.mask = {0xffffffff, 0xffffffff}));
		add(&rule, ETH(.val = {.dst_mac = {0x02, 1, 2, 3, 4, (uint8_t)(wrong == 4 ? 6 : 5)}, .ether_type = port(0x0800)},
			       .mask = {.dst_mac = {255, 255, 255, 255, 255, 255}, .ether_type = (uint16_t)(wrong == 5 ? 0 : 0xffff)}));
		assert_int_equal(takes(&rule, &key), wrong == 0 || wrong == 5);
	}
}

static void networks_by_mask(void **state)
{
	const struct vb_flow_key key = key_of(udp_frame, sizeof(udp_frame));
	struct written rule = write_rule(IBV_FLOW_ATTR_NORMAL, 0, 0);

	(void)state;
	/* What is outside of the mask does not matter. */
	add(&rule, IPV4(.val = {.src_ip = address(10, 0, 0, 99)}, .mask = {.src_ip = address(255, 255, 255, 0)}));
	assert_true(takes(&rule, &key));
	rule = write_rule(IBV_FLOW_ATTR_NORMAL, 0, 0);
	add(&rule, IPV4(.val = {.src_ip = address(10, 0, 1, 2)}, .mask = {.src_ip = address(255, 255, 255, 0)}));
	assert_false(takes(&rule, &key));
}

static void fields_of_ip(void **state)
{
	static const uint8_t ipv6_frame[] = {
		0x33, 0x33, 0, 0, 0, 1, 0x02, 6, 7, 8, 9, 10, 0x86, 0xdd, 0x62, 0x01, 0x23, 0x45, 0, 0, 58, 255,
		0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
	};
	const struct vb_flow_key v4 = key_of(udp_frame, sizeof(udp_frame)), v6 = key_of(ipv6_frame, sizeof(ipv6_frame));
	struct written rule = write_rule(IBV_FLOW_ATTR_NORMAL, 0, 0);
	uint32_t label = address(0, 1, 0x23, 0x45);

	(void)state;
	add(&rule, IPV4_EXT(.val = {.proto = 17, .tos = 0x10, .ttl = 64, .flags = 2},
			    .mask = {.proto = 255, .tos = 255, .ttl = 255, .flags = 255}));
	assert_true(takes(&rule, &v4));
	assert_false(takes(&rule, &v6));
	rule = write_rule(IBV_FLOW_ATTR_NORMAL, 0, 0);
	add(&rule, IPV6(.val = {.flow_label = label, .next_hdr = 58, .traffic_class = 0x20, .hop_limit = 255, .src_ip = {0xfe, 0x80}},
			.mask = {.flow_label = address(0, 15, 255, 255), .next_hdr = 255, .traffic_class = 255, .hop_limit = 255,
				 .src_ip = {255, 255}}));
	assert_true(takes(&rule, &v6));
	assert_false(takes(&rule, &v4));
}

/* A TCP rule without ports is about TCP; one without a network about both. */
static void a_transport_says_the_protocol(void **state)
{
	const struct vb_flow_key key = key_of(udp_frame, sizeof(udp_frame));
	struct written rule = write_rule(IBV_FLOW_ATTR_NORMAL, 0, 0);

	(void)state;
	add(&rule, PORTS(UDP));
	assert_true(takes(&rule, &key));
	rule = write_rule(IBV_FLOW_ATTR_NORMAL, 0, 0);
	add(&rule, PORTS(TCP, .val = {.dst_port = port(5000)}, .mask = {.dst_port = 0xffff}));
	assert_false(takes(&rule, &key));
}

static void a_vlan_must_be_there(void **state)
{
	uint8_t tagged[sizeof(udp_frame) + 4];
	struct written rule = write_rule(IBV_FLOW_ATTR_NORMAL, 0, 0);
	struct vb_flow_key with, without = key_of(udp_frame, sizeof(udp_frame));

	(void)state;
	memcpy(tagged, udp_frame, 12);
	memcpy(tagged + 12, (uint8_t[]){0x81, 0x00, 0x20, 0x00}, 4);
	memcpy(tagged + 16, udp_frame + 12, sizeof(udp_frame) - 12);
	with = key_of(tagged, sizeof(tagged));
	/* Number 0, any priority. */
	add(&rule, ETH(.mask = {.vlan_tag = port(0x0fff)}));
	assert_true(takes(&rule, &with));
	assert_false(takes(&rule, &without));
}

static void contradictions_are_refused(void **state)
{
	struct written rule;
	struct vb_flow_rule parsed;

	(void)state;
	rule = write_rule(IBV_FLOW_ATTR_NORMAL, 0, 0);
	add(&rule, ETH(.val = {.ether_type = port(0x86dd)}, .mask = {.ether_type = 0xffff}));
	add(&rule, IPV4(.val = {0}));
	assert_int_equal(parse(&rule, &parsed), -EINVAL);
	rule = write_rule(IBV_FLOW_ATTR_NORMAL, 0, 0);
	add(&rule, IPV4(.val = {0}));
	add(&rule, IPV6(.val = {{0}}));
	assert_int_equal(parse(&rule, &parsed), -EINVAL);
	rule = write_rule(IBV_FLOW_ATTR_NORMAL, 0, 0);
	add(&rule, PORTS(UDP));
	add(&rule, PORTS(TCP));
	assert_int_equal(parse(&rule, &parsed), -EINVAL);
	rule = write_rule(IBV_FLOW_ATTR_NORMAL, 0, 0);
	add(&rule, IPV4_EXT(.val = {.proto = 6}, .mask = {.proto = 255}));
	add(&rule, PORTS(UDP));
	assert_int_equal(parse(&rule, &parsed), -EINVAL);
	rule = write_rule(IBV_FLOW_ATTR_NORMAL, 0, 0);
	add(&rule, &(struct ibv_flow_spec_eth){.type = IBV_FLOW_SPEC_ETH, .size = 12}, sizeof(struct ibv_flow_spec_eth));
	assert_int_equal(parse(&rule, &parsed), -EINVAL);
	rule = write_rule(IBV_FLOW_ATTR_NORMAL, 0, 0);
	add(&rule, &(struct ibv_flow_spec_eth){.type = 0x77, .size = sizeof(struct ibv_flow_spec_eth)}, sizeof(struct ibv_flow_spec_eth));
	assert_int_equal(parse(&rule, &parsed), -EINVAL);
	rule = write_rule(IBV_FLOW_ATTR_SNIFFER, 0, 0);
	add(&rule, ETH(.val = {{0}}));
	assert_int_equal(parse(&rule, &parsed), -EINVAL);
	rule = write_rule(IBV_FLOW_ATTR_ALL_DEFAULT, 0, IBV_FLOW_ATTR_FLAGS_DONT_TRAP);
	assert_int_equal(parse(&rule, &parsed), -EINVAL);
	rule = write_rule((enum ibv_flow_attr_type)4, 0, 0);
	assert_int_equal(parse(&rule, &parsed), -EINVAL);
	rule = write_rule(IBV_FLOW_ATTR_NORMAL, 0, 1 << 5);
	assert_int_equal(parse(&rule, &parsed), -EINVAL);
	rule = write_rule(IBV_FLOW_ATTR_NORMAL, 0, 0);
	rule.attr.comp_mask = 1;
	assert_int_equal(parse(&rule, &parsed), -EINVAL);
	rule = write_rule(IBV_FLOW_ATTR_NORMAL, 0, 0);
	rule.attr.num_of_specs = 255;
	assert_int_equal(parse(&rule, &parsed), -EINVAL);
}

static void what_is_not_known_is_named(void **state)
{
	static const uint32_t unknown[] = {IBV_FLOW_SPEC_ESP, IBV_FLOW_SPEC_VXLAN_TUNNEL, IBV_FLOW_SPEC_GRE, IBV_FLOW_SPEC_MPLS,
					   IBV_FLOW_SPEC_ACTION_HANDLE, IBV_FLOW_SPEC_ETH | IBV_FLOW_SPEC_INNER};
	struct vb_flow_rule parsed;
	struct written rule;

	(void)state;
	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
		rule = write_rule(IBV_FLOW_ATTR_NORMAL, 0, 0);
		add(&rule, &(struct ibv_flow_spec_eth){.type = unknown[i], .size = sizeof(struct ibv_flow_spec_eth)},
		    sizeof(struct ibv_flow_spec_eth));
		assert_int_equal(parse(&rule, &parsed), -EOPNOTSUPP);
	}
	rule = write_rule(IBV_FLOW_ATTR_NORMAL, 0, IBV_FLOW_ATTR_FLAGS_EGRESS);
	assert_int_equal(parse(&rule, &parsed), -EOPNOTSUPP);
}

/* ---- tables ---- */

static struct vb_qp pair[4];
static struct vb_flow_rule rules[8];

static struct vb_flow_rule *rule_for(struct vb_flow_table *table, unsigned at, unsigned qp, enum ibv_flow_attr_type type, uint16_t priority,
				     uint32_t flags, uint16_t destination_port)
{
	struct written written = write_rule(type, priority, flags);

	if (destination_port != 0)
		add(&written, PORTS(UDP, .val = {.dst_port = port(destination_port)}, .mask = {.dst_port = 0xffff}));
	assert_int_equal(parse(&written, &rules[at]), 0);
	rules[at].qp = &pair[qp];
	vb_flow_table_add(table, &rules[at]);
	return &rules[at];
}

/* Who gets it, as bits. */
static unsigned receivers(const struct vb_flow_table *table, const struct vb_flow_key *key, bool is_sent)
{
	unsigned bits = 0;

	for (unsigned i = 0; i < 4; i++)
		bits |= vb_flow_table_find(table, key, is_sent, &pair[i]) != NULL ? 1u << i : 0;
	return bits;
}

static void the_lowest_number_comes_first(void **state)
{
	const struct vb_flow_key key = key_of(udp_frame, sizeof(udp_frame));
	struct vb_flow_table table;

	(void)state;
	vb_flow_table_init(&table);
	assert_int_equal(receivers(&table, &key, false), 0);
	rule_for(&table, 0, 0, IBV_FLOW_ATTR_NORMAL, 7, 0, 5000);
	assert_int_equal(receivers(&table, &key, false), 1);
	rule_for(&table, 1, 1, IBV_FLOW_ATTR_NORMAL, 3, 0, 5000);
	assert_int_equal(receivers(&table, &key, false), 2);
	/* That matches, or it does not count. */
	rule_for(&table, 2, 2, IBV_FLOW_ATTR_NORMAL, 1, 0, 5001);
	assert_int_equal(receivers(&table, &key, false), 2);
	/* Two of one priority. */
	rule_for(&table, 3, 3, IBV_FLOW_ATTR_NORMAL, 3, 0, 0);
	assert_int_equal(receivers(&table, &key, false), 2 | 8);
	vb_list_remove(&rules[1].node);
	vb_list_remove(&rules[3].node);
	assert_int_equal(receivers(&table, &key, false), 1);
}

static void dont_trap_passes_on(void **state)
{
	const struct vb_flow_key key = key_of(udp_frame, sizeof(udp_frame));
	struct vb_flow_table table;

	(void)state;
	vb_flow_table_init(&table);
	rule_for(&table, 0, 0, IBV_FLOW_ATTR_NORMAL, 0, IBV_FLOW_ATTR_FLAGS_DONT_TRAP, 5000);
	rule_for(&table, 1, 1, IBV_FLOW_ATTR_NORMAL, 1, 0, 5000);
	rule_for(&table, 2, 2, IBV_FLOW_ATTR_NORMAL, 2, 0, 5000);
	assert_int_equal(receivers(&table, &key, false), 1 | 2);
}

static void defaults_get_what_is_left(void **state)
{
	static const uint8_t group[] = {0x01, 0, 0x5e, 0, 0, 1, 2, 0, 0, 0, 0, 1, 0x88, 0xb5};
	const struct vb_flow_key unicast = key_of(udp_frame, sizeof(udp_frame)), multicast = key_of(group, sizeof(group));
	struct vb_flow_table table;

	(void)state;
	vb_flow_table_init(&table);
	rule_for(&table, 0, 0, IBV_FLOW_ATTR_MC_DEFAULT, 0, 0, 0);
	assert_int_equal(receivers(&table, &unicast, false), 0);
	assert_int_equal(receivers(&table, &multicast, false), 1);
	rule_for(&table, 1, 1, IBV_FLOW_ATTR_ALL_DEFAULT, 0, 0, 0);
	assert_int_equal(receivers(&table, &unicast, false), 2);
	assert_int_equal(receivers(&table, &multicast, false), 1 | 2);
	/* What this host sends to a group is for its own members, too. */
	assert_int_equal(receivers(&table, &unicast, true), 0);
	assert_int_equal(receivers(&table, &multicast, true), 1 | 2);
	/* The largest number of a normal rule still comes before them. */
	rule_for(&table, 2, 2, IBV_FLOW_ATTR_NORMAL, 65535, 0, 5000);
	assert_int_equal(receivers(&table, &unicast, false), 4);
	rules[2].passes_on = true;
	assert_int_equal(receivers(&table, &unicast, false), 2 | 4);
}

static void sniffers_see_everything(void **state)
{
	const struct vb_flow_key key = key_of(udp_frame, sizeof(udp_frame));
	struct vb_flow_table table;

	(void)state;
	vb_flow_table_init(&table);
	rule_for(&table, 0, 0, IBV_FLOW_ATTR_NORMAL, 0, 0, 5000);
	rule_for(&table, 1, 1, IBV_FLOW_ATTR_SNIFFER, 0, 0, 0);
	rule_for(&table, 2, 2, IBV_FLOW_ATTR_ALL_DEFAULT, 0, 0, 0);
	assert_int_equal(receivers(&table, &key, false), 1 | 2);
	/* What this host sends to another is for them alone. */
	assert_int_equal(receivers(&table, &key, true), 2);
}

static void actions(void **state)
{
	const struct vb_flow_key key = key_of(udp_frame, sizeof(udp_frame));
	struct written written = write_rule(IBV_FLOW_ATTR_NORMAL, 0, 0);
	struct vb_flow_table table;

	(void)state;
	add(&written, &(struct ibv_flow_spec_action_tag){IBV_FLOW_SPEC_ACTION_TAG, sizeof(struct ibv_flow_spec_action_tag), 0x1234},
	    sizeof(struct ibv_flow_spec_action_tag));
	assert_int_equal(parse(&written, &rules[0]), 0);
	assert_int_equal(rules[0].tag, 0x1234);
	assert_false(rules[0].drops);
	add(&written, &(struct ibv_flow_spec_counter_action){IBV_FLOW_SPEC_ACTION_COUNT, sizeof(struct ibv_flow_spec_counter_action), NULL},
	    sizeof(struct ibv_flow_spec_counter_action));
	assert_int_equal(parse(&written, &rules[0]), -EINVAL);
	written.attr.num_of_specs--;
	written.used -= sizeof(struct ibv_flow_spec_counter_action);
	add(&written, &(struct ibv_flow_spec_action_drop){IBV_FLOW_SPEC_ACTION_DROP, sizeof(struct ibv_flow_spec_action_drop)},
	    sizeof(struct ibv_flow_spec_action_drop));
	assert_int_equal(parse(&written, &rules[0]), 0);
	assert_true(rules[0].drops);
	/* Nobody behind a rule that drops gets the frame. */
	vb_flow_table_init(&table);
	rules[0].qp = &pair[0];
	vb_flow_table_add(&table, &rules[0]);
	rule_for(&table, 1, 1, IBV_FLOW_ATTR_NORMAL, 1, 0, 5000);
	assert_int_equal(receivers(&table, &key, false), 1);
	assert_ptr_equal(vb_flow_table_find(&table, &key, false, &pair[0]), &rules[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_layer_counts),
		cmocka_unit_test(networks_by_mask),
		cmocka_unit_test(fields_of_ip),
		cmocka_unit_test(a_transport_says_the_protocol),
		cmocka_unit_test(a_vlan_must_be_there),
		cmocka_unit_test(contradictions_are_refused),
		cmocka_unit_test(what_is_not_known_is_named),
		cmocka_unit_test(the_lowest_number_comes_first),
		cmocka_unit_test(dont_trap_passes_on),
		cmocka_unit_test(defaults_get_what_is_left),
		cmocka_unit_test(sniffers_see_everything),
		cmocka_unit_test(actions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
