/* SPDX-License-Identifier: MIT
 *
 * A socket of one flow beside the groups of a UDP port: the flow comes to it and nothing else does, those of the groups stay where they are
 * and have all of theirs, and what it has left goes to the group again. Each for both IP versions. Real sockets, in a network namespace of
 * our own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <string.h>

#include "daemon/port_group.h"
#include "io/descriptor.h"
#include "io/udp.h"
#include "lib/patience.h"
#include "namespace.h"

enum { ONE = 9, OTHER = 77, FLOW = 0xc123, STRANGER = 0xc124 };

static struct vb_port_group group;
static char why[248];
static struct {
	int sender, stranger;
	struct vb_path flow;
} on[VB_GROUP_FAMILIES];

static int open_all(void **state)
{
	static const uint8_t loopback[VB_GROUP_FAMILIES][16] = {{[10] = 0xff, 0xff, 127, 0, 0, 1}, {[15] = 1}};

	(void)state;
	vb_port_group_init(&group, VB_ROCE_PORT);
	assert_int_equal(vb_port_group_open(&group, why, sizeof(why)), 0);
	assert_int_equal(vb_port_group_add(&group, ONE, why, sizeof(why)), 0);
	assert_int_equal(vb_port_group_add(&group, OTHER, why, sizeof(why)), 0);
	for (unsigned f = 0; f < VB_GROUP_FAMILIES; f++) {
		memcpy(on[f].flow.source, loopback[f], 16);
		memcpy(on[f].flow.destination, loopback[f], 16);
		on[f].flow.source_port = FLOW;
		on[f].sender = vb_udp_open_sender(f == VB_GROUP_IPV6, FLOW);
		on[f].stranger = vb_udp_open_sender(f == VB_GROUP_IPV6, STRANGER);
		assert_true(group.family[f].available && on[f].sender >= 0 && on[f].stranger >= 0);
	}
	return 0;
}

static int close_all(void **state)
{
	(void)state;
	for (unsigned f = 0; f < VB_GROUP_FAMILIES; f++) {
		vb_descriptor_close(on[f].sender);
		vb_descriptor_close(on[f].stranger);
	}
	vb_port_group_close(&group);
	return 0;
}

static void send_to(unsigned f, int from, uint32_t slot)
{
	uint32_t qpn = slot << VB_DAEMON_INDEX_BITS | 40;
	uint8_t packet[16] = {[0] = 4, [5] = (uint8_t)(qpn >> 16), (uint8_t)(qpn >> 8), (uint8_t)qpn};

	assert_int_equal(vb_udp_send_loopback(from, f == VB_GROUP_IPV6, VB_ROCE_PORT, packet, sizeof(packet)), 0);
}

static bool has_something(int fd)
{
	char room[64];

	return vb_descriptor_receive(fd, room, sizeof(room)) >= 0;
}

static int socket_of(unsigned f, uint32_t slot)
{
	return group.family[f].fd[vb_group_number(slot, 0)];
}

/* Over loopback a packet is there when it is sent. */
static void goes_to(unsigned f, int from, uint32_t slot, int fd)
{
	send_to(f, from, slot);
	assert_true(has_something(fd));
	assert_false(has_something(fd));
}

static void the_groups_are_as_they_were(void)
{
	for (unsigned f = 0; f < VB_GROUP_FAMILIES; f++) {
		goes_to(f, on[f].stranger, ONE, socket_of(f, ONE));
		goes_to(f, on[f].stranger, OTHER, socket_of(f, OTHER));
	}
}

static void has_its_flow(unsigned f)
{
	int fd = vb_udp_open_dedicated(&on[f].flow, VB_ROCE_PORT), later;

	assert_true(fd >= 0);
	goes_to(f, on[f].sender, ONE, fd);
	the_groups_are_as_they_were();
	/* Whoever comes and goes. */
	assert_true(vb_port_group_remove(&group, ONE));
	assert_int_equal(vb_port_group_add(&group, ONE, why, sizeof(why)), 0);
	the_groups_are_as_they_were();
	goes_to(f, on[f].sender, ONE, fd);
	goes_to(!f, on[!f].sender, ONE, socket_of(!f, ONE));
	assert_false(has_something(socket_of(f, ONE)));
	/* Another may hold it: to be closed would not be enough. */
	later = vb_descriptor_duplicate(fd);
	assert_int_equal(vb_udp_leave_flow(fd), 0);
	vb_descriptor_close(fd);
	goes_to(f, on[f].sender, ONE, socket_of(f, ONE));
	the_groups_are_as_they_were();
	assert_false(has_something(later));
	vb_descriptor_close(later);
}

static void one_flow_comes_to_it(void **state)
{
	(void)state;
	for (unsigned f = 0; f < VB_GROUP_FAMILIES; f++)
		has_its_flow(f);
}

