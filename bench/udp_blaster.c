/* SPDX-License-Identifier: MIT
 *
 * udp_blaster bulk|small receive
 * udp_blaster bulk|small send ADDRESS [SECONDS]
 *
 * What a pair of bare UDP sockets can carry on this machine, with none of a transport's duties: no acknowledgement, no
 * order, no loss repaired, no queues. The measure for our own figures.
 *
 *   bulk   datagrams as RC WRITE's middle packets are: 12 bytes of header, 1,024 of payload, 4 of CRC-32, and 62 of them in a
 *          send (UDP_SEGMENT) and in a receive (UDP_GRO). The sender computes every CRC, the receiver checks every one and copies
 *          the payload to where it belongs.
 *   small  datagrams as a UD SEND of 64 bytes makes them (88 bytes), one by one, 64 in a sendmmsg and in a recvmmsg. No CRC.
 *
 * The receiver says "ready", then receives until nothing has come for half a second, and prints
 *   DATAGRAMS PAYLOAD_BYTES SECONDS DAMAGED
 */
#include <arpa/inet.h>
#include <errno.h>
#include <libdeflate.h>
#include <netinet/udp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

enum {
	PORT = 47910,
	HEADER = 12, PAYLOAD = 1024, TRAILER = 4, DATAGRAM = HEADER + PAYLOAD + TRAILER,
	RUN = 62,                              /* of these, as many as fit a UDP datagram before it is cut */
	SMALL_PAYLOAD = 64, SMALL_DATAGRAM = 88,
	BATCH = 64,
	BUFFER = 65536,
	SOCKET_BUFFER = 8 * 1024 * 1024,
};

static uint8_t buffer[BUFFER], place[BUFFER];

static double now_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void give_up(const char *what)
{
	fprintf(stderr, "udp_blaster: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int open_socket(int buffer_option, int forced_option)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0), size = SOCKET_BUFFER;

	if (fd < 0)
		give_up("socket");
	if (setsockopt(fd, SOL_SOCKET, forced_option, &size, sizeof(size)) != 0)
		(void)setsockopt(fd, SOL_SOCKET, buffer_option, &size, sizeof(size));
	return fd;
}

/* ---- sending ---- */

static int connect_to(const char *address)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	int fd = open_socket(SO_SNDBUF, SO_SNDBUFFORCE);

	if (inet_pton(AF_INET, address, &to.sin_addr) != 1 || connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0)
		give_up(address);
	return fd;
}

static void finish_datagram(uint8_t *datagram, uint32_t number)
{
	uint32_t crc;

	memcpy(datagram, &number, sizeof(number));
	crc = libdeflate_crc32(0, datagram, DATAGRAM - TRAILER);
	memcpy(datagram + DATAGRAM - TRAILER, &crc, sizeof(crc));
}

static void send_bulk(int fd, double seconds)
{
	int segment = DATAGRAM;
	double end = now_seconds() + seconds;
	uint32_t number = 0;

	if (setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof(segment)) != 0)
		give_up("UDP_SEGMENT");
	while (now_seconds() < end) {
		for (unsigned i = 0; i < RUN; i++)
			finish_datagram(buffer + (size_t)i * DATAGRAM, number++);
		if (send(fd, buffer, (size_t)RUN * DATAGRAM, 0) < 0 && errno != ECONNREFUSED && errno != ENOBUFS)
			give_up("send");
	}
}

static void send_small(int fd, double seconds)
{
	double end = now_seconds() + seconds;
	struct mmsghdr messages[BATCH] = {0};
	struct iovec spans[BATCH];

	for (unsigned i = 0; i < BATCH; i++) {
		spans[i] = (struct iovec){buffer + (size_t)i * SMALL_DATAGRAM, SMALL_DATAGRAM};
		messages[i].msg_hdr.msg_iov = &spans[i];
		messages[i].msg_hdr.msg_iovlen = 1;
	}
	while (now_seconds() < end) {
		if (sendmmsg(fd, messages, BATCH, 0) < 0 && errno != ECONNREFUSED && errno != ENOBUFS)
			give_up("sendmmsg");
	}
}

/* ---- receiving ---- */

struct tally {
	uint64_t datagrams, bytes, damaged;
	double first, last;
};

