/* SPDX-License-Identifier: MIT
 *
 * udp_ideas WAY receive
 * udp_ideas WAY send ADDRESS [SECONDS]
 * udp_ideas copy
 *
 * Other ways to ask the kernel for what our links ask of it, each beside the plain one: which of them is worth building? No protocol and no
 * CRC, so that a gain shows whole. Bulk is runs of 62 datagrams of 1,044 bytes (UDP_SEGMENT, UDP_GRO) from a connected socket.
 *
 *   plain      sendmsg and recvmsg
 *   zerocopy   MSG_ZEROCOPY, with 64 runs under way
 *   uring      io_uring: eight sends with one system call; multishot receive into registered buffers
 *   uring_zc   the same, sent without a copy from registered memory
 *   small      plain, from and to 8 MiB in pages of 4 KiB
 *   huge       plain, from and to 8 MiB in huge pages
 *   long       runs of more than 64 KiB
 *   sleep      ping-pong of 24 bytes; both sleep in recvmsg
 *   busy       the same with SO_BUSY_POLL and SO_PREFER_BUSY_POLL
 *   copy       no socket: 64 KiB at a time copied to 8 MiB, the lines asked for ahead (prefetch for writing) or not
 *
 * The receiver says "ready" and ends when nothing has come for half a second. Each prints what it moved in GB, seconds, Gb/s, and
 * CPU seconds of its own for each GB; who plays ping-pong prints microseconds one way.
 */
#include "ideas.h"

#include <arpa/inet.h>
#include <errno.h>
#include <liburing.h>
#include <linux/errqueue.h>
#include <netinet/udp.h>
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
	PORT = 47911, DATAGRAM = 1044, RUN = 62 * DATAGRAM, ROOM = 65536, PLACES = 64, MEMORY = 8 * 1024 * 1024, SOCKET_BUFFER = MEMORY,
	UNDER_WAY = 64, AT_ONCE = 8, PINGS = 50000, SMALL = 24, GROUP = 1, AHEAD = 1024,
};

enum way { PLAIN, ZEROCOPY, URING, URING_ZC, SMALL_PAGES, HUGE_PAGES, LONG, SLEEP, BUSY, COPY, WAYS };
static const char *const way_name[WAYS] = {"plain", "zerocopy", "uring", "uring_zc", "small", "huge", "long", "sleep", "busy", "copy"};

static uint8_t *memory;

static void report(double bytes, double seconds, double cpu)
{
	printf("%.2f GB in %.3f s: %.1f Gb/s, CPU %.3f s a GB\n", bytes / 1e9, seconds, bytes * 8 / 1e9 / seconds, cpu / (bytes / 1e9));
}

static void take_memory(enum way way)
{
	memory = mmap(NULL, 2 * MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	want(memory != MAP_FAILED, "mmap");
	/* Huge pages begin where a multiple of theirs does. */
	memory += -(uintptr_t)memory & (2 * 1024 * 1024 - 1);
	want(madvise(memory, MEMORY, way == HUGE_PAGES ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) == 0, "madvise");
	memset(memory, 1, MEMORY);
}

/* The next place for a run: the same few, or all of the 8 MiB. */
static uint8_t *place(enum way way, unsigned number)
{
	unsigned places = way == SMALL_PAGES || way == HUGE_PAGES ? MEMORY / ROOM : PLACES;

	return memory + (size_t)(number % places) * ROOM;
}

static int open_socket(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0), size = SOCKET_BUFFER;

	want(fd >= 0, "socket");
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)) != 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) != 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	return fd;
}

static void set(int fd, int level, int option, int value, const char *name)
{
	want(setsockopt(fd, level, option, &value, sizeof(value)) == 0, name);
}

/* ---- sending ---- */

