/* SPDX-License-Identifier: MIT
 *
 * SOCK_SEQPACKET Unix sockets: whole messages, descriptors along with them, and the kernel's word on who is at the
 * other end. An abstract name belongs to the network namespace and vanishes with its last socket; the process that
 * binds it first has it. A name that begins with a slash is a path, where only who may write to the directory can
 * listen.
 */
#ifndef VB_IO_UNIX_SOCKET_H
#define VB_IO_UNIX_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/time.h"

enum { VB_UNIX_MAX_FDS = 8, VB_UNIX_BATCH = 16 };

struct vb_unix_peer {
	pid_t pid;
	uid_t uid;
	gid_t gid;
};

/* Descriptor or -errno. listen: non-blocking; -EADDRINUSE means that a process listens already. A path that no process
 * listens on any more is taken over. */
int vb_unix_listen(const char *name);
/* A listener that does not accept, and has no room for one more to wait, is waited for: ten seconds, or `patience`. Then -EAGAIN. */
int vb_unix_connect(const char *name);
int vb_unix_connect_within(const char *name, vb_time patience);
/* Is there a socket at the path, on which no process listens? */
bool vb_unix_is_deserted(const char *path);
/* A socket for a name alone, to which none can connect. While any process has it no other socket can have the name. Descriptor or -errno;
 * 0 or -errno: -EADDRINUSE another has the name, and a further one may be tried. */
int vb_unix_open(void);
int vb_unix_bind(int fd, const char *name);
/* Is this such a listening socket, come from elsewhere? Made non-blocking. */
bool vb_unix_is_listener(int fd);
/* What its peer does not read takes little of the kernel's memory. */
int vb_unix_accept(int listener);

/* Two ends of one connection, the first non-blocking. 0 or -errno. */
int vb_unix_pair(int fds[2]);

/* As much as the system lets us keep on the way from this end. */
void vb_unix_widen(int fd);

/* Of a connected end: who connected. Of a connecting end: who listens (as of his call to listen). */
int vb_unix_peer(int fd, struct vb_unix_peer *peer);
/* Was who connected in that group, by its first or any other? */
bool vb_unix_peer_is_in_group(int fd, gid_t gid);

/* 0 or -errno; without `wait`, -EAGAIN when the peer does not read. With it, the kernel has a while to find memory. */
int vb_unix_send(int fd, const void *bytes, size_t length, const int *fds, unsigned count, bool wait);

/* One message of several parts; if the peer does not read, wait for it, but not beyond `patience`. 0 or -errno. */
int vb_unix_send_parts(int fd, const struct iovec *parts, unsigned count, vb_time patience);

/* Length of one message; 0: the peer hung up; -EAGAIN: nothing until the deadline (past: only look); -EMSGSIZE:
 * longer than `room` or with more descriptors than asked for (all closed); -EMFILE: the message is in `bytes`, but this process has no
 * descriptors left for those that came with it (all closed; the sender has its own). Received descriptors are close-on-exec and the
 * caller's. */
ssize_t vb_unix_receive(int fd, void *bytes, size_t room, int *fds, unsigned most, unsigned *count, vb_time deadline);

/* One of several messages. */
struct vb_unix_message {
	void *bytes;
	size_t room;
	ssize_t length;                  /* as vb_unix_receive would return it */
	int fds[VB_UNIX_MAX_FDS];
	unsigned count;                  /* of descriptors */
};

/* Those that are there, by one system call, after waiting for the first until the deadline. How many, or -errno. `most`: VB_UNIX_BATCH or
 * less. */
int vb_unix_receive_several(int fd, struct vb_unix_message *messages, unsigned most, vb_time deadline);

/* Those that the peer has room for, by one system call, in order. How many, or -errno of the first. `count`: VB_UNIX_BATCH or less. */
int vb_unix_send_several(int fd, const struct iovec *messages, unsigned count);

#endif
