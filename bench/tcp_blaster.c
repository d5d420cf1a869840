/* SPDX-License-Identifier: MIT
 *
 * tcp_blaster bulk|crc receive
 * tcp_blaster bulk|crc send ADDRESS SECONDS
 *
 * What a TCP stream carries when it is given what RDMA WRITEs by iWARP must give it, and nothing else is done:
 *
 *   bulk   frames of 32 KiB between headers and trailers of 20 bytes, gathered from memory, 1 MiB a call; received into their place, the
 *          trailer and the next header beside it
 *   crc    the same with a CRC-32C for each frame, computed while the bytes are copied to where they are sent from; received
 *          into a buffer, and copied to their place in the pass that checks them
 *
 * Sockets do not block: who has nothing to do asks again, as a program that polls does. The receiver says "ready", and at the end
 * "BYTES SECONDS DAMAGED".
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/crc32c.h"

enum { PORT = 47913, HEADER = 16, TRAILER = 4, PAYLOAD = 32 << 10, FRAME = HEADER + PAYLOAD + TRAILER, FRAMES = 32, STAGING = 256 << 10 };

static uint8_t source[FRAMES * PAYLOAD], place[FRAMES * PAYLOAD], frames[FRAMES * FRAME], staging[STAGING + FRAME];

static double now_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void give_up(const char *what)
{
	fprintf(stderr, "tcp_blaster: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int open_socket(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0)
		give_up("socket");
	return fd;
}

/* ---- sending ---- */

static void send_spans(int fd, struct iovec *spans, unsigned count)
{
	struct msghdr message = {.msg_iov = spans, .msg_iovlen = count};

	while (message.msg_iovlen > 0) {
		ssize_t taken = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (taken < 0 && errno != EAGAIN)
			give_up("sendmsg");
		while (taken > 0) {
			size_t some = (size_t)taken < message.msg_iov->iov_len ? (size_t)taken : message.msg_iov->iov_len;

			message.msg_iov->iov_base = (uint8_t *)message.msg_iov->iov_base + some;
			message.msg_iov->iov_len -= some;
			taken -= (ssize_t)some;
			if (message.msg_iov->iov_len == 0) {
				message.msg_iov++;
				message.msg_iovlen--;
			}
		}
	}
}

/* Trailer and next header are one. */
static void send_gathered(int fd)
{
	struct iovec spans[2 * FRAMES + 1];
	unsigned count = 0;

	for (unsigned i = 0; i < FRAMES; i++) {
		spans[count++] = (struct iovec){frames, i == 0 ? HEADER : TRAILER + HEADER};
		spans[count++] = (struct iovec){source + (size_t)i * PAYLOAD, PAYLOAD};
	}
	spans[count++] = (struct iovec){frames, TRAILER};
	send_spans(fd, spans, count);
}

static void send_sealed(int fd)
{
	struct iovec span = {frames, sizeof(frames)};

	for (unsigned i = 0; i < FRAMES; i++) {
		uint8_t *frame = frames + (size_t)i * FRAME;
		uint32_t crc = vb_crc32c_copy(vb_crc32c(0, frame, HEADER), frame + HEADER, source + (size_t)i * PAYLOAD, PAYLOAD);

		memcpy(frame + HEADER + PAYLOAD, &crc, TRAILER);
	}
	send_spans(fd, &span, 1);
}

static int send_all(bool crc, const char *host, double seconds)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	int fd = open_socket();
	double end;

	if (inet_pton(AF_INET, host, &to.sin_addr) != 1 || connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0)
		give_up(host);
	memset(source, 'x', sizeof(source));
	end = now_seconds() + seconds;
	while (now_seconds() < end)
		(crc ? send_sealed : send_gathered)(fd);
	close(fd);
	return 0;
}

/* ---- receiving ---- */

struct tally {
	uint64_t bytes, damaged;
	size_t at;                       /* of the frame under way */
};

static ssize_t take_gathered(int fd, struct tally *tally)
{
	uint8_t *to = place + tally->bytes / FRAME % FRAMES * PAYLOAD, between[TRAILER + HEADER];
	size_t first = tally->at < HEADER ? HEADER - tally->at : 0, done = tally->at > HEADER ? tally->at - HEADER : 0;
	struct iovec spans[3] = {
		{between, first},
		{to + (done < PAYLOAD ? done : PAYLOAD), done < PAYLOAD ? PAYLOAD - done : 0},
		{between, TRAILER - (done > PAYLOAD ? done - PAYLOAD : 0)},
	};
	struct msghdr message = {.msg_iov = spans, .msg_iovlen = 3};
	ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT);

	if (got > 0) {
		tally->bytes += (uint64_t)got;
		tally->at = (tally->at + (size_t)got) % FRAME;
	}
	return got;
}

/* `at` bytes of a frame stand at the beginning of the staging area. */
static ssize_t take_sealed(int fd, struct tally *tally)
{
	ssize_t got = recv(fd, staging + tally->at, STAGING, MSG_DONTWAIT);
	size_t there = tally->at + (got > 0 ? (size_t)got : 0), at = 0;

	if (got <= 0)
		return got;
	for (; there - at >= FRAME; at += FRAME) {
		const uint8_t *frame = staging + at;
		uint8_t *to = place + tally->bytes / FRAME % FRAMES * PAYLOAD;
		uint32_t crc = vb_crc32c_copy(vb_crc32c(0, frame, HEADER), to, frame + HEADER, PAYLOAD);

		tally->damaged += memcmp(&crc, frame + HEADER + PAYLOAD, TRAILER) != 0;
		tally->bytes += FRAME;
	}
	memmove(staging, staging + at, there - at);
	tally->at = there - at;
	return got;
}

static int receive_all(bool crc)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	int listener = open_socket(), fd;
	struct tally tally = {0};
	double begin;
	ssize_t got;

	if (bind(listener, (struct sockaddr *)&any, sizeof(any)) != 0 || listen(listener, 1) != 0)
		give_up("bind");
	printf("ready\n");
	fflush(stdout);
	alarm(120);
	fd = accept(listener, NULL, NULL);
	if (fd < 0)
		give_up("accept");
	begin = now_seconds();
	do {
		got = (crc ? take_sealed : take_gathered)(fd, &tally);
		if (got < 0 && errno != EAGAIN)
			give_up("recv");
	} while (got != 0);
	printf("%llu %.6f %llu\n", (unsigned long long)tally.bytes, now_seconds() - begin, (unsigned long long)tally.damaged);
	return tally.damaged > 0;
}

int main(int argc, char **argv)
{
	bool crc = argc > 1 && strcmp(argv[1], "crc") == 0, bulk = argc > 1 && strcmp(argv[1], "bulk") == 0;

	if ((crc || bulk) && argc == 3 && strcmp(argv[2], "receive") == 0)
		return receive_all(crc);
	if ((crc || bulk) && argc == 5 && strcmp(argv[2], "send") == 0)
		return send_all(crc, argv[3], atof(argv[4]));
	fprintf(stderr, "usage: tcp_blaster bulk|crc receive\n       tcp_blaster bulk|crc send ADDRESS SECONDS\n");
	return 2;
}
