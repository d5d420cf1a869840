/* SPDX-License-Identifier: MIT
 *
 * What devices, ports and tables say; words and rates against independently typed lists.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/one_world.h"
#include "lib/private_network.h"

/* The exported name, as old binaries call it. */
static int (*exported_query_port)(struct ibv_context *, uint8_t, struct _compat_ibv_port_attr *) = ibv_query_port;
int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index, unsigned int *type);

static void a_listed_device_can_be_described_and_outlives_its_list(void **state)
{
	int count = -1;
	struct ibv_device **list = ibv_get_device_list(&count);
	struct ibv_context *context;
	const uint64_t *behind;
	char name[32];

	(void)state;
	assert_non_null(list);
	assert_true(count >= 1);
	assert_null(list[count]);
	assert_string_equal(ibv_get_device_name(list[0]), "roce_lo");
	assert_int_equal(list[0]->node_type, IBV_NODE_CA);
	assert_int_equal(list[0]->transport_type, IBV_TRANSPORT_IB);
	assert_true(ibv_get_device_guid(list[0]) != 0);
	/* No number of the kernel's, which knows nothing of the device. */
	assert_int_equal(ibv_get_device_index(list[0]), -1);
	snprintf(name, sizeof(name), "uverbs%u", if_nametoindex("lo"));
	assert_string_equal(list[0]->dev_name, name);
	/* What a provider library reads to see whether the device is its own. */
	behind = (const uint64_t *)(const void *)(list[0] + 1);
	assert_true(*behind == 0);
	context = ibv_open_device(list[0]);
	assert_non_null(context);
	ibv_free_device_list(list);
	assert_string_equal(ibv_get_device_name(context->device), "roce_lo");
	assert_int_equal(ibv_close_device(context), 0);
	/* A list may be asked for without a count. */
	list = ibv_get_device_list(NULL);
	assert_non_null(list);
	ibv_free_device_list(list);
}

static void nothing_is_refused_politely(void **state)
{
	(void)state;
	assert_null(ibv_open_device(NULL));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_close_device(NULL), -1);
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_get_device_name(NULL));
	assert_true(ibv_get_device_guid(NULL) == 0);
	assert_int_equal(ibv_get_device_index(NULL), -1);
	ibv_free_device_list(NULL);
	assert_int_equal(ibv_query_device(world.context, NULL), EINVAL);
	assert_null(ibv_alloc_pd(NULL));
	assert_int_equal(errno, EINVAL);
}

static void the_device_says_what_it_grants(void **state)
{
	struct ibv_device_attr attr;
	struct ibv_device_attr_ex ex;
	struct ibv_query_device_ex_input input = {.comp_mask = 1};

	(void)state;
	assert_int_equal(ibv_query_device(world.context, &attr), 0);
	assert_int_equal(strncmp(attr.fw_ver, "verbena ", 8), 0);
	assert_true(attr.node_guid == ibv_get_device_guid(world.context->device));
	assert_true(attr.vendor_id != 0x02c9 && attr.vendor_id != 0x15b3);
	assert_int_equal(attr.phys_port_cnt, 1);
	assert_int_equal(attr.max_sge, 30);
	assert_true(attr.max_qp >= 10000);
	assert_true(attr.max_mr_size == UINT64_MAX);
	assert_int_equal(attr.max_pkeys, 1);
	assert_int_equal(attr.atomic_cap, IBV_ATOMIC_GLOB);
	/* What is refused is not advertised. */
	assert_int_equal(attr.device_cap_flags & (IBV_DEVICE_RAW_IP_CSUM | IBV_DEVICE_UD_IP_CSUM), 0);
	assert_true(attr.device_cap_flags & IBV_DEVICE_MANAGED_FLOW_STEERING);
	assert_int_equal(ibv_query_device_ex(world.context, NULL, &ex), 0);
	assert_memory_equal(&ex.orig_attr, &attr, sizeof(attr));
	assert_int_equal(ex.odp_caps.general_caps, IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT);
	assert_true(ex.odp_caps.per_transport_caps.rc_odp_caps & IBV_ODP_SUPPORT_ATOMIC);
	assert_true(ex.completion_timestamp_mask == UINT64_MAX);
	assert_int_equal(ex.hca_core_clock, 1000000);
	assert_true(ex.max_dm_size > 0);
	assert_int_equal(ex.tso_caps.max_tso, 0);
	assert_int_equal(ex.rss_caps.supported_qpts, 1 << IBV_QPT_RAW_PACKET);
	assert_int_equal(ex.rss_caps.rx_hash_function, IBV_RX_HASH_FUNC_TOEPLITZ);
	assert_int_equal(ex.raw_packet_caps, 0);
	assert_int_equal(ex.tm_caps.max_num_tags, 0);
	assert_int_equal(ibv_query_device_ex(world.context, &input, &ex), EINVAL);
}