/* How many sends the kernel is done with. */
static unsigned reap(int fd)
{
	char control[128];
	struct msghdr message = {.msg_control = control, .msg_controllen = sizeof(control)};
	struct sock_extended_err error;
	struct cmsghdr *header;

	if (recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
		return 0;
	header = CMSG_FIRSTHDR(&message);
	if (!header)
		return 0;
	memcpy(&error, CMSG_DATA(header), sizeof(error));
	return error.ee_data - error.ee_info + 1;
}

static double send_zerocopy(int fd, double end)
{
	unsigned sent = 0, done = 0;

	set(fd, SOL_SOCKET, SO_ZEROCOPY, 1, "SO_ZEROCOPY");
	while (now() < end) {
		for (; sent - done < UNDER_WAY; sent++)
			if (send(fd, place(ZEROCOPY, sent), RUN, MSG_ZEROCOPY) < 0)
				break;
		done += reap(fd);
	}
	return (double)sent * RUN;
}

static double send_plain(int fd, enum way way, double end)
{
	unsigned sent = 0;

	while (now() < end)
		for (unsigned i = 0; i < AT_ONCE; i++, sent++)
			want(send(fd, place(way, sent), RUN, 0) == RUN, "send");
	return (double)sent * RUN;
}

static double send_uring(int fd, enum way way, double end)
{
	struct io_uring ring;
	struct iovec all = {memory, PLACES * ROOM};
	unsigned sent = 0, under_way = 0;

	want(io_uring_queue_init(2 * UNDER_WAY, &ring, IORING_SETUP_SINGLE_ISSUER) == 0, "io_uring");
	want(io_uring_register_buffers(&ring, &all, 1) == 0, "registered buffers");
	while (now() < end) {
		struct io_uring_cqe *cqe;
		unsigned head, seen = 0;

		for (unsigned i = 0; i < AT_ONCE && under_way < UNDER_WAY; i++, sent++, under_way++) {
			struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

			if (way == URING_ZC)
				io_uring_prep_send_zc_fixed(sqe, fd, place(way, sent), RUN, 0, 0, 0);
			else
				io_uring_prep_send(sqe, fd, place(way, sent), RUN, 0);
		}
		want(io_uring_submit_and_wait(&ring, under_way ? 1 : 0) >= 0, "submit");
		io_uring_for_each_cqe(&ring, head, cqe) {
			seen++;
			/* Without a copy there are two: sent, and done with. */
			if (!(cqe->flags & IORING_CQE_F_MORE))
				under_way--;
		}
		io_uring_cq_advance(&ring, seen);
	}
	io_uring_queue_exit(&ring);
	return (double)sent * RUN;
}

static void send_all(enum way way, const char *address, double seconds)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	double began, cpu, bytes;
	int fd = open_socket();

	want(inet_pton(AF_INET, address, &to.sin_addr) == 1 && connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0, address);
	set(fd, IPPROTO_UDP, UDP_SEGMENT, DATAGRAM, "UDP_SEGMENT");
	if (way == LONG) {
		bool taken = send(fd, memory, 2 * RUN, 0) == 2 * RUN;

		printf("a run of %d bytes: %s\n", 2 * RUN, taken ? "sent" : strerror(errno));
		return;
	}
	began = now();
	cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
	if (way == ZEROCOPY)
		bytes = send_zerocopy(fd, began + seconds);
	else if (way == URING || way == URING_ZC)
		bytes = send_uring(fd, way, began + seconds);
	else
		bytes = send_plain(fd, way, began + seconds);
	report(bytes, now() - began, seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu);
}

/* ---- receiving ---- */

static double receive_plain(int fd, enum way way)
{
	double bytes = 0;
	ssize_t got;

	for (unsigned i = 0; (got = recv(fd, place(way, i), ROOM, 0)) > 0; i++)
		bytes += (double)got;
	return bytes;
}

/* It is the kernel's when the ring is moved on. */
static void give_place(struct io_uring_buf_ring *places, unsigned number, unsigned behind)
{
	io_uring_buf_ring_add(places, memory + (size_t)number * ROOM, ROOM, (unsigned short)number, io_uring_buf_ring_mask(PLACES),
			      (int)behind);
}

static double receive_uring(int fd)
{
	struct __kernel_timespec patience = {.tv_nsec = 500000000};
	struct io_uring_buf_reg shared = {.ring_entries = PLACES, .bgid = GROUP};
	struct io_uring_buf_ring *places;
	struct io_uring ring;
	bool armed = false;
	double bytes = 0;

	want(io_uring_queue_init(UNDER_WAY, &ring, IORING_SETUP_SINGLE_ISSUER) == 0, "io_uring");
	want(posix_memalign((void **)&places, 4096, PLACES * sizeof(struct io_uring_buf)) == 0, "buffers");
	shared.ring_addr = (uintptr_t)places;
	want(io_uring_register_buf_ring(&ring, &shared, 0) == 0, "provided buffers");
	io_uring_buf_ring_init(places);
	for (unsigned i = 0; i < PLACES; i++)
		give_place(places, i, i);
	io_uring_buf_ring_advance(places, PLACES);
	for (;;) {
		struct io_uring_cqe *cqe;
		unsigned head, seen = 0, given = 0;

		if (!armed) {
			struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

			io_uring_prep_recv_multishot(sqe, fd, NULL, 0, 0);
			sqe->flags |= IOSQE_BUFFER_SELECT;
			sqe->buf_group = GROUP;
			want(io_uring_submit(&ring) >= 0, "submit");
			armed = true;
		}
		if (io_uring_wait_cqe_timeout(&ring, &cqe, &patience) != 0)
			break;
		io_uring_for_each_cqe(&ring, head, cqe) {
			seen++;
			armed = armed && (cqe->flags & IORING_CQE_F_MORE);
			if (cqe->res <= 0)
				continue;
			bytes += cqe->res;
			give_place(places, cqe->flags >> IORING_CQE_BUFFER_SHIFT, given++);
		}
		io_uring_buf_ring_advance(places, (int)given);
		io_uring_cq_advance(&ring, seen);
	}
	io_uring_queue_exit(&ring);
	return bytes;
}

