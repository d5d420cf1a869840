/* SPDX-License-Identifier: MIT
 *
 * A UDP port's group of sockets when the kernel refuses a call for a moment: the steering program is attached again, a probe that was
 * not sent is sent again, and a process that cannot be adopted now can be adopted later. Real sockets, in a network namespace of our
 * own; the linker sends setsockopt and sendto here (--wrap).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/port_group.h"
#include "io/descriptor.h"
#include "io/udp.h"
#include "lib/patience.h"
#include "namespace.h"

#ifndef SO_ATTACH_REUSEPORT_CBPF
#define SO_ATTACH_REUSEPORT_CBPF 51
#endif

enum { ONE = 9, LEAVES = 77, LAST = 1001, SLOTS = 3 };

static const uint32_t slot[SLOTS] = {ONE, LEAVES, LAST};
static unsigned programs_refused, sends_refused;    /* so many more */
static struct vb_port_group group, heir;

int __real_setsockopt(int fd, int level, int option, const void *value, socklen_t length);
int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t length);
ssize_t __real_sendto(int fd, const void *bytes, size_t length, int flags, const struct sockaddr *to, socklen_t to_length);
ssize_t __wrap_sendto(int fd, const void *bytes, size_t length, int flags, const struct sockaddr *to, socklen_t to_length);

int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t length)
{
	if (level == SOL_SOCKET && option == SO_ATTACH_REUSEPORT_CBPF && programs_refused > 0) {
		programs_refused--;
		errno = ENOMEM;
		return -1;
	}
	return __real_setsockopt(fd, level, option, value, length);
}

ssize_t __wrap_sendto(int fd, const void *bytes, size_t length, int flags, const struct sockaddr *to, socklen_t to_length)
{
	if (sends_refused > 0) {
		sends_refused--;
		errno = ENOBUFS;
		return -1;
	}
	return __real_sendto(fd, bytes, length, flags, to, to_length);
}

static bool has_something(int fd)
{
	char room[64];

	return vb_descriptor_receive(fd, room, sizeof(room)) >= 0;
}

/* A packet for a queue pair of that slot arrives at its socket. */
static bool is_steered(uint32_t to, unsigned family)
{
	uint8_t packet[16] = {[0] = 4, [5] = (uint8_t)(to >> 2), (uint8_t)(to << 6)};

	assert_int_equal(vb_udp_send_loopback(group.family[family].fd[0], family == VB_GROUP_IPV6, VB_ROCE_PORT, packet,
					      sizeof(packet)), 0);
	return eventually(has_something(group.family[family].fd[to]));
}

static void open_group(void)
{
	char why[248];

	vb_port_group_init(&group, VB_ROCE_PORT);
	vb_port_group_init(&heir, VB_ROCE_PORT);
	assert_int_equal(vb_port_group_open(&group, why, sizeof(why)), 0);
	for (unsigned i = 0; i < SLOTS; i++)
		assert_int_equal(vb_port_group_add(&group, slot[i], why, sizeof(why)), 0);
}

/* The last socket moves into the hole: with the program of before, its packets would be another's. */
static void others_are_steered_when_one_leaves(void **state)
{
	(void)state;
	open_group();
	programs_refused = 3;
	vb_port_group_remove(&group, LEAVES);
	assert_true(group.stale);
	assert_int_equal(vb_port_group_reattach(&group), -ENOMEM);
	while (group.stale)
		(void)vb_port_group_reattach(&group);
	assert_int_equal(programs_refused, 0);
	for (unsigned family = 0; family < VB_GROUP_FAMILIES; family++) {
		assert_true(is_steered(ONE, family));
		assert_true(is_steered(LAST, family));
	}
	vb_port_group_close(&group);
}

/* Otherwise the heir would believe that it is alone, and take the place of a process that lives. */
static void probes_are_sent_again(void **state)
{
	char why[248];

	(void)state;
	open_group();
	for (unsigned refused = 1; refused <= 3; refused++) {
		sends_refused = refused;
		assert_int_equal(vb_port_group_open(&heir, why, sizeof(why)), 0);
		assert_int_equal(sends_refused, 0);
		assert_false(heir.settled);
		assert_int_equal(vb_port_group_unknown(&heir), VB_GROUP_FAMILIES * (SLOTS + 1));
		vb_port_group_close(&heir);
	}
	vb_port_group_close(&group);
}

/* Its sockets have not left the group meanwhile. */
static void who_was_forgotten_can_be_adopted(void **state)
{
	int fd[VB_GROUP_FAMILIES];
	char why[248];

	(void)state;
	open_group();
	for (unsigned family = 0; family < VB_GROUP_FAMILIES; family++)
		fd[family] = group.family[family].fd[LAST];
	assert_int_equal(vb_port_group_open(&heir, why, sizeof(why)), 0);
	assert_int_equal(vb_port_group_adopt(&heir, LAST, fd), 0);
	vb_port_group_forget(&heir, LAST);
	assert_int_equal(vb_port_group_adopt(&heir, LAST, fd), 0);
	assert_true(is_steered(LAST, VB_GROUP_IPV4));
	vb_port_group_close(&heir);
	vb_port_group_close(&group);
}

/* Nor have those of one that was adopted, and whose daemon stood still before it heard where it stands. */
static void who_hung_up_can_be_adopted(void **state)
{
	int fd[VB_GROUP_FAMILIES];
	char why[248];

	(void)state;
	open_group();
	for (unsigned family = 0; family < VB_GROUP_FAMILIES; family++)
		fd[family] = group.family[family].fd[LEAVES];
	assert_int_equal(vb_port_group_open(&heir, why, sizeof(why)), 0);
	assert_int_equal(vb_port_group_adopt(&heir, LEAVES, fd), 0);
	assert_false(vb_port_group_remove(&heir, LEAVES));
	assert_int_equal(vb_port_group_unknown(&heir), VB_GROUP_FAMILIES * (SLOTS + 1));
	assert_int_equal(vb_port_group_adopt(&heir, LEAVES, fd), 0);
	for (unsigned family = 0; family < VB_GROUP_FAMILIES; family++) {
		while (has_something(fd[family])) /* the heir's probes */
			;
		assert_true(is_steered(LEAVES, family));
	}
	vb_port_group_close(&heir);
	vb_port_group_close(&group);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(others_are_steered_when_one_leaves),
		cmocka_unit_test(probes_are_sent_again),
		cmocka_unit_test(who_was_forgotten_can_be_adopted),
		cmocka_unit_test(who_hung_up_can_be_adopted),
	};

	enter_namespace();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
