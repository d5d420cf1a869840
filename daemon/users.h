/* SPDX-License-Identifier: MIT
 *
 * What each user has of the daemon, and how much he may have: connections, slots, lanes, sockets of flows, communication ids, and bytes
 * that his processes have not read yet.
 *
 * Of connections, slots, lanes, sockets and ids a user may have half of what the others leave: one who takes all he can leaves half to
 * everybody else, the next a quarter, and every user finds something. The daemon's own user and root are not limited
 * but by what there is.
 */
#ifndef VB_DAEMON_USERS_H
#define VB_DAEMON_USERS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/list.h"
#include "connect/connect.h"

enum vb_user_thing { VB_USER_CONNECTIONS, VB_USER_SLOTS, VB_USER_LANES, VB_USER_DEDICATED, VB_USER_THINGS };

struct vb_users {
	struct vb_list list;
	unsigned total[VB_USER_THINGS], most[VB_USER_THINGS];
};

struct vb_user {
	struct vb_list node;
	struct vb_users *users;
	uid_t uid;
	unsigned has[VB_USER_THINGS];
	size_t unsent;                     /* bytes */
	struct vb_connect_quota ids;
};

/* `descriptors`: as many as the daemon may have open. */
void vb_users_init(struct vb_users *users, unsigned descriptors);
void vb_users_fini(struct vb_users *users);

/* The user, made if need be; stays while he has anything. NULL: no memory. */
struct vb_user *vb_users_find(struct vb_users *users, uid_t uid);
/* Forget who has nothing any more. */
void vb_users_reap(struct vb_users *users);

/* One more, if he may. False: that is too much. */
bool vb_user_take(struct vb_user *user, enum vb_user_thing thing);
void vb_user_give_back(struct vb_user *user, enum vb_user_thing thing);
/* May so many more bytes wait for him? */
bool vb_user_may_wait_for(const struct vb_user *user, size_t bytes);
/* How many ids he may have, as of now. */
void vb_user_limit_ids(struct vb_user *user);

#endif
