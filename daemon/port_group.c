/* SPDX-License-Identifier: MIT
 *
 * See port_group.h.
 */
#include "daemon/port_group.h"

#include <errno.h>
#include <linux/filter.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "daemon/steering.h"
#include "io/clock.h"
#include "io/descriptor.h"
#include "io/event.h"
#include "io/host.h"
#include "io/random.h"
#include "io/udp.h"

enum { PROBE_MICROSECONDS = 5000, PROBES_AT_ONCE = 64, PROBE_TRIES = 8, NO_INDEX = 0xffff };

_Static_assert((unsigned)VB_GROUP_LANES <= (unsigned)VB_STEERING_LANES, "the program has room for all lanes");

void vb_port_group_init(struct vb_port_group *group, uint16_t port)
{
	memset(group, 0, sizeof(*group));
	group->port = port;
	for (unsigned f = 0; f < VB_GROUP_FAMILIES; f++)
		for (unsigned number = 0; number < VB_GROUP_NUMBERS; number++)
			group->family[f].fd[number] = -1;
	group->taken[0] = true;
}

/* Where the slot's sockets are. One whose own has not said where it stands has its packets at a lane that has: the process takes them
 * from any. False: none is known. */
static bool describe_slot(struct vb_steering_entry *entry, unsigned slot, const uint16_t index_of[VB_GROUP_NUMBERS], bool with_lanes)
{
	*entry = (struct vb_steering_entry){.slot = (uint16_t)slot, .index = index_of[slot]};
	for (unsigned lane = 1; lane < VB_DAEMON_LANES; lane++) {
		uint16_t index = index_of[vb_group_number(slot, lane)];

		if (index == NO_INDEX)
			continue;
		if (entry->index == NO_INDEX)
			entry->index = index;
		if (with_lanes)
			entry->lanes |= (uint16_t)(1u << lane);
		entry->lane_index[lane] = index;
	}
	return entry->index != NO_INDEX;
}

static int attach_family(const struct vb_port_family *family, bool with_lanes)
{
	static struct sock_filter program[VB_STEERING_INSTRUCTIONS];
	struct vb_steering_entry entries[VB_DAEMON_SLOTS];
	uint16_t index_of[VB_GROUP_NUMBERS];
	unsigned count = 0;

	memset(index_of, 0xff, sizeof(index_of));
	for (unsigned i = 0; i < family->order.members; i++)
		if (family->order.member[i] != VB_GROUP_UNKNOWN)
			index_of[family->order.member[i]] = (uint16_t)i;
	for (unsigned slot = 1; slot < VB_DAEMON_SLOTS; slot++)
		count += describe_slot(&entries[count], slot, index_of, with_lanes);
	return vb_udp_attach_program(family->fd[0], program,
				     vb_steering_generate(program, entries, count, index_of[0]));
}

static int attach(const struct vb_port_group *group, bool with_lanes)
{
	int error = 0;

	for (unsigned f = 0; f < VB_GROUP_FAMILIES && error == 0; f++)
		if (group->family[f].available)
			error = attach_family(&group->family[f], with_lanes);
	return error;
}

static int publish(struct vb_port_group *group)
{
	int error = attach(group, true);

	/* No process goes without a slot so that another has lanes. */
	if (error == -ENOMEM && group->lane_count > 0)
		error = attach(group, false);
	group->stale = error != 0;
	if (error != 0)
		vb_log(VB_LOG_ERROR, "cannot attach the steering program: %s", strerror(-error));
	return error;
}

static int send_probe(const struct vb_port_group *group, struct vb_port_family *family, unsigned index)
{
	struct vb_daemon_probe probe;
	int error = -EAGAIN;

	family->order.nonce[index] = vb_random_u64() | 1; /* 0: none */
	probe = (struct vb_daemon_probe){
		.magic = be32_of(VB_DAEMON_PROBE_MAGIC),
		.index = be32_of(index),
		.nonce = be64_of(family->order.nonce[index]),
	};
	/* One that is not sent would be taken for one that did not arrive. */
	for (unsigned i = 0; i < PROBE_TRIES && vb_descriptor_error_passes(error); i++)
		error = vb_udp_send_loopback(family->fd[0], family == &group->family[VB_GROUP_IPV6], group->port, &probe, sizeof(probe));
	return error;
}

/* Wait a little for a probe on a socket that is ours to read. Which of the first `sent` probes came (a late one of
 * those before the last counts too), or -1. What else the socket holds is for QPs that do not exist. */
