/* SPDX-License-Identifier: MIT
 *
 * What stands between the link and its sockets when a user asked for it: a capture of everything that passes
 * (VERBENA_CAPTURE), faults on purpose (VERBENA_FAULTS). Without either there is no tap, and one test of a pointer is
 * all that it costs.
 */
#ifndef VB_LINKS_UDP_TAP_H
#define VB_LINKS_UDP_TAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/time.h"
#include "wire/roce_packet.h"

struct vb_burst;
struct vb_qp;
struct vb_queue_observer;
struct vb_tap;
struct vb_udp_link;

/* As the environment says: *tap stays NULL where it says nothing. 0 or -errno with the reason logged. */
int vb_tap_open(struct vb_tap **tap, struct vb_udp_link *udp);
void vb_tap_close(struct vb_tap *tap);
/* In a forked child. */
void vb_tap_abandon(struct vb_tap *tap);

/* A burst of the QP's is about to be sent. True: the tap has sent it itself, and *lost packets of it were not taken by
 * the kernel. False: send it as it now is, for packets may have been taken out of it. Caller holds qp->lock. */
bool vb_tap_sending(struct vb_tap *tap, const struct vb_qp *qp, struct vb_burst *burst, uint32_t *lost);
/* Does each packet leave by itself? */
bool vb_tap_parts(const struct vb_tap *tap);
/* Must it see each packet that comes in? */
bool vb_tap_captures(const struct vb_tap *tap);
/* A datagram came in. Caller holds progress. */
void vb_tap_received(struct vb_tap *tap, const struct vb_path *from, const uint8_t *bytes, size_t length,
		     enum vb_roce_decode_result result);
/* The end of a batch of them. */
void vb_tap_flush(struct vb_tap *tap);

/* NULL: no record is kept. */
const struct vb_queue_observer *vb_tap_observer(const struct vb_tap *tap);

#endif
