/* SPDX-License-Identifier: MIT
 *
 * A UDP port, 4791 or a user's own (slots.h): the group of sockets that share it, one per slot, lane and IP version, and the
 * steering program over them. A process that holds one of the sockets can leave the group, take the program away or
 * take a flow: processes that share a port must trust each other.
 *
 * A slot's lanes are for speed: threads of a process receive without meeting. They are members of the group like any, leave with their
 * slot, and where the kernel has no room for them in the program the packets of all lanes go to the slots' own sockets.
 *
 * The group follows the order in which the kernel has the sockets (group_order.h), and rewrites the program at each change. It keeps
 * a duplicate of every socket, so that they leave when it says so and not when a process happens to die.
 *
 * A daemon that starts where another one died finds sockets it does not know, still steered by the old program. It
 * learns their order with probes that name an index: the process that sees one says so (vb_port_group_probe_seen).
 * Until all are known or given up (vb_port_group_settle) the program is left alone. Those that were given up are asked on: when their
 * process dies another socket moves.
 */
#ifndef VB_DAEMON_PORT_GROUP_H
#define VB_DAEMON_PORT_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/group_order.h"
#include "wire/daemon_message.h"

enum { VB_GROUP_IPV4, VB_GROUP_IPV6, VB_GROUP_FAMILIES };

struct vb_port_family {
	bool available;
	bool unsure;                       /* no socket could be asked: loopback is down */
	int fd[VB_GROUP_NUMBERS];          /* our duplicate of each socket by its number (group_order.h), which of a slot's own is the slot;
					    * -1: none */
	struct vb_group_order order;
};

struct vb_port_group {
	uint16_t port;
	bool open;
	bool settled;                      /* the order is known and the program is ours */
	bool stale;                        /* the kernel took no program for the order that is now */
	struct vb_port_family family[VB_GROUP_FAMILIES];
	bool taken[VB_DAEMON_SLOTS];
	uint8_t lanes[VB_DAEMON_SLOTS];    /* bit by lane: which the slot has */
	unsigned lane_count;               /* of all slots */
};

void vb_port_group_init(struct vb_port_group *group, uint16_t port);
/* Bind the daemon's own sockets. 0 or -errno with a sentence in `why`. Afterwards settled, or vb_port_group_unknown
 * says how many sockets of a dead daemon's processes wait to be adopted. */
int vb_port_group_open(struct vb_port_group *group, char *why, size_t room);
/* Close everything: the port is not used any more. */
void vb_port_group_close(struct vb_port_group *group);

/* Sockets for that slot. 0 or -errno with a sentence. Caller made sure that the group is settled. */
int vb_port_group_add(struct vb_port_group *group, uint32_t slot, char *why, size_t room);
/* With its lanes. False: its sockets may still be there, and their process may come back for the slot. */
bool vb_port_group_remove(struct vb_port_group *group, uint32_t slot);

/* Sockets for a lane of a slot that was added or adopted and does not have that lane. 0 or -errno with a sentence: -EUSERS there are no
 * more. Caller made sure that the group is settled. */
int vb_port_group_add_lane(struct vb_port_group *group, uint32_t slot, uint32_t lane, char *why, size_t room);
bool vb_port_group_has_lane(const struct vb_port_group *group, uint32_t slot, uint32_t lane);
/* Its packets go to the slot's own sockets again. */
void vb_port_group_remove_lane(struct vb_port_group *group, uint32_t slot, uint32_t lane);

/* Take over a slot with its sockets (-1: none of that family; not consumed, duplicated). 0 or -errno: -EBUSY the
 * slot has an owner,
 * -EINVAL these are no such sockets. */
int vb_port_group_adopt(struct vb_port_group *group, uint32_t slot, const int fd[VB_GROUP_FAMILIES]);
/* The same for a lane of a slot that was taken over. -EUSERS: there are too many. */
int vb_port_group_adopt_lane(struct vb_port_group *group, uint32_t slot, uint32_t lane, const int fd[VB_GROUP_FAMILIES]);
/* Not taken over after all. Its sockets stay where they are: their process may be adopted yet. */
void vb_port_group_forget(struct vb_port_group *group, uint32_t slot);
/* A survivor kept our predecessor's own sockets: use them as slot 0, if they are in the group. */
void vb_port_group_adopt_own(struct vb_port_group *group, const int fd[VB_GROUP_FAMILIES]);

unsigned vb_port_group_unknown(const struct vb_port_group *group);
/* Is every socket of the port one of a slot that we know? */
bool vb_port_group_is_known(const struct vb_port_group *group);
/* Sockets that were adopted and whose place was not told yet. */
unsigned vb_port_group_unplaced(const struct vb_port_group *group);
/* Ask every socket that is not known yet who it is. */
void vb_port_group_probe(struct vb_port_group *group);
/* The process that owns `slot` received this nonce at that lane's socket. */
void vb_port_group_probe_seen(struct vb_port_group *group, uint32_t slot, uint32_t lane, uint64_t nonce);
/* What came to slot 0's own socket: a probe? */
bool vb_port_group_is_probe(struct vb_port_group *group, struct vb_port_family *family, const void *bytes, size_t length);
/* Probes at slot 0's sockets of a user's port, where nothing else is meant for the daemon. */
void vb_port_group_drain_own(struct vb_port_group *group);
/* No more waiting for survivors: steer by what is known. */
void vb_port_group_settle(struct vb_port_group *group);
/* Where the program is stale, packets reach the wrong process: attach it once more. 0 or -errno. */
int vb_port_group_reattach(struct vb_port_group *group);

#endif
