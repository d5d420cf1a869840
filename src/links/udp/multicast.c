/* SPDX-License-Identifier: MIT
 *
 * Multicast groups: which queue pairs of this process listen to which group on which interface. The process's receive
 * socket joins a group with the first of them and leaves with the last. A process whose slot is on a port of its user (verbenad's slots.h)
 * gets no multicast datagrams there: verbenad gives it a socket for each group.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "io/clock.h"
#include "io/daemon_silence.h"
#include "io/descriptor.h"
#include "io/event.h"
#include "io/udp.h"
#include "links/udp/frames.h"
#include "links/udp/udp_link.h"
#include "profiles/profile.h"
#include "queue/qp.h"

#define PATIENCE VB_SECONDS(10)

static struct vb_multicast_group *find_group(struct vb_udp_link *udp, const uint8_t gid[16],
					     uint32_t interface_index)
{
	for (unsigned i = 0; i < udp->groups; i++)
		if (udp->group[i].interface_index == interface_index &&
		    memcmp(udp->group[i].gid, gid, 16) == 0)
			return &udp->group[i];
	return NULL;
}

static int find_member(const struct vb_multicast_group *group, const struct vb_qp *qp)
{
	for (unsigned i = 0; i < group->members; i++)
		if (group->member[i] == qp)
			return (int)i;
	return -1;
}

/* A socket of verbenad's making, if our own hears no multicast. Descriptor, -1: none is needed, or -errno (below -1). */
static int ask_for_socket(const struct vb_udp_link *udp, const uint8_t gid[16], uint32_t interface_index)
{
	int own = udp->first.receive_fd[vb_gid_is_ipv4(gid) ? VB_IPV4 : VB_IPV6], fds[VB_DAEMON_MAX_FDS], error;
	struct vb_daemon_client daemon;
	struct vb_daemon_message message;
	unsigned count = 0;

	if (own < 0 || vb_udp_port(own) == VB_ROCE_PORT)
		return -1;
	error = vb_daemon_client_reach(&daemon, vb_daemon_patience(PATIENCE));
	if (error != 0)
		return error == -ETIMEDOUT ? -ETIMEDOUT : -EAGAIN;
	vb_daemon_message_begin(&message, VB_DAEMON_JOIN_GROUP, 0);
	message.join_group.interface_index = interface_index;
	memcpy(message.join_group.gid, gid, 16);
	error = vb_daemon_client_send(&daemon, &message, NULL, 0);
	if (error == 0)
		error = vb_daemon_client_receive(&daemon, &message, fds, &count, vb_clock_now() + PATIENCE);
	if (error == -EAGAIN) {
		error = -ETIMEDOUT;
		vb_daemon_note(error, (pid_t)daemon.pid);
	}
	vb_daemon_client_close(&daemon);
	if (error == 0 && message.header.type == VB_DAEMON_GROUP)
		return fds[0];
	if (error == 0 && message.header.type == VB_DAEMON_ERROR)
		return message.error.error == ENOBUFS ? -ENOMEM : -EADDRNOTAVAIL;
	for (unsigned i = 0; i < count; i++)
		vb_descriptor_close(fds[i]);
	return error == -ETIMEDOUT ? error : -EAGAIN;
}

/* So that the engine thread, which sleeps, hears of it. */
static int watch_socket(struct vb_udp_link *udp, int fd)
{
	int poller = udp->groups_fd, error;

	if (poller < 0) {
		poller = vb_poller_open();
		if (poller < 0)
			return poller;
		__atomic_store_n(&udp->groups_fd, poller, __ATOMIC_RELAXED);
	}
	error = vb_poller_add(poller, fd, udp);
	if (error == 0)
		vb_schedule_kick(udp->schedule);
	return error;
}

/* Frames of the group as well, if there are any to be had: interfaces that hear all of them anyway need not be asked. */
static void join_frames(struct vb_udp_link *udp, const struct vb_multicast_group *group, bool join)
{
	struct vb_frames *frames = __atomic_load_n(&udp->frames, __ATOMIC_ACQUIRE);

	if (frames)
		(void)vb_frames_join(frames, group->gid, group->interface_index, join);
}

/* Those of one device: its limit is its profile's. */
static unsigned groups_on(const struct vb_udp_link *udp, uint32_t interface_index)
{
	unsigned count = 0;

	for (unsigned i = 0; i < udp->groups; i++)
		count += udp->group[i].interface_index == interface_index;
	return count;
}

/* Takes `socket`, -1: the link's own joins. */
static int add_group(struct vb_udp_link *udp, const uint8_t gid[16], uint32_t interface_index, int socket,
		     struct vb_multicast_group **added)
{
	bool ipv6 = !vb_gid_is_ipv4(gid);
	struct vb_multicast_group *larger;
	int error;

