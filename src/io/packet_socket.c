/* SPDX-License-Identifier: MIT
 *
 * See packet_socket.h.
 */
#include "io/packet_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <net/if_arp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "io/descriptor.h"
#include "io/uncancelled.h"

enum {
	ALL_PROTOCOLS = 0x0003,            /* ETH_P_ALL */
	TAG = 4,                           /* room before each frame for a VLAN tag */
	ADDRESSES = 12,
	FRAME = 65536 + 18,                /* the loopback's MTU, addresses, type and a tag */
	WANTED_BUFFER = 8 * 1024 * 1024,
};

static int set_option(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) == 0 ? 0 : -errno;
}

/* Protocol 0, at first: nothing comes in. */
static int bind_to(int fd, uint32_t interface_index, uint16_t protocol)
{
	struct sockaddr_ll where = {.sll_family = AF_PACKET, .sll_protocol = htons(protocol), .sll_ifindex = (int)interface_index};

	return bind(fd, (struct sockaddr *)&where, sizeof(where)) == 0 ? 0 : -errno;
}

int vb_packet_socket_open(uint32_t interface_index)
{
	int fd = vb_descriptor_socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), error;

	if (fd < 0)
		return -errno;
	fd = vb_descriptor_lift(fd);
	if (set_option(fd, SOL_SOCKET, SO_RCVBUFFORCE, WANTED_BUFFER) != 0)
		(void)set_option(fd, SOL_SOCKET, SO_RCVBUF, WANTED_BUFFER);
	if (set_option(fd, SOL_SOCKET, SO_SNDBUFFORCE, WANTED_BUFFER) != 0)
		(void)set_option(fd, SOL_SOCKET, SO_SNDBUF, WANTED_BUFFER);
	error = set_option(fd, SOL_PACKET, PACKET_AUXDATA, 1);
	if (error == 0)
		error = bind_to(fd, interface_index, 0);
	if (error != 0) {
		vb_descriptor_close(fd);
		return error;
	}
	return fd;
}

/* A socket that was bound to a protocol once cannot be bound to none: some kernels take 0 for the former one. */
static void refuse_all(int fd)
{
	struct sock_filter step = BPF_STMT(BPF_RET | BPF_K, 0);
	struct sock_fprog program = {1, &step};

	(void)setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
}

void vb_packet_socket_listen(int fd, uint32_t interface_index, enum vb_packet_socket_reach reach, enum vb_packet_socket_reach before)
{
	struct packet_mreq all = {.mr_ifindex = (int)interface_index, .mr_type = PACKET_MR_PROMISC};

	if ((reach == VB_PACKETS_ALL) != (before == VB_PACKETS_ALL))
		(void)setsockopt(fd, SOL_PACKET, reach == VB_PACKETS_ALL ? PACKET_ADD_MEMBERSHIP : PACKET_DROP_MEMBERSHIP, &all,
				 sizeof(all));
	if (reach == VB_PACKETS_NONE && before != VB_PACKETS_NONE)
		refuse_all(fd);
	if (reach != VB_PACKETS_NONE && before == VB_PACKETS_NONE) {
		(void)bind_to(fd, interface_index, ALL_PROTOCOLS);
		(void)set_option(fd, SOL_SOCKET, SO_DETACH_FILTER, 0);
	}
}

void vb_packet_socket_discard(int fd, unsigned most)
{
	uint8_t first;

	/* An error that was pending is reported in the place of a frame: more may lie behind it. */
	while (most-- > 0 && vb_descriptor_receive(fd, &first, sizeof(first)) != -EAGAIN)
		;
}

