/* SPDX-License-Identifier: MIT
 *
 * A UDP port's group of sockets when the kernel refuses a call for a moment: the steering program is attached again, a probe that was
 * not sent is sent again, and a process that cannot be adopted now can be adopted later; and when processes die while their places are
 * being learnt. Real sockets, in a network namespace of our
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
static bool reaches(const struct vb_port_group *to, uint32_t number, unsigned family)
{
	uint8_t packet[16] = {[0] = 4, [5] = (uint8_t)(number >> 2), (uint8_t)(number << 6)};

	while (has_something(to->family[family].fd[number]))
		;
	assert_int_equal(vb_udp_send_loopback(to->family[family].fd[0], family == VB_GROUP_IPV6, VB_ROCE_PORT, packet,
					      sizeof(packet)), 0);
	return eventually(has_something(to->family[family].fd[number]));
}

static bool is_steered(uint32_t to, unsigned family)
{
	return reaches(&group, to, family);
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

/* What the process that has the slot, or the heir itself, reads. */
static void take_probes(uint32_t of)
{
	struct vb_daemon_probe probe;

	if (of == 0)
		vb_port_group_drain_own(&heir);
	for (unsigned family = 0; of != 0 && family < VB_GROUP_FAMILIES; family++)
		while (vb_descriptor_receive(heir.family[family].fd[of], &probe, sizeof(probe)) == sizeof(probe))
			vb_port_group_probe_seen(&heir, of, 0, be64_get(probe.nonce));
}

static bool all_are_known(void)
{
	vb_port_group_probe(&heir);
	take_probes(ONE);
	take_probes(LAST);
	take_probes(0);
	return vb_port_group_unknown(&heir) == 0;
}

static void expect_the_heir_knows_all(void)
{
	assert_true(eventually(all_are_known()));
	vb_port_group_settle(&heir);
	for (unsigned family = 0; family < VB_GROUP_FAMILIES; family++) {
		assert_true(reaches(&heir, ONE, family));
		assert_true(reaches(&heir, LAST, family));
		assert_true(reaches(&heir, 0, family));
	}
}

/* The last socket moves into the hole when the process has ended, which is later than the daemon hears of it. */
static void who_dies_before_it_has_answered(void **state)
{
	int kept[VB_GROUP_FAMILIES];
	char why[248];

	(void)state;
	open_group();
	assert_int_equal(vb_port_group_open(&heir, why, sizeof(why)), 0);
	for (unsigned i = 0; i < SLOTS; i++)
		assert_int_equal(vb_port_group_adopt(&heir, slot[i], (int[]){group.family[0].fd[slot[i]], group.family[1].fd[slot[i]]}), 0);
	for (unsigned family = 0; family < VB_GROUP_FAMILIES; family++)
		kept[family] = vb_descriptor_duplicate(group.family[family].fd[LEAVES]);
	/* All that the dead daemon had; the processes have theirs. */
	vb_port_group_close(&group);
	vb_port_group_probe(&heir);
	take_probes(ONE);
	take_probes(LAST);
	assert_false(vb_port_group_remove(&heir, LEAVES));
	vb_port_group_probe(&heir);
	take_probes(ONE);
	take_probes(LAST);
	for (unsigned family = 0; family < VB_GROUP_FAMILIES; family++)
		vb_descriptor_close(kept[family]);
	expect_the_heir_knows_all();
	vb_port_group_close(&heir);
}

/* The heir's own socket was the last. */
static void who_dies_before_it_is_adopted(void **state)
{
	char why[248];

	(void)state;
	open_group();
	assert_int_equal(vb_port_group_open(&heir, why, sizeof(why)), 0);
	assert_int_equal(vb_port_group_adopt(&heir, ONE, (int[]){group.family[0].fd[ONE], group.family[1].fd[ONE]}), 0);
	assert_int_equal(vb_port_group_adopt(&heir, LAST, (int[]){group.family[0].fd[LAST], group.family[1].fd[LAST]}), 0);
	vb_port_group_close(&group);
	expect_the_heir_knows_all();
	vb_port_group_close(&heir);
}

/* A process that was adopted first holds the heir's own socket; one that comes later brings that of the daemon before, which then is
 * used. */
static void an_own_socket_that_is_replaced_leaves(void **state)
{
	int kept[VB_GROUP_FAMILIES];
	char why[248];

	(void)state;
	open_group();
	assert_int_equal(vb_port_group_open(&heir, why, sizeof(why)), 0);
	for (unsigned i = 0; i < SLOTS; i++)
		assert_int_equal(vb_port_group_adopt(&heir, slot[i], (int[]){group.family[0].fd[slot[i]], group.family[1].fd[slot[i]]}), 0);
	for (unsigned family = 0; family < VB_GROUP_FAMILIES; family++)
		kept[family] = vb_descriptor_duplicate(heir.family[family].fd[0]);
	vb_port_group_adopt_own(&heir, (int[]){group.family[0].fd[0], group.family[1].fd[0]});
	vb_port_group_close(&group);
	assert_true(eventually((take_probes(LEAVES), all_are_known())));
	vb_port_group_settle(&heir);
	/* The next stands behind the last of those that are written down. */
	assert_int_equal(vb_port_group_add(&heir, LAST + 1, why, sizeof(why)), 0);
	for (unsigned family = 0; family < VB_GROUP_FAMILIES; family++) {
		assert_true(reaches(&heir, LAST, family));
		assert_true(reaches(&heir, LAST + 1, family));
		assert_true(reaches(&heir, 0, family));
		vb_descriptor_close(kept[family]);
	}
	vb_port_group_close(&heir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(others_are_steered_when_one_leaves),
		cmocka_unit_test(probes_are_sent_again),
		cmocka_unit_test(who_was_forgotten_can_be_adopted),
		cmocka_unit_test(who_hung_up_can_be_adopted),
		cmocka_unit_test(who_dies_before_it_has_answered),
		cmocka_unit_test(who_dies_before_it_is_adopted),
		cmocka_unit_test(an_own_socket_that_is_replaced_leaves),
	};

	enter_namespace();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
