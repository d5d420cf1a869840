/* SPDX-License-Identifier: MIT
 *
 * A stream rsocket and a peer that means no good: a plain rdma_cm connection whose hello, writes, messages and grants are the input's,
 * as is what the program at the rsocket does meanwhile. Everything is real: both libraries, the daemon, a network of its own.
 *
 * Whatever comes: no call waits for ever, what the peer posts completes, each byte that is read is the one that stands in the receive
 * buffer, each byte that arrives at an honest peer is the one that was sent, the listener goes on, and no descriptor is left.
 *
 * Each step is a byte for what to do and a few for its details; an input that ends in the middle reads zeros.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_verbs.h>
#include <rdma/rsocket.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/descriptors.h"
#include "lib/patience.h"
#include "lib/private_network.h"
#include "rdmacm/rsocket/stream_wire.h"
#include "input.h"
#include "target.h"

enum { BUFFER = 4096, MOST_BUFFER = 1 << 18, RECEIVES = 64, MOST_STEPS = 60, MEMORY = 16384, IOMAPS = 2, ROOM = 4 };
/* In the peer's memory: the lists that the rsocket writes to, where its data goes, and from where we write. */
enum { TARGETS_AT = 0, DATA_AT = 1024, DATA = 1024, SOURCE_AT = 8192 };

static struct world {
	struct fuzz_input input;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	int server;
	struct vb_rstream_hello theirs;
	uint32_t posted, completed;        /* of the peer */
	bool executed;                     /* the last that completed */

	uint8_t shadow[MOST_BUFFER];       /* what stands in the rsocket's receive buffer */
	uint32_t size;                     /* of that */
	uint32_t read_at, write_at;

	bool honest;                       /* so far nothing was said about our buffers that is not so */
	struct vb_rstream_span span[VB_RSTREAM_TARGETS]; /* that we granted, the first in use */
	unsigned spans, grant_at;
	uint64_t sent, arrived;            /* bytes of the rsocket's stream */
} world;

static uint8_t memory[MEMORY];
static uint8_t mapped[4096];
static int listener;
static uint16_t port;

static uint32_t take(unsigned bytes)
{
	return fuzz_take(&world.input, bytes);
}

static uint8_t stream_byte(uint64_t place)
{
	return (uint8_t)(place * 2654435761u >> 13 ^ place);
}

/* ---- the peer's queue pair ---- */

static void post_receive(void)
{
	struct ibv_recv_wr request = {.wr_id = 1}, *refused;

	(void)ibv_post_recv(world.id->qp, &request, &refused);
}

/* What the rsocket said. Of an honest conversation: its bytes lie where we said, in their order. */
static void take_message(uint32_t message)
{
	uint32_t length = vb_rstream_message_value(message);

	if (vb_rstream_message_kind(message) != VB_RSTREAM_DATA || !world.honest)
		return;
	FUZZ_CHECK(world.spans > 0 && length > 0 && length <= world.span[0].length);
	for (uint32_t i = 0; i < length; i++)
		FUZZ_CHECK(((const uint8_t *)(uintptr_t)world.span[0].address)[i] == stream_byte(world.arrived + i));
	world.arrived += length;
	world.span[0].address += length;
	world.span[0].length -= length;
	if (world.span[0].length == 0) {
		world.span[0] = world.span[1];
		world.spans--;
	}
	FUZZ_CHECK(world.arrived <= world.sent);
}

static void pump(void)
{
	struct pollfd fd = {.fd = world.server, .events = POLLIN | POLLOUT};
	struct ibv_wc wc;

	if (world.server >= 0)
		FUZZ_CHECK(rpoll(&fd, 1, 0) >= 0);
	while (ibv_poll_cq(world.id->send_cq, 1, &wc) == 1) {
		world.completed++;
		world.executed = wc.status == IBV_WC_SUCCESS;
	}
	while (ibv_poll_cq(world.id->recv_cq, 1, &wc) == 1) {
		if (wc.status == IBV_WC_SUCCESS && (wc.wc_flags & IBV_WC_WITH_IMM))
			take_message(ntohl(wc.imm_data));
		if (wc.status == IBV_WC_SUCCESS)
			post_receive();
	}
}

static bool all_completed(void)
{
	pump();
	return world.completed == world.posted;
}