/* How long the datagrams are that came in together. */
static size_t segment_of(struct msghdr *message, size_t length)
{
	for (struct cmsghdr *h = CMSG_FIRSTHDR(message); h; h = CMSG_NXTHDR(message, h)) {
		int segment;

		if (h->cmsg_level != IPPROTO_UDP || h->cmsg_type != UDP_GRO)
			continue;
		memcpy(&segment, CMSG_DATA(h), sizeof(segment));
		return (size_t)segment;
	}
	return length;
}

static void take_bulk(struct tally *tally, struct msghdr *message, size_t length)
{
	size_t segment = segment_of(message, length);

	for (size_t at = 0; at + DATAGRAM <= length; at += segment) {
		uint32_t crc;

		memcpy(&crc, buffer + at + DATAGRAM - TRAILER, sizeof(crc));
		if (libdeflate_crc32(0, buffer + at, DATAGRAM - TRAILER) != crc) {
			tally->damaged++;
			continue;
		}
		memcpy(place + tally->datagrams % (BUFFER / PAYLOAD) * PAYLOAD, buffer + at + HEADER, PAYLOAD);
		tally->datagrams++;
		tally->bytes += PAYLOAD;
	}
}

/* True: something came. */
static bool receive_bulk(int fd, struct tally *tally)
{
	struct iovec span = {buffer, BUFFER};
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr message = {
		.msg_iov = &span,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	ssize_t length = recvmsg(fd, &message, MSG_DONTWAIT);

	if (length < 0 && errno != EAGAIN && errno != EINTR)
		give_up("recvmsg");
	if (length > 0)
		take_bulk(tally, &message, (size_t)length);
	return length > 0;
}

static bool receive_small(int fd, struct tally *tally)
{
	static struct mmsghdr messages[BATCH];
	static struct iovec spans[BATCH];
	int count;

	for (unsigned i = 0; i < BATCH; i++) {
		spans[i] = (struct iovec){buffer + (size_t)i * 128, 128};
		messages[i].msg_hdr.msg_iov = &spans[i];
		messages[i].msg_hdr.msg_iovlen = 1;
	}
	count = recvmmsg(fd, messages, BATCH, MSG_DONTWAIT, NULL);
	if (count < 0 && errno != EAGAIN && errno != EINTR)
		give_up("recvmmsg");
	if (count <= 0)
		return false;
	tally->datagrams += (uint64_t)count;
	tally->bytes += (uint64_t)count * SMALL_PAYLOAD;
	return true;
}

static void receive(bool bulk)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	int fd = open_socket(SO_RCVBUF, SO_RCVBUFFORCE), on = 1;
	struct tally tally = {0};

	if (bind(fd, (struct sockaddr *)&any, sizeof(any)) != 0)
		give_up("bind");
	if (bulk && setsockopt(fd, IPPROTO_UDP, UDP_GRO, &on, sizeof(on)) != 0)
		give_up("UDP_GRO");
	printf("ready\n");
	fflush(stdout);
	while (tally.last == 0 || now_seconds() - tally.last < 0.5) {
		if (!(bulk ? receive_bulk(fd, &tally) : receive_small(fd, &tally)))
			continue;
		tally.last = now_seconds();
		if (tally.first == 0)
			tally.first = tally.last;
	}
	printf("%llu %llu %.6f %llu\n", (unsigned long long)tally.datagrams, (unsigned long long)tally.bytes,
	       tally.last - tally.first, (unsigned long long)tally.damaged);
}

int main(int argc, char **argv)
{
	bool bulk = argc > 1 && strcmp(argv[1], "bulk") == 0;

	if (argc == 3 && (bulk || strcmp(argv[1], "small") == 0) && strcmp(argv[2], "receive") == 0) {
		receive(bulk);
	} else if ((argc == 4 || argc == 5) && (bulk || strcmp(argv[1], "small") == 0) && strcmp(argv[2], "send") == 0) {
		double seconds = argc == 5 ? atof(argv[4]) : 1;
		int fd = connect_to(argv[3]);

		if (bulk)
			send_bulk(fd, seconds);
		else
			send_small(fd, seconds);
		close(fd);
	} else {
		fprintf(stderr, "usage: udp_blaster bulk|small receive | bulk|small send ADDRESS [SECONDS]\n");
		return 2;
	}
	return 0;
}
