/* SPDX-License-Identifier: MIT
 *
 * How the two ends of a cable of memory (io/frame_ring.h) find each other, across network namespaces: a SOCK_SEQPACKET socket in a
 * directory of the user's own, /tmp/verbena-UID. Either end sees by SO_PEERCRED that the other is of the same user, and goes by UDP
 * where not.
 *
 *   process -> fabric     struct vb_cable_plug, with the memory
 *   fabric -> process     one byte: it is plugged in
 *   either way            one byte: wake up. And when either ends, the other sees it
 */
#ifndef VB_IO_MEMORY_CABLE_H
#define VB_IO_MEMORY_CABLE_H

#include <stdbool.h>
#include <stdint.h>

enum { VB_MEMORY_CABLE_NAME = 16 };

/* Descriptor or -errno. What other fabrics of this user have left there, that were killed, is taken away. */
int vb_memory_cable_listen(const uint8_t name[VB_MEMORY_CABLE_NAME]);
void vb_memory_cable_hide(const uint8_t name[VB_MEMORY_CABLE_NAME]);
/* To who listens under that name; -EPERM: that is another user. */
int vb_memory_cable_connect(const uint8_t name[VB_MEMORY_CABLE_NAME]);
/* Of the same user as we are? */
bool vb_memory_cable_is_ours(int line);

void vb_memory_cable_ring(int line);
/* Take what rang. False: the other end is gone. *rang: it did. */
bool vb_memory_cable_heard(int line, bool *rang);

#endif
