/* SPDX-License-Identifier: MIT
 *
 * See ethernet.h.
 */
#include "io/ethernet.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/descriptor.h"
#include "io/udp.h"
#include "io/uncancelled.h"
#include "wire/burst.h"
#include "wire/daemon_message.h"
#include "wire/ib_route.h"

enum {
	ETHERTYPE_ROCE = 0x8915,
	WANTED_BUFFER = 8 * 1024 * 1024,
	FRAME = 4352,                      /* GRH, BTH, the longest extension, 4096 bytes, ICRC; a longer frame is none of ours */
	QPN_AT = VB_IB_GRH_LENGTH + 4,     /* a word: a reserved byte and the destination queue pair */
	ACCEPT = 0x40000,
};

static int set_option(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) == 0 ? 0 : -errno;
}

/* Offset 0 is the GRH. A frame that is too short to tell is dropped. */
static int attach_filter(int fd, uint32_t slot)
{
	struct sock_filter steps[] = {
		/* Nearly all frames: the upper bits of the queue pair's number are the slot. */
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, QPN_AT + 1),
		BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, VB_DAEMON_INDEX_BITS - 8),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, slot, 3, 0),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, QPN_AT),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xffffff),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, VB_MULTICAST_QPN, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, ACCEPT),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct sock_fprog program = {sizeof(steps) / sizeof(steps[0]), steps};

	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) != 0)
		return -errno;
	return set_option(fd, SOL_SOCKET, SO_LOCK_FILTER, 1);
}

int vb_ethernet_open(uint32_t slot)
{
	/* Without a protocol: nothing comes in before the filter is there, and vb_ethernet_listen is called. */
	int fd = vb_descriptor_socket(AF_PACKET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), error;

	if (fd < 0)
		return -errno;
	if (set_option(fd, SOL_SOCKET, SO_RCVBUFFORCE, WANTED_BUFFER) != 0)
		(void)set_option(fd, SOL_SOCKET, SO_RCVBUF, WANTED_BUFFER);
	if (set_option(fd, SOL_SOCKET, SO_SNDBUFFORCE, WANTED_BUFFER) != 0)
		(void)set_option(fd, SOL_SOCKET, SO_SNDBUF, WANTED_BUFFER);
	error = attach_filter(fd, slot);
	if (error != 0) {
		vb_descriptor_close(fd);
		return error;
	}
	return fd;
}

int vb_ethernet_listen(int fd, uint32_t interface_index)
{
	struct sockaddr_ll own = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETHERTYPE_ROCE),
		.sll_ifindex = (int)interface_index,
	};

	return bind(fd, (struct sockaddr *)&own, sizeof(own)) == 0 ? 0 : -errno;
}

bool vb_ethernet_is_socket(int fd)
{
	int domain = 0, type = 0;
	socklen_t length = sizeof(domain);

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 && domain == AF_PACKET &&
	       getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_DGRAM;
}

void vb_ethernet_own_address(int fd, uint32_t interface_index, uint8_t mac[6])
{
	struct ifreq request = {.ifr_ifindex = (int)interface_index};

	memset(mac, 0, 6);
	if (ioctl(fd, SIOCGIFNAME, &request) == 0 && ioctl(fd, SIOCGIFHWADDR, &request) == 0)
		memcpy(mac, request.ifr_hwaddr.sa_data, 6);
}

int vb_ethernet_join(int fd, const uint8_t mac[6], uint32_t interface_index, bool join)
{
	struct packet_mreq wanted = {.mr_ifindex = (int)interface_index, .mr_type = PACKET_MR_MULTICAST, .mr_alen = 6};

	memcpy(wanted.mr_address, mac, 6);
	return setsockopt(fd, SOL_PACKET, join ? PACKET_ADD_MEMBERSHIP : PACKET_DROP_MEMBERSHIP, &wanted, sizeof(wanted)) == 0 ? 0 :
																 -errno;
}

/* ---- sending ---- */

