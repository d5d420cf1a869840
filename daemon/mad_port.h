/* SPDX-License-Identifier: MIT
 *
 * A process's socket for MADs (wire/umad.h): what /dev/infiniband/umad0 is elsewhere. It lives as long as the
 * connection that opened it, or until the process closes it.
 */
#ifndef VB_DAEMON_MAD_PORT_H
#define VB_DAEMON_MAD_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "wire/ib_packet.h"
#include "wire/umad.h"

struct vb_client;

struct vb_mad_port {
	struct vb_list node;
	struct vb_client *client;          /* that opened it */
	int fd, poller;
	bool failed;                       /* closed by the process, or it does not read */
	bool wants_write;                  /* the poller tells when there is room */
	struct vb_list unsent;
	size_t unsent_bytes;
};

/* *other is the process's end. NULL and an error: -errno. */
struct vb_mad_port *vb_mad_port_create(struct vb_client *client, int poller, int *other, int *error);
void vb_mad_port_destroy(struct vb_mad_port *port);

/* Hand a message to the process, or keep it until it reads. */
void vb_mad_port_deliver(struct vb_mad_port *port, const struct vb_umad *header, const void *message, size_t length);
void vb_mad_port_flush(struct vb_mad_port *port);
/* The next message of the process: its header, and malloc'ed bytes behind it. 0 or -errno: -EAGAIN none, -EPROTO
 * nonsense, -ECONNRESET closed. */
int vb_mad_port_receive(struct vb_mad_port *port, struct vb_umad *header, void **message, size_t *length);

#endif
