/* SPDX-License-Identifier: MIT
 *
 * Receiving: recvmmsg (or, where one at a time comes, recvmsg) into buffers that each hold the longest bundle the kernel
 * makes, and what came with it (addresses, traffic class, hop limit, segment size) read from the control messages into
 * a path.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "io/udp.h"
#include "io/udp_order.h"
#include "io/uncancelled.h"

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

enum {
	BUFFER = 65536,
	CONTROL = 256,
	/* Where so much comes at once, the next call asks for little: what is worked on while it is in the cache, and acknowledged
	 * before its sender has to wait, is worth more than the system calls saved. A WRITE of 64 KiB is two bundles. */
	LARGE = 32768,
	FEW = 2,
};

struct vb_udp_batch {
	uint8_t *buffers;
	unsigned wanted;
	bool stream;                       /* the last call brought something, too */
	struct vb_udp_bundle bundle[VB_UDP_BATCH];
	struct mmsghdr message[VB_UDP_BATCH];
	struct iovec span[VB_UDP_BATCH];
	struct sockaddr_in6 address[VB_UDP_BATCH];   /* or sockaddr_in, which is shorter */
	union {
		struct cmsghdr align;
		char room[CONTROL];
	} control[VB_UDP_BATCH];
};

struct vb_udp_batch *vb_udp_batch_create(void)
{
	struct vb_udp_batch *batch = calloc(1, sizeof(*batch));

