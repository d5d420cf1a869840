/* SPDX-License-Identifier: MIT
 *
 * See slots.h.
 */
#include "daemon/slots.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "daemon/client.h"
#include "daemon/dedicated.h"
#include "daemon/slot_claim.h"
#include "daemon/users.h"
#include "io/clock.h"
#include "io/descriptor.h"
#include "io/event.h"
#include "io/random.h"
#include "io/udp.h"

/* How long new processes wait for those of a dead daemon to report. They notice at once and need milliseconds. */
#define SURVIVOR_PATIENCE VB_SECONDS(2)
/* A probe may be lost like any datagram. */
#define PROBE_AGAIN VB_MILLISECONDS(200)
/* Where all processes that came have their places: sockets of others, which leave when these die. */
#define PROBE_ABSENT VB_SECONDS(1)
/* What the kernel refused for want of memory. */
#define RETRY_AFTER VB_MILLISECONDS(20)

/* The slot of the multicast QPN. On port 4791 it is one like any other, but for its last QPN; a user's would draw all
 * multicast datagrams of the host to that user's port. */
enum { MULTICAST_SLOT = VB_DAEMON_SLOTS - 1 };

/* Unassigned system ports (IANA, Service Name and Transport Protocol Port Number Registry). */
static const struct {
	uint16_t first, last;
} user_ports[] = {{914, 952}, {954, 988}};

static void init_group(struct vb_slot_group *group, uint16_t port, uid_t uid)
{
	vb_list_init(&group->node);
	group->uid = uid;
	group->settle_deadline = group->probe_deadline = group->retry_deadline = VB_TIME_NEVER;
	vb_port_group_init(&group->port, port);
}

void vb_slots_init(struct vb_slots *slots, struct vb_list *clients, int poller)
{
	memset(slots, 0, sizeof(*slots));
	slots->clients = clients;
	slots->poller = poller;
	slots->map_error = -EOPNOTSUPP;
	slots->taken[0] = true;
	vb_list_init(&slots->groups);
	init_group(&slots->shared, VB_ROCE_PORT, (uid_t)-1);
	vb_slot_map_init(&slots->map);
}

bool vb_slots_is_map(const struct vb_slots *slots, const void *tag)
{
	return tag == &slots->map;
}

/* ---- port 4791 ---- */

struct vb_port_family *vb_slots_own_family(struct vb_slots *slots, void *tag)
{
	for (unsigned f = 0; f < VB_GROUP_FAMILIES; f++)
		if (tag == &slots->shared.port.family[f])
			return tag;
	return NULL;
}

/* Slot 0 of users' groups is not watched: their processes hold these sockets too, and could make them readable for ever. */
static void unwatch_own_sockets(struct vb_slots *slots)
{
	for (unsigned f = 0; slots->own_watched && f < VB_GROUP_FAMILIES; f++)
		if (slots->shared.port.family[f].fd[0] >= 0)
			vb_poller_remove(slots->poller, slots->shared.port.family[f].fd[0]);
	slots->own_watched = false;
}

/* All or none: a port that is not listened to is worse than none. */
static int watch_own_sockets(struct vb_slots *slots)
{
	int error = 0;

	for (unsigned f = 0; !slots->own_watched && error == 0 && f < VB_GROUP_FAMILIES; f++)
		if (slots->shared.port.family[f].fd[0] >= 0)
			error = vb_poller_add(slots->poller, slots->shared.port.family[f].fd[0], &slots->shared.port.family[f]);
	slots->own_watched = true;
	if (error != 0)
		unwatch_own_sockets(slots);
	return error;
}

static int open_group(struct vb_slot_group *group, char *why, size_t room)
{
	int error = vb_port_group_open(&group->port, why, room);

	if (error != 0)
		return error;
	if (!group->port.settled) {
		group->settle_deadline = vb_clock_now() + SURVIVOR_PATIENCE;
		group->probe_deadline = vb_clock_now() + PROBE_AGAIN;
		vb_log(VB_LOG_INFO, "taking over %u sockets on UDP port %u of a verbenad that died",
		       vb_port_group_unknown(&group->port), group->port.port);
	}
	return 0;
}

