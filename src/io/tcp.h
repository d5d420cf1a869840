/* SPDX-License-Identifier: MIT
 *
 * TCP sockets: the streams under iWARP. All are non-blocking, closed by exec, and never raise SIGPIPE. Addresses are
 * GIDs, an IPv4 address standing as ::ffff:a.b.c.d (wire/path.h).
 */
#ifndef VB_IO_TCP_H
#define VB_IO_TCP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct vb_tcp_address {
	uint8_t gid[16];
	uint16_t port;
	uint32_t scope;                  /* interface of a link-local address, else 0 */
	bool ipv6;                       /* also of the wildcard, which is all zeros */
};

/* ---- making connections ---- */

/* A socket at that address; port 0: the system chooses, `late`: when it is known where to. Descriptor or -errno. */
int vb_tcp_bind(const struct vb_tcp_address *local, bool ipv6_only, bool late);
int vb_tcp_listen(int fd, int backlog);
/* The next that came; -EAGAIN: none. */
int vb_tcp_accept(int fd);
/* Begin to; once more, where it was refused. 0 or -errno. What becomes of it vb_tcp_send says, -EAGAIN as long as it is not known. */
int vb_tcp_connect(int fd, const struct vb_tcp_address *remote);
int vb_tcp_local(int fd, struct vb_tcp_address *address);
int vb_tcp_remote(int fd, struct vb_tcp_address *address);

/* ---- streams ---- */

/* What every stream is set to: no delay, keep-alives, an end to what the peer does not acknowledge. Those that a
 * listening socket accepts have it from that. 0 or -errno: it is no TCP socket. */
int vb_tcp_prepare(int fd);
/* 0: as it is. */
void vb_tcp_set_traffic_class(int fd, uint8_t traffic_class);
/* How many bytes were taken, or -errno: -EAGAIN none now. `more`: there will be more at once. */
ssize_t vb_tcp_send(int fd, const struct iovec *spans, unsigned count, bool more);
/* How many bytes came; 0: the end; -EAGAIN: none now. */
ssize_t vb_tcp_receive(int fd, const struct iovec *spans, unsigned count);
/* Bytes of a segment to the peer, as it stands now. */
uint32_t vb_tcp_segment(int fd);
/* Has the peer's system acknowledged all that was sent? */
bool vb_tcp_is_acknowledged(int fd);
/* Nothing more is sent. */
void vb_tcp_shut(int fd);
/* With RST. */
void vb_tcp_abort(int fd);
/* RST to the peer, and ECONNRESET to the reader here: as if the network had ended it. The descriptor stays. */
void vb_tcp_break(int fd);

#endif