	if (udp->first.receive_fd[ipv6] < 0)
		return -EADDRNOTAVAIL;
	larger = realloc(udp->group, (udp->groups + 1) * sizeof(*larger));
	if (!larger)
		return -ENOMEM;
	udp->group = larger;
	error = socket >= 0 ? watch_socket(udp, socket) :
			      vb_udp_join(udp->first.receive_fd[ipv6], gid, interface_index, true);
	/* The administrator limits groups per socket: net.ipv4.igmp_max_memberships. */
	if (error == -ENOBUFS)
		return -ENOMEM;
	if (error == -ENODEV)
		return -EADDRNOTAVAIL;
	if (error != 0 && error != -EADDRINUSE)
		return error;
	*added = &udp->group[udp->groups++];
	memset(*added, 0, sizeof(**added));
	memcpy((*added)->gid, gid, 16);
	(*added)->interface_index = interface_index;
	/* Without it only newer kernels misdeliver, and only to a lone member. */
	(*added)->companion_fd = ipv6 || socket >= 0 ? -1 : vb_udp_open_companion(gid, interface_index);
	(*added)->receive_fd = socket;
	udp->group_sockets += socket >= 0;
	join_frames(udp, *added, true);
	__atomic_store_n(&udp->first.in_use[ipv6], true, __ATOMIC_RELAXED);
	return 0;
}

static void drop_group_if_empty(struct vb_udp_link *udp, struct vb_multicast_group *group)
{
	if (group->members > 0)
		return;
	join_frames(udp, group, false);
	if (group->receive_fd >= 0) {
		vb_poller_remove(udp->groups_fd, group->receive_fd);
		vb_descriptor_close(group->receive_fd);
		udp->group_sockets--;
	} else {
		(void)vb_udp_join(udp->first.receive_fd[!vb_gid_is_ipv4(group->gid)], group->gid, group->interface_index,
				  false);
	}
	if (group->companion_fd >= 0)
		vb_descriptor_close(group->companion_fd);
	free(group->member);
	*group = udp->group[--udp->groups];
}

static int add_member(struct vb_multicast_group *group, struct vb_qp *qp)
{
	if (find_member(group, qp) >= 0)
		return 0;
	if (group->members >= qp->host->profile->limits.multicast_qps)
		return -ENOMEM;
	if (group->members == group->room) {
		unsigned room = group->room ? group->room * 2 : 4;
		struct vb_qp **larger = realloc(group->member, room * sizeof(struct vb_qp *));

		if (!larger)
			return -ENOMEM;
		group->member = larger;
		group->room = room;
	}
	group->member[group->members++] = qp;
	return 0;
}

int vb_multicast_join(struct vb_link *link, struct vb_qp *qp, const uint8_t gid[16], uint32_t interface_index)
{
	struct vb_udp_link *udp = vb_udp_link_of(link);
	struct vb_multicast_group *group;
	uint8_t name[16];
	int error = 0, socket;

	if (!vb_gid_is_multicast(gid))
		return -EINVAL;
	memcpy(name, gid, sizeof(name));
	vb_gid_canonical(name);
	/* Asked for with no lock held, and let go again if we have one. */
	socket = ask_for_socket(udp, name, interface_index);
	if (socket < -1)
		return socket;
	vb_lock_take(&udp->schedule->progress);
	group = find_group(udp, name, interface_index);
	if (!group && groups_on(udp, interface_index) >= qp->host->profile->limits.multicast_groups) {
		error = -ENOMEM;
	} else if (!group) {
		error = add_group(udp, name, interface_index, socket, &group);
		socket = error == 0 ? -1 : socket;
	}
	if (socket >= 0)
		vb_descriptor_close(socket);
	if (error == 0) {
		error = add_member(group, qp);
		drop_group_if_empty(udp, group);
	}
	vb_lock_release(&udp->schedule->progress);
	return error;
}

int vb_multicast_leave(struct vb_link *link, struct vb_qp *qp, const uint8_t gid[16], uint32_t interface_index)
{
	struct vb_udp_link *udp = vb_udp_link_of(link);
	struct vb_multicast_group *group;
	uint8_t name[16];
	int at = -1;

	if (!vb_gid_is_multicast(gid))
		return -EINVAL;
	memcpy(name, gid, sizeof(name));
	vb_gid_canonical(name);
	vb_lock_take(&udp->schedule->progress);
	group = find_group(udp, name, interface_index);
	if (group)
		at = find_member(group, qp);
	if (at >= 0) {
		group->member[at] = group->member[--group->members];
		drop_group_if_empty(udp, group);
	}
	vb_lock_release(&udp->schedule->progress);
	return at >= 0 ? 0 : -EINVAL;
}

void vb_multicast_for_each(struct vb_udp_link *udp, const uint8_t gid[16], uint32_t interface_index,
			   vb_multicast_deliver *deliver, void *context)
{
	struct vb_multicast_group *group = find_group(udp, gid, interface_index);

	for (unsigned i = 0; group && i < group->members; i++)
		deliver(context, group->member[i]);
}

void vb_multicast_forget_qp(struct vb_udp_link *udp, struct vb_qp *qp)
{
	for (unsigned i = udp->groups; i-- > 0;) {
		struct vb_multicast_group *group = &udp->group[i];
		int at = find_member(group, qp);

		if (at < 0)
			continue;
		group->member[at] = group->member[--group->members];
		drop_group_if_empty(udp, group);
	}
}

void vb_multicast_free(struct vb_udp_link *udp)
{
	for (unsigned i = 0; i < udp->groups; i++) {
		if (udp->group[i].companion_fd >= 0)
			vb_descriptor_close(udp->group[i].companion_fd);
		if (udp->group[i].receive_fd >= 0)
			vb_descriptor_close(udp->group[i].receive_fd);
		free(udp->group[i].member);
	}
	free(udp->group);
}