/* Every socket of the port is accounted for: the slots that the map still has for it are of processes that are gone. */
static void give_up_unclaimed(struct vb_slots *slots, const struct vb_slot_group *group)
{
	if (!vb_port_group_is_known(&group->port))
		return;
	for (unsigned slot = 1; slot < VB_DAEMON_SLOTS; slot++)
		if (slots->map.slot[slot] == group->port.port && !slots->taken[slot])
			(void)vb_slot_map_set(&slots->map, slot, 0);
}

int vb_slots_open_port(struct vb_slots *slots, char *why, size_t room)
{
	int error;

	if (slots->shared.port.open)
		return 0;
	error = open_group(&slots->shared, why, room);
	if (error == 0 && (error = watch_own_sockets(slots)) != 0) {
		vb_slots_close_port(slots);
		snprintf(why, room, "UDP port %u cannot be watched: %s", (unsigned)VB_ROCE_PORT, strerror(-error));
	}
	if (error != 0)
		vb_log_limited(VB_LOG_WARN, "%s", why);
	else
		give_up_unclaimed(slots, &slots->shared);
	return error;
}

void vb_slots_close_port(struct vb_slots *slots)
{
	unwatch_own_sockets(slots);
	vb_port_group_close(&slots->shared.port);
	slots->shared.settle_deadline = slots->shared.probe_deadline = slots->shared.retry_deadline = VB_TIME_NEVER;
}

void vb_slots_fini(struct vb_slots *slots)
{
	VB_LIST_FOR_EACH(node, &slots->groups) {
		struct vb_slot_group *group = vb_container_of(node, struct vb_slot_group, node);

		vb_list_remove(node);
		vb_port_group_close(&group->port);
		free(group);
	}
	vb_port_group_close(&slots->shared.port);
	vb_slot_map_close(&slots->map);
}

/* ---- whose port ---- */

static bool shares_port(const struct vb_slots *slots, const struct vb_client *client)
{
	return client->peer.uid == geteuid() || client->peer.uid == 0 ||
	       (slots->has_trusted && vb_unix_peer_is_in_group(client->fd, slots->trusted));
}

static struct vb_slot_group *find_group(struct vb_slots *slots, uid_t uid)
{
	VB_LIST_FOR_EACH(node, &slots->groups) {
		struct vb_slot_group *group = vb_container_of(node, struct vb_slot_group, node);

		if (group->uid == uid)
			return group;
	}
	return NULL;
}

/* A port without sockets: not even one that a process kept when the daemon closed it. */
static uint16_t choose_port(const struct vb_slots *slots)
{
	for (unsigned i = 0; i < sizeof(user_ports) / sizeof(user_ports[0]); i++)
		for (uint16_t port = user_ports[i].first; port <= user_ports[i].last; port++)
			if (!vb_slot_map_is_owned(&slots->map, port) && vb_udp_port_is_unused(false, port) &&
			    (!slots->shared.port.family[VB_GROUP_IPV6].available || vb_udp_port_is_unused(true, port)))
				return port;
	return 0;
}

static int refuse_users(const struct vb_slots *slots, int error, char *why, size_t room)
{
	snprintf(why, room, "verbenad cannot keep users apart here (nf_tables: %s), so it serves only %s; if this host's users "
		 "trust each other: verbenad --system --trust-group GROUP", strerror(-error),
		 slots->has_trusted ? "root and its trusted group" : "root");
	return -EACCES;
}

/* The group of a user whom others do not trust, made if need be. NULL with a sentence and an errno. */
static struct vb_slot_group *make_group(struct vb_slots *slots, uid_t uid, int *error, char *why, size_t room)
{
	struct vb_slot_group *group = NULL;
	uint16_t port;

	*error = slots->map_error != 0 ? slots->map_error : vb_slot_map_publish(&slots->map);
	if (*error != 0) {
		*error = refuse_users(slots, *error, why, room);
		return NULL;
	}
	port = vb_slot_map_port_of(&slots->map, uid);
	if (port == 0) {
		port = choose_port(slots);
		*error = port == 0 ? -EUSERS : vb_slot_map_own(&slots->map, port, uid);
	}
	if (*error == 0 && !(group = malloc(sizeof(*group))))
		*error = -ENOMEM;
	if (!group) {
		snprintf(why, room, "there is no UDP port for one more user: %s", strerror(-*error));
		return NULL;
	}
	init_group(group, port, uid);
	*error = open_group(group, why, room);
	if (*error != 0) {
		free(group);
		return NULL;
	}
	give_up_unclaimed(slots, group);
	vb_list_append(&slots->groups, &group->node);
	vb_log(VB_LOG_INFO, "UDP port %u is for uid %u", port, (unsigned)uid);
	return group;
}

