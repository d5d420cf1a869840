/* SPDX-License-Identifier: MIT
 *
 * The simulator: see sim.h.
 */
#include "sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#define TRAVEL VB_MICROSECONDS(10)
#define DETOUR VB_MILLISECONDS(6)

uint32_t sim_draw(struct sim *sim)
{
	sim->seed = sim->seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(sim->seed >> 32);
}

/* ---- what the engines ask */

static uint32_t draw_random(void *context)
{
	return sim_draw(((struct sim_host *)context)->sim);
}

static enum sim_fate choose_fate(struct sim *sim)
{
	uint32_t chance;

	if (sim->unplugged)
		return SIM_LOSE;
	if (sim->masked > 0) {
		enum sim_fate fate = sim->mask & 3;

		sim->masked--;
		sim->mask >>= 2;
		return fate;
	}
	chance = sim_draw(sim) % 1000;
	if (chance < sim->lose)
		return SIM_LOSE;
	if (chance < sim->lose + sim->duplicate)
		return SIM_DUPLICATE;
	return chance < sim->lose + sim->duplicate + sim->delay ? SIM_DELAY : SIM_DELIVER;
}

static bool comes_before(const struct sim_packet *a, const struct sim_packet *b)
{
	return a->when != b->when ? a->when < b->when : a->order < b->order;
}

/* A heap by time of arrival. */
static void put_on_wire(struct sim *sim, vb_time when, const struct vb_path *path, const uint8_t *mad)
{
	struct sim_packet packet = {.when = when, .order = sim->order++, .path = *path};
	unsigned at = sim->packet_count++;

	if (at == sim->packet_room) {
		sim->packet_room = sim->packet_room ? 2 * sim->packet_room : 64;
		sim->packets = realloc(sim->packets, sim->packet_room * sizeof(*sim->packets));
		assert_non_null(sim->packets);
	}
	memcpy(packet.mad, mad, VB_CM_MAD_LENGTH);
	for (; at > 0 && comes_before(&packet, &sim->packets[(at - 1) / 2]); at = (at - 1) / 2)
		sim->packets[at] = sim->packets[(at - 1) / 2];
	sim->packets[at] = packet;
}

static struct sim_packet take_from_wire(struct sim *sim)
{
	struct sim_packet first = sim->packets[0], *last = &sim->packets[--sim->packet_count];
	unsigned at = 0, child;

	while ((child = 2 * at + 1) < sim->packet_count) {
		if (child + 1 < sim->packet_count && comes_before(&sim->packets[child + 1], &sim->packets[child]))
			child++;
		if (!comes_before(&sim->packets[child], last))
			break;
		sim->packets[at] = sim->packets[child];
		at = child;
	}
	sim->packets[at] = *last;
	return first;
}

static void send_mad(void *context, const struct vb_path *path, const uint8_t mad[VB_CM_MAD_LENGTH])
{
	struct sim *sim = ((struct sim_host *)context)->sim;

	/* What an engine sends must be readable to itself. */
	assert_int_equal(vb_cm_mad_decode(&sim->last, mad, VB_CM_MAD_LENGTH), 0);
	assert_memory_equal(path->source, ((struct sim_host *)context)->gid, 16);
	sim->sent[sim->last.attribute - VB_CM_REQ]++;
	switch (choose_fate(sim)) {
	case SIM_LOSE:
		break;
	case SIM_DUPLICATE:
		put_on_wire(sim, sim->now + TRAVEL, path, mad);
		put_on_wire(sim, sim->now + DETOUR / 2, path, mad);
		break;
	case SIM_DELAY:
		put_on_wire(sim, sim->now + DETOUR, path, mad);
		break;
	default:
		put_on_wire(sim, sim->now + TRAVEL, path, mad);
		break;
	}
}

static void take_event(void *context, struct vb_connect_owner *owner, const struct vb_cm_event *event)
{
	struct sim_process *process = vb_container_of(owner, struct sim_process, owner);

	assert_ptr_equal(process->host, context);
	assert_true(process->told - process->read < SIM_EVENTS);
	process->events[process->told++ % SIM_EVENTS] = *event;
}

