/* SPDX-License-Identifier: MIT
 *
 * A multicast group that an id has joined.
 */
#ifndef VB_RDMACM_MULTICAST_GROUP_H
#define VB_RDMACM_MULTICAST_GROUP_H

#include "rdmacm/channel.h"
#include "rdmacm/id.h"

struct vb_rdmacm_group {
	struct vb_list node;             /* in id->groups, under id->lock */
	struct vb_rdmacm_id *id;
	struct sockaddr_storage address;
	socklen_t address_length;
	union ibv_gid gid;
	uint32_t flags;
	void *context;
	bool attached;
	uint64_t cookie;                 /* InfiniBand: verbenad's answer names it */
	uint16_t lid;                    /* InfiniBand: the group's, as the subnet manager gave it */
	unsigned unacked;                /* events that point here: queued or handed out; under id->lock */
};

/* MULTICAST_JOIN is being taken: attach the QP, fill in the event (which becomes MULTICAST_ERROR if that fails). */
void vb_rdmacm_multicast_take(struct vb_rdmacm_event *event);
/* The same of InfiniBand's groups, which verbenad has joined. False: the id has left it meanwhile. */
bool vb_rdmacm_multicast_take_told(struct vb_rdmacm_event *event);
void vb_rdmacm_multicast_acknowledge(struct vb_rdmacm_group *group);

/* The id is going; its events are all acknowledged. */
void vb_rdmacm_multicast_leave_all(struct vb_rdmacm_id *id);

#endif
