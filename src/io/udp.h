/* SPDX-License-Identifier: MIT
 *
 * RoCEv2 on UDP sockets.
 *
 * Receivers share port 4791: all bound with SO_REUSEPORT, one group per IP version, in which a BPF program picks the
 * socket (daemon/steering.h). Senders are sockets with source ports of their own; with path MTU discovery
 * forced their datagrams carry IP identification 0, and the segments of a UDP_SEGMENT send 0, 1, 2, ..., which the ICRC
 * relies on. Those that are connected to a peer count instead (udp_connect.c).
 *
 * Sending (udp_send.c): a run of a burst is one sendmsg. Receiving (udp_receive.c): a batch of bundles, each one or
 * more datagrams (UDP_GRO) of one flow.
 */
#ifndef VB_IO_UDP_H
#define VB_IO_UDP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/path.h"

struct sock_filter;
struct vb_burst;

/* A socket on that port (VB_ROCE_PORT, or one to which a rule of the system hands packets of it), appended to its group;
 * non-blocking. Descriptor or -errno: -EADDRINUSE the port is taken by another program, -EAFNOSUPPORT no such IP version
 * here. */
int vb_udp_open_receiver(bool ipv6, uint16_t port);
/* A receiver of one flow, which is no member of a group of `port`: of what comes from `source` and `source_port` to `destination`. It has
 * IPv6 addresses, mapped ones for IPv4. Descriptor or -errno: -EADDRNOTAVAIL packets to that peer would leave from another address. */
int vb_udp_open_dedicated(const struct vb_path *flow, uint16_t port);
/* From now on nothing comes to it, though others hold it open. 0 or -errno: then it is as it was. */
int vb_udp_leave_flow(int fd);
/* What that is before it is connected: on the port, in none of its groups, and nothing comes to it while these have sockets. It tells
 * nothing of packets but their bytes until it is asked to. */
int vb_udp_open_beside(uint16_t port);
/* A packet is to tell besides its bytes its addresses, traffic class and hop limit. */
int vb_udp_ask_for_headers(int fd, bool ipv6);
/* Bytes that may wait in it, as the kernel counts them; 0: not known. */
uint32_t vb_udp_receive_buffer(int fd);
/* Does no socket at all use the port, not even one of ours that a process kept? */
bool vb_udp_port_is_unused(bool ipv6, uint16_t port);
/* Bound to `port` alone. Sends block, for at most a tenth of a second. */
int vb_udp_open_sender(bool ipv6, uint16_t port);
/* The same for `own`, its source port and, where that can be, its source address. Whatever path it is used for, what
 * agrees with `own` in source, traffic class and hop limit the socket says of itself; where the address could not be
 * had, `own` has none on return. */
int vb_udp_open_sender_of(struct vb_path *own);

/* A receiver that comes from elsewhere: is it what vb_udp_open_receiver makes? */
bool vb_udp_is_receiver(int fd, bool ipv6, uint16_t port);
/* A number that tells sockets apart, the same through every descriptor of one; 0 if there is none. */
uint64_t vb_udp_cookie(int fd);

/* Mark the socket for good with a number that every holder can read and none can change. A marked socket cannot be
 * used to change the group's program either. */
int vb_udp_mark(int fd, uint16_t number);
/* 0 or -errno: -ENOENT it has no mark. */
int vb_udp_read_mark(int fd, uint16_t *number);

int vb_udp_attach_program(int fd, const struct sock_filter *program, unsigned length);
/* Take the socket out of its group although others may hold it open. Its place goes to the last of the group. */
int vb_udp_leave_group(int fd, bool ipv6);

/* Has it, for certain? A call that failed is not. */
bool vb_udp_has_left_group(int fd);

/* One datagram to that port on loopback: for probes. */
int vb_udp_send_loopback(int fd, bool ipv6, uint16_t port, const void *bytes, size_t length);

/* Join or leave a multicast group given as a GID. */
int vb_udp_join(int fd, const uint8_t gid[16], uint32_t interface_index, bool join);
/* A receiver of that group alone: bound to its address, it gets nothing else, whatever is done to it. Descriptor or -errno. */
int vb_udp_open_group(const uint8_t gid[16], uint32_t interface_index);
/* The port a receiver is bound to, 0: none. */
uint16_t vb_udp_port(int fd);
/* A second member of an IPv4 group, which receives nothing. Linux 6.10 and later hand a datagram that just one socket
 * has joined for to the socket that the steering program names, and it knows queue pairs, not groups; with two members each
 * gets its copy. Descriptor or -errno: -EADDRINUSE where the port belongs to another user's daemon. */
int vb_udp_open_companion(const uint8_t gid[16], uint32_t interface_index);

/* Send run number `run` of the burst. 0 or -errno; *lost: packets that were not sent. */
int vb_udp_send_run(int fd, const struct vb_burst *burst, uint32_t run, uint32_t *lost);
/* The same for `count` runs from that one on, in as few system calls as possible. `own`: of vb_udp_open_sender_of, or
 * NULL. Returns how many packets were not sent. */
uint32_t vb_udp_send_runs(int fd, const struct vb_path *own, const struct vb_burst *burst, uint32_t run, uint32_t count);

/* Connect a sender of vb_udp_open_sender_of to the destination of `own`. 0 or -errno: then it is as it was. IPv4: *next_id is the
 * identification of the next datagram, or of the first of the next run; it grows by 1 with each send that succeeds (io/udp_connect.c). */
int vb_udp_connect(int fd, const struct vb_path *own, uint16_t *next_id);
void vb_udp_disconnect(int fd);
/* vb_udp_send_runs by such a socket, up to the first run that cannot be sent. Returns how many runs were. */
uint32_t vb_udp_send_connected(int fd, const struct vb_path *own, const struct vb_burst *burst, uint32_t run, uint32_t count);

/* What arrived: datagrams of `segment` bytes each but perhaps the last, `length` bytes from the first to the end of the last. */
struct vb_udp_bundle {
	const uint8_t *bytes;
	size_t length, segment;
	size_t stride;                     /* from one to the next: `segment`, or more where each lies in a buffer of its own */
	struct vb_path from;               /* interface_index: where it came in, always set */
};

enum { VB_UDP_BATCH = 8 };

struct vb_udp_batch;
struct vb_udp_batch *vb_udp_batch_create(void);
void vb_udp_batch_destroy(struct vb_udp_batch *batch);
/* Take what waits, without waiting: the number of bundles, at most VB_UDP_BATCH, or -errno. */
int vb_udp_batch_receive(struct vb_udp_batch *batch, int fd, bool ipv6);
const struct vb_udp_bundle *vb_udp_batch_at(const struct vb_udp_batch *batch, unsigned index);

#endif
