/* SPDX-License-Identifier: MIT */
#include "io/path_socket.h"

#include <errno.h>
#include <string.h>

#include "io/descriptor.h"

socklen_t vb_path_address_set(union vb_path_address *out, const uint8_t gid[16], uint16_t port, uint32_t scope)
{
	memset(out, 0, sizeof(*out));
	if (vb_gid_is_ipv4(gid)) {
		out->four.sin_family = AF_INET;
		out->four.sin_port = htons(port);
		memcpy(&out->four.sin_addr, gid + 12, 4);
		return sizeof(out->four);
	}
	out->six.sin6_family = AF_INET6;
	out->six.sin6_port = htons(port);
	memcpy(&out->six.sin6_addr, gid, 16);
	if (gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80)
		out->six.sin6_scope_id = scope;
	return sizeof(out->six);
}

int vb_path_socket_open(const struct vb_path *path, int protocol, uint16_t port)
{
	bool ipv4 = vb_gid_is_ipv4(path->destination);
	int fd = vb_descriptor_socket(ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, protocol), error;
	static const uint8_t unchosen[16];
	union vb_path_address here, there;
	socklen_t length;

	if (fd < 0)
		return -1;
	length = vb_path_address_set(&here, path->source, 0, path->interface_index);
	/* Where no source was chosen the routing table chooses. */
	if (memcmp(path->source, unchosen, sizeof(unchosen)) == 0 || bind(fd, &here.any, length) == 0) {
		length = vb_path_address_set(&there, path->destination, port, path->interface_index);
		if (connect(fd, &there.any, length) == 0)
			return fd;
	}
	error = errno;
	vb_descriptor_close(fd);
	errno = error;
	return -1;
}
