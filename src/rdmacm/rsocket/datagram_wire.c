/* SPDX-License-Identifier: MIT
 *
 * Encoding and decoding of what datagram_wire.h describes.
 */
#include "rdmacm/rsocket/datagram_wire.h"

#include <errno.h>
#include <string.h>

enum { V4_LENGTH = 8, V6_LENGTH = 24, UDP_V4_LENGTH = 16, UDP_V6_LENGTH = 28 };

#define TAG 0x55555555u

size_t vb_rdatagram_header_encode(void *bytes, const union vb_rsocket_address *source)
{
	struct vb_rdatagram_header_bytes header = {0};

	if (source->any.sa_family == AF_INET) {
		header.version = 4;
		header.length = V4_LENGTH;
		memcpy(header.port, &source->v4.sin_port, sizeof(header.port));
		memcpy(header.v4, &source->v4.sin_addr, sizeof(header.v4));
	} else {
		header.version = 6;
		header.length = V6_LENGTH;
		memcpy(header.port, &source->v6.sin6_port, sizeof(header.port));
		memcpy(header.v6.flow, &source->v6.sin6_flowinfo, sizeof(header.v6.flow));
		memcpy(header.v6.address, &source->v6.sin6_addr, sizeof(header.v6.address));
	}
	memcpy(bytes, &header, header.length);
	return header.length;
}

int vb_rdatagram_header_decode(union vb_rsocket_address *source, const void *bytes, size_t length)
{
	struct vb_rdatagram_header_bytes header = {0};

	memcpy(&header, bytes, length < sizeof(header) ? length : sizeof(header));
	memset(source, 0, sizeof(*source));
	if (header.version == 4 && header.length == V4_LENGTH && length >= V4_LENGTH) {
		source->v4.sin_family = AF_INET;
		memcpy(&source->v4.sin_port, header.port, sizeof(header.port));
		memcpy(&source->v4.sin_addr, header.v4, sizeof(header.v4));
		return V4_LENGTH;
	}
	if (header.version == 6 && header.length == V6_LENGTH && length >= V6_LENGTH) {
		source->v6.sin6_family = AF_INET6;
		memcpy(&source->v6.sin6_port, header.port, sizeof(header.port));
		memcpy(&source->v6.sin6_flowinfo, header.v6.flow, sizeof(header.v6.flow));
		memcpy(&source->v6.sin6_addr, header.v6.address, sizeof(header.v6.address));
		return V6_LENGTH;
	}
	return -EPROTO;
}

size_t vb_rdatagram_udp_header_encode(void *bytes, enum vb_rdatagram_operation operation, uint32_t queue_pair,
				      const union vb_rsocket_address *address)
{
	struct vb_rdatagram_udp_header_bytes header = {
		.tag = be32_of(TAG),
		.operation = (uint8_t)operation,
		.queue_pair = be32_of(queue_pair & 0xffffff),
	};

	if (address->any.sa_family == AF_INET) {
		header.version = 4;
		header.length = UDP_V4_LENGTH;
		memcpy(header.address, &address->v4.sin_addr, sizeof(address->v4.sin_addr));
	} else {
		header.version = 6;
		header.length = UDP_V6_LENGTH;
		memcpy(header.address, &address->v6.sin6_addr, sizeof(address->v6.sin6_addr));
	}
	memcpy(bytes, &header, header.length);
	return header.length;
}

int vb_rdatagram_udp_header_decode(enum vb_rdatagram_operation *operation, uint32_t *queue_pair, int family,
				   const void *bytes, size_t length)
{
	struct vb_rdatagram_udp_header_bytes header = {0};
	bool is_v4, is_v6;

	memcpy(&header, bytes, length < sizeof(header) ? length : sizeof(header));
	is_v4 = header.version == 4 && header.length == UDP_V4_LENGTH && family == AF_INET;
	is_v6 = header.version == 6 && header.length == UDP_V6_LENGTH && family == AF_INET6;
	if (be32_get(header.tag) != TAG || (!is_v4 && !is_v6) || length < header.length)
		return -EPROTO;
	if (header.operation != VB_RDATAGRAM_DATA && header.operation != VB_RDATAGRAM_ANSWER)
		return -EPROTO;
	*operation = (enum vb_rdatagram_operation)header.operation;
	*queue_pair = be32_get(header.queue_pair) & 0xffffff;
	return header.length;
}
