/* SPDX-License-Identifier: MIT
 *
 * Connections of devices that speak by TCP (iWARP): sockets from the SYN to the end of the MPA handshake, when libibverbs takes them
 * over, and what is heard of them afterwards. One thread ("verbena-mpa") waits on all of them.
 *
 *   listen:  socket ─▶ accepted ─▶ request whole ─▶ CONNECT_REQUEST ─▶ rdma_accept: reply, handed over ─▶ ESTABLISHED
 *   connect: SYN ─▶ connected ─▶ request sent ─▶ reply whole, handed over ─▶ ESTABLISHED
 *   end:     libibverbs reports it ─▶ DISCONNECTED
 *
 * A socket that has not shown a whole request within five seconds is closed, and so is the oldest when there are too many.
 */
#ifndef VB_RDMACM_STREAMS_H
#define VB_RDMACM_STREAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "connect/mpa.h"
#include "io/tcp.h"
#include "rdmacm/id.h"

/* Bound, and to listen: can nothing but a stream come to it? */
bool vb_rdmacm_streams_serve_alone(const struct vb_rdmacm_id *id);

struct vb_rdmacm_private_data {
	const void *bytes;
	size_t length;                   /* at most VB_MPA_MAX_PRIVATE */
};

/* All: 0 or -errno; caller holds no lock. */

/* A socket at that address for an id that may come to need one; *fd -1: it does not. */
int vb_rdmacm_streams_bind(const struct vb_rdmacm_id *id, const struct vb_cm_address *source, int *fd);
/* The id's bound socket listens from now on. */
int vb_rdmacm_streams_listen(struct vb_rdmacm_id *id);
/* The queue pair of that number will have the connection. */
int vb_rdmacm_streams_connect(struct vb_rdmacm_id *id, uint32_t qpn, struct vb_rdmacm_private_data data);
int vb_rdmacm_streams_accept(struct vb_rdmacm_id *id, uint32_t qpn, struct vb_rdmacm_private_data data);
int vb_rdmacm_streams_reject(struct vb_rdmacm_id *id, struct vb_rdmacm_private_data data);
int vb_rdmacm_streams_disconnect(struct vb_rdmacm_id *id);
/* An interface is gone: ids of requests, of which verbenad does not know, hear of it. Caller may hold the link's lock. */
void vb_rdmacm_streams_interface_gone(uint32_t interface_index);
/* The id has left its channel: what was to be woken there was, so the channel may go. */
void vb_rdmacm_streams_left(const struct vb_rdmacm_id *id);
/* The id goes: whatever it has is ended, and nothing more is told of it. */
void vb_rdmacm_streams_forget(struct vb_rdmacm_id *id);

#endif
