/* SPDX-License-Identifier: MIT
 *
 * verbenad's loop as a whole machine: the real server with its real sockets in a network of its own, clients that say anything, packets
 * from anybody, and time, which is the input's to give. Whatever it is: what the daemon says are messages, every request of a client
 * that it keeps is answered, and when all clients are gone and time has passed the port is closed and not one descriptor is left.
 *
 * Each step is a byte for what to do and a few for its details; an input that ends in the middle reads zeros.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/server.h"
#include "io/shared_memory.h"
#include "io/unix_socket.h"
#include "lib/descriptors.h"
#include "lib/own_clock.h"
#include "lib/private_network.h"
#include "input.h"
#include "target.h"
#include "wire/cm_command.h"
#include "wire/cm_mad.h"
#include "wire/daemon_message.h"

enum { CLIENTS = 5, IDS = 16, MOST_STEPS = 120, WAITING = 64, PORT = 7000, TURNS = 64 };

/* What descriptors a client can hand over. */
enum gift { GIFT_PAGE, GIFT_LOOSE_PAGE, GIFT_EVENT, GIFT_NULL, GIFT_UDP, GIFTS };

struct client {
	int fd;                            /* -1: not connected */
	bool deaf;                         /* does not read what it is told */
	bool greeted;
	uint32_t sequence;
	uint32_t waiting[WAITING];         /* sequences of requests that were not answered */
	uint64_t commands[WAITING];        /* serials, likewise */
	unsigned waits, command_count;
	uint32_t id[IDS];
	unsigned ids;
	int slot_fd;                       /* a socket that came with its slot */
	uint32_t slot;                     /* the last that it was given */
};

static struct world {
	struct vb_server *server;
	struct client client[CLIENTS];
	struct fuzz_input input;
	bool has_second_address;
} world;

static int gift[GIFTS];
static uint32_t take(unsigned bytes)
{
	return fuzz_take(&world.input, bytes);
}

/* ---- clients ---- */

static void hang_up(struct client *client)
{
	if (client->fd >= 0)
		close(client->fd);
	if (client->slot_fd >= 0)
		close(client->slot_fd);
	*client = (struct client){.fd = -1, .slot_fd = -1};
}

static void learn(struct client *client, uint32_t id)
{
	client->id[client->ids++ % IDS] = id;
}

static void answered(struct client *client, uint32_t sequence)
{
	for (unsigned i = 0; i < client->waits; i++)
		if (client->waiting[i] == sequence)
			client->waiting[i--] = client->waiting[--client->waits];
}

static void take_connection_message(struct client *client, const void *bytes, size_t length)
{
	const struct vb_cm_reply *reply = bytes;
	const struct vb_cm_event *event = bytes;

	switch (reply->type) {
	case VB_CM_REPLY:
		FUZZ_CHECK(length == sizeof(*reply) && reply->error >= 0);
		for (unsigned i = 0; i < client->command_count; i++)
			if (client->commands[i] == reply->serial)
				client->commands[i--] = client->commands[--client->command_count];
		if (reply->error == 0 && reply->id != 0)
			learn(client, reply->id);
		break;
	case VB_CM_EVENT:
		FUZZ_CHECK(length == sizeof(*event) && event->conn.private_data_length <= VB_CM_PRIVATE_DATA);
		if (event->kind == VB_CM_EVENT_CONNECT_REQUEST)
			learn(client, event->id);
		break;
	default:
		FUZZ_CHECK(reply->type == VB_CM_TRACE && length == sizeof(struct vb_cm_trace));
	}
}

/* Its parts that make no answer are told apart by the type: an answer in several ends with END or an error. */
static bool ends_answer(uint32_t type)
{
	return type != VB_DAEMON_DEVICE && type != VB_DAEMON_PROCESS && type != VB_DAEMON_PROCESS_DEVICE && type != VB_DAEMON_SHAPE &&
	       type != VB_DAEMON_PROCESS_RESOURCES && type != VB_DAEMON_ADAPTER;
}