/* What came with a packet is what comes with one by the group's sockets. */
static void a_packet_tells_where_it_came_from(void **state)
{
	struct vb_udp_batch *batch = vb_udp_batch_create();

	(void)state;
	assert_non_null(batch);
	for (unsigned f = 0; f < VB_GROUP_FAMILIES; f++) {
		struct vb_path usual, path;
		int fd;

		send_to(f, on[f].sender, ONE);
		assert_int_equal(vb_udp_batch_receive(batch, socket_of(f, ONE), f == VB_GROUP_IPV6), 1);
		usual = vb_udp_batch_at(batch, 0)->from;
		fd = vb_udp_open_dedicated(&on[f].flow, VB_ROCE_PORT);
		assert_true(fd >= 0);
		send_to(f, on[f].sender, ONE);
		assert_int_equal(vb_udp_batch_receive(batch, fd, true), 1);
		path = vb_udp_batch_at(batch, 0)->from;
		assert_memory_equal(&path, &usual, sizeof(path));
		assert_memory_equal(path.source, on[f].flow.source, 16);
		assert_int_equal(path.source_port, FLOW);
		vb_descriptor_close(fd);
	}
	vb_udp_batch_destroy(batch);
}

static void what_cannot_be_had_is_refused(void **state)
{
	struct vb_path other = on[VB_GROUP_IPV4].flow;

	(void)state;
	/* We would not send to that peer from there. */
	other.destination[15] = 2;
	assert_int_equal(vb_udp_open_dedicated(&other, VB_ROCE_PORT), -EADDRNOTAVAIL);
	other = on[VB_GROUP_IPV6].flow;
	other.destination[15] = 2;
	assert_int_equal(vb_udp_open_dedicated(&other, VB_ROCE_PORT), -EADDRNOTAVAIL);
	the_groups_are_as_they_were();
	for (unsigned f = 0; f < VB_GROUP_FAMILIES; f++)
		goes_to(f, on[f].sender, ONE, socket_of(f, ONE));
}

static bool came_to_any_of(unsigned f)
{
	return has_something(socket_of(f, ONE)) || has_something(socket_of(f, OTHER)) || has_something(group.family[f].fd[0]);
}

/* Before it is connected, either: a member that leaves takes a packet along. Packets for a place behind the last go to any member. */
static void it_never_is_a_member(void **state)
{
	int fd = vb_udp_open_beside(VB_ROCE_PORT);

	(void)state;
	assert_true(fd >= 0);
	the_groups_are_as_they_were();
	for (unsigned f = 0; f < VB_GROUP_FAMILIES; f++) {
		for (unsigned behind = 0; behind < 8; behind++) {
			struct vb_daemon_probe probe = {
				.magic = be32_of(VB_DAEMON_PROBE_MAGIC),
				.index = be32_of(group.family[f].order.members + behind),
			};

			assert_int_equal(vb_udp_send_loopback(on[f].stranger, f == VB_GROUP_IPV6, VB_ROCE_PORT, &probe, sizeof(probe)), 0);
			assert_false(has_something(fd));
			assert_true(came_to_any_of(f));
		}
		goes_to(f, on[f].sender, ONE, socket_of(f, ONE));
	}
	assert_false(has_something(fd));
	vb_descriptor_close(fd);
}

/* ---- others' packets meanwhile ---- */

enum { UNDER_WAY = 64 };

static bool enough;                        /* atomic */
static uint32_t sent, taken;               /* atomic */

static void *send_all_the_time(void *family)
{
	unsigned f = *(unsigned *)family;

	while (!__atomic_load_n(&enough, __ATOMIC_RELAXED)) {
		if (sent - __atomic_load_n(&taken, __ATOMIC_ACQUIRE) < UNDER_WAY) {
			send_to(f, on[f].stranger, OTHER);
			__atomic_add_fetch(&sent, 1, __ATOMIC_RELEASE);
		} else {
			sched_yield();
		}
	}
	return NULL;
}

static bool take_some(unsigned f)
{
	bool came = false;

	for (; has_something(socket_of(f, OTHER)); came = true)
		__atomic_add_fetch(&taken, 1, __ATOMIC_RELEASE);
	return came;
}

static void takes_nothing(unsigned f)
{
	enum { TIMES = 1000 };
	pthread_t thread;

	sent = taken = 0;
	enough = false;
	assert_int_equal(pthread_create(&thread, NULL, send_all_the_time, &f), 0);
	for (unsigned i = 0; i < TIMES; i++) {
		int fd = vb_udp_open_dedicated(&on[f].flow, VB_ROCE_PORT);

		assert_true(fd >= 0);
		assert_true(eventually(take_some(f)));
		assert_false(has_something(fd));
		assert_int_equal(vb_udp_leave_flow(fd), 0);
		assert_false(has_something(fd));
		vb_descriptor_close(fd);
	}
	__atomic_store_n(&enough, true, __ATOMIC_RELAXED);
	assert_int_equal(pthread_join(thread, NULL), 0);
	take_some(f);
	assert_int_equal(taken, sent);
}

/* None is lost or taken while it is made, or leaves. */
static void others_have_all_of_theirs(void **state)
{
	(void)state;
	for (unsigned f = 0; f < VB_GROUP_FAMILIES; f++)
		takes_nothing(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_flow_comes_to_it),
		cmocka_unit_test(a_packet_tells_where_it_came_from),
		cmocka_unit_test(what_cannot_be_had_is_refused),
		cmocka_unit_test(it_never_is_a_member),
		cmocka_unit_test(others_have_all_of_theirs),
	};

	enter_namespace();
	return cmocka_run_group_tests(tests, open_all, close_all);
}
