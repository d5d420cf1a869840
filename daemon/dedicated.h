/* SPDX-License-Identifier: MIT
 *
 * Sockets that receive one flow of a slot (io/udp_dedicated.c): for speed, one for each lane at most, and one that is asked for takes the
 * place of the one before. A process asks for flows that bring packets for no other (links/udp/dedicated.h); who holds a socket of the port
 * could take any, by connecting it.
 *
 * We keep a duplicate of each: when the slot is given back it must not receive any more, and a child that the process forked may hold it
 * open. A new daemon knows nothing of them, and processes that survive the one before do without theirs.
 */
#ifndef VB_DAEMON_DEDICATED_H
#define VB_DAEMON_DEDICATED_H

struct vb_client;
struct vb_daemon_message;

/* By the connection that has the slot. Answered, if only by one that says that there is none. */
void vb_dedicated_open(struct vb_client *client, const struct vb_daemon_message *message);
/* All of the slot's. */
void vb_dedicated_close(struct vb_client *client);

#endif
