/* SPDX-License-Identifier: MIT
 *
 * xdp_ideas can INTERFACE
 * xdp_ideas receive|spin udp|native|generic|runs|past_native|past_generic INTERFACE
 * xdp_ideas send udp|xdp INTERFACE ADDRESS MAC [SECONDS]
 * xdp_ideas ask|answer udp|native|generic|tx|packet INTERFACE ADDRESS MAC
 *
 * AF_XDP beside UDP sockets as a way for RoCEv2's packets: would a link of its own be worth building? No protocol and no CRC, so that a
 * gain shows whole. Bulk is datagrams of 1,044 bytes; a receiver sleeps when nothing is there ("receive") or looks again ("spin").
 * Ping-pong is datagrams of 24 bytes, between two that look again. Each side chooses for itself:
 *
 *   udp            a connected socket; bulk in runs of 62 datagrams (UDP_SEGMENT, UDP_GRO)
 *   xdp            frames that the sender makes whole go by an AF_XDP TX ring, 64 put into it at a time
 *   native         a program at the interface, run by its driver, redirects UDP port 4791 to an AF_XDP RX ring
 *   generic        the same, run by the kernel for any driver (XDP_FLAGS_SKB_MODE)
 *   runs           generic, and frames may have several pieces (XDP_USE_SG): what left as a run can come as one
 *   past_native    a UDP socket, at an interface whose program lets all pass: what bulk would pay for short messages by AF_XDP
 *   past_generic   the same
 *   tx             frames out by AF_XDP, a UDP socket in: needs no program
 *   packet         frames out by a packet socket (PACKET_QDISC_BYPASS), a UDP socket in: needs no rings either
 *
 * It takes CAP_NET_RAW for the socket, CAP_BPF and CAP_NET_ADMIN for the program; "can" says what of it is to be had here. The program
 * leaves the interface with the process. Memory for frames is 4 MiB: an ordinary user may lock 8.
 *
 * Receivers say "ready" and end when nothing has come for half a second, or nothing at all for four. Each side prints what it moved in
 * GB, seconds, Gb/s, and CPU seconds of its own for each GB; who receives by AF_XDP also what was dropped for want of room, and the number
 * of the NAPI that could be polled, 0 for none. Who asks prints microseconds one way.
 */
#include "ideas.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <linux/if_packet.h>
#include <linux/if_xdp.h>
#include <net/if.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Newer than the headers of Debian 12. */
#ifndef XDP_USE_SG
#define XDP_USE_SG (1 << 4)
#endif
#ifndef XDP_PKT_CONTD
#define XDP_PKT_CONTD (1 << 0)
#endif

enum {
	PORT = 4791, DATAGRAM = 1044, IN_RUN = 62, RUN = IN_RUN * DATAGRAM, ROOM = 65536, PLACES = 64, SOCKET_BUFFER = 8 * 1024 * 1024,
	ETHERNET = 14, IP = 20, UDP = 8, HEADERS = ETHERNET + IP + UDP,
	CHUNK = 4096,
	RING = 512,                            /* entries of each ring; chunks below it are for receiving, those above for sending */
	AT_ONCE = 64, PINGS = 50000, SMALL = 24,
};

#define PATIENCE 0.5 /* seconds without a datagram: the sender is done */
#define START 4.0    /* seconds for it to begin */

enum way { UDP_SOCKET, XDP, NATIVE, GENERIC, RUNS, PAST_NATIVE, PAST_GENERIC, TX, PACKET, WAYS };
static const char *const way_name[WAYS] = {"udp", "xdp", "native", "generic", "runs", "past_native", "past_generic", "tx", "packet"};

static uint8_t memory[PLACES * ROOM];

static void set(int fd, int level, int option, int value, const char *name)
{
	want(setsockopt(fd, level, option, &value, sizeof(value)) == 0, name);
}

static void say_ready(void)
{
	printf("ready\n");
	fflush(stdout);
}

/* What one side moved, from the first to the last. */
struct tally {
	double bytes, first, last, cpu;
};

static void count(struct tally *tally, double bytes)
{
	tally->last = now();
	if (tally->bytes == 0) {
		tally->first = tally->last;
		tally->cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
	}
	tally->bytes += bytes;
}

