/* SPDX-License-Identifier: MIT
 *
 * Whole systems: two to four hosts with a daemon and up to three processes each, which connect with one another, on one host
 * or two, and work (program.h). The daemons are the connection managers that verbenad runs, or verbenad itself (hosted.h).
 * Packets of queue pairs and messages of the connection managers share a network that loses,
 * duplicates, reorders and damages them and falls apart; processes stand still, die and come back; daemons die and are
 * replaced. In the end
 *
 *   every connect, accept and disconnect has an outcome, every work request a completion
 *   no connection has lost its other end without being told, unless the daemon died that knew of it
 *   no id, port or timer is left with any daemon when the processes have ended
 */
#include <string.h>

#include "lib/descriptors.h"
#include "sim/hosted.h"
#include "sim/program.h"
#include "sim/world.h"

enum { STEPS = 700, FIRST_PORT = 7000, NOBODYS_PORT = 6999 };

/* Descriptors of verbenad, without its processes: the listener, epoll, netlink, a reserve, its sockets of two IP versions, a sender. Of a
 * process: both ends of its connection, the sockets and the page of its slot at both ends, verbenad's own sockets. Of a lane: its sockets
 * at both ends. */
enum { OF_DAEMON = 7, OF_PROCESS = 11, OF_LANE = 4 };

struct world {
	struct programs all;
	uint32_t apart;                  /* bit i: host i is on the other side */
	vb_time apart_until, together_until;
	unsigned descriptors;            /* before it began; 0: there is no verbenad in it */
	uint32_t lost_messages;          /* of a million, beside what is lost of all packets */
};

/* ---- the network ---- */

static bool is_beyond(const struct world *world, const uint8_t address[16])
{
	return world->apart >> (address[15] - 1) & 1;
}

static bool passes(void *context, const struct vb_roce_packet *packet)
{
	const struct world *world = context;

	if (packet->destination_qpn == 1 && sim_below(world->all.sim, SIM_MILLION) < world->lost_messages)
		return false;
	return world->all.sim->now >= world->apart_until ||
	       is_beyond(world, packet->from.source) == is_beyond(world, packet->from.destination);
}

/* Never so bad that all of sixteen messages are lost. */
static void change_weather(struct world *world)
{
	static const uint32_t bad[] = {0, 0, 0, 1000, 10000, 30000, 50000};
	struct sim *sim = world->all.sim;

	world->lost_messages = sim_below(sim, 2) == 0 ? 0 : 150000;
	sim->network.loss = bad[sim_below(sim, 7)];
	sim->network.duplication = bad[sim_below(sim, 7)];
	sim->network.reorder = bad[sim_below(sim, 7)];
	sim->network.corruption = bad[sim_below(sim, 7)];
	sim->network.reorder_delay = sim_below(sim, 2) == 0 ? VB_MICROSECONDS(50) : VB_MILLISECONDS(20);
}

/* For less time than messages are repeated, and not twice within that. */
static void fall_apart(struct world *world)
{
	struct sim *sim = world->all.sim;

	if (sim->now < world->together_until)
		return;
	world->apart = 1 + sim_below(sim, (1u << world->all.machines) - 2);
	world->apart_until = sim->now + VB_MILLISECONDS(1 + sim_below(sim, 8000));
	world->together_until = world->apart_until + VB_SECONDS(100);
}

/* So long that it counts as a network that has fallen apart. */
static void stand_still(struct world *world, struct machine *machine)
{
	struct sim *sim = world->all.sim;

	if (!machine->hosted || sim->now < world->together_until)
		return;
	machine_stand_still(machine, sim->now + VB_MILLISECONDS(1 + sim_below(sim, 5000)));
	world->together_until = sim->now + VB_SECONDS(100);
}

/* ---- deaths ---- */

static void kill_daemon(struct programs *all, struct machine *machine)
{
	if (machine_has_daemon(machine))
		programs_kill_daemon(all, machine);
}