static int arrived_probe(const struct vb_port_family *family, int fd, unsigned sent)
{
	vb_time deadline = vb_clock_now() + VB_MICROSECONDS(PROBE_MICROSECONDS);

	do {
		struct vb_wait_item item = {.fd = fd};
		struct vb_daemon_probe probe = {0};

		vb_wait(&item, 1, deadline);
		while (item.readable && vb_descriptor_receive(fd, &probe, sizeof(probe)) >= 0)
			for (unsigned i = 0; i < sent; i++)
				if (family->order.nonce[i] != 0 && be64_get(probe.nonce) == family->order.nonce[i])
					return (int)i;
	} while (vb_clock_now() < deadline);
	return -1;
}

/* Where in its group is our own socket? When just bound it is the last: the lowest index whose probe reaches it is
 * its own, and the members before it belong to processes of a dead daemon. (An index behind the end is handed out by
 * hash, hence "lowest". Probes arrive in the order in which they are sent.) Many are sent at once: users of a port can
 * arrange that none arrives, and a daemon that waits here serves no client. */
static void find_own_place(const struct vb_port_group *group, struct vb_port_family *family)
{
	unsigned sent = 0;

	while (sent < VB_GROUP_MEMBERS) {
		/* Most often it is alone. */
		unsigned until = sent == 0 ? 1 : sent + PROBES_AT_ONCE;
		struct vb_daemon_probe rest;
		int place;

		until = until < VB_GROUP_MEMBERS ? until : VB_GROUP_MEMBERS;

		while (sent < until && send_probe(group, family, sent) == 0)
			sent++;
		place = arrived_probe(family, family->fd[0], sent);
		while (place >= 0 && vb_descriptor_receive(family->fd[0], &rest, sizeof(rest)) >= 0)
			;
		if (place >= 0) {
			vb_group_order_begin(&family->order, 0, (unsigned)place);
			return;
		}
		if (sent < until)
			break;
	}
	/* No loopback to probe over, or another program's group: all we can do is to believe that we are alone. */
	vb_group_order_begin(&family->order, 0, 0);
	family->unsure = true;
}

static void explain_bind(uint16_t port, int error, char *why, size_t room)
{
	char owner[96];
	pid_t pid;
	uid_t uid;

	if (error == -EADDRINUSE && vb_host_port_holder(port, &pid, &uid)) {
		vb_host_user_name(uid, owner, sizeof(owner));
		snprintf(why, room, pid ? "UDP port %d is taken: %s has it, pid %d; when that is gone verbenad takes it" :
			 "UDP port %d is taken: %s has it (root sees the pid: ss -ulnp)", port, owner, (int)pid);
	} else if (error == -EADDRINUSE)
		snprintf(why, room, "UDP port %d is taken, by no process: by a kernel rxe device? (see `rdma link`)", port);
	else
		snprintf(why, room, "UDP port %d cannot be opened: %s", port, strerror(-error));
}

int vb_port_group_open(struct vb_port_group *group, char *why, size_t room)
{
	int error = 0;

	for (unsigned f = 0; f < VB_GROUP_FAMILIES; f++) {
		struct vb_port_family *family = &group->family[f];
		int fd = vb_udp_open_receiver(f == VB_GROUP_IPV6, group->port);

		/* A host without IPv6 is a host with IPv4 only. */
		if (f == VB_GROUP_IPV6 && (fd == -EAFNOSUPPORT || fd == -EADDRNOTAVAIL))
			continue;
		if (fd < 0) {
			explain_bind(group->port, fd, why, room);
			error = fd;
			break;
		}
		family->fd[0] = fd;
		family->available = true;
		find_own_place(group, family);
	}
	if (error != 0) {
		vb_port_group_close(group);
		return error;
	}
	group->open = true;
	if (vb_port_group_unknown(group) == 0) {
		error = publish(group);
		if (error != 0) {
			snprintf(why, room, "the kernel refuses the steering program: %s", strerror(-error));
			vb_port_group_close(group);
			return error;
		}
		group->settled = true;
	}
	return 0;
}

void vb_port_group_close(struct vb_port_group *group)
{
	for (unsigned f = 0; f < VB_GROUP_FAMILIES; f++)
		for (unsigned number = 0; number < VB_GROUP_NUMBERS; number++)
			if (group->family[f].fd[number] >= 0)
				vb_descriptor_close(group->family[f].fd[number]);
	vb_port_group_init(group, group->port);
}