static bool find_device(void *context, const uint8_t gid[16], uint32_t interface_index,
			struct vb_connect_device *device)
{
	struct sim_host *host = context;

	(void)interface_index;
	if (memcmp(gid, host->gid, 16) != 0)
		return false;
	*device = (struct vb_connect_device){.interface_index = 7, .guid = host->guid, .active_mtu = 3};
	return true;
}

/* ---- */

void sim_begin(struct sim *sim, uint64_t seed)
{
	memset(sim, 0, sizeof(*sim));
	sim->seed = seed * 2654435761u + 88172645463325252u;
	sim->now = VB_SECONDS(1000);
	for (unsigned i = 0; i < SIM_HOSTS; i++) {
		struct sim_host *host = &sim->host[i];
		struct vb_connect_host callbacks = {
			.context = host,
			.send_mad = send_mad,
			.event = take_event,
			.random = draw_random,
			.find_device = find_device,
		};

		host->sim = sim;
		host->guid = 0x0200c0fffe000000 + i;
		memcpy(host->gid, (uint8_t[16]){[10] = 0xff, [11] = 0xff, 10, 0, 0, (uint8_t)(1 + i)}, 16);
		host->connect = vb_connect_create(&callbacks);
		assert_non_null(host->connect);
		for (unsigned p = 0; p < SIM_PROCESSES; p++) {
			host->process[p].host = host;
			host->process[p].events = malloc(SIM_EVENTS * sizeof(struct vb_cm_event));
			vb_connect_owner_init(&host->process[p].owner);
		}
	}
}

void sim_free(struct sim *sim)
{
	for (unsigned i = 0; i < SIM_HOSTS; i++) {
		vb_connect_destroy(sim->host[i].connect);
		for (unsigned p = 0; p < SIM_PROCESSES; p++)
			free(sim->host[i].process[p].events);
	}
	free(sim->packets);
}

void sim_end_clean(struct sim *sim)
{
	for (unsigned i = 0; i < SIM_HOSTS; i++) {
		assert_int_equal(vb_connect_count(sim->host[i].connect), 0);
		assert_int_equal(vb_connect_bound_count(sim->host[i].connect), 0);
		assert_true(vb_connect_next_deadline(sim->host[i].connect) == VB_TIME_NEVER);
		for (unsigned p = 0; p < SIM_PROCESSES; p++)
			assert_int_equal(sim->host[i].process[p].owner.count, 0);
	}
	sim_free(sim);
}

static void deliver(struct sim *sim)
{
	struct sim_packet packet = take_from_wire(sim);

	for (unsigned i = 0; i < SIM_HOSTS; i++)
		if (memcmp(sim->host[i].gid, packet.path.destination, 16) == 0)
			vb_connect_receive(sim->host[i].connect, sim->now, &packet.path, packet.mad, VB_CM_MAD_LENGTH);
}

static void react(struct sim *sim)
{
	for (unsigned i = 0; sim->react && i < SIM_HOSTS; i++) {
		for (unsigned p = 0; p < SIM_PROCESSES; p++) {
			struct sim_process *process = &sim->host[i].process[p];

			while (process->read != process->told) {
				struct vb_cm_event event = process->events[process->read++ % SIM_EVENTS];

				sim->react(sim, process, &event);
			}
		}
	}
}

void sim_run(struct sim *sim, vb_time until)
{
	react(sim);
	for (;;) {
		vb_time arrival = sim->packet_count > 0 ? sim->packets[0].when : VB_TIME_NEVER, next = arrival;

		for (unsigned i = 0; i < SIM_HOSTS; i++)
			next = vb_time_earlier(next, vb_connect_next_deadline(sim->host[i].connect));
		if (next > until || next == VB_TIME_NEVER)
			break;
		if (next > sim->now)
			sim->now = next;
		if (arrival == next)
			deliver(sim);
		else
			for (unsigned i = 0; i < SIM_HOSTS; i++)
				vb_connect_expire(sim->host[i].connect, sim->now);
		react(sim);
	}
	if (until != VB_TIME_NEVER)
		sim->now = until;
}

struct vb_cm_address sim_address(const struct sim *sim, unsigned host, uint16_t port)
{
	struct vb_cm_address address = {.family = AF_INET, .port = port};

