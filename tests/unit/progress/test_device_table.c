/* SPDX-License-Identifier: MIT
 *
 * From interfaces to devices: order and stability of GIDs, MTU, state, what is reported.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/device_table.h"

static struct vb_device_table table;
static unsigned changed, gone;
static struct vb_daemon_device last;

static void report(void *context, const struct vb_daemon_device *device, bool vanished)
{
	assert_ptr_equal(context, &table);
	last = *device;
	if (vanished)
		gone++;
	else
		changed++;
}

static void update(const struct vb_interface *interfaces, unsigned count)
{
	changed = gone = 0;
	vb_device_table_update(&table, interfaces, count, report, &table);
}

static int reset(void **state)
{
	(void)state;
	memset(&table, 0, sizeof(table));
	table.host_seed = 1;
	return 0;
}

static struct vb_interface ethernet(uint32_t index, const char *name)
{
	struct vb_interface interface = {.index = index, .is_ethernet = true, .is_up = true, .is_running = true,
					 .mtu = 1500, .mac = {0x02, 0x11, 0x22, 0x33, 0x44, (uint8_t)index}};

	snprintf(interface.name, sizeof(interface.name), "%s", name);
	return interface;
}

static void add(struct vb_interface *interface, const uint8_t gid[16])
{
	memcpy(interface->address[interface->addresses++], gid, 16);
}

static void drop(struct vb_interface *interface, uint32_t at)
{
	memmove(interface->address[at], interface->address[at + 1], 16 * (interface->addresses - at - 1));
	interface->addresses--;
}

static const uint8_t link_local[16] = {0xfe, 0x80, [15] = 1};
static const uint8_t ipv4[16] = {[10] = 0xff, 0xff, 10, 0, 0, 1};
static const uint8_t other_ipv4[16] = {[10] = 0xff, 0xff, 10, 0, 0, 2};
static const uint8_t global[16] = {0xfd, 0x77, [15] = 1};
static const uint8_t hole[16];

static void gids_come_in_the_order_of_rxe(void **state)
{
	struct vb_interface eth = ethernet(2, "eth0");

	(void)state;
	add(&eth, global);
	add(&eth, ipv4);
	add(&eth, link_local);
	update(&eth, 1);
	assert_int_equal(changed, 1);
	assert_string_equal(table.device[0].name, "roce_eth0");
	assert_int_equal(table.device[0].gid_count, 3);
	assert_memory_equal(table.device[0].gid[0], link_local, 16);
	assert_memory_equal(table.device[0].gid[1], ipv4, 16);
	assert_memory_equal(table.device[0].gid[2], global, 16);
	assert_int_equal(table.device[0].active, 1);
	/* 02 with the universal/local bit turned, ff:fe in the middle. */
	assert_int_equal(table.device[0].guid, 0x001122fffe334402);
}

/* A daemon that starts before the link-local address is there gives every other address the same index as one that starts after. */
static void the_link_local_address_has_its_place_before_it_comes(void **state)
{
	struct vb_interface eth = ethernet(2, "eth0");
	struct vb_daemon_device early;

	(void)state;
	eth.takes_link_local = true;
	update(&eth, 1);
	assert_int_equal(table.device[0].gid_count, 0);
	add(&eth, ipv4);
	add(&eth, global);
	update(&eth, 1);
	assert_int_equal(table.device[0].gid_count, 3);
	assert_memory_equal(table.device[0].gid[0], hole, 16);
	assert_memory_equal(table.device[0].gid[1], ipv4, 16);
	/* Nor does another take it when it is gone for a while. */
	add(&eth, link_local);
	update(&eth, 1);
	early = table.device[0];
	drop(&eth, 2);
	add(&eth, other_ipv4);
	update(&eth, 1);
	assert_memory_equal(table.device[0].gid[0], hole, 16);
	assert_memory_equal(table.device[0].gid[3], other_ipv4, 16);
	/* The one that starts after. */
	reset(NULL);
	eth.addresses = 2;
	add(&eth, link_local);
	update(&eth, 1);
	assert_int_equal(table.device[0].gid_count, early.gid_count);
	assert_memory_equal(table.device[0].gid, early.gid, sizeof(early.gid));
	/* Where IPv6 is disabled there is nothing to wait for. */
	reset(NULL);
	eth = ethernet(2, "eth0");
	add(&eth, ipv4);
	update(&eth, 1);
	assert_memory_equal(table.device[0].gid[0], ipv4, 16);
}

