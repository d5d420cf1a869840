/* SPDX-License-Identifier: MIT
 *
 * Lists by rtnetlink, from a real kernel in a namespace of our own: what they hold, and what is done when they change
 * while they are read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/neighbour_table.h"
#include "io/netlink.h"
#include "io/route.h"
#include "io/rtnetlink.h"
#include "namespace.h"

static const uint8_t loopback4[16] = {[10] = 0xff, 0xff, 127, 0, 0, 1};
static const uint8_t elsewhere[16] = {[10] = 0xff, 0xff, 192, 0, 2, 9};

static void interfaces_are_listed(void **state)
{
	struct vb_interface *list;
	unsigned count;
	int watch = vb_netlink_watch();

	(void)state;
	assert_true(watch >= 0);
	assert_false(vb_netlink_drain(watch));
	assert_int_equal(vb_netlink_interfaces(&list, &count), 0);
	assert_true(count >= 1);
	assert_string_equal(list[0].name, "lo");
	assert_true(list[0].is_loopback && list[0].is_up);
	assert_int_equal(list[0].addresses, 2);
	assert_memory_equal(list[0].address[0], loopback4, 16);
	free(list);
	close(watch);
}

static void questions_have_one_answer(void **state)
{
	struct vb_route route;
	uint8_t mac[6];

	(void)state;
	assert_int_equal(vb_route_lookup(loopback4, NULL, 0, &route), 0);
	assert_true(route.local);
	assert_int_equal(route.interface_index, if_nametoindex("lo"));
	assert_memory_equal(route.source, loopback4, 16);
	assert_int_equal(vb_route_lookup(elsewhere, NULL, 0, &route), -ENETUNREACH);
	assert_int_equal(vb_neighbour_lookup(elsewhere, if_nametoindex("lo"), mac), -EHOSTUNREACH);
	assert_int_equal(vb_neighbour_lookup(elsewhere, 9999, mac), -EHOSTUNREACH);
}

/* A list of addresses that changes while it is read. */
struct reading {
	unsigned begins, addresses;
	unsigned changes;                  /* while that many readings go on */
	unsigned next;                     /* address to add */
};

enum { MANY_ADDRESSES = 1500, FIRST_ADDED = 2000 };

/* 127.1.0.0 + number, as an alias of lo. */
static void add_loopback_address(unsigned number)
{
	struct ifreq request = {.ifr_name = ""};
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f010000 + number)};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	snprintf(request.ifr_name, sizeof(request.ifr_name), "lo:%u", number);
	memcpy(&request.ifr_addr, &address, sizeof(address));
	assert_int_equal(ioctl(fd, SIOCSIFADDR, &request), 0);
	close(fd);
}

static void begin_reading(void *context)
{
	struct reading *reading = context;

	reading->begins++;
	reading->addresses = 0;
}

static int read_address(void *context, const struct nlmsghdr *message)
{
	struct reading *reading = context;

	assert_int_equal(message->nlmsg_type, RTM_NEWADDR);
	/* The datagrams after the next one are not made yet. */
	if (reading->addresses++ == 0 && reading->begins <= reading->changes)
		add_loopback_address(reading->next++);
	return 0;
}

static void list_that_changes_is_read_again(void **state)
{
	struct reading still = {0}, once = {.changes = 1, .next = FIRST_ADDED};
	struct reading always = {.changes = 1000, .next = FIRST_ADDED + 1};

	(void)state;
	for (unsigned i = 0; i < MANY_ADDRESSES; i++)
		add_loopback_address(i);
	assert_int_equal(vb_rtnetlink_dump(RTM_GETADDR, begin_reading, read_address, &still), 0);
	assert_int_equal(still.begins, 1);
	assert_int_equal(still.addresses, 2 + MANY_ADDRESSES);
	assert_int_equal(vb_rtnetlink_dump(RTM_GETADDR, begin_reading, read_address, &once), 0);
	assert_int_equal(once.begins, 2);
	assert_int_equal(once.addresses, 2 + MANY_ADDRESSES + 1);
	assert_int_equal(vb_rtnetlink_dump(RTM_GETADDR, begin_reading, read_address, &always), -EAGAIN);
	assert_int_equal(always.begins, VB_RTNETLINK_DUMPS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(interfaces_are_listed),
		cmocka_unit_test(questions_have_one_answer),
		cmocka_unit_test(list_that_changes_is_read_again),
	};

	enter_namespace();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