static void take_message(struct client *client, const struct vb_daemon_message *message, size_t length, const int *fds, unsigned count)
{
	FUZZ_CHECK(vb_daemon_message_check(message, length, count, VB_DAEMON_FROM_DAEMON) == 0);
	if (message->header.type == VB_DAEMON_WELCOME)
		client->greeted = true;
	if (ends_answer(message->header.type))
		answered(client, message->header.sequence);
	if (message->header.type == VB_DAEMON_SLOT)
		client->slot = message->slot.slot;
	if (message->header.type == VB_DAEMON_SLOT && (message->slot.descriptors & VB_DAEMON_FD_IPV4) && client->slot_fd < 0)
		client->slot_fd = fcntl(fds[0], F_DUPFD_CLOEXEC, 0);
}

/* False: the daemon has hung up. */
static bool listen_to_daemon(struct client *client)
{
	static union {
		struct vb_daemon_message message;
		uint8_t room[VB_DAEMON_MAX_MESSAGE];
	} in;
	int fds[VB_DAEMON_MAX_FDS];
	unsigned count;

	for (;;) {
		ssize_t length = vb_unix_receive(client->fd, &in, sizeof(in), fds, VB_DAEMON_MAX_FDS, &count, 0);

		if (length == -EAGAIN)
			return true;
		if (length <= 0)
			return false;
		if (in.message.header.type >= VB_DAEMON_CM_TYPES)
			take_connection_message(client, &in, (size_t)length);
		else
			take_message(client, &in.message, (size_t)length, fds, count);
		for (unsigned i = 0; i < count; i++)
			close(fds[i]);
	}
}

/* The daemon until it has nothing to do now, and all that it says. */
static void turn(void)
{
	for (unsigned turns = 0; turns < TURNS; turns++) {
		FUZZ_CHECK(!vb_server_turn(world.server, now));
		if (turns < 3)
			continue;
		for (unsigned i = 0; i < CLIENTS; i++)
			if (world.client[i].fd >= 0 && !world.client[i].deaf && !listen_to_daemon(&world.client[i]))
				hang_up(&world.client[i]);
		break;
	}
}

static void send_message(struct client *client, const void *bytes, size_t length, const int *fds, unsigned count)
{
	/* What the daemon has not read yet fits, or it has hung up. */
	if (vb_unix_send(client->fd, bytes, length, fds, count, false) != 0)
		hang_up(client);
}

static void connect_client(struct client *client, uint32_t details)
{
	struct vb_daemon_message message;

	hang_up(client);
	client->fd = vb_unix_connect("verbena/fuzz");
	FUZZ_CHECK(client->fd >= 0);
	FUZZ_CHECK(fcntl(client->fd, F_SETFL, O_NONBLOCK) == 0);
	/* Most of them greet. */
	if (details % 8 == 7)
		return;
	vb_daemon_message_begin(&message, VB_DAEMON_HELLO, ++client->sequence);
	memcpy(message.hello.program, "fuzz", 5);
	send_message(client, &message, message.header.length, NULL, 0);
}

/* ---- what they say ---- */

static bool is_always_answered(uint32_t type)
{
	switch (type) {
	case VB_DAEMON_LIST_DEVICES:
	case VB_DAEMON_WATCH_DEVICES:
	case VB_DAEMON_OPEN_SLOT:
	case VB_DAEMON_CLOSE_SLOT:
	case VB_DAEMON_LIST_PROCESSES:
	case VB_DAEMON_LIST_RESOURCES:
	case VB_DAEMON_ASK_COUNTERS:
	case VB_DAEMON_ASK_SEGMENT:
	case VB_DAEMON_JOIN_GROUP:
	case VB_DAEMON_SET_SHAPE:
	case VB_DAEMON_LIST_SHAPES:
	case VB_DAEMON_OPEN_FRAMES:
	case VB_DAEMON_OPEN_LANE:
	case VB_DAEMON_ADOPT_LANE:
	case VB_DAEMON_CLOSE_LANE:
	case VB_DAEMON_LIST_ADAPTERS:
	case VB_DAEMON_JOIN_FABRIC:
	case VB_DAEMON_OPEN_MAD_PORT:
	case VB_DAEMON_OPEN_MAD_TAP:
		return true;
	default:
		return false;
	}
}

