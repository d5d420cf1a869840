/* SPDX-License-Identifier: MIT
 *
 * Does for the connection manager what daemon/cm_service.c does: packs MADs into packets, unpacks them, and wakes it when it is due.
 */
#include "sim/machine.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "sim/hosted.h"
#include "sim/network.h"
#include "sim/world.h"
#include "wire/cm_mad.h"
#include "wire/daemon_message.h"

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

void machine_open(struct machine *machine, struct sim *sim, bool ipv6, bool is_hosted,
		  void (*tell_process)(struct vb_connect_owner *owner, const struct vb_cm_event *event))
{
	memset(machine, 0, sizeof(*machine));
	machine->sim = sim;
	machine->armed = VB_TIME_NEVER;
	machine->tell = tell_process;
	machine->host = sim_host_add(sim, ipv6);
	machine->host->take_datagram = take_datagram;
	machine->host->datagram_context = machine;
	if (is_hosted)
		hosted_open(machine);
	machine_start_daemon(machine);
}

void machine_close(struct machine *machine)
{
	if (machine->hosted)
		hosted_close(machine);
	else
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

	machine->started = machine->sim->now;
	world_counts.daemons++;
	if (machine->hosted) {
		hosted_start_daemon(machine);
		return;
	}
	machine->daemon = vb_connect_create(&host);
	CHECK(machine->daemon);
	vb_connect_await_adoption(machine->daemon, machine->sim->now + VB_CONNECT_ADOPTION);
}

void machine_kill_daemon(struct machine *machine)
{
	if (machine->hosted)
		hosted_kill_daemon(machine);
	else
		vb_connect_destroy(machine->daemon);
	machine->daemon = NULL;
	machine->deaths++;
}

bool machine_has_daemon(const struct machine *machine)
{
	return machine->hosted ? hosted_has_daemon(machine) : machine->daemon != NULL;
}

bool machine_answers(const struct machine *machine)
{
	return machine_has_daemon(machine) && !(machine->hosted && hosted_is_still(machine));
}

void machine_stand_still(struct machine *machine, vb_time until)
{
	if (machine->hosted && machine_has_daemon(machine))
		hosted_stand_still(machine, until);
}

bool machine_link(struct machine *machine, struct vb_connect_owner *owner)
{
	return !machine->hosted || hosted_link(machine, owner);
}

uint32_t machine_qpn(const struct machine *machine, const struct vb_connect_owner *owner, uint32_t number)
{
	if (!machine->hosted)
		return number;
	CHECK(number < VB_DAEMON_INDICES);
	return hosted_slot(machine, owner) << VB_DAEMON_INDEX_BITS | number;
}

void machine_command_unanswered(struct machine *machine, struct vb_connect_owner *owner, struct vb_cm_command *command)
{
	command->type = VB_CM_COMMAND;
	command->serial++;
	hosted_command_unanswered(machine, owner, command);
}

int machine_command(struct machine *machine, struct vb_connect_owner *owner, struct vb_cm_command *command, struct vb_cm_reply *reply)
{
	command->type = VB_CM_COMMAND;
	command->serial++;
	if (machine->hosted)
		hosted_command(machine, owner, command, reply);
	else
		vb_connect_command(machine->daemon, machine->sim->now, owner, command, reply);
	CHECK(reply->type == VB_CM_REPLY && reply->serial == command->serial);
	arm(machine);
	return reply->error;
}

void machine_process_ended(struct machine *machine, struct vb_connect_owner *owner, bool linked)
{
	if (machine->hosted)
		hosted_process_ended(machine, owner);
	else if (linked)
		vb_connect_owner_gone(machine->daemon, machine->sim->now, owner);
	arm(machine);
}

void machine_check(struct machine *machine, bool empty)
{
	if (machine->hosted && empty)
		hosted_check_empty(machine);
	else if (machine->hosted)
		hosted_check(machine);
	if (machine->hosted || !empty)
		return;
	CHECK(vb_connect_count(machine->daemon) == 0);
	CHECK(vb_connect_bound_count(machine->daemon) == 0);
	CHECK(vb_connect_next_deadline(machine->daemon) == VB_TIME_NEVER);
}

struct vb_cm_address machine_address(const struct machine *machine, uint16_t port)
{
	struct vb_cm_address address = {.family = vb_gid_is_ipv4(machine->host->address) ? AF_INET : AF_INET6, .port = port};

	memcpy(address.gid, machine->host->address, 16);
	return address;
}