/* True: it was executed. */
static bool post(enum ibv_wr_opcode opcode, uint64_t address, uint32_t key, uint32_t length, uint32_t immediate)
{
	struct ibv_sge piece = {.addr = (uintptr_t)memory + SOURCE_AT, .length = length, .lkey = world.mr->lkey};
	struct ibv_send_wr request = {.sg_list = &piece, .num_sge = length > 0, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED,
				      .imm_data = htonl(immediate), .wr.rdma = {.remote_addr = address, .rkey = key}}, *refused;

	if (ibv_post_send(world.id->qp, &request, &refused) != 0)
		return false;
	world.posted++;
	FUZZ_CHECK(eventually(all_completed()));
	return world.executed;
}

/* ---- steps of the peer ---- */

static void write_data(uint64_t offset, uint32_t length, bool tells, uint32_t told)
{
	for (uint32_t i = 0; i < length; i++)
		memory[SOURCE_AT + i] = (uint8_t)(world.posted * 7 + i);
	if (post(tells ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE, world.theirs.data.address + offset, world.theirs.data.key, length,
		 vb_rstream_message_encode(VB_RSTREAM_DATA, told)) && offset + length <= world.size)
		memcpy(world.shadow + offset, memory + SOURCE_AT, length);
}

/* As the protocol has it, as far as the half goes. */
static void send_data(uint32_t details)
{
	uint32_t length = 1 + details % 200, room = world.size / 2 - world.write_at % (world.size / 2);

	if (length > room)
		length = room;
	write_data(world.write_at, length, true, length);
	world.write_at = (world.write_at + length) % world.size;
}

static void grant(uint32_t details)
{
	struct vb_rstream_span span = {.address = (uintptr_t)memory + DATA_AT + (details & 1) * DATA, .key = world.mr->rkey,
				       .length = DATA};
	uint32_t value = details & 2 ? take(2) : 1000;

	if (details & 0x1c || world.spans == VB_RSTREAM_TARGETS || details & 2) {
		world.honest = false;
		span.length = details & 4 ? take(4) : span.length;
		span.key ^= details & 8 ? take(2) : 0;
		span.address += details & 16 ? (uint64_t)take(4) << 20 : 0;
	} else {
		/* Not the half that is being written to. */
		span.address = (uintptr_t)memory + DATA_AT + DATA + (uint64_t)(world.grant_at % 4) * DATA;
		world.span[world.spans++] = span;
	}
	memcpy(memory + SOURCE_AT, &span, sizeof(span));
	post(IBV_WR_RDMA_WRITE_WITH_IMM, world.theirs.targets.address + world.grant_at++ % VB_RSTREAM_TARGETS * sizeof(span),
	     world.theirs.targets.key, details & 32 ? 0 : sizeof(span), vb_rstream_message_encode(VB_RSTREAM_GRANT, value));
	if (details & 32)
		world.honest = false;
}

static void announce_mapping(uint32_t details)
{
	struct vb_rstream_iomap entry = {.offset = details & 1 ? take(4) : 0,
					 .span = {.address = (uintptr_t)memory + SOURCE_AT, .key = world.mr->rkey,
						  .length = details & 2 ? take(4) : 1024}};
	uint32_t index = details & 4 ? take(1) : details >> 3 & 1;

	memcpy(memory + SOURCE_AT, &entry, sizeof(entry));
	post(IBV_WR_RDMA_WRITE_WITH_IMM, world.theirs.targets.address + VB_RSTREAM_TARGETS * sizeof(struct vb_rstream_span) +
	     (index % IOMAPS) * sizeof(entry), world.theirs.targets.key, sizeof(entry),
	     vb_rstream_message_encode(VB_RSTREAM_IOMAP, index));
}

static void say_anything(uint32_t details)
{
	uint32_t word = take(4);

	/* It may be a grant, or more data than was written. */
	world.honest = false;
	if (details % 4 == 0)
		post(IBV_WR_SEND, 0, 0, details >> 2, 0);
	else if (details % 4 == 1)
		post(IBV_WR_RDMA_WRITE_WITH_IMM, take(2), word, 4, word);
	else
		post(IBV_WR_RDMA_WRITE_WITH_IMM, 0, 0, 0, word);
}

/* ---- steps of the program ---- */