/* One of each IP version. Where that fails some may be there. */
static int add_sockets(struct vb_port_group *group, uint16_t number, char *why, size_t room)
{
	int error = 0;

	for (unsigned f = 0; f < VB_GROUP_FAMILIES && error == 0; f++) {
		struct vb_port_family *family = &group->family[f];
		int fd;

		if (!family->available)
			continue;
		fd = vb_udp_open_receiver(f == VB_GROUP_IPV6, group->port);
		if (fd < 0) {
			explain_bind(group->port, fd, why, room);
			error = fd;
			break;
		}
		family->fd[number] = fd;
		vb_group_order_append(&family->order, number);
		/* So that its user cannot change the program, nor claim another slot of our successor. */
		error = vb_udp_mark(fd, number);
		if (error != 0)
			snprintf(why, room, "a socket cannot be marked as slot %u's: %s", number % VB_DAEMON_SLOTS, strerror(-error));
	}
	return error;
}

static void explain_attach(int error, char *why, size_t room)
{
	snprintf(why, room, "the kernel refuses the steering program%s: %s",
		 error == -ENOMEM ? " (net.core.optmem_max is too small for so many processes)" : "", strerror(-error));
}

int vb_port_group_add(struct vb_port_group *group, uint32_t slot, char *why, size_t room)
{
	int error;

	group->taken[slot] = true;
	error = add_sockets(group, vb_group_number(slot, 0), why, room);
	if (error == 0) {
		error = publish(group);
		if (error != 0)
			explain_attach(error, why, room);
	}
	if (error != 0)
		(void)vb_port_group_remove(group, slot);
	return error;
}

/* False: one of them may still be there. */
static bool remove_sockets(struct vb_port_group *group, uint16_t number)
{
	bool left = true;

	for (unsigned f = 0; f < VB_GROUP_FAMILIES; f++) {
		struct vb_port_family *family = &group->family[f];
		bool placed;

		if (family->fd[number] < 0)
			continue;
		placed = vb_group_order_drop(&family->order, number);
		left = left && placed;
		/* A child that the process forked may hold the socket open: make it leave, do not only close it. But who was adopted and
		 * has not said where it stands may live and have hung up because we stood still: it will come again, with these. */
		if (placed)
			(void)vb_udp_leave_group(family->fd[number], f == VB_GROUP_IPV6);
		vb_descriptor_close(family->fd[number]);
		family->fd[number] = -1;
	}
	return left;
}

static void note_lane(struct vb_port_group *group, uint32_t slot, uint32_t lane)
{
	group->lanes[slot] |= (uint8_t)(1u << lane);
	group->lane_count++;
}

static void forget_lane(struct vb_port_group *group, uint32_t slot, uint32_t lane)
{
	group->lanes[slot] &= (uint8_t)~(1u << lane);
	group->lane_count--;
}

bool vb_port_group_remove(struct vb_port_group *group, uint32_t slot)
{
	bool left = true;

	for (unsigned lane = 0; lane < VB_DAEMON_LANES; lane++) {
		if (lane > 0 && !vb_port_group_has_lane(group, slot, lane))
			continue;
		left &= remove_sockets(group, vb_group_number(slot, lane));
		if (lane > 0)
			forget_lane(group, slot, lane);
	}
	group->taken[slot] = false;
	if (group->settled)
		(void)publish(group);
	return left;
}

static bool has_room_for_lane(const struct vb_port_group *group)
{
	bool has_room = group->lane_count < VB_GROUP_LANES;

	for (unsigned f = 0; f < VB_GROUP_FAMILIES; f++)
		has_room &= group->family[f].order.members < VB_GROUP_MEMBERS;
	return has_room;
}

bool vb_port_group_has_lane(const struct vb_port_group *group, uint32_t slot, uint32_t lane)
{
	return group->lanes[slot] & 1u << lane;
}

int vb_port_group_add_lane(struct vb_port_group *group, uint32_t slot, uint32_t lane, char *why, size_t room)
{
	int error;

	if (!has_room_for_lane(group)) {
		snprintf(why, room, "UDP port %u has %u lanes, and has no room for more", group->port, group->lane_count);
		return -EUSERS;
	}
	note_lane(group, slot, lane);
	error = add_sockets(group, vb_group_number(slot, lane), why, room);
	if (error == 0) {
		error = attach(group, true);
		if (error != 0)
			explain_attach(error, why, room);
	}
	if (error == 0)
		group->stale = false;
	else
		vb_port_group_remove_lane(group, slot, lane);
	return error;
}