static unsigned choose_descriptors(const struct client *client, uint32_t type, struct vb_daemon_message *message, uint32_t choice, int *fds)
{
	unsigned count = type == VB_DAEMON_SHOW_SEGMENT ? 2 : type == VB_DAEMON_RESOURCES ? choice & 1 : 0;

	if (type == VB_DAEMON_ADOPT_SLOT || type == VB_DAEMON_SLOT) {
		message->slot.descriptors = choice & VB_DAEMON_FD_ALL;
		count = (unsigned)__builtin_popcount(choice & VB_DAEMON_FD_ALL);
	}
	if (type == VB_DAEMON_ADOPT_LANE) {
		message->lane.descriptors = 1 + choice % 3;
		count = vb_daemon_descriptor_count(message->lane.descriptors);
	}
	/* Now and then the wrong number. */
	if (choice >> 5 == 7)
		count = choice & 3;
	for (unsigned i = 0; i < count; i++) {
		uint32_t which = take(1) % (GIFTS + 1);

		fds[i] = which == GIFTS && client->slot_fd >= 0 ? client->slot_fd : gift[which % GIFTS];
	}
	return count;
}

static bool is_of_lanes(uint32_t type)
{
	return type == VB_DAEMON_OPEN_LANE || type == VB_DAEMON_ADOPT_LANE || type == VB_DAEMON_CLOSE_LANE || type == VB_DAEMON_LANE;
}

/* Those of lanes have numbers of their own: the corpus was there before them. */
static uint32_t choose_type(uint32_t details)
{
	static const uint32_t of_lanes[] = {VB_DAEMON_OPEN_LANE, VB_DAEMON_OPEN_LANE, VB_DAEMON_ADOPT_LANE, VB_DAEMON_CLOSE_LANE};
	static const uint32_t types[] = {
#define X(name, value, sender, body, required, allowed) VB_DAEMON_##name,
		VB_DAEMON_MESSAGES(X)
#undef X
	};
	uint32_t left = details % (sizeof(types) / sizeof(types[0]) - 4), i = 0;

	if ((details & 0x7f) >= 112)
		return of_lanes[details % 4];
	while (is_of_lanes(types[i]) || left-- > 0)
		i++;
	return types[i];
}

static void say(struct client *client, uint32_t details)
{
	uint32_t type = choose_type(details), changes = take(1);
	struct vb_daemon_message message;
	uint8_t *body = (uint8_t *)&message + sizeof(message.header);
	int fds[VB_DAEMON_MAX_FDS];
	unsigned count;

	if (type == VB_DAEMON_DEVICE)
		return;
	memset(&message, 0, sizeof(message));
	vb_daemon_message_begin(&message, (enum vb_daemon_type)type, ++client->sequence);
	count = choose_descriptors(client, type, &message, take(1), fds);
	if (is_of_lanes(type)) {
		message.lane.slot = world.client[take(1) % CLIENTS].slot;
		message.lane.lane = 1 + take(1) % (VB_DAEMON_LANES - 1);
	}
	if (type == VB_DAEMON_JOIN_FABRIC)
		memcpy(message.join_fabric.gid, (const uint8_t[16]){[10] = 0xff, 0xff, 127, 0, 0, 1}, 16);
	if (type == VB_DAEMON_ASK_SEGMENT)
		memcpy(message.ask_segment.gid, (const uint8_t[16]){[10] = 0xff, 0xff, 127, 0, 0, 1}, 16);
	for (changes %= 6; changes > 0 && message.header.length > sizeof(message.header); changes--) {
		uint32_t at = take(1);

		body[at % (message.header.length - sizeof(message.header))] = (uint8_t)take(1);
	}
	if (client->greeted && is_always_answered(type) && client->waits < WAITING &&
	    vb_daemon_message_check(&message, message.header.length, count, VB_DAEMON_FROM_PROCESS) == 0)
		client->waiting[client->waits++] = client->sequence;
	send_message(client, &message, message.header.length, fds, count);
}

