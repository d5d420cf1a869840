/* SPDX-License-Identifier: MIT
 *
 * udp_pingpong bare|send serve
 * udp_pingpong bare|send ADDRESS [ROUNDS]
 *
 * The shortest time in which two processes can pass a datagram to and fro over UDP sockets, when both poll.
 *
 *   bare   a connected socket, and 24 bytes: a SEND of eight bytes with its header and its CRC. Nothing is computed.
 *   send   what an RC SEND of eight bytes cannot do without, and none of what a queue pair does with it: the acknowledgement of the
 *          message before leaves in the same run (UDP_SEGMENT, UDP_GRO), each of the two with its CRC-32, computed and checked;
 *          from a socket that is not connected, because only then is the identification known that the ICRC covers; source
 *          address, traffic class and hop limit are said with each run and told with each bundle; and there is a second thread,
 *          asleep, as in every process that may have to answer while its application does not poll.
 *
 * The server says "ready" and leaves with its client. The client prints the median of half a round trip, in microseconds.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <libdeflate.h>
#include <netinet/udp.h>
#include <pthread.h>
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
	PORT = 47911, CLIENT_PORT = 47912,     /* send: where each receives */
	MESSAGE = 24, ACKNOWLEDGEMENT = 20, TRAILER = 4,
	CONTROL = 256, ROOM = 65536, WARM_UP = 100,
};

#define PATIENCE 10.0 /* seconds without an answer: the other side is gone */

static uint8_t buffer[ROOM], answer[MESSAGE + ACKNOWLEDGEMENT];

/* What one side has. */
struct side {
	bool send;
	int in, out;
	struct sockaddr_in peer;               /* send: where to, */
	struct in_pktinfo from;                /* and from which address */
};

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

static void set(int fd, int level, int option, int value)
{
	if (setsockopt(fd, level, option, &value, sizeof(value)) != 0)
		give_up("setsockopt");
}

static int open_socket(uint16_t port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
		give_up("socket");
	return fd;
}

static void *sleep_for_ever(void *unused)
{
	pause();
	return unused;
}

static struct side make_side(bool send, uint16_t port)
{
	struct side side = {.send = send, .in = open_socket(port)};
	pthread_t thread;