int vb_slots_serve_users(struct vb_slots *slots, const gid_t *trusted)
{
	slots->system = true;
	slots->has_trusted = trusted != NULL;
	slots->trusted = trusted ? *trusted : 0;
	slots->map_error = vb_slot_map_open(&slots->map);
	/* Without knowing who has which slot it would refuse those who have one, or give it away. */
	if (vb_descriptor_error_passes(slots->map_error))
		return slots->map_error;
	if (slots->map_error != 0) {
		vb_log(VB_LOG_INFO, "nf_tables is not to be had: %s", strerror(-slots->map_error));
		return 0;
	}
	/* Without it the daemon would not notice that the rule is gone. */
	slots->map_error = vb_poller_add(slots->poller, slots->map.watch_fd, &slots->map);
	if (slots->map_error != 0) {
		vb_log(VB_LOG_WARN, "nf_tables cannot be watched: %s", strerror(-slots->map_error));
		vb_slot_map_close(&slots->map);
		return slots->map_error;
	}
	slots->inherited = slots->map.published;
	for (unsigned i = 0; i < VB_SLOT_MAP_PORTS; i++) {
		char why[248];
		int error;

		if (slots->map.port[i].port != 0 && !make_group(slots, slots->map.port[i].uid, &error, why, sizeof(why)))
			vb_log(VB_LOG_WARN, "%s", why);
	}
	return 0;
}

/* Where the client's slot is, or will be. 4791 is needed in any case: the kernel bundles packets for a socket there. */
static struct vb_slot_group *group_of(struct vb_slots *slots, const struct vb_client *client, int *error, char *why,
				      size_t room)
{
	struct vb_slot_group *group;

	*error = vb_slots_open_port(slots, why, room);
	if (*error != 0)
		return NULL;
	if (shares_port(slots, client))
		return &slots->shared;
	group = find_group(slots, client->peer.uid);
	return group ? group : make_group(slots, client->peer.uid, error, why, room);
}

/* ---- giving and taking ---- */

static bool is_unused(const struct vb_slots *slots, unsigned slot)
{
	return !slots->taken[slot] && slots->map.slot[slot] == 0;
}

/* Any that is unused and was not passed over. 0: there is none. */
static uint32_t draw_slot(const struct vb_slots *slots, const struct vb_slot_group *group, const bool passed_over[VB_DAEMON_SLOTS])
{
	unsigned last = group == &slots->shared ? VB_DAEMON_SLOTS - 1 : MULTICAST_SLOT - 1, unused = 0, pick;

	for (unsigned s = 1; s <= last; s++)
		unused += is_unused(slots, s) && !passed_over[s];
	if (unused == 0)
		return 0;
	pick = vb_random_u32() % unused;
	for (unsigned s = 1; s <= last; s++)
		if (is_unused(slots, s) && !passed_over[s] && pick-- == 0)
			return s;
	return 0;
}

/* One that no process has, also none that has not come to us yet. Where all names are taken (any user can take names) one is
 * given without a claim. 0 or -errno; the claim is the caller's, -1: none. */
static int choose_slot(const struct vb_slots *slots, const struct vb_slot_group *group, uint32_t *slot, int *claim)
{
	bool passed_over[VB_DAEMON_SLOTS] = {false};
	int error = -EADDRINUSE;

	*claim = vb_slot_claim_open();
	if (*claim < 0)
		return *claim;
	while (error == -EADDRINUSE && (*slot = draw_slot(slots, group, passed_over)) != 0) {
		error = vb_slot_claim_take(*claim, *slot);
		passed_over[*slot] = true;
	}
	if (error == 0)
		return 0;
	vb_descriptor_close(*claim);
	*claim = -1;
	if (error != -EADDRINUSE)
		return error;
	memset(passed_over, 0, sizeof(passed_over));
	*slot = draw_slot(slots, group, passed_over);
	return *slot != 0 ? 0 : -EUSERS;
}