	memcpy(address.gid, sim->host[host].gid, 16);
	return address;
}

int sim_command(struct sim_process *process, struct vb_cm_command *command, struct vb_cm_reply *reply)
{
	struct vb_cm_reply own;

	command->type = VB_CM_COMMAND;
	command->serial = 0x1234567800000000 + command->verb;
	vb_connect_command(process->host->connect, process->host->sim->now, &process->owner, command,
			   reply ? reply : &own);
	assert_int_equal((reply ? reply : &own)->serial, command->serial);
	assert_int_equal((reply ? reply : &own)->type, VB_CM_REPLY);
	return (reply ? reply : &own)->error;
}

uint32_t sim_create(struct sim_process *process, uint32_t port_space)
{
	struct vb_cm_command command = {.verb = VB_CM_CREATE, .port_space = port_space};
	struct vb_cm_reply reply;

	assert_int_equal(sim_command(process, &command, &reply), 0);
	assert_int_not_equal(reply.id, 0);
	return reply.id;
}

uint32_t sim_listen(struct sim_process *process, uint32_t port_space, uint16_t port, uint32_t backlog)
{
	uint32_t id = sim_create(process, port_space);
	struct vb_cm_command bind = {.verb = VB_CM_BIND, .id = id, .source = {.family = AF_INET, .port = port}};
	struct vb_cm_command listen = {.verb = VB_CM_LISTEN, .id = id, .backlog = backlog};

	assert_int_equal(sim_command(process, &bind, NULL), 0);
	assert_int_equal(sim_command(process, &listen, NULL), 0);
	return id;
}

int sim_connect(struct sim_process *process, uint32_t id, unsigned host, uint16_t port, uint32_t qpn)
{
	struct sim *sim = process->host->sim;
	struct vb_cm_command command = {
		.verb = VB_CM_CONNECT,
		.id = id,
		.source = sim_address(sim, (unsigned)(process->host - sim->host), 0),
		.destination = sim_address(sim, host, port),
		.conn = {
			.qpn = qpn,
			.starting_psn = 0x123456,
			.responder_resources = 4,
			.initiator_depth = 2,
			.retry_count = 7,
			.rnr_retry_count = 6,
			.private_data_length = 5,
			.private_data = "hello",
		},
	};

	return sim_command(process, &command, NULL);
}

int sim_accept(struct sim_process *process, uint32_t id, uint32_t qpn)
{
	struct vb_cm_command command = {
		.verb = VB_CM_ACCEPT,
		.id = id,
		.conn = {
			.qpn = qpn,
			.qkey = 0x01234567,
			.starting_psn = 0x654321,
			.responder_resources = 2,
			.initiator_depth = 4,
			.rnr_retry_count = 5,
			.private_data_length = 7,
			.private_data = "welcome",
		},
	};

	return sim_command(process, &command, NULL);
}

int sim_order(struct sim_process *process, uint32_t verb, uint32_t id)
{
	struct vb_cm_command command = {.verb = verb, .id = id};

	return sim_command(process, &command, NULL);
}

const struct vb_cm_event *sim_expect(struct sim_process *process, enum vb_cm_event_kind kind)
{
	const struct vb_cm_event *event;

	if (process->read == process->told)
		fail_msg("no event, expected %u", kind);
	event = &process->events[process->read++ % SIM_EVENTS];
	assert_int_equal(event->type, VB_CM_EVENT);
	assert_int_equal(event->kind, kind);
	return event;
}

void sim_expect_none(struct sim_process *process)
{
	if (process->read != process->told)
		fail_msg("unexpected event %u", process->events[process->read % SIM_EVENTS].kind);
}

void sim_inject(struct sim *sim, unsigned from, unsigned to, const struct vb_cm_mad *mad)
{
	struct vb_path path = {.hop_limit = 64, .interface_index = 7};
	uint8_t bytes[VB_CM_MAD_LENGTH];

	memcpy(path.source, sim->host[from].gid, 16);
	memcpy(path.destination, sim->host[to].gid, 16);
	vb_cm_mad_encode(mad, bytes);
	vb_connect_receive(sim->host[to].connect, sim->now, &path, bytes, sizeof(bytes));
}
