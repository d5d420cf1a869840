/* SPDX-License-Identifier: MIT
 *
 * A UDP port, 4791 or a user's own (slots.h): the group of sockets that share it, one per slot and IP version, and the
 * steering program over them. A process that holds one of the sockets can leave the group, take the program away or
 * take a flow: processes that share a port must trust each other.
 *
 * The group follows the order in which the kernel has the sockets (group_order.h), and rewrites the program at each change. It keeps
 * a duplicate of every slot's sockets, so that they leave when it says so and not when a process happens to die.
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
	int fd[VB_DAEMON_SLOTS];           /* our duplicate of each slot's socket, -1: none */
	struct vb_group_order order;
};

struct vb_port_group {
	uint16_t port;
	bool open;
	bool settled;                      /* the order is known and the program is ours */
	bool stale;                        /* the kernel took no program for the order that is now */
	struct vb_port_family family[VB_GROUP_FAMILIES];
	bool taken[VB_DAEMON_SLOTS];
};

void vb_port_group_init(struct vb_port_group *group, uint16_t port);
/* Bind the daemon's own sockets. 0 or -errno with a sentence in `why`. Afterwards settled, or vb_port_group_unknown
 * says how many sockets of a dead daemon's processes wait to be adopted. */
int vb_port_group_open(struct vb_port_group *group, char *why, size_t room);
/* Close everything: the port is not used any more. */
void vb_port_group_close(struct vb_port_group *group);

/* Sockets for that slot. 0 or -errno with a sentence. Caller made sure that the group is settled. */
int vb_port_group_add(struct vb_port_group *group, uint32_t slot, char *why, size_t room);
/* False: its sockets may still be there, and their process may come back for the slot. */
bool vb_port_group_remove(struct vb_port_group *group, uint32_t slot);

/* Take over a slot with its sockets (-1: none of that family; not consumed, duplicated). 0 or -errno: -EBUSY the
 * slot has an owner,
 * -EINVAL these are no such sockets. */
int vb_port_group_adopt(struct vb_port_group *group, uint32_t slot, const int fd[VB_GROUP_FAMILIES]);
/* Not taken over after all. Its sockets stay where they are: their process may be adopted yet. */
void vb_port_group_forget(struct vb_port_group *group, uint32_t slot);
/* A survivor kept our predecessor's own sockets: use them as slot 0, if they are in the group. */
void vb_port_group_adopt_own(struct vb_port_group *group, const int fd[VB_GROUP_FAMILIES]);

unsigned vb_port_group_unknown(const struct vb_port_group *group);
/* Is every socket of the port one of a slot that we know? */
bool vb_port_group_is_known(const struct vb_port_group *group);
/* Slots that were adopted and whose place was not told yet. */
unsigned vb_port_group_unplaced(const struct vb_port_group *group);
/* Ask every socket that is not known yet who it is. */
void vb_port_group_probe(struct vb_port_group *group);
/* The process that owns `slot` received this nonce. */
void vb_port_group_probe_seen(struct vb_port_group *group, uint32_t slot, uint64_t nonce);
/* What came to slot 0's own socket: a probe? */
bool vb_port_group_is_probe(struct vb_port_group *group, struct vb_port_family *family, const void *bytes, size_t length);
/* Probes at slot 0's sockets of a user's port, where nothing else is meant for the daemon. */
void vb_port_group_drain_own(struct vb_port_group *group);
/* No more waiting for survivors: steer by what is known. */
void vb_port_group_settle(struct vb_port_group *group);
/* Where the program is stale, packets reach the wrong process: attach it once more. 0 or -errno. */
int vb_port_group_reattach(struct vb_port_group *group);

#endif
