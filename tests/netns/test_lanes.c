/* SPDX-License-Identifier: MIT
 *
 * Lanes in a UDP port's group of sockets: packets arrive at the lane that their queue pair number says, or at the slot's own socket where
 * there is no such lane, whoever comes and goes; a new daemon learns where the lanes of the one before stand; and what happens when the
 * kernel refuses the program. Real sockets, in a network namespace of our own; the linker sends setsockopt here (--wrap).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
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

enum { ONE = 9, MIDDLE = 77, LAST = 1001 };

static struct vb_port_group group, heir;
static unsigned programs_refused;        /* so many more */
static char why[248];

int __real_setsockopt(int fd, int level, int option, const void *value, socklen_t length);
int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t length);

int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t length)
{
	if (level == SOL_SOCKET && option == SO_ATTACH_REUSEPORT_CBPF && programs_refused > 0) {
		programs_refused--;
		errno = ENOMEM;
		return -1;
	}
	return __real_setsockopt(fd, level, option, value, length);
}

/* ---- where packets arrive ---- */

static bool has_something(int fd)
{
	char room[64];

	return vb_descriptor_receive(fd, room, sizeof(room)) >= 0;
}

static void arrives_at(const struct vb_port_group *in, uint32_t slot, uint32_t lane, uint32_t at)
{
	uint32_t qpn = slot << VB_DAEMON_INDEX_BITS | 40 | lane;
	uint8_t packet[16] = {[0] = 4, [5] = (uint8_t)(qpn >> 16), (uint8_t)(qpn >> 8), (uint8_t)qpn};

	for (unsigned f = 0; f < VB_GROUP_FAMILIES; f++) {
		const struct vb_port_family *family = &in->family[f];

		while (has_something(family->fd[vb_group_number(slot, at)])) /* probes */
			;
		assert_int_equal(vb_udp_send_loopback(family->fd[0], f == VB_GROUP_IPV6, VB_ROCE_PORT, packet, sizeof(packet)), 0);
		assert_true(eventually(has_something(family->fd[vb_group_number(slot, at)])));
	}
}

static void all_arrive(const struct vb_port_group *in, uint32_t slot)
{
	for (uint32_t lane = 0; lane < VB_DAEMON_LANES; lane++)
		arrives_at(in, slot, lane, vb_port_group_has_lane(in, slot, lane) ? lane : 0);
}

static void open_group(void)
{
	vb_port_group_init(&group, VB_ROCE_PORT);
	vb_port_group_init(&heir, VB_ROCE_PORT);
	assert_int_equal(vb_port_group_open(&group, why, sizeof(why)), 0);
}

static void add(uint32_t slot, unsigned lanes)
{
	assert_int_equal(vb_port_group_add(&group, slot, why, sizeof(why)), 0);
	for (uint32_t lane = 1; lane < VB_DAEMON_LANES; lane++)
		if (lanes & 1u << lane)
			assert_int_equal(vb_port_group_add_lane(&group, slot, lane, why, sizeof(why)), 0);
}

static void packets_arrive_at_their_lanes(void **state)
{
	(void)state;
	open_group();
	add(ONE, 0xfe);
	add(MIDDLE, 0x84);
	add(LAST, 0);
	all_arrive(&group, ONE);
	all_arrive(&group, MIDDLE);
	all_arrive(&group, LAST);
	/* All its sockets leave, and those that were last stand at their places. */
	assert_true(vb_port_group_remove(&group, MIDDLE));
	assert_int_equal(group.lane_count, 7);
	all_arrive(&group, ONE);
	all_arrive(&group, LAST);
	add(MIDDLE, 2);
	vb_port_group_remove_lane(&group, ONE, 3);
	vb_port_group_remove_lane(&group, ONE, 3);
	all_arrive(&group, ONE);
	all_arrive(&group, MIDDLE);
	arrives_at(&group, ONE, 3, 0);
	arrives_at(&group, 0, 5, 0);
	arrives_at(&group, LAST, 5, 0);
	assert_true(vb_port_group_remove(&group, ONE));
	assert_int_equal(group.lane_count, 1);
	all_arrive(&group, MIDDLE);
	all_arrive(&group, LAST);
	vb_port_group_close(&group);
}

