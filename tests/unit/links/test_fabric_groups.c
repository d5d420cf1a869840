/* SPDX-License-Identifier: MIT
 *
 * Multicast groups of InfiniBand's link: as many, and as many queue pairs in each, as the device's profile grants.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "links/fabric/fabric_link.h"
#include "profiles/profile.h"
#include "queue/qp.h"

enum { GROUPS = 3, MEMBERS = 2, QPS = 4 };

static struct vb_fabric_link fabric;
static struct vb_schedule schedule;
static struct vb_qp qp[QPS];

static int join(unsigned group, unsigned member)
{
	uint8_t gid[16] = {0xff, 0x12, [15] = (uint8_t)group};

	return vb_fabric_link_join_group(&fabric.link, &qp[member], gid, 0);
}

static int leave(unsigned group, unsigned member)
{
	uint8_t gid[16] = {0xff, 0x12, [15] = (uint8_t)group};

	return vb_fabric_link_leave_group(&fabric.link, &qp[member], gid, 0);
}

static void as_many_as_are_granted(void **state)
{
	static const struct vb_profile profile = {.limits = {.multicast_groups = GROUPS, .multicast_qps = MEMBERS}};
	static const struct vb_queue_host host = {.profile = &profile};

	(void)state;
	vb_lock_init(&schedule.progress, VB_RANK_PROGRESS);
	fabric.link.schedule = fabric.schedule = &schedule;
	for (unsigned i = 0; i < QPS; i++)
		qp[i].host = &host;
	assert_int_equal(join(1, 0), 0);
	assert_int_equal(join(1, 1), 0);
	assert_int_equal(join(1, 1), 0); /* it is in it already */
	assert_int_equal(join(1, 2), -ENOMEM);
	assert_int_equal(join(2, 2), 0);
	assert_int_equal(join(3, 0), 0);
	assert_int_equal(join(4, 0), -ENOMEM);
	assert_int_equal(join(3, 3), 0); /* no new group */
	/* What goes makes room: a member of a group, and a group with its last. */
	assert_int_equal(leave(1, 0), 0);
	assert_int_equal(join(1, 2), 0);
	assert_int_equal(leave(2, 2), 0);
	assert_int_equal(join(4, 0), 0);
	assert_int_equal(leave(2, 2), -EINVAL);
	free(fabric.group);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_many_as_are_granted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
