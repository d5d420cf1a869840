/* SPDX-License-Identifier: MIT
 *
 * packet_blaster sendmmsg|ring receive INTERFACE
 * packet_blaster sendmmsg|ring send INTERFACE MAC [SECONDS]
 *
 * What a pair of bare packet sockets (packet(7)) can carry on this machine, with none of a transport's duties: the
 * measure for RoCEv1, whose frames the kernel neither splits nor joins. Each frame is as a middle packet of an RC WRITE
 * is: Ethernet 14, GRH 40, BTH 12, 1,024 bytes of payload, ICRC 4. The sender computes every CRC, the receiver checks
 * every one and copies the payload to where it belongs. Making such a socket takes CAP_NET_RAW.
 *
 *   sendmmsg   64 frames in a sendmmsg, 64 in a recvmmsg
 *   ring       the sender fills a ring that the kernel sends from (PACKET_TX_RING), the receiver reads blocks that the kernel has filled
 *              (PACKET_RX_RING of TPACKET_V3): no system call for a frame, and none to copy it out
 *
 * The receiver says "ready", then receives until nothing has come for half a second, and prints
 *   FRAMES PAYLOAD_BYTES SECONDS DAMAGED
 */
#include <arpa/inet.h>
#include <errno.h>
#include <libdeflate.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
	ETHERTYPE = 0x88b5,                    /* for experiments: RoCE's own would reach an adapter */
	ETHERNET = 14, HEADER = 40 + 12, PAYLOAD = 1024, TRAILER = 4, BODY = HEADER + PAYLOAD + TRAILER,
	BATCH = 64,
	SOCKET_BUFFER = 8 * 1024 * 1024,
	TX_FRAME = 2048, TX_FRAMES = 512,
	RX_BLOCK = 256 * 1024, RX_BLOCKS = 32, RX_RETIRE_MS = 1,
};

static uint8_t buffer[BATCH][BODY], place[BATCH * PAYLOAD];