static int open_receiver(void)
{
	const struct timeval patience = {.tv_usec = 500000};
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	int fd = open_socket();

	want(bind(fd, (struct sockaddr *)&any, sizeof(any)) == 0, "bind");
	want(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0, "SO_RCVTIMEO");
	return fd;
}

static void receive_all(enum way way)
{
	double began, cpu, bytes;
	char byte;
	int fd = open_receiver();

	set(fd, IPPROTO_UDP, UDP_GRO, 1, "UDP_GRO");
	printf("ready\n");
	fflush(stdout);
	while (recv(fd, &byte, 1, MSG_PEEK) < 0)
		continue;
	began = now();
	cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
	bytes = way == URING || way == URING_ZC ? receive_uring(fd) : receive_plain(fd, way);
	report(bytes, now() - began - 0.5, seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu);
}

/* ---- ping-pong ---- */

static void be_busy(int fd, enum way way)
{
	if (way != BUSY)
		return;
	set(fd, SOL_SOCKET, SO_BUSY_POLL, 50, "SO_BUSY_POLL");
	set(fd, SOL_SOCKET, SO_PREFER_BUSY_POLL, 1, "SO_PREFER_BUSY_POLL");
}

static void answer(enum way way)
{
	struct sockaddr_in from;
	socklen_t length = sizeof(from);
	uint8_t ping[SMALL];
	int fd = open_receiver();

	be_busy(fd, way);
	printf("ready\n");
	fflush(stdout);
	while (recvfrom(fd, ping, sizeof(ping), 0, (struct sockaddr *)&from, &length) < 0)
		continue;
	do
		want(sendto(fd, ping, sizeof(ping), 0, (struct sockaddr *)&from, length) == SMALL, "sendto");
	while (recvfrom(fd, ping, sizeof(ping), 0, (struct sockaddr *)&from, &length) == SMALL);
}

static void ask(enum way way, const char *address)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	uint8_t ping[SMALL] = {0};
	int fd = open_socket();
	double began;

	be_busy(fd, way);
	want(inet_pton(AF_INET, address, &to.sin_addr) == 1 && connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0, address);
	began = now();
	for (unsigned i = 0; i < PINGS; i++)
		want(send(fd, ping, SMALL, 0) == SMALL && recv(fd, ping, SMALL, 0) == SMALL, "ping");
	printf("%.2f us one way\n", (now() - began) / PINGS / 2 * 1e6);
}

/* ---- copying ---- */

static void copy_all(void)
{
	static uint8_t from[ROOM];

	for (unsigned round = 0; round < 6; round++) {
		bool ahead = round % 2;
		double began = now();
		unsigned runs = 0;

		for (; now() < began + 0.5; runs++) {
			uint8_t *to = place(SMALL_PAGES, runs);

			for (unsigned i = 0; i < ROOM; i += 1024) {
				for (unsigned line = 0; ahead && line < 1024; line += 64)
					__builtin_prefetch(to + i + AHEAD + line, 1);
				memcpy(to + i, from + i, 1024);
			}
		}
		printf("%s %.2f GB/s\n", ahead ? "asked for ahead" : "plain", (double)runs * ROOM / 1e9 / (now() - began));
	}
}

int main(int argc, char **argv)
{
	enum way way = PLAIN;

	while (argc > 1 && way < WAYS && strcmp(argv[1], way_name[way]) != 0)
		way++;
	if (argc < 2 || way == WAYS || (way != COPY && argc < 3)) {
		fprintf(stderr, "usage: udp_ideas WAY receive | WAY send ADDRESS [SECONDS] | copy\n");
		return 2;
	}
	take_memory(way);
	if (way == COPY)
		copy_all();
	else if (strcmp(argv[2], "receive") == 0)
		way == SLEEP || way == BUSY ? answer(way) : receive_all(way);
	else if (argc > 3)
		way == SLEEP || way == BUSY ? ask(way, argv[3]) : send_all(way, argv[3], argc > 4 ? atof(argv[4]) : 1);
	return 0;
}
