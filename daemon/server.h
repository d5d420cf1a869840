/* SPDX-License-Identifier: MIT
 *
 * verbenad's one thread: the listening socket, the processes connected to it, the port group and the device table.
 */
#ifndef VB_DAEMON_SERVER_H
#define VB_DAEMON_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/time.h"

struct vb_server;

struct vb_server_config {
	bool system;                       /* serve every user, never exit */
	bool has_trusted;                  /* users of that group trust each other */
	gid_t trusted;
	vb_time idle;                      /* exit when no client was connected for so long */
	vb_time first;                     /* but wait for the first client for so long at least */
};

/* The listeners are from vb_unix_listen (-1: none) and become the server's. 0 or -errno. */
enum { VB_SERVER_LISTENERS = 2 };
int vb_server_create(struct vb_server **server, const int listener[VB_SERVER_LISTENERS], const struct vb_server_config *config);
/* One round: waits until something is there or due, but not beyond `until`, and sees to all of it. True: it is idle, and may end. */
bool vb_server_turn(struct vb_server *server, vb_time until);
/* Until idle. */
void vb_server_run(struct vb_server *server);
void vb_server_destroy(struct vb_server *server);

#endif