/* False: nothing more will come. */
static bool goes_on(const struct tally *tally, double began)
{
	return tally->bytes == 0 ? now() - began < START : now() - tally->last < PATIENCE;
}

static void report(const struct tally *tally)
{
	double seconds = tally->last - tally->first, cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - tally->cpu;

	if (tally->bytes == 0)
		printf("nothing\n");
	else
		printf("%.2f GB in %.3f s: %.1f Gb/s, CPU %.3f s a GB\n", tally->bytes / 1e9, seconds, tally->bytes * 8 / 1e9 / seconds,
		       cpu / (tally->bytes / 1e9));
}

/* ---- the program at the interface ---- */

static int bpf(enum bpf_cmd command, union bpf_attr *attributes)
{
	return (int)syscall(SYS_bpf, command, attributes, sizeof(*attributes));
}

/* Queue 0 of the interface leads to the socket. */
static int make_map(int socket)
{
	union bpf_attr make = {.map_type = BPF_MAP_TYPE_XSKMAP, .key_size = 4, .value_size = 4, .max_entries = 1};
	union bpf_attr put = {0};
	uint32_t queue = 0;
	int map = bpf(BPF_MAP_CREATE, &make);

	if (map < 0)
		return -1;
	put.map_fd = (uint32_t)map;
	put.key = (uintptr_t)&queue;
	put.value = (uintptr_t)&socket;
	return bpf(BPF_MAP_UPDATE_ELEM, &put) == 0 ? map : -1;
}

/* One instruction: operation, registers, jump or offset, number. */
#define DO(operation, to, from, where, number) \
	{.code = (operation), .dst_reg = (to), .src_reg = (from), .off = (where), .imm = (number)}
#define LOAD(size, to, from, where) DO(BPF_LDX | BPF_MEM | (size), to, from, where, 0)
#define UNLESS(reg, number, skip) DO(BPF_JMP | BPF_JNE | BPF_K, reg, 0, skip, number)

