/* SPDX-License-Identifier: MIT
 *
 * See lanes.h.
 */
#include "daemon/lanes.h"

#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "daemon/client.h"
#include "daemon/slots.h"
#include "daemon/users.h"
#include "io/udp.h"

/* The connection by which the asking process has that slot; NULL: it has not. A process in another PID namespace has no pid here. */
static struct vb_client *find_owner(const struct vb_slots *slots, struct vb_client *asker, uint32_t slot)
{
	VB_LIST_FOR_EACH(node, slots->clients) {
		struct vb_client *other = vb_container_of(node, struct vb_client, node);

		if (other->slot == slot &&
		    (other == asker || (asker->peer.pid != 0 && other->peer.pid == asker->peer.pid && other->peer.uid == asker->peer.uid)))
			return other;
	}
	return NULL;
}

/* The owner of the lane's slot, which has sockets. NULL: the asker was refused. */
static struct vb_client *owner_with_port(const struct vb_slots *slots, struct vb_client *asker, const struct vb_daemon_message *m)
{
	struct vb_client *owner = find_owner(slots, asker, m->lane.slot);

	if (owner && owner->group)
		return owner;
	if (owner)
		vb_client_refuse(asker, m->header.sequence, EOPNOTSUPP, "the slot has no UDP port, so it has no lanes");
	else
		vb_client_refuse(asker, m->header.sequence, ESTALE, "this process does not have that slot");
	return NULL;
}

static void give_back(struct vb_client *owner, uint32_t lane)
{
	vb_port_group_remove_lane(&owner->group->port, owner->slot, lane);
	vb_user_give_back(owner->user, VB_USER_LANES);
	owner->lanes--;
	vb_slots_ask_places(owner->group);
}

static void send_lane(struct vb_client *client, const struct vb_daemon_message *asked, const struct vb_port_group *port)
{
	struct vb_daemon_message answer;
	int fds[VB_GROUP_FAMILIES];
	unsigned count = 0;

	vb_daemon_message_begin(&answer, VB_DAEMON_LANE, asked->header.sequence);
	answer.lane.slot = asked->lane.slot;
	answer.lane.lane = asked->lane.lane;
	for (unsigned f = 0; port && f < VB_GROUP_FAMILIES; f++) {
		int fd = port->family[f].fd[vb_group_number(asked->lane.slot, asked->lane.lane)];

		if (fd < 0)
			continue;
		fds[count++] = fd;
		answer.lane.descriptors |= 1u << f;
	}
	vb_client_send_descriptors(client, &answer, fds, count);
}

static int add_lane(struct vb_client *owner, uint32_t lane, char *why, size_t room)
{
	int error;

	if (!owner->group->port.settled) {
		snprintf(why, room, "UDP port %u is being taken over from a verbenad that died", owner->group->port.port);
		return -EAGAIN;
	}
	if (vb_port_group_has_lane(&owner->group->port, owner->slot, lane)) {
		snprintf(why, room, "slot %u has lane %u already", owner->slot, lane);
		return -EALREADY;
	}
	if (!vb_user_take(owner->user, VB_USER_LANES)) {
		snprintf(why, room, "uid %u has %u lanes: half of what other users leave, and no more", (unsigned)owner->peer.uid,
			 owner->user->has[VB_USER_LANES]);
		return -EUSERS;
	}
	error = vb_port_group_add_lane(&owner->group->port, owner->slot, lane, why, room);
	if (error != 0) {
		vb_user_give_back(owner->user, VB_USER_LANES);
		return error;
	}
	owner->lanes++;
	vb_slots_ask_places(owner->group);
	return 0;
}

void vb_lanes_open(struct vb_slots *slots, struct vb_client *client, const struct vb_daemon_message *m)
{
	struct vb_client *owner = owner_with_port(slots, client, m);
	char why[248] = "";
	int error;

	if (!owner)
		return;
	error = add_lane(owner, m->lane.lane, why, sizeof(why));
	if (error != 0) {
		vb_client_refuse(client, m->header.sequence, error, why);
		return;
	}
	send_lane(client, m, &owner->group->port);
	/* It did not get them: what is steered there would be read by no thread. */
	if (client->failed)
		give_back(owner, m->lane.lane);
	else
		vb_log(VB_LOG_INFO, "lane %u of slot %u to %s, pid %d", m->lane.lane, m->lane.slot, owner->program, (int)owner->peer.pid);
}

void vb_lanes_close(struct vb_slots *slots, struct vb_client *client, const struct vb_daemon_message *m)
{
	struct vb_client *owner = owner_with_port(slots, client, m);

	if (!owner)
		return;
	if (!vb_port_group_has_lane(&owner->group->port, m->lane.slot, m->lane.lane)) {
		vb_client_refuse(client, m->header.sequence, ENOENT, "the slot does not have that lane");
		return;
	}
	give_back(owner, m->lane.lane);
	send_lane(client, m, NULL);
}

static int adopt_lane(struct vb_client *client, const struct vb_daemon_message *m, const int fd[VB_GROUP_FAMILIES])
{
	int error;

	if (client->slot != m->lane.slot)
		return -ESTALE;
	if (!client->group)
		return -EOPNOTSUPP;
	if (!vb_user_take(client->user, VB_USER_LANES))
		return -EUSERS;
	error = vb_port_group_adopt_lane(&client->group->port, m->lane.slot, m->lane.lane, fd);
	if (error != 0)
		vb_user_give_back(client->user, VB_USER_LANES);
	/* A daemon that thought the process dead took the lane back. */
	if (error == -EINVAL && vb_udp_has_left_group(fd[fd[VB_GROUP_IPV4] >= 0 ? VB_GROUP_IPV4 : VB_GROUP_IPV6]))
		error = -ESTALE;
	return error;
}

static const char *why_not_adopted(int error)
{
	switch (error) {
	case -EBUSY:
		return "the slot has that lane already";
	case -ESTALE:
		return "the lane is not this process's any more";
	case -EOPNOTSUPP:
		return "the slot has no UDP port, so it has no lanes";
	case -EUSERS:
		return "there are no more lanes for this user";
	case -EINVAL:
		return "these are not the lane's sockets";
	default:
		return "verbenad cannot take the lane over now";
	}
}

void vb_lanes_adopt(struct vb_client *client, const struct vb_daemon_message *m, const int *fds)
{
	int fd[VB_GROUP_FAMILIES], error;

	for (unsigned f = 0, next = 0; f < VB_GROUP_FAMILIES; f++)
		fd[f] = m->lane.descriptors & 1u << f ? fds[next++] : -1;
	error = adopt_lane(client, m, fd);
	if (error == -EMFILE)
		vb_slots_await_longer(client->group);
	if (error != 0) {
		vb_client_refuse(client, m->header.sequence, error, why_not_adopted(error));
		return;
	}
	client->lanes++;
	send_lane(client, m, NULL);
	vb_slots_ask_places(client->group);
}