	side.out = side.in;
	if (!send)
		return side;
	side.out = open_socket(0);
	set(side.out, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
	set(side.in, IPPROTO_UDP, UDP_GRO, 1);
	set(side.in, IPPROTO_IP, IP_PKTINFO, 1);
	set(side.in, IPPROTO_IP, IP_RECVTOS, 1);
	set(side.in, IPPROTO_IP, IP_RECVTTL, 1);
	if (pthread_create(&thread, NULL, sleep_for_ever, NULL) != 0)
		give_up("pthread_create");
	return side;
}

/* ---- what a SEND needs ---- */

static void seal(uint8_t *datagram, size_t length)
{
	uint32_t crc = libdeflate_crc32(0, datagram, length - TRAILER);

	memcpy(datagram + length - TRAILER, &crc, TRAILER);
}

static bool is_sealed(const uint8_t *datagram, size_t length)
{
	uint32_t crc = libdeflate_crc32(0, datagram, length - TRAILER);

	return memcmp(datagram + length - TRAILER, &crc, TRAILER) == 0;
}

static void add_control(struct msghdr *message, int level, int type, const void *value, size_t length)
{
	struct cmsghdr *header = (struct cmsghdr *)(void *)((char *)message->msg_control + message->msg_controllen);

	header->cmsg_level = level;
	header->cmsg_type = type;
	header->cmsg_len = CMSG_LEN(length);
	memcpy(CMSG_DATA(header), value, length);
	message->msg_controllen += CMSG_SPACE(length);
}

static void send_run(struct side *side)
{
	_Alignas(struct cmsghdr) char control[CONTROL];
	struct iovec span = {answer, sizeof(answer)};
	struct msghdr message = {.msg_name = &side->peer, .msg_namelen = sizeof(side->peer), .msg_iov = &span, .msg_iovlen = 1,
				 .msg_control = control};
	uint16_t segment = MESSAGE;
	int traffic_class = 0, hop_limit = 64;

	seal(answer, MESSAGE);
	seal(answer + MESSAGE, ACKNOWLEDGEMENT);
	add_control(&message, IPPROTO_IP, IP_PKTINFO, &side->from, sizeof(side->from));
	add_control(&message, IPPROTO_IP, IP_TOS, &traffic_class, sizeof(traffic_class));
	add_control(&message, IPPROTO_IP, IP_TTL, &hop_limit, sizeof(hop_limit));
	add_control(&message, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof(segment));
	if (sendmsg(side->out, &message, 0) < 0)
		give_up("sendmsg");
}

/* Note who it is from, to answer there. */
static ssize_t receive_run(struct side *side)
{
	_Alignas(struct cmsghdr) char control[CONTROL];
	struct iovec span = {buffer, sizeof(buffer)};
	struct sockaddr_in from;
	struct msghdr message = {.msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &span, .msg_iovlen = 1,
				 .msg_control = control, .msg_controllen = sizeof(control)};
	ssize_t length = recvmsg(side->in, &message, MSG_DONTWAIT);

	if (length <= 0)
		return length;
	for (struct cmsghdr *h = CMSG_FIRSTHDR(&message); h; h = CMSG_NXTHDR(&message, h))
		if (h->cmsg_level == IPPROTO_IP && h->cmsg_type == IP_PKTINFO)
			memcpy(&side->from, CMSG_DATA(h), sizeof(side->from));
	side->from.ipi_ifindex = 0;
	side->from.ipi_spec_dst = side->from.ipi_addr;
	side->peer.sin_addr = from.sin_addr;
	if (length != sizeof(answer) || !is_sealed(buffer, MESSAGE) || !is_sealed(buffer + MESSAGE, ACKNOWLEDGEMENT)) {
		errno = EBADMSG;
		give_up("run");
	}
	return length;
}

/* ---- both ---- */

static void pass(struct side *side)
{
	if (side->send)
		send_run(side);
	else if (send(side->out, buffer, MESSAGE, 0) < 0)
		give_up("send");
}

static ssize_t poll_for_one(struct side *side)
{
	double limit = now_seconds() + PATIENCE;

	for (unsigned tries = 1;; tries++) {
		ssize_t length = side->send ? receive_run(side) : recv(side->in, buffer, sizeof(buffer), MSG_DONTWAIT);

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
static void serve(bool send)
{
	struct side side = make_side(send, PORT);
	ssize_t got;

	side.peer = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(CLIENT_PORT)};
	printf("ready\n");
	fflush(stdout);
	if (send) {
		got = poll_for_one(&side);
	} else {
		socklen_t length = sizeof(side.peer);

		got = recvfrom(side.in, buffer, sizeof(buffer), 0, (struct sockaddr *)&side.peer, &length);
		if (got < 0 || connect(side.out, (struct sockaddr *)&side.peer, length) != 0)
			give_up("connect");
	}
	while (got > 0) {
		pass(&side);
		got = poll_for_one(&side);
	}
}

static int compare(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

static void play(bool send, const char *address, unsigned rounds)
{
	struct side side = make_side(send, send ? CLIENT_PORT : 0);
	double *sample = calloc(rounds, sizeof(*sample));

	side.peer = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(PORT)};
	if (!sample || inet_pton(AF_INET, address, &side.peer.sin_addr) != 1 ||
	    (!send && connect(side.out, (struct sockaddr *)&side.peer, sizeof(side.peer)) != 0))
		give_up(address);
	for (unsigned i = 0; i < rounds + WARM_UP; i++) {
		double began = now_seconds();

		pass(&side);
		poll_for_one(&side);
		if (i >= WARM_UP)
			sample[i - WARM_UP] = now_seconds() - began;
	}
	(void)!sendto(side.out, buffer, 0, 0, (struct sockaddr *)&side.peer, sizeof(side.peer));
	qsort(sample, rounds, sizeof(*sample), compare);
	printf("%.3f\n", sample[rounds / 2] / 2 * 1e6);
	free(sample);
}

int main(int argc, char **argv)
{
	bool send = argc > 1 && strcmp(argv[1], "send") == 0;
	unsigned rounds = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 20000;

	if (argc < 3 || argc > 4 || (!send && strcmp(argv[1], "bare") != 0) || rounds == 0) {
		fprintf(stderr, "usage: udp_pingpong bare|send serve | bare|send ADDRESS [ROUNDS]\n");
		return 2;
	}
	if (strcmp(argv[2], "serve") == 0)
		serve(send);
	else
		play(send, argv[2], rounds);
	return 0;
}
