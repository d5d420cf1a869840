/* SPDX-License-Identifier: MIT
 *
 * What devices have counted, as verbenad tells it: processes that run and those that ended, each user's own (daemon/device_counters.h).
 * As programs see it: tests/clients/test_view_counters.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "daemon/client.h"
#include "daemon/device_counters.h"
#include "wire/device_kind.h"

enum { ALICE = 12345, BOB = 12346, ETH0 = 2, ETH1 = 3 };

struct world {
	struct vb_device_counters counters;
	struct vb_list clients;
	struct vb_client process[2], asker;
	struct vb_daemon_page page[2];
};

static void note(struct world *world, uint32_t interface_index, bool active, bool gone)
{
	vb_device_counters_note(&world->counters, &(struct vb_daemon_device){.interface_index = interface_index, .active = active}, gone);
}

/* A process of alice and one of bob, both with eth0's RoCE device. */
static void begin(struct world *world)
{
	memset(world, 0, sizeof(*world));
	vb_device_counters_init(&world->counters);
	vb_list_init(&world->clients);
	note(world, ETH0, true, false);
	note(world, ETH1, true, false);
	for (unsigned i = 0; i < 2; i++) {
		world->process[i].peer.uid = i == 0 ? ALICE : BOB;
		world->process[i].page = &world->page[i];
		world->page[i].device[0].interface_index = ETH0;
		vb_list_append(&world->clients, &world->process[i].node);
	}
}

/* The process ends, as verbenad sees it; it may have come again since. */
static void end(struct world *world, unsigned which)
{
	vb_device_counters_keep(&world->counters, world->process[which].peer.uid, world->process[which].page);
	world->process[which].page = NULL;
}

static struct vb_daemon_counters sum(struct world *world, uid_t asker, uint32_t interface_index, uint32_t kind)
{
	struct vb_daemon_counters told;

	world->asker.peer.uid = asker;
	vb_device_counters_sum(&world->counters, &world->clients, &world->asker, interface_index, kind, &told);
	return told;
}

static uint64_t sent(struct world *world, uid_t asker)
{
	return sum(world, asker, ETH0, VB_DEVICE_ROCE).counters.sent_pkts;
}

static void each_user_his_own_and_root_all(void **state)
{
	struct world world;

	(void)state;
	begin(&world);
	world.page[0].device[0].counters.sent_pkts = 100;
	world.page[1].device[0].counters.sent_pkts = 7;
	assert_int_equal(sent(&world, ALICE), 100);
	assert_int_equal(sent(&world, BOB), 7);
	assert_int_equal(sent(&world, 0), 107);
	end(&world, 0);
	assert_int_equal(sent(&world, ALICE), 100);
	assert_int_equal(sent(&world, BOB), 7);
	assert_int_equal(sent(&world, 0), 107);
	vb_device_counters_fini(&world.counters);
}

static void those_that_ended_stay(void **state)
{
	struct world world;

	(void)state;
	begin(&world);
	for (unsigned round = 1; round <= 3; round++) {
		world.page[0].device[0].counters.sent_pkts = 10;
		assert_int_equal(sent(&world, ALICE), 10 * round);
		end(&world, 0);
		assert_int_equal(sent(&world, ALICE), 10 * round);
		/* The next process begins at zero. */
		world.page[0].device[0].counters.sent_pkts = 0;
		world.process[0].page = &world.page[0];
		assert_int_equal(sent(&world, ALICE), 10 * round);
	}
	vb_device_counters_fini(&world.counters);
}

static void each_device_its_own(void **state)
{
	struct world world;

	(void)state;
	begin(&world);
	world.page[0].device[1].interface_index = vb_device_index(ETH0, VB_DEVICE_IWARP);
	world.page[0].device[2].interface_index = ETH1;
	for (unsigned i = 0; i < 3; i++)
		world.page[0].device[i].counters.sent_pkts = i + 1;
	for (unsigned ended = 0; ended < 2; ended++) {
		assert_int_equal(sent(&world, ALICE), 1);
		assert_int_equal(sum(&world, ALICE, ETH0, VB_DEVICE_IWARP).counters.sent_pkts, 2);
		assert_int_equal(sum(&world, ALICE, ETH1, VB_DEVICE_ROCE).counters.sent_pkts, 3);
		if (!ended)
			end(&world, 0);
	}
	vb_device_counters_fini(&world.counters);
}

