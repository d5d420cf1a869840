/* SPDX-License-Identifier: MIT
 *
 * tcp_pingpong serve [BYTES]
 * tcp_pingpong ADDRESS [ROUNDS [BYTES]]
 *
 * The shortest time in which two processes can pass a message to and fro on a TCP socket, when both poll. Without BYTES it is the
 * FPDU of a SEND of eight bytes (32 bytes): one call to send, one that finds it. The server says "ready" and leaves with its client. The
 * client prints the median of half a round trip, in microseconds.
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
#include <time.h>
#include <unistd.h>

enum { PORT = 47914, SHORT_MESSAGE = 32, LONGEST_MESSAGE = 8 << 20, WARM_UP = 100 };

static uint8_t message[LONGEST_MESSAGE];
static size_t message_length = SHORT_MESSAGE;

#define PATIENCE 10.0 /* seconds without an answer: the other side is gone */

static double now_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void give_up(const char *what)
{
	fprintf(stderr, "tcp_pingpong: %s: %s\n", what, strerror(errno));
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

static void send_message(int fd)
{
	for (size_t sent = 0; sent < message_length;) {
		ssize_t taken = send(fd, message + sent, message_length - sent, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (taken < 0 && errno != EAGAIN)
			give_up("send");
		sent += taken > 0 ? (size_t)taken : 0;
	}
}

/* False: the other side has left. */
static bool receive_message(int fd)
{
	double limit = now_seconds() + PATIENCE;
	size_t have = 0;

	for (unsigned i = 1; have < message_length; i++) {
		ssize_t got = recv(fd, message + have, message_length - have, MSG_DONTWAIT);

		if (got == 0)
			return false;
		if (got < 0 && errno != EAGAIN)
			give_up("recv");
		have += got > 0 ? (size_t)got : 0;
		if (i % 1024 == 0 && now_seconds() > limit)
			give_up("nothing comes");
	}
	return true;
}

static int serve(void)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	int listener = open_socket(), fd;

	if (bind(listener, (struct sockaddr *)&any, sizeof(any)) != 0 || listen(listener, 1) != 0)
		give_up("bind");
	printf("ready\n");
	fflush(stdout);
	alarm(120);
	fd = accept(listener, NULL, NULL);
	if (fd < 0)
		give_up("accept");
	while (receive_message(fd))
		send_message(fd);
	return 0;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static int ping(const char *host, unsigned rounds)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	double *times = calloc(rounds, sizeof(*times));
	int fd = open_socket();

	if (!times || inet_pton(AF_INET, host, &to.sin_addr) != 1 || connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0)
		give_up(host);
	for (unsigned i = 0; i < WARM_UP + rounds; i++) {
		double begin = now_seconds();

		send_message(fd);
		if (!receive_message(fd))
			give_up("the server left");
		if (i >= WARM_UP)
			times[i - WARM_UP] = (now_seconds() - begin) * 1e6 / 2;
	}
	qsort(times, rounds, sizeof(*times), compare);
	printf("%.3f\n", times[rounds / 2]);
	free(times);
	return 0;
}

int main(int argc, char **argv)
{
	bool serves = argc >= 2 && strcmp(argv[1], "serve") == 0;
	long rounds = argc > 2 && !serves ? atol(argv[2]) : 10000;
	long bytes = argc > (serves ? 2 : 3) ? atol(argv[serves ? 2 : 3]) : SHORT_MESSAGE;

	if (argc < 2 || rounds <= 0 || bytes <= 0 || bytes > LONGEST_MESSAGE) {
		fprintf(stderr, "usage: tcp_pingpong serve [BYTES]\n       tcp_pingpong ADDRESS [ROUNDS [BYTES]]\n");
		return 2;
	}
	message_length = (size_t)bytes;
	return serves ? serve() : ping(argv[1], (unsigned)rounds);
}