static void start_again(struct programs *all, bool everything)
{
	for (unsigned i = 0; i < all->machines; i++)
		if (!machine_has_daemon(&all->machine[i]) && (everything || sim_below(all->sim, 8) == 0))
			machine_start_daemon(&all->machine[i]);
	for (unsigned i = 0; i < all->processes; i++)
		if (!all->process[i].alive && (everything || sim_below(all->sim, 20) == 0))
			process_start(&all->process[i]);
}

static void disturb(struct world *world)
{
	struct programs *all = &world->all;
	struct sim *sim = all->sim;
	struct process *process = &all->process[sim_below(sim, all->processes)];
	struct machine *machine = &all->machine[sim_below(sim, all->machines)];

	switch (sim_below(sim, 150)) {
	case 0:
	case 1:
		if (process->alive)
			process_crash(process);
		break;
	case 2:
	case 3:
		kill_daemon(all, machine);
		break;
	case 4:
	case 5:
		process->asleep_until = sim->now + VB_MILLISECONDS(1 + sim_below(sim, 10000));
		break;
	case 6:
		machine->host->away_until = sim->now + VB_MILLISECONDS(1 + sim_below(sim, 500));
		break;
	case 7:
		fall_apart(world);
		break;
	case 8:
	case 9:
		change_weather(world);
		break;
	case 10:
		stand_still(world, machine);
		break;
	default:
		break;
	}
}

/* A process has said something to its daemon, and what follows from it is on its way: now it dies, or another, or a daemon. */
static void have_accidents(struct programs *all)
{
	for (unsigned i = 0; i < all->processes; i++) {
		struct process *process = &all->process[i];

		if (process->said == 0 || sim_below(all->sim, 24) != 0) {
			process->said = 0;
			continue;
		}
		process->said = 0;
		if (sim_below(all->sim, 2) == 0)
			process = &all->process[sim_below(all->sim, all->processes)];
		if (sim_below(all->sim, 2) == 0)
			kill_daemon(all, process->machine);
		else if (process->alive)
			process_crash(process);
	}
}

/* ---- a world ---- */

static void act(struct programs *all)
{
	struct sim *sim = all->sim;
	struct process *process = &all->process[sim_below(sim, all->processes)];
	const struct process *to = &all->process[sim_below(sim, all->processes)];

	switch (sim_below(sim, 12)) {
	case 0:
		process_connect(process, to->machine, to->port != 0 && sim_below(sim, 10) != 0 ? to->port : NOBODYS_PORT);
		break;
	case 1:
		process_end_one(process);
		break;
	default:
		for (unsigned i = 0; i < 4 && all->connections > 0; i++)
			connection_post(&all->connection[sim_below(sim, all->connections)]);
		break;
	}
}

/* Processes that run find a new daemon within a moment. */
static bool is_adopting(const struct programs *all)
{
	for (unsigned i = 0; i < all->processes; i++) {
		const struct process *process = &all->process[i];

		if (process->alive && !process->linked && machine_answers(process->machine) && all->sim->now >= process->asleep_until)
			return true;
	}
	return false;
}

static vb_time draw_pause(const struct programs *all)
{
	struct sim *sim = all->sim;

	if (is_adopting(all))
		return VB_MILLISECONDS(sim_below(sim, 300));
	switch (sim_below(sim, 16)) {
	case 0:
		return VB_MILLISECONDS(sim_below(sim, 6000));
	case 1:
	case 2:
		return VB_MILLISECONDS(sim_below(sim, 200));
	case 3:
	case 4:
	case 5:
		return VB_MICROSECONDS(sim_below(sim, 5000));
	default:
		return VB_MICROSECONDS(sim_below(sim, 200));
	}
}

static void go_on(struct programs *all, vb_time pause, bool everything)
{
	sim_run_to(all->sim, all->sim->now + pause);
	for (unsigned i = 0; i < all->connections; i++)
		if (all->connection[i].is_paired)
			flow_poll(&all->connection[i].flow);
	for (unsigned i = 0; i < all->processes; i++)
		process_serve(&all->process[i], everything);
}

static bool is_busy(const struct programs *all)
{
	for (unsigned i = 0; i < all->processes; i++)
		if (process_is_busy(&all->process[i]))
			return true;
	return false;
}