static struct vb_cm_address address_of(uint32_t choice, uint16_t port)
{
	struct vb_cm_address address = {.family = AF_INET, .port = port};

	if (choice % 4 != 3)
		memcpy(address.gid, (const uint8_t[16]){[10] = 0xff, 0xff, 127, 0, 0, choice % 4 == 2 ? 2 : 1}, 16);
	return address;
}

/* As fuzz_connect.c, but through the socket, and between clients of one daemon, by UDP. */
static void command(struct client *client, uint32_t details)
{
	static const uint32_t spaces[] = {VB_CM_PS_TCP, VB_CM_PS_UDP, VB_CM_PS_TCP, VB_CM_PS_IB};
	uint32_t more = take(3);
	struct vb_cm_command c = {
		.type = VB_CM_COMMAND,
		.verb = details % (VB_CM_RESOLVE_ROUTE + 2),
		.serial = ++client->sequence,
		.port_space = spaces[more & 3],
		.qp_type = more & 1 ? 4 : 2,
		.backlog = more >> 2 & 7,
		.reason = 28,
		.state = more >> 4 & 7,
		.reuse_address = more >> 5 & 1,
		.by_stream = (more >> 6 & 7) == 7,
		.remote_cookie = more >> 2 & 15,
		.interface_index = more >> 7 & 1,
		.timeout_ms = 100,
	};

	if (client->ids > 0)
		c.id = client->id[(more >> 8) % (client->ids < IDS ? client->ids : IDS)];
	if ((more >> 16 & 15) == 15)
		c.id = more;
	c.source = address_of(more >> 20, c.verb == VB_CM_BIND || c.verb == VB_CM_ADOPT ? (uint16_t)(PORT + (more >> 10 & 3)) : 0);
	c.destination = address_of(more >> 22, (uint16_t)(PORT + (more >> 12 & 3)));
	c.conn = (struct vb_cm_conn){.qpn = 1 + (more >> 9 & 7), .starting_psn = more & 0xffffff, .responder_resources = (uint8_t)more,
				     .initiator_depth = (uint8_t)(more >> 8), .retry_count = more & 7, .rnr_retry_count = more >> 3 & 7,
				     .path_mtu = more & 7, .ack_timeout = more & 31, .qp_type = 2,
				     .private_data_length = (uint16_t)(more & 0x100 ? more & 0x1ff : 0)};
	if (client->greeted && c.verb >= VB_CM_CREATE && c.verb < VB_CM_FETCHED && client->command_count < WAITING)
		client->commands[client->command_count++] = c.serial;
	send_message(client, &c, (more >> 18 & 31) == 31 ? more & 0xff : sizeof(c), NULL, 0);
}

static void say_anything(struct client *client)
{
	uint8_t bytes[64];
	size_t length = take(1) % sizeof(bytes);

	for (size_t i = 0; i < length; i++)
		bytes[i] = (uint8_t)take(1);
	/* An empty message cannot be told from the end of the connection, by either side. */
	send_message(client, bytes, length > 0 ? length : 1, NULL, 0);
}

/* ---- the world ---- */

/* A datagram for QP1, or for some slot, of anybody's making: BTH, DETH and a MAD, or what the input says. */
static void send_packet(uint32_t details)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(4791), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	uint8_t packet[12 + 8 + VB_CM_MAD_LENGTH + 4] = {0x64, 0x40, 0xff, 0xff, [7] = 1};
	size_t length = details & 1 ? sizeof(packet) : take(1) % sizeof(packet);

	packet[20] = 1;
	packet[21] = 7;
	packet[22] = 2;
	packet[23] = 3;
	packet[37] = (uint8_t)(0x10 + (details >> 1) % 10);
	for (unsigned changes = details >> 5; changes > 0; changes--) {
		uint32_t at = take(1);

		packet[at % sizeof(packet)] = (uint8_t)take(1);
	}
	(void)!sendto(gift[GIFT_UDP], packet, length, 0, (struct sockaddr *)&to, sizeof(to));
}

