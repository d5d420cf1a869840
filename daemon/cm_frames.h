/* SPDX-License-Identifier: MIT
 *
 * QP1 in RoCEv1's frames (io/ethernet.h): the socket by which the connection manager's messages between GIDs of that version leave and
 * come. It is made when a process of this host first has one of its own, which is when such GIDs are in use.
 */
#ifndef VB_DAEMON_CM_FRAMES_H
#define VB_DAEMON_CM_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

struct vb_burst;
struct vb_cm_frames;
struct vb_path;
struct vb_udp_bundle;

/* NULL: out of memory. The socket's tag in `poller` is what is returned. */
struct vb_cm_frames *vb_cm_frames_create(int poller);
void vb_cm_frames_destroy(struct vb_cm_frames *frames);

/* 0 or -errno: -EPERM without CAP_NET_RAW. */
int vb_cm_frames_open(struct vb_cm_frames *frames);
bool vb_cm_frames_are_open(const struct vb_cm_frames *frames);

/* The one packet of the burst. False: it is not known yet to which Ethernet address; the kernel asks for it. */
bool vb_cm_frames_send(struct vb_cm_frames *frames, const struct vb_burst *burst);
/* Take what waits: how many. */
unsigned vb_cm_frames_receive(struct vb_cm_frames *frames);
const struct vb_udp_bundle *vb_cm_frames_at(const struct vb_cm_frames *frames, unsigned index);

/* Of a frame on that path, for a capture. */
void vb_cm_frames_addresses(struct vb_cm_frames *frames, const struct vb_path *path, bool sent, uint8_t destination[6], uint8_t source[6]);

#endif
