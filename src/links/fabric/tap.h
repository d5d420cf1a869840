/* SPDX-License-Identifier: MIT
 *
 * A capture of the frames that pass (VERBENA_CAPTURE), and faults on purpose (VERBENA_FAULTS). Without either there is no tap, and one test
 * of a pointer per message is all that it costs. Work posted and completed is recorded elsewhere, for all links (links/udp/tap.c).
 */
#ifndef VB_LINKS_FABRIC_TAP_H
#define VB_LINKS_FABRIC_TAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vb_burst;
struct vb_fabric_link;
struct vb_fabric_tap;
struct vb_qp;

/* As the environment says: *tap stays NULL where it says nothing. 0 or -errno with the reason logged. */
int vb_fabric_tap_open(struct vb_fabric_tap **tap, struct vb_fabric_link *fabric, uint32_t slot);
void vb_fabric_tap_close(struct vb_fabric_tap *tap);
/* In a forked child. */
void vb_fabric_tap_abandon(struct vb_fabric_tap *tap);

/* A burst of the QP's is about to be sent. True: the tap has sent it itself, and *lost packets of it were not taken. False: send it as it
 * now is, for packets may have been taken out of it. Caller holds qp->lock. */
bool vb_fabric_tap_sending(struct vb_fabric_tap *tap, const struct vb_qp *qp, struct vb_burst *burst, uint32_t *lost);
/* A frame came in; is it sound? */
void vb_fabric_tap_received(struct vb_fabric_tap *tap, const uint8_t *frame, size_t length, bool is_sound);
/* The end of a batch of either. */
void vb_fabric_tap_flush(struct vb_fabric_tap *tap);

#endif