void vb_port_group_remove_lane(struct vb_port_group *group, uint32_t slot, uint32_t lane)
{
	if (!vb_port_group_has_lane(group, slot, lane))
		return;
	(void)remove_sockets(group, vb_group_number(slot, lane));
	forget_lane(group, slot, lane);
	if (group->settled)
		(void)publish(group);
}

/* One socket may not be two slots', nor two lanes'. */
static bool is_known_socket(const struct vb_port_family *family, uint64_t cookie)
{
	for (unsigned number = 0; number < VB_GROUP_NUMBERS; number++)
		if (family->fd[number] >= 0 && vb_udp_cookie(family->fd[number]) == cookie)
			return true;
	return false;
}

static bool is_adoptable(const struct vb_port_group *group, unsigned f, int fd)
{
	return group->family[f].available && vb_udp_is_receiver(fd, f == VB_GROUP_IPV6, group->port) &&
	       !is_known_socket(&group->family[f], vb_udp_cookie(fd));
}

/* The mark was put there by our predecessor: no process can claim a slot that was not given to it. */
static bool is_marked(int fd, uint16_t number)
{
	uint16_t mark;

	return vb_udp_read_mark(fd, &mark) == 0 && mark == number;
}

static int adopt_sockets(struct vb_port_group *group, uint16_t number, const int fd[VB_GROUP_FAMILIES])
{
	int copy[VB_GROUP_FAMILIES] = {-1, -1};

	for (unsigned f = 0; f < VB_GROUP_FAMILIES; f++)
		if (fd[f] >= 0 && (!is_adoptable(group, f, fd[f]) || !is_marked(fd[f], number)))
			return -EINVAL;
	for (unsigned f = 0; f < VB_GROUP_FAMILIES; f++) {
		if (fd[f] < 0)
			continue;
		copy[f] = vb_descriptor_duplicate(fd[f]);
		if (copy[f] < 0) {
			if (copy[0] >= 0)
				vb_descriptor_close(copy[0]);
			return -EMFILE;
		}
	}
	for (unsigned f = 0; f < VB_GROUP_FAMILIES; f++)
		group->family[f].fd[number] = copy[f];
	return 0;
}

int vb_port_group_adopt(struct vb_port_group *group, uint32_t slot, const int fd[VB_GROUP_FAMILIES])
{
	int error = group->taken[slot] ? -EBUSY : adopt_sockets(group, vb_group_number(slot, 0), fd);

	if (error == 0)
		group->taken[slot] = true;
	return error;
}

int vb_port_group_adopt_lane(struct vb_port_group *group, uint32_t slot, uint32_t lane, const int fd[VB_GROUP_FAMILIES])
{
	int error = vb_port_group_has_lane(group, slot, lane) ? -EBUSY :
		    group->lane_count == VB_GROUP_LANES	      ? -EUSERS : adopt_sockets(group, vb_group_number(slot, lane), fd);

	if (error == 0)
		note_lane(group, slot, lane);
	return error;
}

/* Just adopted, so it has no lanes yet. */
void vb_port_group_forget(struct vb_port_group *group, uint32_t slot)
{
	for (unsigned f = 0; f < VB_GROUP_FAMILIES; f++) {
		if (group->family[f].fd[slot] >= 0)
			vb_descriptor_close(group->family[f].fd[slot]);
		group->family[f].fd[slot] = -1;
	}
	group->taken[slot] = false;
}

void vb_port_group_adopt_own(struct vb_port_group *group, const int fd[VB_GROUP_FAMILIES])
{
	if (group->settled)
		return;
	for (unsigned f = 0; f < VB_GROUP_FAMILIES; f++) {
		struct vb_port_family *family = &group->family[f];

		if (fd[f] < 0 || !is_adoptable(group, f, fd[f]) || family->order.members < 2 ||
		    family->order.member[family->order.members - 1] != 0)
			continue;
		for (unsigned i = 0; i + 1 < family->order.members; i++) {
			int copy;

			if (family->order.member[i] != VB_GROUP_UNKNOWN || send_probe(group, family, i) != 0 ||
			    arrived_probe(family, fd[f], family->order.members) != (int)i)
				continue;
			copy = vb_descriptor_duplicate(fd[f]);
			if (copy < 0)
				break;
			/* Processes that were adopted before have it too: it leaves, and is not only closed. */
			(void)vb_udp_leave_group(family->fd[0], f == VB_GROUP_IPV6);
			vb_descriptor_close(family->fd[0]);
			(void)vb_group_order_drop(&family->order, 0);
			family->fd[0] = copy;
			family->order.member[i] = 0;
			break;
		}
	}
}

