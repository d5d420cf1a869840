/* SPDX-License-Identifier: MIT
 *
 * TCP streams of a story: segments become bytes in order, and these MPA frames and FPDUs. A capture of ours counts the bytes of a stream
 * from sequence number 1 on (the SYN has 0), at both ends; one of tcpdump has what travelled.
 */
#ifndef VB_CAPTURE_STREAMS_H
#define VB_CAPTURE_STREAMS_H

struct vb_story;

/* Streams that are not of iWARP are left out. A segment that was sent learns when its last byte was received, and those that say so and
 * nothing else are left out; both ends of a stream learn each other's queue pair. Times may be changed. 0 or -ENOMEM. */
int vb_streams_join(struct vb_story *story);

/* The same story with MPA frames and FPDUs, and the ends of streams, in the place of segments, for drawing. It points into `story`; free
 * it by vb_streams_release. 0 or -ENOMEM. */
int vb_streams_resolve(const struct vb_story *story, struct vb_story *resolved);
void vb_streams_release(struct vb_story *resolved);

#endif