/* Programs that take the first device want one that leads to other hosts. */
static void loopback_comes_last(void **state)
{
	struct vb_interface list[3] = {{.index = 1, .name = "lo", .is_loopback = true, .is_up = true, .is_running = true, .mtu = 65536},
				       ethernet(2, "eth0"), ethernet(3, "eth1")};

	(void)state;
	update(list, 2);
	assert_string_equal(table.device[0].name, "roce_eth0");
	assert_string_equal(table.device[1].name, "roce_lo");
	update(list, 3);
	assert_string_equal(table.device[0].name, "roce_eth0");
	assert_string_equal(table.device[1].name, "roce_eth1");
	assert_string_equal(table.device[2].name, "roce_lo");
	assert_int_equal(changed, 1);
	assert_string_equal(last.name, "roce_eth1");
	update(list, 1);
	assert_int_equal(table.count, 1);
	assert_string_equal(table.device[0].name, "roce_lo");
	assert_int_equal(gone, 2);
}

static void loopback_begins_with_ipv4(void **state)
{
	const uint8_t one[16] = {[15] = 1}, four[16] = {[10] = 0xff, 0xff, 127, 0, 0, 1};
	struct vb_interface lo = {.index = 1, .name = "lo", .is_loopback = true, .is_up = true, .is_running = true,
				  .mtu = 65536};

	(void)state;
	add(&lo, one);
	add(&lo, four);
	update(&lo, 1);
	assert_string_equal(table.device[0].name, "roce_lo");
	assert_memory_equal(table.device[0].gid[0], four, 16);
	assert_memory_equal(table.device[0].gid[1], one, 16);
	assert_int_equal(table.device[0].active_mtu, 5);
	assert_true(table.device[0].guid != 0);
}

static void indices_are_stable(void **state)
{
	struct vb_interface eth = ethernet(2, "eth0");

	(void)state;
	add(&eth, link_local);
	add(&eth, ipv4);
	add(&eth, global);
	update(&eth, 1);
	drop(&eth, 1);
	update(&eth, 1);
	assert_int_equal(changed, 1);
	assert_int_equal(table.device[0].gid_count, 3);
	assert_memory_equal(table.device[0].gid[0], link_local, 16);
	assert_memory_equal(table.device[0].gid[1], hole, 16);
	assert_memory_equal(table.device[0].gid[2], global, 16);
	/* The first hole is taken, and the others stay. */
	add(&eth, other_ipv4);
	add(&eth, ipv4);
	update(&eth, 1);
	assert_int_equal(table.device[0].gid_count, 4);
	assert_memory_equal(table.device[0].gid[1], other_ipv4, 16);
	assert_memory_equal(table.device[0].gid[2], global, 16);
	assert_memory_equal(table.device[0].gid[3], ipv4, 16);
	/* The end of the table shrinks. */
	drop(&eth, 3);
	update(&eth, 1);
	assert_int_equal(table.device[0].gid_count, 3);
}

static void random_changes_keep_indices(void **state)
{
	unsigned seed = 7;

	(void)state;
	print_message("seed %u\n", seed);
	srand(seed);
	for (unsigned round = 0; round < 2000; round++) {
		struct vb_interface eth = ethernet(2, "eth0");
		struct vb_daemon_device before = table.device[0];

		for (uint8_t a = 1; a <= 40; a++) {
			uint8_t gid[16] = {0xfd, [15] = a};

			if (rand() % 2)
				add(&eth, gid);
		}
		update(&eth, 1);
		for (uint32_t i = 0; i < eth.addresses; i++) {
			unsigned found = 0;

			for (uint32_t g = 0; g < table.device[0].gid_count; g++) {
				if (memcmp(table.device[0].gid[g], eth.address[i], 16) != 0)
					continue;
				found++;
				for (uint32_t b = 0; b < before.gid_count; b++)
					if (memcmp(before.gid[b], eth.address[i], 16) == 0)
						assert_int_equal(b, g);
			}
			assert_int_equal(found, 1);
		}
	}
}

static void too_many_addresses_are_left_out(void **state)
{
	struct vb_interface eth = ethernet(2, "eth0");

	(void)state;
	for (uint32_t i = 0; i < VB_INTERFACE_ADDRESSES; i++) {
		uint8_t gid[16] = {0xfd, [15] = (uint8_t)(i + 1)};

		add(&eth, gid);
	}
	update(&eth, 1);
	assert_int_equal(table.device[0].gid_count, VB_DAEMON_GIDS);
}