unsigned vb_port_group_unknown(const struct vb_port_group *group)
{
	unsigned unknown = 0;

	for (unsigned f = 0; f < VB_GROUP_FAMILIES; f++)
		unknown += vb_group_order_unknown(&group->family[f].order);
	return unknown;
}

bool vb_port_group_is_known(const struct vb_port_group *group)
{
	return group->settled && vb_port_group_unknown(group) == 0 && !group->family[VB_GROUP_IPV4].unsure &&
	       !group->family[VB_GROUP_IPV6].unsure;
}

unsigned vb_port_group_unplaced(const struct vb_port_group *group)
{
	unsigned sockets = 0, placed = 0;

	for (unsigned f = 0; f < VB_GROUP_FAMILIES; f++) {
		for (unsigned number = 0; number < VB_GROUP_NUMBERS; number++)
			sockets += group->family[f].fd[number] >= 0;
		placed += group->family[f].order.members - vb_group_order_unknown(&group->family[f].order);
	}
	return sockets - placed;
}

void vb_port_group_probe(struct vb_port_group *group)
{
	for (unsigned f = 0; f < VB_GROUP_FAMILIES; f++)
		for (unsigned i = 0; i < group->family[f].order.members; i++)
			if (group->family[f].order.member[i] == VB_GROUP_UNKNOWN)
				(void)send_probe(group, &group->family[f], i);
}

/* Where one was that stands lower: the next may have moved there, and behind that the one after it. A round of questions for each would
 * take seconds. */
static void ask_again(const struct vb_port_group *group, struct vb_port_family *family)
{
	for (unsigned i = 0; i < family->order.members; i++)
		if (family->order.member[i] == VB_GROUP_UNKNOWN && family->order.nonce[i] == 0)
			(void)send_probe(group, family, i);
}

static void take_place(struct vb_port_group *group, struct vb_port_family *family, uint16_t number, uint64_t nonce)
{
	if (family->fd[number] < 0 || !vb_group_order_seen(&family->order, number, nonce))
		return;
	if (group->settled)
		(void)publish(group);
	ask_again(group, family);
}

void vb_port_group_probe_seen(struct vb_port_group *group, uint32_t slot, uint32_t lane, uint64_t nonce)
{
	for (unsigned f = 0; f < VB_GROUP_FAMILIES; f++)
		take_place(group, &group->family[f], vb_group_number(slot, lane), nonce);
}

bool vb_port_group_is_probe(struct vb_port_group *group, struct vb_port_family *family, const void *bytes, size_t length)
{
	struct vb_daemon_probe probe;

	if (length != sizeof(probe))
		return false;
	memcpy(&probe, bytes, sizeof(probe));
	if (be32_get(probe.magic) != VB_DAEMON_PROBE_MAGIC)
		return false;
	take_place(group, family, 0, be64_get(probe.nonce));
	return true;
}

void vb_port_group_drain_own(struct vb_port_group *group)
{
	for (unsigned f = 0; f < VB_GROUP_FAMILIES; f++) {
		struct vb_port_family *family = &group->family[f];
		struct vb_daemon_probe probe;
		ssize_t length = 0;

		/* Its processes could fill it for ever. */
		for (unsigned i = 0; family->fd[0] >= 0 && length >= 0 && i < PROBES_AT_ONCE; i++) {
			length = vb_descriptor_receive(family->fd[0], &probe, sizeof(probe));
			if (length >= 0)
				(void)vb_port_group_is_probe(group, family, &probe, (size_t)length);
		}
	}
}

void vb_port_group_settle(struct vb_port_group *group)
{
	unsigned unknown = vb_port_group_unknown(group);

	if (group->settled)
		return;
	if (unknown > 0)
		vb_log(VB_LOG_WARN, "%u sockets on UDP port %d belong to nobody who says so", unknown, group->port);
	group->settled = publish(group) == 0;
}

int vb_port_group_reattach(struct vb_port_group *group)
{
	return group->open && group->settled && group->stale ? publish(group) : 0;
}
