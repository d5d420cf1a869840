/* SPDX-License-Identifier: MIT
 *
 * A connection to verbenad: found, or started if need be, checked, greeted. For all that talk to it: endpoints, device
 * lists, the command line, connection management.
 *
 * A process trusts only a verbenad run by root, by the account `verbena` or by its own user: the user who runs the daemon
 * decides which packets the process sees.
 */
#ifndef VB_IO_DAEMON_CLIENT_H
#define VB_IO_DAEMON_CLIENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/time.h"
#include "wire/daemon_message.h"

struct vb_daemon_client {
	int fd;
	uint32_t sequence;                 /* of the last request */
	uint32_t pid, uid;                 /* of the daemon; the former also of one that did not answer */
	vb_time patience;                  /* with each answer */
	bool is_system;
	char version[32];
};

/* 0 or -errno, with the reason logged: -EACCES another user's daemon, -ECONNREFUSED none (and may_start is not set),
 * -ENOENT no verbenad to start. */
int vb_daemon_client_connect(struct vb_daemon_client *client, bool may_start);
/* One that runs, or nothing: never starts any, says nothing, waits no longer than `patience` for its welcome,
 * nor for an answer to requests. */
int vb_daemon_client_reach(struct vb_daemon_client *client, vb_time patience);
void vb_daemon_client_close(struct vb_daemon_client *client);

/* One checked message. 0 or -errno: -EAGAIN nothing until the deadline, -ECONNRESET the daemon is gone, -EPROTO it
 * talks nonsense. Descriptors: at most VB_DAEMON_MAX_FDS, the caller's. */
int vb_daemon_client_receive(struct vb_daemon_client *client, struct vb_daemon_message *message, int *fds,
			     unsigned *count, vb_time deadline);
/* Sends; fills in the sequence number. */
int vb_daemon_client_send(struct vb_daemon_client *client, struct vb_daemon_message *message, const int *fds,
			  unsigned count);

/* Send a request and give every message of its answer to `take`, until that returns false or the answer ends (END,
 * or an answer of one message). 0 or -errno; an ERROR answer is logged and becomes its errno. News that come in
 * between are given to `take` too: their sequence is 0. */
typedef bool vb_daemon_take(void *context, const struct vb_daemon_message *message, const int *fds, unsigned count);
int vb_daemon_client_request(struct vb_daemon_client *client, struct vb_daemon_message *request, const int *fds,
			     unsigned count, vb_daemon_take *take, void *context);
/* The same for what the process can do without: that it was refused is no error. */
int vb_daemon_client_try(struct vb_daemon_client *client, struct vb_daemon_message *request, vb_daemon_take *take, void *context);

#endif
