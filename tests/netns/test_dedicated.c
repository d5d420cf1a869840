/* SPDX-License-Identifier: MIT
 *
 * A socket of one flow beside the group of a UDP port: the flow comes to it and nothing else does, those of the group stay where they are,
 * and what it has left goes to the group again. Real sockets, in a network namespace of our own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <pthread.h>
#include <string.h>

#include "daemon/port_group.h"
#include "io/descriptor.h"
#include "io/udp.h"
#include "lib/patience.h"
#include "namespace.h"

enum { ONE = 9, OTHER = 77 };

static struct vb_port_group group;
static char why[248];
static int sender, stranger;
static struct vb_path flow;

static int open_all(void **state)
{
	static const uint8_t loopback[16] = {[10] = 0xff, 0xff, 127, 0, 0, 1};

	(void)state;
	vb_port_group_init(&group, VB_ROCE_PORT);
	assert_int_equal(vb_port_group_open(&group, why, sizeof(why)), 0);
	assert_int_equal(vb_port_group_add(&group, ONE, why, sizeof(why)), 0);
	assert_int_equal(vb_port_group_add(&group, OTHER, why, sizeof(why)), 0);
	memcpy(flow.source, loopback, sizeof(flow.source));
	memcpy(flow.destination, loopback, sizeof(flow.destination));
	flow.source_port = 0xc123;
	sender = vb_udp_open_sender(false, flow.source_port);
	stranger = vb_udp_open_sender(false, 0xc124);
	return sender < 0 || stranger < 0;
}

static int close_all(void **state)
{
	(void)state;
	vb_descriptor_close(sender);
	vb_descriptor_close(stranger);
	vb_port_group_close(&group);
	return 0;
}

static void send_to(int from, uint32_t slot)
{
	uint32_t qpn = slot << VB_DAEMON_INDEX_BITS | 40;
	uint8_t packet[16] = {[0] = 4, [5] = (uint8_t)(qpn >> 16), (uint8_t)(qpn >> 8), (uint8_t)qpn};

	assert_int_equal(vb_udp_send_loopback(from, false, VB_ROCE_PORT, packet, sizeof(packet)), 0);
}

static bool has_something(int fd)
{
	char room[64];

	return vb_descriptor_receive(fd, room, sizeof(room)) >= 0;
}

static int socket_of(uint32_t slot)
{
	return group.family[VB_GROUP_IPV4].fd[vb_group_number(slot, 0)];
}

/* Over loopback a packet is there when it is sent. */
static void goes_to(int from, uint32_t slot, int fd)
{
	send_to(from, slot);
	assert_true(has_something(fd));
	assert_false(has_something(fd));
}

static void the_group_is_as_it_was(void)
{
	goes_to(stranger, ONE, socket_of(ONE));
	goes_to(stranger, OTHER, socket_of(OTHER));
}

static void one_flow_comes_to_it(void **state)
{
	int fd = vb_udp_open_dedicated(&flow, VB_ROCE_PORT), later;

	(void)state;
	assert_true(fd >= 0);
	goes_to(sender, ONE, fd);
	the_group_is_as_it_was();
	/* Whoever comes and goes. */
	assert_true(vb_port_group_remove(&group, ONE));
	assert_int_equal(vb_port_group_add(&group, ONE, why, sizeof(why)), 0);
	the_group_is_as_it_was();
	goes_to(sender, ONE, fd);
	assert_false(has_something(socket_of(ONE)));
	/* Another may hold it: to be closed would not be enough. */
	later = vb_descriptor_duplicate(fd);
	assert_int_equal(vb_udp_leave_group(fd, false), 0);
	vb_descriptor_close(fd);
	goes_to(sender, ONE, socket_of(ONE));
	the_group_is_as_it_was();
	assert_false(has_something(later));
	vb_descriptor_close(later);
}

static void what_cannot_be_had_is_refused(void **state)
{
	struct vb_path other = flow;

	(void)state;
	/* We would not send to that peer from there. */
	other.destination[15] = 2;
	assert_int_equal(vb_udp_open_dedicated(&other, VB_ROCE_PORT), -EADDRNOTAVAIL);
	memset(other.source, 0, sizeof(other.source));
	memset(other.destination, 0, sizeof(other.destination));
	other.source[15] = other.destination[15] = 1;
	assert_int_equal(vb_udp_open_dedicated(&other, VB_ROCE_PORT), -EAFNOSUPPORT);
	the_group_is_as_it_was();
	goes_to(sender, ONE, socket_of(ONE));
}

static bool enough;                        /* atomic */

static void *send_all_the_time(void *unused)
{
	while (!__atomic_load_n(&enough, __ATOMIC_RELAXED)) {
		send_to(stranger, OTHER);
		sched_yield();
	}
	return unused;
}

static bool take_some(void)
{
	bool came = false;

	while (has_something(socket_of(OTHER)))
		came = true;
	return came;
}

/* Nor while it is made, or leaves. */
static void it_takes_nothing_of_others(void **state)
{
	enum { TIMES = 300 };
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, send_all_the_time, NULL), 0);
	for (unsigned i = 0; i < TIMES; i++) {
		int fd = vb_udp_open_dedicated(&flow, VB_ROCE_PORT);

		assert_true(fd >= 0);
		assert_true(eventually(take_some()));
		assert_false(has_something(fd));
		assert_int_equal(vb_udp_leave_group(fd, false), 0);
		assert_false(has_something(fd));
		vb_descriptor_close(fd);
	}
	__atomic_store_n(&enough, true, __ATOMIC_RELAXED);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_flow_comes_to_it),
		cmocka_unit_test(what_cannot_be_had_is_refused),
		cmocka_unit_test(it_takes_nothing_of_others),
	};

	enter_namespace();
	return cmocka_run_group_tests(tests, open_all, close_all);
}