void vb_packet_socket_clear_error(int fd)
{
	int error;
	socklen_t length = sizeof(error);

	(void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
}

unsigned vb_packet_socket_send(int fd, const uint8_t *const *frames, const uint32_t *lengths, unsigned count, int *error)
{
	struct mmsghdr messages[VB_PACKET_BATCH];
	struct iovec spans[VB_PACKET_BATCH];
	unsigned sent = 0;

	*error = 0;
	for (unsigned i = 0; i < count; i++) {
		spans[i] = (struct iovec){(void *)(uintptr_t)frames[i], lengths[i]};
		messages[i].msg_hdr = (struct msghdr){.msg_iov = &spans[i], .msg_iovlen = 1};
	}
	/* It stops at the first that the system does not take, and says why when asked for that one alone. */
	while (sent < count && *error == 0) {
		int done = vb_call_sendmmsg(fd, messages + sent, count - sent, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (done > 0)
			sent += (unsigned)done;
		else if (errno != EINTR)
			*error = -errno;
	}
	return sent;
}

/* ---- receiving ---- */

struct vb_packet_batch {
	struct vb_packet packet[VB_PACKET_BATCH];
	struct mmsghdr message[VB_PACKET_BATCH];
	struct iovec span[VB_PACKET_BATCH];
	struct sockaddr_ll address[VB_PACKET_BATCH];
	union {
		struct cmsghdr header;
		uint8_t bytes[CMSG_SPACE(sizeof(struct tpacket_auxdata))];
	} control[VB_PACKET_BATCH];
	uint8_t bytes[VB_PACKET_BATCH][TAG + FRAME];
};

struct vb_packet_batch *vb_packet_batch_create(void)
{
	/* Most of it is never touched: no frame is that long. */
	struct vb_packet_batch *batch = calloc(1, sizeof(*batch));

	for (unsigned i = 0; batch && i < VB_PACKET_BATCH; i++)
		batch->span[i] = (struct iovec){batch->bytes[i] + TAG, FRAME};
	return batch;
}

void vb_packet_batch_destroy(struct vb_packet_batch *batch)
{
	free(batch);
}

static const struct tpacket_auxdata *auxiliary(struct msghdr *message)
{
	for (struct cmsghdr *at = CMSG_FIRSTHDR(message); at; at = CMSG_NXTHDR(message, at))
		if (at->cmsg_level == SOL_PACKET && at->cmsg_type == PACKET_AUXDATA &&
		    at->cmsg_len >= CMSG_LEN(sizeof(struct tpacket_auxdata)))
			return (const struct tpacket_auxdata *)(const void *)CMSG_DATA(at);
	return NULL;
}

/* The kernel takes the outermost tag out before a packet socket sees the frame. */
static void restore_tag(uint8_t *bytes, const struct tpacket_auxdata *auxiliary)
{
	uint16_t type = auxiliary->tp_status & TP_STATUS_VLAN_TPID_VALID ? auxiliary->tp_vlan_tpid : 0x8100;

	memmove(bytes, bytes + TAG, ADDRESSES);
	bytes[ADDRESSES] = (uint8_t)(type >> 8);
	bytes[ADDRESSES + 1] = (uint8_t)type;
	bytes[ADDRESSES + 2] = (uint8_t)(auxiliary->tp_vlan_tci >> 8);
	bytes[ADDRESSES + 3] = (uint8_t)auxiliary->tp_vlan_tci;
}

static void describe(struct vb_packet_batch *batch, unsigned i)
{
	struct msghdr *message = &batch->message[i].msg_hdr;
	const struct tpacket_auxdata *extra = auxiliary(message);
	struct vb_packet *packet = &batch->packet[i];
	bool is_sent = batch->address[i].sll_pkttype == PACKET_OUTGOING;
	bool is_tagged = extra && (extra->tp_status & TP_STATUS_VLAN_VALID);

	*packet = (struct vb_packet){.is_sent = is_sent};
	/* What the loopback sends it receives as well. */
	if ((message->msg_flags & MSG_TRUNC) || (is_sent && batch->address[i].sll_hatype == ARPHRD_LOOPBACK))
		return;
	packet->bytes = batch->bytes[i] + TAG;
	packet->length = batch->message[i].msg_len;
	if (is_tagged && packet->length >= ADDRESSES) {
		restore_tag(batch->bytes[i], extra);
		packet->bytes -= TAG;
		packet->length += TAG;
	}
}

int vb_packet_batch_receive(struct vb_packet_batch *batch, int fd, unsigned most)
{
	unsigned room = most < VB_PACKET_BATCH ? most : VB_PACKET_BATCH;
	int count;

	for (unsigned i = 0; i < room; i++)
		batch->message[i].msg_hdr = (struct msghdr){
			.msg_name = &batch->address[i],
			.msg_namelen = sizeof(batch->address[i]),
			.msg_iov = &batch->span[i],
			.msg_iovlen = 1,
			.msg_control = batch->control[i].bytes,
			.msg_controllen = sizeof(batch->control[i].bytes),
		};
	do
		count = vb_call_recvmmsg(fd, batch->message, room, MSG_DONTWAIT);
	while (count < 0 && errno == EINTR);
	if (count < 0)
		return errno == EAGAIN ? 0 : -errno;
	for (int i = 0; i < count; i++)
		describe(batch, (unsigned)i);
	return count;
}

const struct vb_packet *vb_packet_batch_at(const struct vb_packet_batch *batch, unsigned index)
{
	return &batch->packet[index];
}
