/* SPDX-License-Identifier: MIT
 *
 * verbenad itself in a world by seed: the real server with its loop, its sockets and slots in a network of its own, in virtual time.
 * Programs get slots and lanes, receive packets there and answer probes as libibverbs does (progress/daemon_link.c). The daemon dies at any
 * turn of its loop and another comes; programs die, some after the daemon has heard of it, stand still, and come anew.
 *
 *   while no program dies or stands still, every packet reaches the program that has its slot, whatever becomes of daemons
 *   when all is over, all programs have the slots and lanes they had, no two the same, every packet reaches the lane of its program, the
 *   daemon answers on slot 0, and new programs get slots
 *   no descriptor is left
 *
 * The programs are of one user. What they say of connections is in world_processes.c. To which socket the kernel hands what is meant for
 * none of them depends on a hash of its own: a seed plays again with the same events, not with the same hash.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/server.h"
#include "io/unix_socket.h"
#include "lib/descriptors.h"
#include "lib/patience.h"
#include "lib/private_network.h"
#include "sim/seams.h"
#include "sim/world.h"
#include "wire/daemon_message.h"
#include "wire/inquiry.h"

enum { PROGRAMS = 6, STEPS = 400, KEPT_PROBES = 64, TRIES = 6, PACKET = 24, PORT = 4791 };

#define NAME "verbena/world"

/* Which descriptor of a slot is which: the bits of VB_DAEMON_FD_ALL. */
enum { FOUR, SIX, PAGE, FIRST_OWN, CLAIM = 5, DESCRIPTORS };

struct lane {
	int fd[2];                         /* -1: none */
	enum vb_daemon_type asked;         /* OPEN_LANE, ADOPT_LANE or CLOSE_LANE is not answered yet; 0: none */
	uint32_t sequence;                 /* of that */
};

struct program {
	bool alive, served;                /* served: this daemon knows its slot */
	int fd;                            /* to the daemon, -1: none */
	int kept[DESCRIPTORS];             /* -1: none */
	struct lane lane[VB_DAEMON_LANES];
	uint32_t slot, sequence;
	struct vb_daemon_probe_seen probe[KEPT_PROBES];
	unsigned probes, tries;
	vb_time asleep_until, next_try;
	uint64_t last_packet;
	unsigned last_lane;                /* that brought it */
};

static struct {
	struct vb_server *server;          /* NULL: it is dead */
	struct program program[PROGRAMS];
	bool calm;                         /* nothing happened that may lose packets */
	uint64_t random, packets;
	int sender[2];
} world;

static uint32_t below(uint32_t bound)
{
	world.random = world.random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(world.random >> 33) % bound;
}

/* ---- programs ---- */

static void hang_up(struct program *program)
{
	if (program->fd >= 0)
		close(program->fd);
	program->fd = -1;
	program->served = false;
	for (unsigned i = 0; i < VB_DAEMON_LANES; i++)
		program->lane[i].asked = 0;
	program->next_try = seam.now + vb_time_earlier(VB_MILLISECONDS(20) << program->tries, VB_SECONDS(1));
	program->tries += program->tries < TRIES;
}

static void have_nothing(struct program *program)
{
	*program = (struct program){.fd = -1, .kept = {-1, -1, -1, -1, -1, -1}};
	for (unsigned i = 0; i < VB_DAEMON_LANES; i++)
		program->lane[i].fd[0] = program->lane[i].fd[1] = -1;
}

static void drop_lane(struct lane *lane)
{
	for (unsigned family = 0; family < 2; family++) {
		if (lane->fd[family] >= 0)
			close(lane->fd[family]);
		lane->fd[family] = -1;
	}
}

static void drop_sockets(struct program *program)
{
	for (unsigned i = 0; i < DESCRIPTORS; i++)
		if (program->kept[i] >= 0)
			close(program->kept[i]);
	for (unsigned i = 0; i < VB_DAEMON_LANES; i++)
		drop_lane(&program->lane[i]);
	have_nothing(program);
}

