/* SPDX-License-Identifier: MIT
 *
 * RoCEv1 beside RoCEv2: the same packets in Ethernet frames of their own (io/ethernet.h), for paths with that framing. A path names the
 * interface and a GID; which Ethernet address that is, is found out here.
 */
#ifndef VB_LINKS_UDP_FRAMES_H
#define VB_LINKS_UDP_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

struct vb_burst;
struct vb_daemon_client;
struct vb_frames;
struct vb_path;
struct vb_udp_bundle;

/* With a socket for this process, from verbenad. 0 or -errno, which was logged if it is `asked_for`; *frames stays what it was then. */
int vb_frames_open(struct vb_frames **frames, struct vb_daemon_client *daemon, bool asked_for);
void vb_frames_close(struct vb_frames *frames);
int vb_frames_descriptor(const struct vb_frames *frames);

/* Which interfaces frames come in from: of a process without queue pairs none, of one with queue pairs on one interface that one, and of
 * others all. The kernel offers a frame to sockets that hear all interfaces first, verbenad's among them, and the last socket in the
 * row takes it as it is; for those before it a copy of its description is made, which cost a seventh of the bandwidth. */
#define VB_FRAMES_FROM_NONE 0u
#define VB_FRAMES_FROM_ALL UINT32_MAX
/* From that one as well. `from` is atomic. True: it is another now, and vb_frames_listen is to be called. */
bool vb_frames_widen(uint32_t *from, uint32_t interface_index);
/* From now on they come in as *from says, whichever thread changed it last. */
void vb_frames_listen(struct vb_frames *frames, const uint32_t *from);

/* Returns how many packets of the run were not sent. */
uint32_t vb_frames_send(struct vb_frames *frames, const struct vb_burst *burst, uint32_t run);

/* Take what waits; caller holds progress: how many, or -errno. Those of length 0 are no packets. */
int vb_frames_receive(struct vb_frames *frames);
const struct vb_udp_bundle *vb_frames_at(const struct vb_frames *frames, unsigned index);

/* The Ethernet addresses of a frame on that path, for a capture: one that this host sends, or has received. Zeros where one is not
 * known. `frames` may be NULL. */
void vb_frames_addresses(struct vb_frames *frames, const struct vb_path *path, bool sent, uint8_t destination[6], uint8_t source[6]);

/* Multicast. 0 or -errno. */
int vb_frames_join(struct vb_frames *frames, const uint8_t gid[16], uint32_t interface_index, bool join);

#endif
