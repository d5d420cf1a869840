/* SPDX-License-Identifier: MIT
 *
 * Whole Ethernet frames of one interface: packet(7) with SOCK_RAW. Making such a socket takes CAP_NET_RAW in the user
 * namespace that owns the network namespace, using it does not.
 *
 * Frames look as they would on a wire: a VLAN tag that the kernel has taken out is put back.
 */
#ifndef VB_IO_PACKET_SOCKET_H
#define VB_IO_PACKET_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* It can send, and receives nothing yet. Descriptor, non-blocking, or -errno: -EPERM without the capability. */
int vb_packet_socket_open(uint32_t interface_index);
/* Let frames come in: none, those that the interface takes anyway, or all that pass it. What has come and was not read stays. */
enum vb_packet_socket_reach { VB_PACKETS_NONE, VB_PACKETS_OWN, VB_PACKETS_ALL };
void vb_packet_socket_listen(int fd, uint32_t interface_index, enum vb_packet_socket_reach reach, enum vb_packet_socket_reach before);

/* Throw away what has come, at most so many frames. */
void vb_packet_socket_discard(int fd, unsigned most);
/* That the interface went down is told once; no caller needs to hear it. */
void vb_packet_socket_clear_error(int fd);

/* Send as many as the system takes now: how many of them (0 to count), and why not the next one: 0, or -errno. */
unsigned vb_packet_socket_send(int fd, const uint8_t *const *frames, const uint32_t *lengths, unsigned count, int *error);

enum { VB_PACKET_BATCH = 32 };

struct vb_packet {
	const uint8_t *bytes;
	size_t length;                   /* 0: it was longer than any frame may be, or is none of interest */
	bool is_sent;                    /* by this host */
};

struct vb_packet_batch;
struct vb_packet_batch *vb_packet_batch_create(void);
void vb_packet_batch_destroy(struct vb_packet_batch *batch);
/* Take what waits, at most `most` (and VB_PACKET_BATCH) frames, without waiting: how many, or -errno. */
int vb_packet_batch_receive(struct vb_packet_batch *batch, int fd, unsigned most);
const struct vb_packet *vb_packet_batch_at(const struct vb_packet_batch *batch, unsigned index);

#endif
