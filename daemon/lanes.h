/* SPDX-License-Identifier: MIT
 *
 * Lanes of slots: more sockets for the packets of one process, so that its threads receive without meeting.
 *
 * A lane belongs to a slot and goes with it. Any connection of the process that has the slot may ask for one, for its threads have
 * connections of their own; no other process may. There are few (group_order.h), and a user has at most half of those that others leave
 * (users.h): a process that is refused one receives at its slot's own sockets.
 */
#ifndef VB_DAEMON_LANES_H
#define VB_DAEMON_LANES_H

struct vb_client;
struct vb_daemon_message;
struct vb_slots;

/* Messages of processes. Each is answered. */
void vb_lanes_open(struct vb_slots *slots, struct vb_client *client, const struct vb_daemon_message *message);
void vb_lanes_close(struct vb_slots *slots, struct vb_client *client, const struct vb_daemon_message *message);
/* After a daemon's death, by the connection that has the slot. */
void vb_lanes_adopt(struct vb_client *client, const struct vb_daemon_message *message, const int *fds);

#endif
