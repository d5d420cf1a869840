/* SPDX-License-Identifier: MIT
 *
 * RoCEv1 on packet sockets: frames of EtherType 0x8915, GRH first (IBA annex A16). See packet(7).
 *
 * Making such a socket takes CAP_NET_RAW, using it does not: verbenad makes one for each process that asks. Each has a
 * filter that passes frames for queue pairs of one slot (wire/daemon_message.h) and for multicast groups, and that no
 * program can take off again. The kernel writes and removes the Ethernet header.
 */
#ifndef VB_IO_ETHERNET_H
#define VB_IO_ETHERNET_H

#include <stdbool.h>
#include <stdint.h>

struct vb_burst;
struct vb_udp_bundle;

/* For one slot. Descriptor, non-blocking, or -errno: -EPERM without CAP_NET_RAW. Nothing comes in yet. */
int vb_ethernet_open(uint32_t slot);
/* From now on frames come in from that interface, 0: from all. It takes no privilege; where it is done again frames are lost meanwhile.
 * 0 or -errno. */
int vb_ethernet_listen(int fd, uint32_t interface_index);
/* Does what comes from elsewhere look like what vb_ethernet_open makes? */
bool vb_ethernet_is_socket(int fd);

/* The interface's own Ethernet address; zeros: it is gone. */
void vb_ethernet_own_address(int fd, uint32_t interface_index, uint8_t mac[6]);

/* Frames to that multicast address come in on the interface, or no more. 0 or -errno. */
int vb_ethernet_join(int fd, const uint8_t mac[6], uint32_t interface_index, bool join);

/* Send run number `run` of the burst, whose path names the interface, to that Ethernet address. Returns how many
 * packets were not sent. */
uint32_t vb_ethernet_send_run(int fd, const struct vb_burst *burst, uint32_t run, const uint8_t mac[6]);

enum { VB_ETHERNET_BATCH = 32 };

struct vb_ethernet_batch;
struct vb_ethernet_batch *vb_ethernet_batch_create(void);
void vb_ethernet_batch_destroy(struct vb_ethernet_batch *batch);
/* Take what waits, without waiting: how many bundles, of VB_ETHERNET_BATCH frames at most, or -errno. Frames that are alike but for what
 * their packets say, one behind the other, are one bundle. Those that are no sound frames of ours are among them, with length 0. */
int vb_ethernet_batch_receive(struct vb_ethernet_batch *batch, int fd);
/* Packets from the BTH on, all of one length. */
const struct vb_udp_bundle *vb_ethernet_batch_at(const struct vb_ethernet_batch *batch, unsigned index);

#endif