/* Processes also hold the daemon's own sockets of their group, so that the group keeps its order if the daemon dies. On
 * port 4791 only those of the daemon's own user: others could read what is meant for the daemon. */
static void send_slot(struct vb_client *client, uint32_t sequence, bool with_sockets, int claim)
{
	const struct vb_port_group *port = client->group ? &client->group->port : NULL;
	const int *four = port ? port->family[VB_GROUP_IPV4].fd : NULL, *six = port ? port->family[VB_GROUP_IPV6].fd : NULL;
	bool keeps_own = port && (port->port != VB_ROCE_PORT || client->peer.uid == geteuid());
	const int candidates[] = {
		with_sockets && port ? four[client->slot] : -1,
		with_sockets && port ? six[client->slot] : -1,
		with_sockets ? client->page_fd : -1,
		keeps_own ? four[0] : -1,
		keeps_own ? six[0] : -1,
		claim,
	};
	int fds[VB_DAEMON_MAX_FDS];
	struct vb_daemon_message message;
	unsigned count = 0;

	vb_daemon_message_begin(&message, VB_DAEMON_SLOT, sequence);
	message.slot.slot = client->slot;
	for (unsigned i = 0; i < VB_DAEMON_MAX_FDS; i++) {
		if (candidates[i] < 0)
			continue;
		fds[count++] = candidates[i];
		message.slot.descriptors |= 1u << i;
	}
	vb_client_send_descriptors(client, &message, fds, count);
}

/* Now, and again until all have answered. */
void vb_slots_ask_places(struct vb_slot_group *group)
{
	bool awaited = !group->port.settled || vb_port_group_unplaced(&group->port) > 0;

	if (vb_port_group_unknown(&group->port) == 0) {
		group->probe_deadline = VB_TIME_NEVER;
		return;
	}
	vb_port_group_probe(&group->port);
	group->probe_deadline = vb_clock_now() + (awaited ? PROBE_AGAIN : PROBE_ABSENT);
}

/* group NULL: a range of numbers, and no sockets. */
static int add_slot(struct vb_slots *slots, struct vb_slot_group *group, uint32_t slot, char *why, size_t room)
{
	int error;

	if (!group) {
		slots->taken[slot] = true;
		return 0;
	}
	error = vb_port_group_add(&group->port, slot, why, room);
	if (error != 0)
		return error;
	error = vb_slot_map_set(&slots->map, slot, group->port.port);
	if (error != 0) {
		snprintf(why, room, "packets for a new slot cannot be handed to its user: nf_tables: %s", strerror(-error));
		(void)vb_port_group_remove(&group->port, slot);
		return error;
	}
	slots->taken[slot] = true;
	vb_slots_ask_places(group);
	return 0;
}

static int find_slot(struct vb_slots *slots, struct vb_slot_group *group, uint32_t *slot, int *claim, char *why, size_t room)
{
	int error = choose_slot(slots, group, slot, claim);

	if (error == -EUSERS)
		snprintf(why, room, "all %d slots are in use by processes", VB_DAEMON_SLOTS - 1);
	else if (error != 0)
		snprintf(why, room, "no slot can be claimed: %s", strerror(-error));
	return error != 0 ? error : add_slot(slots, group, *slot, why, room);
}

static void grant(struct vb_slots *slots, struct vb_client *client, uint32_t sequence)
{
	int error = -EDQUOT, claim = -1;
	char why[248] = "";

	if (client->port_unwanted)
		client->group = NULL;
	if (!vb_user_take(client->user, VB_USER_SLOTS)) {
		snprintf(why, sizeof(why), "uid %u has %u slots: half of what other users leave, and no more",
			 (unsigned)client->peer.uid, client->user->has[VB_USER_SLOTS]);
	} else {
		error = find_slot(slots, client->group, &client->slot, &claim, why, sizeof(why));
		if (error != 0)
			vb_user_give_back(client->user, VB_USER_SLOTS);
	}
	if (error != 0) {
		client->slot = 0;
		vb_client_refuse(client, sequence, error, why);
	} else {
		vb_client_set_page(client, vb_page_create("verbena", sizeof(struct vb_daemon_page)));
		vb_log(VB_LOG_INFO, "slot %u to %s, pid %d, uid %u", client->slot, client->program, (int)client->peer.pid,
		       (unsigned)client->peer.uid);
		send_slot(client, sequence, true, claim);
	}
	if (claim >= 0)
		vb_descriptor_close(claim);
}

