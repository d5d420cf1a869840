/* SPDX-License-Identifier: MIT
 *
 * Slots: who has which, and whose port receives for it.
 *
 * A slot is the upper ten bits of a process's queue pair numbers. Its sockets, and those of its lanes (lanes.h), are in the group of a
 * UDP port, which processes that trust each other share (port_group.h):
 *
 *   port 4791        the daemon itself (slot 0, QP1), processes of its own user and of root, and users of the group of
 *                    which the administrator says that they trust each other (--trust-group)
 *   no port          processes that use only devices that are reached by TCP: their slot is a range of numbers. Where port
 *                    4791 is another program's, such devices can still be had
 *   one port a user  everybody else. The system hands packets for their slots to it (slot_map.h); where it cannot, these
 *                    users are refused
 *
 * The ports of users are below 1024 and unassigned by IANA: where the daemon and all processes of a user have died,
 * no other user can bind the port to which packets still go.
 */
#ifndef VB_DAEMON_SLOTS_H
#define VB_DAEMON_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/list.h"
#include "base/time.h"
#include "daemon/port_group.h"
#include "daemon/slot_map.h"

struct vb_client;

/* A port and the processes on it. */
struct vb_slot_group {
	struct vb_list node;
	uid_t uid;                         /* whose port; unset for port 4791 */
	struct vb_port_group port;
	vb_time settle_deadline, probe_deadline, retry_deadline;
};

struct vb_slots {
	bool system;
	bool has_trusted;
	gid_t trusted;                     /* users of this group share port 4791 */
	int poller;
	struct vb_list *clients;
	struct vb_slot_group shared;       /* port 4791 */
	struct vb_list groups;             /* of users */
	bool own_watched;
	int map_error;                     /* why there is no map */
	struct vb_slot_map map;
	bool inherited;                    /* a predecessor left the map: only what it says can be claimed */
	bool taken[VB_DAEMON_SLOTS];
};

void vb_slots_init(struct vb_slots *slots, struct vb_list *clients, int poller);
/* Serve every user: read what a predecessor left, and who among them trust each other (NULL: none). 0, also where there is no
 * nf_tables and the daemon serves its own user; or -errno: what the predecessor left could not be read this time. */
int vb_slots_serve_users(struct vb_slots *slots, const gid_t *trusted);
void vb_slots_fini(struct vb_slots *slots);

/* Open port 4791 for QP1, unless it is open. 0 or -errno with a sentence. */
int vb_slots_open_port(struct vb_slots *slots, char *why, size_t room);
void vb_slots_close_port(struct vb_slots *slots);
/* Slot 0's socket, which the poller knows by this pointer; NULL: the tag is something else's. */
struct vb_port_family *vb_slots_own_family(struct vb_slots *slots, void *tag);
/* The tag of the map's watch. */
bool vb_slots_is_map(const struct vb_slots *slots, const void *tag);

/* Messages of processes. Each is answered. */
void vb_slots_open(struct vb_slots *slots, struct vb_client *client, const struct vb_daemon_message *message);
void vb_slots_adopt(struct vb_slots *slots, struct vb_client *client, const struct vb_daemon_message *message, const int *fds);
void vb_slots_probe_seen(struct vb_slots *slots, struct vb_client *client, uint32_t lane, uint64_t nonce);
/* What came to slot 0's socket on port 4791: a probe, by which we see where that socket stands? */
bool vb_slots_is_probe(struct vb_slots *slots, struct vb_port_family *family, const void *bytes, size_t length);
/* For want of descriptors a process could not say what it has: while that lasts no packets are given up. */
void vb_slots_turned_away(struct vb_slots *slots);
/* The same of a port whose group one process could not be taken into. */
void vb_slots_await_longer(struct vb_slot_group *group);
/* Sockets have come or gone: ask who stands at the places that are not known. */
void vb_slots_ask_places(struct vb_slot_group *group);
/* The slot is given back with its lanes, if it has one. */
void vb_slots_release(struct vb_slots *slots, struct vb_client *client);

/* Does the queue pair belong to a process of another user? */
bool vb_slots_is_foreign(const struct vb_slots *slots, const struct vb_client *client, uint32_t qpn);

vb_time vb_slots_deadline(const struct vb_slots *slots);
void vb_slots_expire(struct vb_slots *slots, vb_time now);

#endif