/* The sky clears and everything runs: what is under way ends, this way or that. */
static void settle(struct world *world)
{
	struct programs *all = &world->all;
	struct sim *sim = all->sim;
	vb_time limit = sim->now + VB_SECONDS(1400);
	unsigned lanes = 0;

	all->is_mortal = false;
	world->apart_until = 0;
	world->lost_messages = 0;
	sim->network.loss = sim->network.duplication = sim->network.reorder = sim->network.corruption = 0;
	for (unsigned i = 0; i < all->processes; i++)
		all->process[i].asleep_until = 0;
	for (unsigned i = 0; i < all->machines; i++)
		machine_stand_still(&all->machine[i], 0);
	start_again(all, true);
	while (is_busy(all)) {
		CHECK(sim->now < limit);
		go_on(all, VB_MILLISECONDS(100), true);
	}
	/* What a daemon was told before it is repeated until it is heard. */
	for (unsigned i = 0; i < 200 || is_busy(all); i++) {
		CHECK(i < 2000);
		go_on(all, VB_MILLISECONDS(500), true);
	}
	for (unsigned i = 0; i < all->processes; i++)
		process_check(&all->process[i]);
	for (unsigned i = 0; i < all->machines; i++)
		machine_check(&all->machine[i], false);
	for (unsigned i = 0; world->descriptors != 0 && i < all->machines; i++)
		lanes += hosted_lanes(&all->machine[i]);
	if (world->descriptors != 0)
		CHECK(count_descriptors() <=
		      world->descriptors + all->machines * OF_DAEMON + all->processes * OF_PROCESS + lanes * OF_LANE);
}

static void end_all(struct programs *all)
{
	for (unsigned i = 0; i < all->processes; i++) {
		if (sim_below(all->sim, 2) == 0)
			process_leave(&all->process[i]);
		else
			process_crash(&all->process[i]);
	}
	sim_run_to(all->sim, all->sim->now + VB_SECONDS(200));
	for (unsigned i = 0; i < all->machines; i++) {
		machine_check(&all->machine[i], true);
		machine_close(&all->machine[i]);
	}
}

static uint64_t play(unsigned descriptors)
{
	static struct world world;
	struct programs *all = &world.all;
	struct sim *sim = sim_create(world_seed);
	uint64_t packets;

	memset(&world, 0, sizeof(world));
	all->sim = sim;
	world.descriptors = descriptors;
	all->is_mortal = descriptors != 0;
	if (descriptors != 0)
		hosted_use(sim);
	sim->network.filter = passes;
	sim->network.filter_context = &world;
	all->machines = 2 + sim_below(sim, MOST_MACHINES - 1);
	for (unsigned i = 0; i < all->machines; i++) {
		machine_open(&all->machine[i], sim, world_seed % 2, descriptors != 0, process_tell);
		for (unsigned more = 1 + sim_below(sim, MOST_PROCESSES / MOST_MACHINES); more > 0; more--, all->processes++)
			process_open(&all->process[all->processes], all, &all->machine[i],
				     sim_below(sim, 4) == 0 ? 0 : (uint16_t)(FIRST_PORT + all->processes));
	}
	change_weather(&world);
	for (unsigned step = 0; step < STEPS * world_length; step++) {
		act(all);
		disturb(&world);
		have_accidents(all);
		start_again(all, false);
		go_on(all, draw_pause(all), false);
	}
	settle(&world);
	end_all(all);
	packets = sim->packets_sent;
	sim_destroy(sim);
	return packets;
}

uint64_t world_processes_play(void)
{
	return play(0);
}

uint64_t world_whole_play(void)
{
	static bool is_inside;
	unsigned before;
	uint64_t packets;

	if (!is_inside)
		hosted_enter(MOST_MACHINES);
	is_inside = true;
	hosted_narrow(world_seed % 2 == 0);
	before = count_descriptors();
	packets = play(before);
	hosted_use(NULL);
	CHECK(count_descriptors() == before);
	return packets;
}