static void change_interface(void)
{
	if (world.has_second_address)
		private_network_remove_address("lo", "127.0.0.2", 32);
	else
		private_network_add_address("lo", "127.0.0.2", 32);
	world.has_second_address = !world.has_second_address;
}

static void step(void)
{
	uint32_t what = take(1), details = take(1);
	struct client *client = &world.client[what / 16 % CLIENTS];

	if (client->fd < 0)
		connect_client(client, details);
	switch (what % 16) {
	case 0:
	case 1:
	case 2:
	case 3:
	case 4:
		say(client, details);
		break;
	case 5:
	case 6:
	case 7:
	case 8:
		command(client, details);
		break;
	case 9:
		say_anything(client);
		break;
	case 10:
	case 11:
		send_packet(details);
		break;
	case 12:
		now += ((vb_time)1 << (details & 31)) * 1000;
		break;
	case 13:
		client->deaf = details & 1;
		break;
	case 14:
		if (details % 32 == 0)
			change_interface();
		else if (details % 32 == 1)
			FUZZ_CHECK(ftruncate(gift[GIFT_LOOSE_PAGE], details & 64 ? 0 : sizeof(struct vb_daemon_page)) == 0);
		break;
	default:
		hang_up(client);
		break;
	}
	if (details & 0x80)
		return;
	turn();
}

/* ---- */

static int make_listener(void)
{
	int fd = vb_unix_listen("verbena/fuzz");

	FUZZ_CHECK(fd >= 0);
	return fd;
}

/* Whoever still listens is told all that was promised. */
static void settle(void)
{
	for (unsigned i = 0; i < CLIENTS; i++)
		world.client[i].deaf = false;
	/* The longest: joining a fabric, survivors of an older daemon, processes that show no resources. */
	for (unsigned i = 0; i < 60; i++) {
		turn();
		now += VB_SECONDS(1);
	}
	for (unsigned i = 0; i < CLIENTS; i++) {
		FUZZ_CHECK(world.client[i].fd < 0 || world.client[i].waits == 0);
		FUZZ_CHECK(world.client[i].fd < 0 || world.client[i].command_count == 0);
	}
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	void *page;

	(void)argc;
	(void)argv;
	private_network_enter();
	FUZZ_CHECK(vb_shared_memory_create("page", sizeof(struct vb_daemon_page), &gift[GIFT_PAGE], &page) == 0);
	gift[GIFT_LOOSE_PAGE] = memfd_create("page", MFD_CLOEXEC);
	gift[GIFT_EVENT] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	gift[GIFT_NULL] = open("/dev/null", O_RDWR | O_CLOEXEC);
	gift[GIFT_UDP] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	for (unsigned i = 0; i < GIFTS; i++)
		FUZZ_CHECK(gift[i] >= 0);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length)
{
	const struct vb_server_config config = {.idle = VB_SECONDS(100000)};
	unsigned before = count_descriptors(), idle;

	memset(&world, 0, sizeof(world));
	world.input = (struct fuzz_input){input, length};
	for (unsigned i = 0; i < CLIENTS; i++)
		world.client[i] = (struct client){.fd = -1, .slot_fd = -1};
	FUZZ_CHECK(ftruncate(gift[GIFT_LOOSE_PAGE], sizeof(struct vb_daemon_page)) == 0);
	FUZZ_CHECK(vb_server_create(&world.server, (int[]){make_listener(), -1}, &config) == 0);
	turn();
	idle = count_descriptors();
	for (unsigned steps = 0; steps < MOST_STEPS && world.input.left > 0; steps++)
		step();
	turn();
	settle();
	for (unsigned i = 0; i < CLIENTS; i++)
		hang_up(&world.client[i]);
	/* Connections that end wait for their peers, as long as the longest of their timeouts. */
	for (vb_time pause = VB_SECONDS(1); pause < VB_SECONDS(40000); pause *= 2) {
		turn();
		now += pause;
		turn();
	}
	FUZZ_CHECK(count_descriptors() <= idle);
	vb_server_destroy(world.server);
	if (world.has_second_address)
		change_interface();
	FUZZ_CHECK(count_descriptors() == before);
	return 0;
}
