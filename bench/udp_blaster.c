/* SPDX-License-Identifier: MIT
 *
 * udp_blaster bulk|write|read|large|stream|small receive
 * udp_blaster bulk|write|read|large|stream|small send ADDRESS [SECONDS]
 *
 * What a pair of bare UDP sockets can carry on this machine, with none of a transport's duties: no acknowledgement, no
 * order, no loss repaired, no queues. The measure for our own figures.
 *
 *   bulk   datagrams as RC WRITE's middle packets are: 12 bytes of header, 1,024 of payload, 4 of CRC-32, and 62 of them in a
 *          send (UDP_SEGMENT) and in a receive (UDP_GRO). The sender computes every CRC, the receiver checks every one and copies
 *          the payload to where it belongs.
 *   write  the same payload as an RC WRITE of 64 KiB must send it: the first datagram is 16 bytes longer (RETH), and so two
 *          sends carry the 64 datagrams, one of the first two and one of the other 62; from a socket that is not connected,
 *          because only then is the identification known that the ICRC covers.
 *   read   as bulk, in the datagrams of an RC READ's response: 16 bytes of header each, and what was asked for is copied from its place
 *          into the datagram, which no more changes then; from such a socket, too.
 *   large  the same from and to 8 MiB of memory each instead of 64 KiB, which is more than a core's own cache.
 *   stream as read, with the copies of a stream of bytes besides: from the program's memory into a buffer of 1 MiB that datagrams are made
 *          of, and out of such a buffer again.
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
	FIRST_HEADER = HEADER + 16, FIRST_DATAGRAM = FIRST_HEADER + PAYLOAD + TRAILER,
	READ_HEADER = HEADER + 4, READ_DATAGRAM = READ_HEADER + PAYLOAD + TRAILER,
	SMALL_PAYLOAD = 64, SMALL_DATAGRAM = 88,
	BATCH = 64,
	BUFFER = 65536, LARGE = 8 * 1024 * 1024, RING = 1024 * 1024,
	SOCKET_BUFFER = 8 * 1024 * 1024,
};

static uint8_t buffer[BUFFER], memory[LARGE], program[2 * BUFFER];

enum kind { BULK, WRITE, READ, READ_LARGE, STREAM, SMALL, KINDS };
static const char *const kind_name[KINDS] = {"bulk", "write", "read", "large", "stream", "small"};

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

static struct sockaddr_in to = {.sin_family = AF_INET};

static int open_sender(const char *address, bool connected)
{
	int fd = open_socket(SO_SNDBUF, SO_SNDBUFFORCE);

	to.sin_port = htons(PORT);
	if (inet_pton(AF_INET, address, &to.sin_addr) != 1 ||
	    (connected && connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0))
		give_up(address);
	return fd;
}

static void finish_datagram(uint8_t *datagram, size_t length, uint32_t number)
{
	uint32_t crc;

	memcpy(datagram, &number, sizeof(number));
	crc = libdeflate_crc32(0, datagram, length - TRAILER);
	memcpy(datagram + length - TRAILER, &crc, sizeof(crc));
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
			finish_datagram(buffer + (size_t)i * DATAGRAM, DATAGRAM, number++);
		if (send(fd, buffer, (size_t)RUN * DATAGRAM, 0) < 0 && errno != ECONNREFUSED && errno != ENOBUFS)
			give_up("send");
	}
}

struct run {
	struct iovec span;
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(uint16_t))];
	} control;
};

static void address_run(struct run *run, struct msghdr *message, uint8_t *bytes, size_t length, uint16_t segment)
{
	struct cmsghdr *header = &run->control.align;

	run->span = (struct iovec){bytes, length};
	header->cmsg_level = IPPROTO_UDP;
	header->cmsg_type = UDP_SEGMENT;
	header->cmsg_len = CMSG_LEN(sizeof(segment));
	memcpy(CMSG_DATA(header), &segment, sizeof(segment));
	*message = (struct msghdr){.msg_name = &to, .msg_namelen = sizeof(to), .msg_iov = &run->span, .msg_iovlen = 1,
				   .msg_control = &run->control, .msg_controllen = sizeof(run->control)};
}

static void send_writes(int fd, double seconds)
{
	static uint8_t beginning[FIRST_DATAGRAM + DATAGRAM];
	double end = now_seconds() + seconds;
	struct mmsghdr messages[2] = {0};
	struct run runs[2];
	uint32_t number = 0;

	address_run(&runs[0], &messages[0].msg_hdr, beginning, sizeof(beginning), FIRST_DATAGRAM);
	address_run(&runs[1], &messages[1].msg_hdr, buffer, (size_t)RUN * DATAGRAM, DATAGRAM);
	while (now_seconds() < end) {
		finish_datagram(beginning, FIRST_DATAGRAM, number++);
		finish_datagram(beginning + FIRST_DATAGRAM, DATAGRAM, number++);
		for (unsigned i = 0; i < RUN; i++)
			finish_datagram(buffer + (size_t)i * DATAGRAM, DATAGRAM, number++);
		if (sendmmsg(fd, messages, 2, 0) < 0 && errno != ECONNREFUSED && errno != ENOBUFS)
			give_up("sendmmsg");
	}
}

static void send_responses(int fd, double seconds, size_t size, bool stream)
{
	double end = now_seconds() + seconds;
	struct msghdr message;
	struct run run;
	uint32_t number = 0;

	/* Pages that were never written are all one page, which a cache holds. */
	memset(memory, 1, sizeof(memory));
	memset(program, 1, sizeof(program));
	address_run(&run, &message, buffer, (size_t)RUN * READ_DATAGRAM, READ_DATAGRAM);
	while (now_seconds() < end) {
		for (unsigned i = 0; i < RUN; i++, number++) {
			uint8_t *datagram = buffer + (size_t)i * READ_DATAGRAM;
			size_t at = number % (size / PAYLOAD) * PAYLOAD;

			/* As a program's call does it, of 64 KiB. */
			if (stream && at % BUFFER == 0)
				memcpy(memory + at, program + at / BUFFER % 2 * BUFFER, BUFFER);
			memcpy(datagram + READ_HEADER, memory + at, PAYLOAD);
			finish_datagram(datagram, READ_DATAGRAM, number);
		}
		if (sendmsg(fd, &message, 0) < 0 && errno != ECONNREFUSED && errno != ENOBUFS)
			give_up("sendmsg");
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

static void take_bulk(struct tally *tally, struct msghdr *message, size_t length, size_t size, bool stream)
{
	size_t segment = segment_of(message, length);

	for (size_t at = 0; at + DATAGRAM <= length; at += segment) {
		size_t whole = length - at < segment ? length - at : segment, placed;
		uint32_t crc;

		memcpy(&crc, buffer + at + whole - TRAILER, sizeof(crc));
		if (libdeflate_crc32(0, buffer + at, whole - TRAILER) != crc) {
			tally->damaged++;
			continue;
		}
		placed = tally->datagrams++ % (size / PAYLOAD) * PAYLOAD;
		memcpy(memory + placed, buffer + at + whole - TRAILER - PAYLOAD, PAYLOAD);
		if (stream && (placed + PAYLOAD) % BUFFER == 0)
			memcpy(program + placed / BUFFER % 2 * BUFFER, memory + placed + PAYLOAD - BUFFER, BUFFER);
		tally->bytes += PAYLOAD;
	}
}

/* True: something came. */
static bool receive_bulk(int fd, struct tally *tally, size_t size, bool stream)
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
		take_bulk(tally, &message, (size_t)length, size, stream);
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

static void receive(bool bulk, size_t size, bool stream)
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
		if (!(bulk ? receive_bulk(fd, &tally, size, stream) : receive_small(fd, &tally)))
			continue;
		tally.last = now_seconds();
		if (tally.first == 0)
			tally.first = tally.last;
	}
	printf("%llu %llu %.6f %llu\n", (unsigned long long)tally.datagrams, (unsigned long long)tally.bytes,
	       tally.last - tally.first, (unsigned long long)tally.damaged);
}

