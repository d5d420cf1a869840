/* SPDX-License-Identifier: MIT
 *
 * The connection managers of two hosts, as whole machines: an input is a list of commands of processes, of what becomes of
 * each message under way (delivered, lost, doubled, changed), of messages of an attacker's own, and of time. Whatever it
 * is, in the end, when all processes are gone and time has passed, nothing is left: no id, no port, no timer.
 *
 * The first byte is for the random numbers that the machines draw. Each step is one byte for what to do and a few for its
 * details; an input that ends in the middle reads zeros.
 */
#include <sys/socket.h>

#include <string.h>

#include "connect/connect.h"
#include "input.h"
#include "target.h"
#include "wire/cm_mad.h"

enum { HOSTS = 2, PROCESSES = 2, UNDER_WAY = 64, KNOWN_IDS = 64, MOST_STEPS = 400, PORT = 7000 };

struct message {
	struct vb_path path;
	uint8_t mad[VB_CM_MAD_LENGTH];
};

struct process {
	struct vb_connect_owner owner;
	uint32_t id[KNOWN_IDS];          /* its own, as far as it was told */
	unsigned ids;
};

struct host {
	struct vb_connect *connect;
	uint8_t gid[16];
	struct process process[PROCESSES];
};

static struct world {
	struct host host[HOSTS];
	struct message message[UNDER_WAY];
	unsigned messages;
	vb_time now;
	uint64_t random;
	struct fuzz_input input;
} world;

static uint32_t take(unsigned bytes)
{
	return fuzz_take(&world.input, bytes);
}

/* ---- what the machines ask ---- */

static uint32_t draw_random(void *context)
{
	(void)context;
	world.random = world.random * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(world.random >> 32);
}

static void send_mad(void *context, const struct vb_path *path, const uint8_t mad[VB_CM_MAD_LENGTH])
{
	const struct host *host = context;
	struct vb_cm_mad decoded;

	/* What a machine sends is a message, from its own address. */
	FUZZ_CHECK(vb_cm_mad_decode(&decoded, mad, VB_CM_MAD_LENGTH) == 0);
	FUZZ_CHECK(memcmp(path->source, host->gid, sizeof(host->gid)) == 0);
	if (world.messages == UNDER_WAY)
		memmove(&world.message[0], &world.message[1], --world.messages * sizeof(world.message[0]));
	world.message[world.messages].path = *path;
	memcpy(world.message[world.messages++].mad, mad, VB_CM_MAD_LENGTH);
}

static void learn(struct process *process, uint32_t id)
{
	process->id[process->ids++ % KNOWN_IDS] = id;
}

static void take_event(void *context, struct vb_connect_owner *owner, const struct vb_cm_event *event)
{
	struct host *host = context;
	struct process *process = vb_container_of(owner, struct process, owner);

	/* Nobody hears of what is another's. */
	FUZZ_CHECK(process == &host->process[0] || process == &host->process[1]);
	FUZZ_CHECK(event->conn.private_data_length <= VB_CM_PRIVATE_DATA);
	if (event->kind == VB_CM_EVENT_CONNECT_REQUEST)
		learn(process, event->id);
}

static bool find_device(void *context, const uint8_t gid[16], uint32_t interface_index, struct vb_connect_device *device)
{
	const struct host *host = context;

	(void)interface_index;
	*device = (struct vb_connect_device){.interface_index = 2, .guid = 0x1234, .active_mtu = 3};
	return memcmp(gid, host->gid, sizeof(host->gid)) == 0;
}

/* ---- steps ---- */

static struct vb_cm_address address_of(unsigned host, uint16_t port)
{
	struct vb_cm_address address = {.family = AF_INET, .port = port};

	if (host < HOSTS)
		memcpy(address.gid, world.host[host].gid, sizeof(address.gid));
	return address;
}

