/* SPDX-License-Identifier: MIT
 *
 * Does for the connection manager what daemon/cm_service.c does: packs MADs into packets, unpacks them, and wakes it when it is due.
 */
#include "sim/machine.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "sim/network.h"
#include "sim/world.h"
#include "wire/cm_mad.h"

enum { INTERFACE = 7, SOURCE_PORT = 0xc000 };

static void fire(struct sim *sim, void *object, vb_time when);

static void arm(struct machine *machine)
{
	vb_time when = machine->daemon ? vb_connect_next_deadline(machine->daemon) : VB_TIME_NEVER;

	if (when < machine->sim->now)
		when = machine->sim->now;
	if (when >= machine->armed)
		return;
	machine->armed = when;
	sim_events_plan(&machine->sim->events, when, fire, machine);
}

static void fire(struct sim *sim, void *object, vb_time when)
{
	struct machine *machine = object;

	if (machine->armed != when)
		return; /* it was armed for an earlier time since */
	machine->armed = VB_TIME_NEVER;
	if (machine->daemon)
		vb_connect_expire(machine->daemon, sim->now);
	arm(machine);
}

/* ---- what the connection manager asks ---- */

static void send_mad(void *context, const struct vb_path *path, const uint8_t mad[VB_CM_MAD_LENGTH])
{
	struct machine *machine = context;
	struct vb_path way = *path;
	struct vb_roce_packet packet;

	CHECK(memcmp(path->source, machine->host->address, 16) == 0);
	way.source_port = SOURCE_PORT;
	vb_cm_packet_describe(&packet, machine->psn++);
	sim_send_datagram(machine->host, &way, &packet, mad, VB_CM_MAD_LENGTH);
}

static void tell(void *context, struct vb_connect_owner *owner, const struct vb_cm_event *event)
{
	((struct machine *)context)->tell(owner, event);
}

static uint32_t draw(void *context)
{
	return sim_random(((struct machine *)context)->sim);
}

static bool find_device(void *context, const uint8_t gid[16], uint32_t interface_index, struct vb_connect_device *device)
{
	const struct sim_host *host = ((struct machine *)context)->host;

	(void)interface_index;
	if (memcmp(gid, host->address, 16) != 0)
		return false;
	*device = (struct vb_connect_device){
		.interface_index = INTERFACE,
		.guid = 0x0200c0fffe000000 + host->index,
		.active_mtu = IBV_MTU_1024,
	};
	return true;
}

/* ---- packets of queue pair 1 ---- */

/* Nothing is at the port: the sender hears of it, or not. */
static void refuse(struct machine *machine, const struct vb_roce_packet *packet)
{
	struct sim_host *from = sim_host_at(machine->sim, packet->from.source);
	struct machine *sender = from ? from->datagram_context : NULL;

	if (!machine->refuses || !sender || !sender->daemon)
		return;
	vb_connect_undelivered(sender->daemon, packet->from.destination, packet->payload, packet->payload_length, ECONNREFUSED);
	arm(sender);
}

static void take_datagram(void *context, const struct vb_roce_packet *packet)
{
	struct machine *machine = context;

	if (!vb_cm_packet_is_mad(packet))
		return;
	if (!machine->daemon) {
		refuse(machine, packet);
		return;
	}
	vb_connect_receive(machine->daemon, machine->sim->now, &packet->from, packet->payload, packet->payload_length);
	arm(machine);
}

/* ---- */

void machine_open(struct machine *machine, struct sim *sim, bool ipv6,
		  void (*tell_process)(struct vb_connect_owner *owner, const struct vb_cm_event *event))
{
	memset(machine, 0, sizeof(*machine));
	machine->sim = sim;
	machine->armed = VB_TIME_NEVER;
	machine->tell = tell_process;
	machine->host = sim_host_add(sim, ipv6);
	machine->host->take_datagram = take_datagram;
	machine->host->datagram_context = machine;
	machine_start_daemon(machine);
}

void machine_close(struct machine *machine)
{
	vb_connect_destroy(machine->daemon);
	machine->daemon = NULL;
}

void machine_start_daemon(struct machine *machine)
{
	struct vb_connect_host host = {
		.context = machine,
		.send_mad = send_mad,
		.event = tell,
		.random = draw,
		.find_device = find_device,
	};

	machine->daemon = vb_connect_create(&host);
	CHECK(machine->daemon);
	vb_connect_await_adoption(machine->daemon, machine->sim->now + VB_CONNECT_ADOPTION);
	machine->started = machine->sim->now;
}

void machine_kill_daemon(struct machine *machine)
{
	vb_connect_destroy(machine->daemon);
	machine->daemon = NULL;
	machine->deaths++;
}

int machine_command(struct machine *machine, struct vb_connect_owner *owner, struct vb_cm_command *command, struct vb_cm_reply *reply)
{
	command->type = VB_CM_COMMAND;
	command->serial++;
	vb_connect_command(machine->daemon, machine->sim->now, owner, command, reply);
	CHECK(reply->type == VB_CM_REPLY && reply->serial == command->serial);
	arm(machine);
	return reply->error;
}

void machine_owner_gone(struct machine *machine, struct vb_connect_owner *owner)
{
	vb_connect_owner_gone(machine->daemon, machine->sim->now, owner);
	arm(machine);
}

struct vb_cm_address machine_address(const struct machine *machine, uint16_t port)
{
	struct vb_cm_address address = {.family = vb_gid_is_ipv4(machine->host->address) ? AF_INET : AF_INET6, .port = port};

	memcpy(address.gid, machine->host->address, 16);
	return address;
}