static void say(struct program *program, struct vb_daemon_message *message, const int *fds, unsigned count)
{
	message->header.sequence = ++program->sequence;
	if (vb_unix_send(program->fd, message, message->header.length, fds, count, false) != 0)
		hang_up(program);
}

static void greet(struct program *program)
{
	struct vb_daemon_message message;

	program->fd = vb_unix_connect(NAME);
	if (program->fd < 0) {
		hang_up(program);
		return;
	}
	CHECK(fcntl(program->fd, F_SETFL, O_NONBLOCK) == 0);
	vb_daemon_message_begin(&message, VB_DAEMON_HELLO, 0);
	memcpy(message.hello.program, "world", 6);
	say(program, &message, NULL, 0);
}

/* As it is welcome: for a slot, or with the one it has. */
static void introduce(struct program *program)
{
	struct vb_daemon_message message;
	int fds[DESCRIPTORS];
	unsigned count = 0;

	vb_daemon_message_begin(&message, program->slot == 0 ? VB_DAEMON_OPEN_SLOT : VB_DAEMON_ADOPT_SLOT, 0);
	if (program->slot != 0)
		message.slot.slot = program->slot;
	for (unsigned i = 0; program->slot != 0 && i < CLAIM; i++) {
		if (program->kept[i] < 0)
			continue;
		message.slot.descriptors |= 1u << i;
		fds[count++] = program->kept[i];
	}
	say(program, &message, fds, count);
}

static bool has_lane(const struct program *program, unsigned number)
{
	return program->lane[number].fd[0] >= 0;
}

static void ask_for_lane(struct program *program, enum vb_daemon_type question, unsigned number)
{
	struct lane *lane = &program->lane[number];
	struct vb_daemon_message message;
	bool shows = question == VB_DAEMON_ADOPT_LANE;

	if (!program->served || lane->asked != 0 || has_lane(program, number) == (question == VB_DAEMON_OPEN_LANE))
		return;
	vb_daemon_message_begin(&message, question, 0);
	message.lane.slot = program->slot;
	message.lane.lane = number;
	if (shows)
		message.lane.descriptors = VB_DAEMON_FD_IPV4 | VB_DAEMON_FD_IPV6;
	lane->asked = question;
	lane->sequence = program->sequence + 1;
	say(program, &message, lane->fd, shows ? 2 : 0);
}

static struct lane *find_question(struct program *program, uint32_t sequence)
{
	for (unsigned i = 1; i < VB_DAEMON_LANES; i++)
		if (program->lane[i].asked != 0 && program->lane[i].sequence == sequence)
			return &program->lane[i];
	return NULL;
}

static void take_lane(struct program *program, const struct vb_daemon_message *message, const int *fds)
{
	struct lane *lane = find_question(program, message->header.sequence);

	CHECK(lane && lane == &program->lane[message->lane.lane] && message->lane.slot == program->slot);
	CHECK((message->lane.descriptors == (VB_DAEMON_FD_IPV4 | VB_DAEMON_FD_IPV6)) == (lane->asked == VB_DAEMON_OPEN_LANE));
	if (lane->asked == VB_DAEMON_OPEN_LANE)
		for (unsigned family = 0; family < 2; family++)
			lane->fd[family] = fcntl(fds[family], F_DUPFD_CLOEXEC, 3);
	else if (lane->asked == VB_DAEMON_CLOSE_LANE)
		drop_lane(lane);
	lane->asked = 0;
}

/* False: it was not about a lane. */
static bool is_lane_refused(struct program *program, const struct vb_daemon_message *message)
{
	struct lane *lane = find_question(program, message->header.sequence);

	if (!lane)
		return false;
	/* Not while a daemon takes sockets over; and one that a daemon has closed, and died before it was heard, cannot be shown. */
	CHECK(message->error.error == (lane->asked == VB_DAEMON_OPEN_LANE ? EAGAIN : ESTALE) && lane->asked != VB_DAEMON_CLOSE_LANE);
	drop_lane(lane);
	lane->asked = 0;
	return true;
}