static void the_port_answers_both_sizes(void **state)
{
	struct ibv_port_attr attr;
	union {
		struct ibv_port_attr attr;
		uint8_t bytes[sizeof(struct ibv_port_attr)];
	} old;

	(void)state;
	assert_int_equal(ibv_query_port(world.context, 1, &attr), 0);
	assert_int_equal(attr.state, IBV_PORT_ACTIVE);
	assert_int_equal(attr.max_mtu, IBV_MTU_4096);
	assert_int_equal(attr.active_mtu, IBV_MTU_4096);        /* loopback: 65536 */
	assert_int_equal(attr.link_layer, IBV_LINK_LAYER_ETHERNET);
	assert_int_equal(attr.phys_state, 5);
	assert_int_equal(attr.lid, 0);
	assert_int_equal(attr.pkey_tbl_len, 1);
	assert_true(attr.gid_tbl_len >= 1);
	assert_int_equal(attr.max_msg_sz, 1u << 31);
	assert_true(attr.active_width != 0 && attr.active_speed != 0);
	assert_int_equal(ibv_query_port(world.context, 0, &attr), EINVAL);
	assert_int_equal(ibv_query_port(world.context, 2, &attr), EINVAL);

	memset(&old, 0xa5, sizeof(old));
	assert_int_equal(exported_query_port(world.context, 1, (struct _compat_ibv_port_attr *)&old), 0);
	assert_int_equal(old.attr.link_layer, IBV_LINK_LAYER_ETHERNET);
	for (size_t i = 48; i < sizeof(old); i++)
		assert_int_equal(old.bytes[i], 0xa5);
}

static void gids_and_pkeys(void **state)
{
	struct ibv_gid_entry entry, table[64];
	struct ibv_port_attr port;
	union ibv_gid gid, hole = {{0}};
	unsigned int type = 77;
	uint32_t loopback = htonl(INADDR_LOOPBACK);
	__be16 pkey = 0;
	ssize_t count;

	(void)state;
	assert_int_equal(ibv_query_port(world.context, 1, &port), 0);
	count = ibv_query_gid_table(world.context, table, 64, 0);
	assert_true(count >= 1);
	assert_int_equal(table[0].gid_type, IBV_GID_TYPE_ROCE_V2);
	assert_int_equal(table[0].port_num, 1);
	assert_int_equal(table[0].ndev_ifindex, if_nametoindex("lo"));
	assert_memory_equal(table[0].gid.raw + 12, &loopback, 4);
	assert_int_equal(ibv_query_gid_table(world.context, table, 0, 0), -EINVAL);
	assert_int_equal(ibv_query_gid_ex(world.context, 1, table[0].gid_index, &entry, 0), 0);
	assert_memory_equal(&entry, &table[0], sizeof(entry));
	assert_int_equal(ibv_query_gid_ex(world.context, 1, (uint32_t)port.gid_tbl_len - 1, &entry, 0), ENODATA);
	assert_int_equal(ibv_query_gid_ex(world.context, 1, (uint32_t)port.gid_tbl_len, &entry, 0), EINVAL);
	assert_int_equal(ibv_query_gid_ex(world.context, 2, 0, &entry, 0), EINVAL);
	assert_int_equal(ibv_query_gid_ex(world.context, 1, 0, &entry, 1), EOPNOTSUPP);
	memset(&gid, 0xa5, sizeof(gid));
	assert_int_equal(ibv_query_gid(world.context, 1, port.gid_tbl_len - 1, &gid), 0);
	assert_memory_equal(&gid, &hole, sizeof(gid));
	assert_int_equal(ibv_query_gid(world.context, 1, port.gid_tbl_len, &gid), -1);
	assert_int_equal(ibv_query_gid(world.context, 1, -1, &gid), -1);
	assert_int_equal(ibv_query_gid_type(world.context, 1, 0, &type), 0);
	assert_int_equal(type, 1);
	assert_int_equal(ibv_query_gid_type(world.context, 1, 9999, &type), -1);

	assert_int_equal(ibv_query_pkey(world.context, 1, 0, &pkey), 0);
	assert_int_equal(pkey, 0xffff);
	assert_int_equal(ibv_query_pkey(world.context, 1, 1, &pkey), -1);
	assert_int_equal(ibv_get_pkey_index(world.context, 1, htons(0xffff)), 0);
	assert_int_equal(ibv_get_pkey_index(world.context, 1, htons(0x1234)), -1);
}

static void the_clock_runs(void **state)
{
	struct ibv_values_ex first = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK}, second = first;

	(void)state;
	assert_int_equal(ibv_query_rt_values_ex(world.context, &first), 0);
	assert_int_equal(ibv_query_rt_values_ex(world.context, &second), 0);
	assert_true(second.raw_clock.tv_nsec >= first.raw_clock.tv_nsec && first.raw_clock.tv_nsec > 0);
	first.comp_mask = 2;
	assert_int_equal(ibv_query_rt_values_ex(world.context, &first), EINVAL);
}