static enum kind kind_of(const char *name)
{
	enum kind kind = BULK;

	while (kind < KINDS && strcmp(name, kind_name[kind]) != 0)
		kind++;
	return kind;
}

int main(int argc, char **argv)
{
	enum kind kind = argc > 2 ? kind_of(argv[1]) : KINDS;

	size_t size = kind == READ_LARGE ? LARGE : kind == STREAM ? RING : BUFFER;

	if (kind < KINDS && argc == 3 && strcmp(argv[2], "receive") == 0) {
		receive(kind != SMALL, size, kind == STREAM);
	} else if (kind < KINDS && (argc == 4 || argc == 5) && strcmp(argv[2], "send") == 0) {
		double seconds = argc == 5 ? atof(argv[4]) : 1;
		int fd = open_sender(argv[3], kind == BULK || kind == SMALL);

		if (kind == BULK)
			send_bulk(fd, seconds);
		else if (kind == WRITE)
			send_writes(fd, seconds);
		else if (kind != SMALL)
			send_responses(fd, seconds, size, kind == STREAM);
		else
			send_small(fd, seconds);
		close(fd);
	} else {
		fprintf(stderr, "usage: udp_blaster bulk|write|read|large|stream|small receive | ... send ADDRESS [SECONDS]\n");
		return 2;
	}
	return 0;
}
