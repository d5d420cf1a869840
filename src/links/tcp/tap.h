/* SPDX-License-Identifier: MIT
 *
 * What stands between streams and their sockets when a user asked for it: a capture of the bytes that pass
 * (VERBENA_CAPTURE), faults on purpose (VERBENA_FAULTS). Without either there is no tap, streams are not tapped, and a
 * test of a pointer for each call is all that it costs.
 */
#ifndef VB_LINKS_TCP_TAP_H
#define VB_LINKS_TCP_TAP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/time.h"

struct vb_handover_terms;
struct vb_iwarp_out;
struct vb_schedule;
struct vb_tcp_tap;
struct vb_tcp_tapped;

/* As the environment says: *tap stays NULL where it says nothing. 0 or -errno with the reason logged. */
int vb_tcp_tap_open(struct vb_tcp_tap **tap, const struct vb_schedule *schedule);
void vb_tcp_tap_close(struct vb_tcp_tap *tap);
/* In a forked child. */
void vb_tcp_tap_abandon(struct vb_tcp_tap *tap);

/* A stream begins, on that socket, for that queue pair. NULL: no memory. */
struct vb_tcp_tapped *vb_tcp_tapped_create(struct vb_tcp_tap *tap, int fd, uint32_t qpn, const struct vb_handover_terms *terms);

/* As vb_tcp_send and vb_tcp_receive. *full: the socket takes no more now. Fewer bytes without that: the rest is held back until
 * vb_tcp_tapped_due. Caller holds the queue pair's lock, or progress where there is none. */
ssize_t vb_tcp_tapped_send(struct vb_tcp_tapped *tapped, const struct vb_iwarp_out *out, vb_time now, bool *full);
ssize_t vb_tcp_tapped_receive(struct vb_tcp_tapped *tapped, const struct iovec *spans, unsigned count);
/* Until when nothing is sent; 0: it may be. */
vb_time vb_tcp_tapped_due(const struct vb_tcp_tapped *tapped);

/* We have said, or heard, that nothing more will come; the stream was reset by us, or by the peer. */
enum vb_tcp_tapped_end { VB_TCP_FIN_SENT, VB_TCP_FIN_RECEIVED, VB_TCP_RST_SENT, VB_TCP_RST_RECEIVED };
void vb_tcp_tapped_ends(struct vb_tcp_tapped *tapped, enum vb_tcp_tapped_end how);

#endif