/* Typed from the public documentation of the API, not from our tables. */
static void words_are_those_people_know(void **state)
{
	static const char *const statuses[] = {
		"success", "local length error", "local QP operation error", "local EE context operation error",
		"local protection error", "Work Request Flushed Error", "memory management operation error",
		"bad response error", "local access error", "remote invalid request error", "remote access error",
		"remote operation error", "transport retry counter exceeded", "RNR retry counter exceeded",
		"local RDD violation error", "remote invalid RD request", "aborted error", "invalid EE context number",
		"invalid EE context state", "fatal error", "response timeout error", "general error", "TM error",
		"TM software rendezvous",
	};
	static const char *const events[] = {
		"CQ error", "local work queue catastrophic error", "invalid request local work queue error",
		"local access violation work queue error", "communication established", "send queue drained",
		"path migrated", "path migration request error", "local catastrophic error", "port active", "port error",
		"LID change", "P_Key change", "SM change", "SRQ catastrophic error", "SRQ limit reached",
		"last WQE reached", "client reregistration", "GID table change", "WQ fatal",
	};
	static const char *const states[] = {"no state change (NOP)", "down", "init", "armed", "active", "active defer"};
	static const char *const nodes[] = {"unknown", "InfiniBand channel adapter", "InfiniBand switch",
					    "InfiniBand router", "iWARP NIC", "usNIC", "usNIC UDP", "unspecified"};

	(void)state;
	for (int i = 0; i < 24; i++)
		assert_string_equal(ibv_wc_status_str((enum ibv_wc_status)i), statuses[i]);
	for (int i = 0; i < 20; i++)
		assert_string_equal(ibv_event_type_str((enum ibv_event_type)i), events[i]);
	for (int i = 0; i < 6; i++)
		assert_string_equal(ibv_port_state_str((enum ibv_port_state)i), states[i]);
	for (int i = 0; i < 8; i++)
		assert_string_equal(ibv_node_type_str((enum ibv_node_type)i), nodes[i]);
	assert_string_equal(ibv_wc_status_str((enum ibv_wc_status)24), "unknown");
	assert_string_equal(ibv_event_type_str((enum ibv_event_type)20), "unknown");
	assert_string_equal(ibv_port_state_str((enum ibv_port_state)6), "unknown");
	assert_string_equal(ibv_node_type_str((enum ibv_node_type)8), "unknown");
	assert_string_equal(ibv_node_type_str((enum ibv_node_type)-1), "unknown");
}

static void rates_convert_both_ways(void **state)
{
	/* index: enum ibv_rate */
	static const int multiples[] = {-1, -1, 1, 4, 12, 2, 8, 16, 24, 32, 48, -1, -1, -1, -1, -1, -1, -1, -1, 11, 20, 160, 240,
					320, 480, -1};
	static const int mbps[] = {-1, -1, 2500, 10000, 30000, 5000, 20000, 40000, 60000, 80000, 120000, 14062, 56250, 112500,
				   168750, 25781, 103125, 206250, 309375, 28125, 53125, 425000, 637500, 850000, 1275000, -1};

	(void)state;
	for (int rate = 0; rate < 26; rate++) {
		assert_int_equal(ibv_rate_to_mult((enum ibv_rate)rate), multiples[rate]);
		assert_int_equal(ibv_rate_to_mbps((enum ibv_rate)rate), mbps[rate]);
		if (multiples[rate] > 0)
			assert_int_equal(mult_to_ibv_rate(multiples[rate]), rate);
		if (mbps[rate] > 0)
			assert_int_equal(mbps_to_ibv_rate(mbps[rate]), rate);
	}
	assert_int_equal(mult_to_ibv_rate(0), IBV_RATE_MAX);
	assert_int_equal(mult_to_ibv_rate(3), IBV_RATE_MAX);
	assert_int_equal(mbps_to_ibv_rate(1), IBV_RATE_MAX);
}

static void fork_needs_nothing(void **state)
{
	(void)state;
	assert_int_equal(ibv_fork_init(), 0);
	assert_int_equal(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_listed_device_can_be_described_and_outlives_its_list),
		cmocka_unit_test(nothing_is_refused_politely),
		cmocka_unit_test(the_device_says_what_it_grants),
		cmocka_unit_test(the_port_answers_both_sizes),
		cmocka_unit_test(gids_and_pkeys),
		cmocka_unit_test(the_clock_runs),
		cmocka_unit_test(words_are_those_people_know),
		cmocka_unit_test(rates_convert_both_ways),
		cmocka_unit_test(fork_needs_nothing),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, open_world, close_world);
}