/* Those that it has are shown; who has just come wants some. */
static void want_lanes(struct program *program, bool is_new)
{
	for (unsigned i = 1; i < VB_DAEMON_LANES; i++)
		if (!is_new)
			ask_for_lane(program, VB_DAEMON_ADOPT_LANE, i);
		else if (below(4) == 0)
			ask_for_lane(program, VB_DAEMON_OPEN_LANE, i);
}

static void take_slot(struct program *program, const struct vb_daemon_slot *slot, const int *fds)
{
	bool is_new = program->slot == 0;
	unsigned next = 0;

	CHECK(program->slot == 0 || program->slot == slot->slot);
	for (unsigned i = 0; i < DESCRIPTORS; i++) {
		if (!(slot->descriptors & 1u << i))
			continue;
		if (is_new || i >= FIRST_OWN) {
			if (program->kept[i] >= 0)
				close(program->kept[i]);
			program->kept[i] = fcntl(fds[next], F_DUPFD_CLOEXEC, 3);
		}
		next++;
	}
	program->slot = slot->slot;
	program->served = true;
	program->tries = 0;
	CHECK(program->kept[FOUR] >= 0 && program->kept[SIX] >= 0 && program->kept[CLAIM] >= 0);
	want_lanes(program, is_new);
}

static void listen_to_daemon(struct program *program)
{
	while (program->fd >= 0) {
		struct vb_daemon_message message;
		int fds[VB_DAEMON_MAX_FDS];
		unsigned count;
		ssize_t length = vb_unix_receive(program->fd, &message, sizeof(message), fds, VB_DAEMON_MAX_FDS, &count, 0);

		if (length == -EAGAIN)
			return;
		if (length <= 0) {
			hang_up(program);
			return;
		}
		CHECK(vb_daemon_message_check(&message, (size_t)length, count, VB_DAEMON_FROM_DAEMON) == 0);
		if (message.header.type == VB_DAEMON_WELCOME)
			introduce(program);
		else if (message.header.type == VB_DAEMON_SLOT)
			take_slot(program, &message.slot, fds);
		else if (message.header.type == VB_DAEMON_LANE)
			take_lane(program, &message, fds);
		else if (message.header.type == VB_DAEMON_ERROR && !is_lane_refused(program, &message))
			hang_up(program);
		for (unsigned i = 0; i < count; i++)
			close(fds[i]);
	}
}

static void take_from(struct program *program, unsigned lane, int fd)
{
	uint8_t bytes[PACKET];
	ssize_t length;

	while ((length = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT)) >= 0) {
		struct vb_daemon_probe probe;

		memcpy(&probe, bytes, sizeof(probe));
		if (length == sizeof(probe) && be32_get(probe.magic) == VB_DAEMON_PROBE_MAGIC && program->probes < KEPT_PROBES) {
			program->probe[program->probes++] = (struct vb_daemon_probe_seen){.nonce = be64_get(probe.nonce), .lane = lane};
		} else if (length == PACKET) {
			memcpy(&program->last_packet, bytes + 16, sizeof(program->last_packet));
			program->last_lane = lane;
		}
	}
}

static void take_packets(struct program *program)
{
	for (unsigned family = 0; program->slot != 0 && family < 2; family++) {
		take_from(program, 0, program->kept[FOUR + family]);
		for (unsigned i = 1; i < VB_DAEMON_LANES; i++)
			if (has_lane(program, i))
				take_from(program, i, program->lane[i].fd[family]);
	}
}

static void report_probes(struct program *program)
{
	for (unsigned i = 0; i < program->probes && program->served && program->fd >= 0; i++) {
		struct vb_daemon_message message;

		vb_daemon_message_begin(&message, VB_DAEMON_PROBE_SEEN, 0);
		message.probe_seen = program->probe[i];
		say(program, &message, NULL, 0);
	}
	if (program->served)
		program->probes = 0;
}