static void whoever_comes_and_goes(void **state)
{
	enum { MOST = 12, STEPS = 120 };
	uint32_t slot[MOST] = {0};
	unsigned seed = 31;

	(void)state;
	print_message("seed %u\n", seed);
	srand(seed);
	open_group();
	for (unsigned step = 0; step < STEPS; step++) {
		uint32_t *one = &slot[(unsigned)rand() % MOST], lane = 1 + (uint32_t)rand() % 7;

		if (*one == 0) {
			do
				*one = 1 + (uint32_t)rand() % 1023;
			while (group.taken[*one]);
			add(*one, (unsigned)rand() & (unsigned)rand() & 0xfe);
		} else if (rand() % 4 == 0) {
			assert_true(vb_port_group_remove(&group, *one));
			*one = 0;
		} else if (vb_port_group_has_lane(&group, *one, lane)) {
			vb_port_group_remove_lane(&group, *one, lane);
		} else {
			assert_int_equal(vb_port_group_add_lane(&group, *one, lane, why, sizeof(why)), 0);
		}
		one = &slot[(unsigned)rand() % MOST];
		if (*one != 0)
			all_arrive(&group, *one);
	}
	vb_port_group_close(&group);
}

/* ---- after a daemon's death ---- */

static void sockets_of(int fd[VB_GROUP_FAMILIES], uint32_t slot, uint32_t lane)
{
	for (unsigned f = 0; f < VB_GROUP_FAMILIES; f++)
		fd[f] = group.family[f].fd[vb_group_number(slot, lane)];
}

static void take_probes_of(uint32_t slot, uint32_t lane)
{
	for (unsigned f = 0; f < VB_GROUP_FAMILIES; f++) {
		int fd = heir.family[f].fd[vb_group_number(slot, lane)];
		struct vb_daemon_probe probe;

		while (fd >= 0 && vb_descriptor_receive(fd, &probe, sizeof(probe)) == sizeof(probe))
			vb_port_group_probe_seen(&heir, slot, lane, be64_get(probe.nonce));
	}
}

static void take_probes(uint32_t slot)
{
	for (uint32_t lane = 0; lane < VB_DAEMON_LANES; lane++)
		take_probes_of(slot, lane);
}

static bool all_are_known(void)
{
	take_probes(ONE);
	take_probes(MIDDLE);
	take_probes(LAST);
	vb_port_group_drain_own(&heir);
	return vb_port_group_unknown(&heir) == 0;
}

static void adopt(uint32_t slot)
{
	int fd[VB_GROUP_FAMILIES];

	sockets_of(fd, slot, 0);
	assert_int_equal(vb_port_group_adopt(&heir, slot, fd), 0);
	for (uint32_t lane = 1; lane < VB_DAEMON_LANES; lane++) {
		if (!vb_port_group_has_lane(&group, slot, lane))
			continue;
		sockets_of(fd, slot, lane);
		assert_int_equal(vb_port_group_adopt_lane(&heir, slot, lane, fd), 0);
	}
}

static void an_heir_learns_where_they_stand(void **state)
{
	(void)state;
	open_group();
	add(ONE, 0x12);
	add(MIDDLE, 0xfe);
	add(LAST, 0x80);
	assert_int_equal(vb_port_group_open(&heir, why, sizeof(why)), 0);
	assert_int_equal(vb_port_group_unknown(&heir), VB_GROUP_FAMILIES * (4 + 10));
	adopt(ONE);
	adopt(MIDDLE);
	adopt(LAST);
	assert_int_equal(heir.lane_count, 10);
	assert_int_equal(vb_port_group_unplaced(&heir), VB_GROUP_FAMILIES * (3 + 10));
	/* The dead one's own sockets leave. */
	vb_port_group_close(&group);
	assert_true(eventually((vb_port_group_probe(&heir), all_are_known())));
	vb_port_group_settle(&heir);
	assert_int_equal(vb_port_group_unplaced(&heir), 0);
	all_arrive(&heir, ONE);
	all_arrive(&heir, MIDDLE);
	all_arrive(&heir, LAST);
	assert_true(vb_port_group_remove(&heir, MIDDLE));
	assert_int_equal(heir.lane_count, 3);
	all_arrive(&heir, ONE);
	all_arrive(&heir, LAST);
	vb_port_group_close(&heir);
}