/* Where it is open, the slots of those who survived a daemon are to be known before another is given away. */
static struct vb_slot_group *group_without_port(struct vb_slots *slots)
{
	return slots->shared.port.open ? &slots->shared : NULL;
}

void vb_slots_open(struct vb_slots *slots, struct vb_client *client, const struct vb_daemon_message *m)
{
	uint32_t sequence = m->header.sequence;
	char why[248] = "";
	int error = 0;

	if (client->slot != 0 || client->waiting_open != 0) {
		vb_client_refuse(client, sequence, EALREADY, "this process has a slot already");
		return;
	}
	client->port_unwanted = m->open_slot.port == VB_DAEMON_PORT_UNWANTED;
	client->group = client->port_unwanted ? NULL : group_of(slots, client, &error, why, sizeof(why));
	if (error != 0 && m->open_slot.port == VB_DAEMON_PORT_WELCOME) {
		client->port_unwanted = true;
		error = 0;
	}
	if (client->port_unwanted)
		client->group = group_without_port(slots);
	if (error != 0)
		vb_client_refuse(client, sequence, error, why);
	else if (!client->group || client->group->port.settled)
		grant(slots, client, sequence);
	else
		client->waiting_open = sequence;
}

void vb_slots_release(struct vb_slots *slots, struct vb_client *client)
{
	struct vb_slot_group *group = client->group;
	int error = 0;

	if (client->slot == 0)
		return;
	vb_log(VB_LOG_INFO, "slot %u is free again", client->slot);
	vb_dedicated_close(client);
	if (group && vb_port_group_remove(&group->port, client->slot))
		error = vb_slot_map_set(&slots->map, client->slot, 0);
	if (error != 0)
		vb_log_limited(VB_LOG_ERROR, "slot %u stays in nf_tables: %s", client->slot, strerror(-error));
	slots->taken[client->slot] = false;
	if (group)
		give_up_unclaimed(slots, group);
	vb_user_give_back(client->user, VB_USER_SLOTS);
	for (; client->lanes > 0; client->lanes--)
		vb_user_give_back(client->user, VB_USER_LANES);
	client->slot = 0;
	vb_client_set_page(client, -1);
	vb_client_forget_segment(client);
	if (group)
		vb_slots_ask_places(group);
}

/* ---- after a daemon's death ---- */

static void serve_waiting(struct vb_slots *slots, const struct vb_slot_group *group)
{
	VB_LIST_FOR_EACH(node, slots->clients) {
		struct vb_client *client = vb_container_of(node, struct vb_client, node);
		uint32_t sequence = client->waiting_open;

		if (sequence == 0 || client->group != group)
			continue;
		client->waiting_open = 0;
		grant(slots, client, sequence);
	}
}

static void settle_if_possible(struct vb_slots *slots, struct vb_slot_group *group, bool patience_is_over)
{
	if (!group->port.open || group->port.settled ||
	    (vb_port_group_unknown(&group->port) > 0 && !patience_is_over))
		return;
	vb_port_group_settle(&group->port);
	if (!group->port.settled) {
		group->settle_deadline = vb_clock_now() + SURVIVOR_PATIENCE;
		return;
	}
	group->settle_deadline = VB_TIME_NEVER;
	give_up_unclaimed(slots, group);
	serve_waiting(slots, group);
}

void vb_slots_await_longer(struct vb_slot_group *group)
{
	if (group->port.open && !group->port.settled)
		group->settle_deadline = vb_clock_now() + SURVIVOR_PATIENCE;
}

void vb_slots_turned_away(struct vb_slots *slots)
{
	vb_slots_await_longer(&slots->shared);
	VB_LIST_FOR_EACH(node, &slots->groups)
		vb_slots_await_longer(vb_container_of(node, struct vb_slot_group, node));
}