uint32_t vb_ethernet_send_run(int fd, const struct vb_burst *burst, uint32_t run, const uint8_t mac[6])
{
	const struct vb_burst_run *from = &burst->run[run];
	struct sockaddr_ll to = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETHERTYPE_ROCE),
		.sll_ifindex = (int)from->path.interface_index,
		.sll_halen = 6,
	};
	struct mmsghdr messages[VB_BURST_RUN_PACKETS];
	struct iovec spans[VB_BURST_RUN_PACKETS][2];
	uint8_t grh[2][VB_IB_GRH_LENGTH];          /* of all packets, and of a last one that is shorter */
	uint32_t last = from->packets - 1, last_length = from->bytes - last * from->segment_size, sent = 0;

	memcpy(to.sll_addr, mac, 6);
	vb_ib_path_grh(&from->path, from->segment_size, grh[0]);
	vb_ib_path_grh(&from->path, last_length, grh[1]);
	for (uint32_t i = 0; i <= last; i++) {
		spans[i][0] = (struct iovec){grh[i == last], VB_IB_GRH_LENGTH};
		spans[i][1] = (struct iovec){(void *)(uintptr_t)(from->data + (size_t)i * from->segment_size),
					     i == last ? last_length : from->segment_size};
		messages[i].msg_hdr = (struct msghdr){.msg_name = &to, .msg_namelen = sizeof(to), .msg_iov = spans[i], .msg_iovlen = 2};
	}
	/* What a full queue does not take is lost, as on any wire: the protocol knows how to go on, and who sends holds locks. */
	while (sent <= last) {
		int done = vb_call_sendmmsg(fd, messages + sent, last + 1 - sent, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (done > 0)
			sent += (uint32_t)done;
		else if (errno != EINTR)
			break;
	}
	return last + 1 - sent;
}

/* ---- receiving ---- */

struct vb_ethernet_batch {
	struct vb_udp_bundle bundle[VB_ETHERNET_BATCH];
	unsigned bundles;
	struct mmsghdr message[VB_ETHERNET_BATCH];
	struct iovec span[VB_ETHERNET_BATCH];
	struct sockaddr_ll address[VB_ETHERNET_BATCH];
	uint8_t frame[VB_ETHERNET_BATCH][FRAME];
};

struct vb_ethernet_batch *vb_ethernet_batch_create(void)
{
	struct vb_ethernet_batch *batch = calloc(1, sizeof(*batch));

	for (unsigned i = 0; batch && i < VB_ETHERNET_BATCH; i++) {
		batch->span[i] = (struct iovec){batch->frame[i], FRAME};
		batch->message[i].msg_hdr = (struct msghdr){
			.msg_name = &batch->address[i],
			.msg_namelen = sizeof(batch->address[i]),
			.msg_iov = &batch->span[i],
			.msg_iovlen = 1,
		};
	}
	return batch;
}

void vb_ethernet_batch_destroy(struct vb_ethernet_batch *batch)
{
	free(batch);
}

static void describe(struct vb_ethernet_batch *batch, unsigned i)
{
	struct vb_udp_bundle *bundle = &batch->bundle[batch->bundles++];
	const struct sockaddr_ll *address = &batch->address[i];
	bool whole = !(batch->message[i].msg_hdr.msg_flags & MSG_TRUNC);

	bundle->length = bundle->segment = 0;
	bundle->stride = FRAME;
	/* Frames for other hosts are seen where an interface is promiscuous, and our own where they go out. */
	if (!whole || (address->sll_pkttype != PACKET_HOST && address->sll_pkttype != PACKET_MULTICAST))
		return;
	bundle->bytes = batch->frame[i] + VB_IB_GRH_LENGTH;
	bundle->length = bundle->segment = vb_ib_grh_to_path(&bundle->from, batch->frame[i], batch->message[i].msg_len);
	bundle->from.interface_index = (uint32_t)address->sll_ifindex;
}

/* Is it as long as the one before, with the same GRH, and has it come the same way? Then all that was read from that one holds for it. */
static bool is_like_before(const struct vb_ethernet_batch *batch, unsigned i)
{
	const struct mmsghdr *message = &batch->message[i];
	const struct sockaddr_ll *address = &batch->address[i];

	return batch->bundle[batch->bundles - 1].length > 0 && message->msg_len == message[-1].msg_len &&
	       message->msg_hdr.msg_flags == message[-1].msg_hdr.msg_flags && address->sll_ifindex == address[-1].sll_ifindex &&
	       address->sll_pkttype == address[-1].sll_pkttype && memcmp(batch->frame[i], batch->frame[i - 1], VB_IB_GRH_LENGTH) == 0;
}

int vb_ethernet_batch_receive(struct vb_ethernet_batch *batch, int fd)
{
	int count;

	do
		count = vb_call_recvmmsg(fd, batch->message, VB_ETHERNET_BATCH, MSG_DONTWAIT);
	while (count < 0 && errno == EINTR);
	if (count < 0)
		return errno == EAGAIN ? 0 : -errno;
	batch->bundles = 0;
	for (int i = 0; i < count; i++) {
		if (i > 0 && is_like_before(batch, (unsigned)i))
			batch->bundle[batch->bundles - 1].length += FRAME;
		else
			describe(batch, (unsigned)i);
		batch->message[i].msg_hdr.msg_namelen = sizeof(batch->address[i]);
	}
	return (int)batch->bundles;
}

const struct vb_udp_bundle *vb_ethernet_batch_at(const struct vb_ethernet_batch *batch, unsigned index)
{
	return &batch->bundle[index];
}