static void expect_refused(uint32_t slot, uint32_t lane, int four, int six, int error)
{
	assert_int_equal(vb_port_group_adopt_lane(&heir, slot, lane, (int[]){four, six}), error);
}

/* The mark says which lane of which slot a socket is, and no process can change it. */
static void nothing_else_is_adopted(void **state)
{
	int own[VB_GROUP_FAMILIES], first[VB_GROUP_FAMILIES], second[VB_GROUP_FAMILIES], other[VB_GROUP_FAMILIES];
	int unmarked = vb_udp_open_receiver(false, VB_ROCE_PORT + 1), null = open("/dev/null", O_RDONLY | O_CLOEXEC), left;

	(void)state;
	open_group();
	add(ONE, 6);
	add(LAST, 2);
	sockets_of(own, ONE, 0);
	sockets_of(first, ONE, 1);
	sockets_of(second, ONE, 2);
	sockets_of(other, LAST, 1);
	assert_int_equal(vb_port_group_open(&heir, why, sizeof(why)), 0);
	/* A lane is no slot. */
	assert_int_equal(vb_port_group_adopt(&heir, ONE, first), -EINVAL);
	assert_int_equal(vb_port_group_adopt(&heir, ONE, own), 0);
	expect_refused(ONE, 1, own[0], own[1], -EINVAL);
	expect_refused(ONE, 1, second[0], second[1], -EINVAL);
	expect_refused(ONE, 1, first[0], second[1], -EINVAL);
	expect_refused(ONE, 1, first[1], first[0], -EINVAL);
	expect_refused(ONE, 1, other[0], other[1], -EINVAL);
	expect_refused(ONE, 1, unmarked, -1, -EINVAL);
	expect_refused(ONE, 1, null, null, -EINVAL);
	expect_refused(ONE, 1, group.family[0].fd[0], group.family[1].fd[0], -EINVAL);
	assert_int_equal(heir.lane_count, 0);
	expect_refused(ONE, 1, first[0], -1, 0);
	expect_refused(ONE, 1, first[0], first[1], -EBUSY);
	/* One that has left is not in the group. */
	left = vb_descriptor_duplicate(second[0]);
	vb_port_group_remove_lane(&group, ONE, 2);
	expect_refused(ONE, 2, left, -1, -EINVAL);
	assert_true(vb_udp_has_left_group(left));
	assert_int_equal(heir.lane_count, 1);
	/* Not told where it stands: it is only let go, and may come again. */
	assert_false(vb_port_group_remove(&heir, ONE));
	assert_int_equal(heir.lane_count, 0);
	assert_int_equal(vb_port_group_adopt(&heir, ONE, own), 0);
	expect_refused(ONE, 1, first[0], first[1], 0);
	vb_descriptor_close(left);
	vb_descriptor_close(null);
	vb_descriptor_close(unmarked);
	vb_port_group_close(&heir);
	vb_port_group_close(&group);
}

/* A slot whose own socket has not answered: its packets are at a lane that has. */
static void a_lane_stands_in_for_its_slot(void **state)
{
	(void)state;
	open_group();
	add(ONE, 8);
	assert_int_equal(vb_port_group_open(&heir, why, sizeof(why)), 0);
	adopt(ONE);
	vb_port_group_probe(&heir);
	assert_true(eventually((take_probes_of(ONE, 3), vb_port_group_unplaced(&heir) == VB_GROUP_FAMILIES)));
	vb_port_group_settle(&heir);
	arrives_at(&heir, ONE, 0, 3);
	arrives_at(&heir, ONE, 3, 3);
	vb_port_group_close(&heir);
	vb_port_group_close(&group);
}