static void units_of_a_port(void **state)
{
	struct vb_daemon_counters told;
	struct world world;

	(void)state;
	begin(&world);
	world.page[0].device[0].counters =
		(struct vb_counters){.sent_pkts = 3, .rcvd_pkts = 5, .sent_bytes = 4000, .rcvd_bytes = 407, .send_err = 2};
	told = sum(&world, ALICE, ETH0, VB_DEVICE_ROCE);
	assert_int_equal(told.port.port_xmit_packets, 3);
	assert_int_equal(told.port.port_rcv_packets, 5);
	assert_int_equal(told.port.port_xmit_data, 1000);
	assert_int_equal(told.port.port_rcv_data, 101);
	assert_int_equal(told.port.port_xmit_discards, 2);
	vb_device_counters_fini(&world.counters);
}

/* Each process has seen it, and it was one. */
static void a_link_goes_down_once(void **state)
{
	struct world world;

	(void)state;
	begin(&world);
	for (unsigned i = 0; i < 2; i++)
		world.page[i].device[0].counters.link_downed = 1;
	note(&world, ETH0, false, false);
	note(&world, ETH0, false, false);
	assert_int_equal(sum(&world, 0, ETH0, VB_DEVICE_ROCE).counters.link_downed, 1);
	assert_int_equal(sum(&world, BOB, ETH0, VB_DEVICE_IWARP).port.link_downed, 1);
	note(&world, ETH0, true, false);
	note(&world, ETH0, false, false);
	assert_int_equal(sum(&world, 0, ETH0, VB_DEVICE_ROCE).port.link_downed, 2);
	assert_int_equal(sum(&world, 0, ETH1, VB_DEVICE_ROCE).port.link_downed, 0);
	vb_device_counters_fini(&world.counters);
}

/* The number is another interface's next time. */
static void an_interface_that_is_gone_is_forgotten(void **state)
{
	struct world world;

	(void)state;
	begin(&world);
	world.page[0].device[1].interface_index = vb_device_index(ETH0, VB_DEVICE_IWARP);
	world.page[0].device[0].counters.sent_pkts = world.page[0].device[1].counters.sent_pkts = 10;
	end(&world, 0);
	note(&world, ETH0, false, false);
	note(&world, ETH0, false, true);
	assert_int_equal(world.counters.rows, 0);
	note(&world, ETH0, true, false);
	assert_int_equal(sent(&world, ALICE), 0);
	assert_int_equal(sum(&world, ALICE, ETH0, VB_DEVICE_ROCE).port.link_downed, 0);
	vb_device_counters_fini(&world.counters);
}

/* A page is its process's own account: whatever is in it, others' figures stay what they are, and memory is bounded. */
static void a_page_full_of_nonsense(void **state)
{
	struct world world;

	(void)state;
	begin(&world);
	world.page[0].device[0].counters.sent_pkts = 100;
	end(&world, 0);
	for (uint32_t round = 0; round < 5000; round++) {
		world.process[1].page = &world.page[1];
		world.process[1].peer.uid = BOB + round % 5000;
		for (unsigned i = 0; i < VB_DAEMON_PAGE_DEVICES; i++) {
			world.page[1].device[i].interface_index = i == 0 ? ETH0 : 1000 + round * VB_DAEMON_PAGE_DEVICES + i;
			world.page[1].device[i].counters.sent_pkts = UINT64_MAX / 2;
		}
		end(&world, 1);
	}
	assert_true(world.counters.rows <= 4096);
	assert_int_equal(sent(&world, ALICE), 100);
	vb_device_counters_fini(&world.counters);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_user_his_own_and_root_all),
		cmocka_unit_test(those_that_ended_stay),
		cmocka_unit_test(each_device_its_own),
		cmocka_unit_test(units_of_a_port),
		cmocka_unit_test(a_link_goes_down_once),
		cmocka_unit_test(an_interface_that_is_gone_is_forgotten),
		cmocka_unit_test(a_page_full_of_nonsense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
