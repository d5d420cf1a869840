/* SPDX-License-Identifier: MIT
 *
 * See users.h. There are as many users as have a process here: a list does.
 */
#include "daemon/users.h"

#include <stdlib.h>
#include <unistd.h>

#include "daemon/group_order.h"
#include "wire/daemon_message.h"

enum {
	MOST_IDS = 524288,                 /* of all users: a kilobyte each, so half a gigabyte */
	MOST_UNSENT = 32 * 1024 * 1024,    /* of one user */
	MOST_CONNECTIONS = 32768,
	OTHER_DESCRIPTORS = 64,            /* the daemon's own, and some to spare */
	LANE_DESCRIPTORS = 16,             /* a lane has two: at most an eighth of all are lanes' */
	FLOW_DESCRIPTORS = 8,              /* and an eighth flows' (dedicated.h) */
};

void vb_users_init(struct vb_users *users, unsigned descriptors)
{
	unsigned connections = descriptors > 4 * OTHER_DESCRIPTORS ? descriptors / 2 - OTHER_DESCRIPTORS : OTHER_DESCRIPTORS;

	*users = (struct vb_users){
		/* A process with a slot has some more descriptors here than its connections. */
		.most[VB_USER_CONNECTIONS] = connections < MOST_CONNECTIONS ? connections : MOST_CONNECTIONS,
		.most[VB_USER_SLOTS] = VB_DAEMON_SLOTS - 1,
		/* Of all ports together: no user of a port that several share takes all of that port's. */
		.most[VB_USER_LANES] = descriptors / LANE_DESCRIPTORS < VB_GROUP_LANES ? descriptors / LANE_DESCRIPTORS : VB_GROUP_LANES,
		.most[VB_USER_DEDICATED] = descriptors / FLOW_DESCRIPTORS,
	};
	vb_list_init(&users->list);
}

void vb_users_fini(struct vb_users *users)
{
	VB_LIST_FOR_EACH(node, &users->list) {
		vb_list_remove(node);
		free(vb_container_of(node, struct vb_user, node));
	}
}

struct vb_user *vb_users_find(struct vb_users *users, uid_t uid)
{
	struct vb_user *user;

	VB_LIST_FOR_EACH(node, &users->list) {
		user = vb_container_of(node, struct vb_user, node);
		if (user->uid == uid)
			return user;
	}
	user = calloc(1, sizeof(*user));
	if (!user)
		return NULL;
	user->users = users;
	user->uid = uid;
	vb_list_append(&users->list, &user->node);
	return user;
}

void vb_users_reap(struct vb_users *users)
{
	VB_LIST_FOR_EACH(node, &users->list) {
		struct vb_user *user = vb_container_of(node, struct vb_user, node);

		if (user->has[VB_USER_CONNECTIONS] == 0 && user->has[VB_USER_SLOTS] == 0 && user->ids.count == 0) {
			vb_list_remove(node);
			free(user);
		}
	}
}

static bool is_limited(const struct vb_user *user)
{
	return user->uid != 0 && user->uid != geteuid();
}

/* Half of what the others leave of `most`, rounded up. */
static unsigned share(const struct vb_user *user, unsigned most, unsigned total, unsigned mine)
{
	unsigned left = most > total - mine ? most - (total - mine) : 0;

	return is_limited(user) ? left / 2 + left % 2 : left;
}

bool vb_user_take(struct vb_user *user, enum vb_user_thing thing)
{
	struct vb_users *users = user->users;

	if (user->has[thing] >= share(user, users->most[thing], users->total[thing], user->has[thing]))
		return false;
	user->has[thing]++;
	users->total[thing]++;
	return true;
}

void vb_user_give_back(struct vb_user *user, enum vb_user_thing thing)
{
	user->has[thing]--;
	user->users->total[thing]--;
}

bool vb_user_may_wait_for(const struct vb_user *user, size_t bytes)
{
	return !is_limited(user) || user->unsent + bytes <= MOST_UNSENT;
}

void vb_user_limit_ids(struct vb_user *user)
{
	unsigned total = 0;

	VB_LIST_FOR_EACH(node, &user->users->list)
		total += vb_container_of(node, struct vb_user, node)->ids.count;
	user->ids.most = share(user, MOST_IDS, total, user->ids.count);
}