/* IPv4 without options, UDP to this port: to the socket. All else goes its way. */
static int load_program(int map, uint16_t port)
{
	const struct bpf_insn program[] = {
		LOAD(BPF_W, 2, 1, offsetof(struct xdp_md, data)),
		LOAD(BPF_W, 3, 1, offsetof(struct xdp_md, data_end)),
		DO(BPF_ALU64 | BPF_MOV | BPF_X, 4, 2, 0, 0),
		DO(BPF_ALU64 | BPF_ADD | BPF_K, 4, 0, 0, HEADERS),
		DO(BPF_JMP | BPF_JGT | BPF_X, 4, 3, 14, 0),
		LOAD(BPF_H, 5, 2, 12),
		UNLESS(5, htons(0x0800), 12),
		LOAD(BPF_B, 5, 2, ETHERNET),
		UNLESS(5, 0x45, 10),
		LOAD(BPF_B, 5, 2, ETHERNET + 9),
		UNLESS(5, IPPROTO_UDP, 8),
		LOAD(BPF_H, 5, 2, ETHERNET + IP + 2),
		UNLESS(5, htons(port), 6),
		LOAD(BPF_W, 2, 1, offsetof(struct xdp_md, rx_queue_index)),
		DO(BPF_LD | BPF_IMM | BPF_DW, 1, BPF_PSEUDO_MAP_FD, 0, map),
		DO(0, 0, 0, 0, 0),             /* the other half of the map */
		DO(BPF_ALU64 | BPF_MOV | BPF_K, 3, 0, 0, XDP_PASS),
		DO(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_redirect_map),
		DO(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
		DO(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, XDP_PASS),
		DO(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
	};
	union bpf_attr load = {
		.prog_type = BPF_PROG_TYPE_XDP,
		.insns = (uintptr_t)program,
		.insn_cnt = sizeof(program) / sizeof(*program),
		.license = (uintptr_t)"Dual MIT/GPL",
		.prog_flags = BPF_F_XDP_HAS_FRAGS,
		.expected_attach_type = BPF_XDP,
	};

	return bpf(BPF_PROG_LOAD, &load);
}

/* It stays as long as the descriptor that is returned. */
static int attach(int program, const char *interface, uint32_t mode)
{
	union bpf_attr link = {0};

	link.link_create.prog_fd = (uint32_t)program;
	link.link_create.target_ifindex = if_nametoindex(interface);
	link.link_create.attach_type = BPF_XDP;
	link.link_create.flags = mode;
	return bpf(BPF_LINK_CREATE, &link);
}

static void redirect(int socket, const char *interface, enum way way)
{
	bool past = way == PAST_NATIVE || way == PAST_GENERIC;
	int map = make_map(socket), program;

	want(map >= 0, "XSKMAP");
	program = load_program(map, past ? 0 : PORT);
	want(program >= 0, "program");
	want(attach(program, interface, way == NATIVE || way == PAST_NATIVE ? XDP_FLAGS_DRV_MODE : XDP_FLAGS_SKB_MODE) >= 0, interface);
}

/* ---- an AF_XDP socket ---- */

/* Shared with the kernel: who fills a ring moves the producer on, who empties it the consumer, each with release after the entries; the
 * other reads it with acquire before them. */
struct ring {
	uint32_t *producer, *consumer;
	void *entries;
};

struct xdp {
	int fd;
	uint8_t *chunks;
	struct ring fill, received, send, sent;
	unsigned under_way;                    /* frames given to the kernel that are not done with */
	uint32_t next;                         /* number of the next frame to send */
	bool inside;                           /* the last piece received has a next one */
};

static uint32_t waiting(const struct ring *ring)
{
	return __atomic_load_n(ring->producer, __ATOMIC_ACQUIRE) - *ring->consumer;
}

static void produce(struct ring *ring, uint32_t number)
{
	__atomic_store_n(ring->producer, *ring->producer + number, __ATOMIC_RELEASE);
}

static void consume(struct ring *ring, uint32_t number)
{
	__atomic_store_n(ring->consumer, *ring->consumer + number, __ATOMIC_RELEASE);
}

static struct ring map_ring(int fd, const struct xdp_ring_offset *at, off_t which, size_t entry)
{
	uint8_t *start = mmap(NULL, at->desc + RING * entry, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, which);

	want(start != MAP_FAILED, "ring");
	return (struct ring){(uint32_t *)(start + at->producer), (uint32_t *)(start + at->consumer), start + at->desc};
}

/* What a closed socket had, its queue and its locked memory, the kernel frees somewhat later. */
static bool may_yet_be_freed(unsigned *looks)
{
	if ((errno != EBUSY && errno != ENOBUFS) || ++*looks > 1000)
		return false;
	usleep(1000);
	return true;
}

static int bind_to(int fd, const char *interface, uint16_t flags)
{
	struct sockaddr_xdp address = {.sxdp_family = AF_XDP, .sxdp_flags = flags, .sxdp_ifindex = if_nametoindex(interface)};
	unsigned looks = 0;
	int result;

	do
		result = bind(fd, (struct sockaddr *)&address, sizeof(address));
	while (result != 0 && may_yet_be_freed(&looks));
	return result;
}

static void map_rings(struct xdp *xdp)
{
	struct xdp_mmap_offsets at;
	socklen_t length = sizeof(at);

	set(xdp->fd, SOL_XDP, XDP_UMEM_FILL_RING, RING, "fill ring");
	set(xdp->fd, SOL_XDP, XDP_UMEM_COMPLETION_RING, RING, "completion ring");
	set(xdp->fd, SOL_XDP, XDP_RX_RING, RING, "RX ring");
	set(xdp->fd, SOL_XDP, XDP_TX_RING, RING, "TX ring");
	want(getsockopt(xdp->fd, SOL_XDP, XDP_MMAP_OFFSETS, &at, &length) == 0, "offsets of rings");
	xdp->fill = map_ring(xdp->fd, &at.fr, XDP_UMEM_PGOFF_FILL_RING, sizeof(uint64_t));
	xdp->sent = map_ring(xdp->fd, &at.cr, XDP_UMEM_PGOFF_COMPLETION_RING, sizeof(uint64_t));
	xdp->received = map_ring(xdp->fd, &at.rx, XDP_PGOFF_RX_RING, sizeof(struct xdp_desc));
	xdp->send = map_ring(xdp->fd, &at.tx, XDP_PGOFF_TX_RING, sizeof(struct xdp_desc));
	for (uint64_t i = 0; i < RING; i++)
		((uint64_t *)xdp->fill.entries)[i] = i * CHUNK;
	produce(&xdp->fill, RING);
}

static struct xdp make_xdp(void)
{
	struct xdp_umem_reg region = {.len = 2 * RING * CHUNK, .chunk_size = CHUNK};
	struct xdp xdp = {.fd = socket(AF_XDP, SOCK_RAW, 0)};
	unsigned looks = 0;
	int result;

	want(xdp.fd >= 0, "socket(AF_XDP)");
	xdp.chunks = mmap(NULL, region.len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	want(xdp.chunks != MAP_FAILED, "mmap");
	region.addr = (uintptr_t)xdp.chunks;
	do
		result = setsockopt(xdp.fd, SOL_XDP, XDP_UMEM_REG, &region, sizeof(region));
	while (result != 0 && may_yet_be_freed(&looks));
	want(result == 0, "XDP_UMEM_REG");
	map_rings(&xdp);
	return xdp;
}

static struct xdp open_xdp(const char *interface, enum way way)
{
	struct xdp xdp = make_xdp();

	want(bind_to(xdp.fd, interface, XDP_COPY | (way == RUNS ? XDP_USE_SG : 0)) == 0, interface);
	if (way != XDP && way != TX)
		redirect(xdp.fd, interface, way);
	return xdp;
}

static const char *outcome(int result)
{
	return result >= 0 ? "yes" : strerror(errno);
}

/* In a process of its own, because nothing less takes the socket from its queue. */
static void say_whether_bound(const char *interface, uint16_t flags, const char *name)
{
	if (fork() == 0) {
		struct xdp xdp = make_xdp();

		printf("AF_XDP, %s: %s\n", name, outcome(bind_to(xdp.fd, interface, flags)));
		exit(0);
	}
	wait(NULL);
}

static void say_what_can_be(const char *interface)
{
	int map, program;

	say_whether_bound(interface, XDP_COPY, "copy");
	say_whether_bound(interface, XDP_ZEROCOPY, "zero copy");
	say_whether_bound(interface, XDP_COPY | XDP_USE_SG, "frames of several pieces");
	map = make_map(socket(AF_XDP, SOCK_RAW, 0));
	printf("XSKMAP: %s\n", outcome(map));
	program = load_program(map, PORT);
	printf("program: %s\n", outcome(program));
	for (unsigned i = 0; program >= 0 && i < 2; i++) {
		int link = attach(program, interface, i ? XDP_FLAGS_SKB_MODE : XDP_FLAGS_DRV_MODE);

		printf("program, %s: %s\n", i ? "generic" : "native", outcome(link));
		if (link >= 0)
			close(link);
	}
}

/* ---- frames ---- */

/* Of a header of IPv4. */
static uint16_t checksum(const uint8_t *header)
{
	uint32_t sum = 0;

	for (unsigned i = 0; i < IP; i += 2)
		sum += (uint32_t)(header[i] << 8 | header[i + 1]);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

static void put16(uint8_t *to, unsigned value)
{
	to[0] = (uint8_t)(value >> 8);
	to[1] = (uint8_t)value;
}

/* All that frames to one peer have in common, from our own interface to its. */
static void make_headers(uint8_t headers[HEADERS], const char *interface, const char *address, const char *mac, size_t payload)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct ifreq request = {0};
	unsigned byte[6];

	memset(headers, 0, HEADERS);
	want(sscanf(mac, "%x:%x:%x:%x:%x:%x", byte, byte + 1, byte + 2, byte + 3, byte + 4, byte + 5) == 6, mac);
	for (unsigned i = 0; i < 6; i++)
		headers[i] = (uint8_t)byte[i];
	strncpy(request.ifr_name, interface, IFNAMSIZ - 1);
	want(fd >= 0 && ioctl(fd, SIOCGIFHWADDR, &request) == 0, interface);
	memcpy(headers + 6, request.ifr_hwaddr.sa_data, 6);
	want(ioctl(fd, SIOCGIFADDR, &request) == 0, interface);
	memcpy(headers + ETHERNET + 12, request.ifr_addr.sa_data + 2, 4);
	want(inet_pton(AF_INET, address, headers + ETHERNET + 16) == 1, address);
	close(fd);
	put16(headers + 12, 0x0800);
	headers[ETHERNET] = 0x45;
	put16(headers + ETHERNET + 2, (unsigned)(IP + UDP + payload));
	headers[ETHERNET + 6] = 0x40;          /* not to be fragmented */
	headers[ETHERNET + 8] = 64;
	headers[ETHERNET + 9] = IPPROTO_UDP;
	put16(headers + ETHERNET + IP, PORT);
	put16(headers + ETHERNET + IP + 2, PORT);
	put16(headers + ETHERNET + IP + 4, (unsigned)(UDP + payload));
}

/* The frame gets its identification, and the header's checksum with it, as a link would have to do. */
static void finish_headers(uint8_t *frame, const uint8_t headers[HEADERS], uint32_t number)
{
	memcpy(frame, headers, HEADERS);
	put16(frame + ETHERNET + 4, number);
	put16(frame + ETHERNET + 10, checksum(frame + ETHERNET));
}

static void add_frame(struct xdp *xdp, const uint8_t headers[HEADERS], size_t payload)
{
	uint64_t at = (RING + xdp->next % RING) * (uint64_t)CHUNK;

	finish_headers(xdp->chunks + at, headers, xdp->next);
	((struct xdp_desc *)xdp->send.entries)[xdp->next % RING] = (struct xdp_desc){.addr = at, .len = (uint32_t)(HEADERS + payload)};
	xdp->next++;
	xdp->under_way++;
	produce(&xdp->send, 1);
}

/* The kernel copies frames in their order, not always all of them: the chunks that it is done with are the oldest. */
static void push(struct xdp *xdp)
{
	uint32_t done;

	want(sendto(xdp->fd, NULL, 0, MSG_DONTWAIT, NULL, 0) >= 0 || errno == EAGAIN || errno == EBUSY || errno == ENOBUFS, "sendto");
	done = waiting(&xdp->sent);
	consume(&xdp->sent, done);
	xdp->under_way -= done;
}

/* Takes what has come and gives its chunks back. Returns bytes of payload; `first`, if any, gets the first frame as it came. */
static double take(struct xdp *xdp, uint8_t *first)
{
	uint32_t number = waiting(&xdp->received), from = *xdp->received.consumer, to = *xdp->fill.producer;
	double bytes = 0;

	for (uint32_t i = 0; i < number; i++) {
		const struct xdp_desc *piece = (struct xdp_desc *)xdp->received.entries + (from + i) % RING;

		if (first && i == 0)
			memcpy(first, xdp->chunks + piece->addr, HEADERS + SMALL);
		bytes += piece->len - (xdp->inside ? 0 : HEADERS);
		xdp->inside = piece->options & XDP_PKT_CONTD;
		((uint64_t *)xdp->fill.entries)[(to + i) % RING] = piece->addr & ~(uint64_t)(CHUNK - 1);
	}
	if (number == 0)
		return 0;
	consume(&xdp->received, number);
	produce(&xdp->fill, number);
	return bytes;
}

/* ---- bulk ---- */

static int open_udp(void)
{
	const struct timeval patience = {.tv_usec = (suseconds_t)(PATIENCE * 1e6)};
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	int fd = socket(AF_INET, SOCK_DGRAM, 0), size = SOCKET_BUFFER;

	want(fd >= 0 && bind(fd, (struct sockaddr *)&any, sizeof(any)) == 0, "UDP socket");
	for (unsigned i = 0; i < 2; i++)
		if (setsockopt(fd, SOL_SOCKET, i ? SO_SNDBUFFORCE : SO_RCVBUFFORCE, &size, sizeof(size)) != 0)
			(void)setsockopt(fd, SOL_SOCKET, i ? SO_SNDBUF : SO_RCVBUF, &size, sizeof(size));
	want(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0, "SO_RCVTIMEO");
	return fd;
}

static void connect_to(int fd, const char *address)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(PORT)};

	want(inet_pton(AF_INET, address, &to.sin_addr) == 1 && connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0, address);
}

static void send_by_udp(const char *address, double seconds)
{
	struct tally tally = {0};
	int fd = open_udp();

	/* Pages that were never written are all one page, which a cache holds. */
	memset(memory, 1, sizeof(memory));
	connect_to(fd, address);
	set(fd, IPPROTO_UDP, UDP_SEGMENT, DATAGRAM, "UDP_SEGMENT");
	for (unsigned i = 0; tally.last - tally.first < seconds; i++) {
		/* Where a run is cut before the interface, that may be full. */
		ssize_t sent = send(fd, memory + (size_t)(i % PLACES) * ROOM, RUN, 0);

		want(sent == RUN || errno == ENOBUFS, "send");
		count(&tally, sent == RUN ? RUN : 0);
	}
	report(&tally);
}

static void send_by_xdp(const char *interface, const char *address, const char *mac, double seconds)
{
	struct xdp xdp = open_xdp(interface, XDP);
	uint8_t headers[HEADERS];
	struct tally tally = {0};

	make_headers(headers, interface, address, mac, DATAGRAM);
	while (tally.last - tally.first < seconds) {
		unsigned added = 0;

		for (; added < AT_ONCE && xdp.under_way < RING; added++)
			add_frame(&xdp, headers, DATAGRAM);
		push(&xdp);
		count(&tally, (double)added * DATAGRAM);
	}
	report(&tally);
}

static void receive_by_udp(bool spin)
{
	struct tally tally = {0};
	double began;
	int fd = open_udp();

	set(fd, IPPROTO_UDP, UDP_GRO, 1, "UDP_GRO");
	say_ready();
	began = now();
	for (unsigned i = 0; goes_on(&tally, began);) {
		ssize_t got = recv(fd, memory + (size_t)(i % PLACES) * ROOM, ROOM, spin ? MSG_DONTWAIT : 0);

		if (got <= 0)
			continue;
		count(&tally, (double)got);
		i++;
	}
	report(&tally);
}

static void report_socket(const struct xdp *xdp)
{
	struct xdp_statistics statistics;
	socklen_t length = sizeof(statistics), size = sizeof(int);
	int napi;

	want(getsockopt(xdp->fd, SOL_XDP, XDP_STATISTICS, &statistics, &length) == 0, "XDP_STATISTICS");
	want(getsockopt(xdp->fd, SOL_SOCKET, SO_INCOMING_NAPI_ID, &napi, &size) == 0, "SO_INCOMING_NAPI_ID");
	printf("dropped %llu, NAPI %d\n", (unsigned long long)(statistics.rx_dropped + statistics.rx_ring_full), napi);
}

static void receive_by_xdp(enum way way, const char *interface, bool spin)
{
	struct xdp xdp = open_xdp(interface, way);
	struct pollfd readable = {.fd = xdp.fd, .events = POLLIN};
	struct tally tally = {0};
	double began;

	say_ready();
	began = now();
	while (goes_on(&tally, began)) {
		double bytes = take(&xdp, NULL);

		if (bytes > 0)
			count(&tally, bytes);
		else if (!spin)
			(void)poll(&readable, 1, (int)(PATIENCE * 1e3));
	}
	report(&tally);
	report_socket(&xdp);
}

static void receive(enum way way, const char *interface, bool spin)
{
	if (way == NATIVE || way == GENERIC || way == RUNS) {
		receive_by_xdp(way, interface, spin);
		return;
	}
	if (way != UDP_SOCKET)
		(void)open_xdp(interface, way);
	receive_by_udp(spin);
}

/* ---- ping-pong ---- */

/* One end of a ping-pong: sends by a UDP socket, a packet socket or AF_XDP, receives by the first or the last. */
struct end {
	enum way way;
	int udp, packet;
	struct xdp xdp;
	uint8_t headers[HEADERS];
};

static int open_packet(const char *interface)
{
	struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_ifindex = (int)if_nametoindex(interface)};
	int fd = socket(AF_PACKET, SOCK_RAW, 0);

	want(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0, "packet socket");
	set(fd, SOL_PACKET, PACKET_QDISC_BYPASS, 1, "PACKET_QDISC_BYPASS");
	return fd;
}

