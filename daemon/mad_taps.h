/* SPDX-License-Identifier: MIT
 *
 * Captures that hear of the MADs which pass the adapter's cable (wire/mad_tap.h).
 */
#ifndef VB_DAEMON_MAD_TAPS_H
#define VB_DAEMON_MAD_TAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/time.h"

struct vb_mad_taps {
	struct vb_list taps;
};

void vb_mad_taps_init(struct vb_mad_taps *taps);
void vb_mad_taps_fini(struct vb_mad_taps *taps);

/* One more. The process's end, or -errno: -EUSERS there are enough. */
int vb_mad_taps_open(struct vb_mad_taps *taps);
/* A frame passes: those who capture are told if it is a MAD. A tap whose process is gone goes. */
void vb_mad_taps_tell(struct vb_mad_taps *taps, vb_time now, bool sent, const uint8_t *frame, size_t length);

#endif
