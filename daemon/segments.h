/* SPDX-License-Identifier: MIT
 *
 * verbenad as a broker of shared segments (local/segment.h): who may reach whom through memory. A segment goes only to
 * processes of the same user, and only to one that names a GID of this host: what the kernel says about both ends of
 * the sockets is the proof. verbenad itself never looks at a segment.
 */
#ifndef VB_DAEMON_SEGMENTS_H
#define VB_DAEMON_SEGMENTS_H

#include <stdint.h>

struct vb_client;
struct vb_daemon_message;
struct vb_device_table;
struct vb_list;

/* The descriptors stay the caller's. */
void vb_segments_show(struct vb_client *client, const struct vb_daemon_message *message, const int *fds);
void vb_segments_ask(struct vb_list *client_list, const struct vb_device_table *devices, struct vb_client *asker,
		   const struct vb_daemon_message *message);

#endif