/* Sockets left unseen while others joined: each stands lower than is written. By one round of questions all are found. */
static void all_that_moved_say_so(void **state)
{
	(void)state;
	open_group();
	add(MIDDLE, 2);
	add(ONE, 0);
	assert_int_equal(vb_port_group_open(&heir, why, sizeof(why)), 0);
	adopt(ONE);
	vb_port_group_close(&group);
	vb_port_group_settle(&heir);
	assert_int_equal(vb_port_group_add(&heir, LAST, why, sizeof(why)), 0);
	for (uint32_t lane = 1; lane < VB_DAEMON_LANES; lane++)
		assert_int_equal(vb_port_group_add_lane(&heir, LAST, lane, why, sizeof(why)), 0);
	vb_port_group_probe(&heir);
	assert_true(eventually(all_are_known()));
	all_arrive(&heir, ONE);
	all_arrive(&heir, LAST);
	vb_port_group_close(&heir);
}

/* ---- when there is no room ---- */

static void a_lane_that_does_not_fit_is_refused(void **state)
{
	(void)state;
	open_group();
	add(ONE, 2);
	add(LAST, 0);
	programs_refused = 1;
	assert_int_equal(vb_port_group_add_lane(&group, ONE, 5, why, sizeof(why)), -ENOMEM);
	assert_false(group.stale);
	assert_false(vb_port_group_has_lane(&group, ONE, 5));
	assert_int_equal(group.family[0].order.members, 4);
	all_arrive(&group, ONE);
	all_arrive(&group, LAST);
	/* Of a moment. */
	assert_int_equal(vb_port_group_add_lane(&group, ONE, 5, why, sizeof(why)), 0);
	all_arrive(&group, ONE);
	vb_port_group_close(&group);
}

/* Then packets go to the slots' own sockets. */
static void a_slot_is_worth_more_than_lanes(void **state)
{
	(void)state;
	open_group();
	add(ONE, 0x22);
	programs_refused = 1;
	add(LAST, 0);
	assert_int_equal(programs_refused, 0);
	assert_false(group.stale);
	for (uint32_t lane = 0; lane < VB_DAEMON_LANES; lane++)
		arrives_at(&group, ONE, lane, 0);
	all_arrive(&group, LAST);
	/* Until there is room, that is at the next change. */
	assert_true(vb_port_group_remove(&group, LAST));
	all_arrive(&group, ONE);
	vb_port_group_close(&group);
}

static void there_are_so_many(void **state)
{
	struct rlimit most;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &most), 0);
	most.rlim_cur = most.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &most), 0);
	open_group();
	for (uint32_t slot = 1; group.lane_count < VB_GROUP_LANES; slot++) {
		assert_int_equal(vb_port_group_add(&group, slot, why, sizeof(why)), 0);
		for (uint32_t lane = 1; lane < VB_DAEMON_LANES && group.lane_count < VB_GROUP_LANES; lane++)
			assert_int_equal(vb_port_group_add_lane(&group, slot, lane, why, sizeof(why)), 0);
	}
	add(LAST, 0);
	assert_int_equal(vb_port_group_add_lane(&group, LAST, 1, why, sizeof(why)), -EUSERS);
	all_arrive(&group, 1);
	all_arrive(&group, 20);
	all_arrive(&group, LAST);
	assert_true(vb_port_group_remove(&group, 20));
	assert_int_equal(vb_port_group_add_lane(&group, LAST, 1, why, sizeof(why)), 0);
	all_arrive(&group, LAST);
	vb_port_group_close(&group);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packets_arrive_at_their_lanes),
		cmocka_unit_test(whoever_comes_and_goes),
		cmocka_unit_test(an_heir_learns_where_they_stand),
		cmocka_unit_test(nothing_else_is_adopted),
		cmocka_unit_test(a_lane_stands_in_for_its_slot),
		cmocka_unit_test(all_that_moved_say_so),
		cmocka_unit_test(a_lane_that_does_not_fit_is_refused),
		cmocka_unit_test(a_slot_is_worth_more_than_lanes),
		cmocka_unit_test(there_are_so_many),
	};

	enter_namespace();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