static void program_sends(uint32_t details)
{
	uint8_t bytes[600];
	size_t length = 1 + details * 2;
	ssize_t sent;

	for (size_t i = 0; i < length; i++)
		bytes[i] = stream_byte(world.sent + i);
	/* Before the call returns the peer may have it. */
	world.sent += length;
	sent = rsend(world.server, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL);
	FUZZ_CHECK(sent <= (ssize_t)length && sent != 0);
	world.sent -= length - (sent > 0 ? (size_t)sent : 0);
	pump();
}

static void program_receives(uint32_t details)
{
	uint8_t bytes[600];
	int flags = MSG_DONTWAIT | (details & 1 ? MSG_PEEK : 0);
	ssize_t got = rrecv(world.server, bytes, 1 + details * 2, flags);

	FUZZ_CHECK(got <= 1 + (ssize_t)details * 2);
	for (ssize_t i = 0; i < got; i++)
		FUZZ_CHECK(bytes[i] == world.shadow[(world.read_at + (size_t)i) % world.size]);
	if (got > 0 && !(details & 1))
		world.read_at = (world.read_at + (uint32_t)got) % world.size;
	pump();
}

static void program_maps(uint32_t details)
{
	if (details & 1)
		(void)riomap(world.server, mapped, 1 + details % sizeof(mapped), PROT_WRITE, 0, details & 2 ? -1 : (off_t)details);
	else
		(void)riounmap(world.server, mapped, 1 + details % sizeof(mapped));
	pump();
}

static void step(void)
{
	uint32_t what = take(1), details = take(1);

	switch (what % 16) {
	case 0:
	case 1:
		send_data(details);
		break;
	case 2:
		write_data(take(2) % (world.size + 64), details, details & 1, take(details & 2 ? 4 : 1));
		break;
	case 3:
	case 4:
		grant(details);
		break;
	case 5:
		announce_mapping(details);
		break;
	case 6:
		post(IBV_WR_RDMA_WRITE_WITH_IMM, 0, 0, 0, vb_rstream_message_encode(VB_RSTREAM_CONTROL, details % 5));
		break;
	case 7:
		say_anything(details);
		break;
	case 8:
	case 9:
		program_sends(details);
		break;
	case 10:
	case 11:
		program_receives(details);
		break;
	case 12:
		program_maps(details);
		break;
	case 13:
		(void)riowrite(world.server, mapped, 1 + details, (off_t)take(1), MSG_DONTWAIT);
		pump();
		break;
	case 14:
		if (details % 8 == 0)
			(void)rshutdown(world.server, details >> 3 & 1 ? SHUT_RDWR : SHUT_WR);
		else
			pump();
		break;
	default:
		if (details % 16 == 0)
			rdma_disconnect(world.id);
		pump();
		break;
	}
}

/* ---- connecting ---- */

static struct rdma_cm_event *next_event(void)
{
	struct pollfd fd = {.fd = world.channel->fd, .events = POLLIN};
	struct rdma_cm_event *event;

	FUZZ_CHECK(poll(&fd, 1, PATIENCE_MS) == 1);
	FUZZ_CHECK(rdma_get_cm_event(world.channel, &event) == 0);
	return event;
}

static void expect(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event = next_event();

	FUZZ_CHECK(event->event == type);
	rdma_ack_cm_event(event);
}

static void prepare(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct ibv_qp_init_attr attr = {.cap = {.max_send_wr = 16, .max_recv_wr = RECEIVES, .max_send_sge = 1, .max_recv_sge = 1},
					.qp_type = IBV_QPT_RC, .sq_sig_all = 1};

	world.channel = rdma_create_event_channel();
	FUZZ_CHECK(world.channel && rdma_create_id(world.channel, &world.id, NULL, RDMA_PS_TCP) == 0);
	FUZZ_CHECK(rdma_resolve_addr(world.id, NULL, (struct sockaddr *)&address, PATIENCE_MS) == 0);
	expect(RDMA_CM_EVENT_ADDR_RESOLVED);
	FUZZ_CHECK(rdma_resolve_route(world.id, PATIENCE_MS) == 0);
	expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
	FUZZ_CHECK(rdma_create_qp(world.id, NULL, &attr) == 0);
	world.mr = rdma_reg_write(world.id, memory, sizeof(memory));
	FUZZ_CHECK(world.mr);
	for (unsigned i = 0; i < RECEIVES; i++)
		post_receive();
}