static void command(uint32_t details)
{
	static const uint32_t spaces[] = {VB_CM_PS_TCP, VB_CM_PS_UDP, VB_CM_PS_TCP, VB_CM_PS_IPOIB};
	struct host *host = &world.host[details & 1];
	struct process *process = &host->process[details >> 1 & 1];
	uint32_t more = take(3);
	struct vb_cm_command c = {
		.type = VB_CM_COMMAND,
		.verb = 1 + (details >> 2) % (VB_CM_FETCHED + 1),
		.serial = 7,
		.port_space = spaces[more & 3],
		.qp_type = more & 0x80 ? 0 : more & 1 ? 4 : 2,
		.backlog = more >> 2 & 7,
		.reason = more >> 3 & 31,
		.state = more >> 4 & 7,
		.reuse_address = more >> 5 & 1,
		.address_family_only = more >> 6 & 1,
		.remote_cookie = more >> 2 & 15,
		.interface_index = more >> 7 & 3,
	};
	struct vb_cm_reply reply = {0};

	if (process->ids > 0)
		c.id = process->id[(more >> 8) % (process->ids < KNOWN_IDS ? process->ids : KNOWN_IDS)];
	/* Now and then another's. */
	if ((more >> 16 & 15) == 15)
		c.id = more;
	c.source = address_of((more >> 20 & 3) == 3 ? HOSTS : details & 1,
			      c.verb == VB_CM_BIND || c.verb == VB_CM_ADOPT ? (uint16_t)(PORT + (more >> 10 & 3)) : 0);
	c.destination = address_of((more >> 22 & 3) == 3 ? HOSTS : more >> 22 & 1, (uint16_t)(PORT + (more >> 12 & 3)));
	c.conn = (struct vb_cm_conn){.qpn = 1 + (more >> 9 & 7), .starting_psn = more & 0xffffff, .responder_resources = (uint8_t)more,
				     .initiator_depth = (uint8_t)(more >> 8), .retry_count = more & 7, .rnr_retry_count = more >> 3 & 7,
				     .path_mtu = more & 7, .ack_timeout = more & 31, .qp_type = 2,
				     .private_data_length = (uint16_t)(more & 0x100 ? more & 0x1ff : 0)};
	vb_connect_command(host->connect, world.now, &process->owner, &c, &reply);
	FUZZ_CHECK(reply.type == VB_CM_REPLY && reply.serial == 7);
	if (reply.error == 0 && (c.verb == VB_CM_CREATE || c.verb == VB_CM_ADOPT))
		learn(process, reply.id);
}

static void receive(const struct vb_path *path, const uint8_t *mad, size_t length)
{
	for (unsigned i = 0; i < HOSTS; i++)
		if (memcmp(world.host[i].gid, path->destination, 16) == 0)
			vb_connect_receive(world.host[i].connect, world.now, path, mad, length);
}

/* What becomes of a message under way. */
static void decide(uint32_t details)
{
	unsigned at = world.messages > 0 ? take(1) % world.messages : 0;
	struct message message;

	if (world.messages == 0)
		return;
	message = world.message[at];
	/* 0, 1: delivered; 2: lost; 3: doubled; 4 and more: changed, sometimes for another host, or cut. */
	if ((details & 7) != 3) {
		memmove(&world.message[at], &world.message[at + 1], (world.messages - at - 1) * sizeof(message));
		world.messages--;
	}
	if ((details & 7) == 2)
		return;
	for (unsigned changes = (details & 7) < 4 ? 0 : 1 + (details >> 3 & 3); changes > 0; changes--) {
		unsigned where = take(1);

		message.mad[where % VB_CM_MAD_LENGTH] = (uint8_t)take(1);
	}
	if ((details & 7) == 7)
		memcpy(message.path.destination, world.host[details >> 5 & 1].gid, 16);
	receive(&message.path, message.mad, (details & 7) == 6 ? take(1) : VB_CM_MAD_LENGTH);
}