static struct end open_end(enum way way, const char *interface, const char *address, const char *mac)
{
	struct end end = {.way = way, .udp = open_udp()};

	connect_to(end.udp, address);
	if (way == PACKET)
		end.packet = open_packet(interface);
	else if (way != UDP_SOCKET)
		end.xdp = open_xdp(interface, way);
	make_headers(end.headers, interface, address, mac, SMALL);
	return end;
}

/* A message has room for headers before it. */
static void ping(struct end *end, uint8_t *message)
{
	if (end->way == UDP_SOCKET) {
		want(send(end->udp, message + HEADERS, SMALL, 0) == SMALL, "send");
	} else if (end->way == PACKET) {
		finish_headers(message, end->headers, end->xdp.next++);
		want(send(end->packet, message, HEADERS + SMALL, 0) == HEADERS + SMALL, "send");
	} else {
		memcpy(end->xdp.chunks + (RING + end->xdp.next % RING) * (size_t)CHUNK + HEADERS, message + HEADERS, SMALL);
		add_frame(&end->xdp, end->headers, SMALL);
		push(&end->xdp);
	}
}

/* False: nothing has come for too long. */
static bool pong(struct end *end, uint8_t *message)
{
	bool frames = end->way == NATIVE || end->way == GENERIC;
	double began = now();

	/* The clock is looked at now and then. */
	for (unsigned i = 1; i % 1024 != 0 || now() - began < PATIENCE; i++)
		if (frames ? take(&end->xdp, message) > 0 : recv(end->udp, message + HEADERS, SMALL, MSG_DONTWAIT) == SMALL)
			return true;
	return false;
}

