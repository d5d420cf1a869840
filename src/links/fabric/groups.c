/* SPDX-License-Identifier: MIT
 *
 * Multicast: which queue pairs of this process listen to which group. That frames of a group come to this host at all is the subnet
 * manager's doing (MCMemberRecord); verbenad hands all of them to every process.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "links/fabric/fabric_link.h"
#include "profiles/profile.h"
#include "queue/qp.h"

/* Caller holds progress. Its place, or how many there are. */
static unsigned find(const struct vb_fabric_link *fabric, const struct vb_qp *qp, const uint8_t gid[16])
{
	unsigned i = 0;

	while (i < fabric->groups && (fabric->group[i].qp != qp || memcmp(fabric->group[i].gid, gid, 16) != 0))
		i++;
	return i;
}

/* Each entry is one queue pair in one group: the first of a group stands for it. */
static unsigned count_groups(const struct vb_fabric_link *fabric)
{
	unsigned groups = 0;

	for (unsigned i = 0; i < fabric->groups; i++) {
		unsigned first = 0;

		while (memcmp(fabric->group[first].gid, fabric->group[i].gid, 16) != 0)
			first++;
		groups += first == i;
	}
	return groups;
}

/* More than the device grants? There are never more groups than entries, so these are counted first. */
static bool is_too_many(const struct vb_fabric_link *fabric, const struct vb_profile_limits *most, const uint8_t gid[16])
{
	unsigned members = 0;

	for (unsigned i = 0; i < fabric->groups; i++)
		members += memcmp(fabric->group[i].gid, gid, 16) == 0;
	return members >= most->multicast_qps ||
	       (members == 0 && fabric->groups >= most->multicast_groups && count_groups(fabric) >= most->multicast_groups);
}

static int add(struct vb_fabric_link *fabric, struct vb_qp *qp, const uint8_t gid[16])
{
	if (find(fabric, qp, gid) < fabric->groups)
		return 0;
	if (is_too_many(fabric, &qp->host->profile->limits, gid))
		return -ENOMEM;
	if (fabric->groups == fabric->room) {
		unsigned room = fabric->room ? 2 * fabric->room : 8;
		struct vb_fabric_link_group *larger = realloc(fabric->group, room * sizeof(*larger));

		if (!larger)
			return -ENOMEM;
		fabric->group = larger;
		fabric->room = room;
	}
	fabric->group[fabric->groups].qp = qp;
	memcpy(fabric->group[fabric->groups++].gid, gid, 16);
	return 0;
}

int vb_fabric_link_join_group(struct vb_link *link, struct vb_qp *qp, const uint8_t gid[16], uint32_t interface_index)
{
	int error;

	(void)interface_index;
	vb_lock_take(&link->schedule->progress);
	error = add(vb_fabric_link_of(link), qp, gid);
	vb_lock_release(&link->schedule->progress);
	return error;
}

int vb_fabric_link_leave_group(struct vb_link *link, struct vb_qp *qp, const uint8_t gid[16], uint32_t interface_index)
{
	struct vb_fabric_link *fabric = vb_fabric_link_of(link);
	unsigned place;
	int error = -EINVAL;

	(void)interface_index;
	vb_lock_take(&link->schedule->progress);
	place = find(fabric, qp, gid);
	if (place < fabric->groups) {
		fabric->group[place] = fabric->group[--fabric->groups];
		error = 0;
	}
	vb_lock_release(&link->schedule->progress);
	return error;
}

void vb_fabric_link_forget_qp(struct vb_fabric_link *fabric, const struct vb_qp *qp)
{
	for (unsigned i = fabric->groups; i-- > 0;)
		if (fabric->group[i].qp == qp)
			fabric->group[i] = fabric->group[--fabric->groups];
}
