/* SPDX-License-Identifier: MIT
 *
 * A capture file while it is written: by this process, and perhaps by others at the same time.
 */
#ifndef VB_CAPTURE_WRITER_H
#define VB_CAPTURE_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include "base/time.h"
#include "capture/record.h"
#include "wire/path.h"

struct vb_capture;
struct vb_frame_tcp;

/* Begin the file, or join those who write to it. While it is open a shared lock (flock(2)) says so. 0 or -errno: -EEXIST
 * there is a file of another kind. */
int vb_capture_open(struct vb_capture **capture, const char *path);
void vb_capture_close(struct vb_capture *capture);
/* In a forked child: only give up the descriptor. */
void vb_capture_abandon(struct vb_capture *capture);

/* Append. pid, host and, where it is 0, the time are filled in; times are given on the monotonic clock. Thread safe. */
void vb_capture_note(struct vb_capture *capture, struct vb_capture_record *record);
/* With a packet of RoCEv2: `record->time` or, when it was received, `record->received` says when. */
void vb_capture_packet(struct vb_capture *capture, struct vb_capture_record *record, const struct vb_path *path,
		       uint16_t ip_id, const uint8_t *datagram, size_t length, const char *comment);
/* With one of RoCEv1, from the GRH's path on, between those Ethernet addresses. */
void vb_capture_ethernet(struct vb_capture *capture, struct vb_capture_record *record, const struct vb_path *path,
			 const uint8_t destination[6], const uint8_t source[6], const uint8_t *packet, size_t length, const char *comment);
/* With a frame of InfiniBand, LRH to ICRC. */
void vb_capture_infiniband(struct vb_capture *capture, struct vb_capture_record *record, const uint8_t *frame, size_t length,
			   const char *comment);
/* With a part of a TCP stream, at most VB_FRAME_TCP_MOST bytes. */
void vb_capture_segment(struct vb_capture *capture, struct vb_capture_record *record, const struct vb_frame_tcp *segment,
			const uint8_t *bytes, size_t length, const char *comment);
/* What was appended reaches the file: to be called at the end of each batch, so that a killed process loses nothing. */
void vb_capture_flush(struct vb_capture *capture);

#endif