static void run_program(struct program *program)
{
	if (!program->alive || seam.now < program->asleep_until)
		return;
	if (program->fd < 0 && seam.now >= program->next_try)
		greet(program);
	listen_to_daemon(program);
	take_packets(program);
	report_probes(program);
}

static void start_program(struct program *program)
{
	drop_sockets(program);
	program->alive = true;
}

/* All at once, or its sockets later than its connection, for as long as its end takes. */
static void kill_program(struct program *program)
{
	world.calm = false;
	if (program->fd >= 0)
		close(program->fd);
	program->fd = -1;
	program->alive = program->served = false;
	if (below(2) == 0)
		drop_sockets(program);
}

/* ---- the daemon ---- */

static void start_daemon(void)
{
	const struct vb_server_config config = {.idle = VB_SECONDS(100000)};
	int listener = vb_unix_listen(NAME);

	CHECK(listener >= 0);
	CHECK(vb_server_create(&world.server, (int[]){listener, -1}, &config) == 0);
}

/* What its kernel would do: all its descriptors are closed. */
static void kill_daemon(void)
{
	vb_server_destroy(world.server);
	world.server = NULL;
}

static void turn(void)
{
	if (world.server)
		CHECK(!vb_server_turn(world.server, seam.now));
}

/* ---- packets ---- */

static void send_to(uint32_t qpn, bool ipv6, uint8_t *bytes, size_t length)
{
	struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(PORT), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(PORT), .sin6_addr = IN6ADDR_LOOPBACK_INIT};

	bytes[5] = (uint8_t)(qpn >> 16);
	bytes[6] = (uint8_t)(qpn >> 8);
	bytes[7] = (uint8_t)qpn;
	CHECK(sendto(world.sender[ipv6], bytes, length, 0, ipv6 ? (void *)&six : (void *)&four, ipv6 ? sizeof(six) : sizeof(four)) >= 0);
}

/* It may be in the sockets of a lane that the daemon has sent. */
static bool has_come(struct program *program, uint64_t number)
{
	listen_to_daemon(program);
	take_packets(program);
	return program->last_packet == number;
}

static void packet_reaches(struct program *program, unsigned lane, bool ipv6)
{
	uint8_t packet[PACKET] = {[0] = 4};

	world.packets++;
	memcpy(packet + 16, &world.packets, sizeof(world.packets));
	send_to(program->slot << VB_DAEMON_INDEX_BITS | 8 | lane, ipv6, packet, sizeof(packet));
	CHECK(eventually(has_come(program, world.packets)));
}

static void packets_reach_their_lanes(struct program *program)
{
	for (unsigned lane = 0; lane < VB_DAEMON_LANES; lane++) {
		CHECK(program->lane[lane].asked == 0);
		for (unsigned ipv6 = 0; ipv6 < 2; ipv6++) {
			packet_reaches(program, lane, ipv6);
			CHECK(program->last_lane == (has_lane(program, lane) ? lane : 0));
		}
	}
}

static bool daemon_has_answered(uint64_t nonce, bool ipv6)
{
	uint8_t bytes[VB_INQUIRY_LENGTH];
	struct vb_inquiry_answer answer;

	turn();
	return recv(world.sender[ipv6], bytes, sizeof(bytes), MSG_DONTWAIT) == (ssize_t)sizeof(bytes) &&
	       vb_inquiry_answer_decode(&answer, bytes, sizeof(bytes)) && answer.nonce == nonce && answer.status == VB_INQUIRY_DAEMON;
}

static void daemon_is_reached(bool ipv6)
{
	struct vb_inquiry inquiry = {.qpn = 1, .nonce = ++world.packets};
	uint8_t bytes[VB_INQUIRY_LENGTH];

	vb_inquiry_encode(&inquiry, bytes);
	send_to(1, ipv6, bytes, sizeof(bytes));
	CHECK(eventually(daemon_has_answered(inquiry.nonce, ipv6)));
}

/* ---- the world ---- */