static double now_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void give_up(const char *what)
{
	fprintf(stderr, "packet_blaster: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void set_option(int fd, int name, const void *value, socklen_t length, const char *what)
{
	if (setsockopt(fd, SOL_PACKET, name, value, length) != 0)
		give_up(what);
}

/* Protocol 0: nothing is received by it. */
static int open_socket(int type, uint16_t protocol, const char *interface, struct sockaddr_ll *address)
{
	int fd = socket(AF_PACKET, type, 0), size = SOCKET_BUFFER;

	*address = (struct sockaddr_ll){
		.sll_family = AF_PACKET,
		.sll_protocol = htons(protocol),
		.sll_ifindex = (int)if_nametoindex(interface),
	};
	if (fd < 0)
		give_up("socket");
	if (address->sll_ifindex == 0)
		give_up(interface);
	for (unsigned i = 0; i < 2; i++)
		if (setsockopt(fd, SOL_SOCKET, i ? SO_RCVBUFFORCE : SO_SNDBUFFORCE, &size, sizeof(size)) != 0)
			(void)setsockopt(fd, SOL_SOCKET, i ? SO_RCVBUF : SO_SNDBUF, &size, sizeof(size));
	return fd;
}

/* ---- sending ---- */

static void finish_frame(uint8_t *body, uint32_t number)
{
	uint32_t crc;

	memcpy(body, &number, sizeof(number));
	crc = libdeflate_crc32(0, body, BODY - TRAILER);
	memcpy(body + BODY - TRAILER, &crc, sizeof(crc));
}

static void send_batches(const char *interface, const uint8_t mac[6], double seconds)
{
	struct sockaddr_ll to;
	int fd = open_socket(SOCK_DGRAM, ETHERTYPE, interface, &to);
	double end = now_seconds() + seconds;
	struct mmsghdr messages[BATCH] = {0};
	struct iovec spans[BATCH];
	uint32_t number = 0;

	to.sll_halen = 6;
	memcpy(to.sll_addr, mac, 6);
	for (unsigned i = 0; i < BATCH; i++) {
		spans[i] = (struct iovec){buffer[i], BODY};
		messages[i].msg_hdr = (struct msghdr){.msg_name = &to, .msg_namelen = sizeof(to), .msg_iov = &spans[i], .msg_iovlen = 1};
	}
	while (now_seconds() < end) {
		for (unsigned i = 0; i < BATCH; i++)
			finish_frame(buffer[i], number++);
		if (sendmmsg(fd, messages, BATCH, 0) < 0 && errno != ENOBUFS)
			give_up("sendmmsg");
	}
	close(fd);
}

static void send_ring(const char *interface, const uint8_t mac[6], double seconds)
{
	struct sockaddr_ll own;
	int fd = open_socket(SOCK_RAW, 0, interface, &own), version = TPACKET_V2;
	struct tpacket_req wanted = {
		.tp_block_size = TX_FRAME * BATCH,
		.tp_block_nr = TX_FRAMES / BATCH,
		.tp_frame_size = TX_FRAME,
		.tp_frame_nr = TX_FRAMES,
	};
	const size_t at = TPACKET2_HDRLEN - sizeof(struct sockaddr_ll);
	uint8_t header[ETHERNET] = {[12] = ETHERTYPE >> 8, [13] = ETHERTYPE & 0xff}, *ring;
	double end = now_seconds() + seconds;
	uint32_t number = 0;

	memcpy(header, mac, 6);
	set_option(fd, PACKET_VERSION, &version, sizeof(version), "PACKET_VERSION");
	set_option(fd, PACKET_TX_RING, &wanted, sizeof(wanted), "PACKET_TX_RING");
	if (bind(fd, (struct sockaddr *)&own, sizeof(own)) != 0)
		give_up("bind");
	ring = mmap(NULL, (size_t)TX_FRAME * TX_FRAMES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (ring == MAP_FAILED)
		give_up("mmap");
	while (now_seconds() < end) {
		for (unsigned i = 0; i < BATCH; i++) {
			uint8_t *frame = ring + (size_t)(number % TX_FRAMES) * TX_FRAME;
			struct tpacket2_hdr *head = (struct tpacket2_hdr *)(void *)frame;

			while (__atomic_load_n(&head->tp_status, __ATOMIC_ACQUIRE) != TP_STATUS_AVAILABLE)
				if (send(fd, NULL, 0, 0) < 0 && errno != ENOBUFS)
					give_up("send");
			memcpy(frame + at, header, ETHERNET);
			finish_frame(frame + at + ETHERNET, number++);
			head->tp_len = ETHERNET + BODY;
			__atomic_store_n(&head->tp_status, TP_STATUS_SEND_REQUEST, __ATOMIC_RELEASE);
		}
		if (send(fd, NULL, 0, MSG_DONTWAIT) < 0 && errno != ENOBUFS && errno != EAGAIN)
			give_up("send");
	}
	(void)send(fd, NULL, 0, 0);
	close(fd);
}

/* ---- receiving ---- */

struct tally {
	uint64_t frames, bytes, damaged;
	double first, last;
};

static void take_frame(struct tally *tally, const uint8_t *body, size_t length)
{
	uint32_t crc;

	if (length != BODY)
		return;
	memcpy(&crc, body + BODY - TRAILER, sizeof(crc));
	if (libdeflate_crc32(0, body, BODY - TRAILER) != crc) {
		tally->damaged++;
		return;
	}
	memcpy(place + tally->frames % BATCH * PAYLOAD, body + HEADER, PAYLOAD);
	tally->frames++;
	tally->bytes += PAYLOAD;
}

/* True: something came. */
static bool receive_batch(int fd, struct tally *tally)
{
	static struct mmsghdr messages[BATCH];
	static struct iovec spans[BATCH];
	int count;

	for (unsigned i = 0; i < BATCH; i++) {
		spans[i] = (struct iovec){buffer[i], BODY};
		messages[i].msg_hdr.msg_iov = &spans[i];
		messages[i].msg_hdr.msg_iovlen = 1;
	}
	count = recvmmsg(fd, messages, BATCH, MSG_DONTWAIT, NULL);
	if (count < 0 && errno != EAGAIN && errno != EINTR)
		give_up("recvmmsg");
	for (int i = 0; i < count; i++)
		take_frame(tally, buffer[i], messages[i].msg_len);
	return count > 0;
}

static uint8_t *open_ring(int fd)
{
	int version = TPACKET_V3;
	struct tpacket_req3 wanted = {
		.tp_block_size = RX_BLOCK,
		.tp_block_nr = RX_BLOCKS,
		.tp_frame_size = TX_FRAME,
		.tp_frame_nr = RX_BLOCK / TX_FRAME * RX_BLOCKS,
		.tp_retire_blk_tov = RX_RETIRE_MS,
	};
	void *ring;

	set_option(fd, PACKET_VERSION, &version, sizeof(version), "PACKET_VERSION");
	set_option(fd, PACKET_RX_RING, &wanted, sizeof(wanted), "PACKET_RX_RING");
	ring = mmap(NULL, (size_t)RX_BLOCK * RX_BLOCKS, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (ring == MAP_FAILED)
		give_up("mmap");
	return ring;
}

static bool receive_block(uint8_t *ring, unsigned *next, struct tally *tally)
{
	uint8_t *block = ring + (size_t)*next * RX_BLOCK;
	struct tpacket_hdr_v1 *head = &((struct tpacket_block_desc *)(void *)block)->hdr.bh1;
	const uint8_t *at = block + head->offset_to_first_pkt;

	if (!(__atomic_load_n(&head->block_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER))
		return false;
	for (uint32_t i = 0; i < head->num_pkts; i++) {
		const struct tpacket3_hdr *packet = (const struct tpacket3_hdr *)(const void *)at;

		take_frame(tally, at + packet->tp_net, packet->tp_snaplen);
		at += packet->tp_next_offset;
	}
	__atomic_store_n(&head->block_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
	*next = (*next + 1) % RX_BLOCKS;
	return true;
}

static void receive(bool by_ring, const char *interface)
{
	struct sockaddr_ll own;
	int fd = open_socket(SOCK_DGRAM, ETHERTYPE, interface, &own);
	uint8_t *ring = by_ring ? open_ring(fd) : NULL;
	struct tally tally = {0};
	unsigned next = 0;

	if (bind(fd, (struct sockaddr *)&own, sizeof(own)) != 0)
		give_up("bind");
	printf("ready\n");
	fflush(stdout);
	while (tally.last == 0 || now_seconds() - tally.last < 0.5) {
		if (!(ring ? receive_block(ring, &next, &tally) : receive_batch(fd, &tally)))
			continue;
		tally.last = now_seconds();
		if (tally.first == 0)
			tally.first = tally.last;
	}
	printf("%llu %llu %.6f %llu\n", (unsigned long long)tally.frames, (unsigned long long)tally.bytes, tally.last - tally.first,
	       (unsigned long long)tally.damaged);
	close(fd);
}

static bool parse_mac(const char *text, uint8_t mac[6])
{
	unsigned byte[6];

	if (sscanf(text, "%2x:%2x:%2x:%2x:%2x:%2x", &byte[0], &byte[1], &byte[2], &byte[3], &byte[4], &byte[5]) != 6)
		return false;
	for (unsigned i = 0; i < 6; i++)
		mac[i] = (uint8_t)byte[i];
	return true;
}

int main(int argc, char **argv)
{
	bool ring = argc > 1 && strcmp(argv[1], "ring") == 0, known = argc > 1 && (ring || strcmp(argv[1], "sendmmsg") == 0);
	uint8_t mac[6];

	if (known && argc == 4 && strcmp(argv[2], "receive") == 0) {
		receive(ring, argv[3]);
	} else if (known && (argc == 5 || argc == 6) && strcmp(argv[2], "send") == 0 && parse_mac(argv[4], mac)) {
		(ring ? send_ring : send_batches)(argv[3], mac, argc == 6 ? atof(argv[5]) : 1);
	} else {
		fprintf(stderr, "usage: packet_blaster sendmmsg|ring receive INTERFACE | sendmmsg|ring send INTERFACE MAC [SECONDS]\n");
		return 2;
	}
	return 0;
}