/* True: the rsocket took it for one of its kind. */
static bool connect_peer(void)
{
	const struct vb_rstream_span data = {.address = (uintptr_t)memory + DATA_AT, .key = world.mr->rkey, .length = DATA};
	struct vb_rstream_hello hello = {.credits = 1000, .iomaps = IOMAPS, .data = data,
					 .targets = {.address = (uintptr_t)memory + TARGETS_AT, .key = world.mr->rkey, .length = 2}};
	struct vb_rstream_greeting_bytes bytes = {0};
	struct rdma_conn_param parameters = {.private_data = &bytes, .private_data_len = sizeof(bytes), .retry_count = 7,
					     .rnr_retry_count = 7};
	uint32_t changes = take(1);
	struct rdma_cm_event *event;
	bool accepted;

	vb_rstream_hello_encode(&bytes.hello, &hello);
	world.honest = changes % 8 == 0 || changes % 8 > 4;
	world.span[0] = data;
	world.spans = 1;
	for (changes = world.honest ? 0 : changes % 8; changes > 0; changes--) {
		uint32_t at = take(1);

		((uint8_t *)&bytes)[at % sizeof(bytes)] = (uint8_t)take(1);
	}
	FUZZ_CHECK(rdma_connect(world.id, &parameters) == 0);
	event = next_event();
	FUZZ_CHECK(event->event == RDMA_CM_EVENT_ESTABLISHED || event->event == RDMA_CM_EVENT_REJECTED);
	FUZZ_CHECK(event->event == RDMA_CM_EVENT_ESTABLISHED || !world.honest);
	accepted = event->event == RDMA_CM_EVENT_ESTABLISHED;
	if (accepted)
		FUZZ_CHECK(vb_rstream_hello_decode(&world.theirs, event->param.conn.private_data, event->param.conn.private_data_len) == 0);
	rdma_ack_cm_event(event);
	return accepted;
}

static void destroy_peer(void)
{
	rdma_dereg_mr(world.mr);
	rdma_destroy_qp(world.id);
	rdma_destroy_id(world.id);
	rdma_destroy_event_channel(world.channel);
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(address);
	int size = BUFFER, iomaps = IOMAPS;

	(void)argc;
	(void)argv;
	private_network_enter();
	listener = rsocket(AF_INET, SOCK_STREAM, 0);
	FUZZ_CHECK(listener >= 0);
	FUZZ_CHECK(rsetsockopt(listener, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)) == 0);
	FUZZ_CHECK(rsetsockopt(listener, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)) == 0);
	FUZZ_CHECK(rsetsockopt(listener, SOL_RDMA, RDMA_IOMAPSIZE, &iomaps, sizeof(iomaps)) == 0);
	FUZZ_CHECK(rbind(listener, (struct sockaddr *)&address, sizeof(address)) == 0 && rlisten(listener, 4) == 0);
	FUZZ_CHECK(rgetsockname(listener, (struct sockaddr *)&address, &length) == 0);
	port = ntohs(address.sin_port);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length)
{
	static unsigned before;
	uint32_t order;

	memset(&world, 0, sizeof(world));
	memset(memory, 0, sizeof(memory));
	world.input = (struct fuzz_input){input, length};
	world.server = -1;
	order = take(1);
	prepare();
	if (connect_peer()) {
		world.server = raccept(listener, NULL, NULL);
		world.size = world.theirs.data.length * 2;
		FUZZ_CHECK(world.server >= 0 && world.size > 0 && world.size <= MOST_BUFFER);
		for (unsigned steps = 0; steps < MOST_STEPS && world.input.left > 0; steps++)
			step();
		if (order & 1)
			FUZZ_CHECK(rclose(world.server) == 0);
		destroy_peer();
		if (!(order & 1))
			FUZZ_CHECK(rclose(world.server) == 0);
	} else {
		destroy_peer();
	}
	/* What opens devices and reaches the daemon stays: counted behind the first, with room for what is opened when needed. */
	if (before == 0)
		before = count_descriptors() + ROOM;
	FUZZ_CHECK(eventually(count_descriptors() <= before));
	return 0;
}