static void pass(vb_time time)
{
	seam.now += time;
	turn();
	for (unsigned i = 0; i < PROGRAMS; i++)
		run_program(&world.program[i]);
	turn();
}

static bool all_are_served(void)
{
	for (unsigned i = 0; i < PROGRAMS; i++)
		if (world.program[i].alive && !world.program[i].served)
			return false;
	return true;
}

static void settle(void)
{
	if (!world.server)
		start_daemon();
	for (unsigned i = 0; i < PROGRAMS; i++) {
		world.program[i].asleep_until = 0;
		if (!world.program[i].alive)
			start_program(&world.program[i]);
	}
	/* Three times the patience for who does not come, in steps in which nobody is late. */
	for (unsigned i = 0; i < 400; i++)
		pass(VB_MILLISECONDS(20));
	CHECK(all_are_served());
	for (unsigned i = 0; i < PROGRAMS; i++) {
		for (unsigned other = 0; other < i; other++)
			CHECK(world.program[i].slot != world.program[other].slot);
		packets_reach_their_lanes(&world.program[i]);
	}
	pass(VB_SECONDS(1));
	daemon_is_reached(false);
	daemon_is_reached(true);
	world.calm = true;
}

static void step(void)
{
	struct program *program = &world.program[below(PROGRAMS)];

	seam.now += VB_MICROSECONDS(below(2000));
	switch (below(100)) {
	case 0:
	case 1:
		if (program->alive)
			kill_program(program);
		break;
	case 2:
		if (!program->alive)
			start_program(program);
		break;
	case 3:
	case 4:
		if (world.server)
			kill_daemon();
		break;
	case 5:
	case 6:
	case 7:
		if (!world.server)
			start_daemon();
		break;
	case 8:
		world.calm = false;
		program->asleep_until = seam.now + VB_MILLISECONDS(below(5000));
		break;
	case 9:
		if (!program->alive)
			drop_sockets(program);
		break;
	case 10:
		if (!world.calm)
			seam.now += VB_MILLISECONDS(below(3000));
		break;
	case 11:
		if (below(4) == 0)
			settle();
		break;
	case 12:
	case 13:
	case 14:
		if (world.calm && program->alive && program->slot != 0)
			packet_reaches(program, below(VB_DAEMON_LANES), below(2) == 0);
		break;
	case 15:
	case 16:
		if (program->alive)
			ask_for_lane(program, VB_DAEMON_OPEN_LANE, 1 + below(VB_DAEMON_LANES - 1));
		break;
	case 17:
		if (program->alive)
			ask_for_lane(program, VB_DAEMON_CLOSE_LANE, 1 + below(VB_DAEMON_LANES - 1));
		break;
	default:
		if (below(2) == 0)
			turn();
		else
			run_program(program);
		break;
	}
}

static void begin(void)
{
	static bool is_private;
	struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	if (!is_private)
		private_network_enter();
	is_private = true;
	memset(&world, 0, sizeof(world));
	world.random = world_seed * UINT64_C(0x9e3779b97f4a7c15);
	seam = (struct seam){.now = VB_SECONDS(1000), .draw = below};
	for (unsigned i = 0; i < PROGRAMS; i++)
		have_nothing(&world.program[i]);
	world.sender[0] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	world.sender[1] = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	CHECK(bind(world.sender[0], (struct sockaddr *)&four, sizeof(four)) == 0);
	CHECK(bind(world.sender[1], (struct sockaddr *)&six, sizeof(six)) == 0);
}

uint64_t world_daemon_play(void)
{
	unsigned before;

	begin();
	before = count_descriptors();
	settle();
	for (unsigned i = 0; i < STEPS * world_length; i++)
		step();
	settle();
	for (unsigned i = 0; i < PROGRAMS; i++) {
		kill_program(&world.program[i]);
		drop_sockets(&world.program[i]);
	}
	pass(VB_SECONDS(1));
	kill_daemon();
	CHECK(count_descriptors() == before);
	close(world.sender[0]);
	close(world.sender[1]);
	return world.packets;
}
