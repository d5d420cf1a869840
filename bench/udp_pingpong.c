/* SPDX-License-Identifier: MIT
 *
 * udp_pingpong serve
 * udp_pingpong ADDRESS [BYTES [ROUNDS]]
 *
 * The shortest time in which two processes can pass a datagram to and fro over bare UDP sockets: connected, and both poll.
 * BYTES is what the datagram holds, by default 24: a SEND of eight bytes with its header and its CRC. Nothing is computed.
 *
 * The server says "ready" and leaves with its client. The client prints the median of half a round trip, in microseconds.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PORT = 47911, LONGEST = 8192, WARM_UP = 100 };

#define PATIENCE 10.0 /* seconds without an answer: the other side is gone */

static uint8_t buffer[LONGEST];

static double now_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void give_up(const char *what)
{
	fprintf(stderr, "udp_pingpong: %s: %s\n", what, strerror(errno));
	exit(1);
}

static ssize_t poll_for_one(int fd)
{
	double limit = now_seconds() + PATIENCE;

	for (unsigned tries = 1;; tries++) {
		ssize_t length = recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT);

		if (length >= 0)
			return length;
		if (errno != EAGAIN && errno != EINTR && errno != ECONNREFUSED)
			give_up("recv");
		if (tries % 4096 == 0 && now_seconds() > limit) {
			errno = ETIMEDOUT;
			give_up("recv");
		}
	}
}

/* An empty datagram ends it. */
static void serve(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	socklen_t length = sizeof(address);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	ssize_t got;

	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
		give_up("bind");
	printf("ready\n");
	fflush(stdout);
	got = recvfrom(fd, buffer, sizeof(buffer), 0, (struct sockaddr *)&address, &length);
	if (got < 0 || connect(fd, (struct sockaddr *)&address, length) != 0)
		give_up("connect");
	while (got > 0) {
		if (send(fd, buffer, (size_t)got, 0) < 0)
			give_up("send");
		got = poll_for_one(fd);
	}
}

static int compare(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

static void play(const char *address, size_t bytes, unsigned rounds)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	double *sample = calloc(rounds, sizeof(*sample));
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	if (!sample || fd < 0 || inet_pton(AF_INET, address, &to.sin_addr) != 1 ||
	    connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0)
		give_up(address);
	for (unsigned i = 0; i < rounds + WARM_UP; i++) {
		double began = now_seconds();

		if (send(fd, buffer, bytes, 0) < 0)
			give_up("send");
		poll_for_one(fd);
		if (i >= WARM_UP)
			sample[i - WARM_UP] = now_seconds() - began;
	}
	(void)!send(fd, buffer, 0, 0);
	close(fd);
	qsort(sample, rounds, sizeof(*sample), compare);
	printf("%.3f\n", sample[rounds / 2] / 2 * 1e6);
	free(sample);
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "serve") == 0) {
		serve();
	} else if (argc >= 2 && argc <= 4) {
		size_t bytes = argc > 2 ? strtoul(argv[2], NULL, 10) : 24;
		unsigned rounds = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 20000;

		if (bytes == 0 || bytes > LONGEST || rounds == 0) {
			errno = EINVAL;
			give_up("BYTES, ROUNDS");
		}
		play(argv[1], bytes, rounds);
	} else {
		fprintf(stderr, "usage: udp_pingpong serve | ADDRESS [BYTES [ROUNDS]]\n");
		return 2;
	}
	return 0;
}