/* May it have that slot? 0; -ESTALE: another has it now, for good; -EBUSY: it has it itself, by a connection of which we have not heard
 * yet that it has hung up. */
static int may_have(const struct vb_slots *slots, const struct vb_client *client, uint32_t slot)
{
	if (!slots->taken[slot])
		return 0;
	VB_LIST_FOR_EACH(node, slots->clients) {
		const struct vb_client *other = vb_container_of(node, struct vb_client, node);

		if (other->slot == slot)
			return other->peer.pid == client->peer.pid ? -EBUSY : -ESTALE;
	}
	return -EBUSY;
}

/* And this port? The socket's mark says only that a process was given it once: it may have given it back since, and another has it
 * now. */
static int may_claim(const struct vb_slots *slots, const struct vb_slot_group *group, const struct vb_client *client, uint32_t slot)
{
	int error = may_have(slots, client, slot);

	return error == 0 && slots->inherited && slots->map.slot[slot] != group->port.port ? -ESTALE : error;
}

static void keep_slot(struct vb_slots *slots, struct vb_client *client, const struct vb_daemon_message *m, int page_fd)
{
	slots->taken[m->slot.slot] = true;
	client->slot = m->slot.slot;
	if (page_fd >= 0)
		vb_client_set_page(client, vb_descriptor_duplicate(page_fd));
	vb_log(VB_LOG_INFO, "slot %u stays with %s, pid %d", client->slot, client->program, (int)client->peer.pid);
	send_slot(client, m->header.sequence, false, -1);
}

static const char *why_not_adopted(int error)
{
	switch (error) {
	case -EBUSY:
		return "this process has the slot already";
	case -ESTALE:
		return "the slot is not this process's any more";
	case -EDQUOT:
		return "this user has no more slots";
	case -EINVAL:
		return "these are not the slot's sockets";
	default:
		return "verbenad cannot take the slot over now";
	}
}

/* There is nothing to show but the number: no other process may have it, or have had it from the daemon before us. */
static void adopt_without_port(struct vb_slots *slots, struct vb_client *client, const struct vb_daemon_message *m, int page_fd)
{
	uint32_t slot = m->slot.slot;
	int error = slots->map.slot[slot] != 0 ? -ESTALE : may_have(slots, client, slot);

	if (error != 0)
		vb_client_refuse(client, m->header.sequence, error, why_not_adopted(error));
	else if (!vb_user_take(client->user, VB_USER_SLOTS))
		vb_client_refuse(client, m->header.sequence, EDQUOT, "this user has no more slots");
	else {
		client->group = NULL;
		client->port_unwanted = true;
		keep_slot(slots, client, m, page_fd);
	}
}

void vb_slots_adopt(struct vb_slots *slots, struct vb_client *client, const struct vb_daemon_message *m, const int *fds)
{
	int by_bit[VB_DAEMON_MAX_FDS], error = 0;
	struct vb_slot_group *group;
	char why[248] = "";

	for (unsigned bit = 0, next = 0; bit < VB_DAEMON_MAX_FDS; bit++)
		by_bit[bit] = m->slot.descriptors & 1u << bit ? fds[next++] : -1;
	if (client->slot != 0 || client->waiting_open != 0) {
		vb_client_refuse(client, m->header.sequence, EALREADY, "this process has a slot already");
		return;
	}
	if (by_bit[0] < 0 && by_bit[1] < 0) {
		adopt_without_port(slots, client, m, by_bit[2]);
		return;
	}
	group = group_of(slots, client, &error, why, sizeof(why));
	if (!group) {
		vb_client_refuse(client, m->header.sequence, error, why);
		return;
	}
	/* Ours to take over only from ourselves, or from a daemon that can harm no other user by it. */
	if (group != &slots->shared || client->peer.uid == geteuid()) {
		if (group == &slots->shared)
			unwatch_own_sockets(slots);
		vb_port_group_adopt_own(&group->port, &by_bit[3]);
		if (group == &slots->shared)
			(void)watch_own_sockets(slots); /* otherwise it is tried again */
	}
	error = may_claim(slots, group, client, m->slot.slot);
	if (error == 0)
		error = vb_port_group_adopt(&group->port, m->slot.slot, by_bit);
	/* A daemon that thought it dead, or dropped it, took the slot back. */
	if (error == -EINVAL && vb_udp_has_left_group(by_bit[by_bit[VB_GROUP_IPV4] >= 0 ? VB_GROUP_IPV4 : VB_GROUP_IPV6]))
		error = -ESTALE;
	if (error == 0 && !vb_user_take(client->user, VB_USER_SLOTS)) {
		vb_port_group_forget(&group->port, m->slot.slot);
		error = -EDQUOT;
	}
	if (error == 0) {
		error = vb_slot_map_set(&slots->map, m->slot.slot, group->port.port);
		if (error != 0) {
			vb_user_give_back(client->user, VB_USER_SLOTS);
			vb_port_group_forget(&group->port, m->slot.slot);
		}
	}
	if (error == -EMFILE)
		vb_slots_await_longer(group);
	if (error != 0) {
		vb_client_refuse(client, m->header.sequence, error, why_not_adopted(error));
		return;
	}
	client->group = group;
	keep_slot(slots, client, m, by_bit[2]);
	vb_slots_ask_places(group);
}