static void mtu_leaves_room_for_all_headers(void **state)
{
	static const struct { uint32_t mtu, code, active; } rows[] = {
		{200, 1, 0}, {339, 1, 0}, {340, 1, 1}, {595, 1, 1}, {596, 2, 1}, {1107, 2, 1}, {1108, 3, 1},
		{1280, 3, 1}, {1500, 3, 1}, {2131, 3, 1}, {2132, 4, 1}, {4179, 4, 1}, {4180, 5, 1}, {9000, 5, 1}, {65536, 5, 1},
	};

	(void)state;
	/* 40 + 8 + 12 + 16 + 4 + 4 = 84 bytes around the payload. */
	assert_int_equal(rows[2].mtu, 256 + 84);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct vb_interface eth = ethernet(2, "eth0");

		add(&eth, ipv4);
		eth.mtu = rows[i].mtu;
		/* Row 1500 of a real network: 1024. */
		update(&eth, 1);
		assert_int_equal(table.device[0].interface_mtu, rows[i].mtu);
		assert_int_equal(table.device[0].active, rows[i].active);
		assert_int_equal(table.device[0].active_mtu, rows[i].code);
	}
}

static void state_follows_the_interface(void **state)
{
	struct vb_interface eth = ethernet(2, "eth0");

	(void)state;
	update(&eth, 1);
	assert_int_equal(table.device[0].active, 0); /* no address */
	add(&eth, ipv4);
	update(&eth, 1);
	assert_int_equal(table.device[0].active, 1);
	eth.is_running = false;
	update(&eth, 1);
	assert_int_equal(changed, 1);
	assert_int_equal(table.device[0].active, 0);
	update(&eth, 1);
	assert_int_equal(changed, 0);
	update(NULL, 0);
	assert_int_equal(gone, 1);
	assert_int_equal(last.interface_index, 2);
	assert_int_equal(table.count, 0);
}

static void only_usable_interfaces_count(void **state)
{
	struct vb_interface list[3] = {ethernet(2, "eth0"), ethernet(3, "sit0"), ethernet(4, "a/b")};

	(void)state;
	list[1].is_ethernet = false;
	update(list, 3);
	assert_int_equal(table.count, 1);
	/* A tunnel with an address is usable. */
	add(&list[1], ipv4);
	update(list, 3);
	assert_int_equal(table.count, 2);
	drop(&list[1], 0);
	update(list, 3);
	assert_int_equal(gone, 1);
	assert_int_equal(table.count, 1);
}

/* One interface, two devices that nobody takes for one another. */
static void an_interface_is_a_device_of_each_kind(void **state)
{
	struct vb_interface list[2] = {ethernet(2, "eth0"), ethernet(3, "lo")};
	struct vb_daemon_device shown, again;

	(void)state;
	add(&list[0], ipv4);
	memset(list[1].mac, 0, sizeof(list[1].mac)); /* as of loopback */
	update(list, 2);
	for (unsigned i = 0; i < 2; i++) {
		vb_device_table_show_as(&shown, &table.device[i], VB_DEVICE_IWARP);
		assert_string_equal(shown.name, i == 0 ? "iwarp_eth0" : "iwarp_lo");
		assert_int_equal(shown.kind, VB_DEVICE_IWARP);
		assert_int_equal(shown.interface_index, table.device[i].interface_index);
		assert_int_not_equal(shown.guid, table.device[i].guid);
		assert_int_equal(shown.active_mtu, 3); /* 1024: of 1500 rounded down */
		assert_int_equal(shown.active, table.device[i].active);
		vb_device_table_show_as(&again, &table.device[i], VB_DEVICE_ROCE);
		assert_memory_equal(&again, &table.device[i], sizeof(again));
	}
	vb_device_table_show_as(&shown, &table.device[0], VB_DEVICE_IWARP);
	assert_int_equal(shown.guid, 0x001122fffd334402);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(gids_come_in_the_order_of_rxe, reset),
		cmocka_unit_test_setup(the_link_local_address_has_its_place_before_it_comes, reset),
		cmocka_unit_test_setup(loopback_comes_last, reset),
		cmocka_unit_test_setup(loopback_begins_with_ipv4, reset),
		cmocka_unit_test_setup(indices_are_stable, reset),
		cmocka_unit_test_setup(random_changes_keep_indices, reset),
		cmocka_unit_test_setup(too_many_addresses_are_left_out, reset),
		cmocka_unit_test_setup(mtu_leaves_room_for_all_headers, reset),
		cmocka_unit_test_setup(state_follows_the_interface, reset),
		cmocka_unit_test_setup(only_usable_interfaces_count, reset),
		cmocka_unit_test_setup(an_interface_is_a_device_of_each_kind, reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