static void ask(struct end *end)
{
	uint8_t message[HEADERS + SMALL] = {0};
	double began = now();

	for (uint32_t i = 0; i < PINGS; i++) {
		uint32_t answered;

		memcpy(message + HEADERS, &i, sizeof(i));
		ping(end, message);
		want(pong(end, message), "no answer");
		memcpy(&answered, message + HEADERS, sizeof(answered));
		want(answered == i, "another answer");
	}
	printf("%.2f us one way\n", (now() - began) / PINGS / 2 * 1e6);
}

static void answer(struct end *end)
{
	uint8_t message[HEADERS + SMALL];

	say_ready();
	while (!pong(end, message))
		continue;
	do
		ping(end, message);
	while (pong(end, message));
}

/* Whether the word names one of the ways, a bit each. */
static bool names(const char *word, unsigned ways, enum way *way)
{
	for (*way = 0; *way < WAYS; (*way)++)
		if (ways >> *way & 1 && strcmp(word, way_name[*way]) == 0)
			return true;
	return false;
}

int main(int argc, char **argv)
{
	const unsigned receiving = 1 << UDP_SOCKET | 1 << NATIVE | 1 << GENERIC | 1 << RUNS | 1 << PAST_NATIVE | 1 << PAST_GENERIC;
	const unsigned playing = 1 << UDP_SOCKET | 1 << NATIVE | 1 << GENERIC | 1 << TX | 1 << PACKET;
	const char *role = argc > 2 ? argv[1] : "";
	bool spin = strcmp(role, "spin") == 0, asks = strcmp(role, "ask") == 0;
	double seconds = argc > 6 ? atof(argv[6]) : 1;
	enum way way;

	if (strcmp(role, "can") == 0) {
		say_what_can_be(argv[2]);
	} else if (argc > 3 && (spin || strcmp(role, "receive") == 0) && names(argv[2], receiving, &way)) {
		receive(way, argv[3], spin);
	} else if (argc > 5 && strcmp(role, "send") == 0 && names(argv[2], 1 << UDP_SOCKET | 1 << XDP, &way)) {
		way == XDP ? send_by_xdp(argv[3], argv[4], argv[5], seconds) : send_by_udp(argv[4], seconds);
	} else if (argc > 5 && (asks || strcmp(role, "answer") == 0) && names(argv[2], playing, &way)) {
		struct end end = open_end(way, argv[3], argv[4], argv[5]);

		asks ? ask(&end) : answer(&end);
	} else {
		fprintf(stderr, "usage: xdp_ideas can INTERFACE | receive|spin WAY INTERFACE | "
			"send|ask|answer WAY INTERFACE ADDRESS MAC [SECONDS]\n");
		return 2;
	}
	return 0;
}