	if (!batch)
		return NULL;
	/* Mapped, so that what is never received into costs no memory. */
	batch->buffers = mmap(NULL, (size_t)VB_UDP_BATCH * BUFFER, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (batch->buffers == MAP_FAILED) {
		free(batch);
		return NULL;
	}
	batch->wanted = VB_UDP_BATCH;
	for (unsigned i = 0; i < VB_UDP_BATCH; i++) {
		batch->span[i] = (struct iovec){batch->buffers + (size_t)i * BUFFER, BUFFER};
		batch->message[i].msg_hdr = (struct msghdr){
			.msg_name = &batch->address[i],
			.msg_iov = &batch->span[i],
			.msg_iovlen = 1,
			.msg_control = &batch->control[i],
			.msg_namelen = sizeof(batch->address[i]),
			.msg_controllen = CONTROL,
		};
		batch->bundle[i].bytes = batch->span[i].iov_base;
	}
	return batch;
}

void vb_udp_batch_destroy(struct vb_udp_batch *batch)
{
	if (!batch)
		return;
	munmap(batch->buffers, (size_t)VB_UDP_BATCH * BUFFER);
	free(batch);
}

static int read_int(const struct cmsghdr *header)
{
	int value = 0;

	/* IP_RECVTOS delivers a single byte, the others an int (ip(7)). */
	if (header->cmsg_len == CMSG_LEN(1))
		return *CMSG_DATA(header);
	memcpy(&value, CMSG_DATA(header), sizeof(value));
	return value;
}

static void map_ipv4(uint8_t gid[16], const void *address)
{
	memset(gid, 0, 10);
	gid[10] = gid[11] = 0xff;
	memcpy(gid + 12, address, 4);
}

static void read_ipv4_control(struct vb_udp_bundle *bundle, const struct cmsghdr *header)
{
	struct in_pktinfo info;

	switch (header->cmsg_type) {
	case IP_PKTINFO:
		memcpy(&info, CMSG_DATA(header), sizeof(info));
		map_ipv4(bundle->from.destination, &info.ipi_addr);
		bundle->from.interface_index = (uint32_t)info.ipi_ifindex;
		break;
	case IP_TOS:
		bundle->from.traffic_class = (uint8_t)read_int(header);
		break;
	case IP_TTL:
		bundle->from.hop_limit = (uint8_t)read_int(header);
		break;
	}
}

static void read_ipv6_control(struct vb_udp_bundle *bundle, const struct cmsghdr *header)
{
	struct in6_pktinfo info;

	switch (header->cmsg_type) {
	case IPV6_PKTINFO:
		memcpy(&info, CMSG_DATA(header), sizeof(info));
		memcpy(bundle->from.destination, &info.ipi6_addr, 16);
		bundle->from.interface_index = info.ipi6_ifindex;
		break;
	case IPV6_TCLASS:
		bundle->from.traffic_class = (uint8_t)read_int(header);
		break;
	case IPV6_HOPLIMIT:
		bundle->from.hop_limit = (uint8_t)read_int(header);
		break;
	}
}

static void describe(struct vb_udp_batch *batch, unsigned i, bool ipv6)
{
	struct vb_udp_bundle *bundle = &batch->bundle[i];
	struct msghdr *message = &batch->message[i].msg_hdr;

	bundle->length = batch->message[i].msg_len;
	bundle->segment = bundle->stride = bundle->length;
	memset(&bundle->from, 0, sizeof(bundle->from));
	if (ipv6) {
		memcpy(bundle->from.source, &batch->address[i].sin6_addr, 16);
		bundle->from.source_port = ntohs(batch->address[i].sin6_port);
	} else {
		struct sockaddr_in four;

		memcpy(&four, &batch->address[i], sizeof(four));
		map_ipv4(bundle->from.source, &four.sin_addr);
		bundle->from.source_port = ntohs(four.sin_port);
	}
	for (struct cmsghdr *h = CMSG_FIRSTHDR(message); h; h = CMSG_NXTHDR(message, h)) {
		if (h->cmsg_level == IPPROTO_UDP && h->cmsg_type == UDP_GRO) {
			int segment = read_int(h);

			if (segment > 0 && (size_t)segment < bundle->length)
				bundle->segment = bundle->stride = (size_t)segment;
		} else if (h->cmsg_level == IPPROTO_IP) {
			read_ipv4_control(bundle, h);
		} else if (h->cmsg_level == IPPROTO_IPV6) {
			read_ipv6_control(bundle, h);
		}
	}
}

/* The number of messages, or -1. */
static int take(struct vb_udp_batch *batch, int fd)
{
	ssize_t length;

	if (batch->wanted > 1)
		return vb_call_recvmmsg(fd, batch->message, batch->wanted, MSG_DONTWAIT);
	length = vb_call_recvmsg(fd, &batch->message[0].msg_hdr, MSG_DONTWAIT);
	if (length < 0)
		return -1;
	batch->message[0].msg_len = (unsigned)length;
	return 1;
}

int vb_udp_batch_receive(struct vb_udp_batch *batch, int fd, bool ipv6)
{
	size_t bytes = 0;
	int count;

	do
		count = take(batch, fd);
	while (count < 0 && errno == EINTR);
	if (count < 0) {
		batch->stream = false;
		return errno == EAGAIN ? 0 : -errno;
	}
	vb_udp_after_receiving();
	for (int i = 0; i < count; i++) {
		describe(batch, (unsigned)i, ipv6);
		bytes += batch->bundle[i].length;
		batch->message[i].msg_hdr.msg_namelen = sizeof(batch->address[i]);
		batch->message[i].msg_hdr.msg_controllen = CONTROL;
	}
	/* One at a time where one at a time comes: the kernel would look for a second, which is a tenth of a microsecond of an
	 * answer's way. */
	if (bytes >= LARGE)
		batch->wanted = FEW;
	else if ((unsigned)count < batch->wanted)
		batch->wanted = (unsigned)count;
	else if (batch->stream || count > 1)
		batch->wanted = batch->wanted * 2 < VB_UDP_BATCH ? batch->wanted * 2 : VB_UDP_BATCH;
	batch->stream = true;
	return count;
}

const struct vb_udp_bundle *vb_udp_batch_at(const struct vb_udp_batch *batch, unsigned index)
{
	return &batch->bundle[index];
}