/* An attacker's own, from an address of its choice. */
static void forge(uint32_t details)
{
	struct vb_path path = {.hop_limit = 64, .source_port = 4791};
	uint8_t mad[VB_CM_MAD_LENGTH] = {1, 7, 2, 3};

	memcpy(path.source, world.host[details & 1].gid, 16);
	memcpy(path.destination, world.host[details >> 1 & 1].gid, 16);
	mad[16] = 0;
	mad[17] = (uint8_t)(0x10 + (details >> 2) % 10);
	for (unsigned i = 24; i < 24 + 8 * (1 + (details >> 6)) && world.input.left > 0; i++)
		mad[i] = (uint8_t)take(1);
	receive(&path, mad, sizeof(mad));
}

static void expire(vb_time until)
{
	/* What is due is done in its order, with a bound on how much that can be. */
	for (unsigned turns = 0; turns < 10000; turns++) {
		vb_time next = VB_TIME_NEVER;

		for (unsigned i = 0; i < HOSTS; i++)
			next = vb_time_earlier(next, vb_connect_next_deadline(world.host[i].connect));
		if (next > until)
			return;
		world.now = next > world.now ? next : world.now;
		for (unsigned i = 0; i < HOSTS; i++)
			vb_connect_expire(world.host[i].connect, world.now);
	}
	FUZZ_CHECK(!"time stands still");
}

static void pass_time(uint32_t details)
{
	vb_time until = world.now + ((vb_time)1 << (details & 31)) * 1000;

	expire(until);
	world.now = until;
}

static void leave(struct host *host, struct process *process)
{
	vb_connect_owner_gone(host->connect, world.now, &process->owner);
	FUZZ_CHECK(process->owner.count == 0);
	vb_connect_owner_init(&process->owner);
	process->ids = 0;
}

static void step(void)
{
	uint32_t what = take(1), details = take(1);

	switch (what % 8) {
	case 0:
	case 1:
	case 2:
		command(details);
		break;
	case 3:
	case 4:
		decide(details);
		break;
	case 5:
		forge(details);
		break;
	case 6:
		pass_time(details);
		break;
	default:
		if (details % 8 == 0)
			leave(&world.host[details >> 3 & 1], &world.host[details >> 3 & 1].process[details >> 4 & 1]);
		else
			decide(0);
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length)
{
	memset(&world, 0, sizeof(world));
	world.now = VB_SECONDS(1);
	world.input = (struct fuzz_input){input, length};
	world.random = take(1);
	for (unsigned i = 0; i < HOSTS; i++) {
		struct host *host = &world.host[i];
		struct vb_connect_host asked = {.context = host, .send_mad = send_mad, .event = take_event, .random = draw_random,
						.find_device = find_device};

		memcpy(host->gid, (const uint8_t[16]){[10] = 0xff, 0xff, 10, 0, 0, (uint8_t)(1 + i)}, 16);
		host->connect = vb_connect_create(&asked);
		FUZZ_CHECK(host->connect);
		for (unsigned p = 0; p < PROCESSES; p++)
			vb_connect_owner_init(&host->process[p].owner);
	}
	for (unsigned steps = 0; steps < MOST_STEPS && world.input.left > 0; steps++)
		step();
	for (unsigned i = 0; i < HOSTS; i++)
		for (unsigned p = 0; p < PROCESSES; p++)
			leave(&world.host[i], &world.host[i].process[p]);
	/* Answers that are waited for no longer come: the longest patience there is, and more. */
	expire(world.now + VB_SECONDS(100000000));
	for (unsigned i = 0; i < HOSTS; i++) {
		FUZZ_CHECK(vb_connect_count(world.host[i].connect) == 0);
		FUZZ_CHECK(vb_connect_bound_count(world.host[i].connect) == 0);
		FUZZ_CHECK(vb_connect_next_deadline(world.host[i].connect) == VB_TIME_NEVER);
		vb_connect_destroy(world.host[i].connect);
	}
	return 0;
}