void vb_slots_probe_seen(struct vb_slots *slots, struct vb_client *client, uint32_t lane, uint64_t nonce)
{
	if (client->slot == 0 || !client->group)
		return;
	vb_port_group_probe_seen(&client->group->port, client->slot, lane, nonce);
	settle_if_possible(slots, client->group, false);
	give_up_unclaimed(slots, client->group);
}

bool vb_slots_is_probe(struct vb_slots *slots, struct vb_port_family *family, const void *bytes, size_t length)
{
	if (!vb_port_group_is_probe(&slots->shared.port, family, bytes, length))
		return false;
	settle_if_possible(slots, &slots->shared, false);
	give_up_unclaimed(slots, &slots->shared);
	return true;
}

bool vb_slots_is_foreign(const struct vb_slots *slots, const struct vb_client *client, uint32_t qpn)
{
	/* A survivor may speak before its slot is known. */
	VB_LIST_FOR_EACH(node, slots->clients) {
		const struct vb_client *other = vb_container_of(node, struct vb_client, node);

		if (other->slot != 0 && other->slot == qpn >> VB_DAEMON_INDEX_BITS)
			return other->peer.uid != client->peer.uid;
	}
	return false;
}

/* ---- time ---- */

static vb_time group_deadline(const struct vb_slot_group *group)
{
	return vb_time_earlier(vb_time_earlier(group->settle_deadline, group->probe_deadline), group->retry_deadline);
}

/* Steering that is not as the sockets are, QP1 unwatched, a table that another program changed: each at once, and again until it
 * succeeds. */
static void retry_refused(struct vb_slots *slots, struct vb_slot_group *group, vb_time now)
{
	bool broken = vb_port_group_reattach(&group->port) != 0;

	if (group == &slots->shared) {
		if (group->port.open && !slots->own_watched)
			broken |= watch_own_sockets(slots) != 0;
		if (slots->map.damaged)
			vb_slot_map_check(&slots->map);
		broken |= slots->map.damaged;
	}
	group->retry_deadline = broken ? now + RETRY_AFTER : VB_TIME_NEVER;
}

static void expire_group(struct vb_slots *slots, struct vb_slot_group *group, vb_time now)
{
	if (now >= group->probe_deadline) {
		if (group != &slots->shared)
			vb_port_group_drain_own(&group->port);
		vb_slots_ask_places(group);
		settle_if_possible(slots, group, false);
	}
	if (now >= group->settle_deadline)
		settle_if_possible(slots, group, true);
	retry_refused(slots, group, now);
}

vb_time vb_slots_deadline(const struct vb_slots *slots)
{
	vb_time deadline = group_deadline(&slots->shared);

	VB_LIST_FOR_EACH(node, &slots->groups)
		deadline = vb_time_earlier(deadline, group_deadline(vb_container_of(node, struct vb_slot_group, node)));
	return deadline;
}

void vb_slots_expire(struct vb_slots *slots, vb_time now)
{
	expire_group(slots, &slots->shared, now);
	VB_LIST_FOR_EACH(node, &slots->groups)
		expire_group(slots, vb_container_of(node, struct vb_slot_group, node), now);
}
