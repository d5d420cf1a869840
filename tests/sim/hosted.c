/* SPDX-License-Identifier: MIT
 *
 * Whatever verbenad is given is worked off at once, as far as it goes without time passing, and what it says is read at once:
 * processes look at it when they run (program.c). How many packets there were before a turn of its loop is so a matter of the seed alone.
 */
#include "sim/hosted.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/server.h"
#include "daemon/slot_claim.h"
#include "io/udp.h"
#include "io/unix_socket.h"
#include "lib/patience.h"
#include "lib/private_network.h"
#include "sim/machine.h"
#include "sim/network.h"
#include "sim/seams.h"
#include "sim/steered.h"
#include "sim/world.h"
#include "wire/daemon_message.h"

#define NAME "verbena/world"

/* So long verbenad stays without a client. */
#define IDLE VB_SECONDS(1000000)

/* Which descriptor of a slot is which: the bits of VB_DAEMON_FD_ALL. Behind them are those of its lanes. */
enum { FOUR, SIX, PAGE, FIRST_OWN, CLAIM = 5, FIRST_LANE, DESCRIPTORS = FIRST_LANE + 2 * (VB_DAEMON_LANES - 1) };
enum { MOST_PLACES = 8, KEPT_PROBES = 4096, MOST_TURNS = 10000, FEW_SLOTS = 8, CHECK_PACKET = 24, HOP_LIMIT = 64, LONGEST = 5000 };

/* A network for a machine of any world. */
struct place {
	int space, raw[2];
	int marker;                      /* sends to itself */
	int claim[VB_DAEMON_SLOTS];      /* of slots that verbenad is to leave alone if it can; 0: none */
};

struct link {
	struct vb_list node;
	const struct vb_connect_owner *owner;
	int fd;                          /* to the daemon; -1: none */
	int kept[DESCRIPTORS];           /* -1: none */
	bool served;                     /* this daemon knows its slot */
	uint32_t slot, sequence;
	uint32_t lane_sequence[VB_DAEMON_LANES]; /* of the question about it that is not answered; 0: none */
	struct vb_daemon_probe_seen probe[KEPT_PROBES]; /* more than libibverbs keeps */
	unsigned probes;
	uint64_t last_checked;
	struct vb_cm_reply *reply;       /* that is awaited; NULL: it has come, or none is */
};

struct hosted {
	struct machine *machine;
	const struct place *place;
	struct vb_server *server;        /* NULL: it is dead */
	struct vb_list links;
	struct vb_udp_batch *batch;
	vb_time armed, still_until;
};

/* Sockets that are open still while their process ends. */
struct remains {
	struct hosted *hosted;
	int kept[DESCRIPTORS];
};

static struct place place[MOST_PLACES];
static const struct place *present;
static struct sim *in_use;
static uint64_t random_state;            /* of verbenad's own numbers */

static void work(struct hosted *hosted);

/* ---- networks ---- */

static void enter(const struct place *wanted)
{
	if (present == wanted)
		return;
	CHECK(setns(wanted->space, CLONE_NEWNET) == 0);
	steered_enter((unsigned)(wanted - place));
	present = wanted;
}

/* A socket of the port may go with it. */
static void shut(int fd)
{
	close(fd);
	steered_changed();
}

/* struct in6_ifreq, whose header does not go with those of the C library. */
struct address_request {
	struct in6_addr address;
	uint32_t prefix;
	int interface_index;
};

static void add_addresses(unsigned number)
{
	struct address_request request = {
		.address = {.s6_addr = {[0] = 0xfd, [15] = (uint8_t)number}}, .prefix = 128, .interface_index = (int)if_nametoindex("lo")};
	struct sockaddr_in6 six = {.sin6_family = AF_INET6};
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	char four[16];

	snprintf(four, sizeof(four), "10.0.0.%u", number);
	CHECK(private_network_add_address("lo", four, 32) == 0);
	CHECK(ioctl(fd, SIOCSIFADDR, &request) == 0);
	/* It is tentative for a moment, even here. */
	six.sin6_addr = request.address;
	CHECK(eventually(bind(fd, (struct sockaddr *)&six, sizeof(six)) == 0));
	close(fd);
}

static int open_marker(void)
{
	struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(own);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	CHECK(bind(fd, (struct sockaddr *)&own, sizeof(own)) == 0 && getsockname(fd, (struct sockaddr *)&own, &length) == 0);
	CHECK(connect(fd, (struct sockaddr *)&own, sizeof(own)) == 0);
	return fd;
}

void hosted_enter(unsigned machines)
{
	struct rlimit most;

	private_network_enter();
	CHECK(getrlimit(RLIMIT_NOFILE, &most) == 0);
	most.rlim_cur = most.rlim_max;
	CHECK(setrlimit(RLIMIT_NOFILE, &most) == 0);
	CHECK(machines <= MOST_PLACES);
	for (unsigned i = 0; i < machines; i++) {
		CHECK(unshare(CLONE_NEWNET) == 0 && private_network_set_up("lo", 1) == 0);
		add_addresses(i + 1);
		place[i].space = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
		place[i].raw[0] = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW);
		place[i].raw[1] = socket(AF_INET6, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW);
		CHECK(place[i].space >= 0 && place[i].raw[0] >= 0 && place[i].raw[1] >= 0);
		place[i].marker = open_marker();
	}
}

static void narrow(struct place *where, bool is_narrow)
{
	if (is_narrow == (where->claim[1] != 0))
		return;
	enter(where);
	for (unsigned slot = 1; slot < VB_DAEMON_SLOTS - FEW_SLOTS; slot++) {
		if (!is_narrow) {
			close(where->claim[slot]);
			where->claim[slot] = 0;
			continue;
		}
		where->claim[slot] = vb_slot_claim_open();
		CHECK(where->claim[slot] > 0 && vb_slot_claim_take(where->claim[slot], slot) == 0);
	}
}

void hosted_narrow(bool is_narrow)
{
	for (unsigned i = 0; i < MOST_PLACES && place[i].space > 0; i++)
		narrow(&place[i], is_narrow);
}

/* ---- to the kernel ---- */

static uint32_t sum(uint32_t before, const void *bytes, size_t length)
{
	const uint8_t *byte = bytes;

	for (size_t i = 0; i < length; i++)
		before += i % 2 ? byte[i] : (uint32_t)byte[i] << 8;
	return before;
}

/* Of damaged packets, too: the ICRC is to find it. */
static uint16_t udp_checksum(const struct vb_path *path, const uint8_t *udp, size_t length)
{
	size_t skipped = vb_path_is_ipv4(path) ? 12 : 0;
	uint32_t total = sum(IPPROTO_UDP + (uint32_t)length, path->source + skipped, 16 - skipped);

	total = sum(sum(total, path->destination + skipped, 16 - skipped), udp, length);
	while (total >> 16)
		total = (total & 0xffff) + (total >> 16);
	return total == 0xffff ? 0xffff : (uint16_t)~total;
}

/* The headers before the datagram. Returns their length. */
static size_t begin_ipv4(uint8_t *out, const struct vb_path *path, size_t length, struct sockaddr_storage *to)
{
	struct ip header = {.ip_hl = 5, .ip_v = 4, .ip_tos = path->traffic_class, .ip_len = htons((uint16_t)(sizeof(header) + length)),
			    .ip_off = htons(IP_DF), .ip_ttl = HOP_LIMIT, .ip_p = IPPROTO_UDP};
	struct sockaddr_in address = {.sin_family = AF_INET};

	memcpy(&header.ip_src, path->source + 12, 4);
	memcpy(&header.ip_dst, path->destination + 12, 4);
	address.sin_addr = header.ip_dst;
	memcpy(to, &address, sizeof(address));
	memcpy(out, &header, sizeof(header));
	return sizeof(header);
}

static size_t begin_ipv6(uint8_t *out, const struct vb_path *path, size_t length, struct sockaddr_storage *to)
{
	struct ip6_hdr header = {.ip6_flow = htonl(6u << 28 | (uint32_t)path->traffic_class << 20), .ip6_plen = htons((uint16_t)length),
				 .ip6_nxt = IPPROTO_UDP, .ip6_hlim = HOP_LIMIT};
	struct sockaddr_in6 address = {.sin6_family = AF_INET6};

	memcpy(&header.ip6_src, path->source, 16);
	memcpy(&header.ip6_dst, path->destination, 16);
	address.sin6_addr = header.ip6_dst;
	memcpy(to, &address, sizeof(address));
	memcpy(out, &header, sizeof(header));
	return sizeof(header);
}

static void inject(const struct hosted *hosted, const struct vb_path *path, const uint8_t *bytes, size_t length)
{
	bool ipv6 = !vb_path_is_ipv4(path);
	struct udphdr udp = {
		.source = htons(path->source_port), .dest = htons(VB_ROCE_PORT), .len = htons((uint16_t)(sizeof(udp) + length))};
	struct sockaddr_storage to = {0};
	uint8_t packet[LONGEST];
	size_t before = ipv6 ? begin_ipv6(packet, path, sizeof(udp) + length, &to) : begin_ipv4(packet, path, sizeof(udp) + length, &to);
	size_t all = before + sizeof(udp) + length;

	CHECK(all <= sizeof(packet));
	enter(hosted->place);
	if (steered_is_stray(ipv6, bytes, length))
		return;
	memcpy(packet + before, &udp, sizeof(udp));
	memcpy(packet + before + sizeof(udp), bytes, length);
	udp.check = htons(udp_checksum(path, packet + before, sizeof(udp) + length));
	memcpy(packet + before, &udp, sizeof(udp));
	CHECK(sendto(hosted->place->raw[ipv6], packet, all, 0, (struct sockaddr *)&to,
		     ipv6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in)) == (ssize_t)all);
}

/* What was sent over this loopback before is where it belongs: the kernel may take a moment. */
static void await_arrival(const struct place *where)
{
	struct pollfd set = {.fd = where->marker, .events = POLLIN};
	char byte = 0;

	CHECK(send(set.fd, &byte, 1, 0) == 1);
	CHECK(poll(&set, 1, PATIENCE_MS) == 1 && recv(set.fd, &byte, 1, 0) == 1);
}

static void await_own(void)
{
	await_arrival(present);
}

static void carry(void *context, const struct sim_packet *packet)
{
	struct hosted *hosted = context;

	if (packet) {
		inject(hosted, &packet->path, packet->bytes, packet->length);
		return;
	}
	await_arrival(hosted->place);
	work(hosted);
}

/* ---- from verbenad ---- */

static void send_datagram(const struct vb_path *path, const uint8_t *bytes, size_t length)
{
	CHECK(in_use && sim_host_at(in_use, path->source));
	sim_send_bytes(in_use, path, bytes, length);
}

static uint32_t draw(uint32_t bound)
{
	random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(random_state >> 33) % bound;
}

void hosted_use(struct sim *sim)
{
	in_use = sim;
	steered_use(sim != NULL);
	seam = (struct seam){.now = sim ? sim->now : 0, .draw = draw, .send = send_datagram, .arrive = await_own, .is_patient = true};
	if (!sim)
		return;
	random_state = world_seed * UINT64_C(0x9e3779b97f4a7c15);
	sim->lone_datagrams = true;
	sim->own_bits = VB_DAEMON_INDICES - 1;
}

/* ---- what processes say ---- */

static struct link *find_link(const struct hosted *hosted, const struct vb_connect_owner *owner)
{
	VB_LIST_FOR_EACH(node, &hosted->links) {
		struct link *link = vb_container_of(node, struct link, node);

		if (link->owner == owner)
			return link;
	}
	return NULL;
}

static void hang_up(struct link *link)
{
	if (link->fd >= 0)
		shut(link->fd); /* with sockets that it was sent and did not take */
	link->fd = -1;
	link->served = false;
	link->reply = NULL;
	memset(link->lane_sequence, 0, sizeof(link->lane_sequence));
}

static void say(struct link *link, struct vb_daemon_message *message, const int *fds, unsigned count)
{
	message->header.sequence = ++link->sequence;
	CHECK(vb_unix_send(link->fd, message, message->header.length, fds, count, false) == 0);
}

/* As it is welcome: for a slot, or with the one it has. */
static void introduce(struct link *link)
{
	struct vb_daemon_message message;
	int fds[DESCRIPTORS];
	unsigned count = 0;

	vb_daemon_message_begin(&message, link->slot == 0 ? VB_DAEMON_OPEN_SLOT : VB_DAEMON_ADOPT_SLOT, 0);
	if (link->slot != 0)
		message.slot.slot = link->slot;
	for (unsigned i = 0; link->slot != 0 && i < CLAIM; i++) {
		if (link->kept[i] < 0)
			continue;
		message.slot.descriptors |= 1u << i;
		fds[count++] = link->kept[i];
	}
	say(link, &message, fds, count);
}

/* ---- lanes ---- */

/* Its sockets: IPv4, IPv6. Lane 0: the slot's own. */
static int *lane_of(struct link *link, unsigned lane)
{
	return &link->kept[lane == 0 ? FOUR : FIRST_LANE + 2 * (lane - 1)];
}

/* Who has just come wants some, and those that it had are shown to the daemon that came. */
static void ask_for_lanes(struct link *link, bool is_new)
{
	for (unsigned lane = 1; lane < VB_DAEMON_LANES; lane++) {
		struct vb_daemon_message message;

		if (is_new ? sim_below(in_use, 4) != 0 : *lane_of(link, lane) < 0)
			continue;
		vb_daemon_message_begin(&message, is_new ? VB_DAEMON_OPEN_LANE : VB_DAEMON_ADOPT_LANE, 0);
		message.lane.slot = link->slot;
		message.lane.lane = lane;
		message.lane.descriptors = is_new ? 0 : VB_DAEMON_FD_IPV4 | VB_DAEMON_FD_IPV6;
		say(link, &message, lane_of(link, lane), is_new ? 0 : 2);
		link->lane_sequence[lane] = link->sequence;
	}
}

static void take_lane(struct link *link, const struct vb_daemon_message *message, const int *fds)
{
	int *kept = lane_of(link, message->lane.lane);

	CHECK(link->lane_sequence[message->lane.lane] == message->header.sequence && message->lane.slot == link->slot);
	link->lane_sequence[message->lane.lane] = 0;
	CHECK((message->lane.descriptors != 0) == (*kept < 0));
	for (unsigned family = 0; message->lane.descriptors != 0 && family < 2; family++)
		kept[family] = fcntl(fds[family], F_DUPFD_CLOEXEC, 3);
}

/* Only one that it does not have yet, while verbenad takes sockets over. False: it was about something else. */
static bool is_lane_refused(struct link *link, const struct vb_daemon_message *message)
{
	for (unsigned lane = 1; lane < VB_DAEMON_LANES; lane++) {
		if (link->lane_sequence[lane] == 0 || link->lane_sequence[lane] != message->header.sequence)
			continue;
		CHECK(message->error.error == EAGAIN && *lane_of(link, lane) < 0);
		link->lane_sequence[lane] = 0;
		return true;
	}
	return false;
}

/* ---- slots ---- */

static void take_slot(struct link *link, const struct vb_daemon_slot *slot, const int *fds)
{
	bool is_new = link->slot == 0;
	unsigned next = 0;

	CHECK(link->slot == 0 || link->slot == slot->slot);
	for (unsigned i = 0; i < DESCRIPTORS; i++) {
		if (!(slot->descriptors & 1u << i))
			continue;
		if (is_new || i >= FIRST_OWN) {
			if (link->kept[i] >= 0)
				shut(link->kept[i]);
			link->kept[i] = fcntl(fds[next], F_DUPFD_CLOEXEC, 3);
		}
		next++;
	}
	link->slot = slot->slot;
	link->served = true;
	CHECK(link->kept[FOUR] >= 0 && link->kept[SIX] >= 0 && link->kept[CLAIM] >= 0);
	ask_for_lanes(link, is_new);
}

static void take_reply(struct link *link, const struct vb_cm_reply *reply)
{
	CHECK(link->reply);
	*link->reply = *reply;
	link->reply = NULL;
}

static void take_message(struct hosted *hosted, struct link *link, const struct vb_daemon_message *message, const int *fds)
{
	switch (message->header.type) {
	case VB_DAEMON_WELCOME:
		introduce(link);
		break;
	case VB_DAEMON_SLOT:
		take_slot(link, &message->slot, fds);
		break;
	case VB_DAEMON_LANE:
		take_lane(link, message, fds);
		break;
	case VB_CM_REPLY:
		take_reply(link, (const void *)message);
		break;
	case VB_CM_EVENT:
		hosted->machine->tell((struct vb_connect_owner *)(uintptr_t)link->owner, (const void *)message);
		break;
	default:
		CHECK(message->header.type == VB_DAEMON_ERROR);
		if (is_lane_refused(link, message))
			break;
		/* The slot cannot be had now: it asks again. */
		CHECK(!link->served);
		hang_up(link);
		break;
	}
}

/* Everything that verbenad has told it. Returns whether there was anything. */
static bool listen_to_daemon(struct hosted *hosted, struct link *link)
{
	bool heard = false;

	while (link->fd >= 0) {
		_Alignas(8) uint8_t room[VB_DAEMON_MAX_MESSAGE];
		const struct vb_daemon_message *message = (const void *)room;
		int fds[VB_DAEMON_MAX_FDS];
		unsigned count = 0;
		ssize_t length = vb_unix_receive(link->fd, room, sizeof(room), fds, VB_DAEMON_MAX_FDS, &count, 0);

		if (length == -EAGAIN)
			break;
		/* It hangs up on nobody whom it serves. */
		CHECK(length > 0 || !link->served);
		if (length <= 0) {
			hang_up(link);
			break;
		}
		heard = true;
		if (message->header.type < VB_DAEMON_CM_TYPES)
			CHECK(vb_daemon_message_check(message, (size_t)length, count, VB_DAEMON_FROM_DAEMON) == 0);
		take_message(hosted, link, message, fds);
		for (unsigned i = 0; i < count; i++)
			shut(fds[i]);
	}
	return heard;
}

/* As many as verbenad takes now: the others when it has taken these. */
static bool report_probes(struct link *link)
{
	unsigned told = 0;

	for (; link->served && told < link->probes; told++) {
		struct vb_daemon_message message;
		int error;

		vb_daemon_message_begin(&message, VB_DAEMON_PROBE_SEEN, ++link->sequence);
		message.probe_seen = link->probe[told];
		error = vb_unix_send(link->fd, &message, message.header.length, NULL, 0, false);
		CHECK(error == 0 || error == -EAGAIN);
		if (error != 0)
			break;
	}
	link->probes -= told;
	memmove(link->probe, link->probe + told, link->probes * sizeof(link->probe[0]));
	return told > 0;
}

/* ---- packets ---- */

/* For another slot: the kernel hands what it cannot place to any socket. */
static bool is_for(const struct link *link, const uint8_t *bytes, size_t length)
{
	uint32_t qpn;

	if (length <= VB_BTH_LENGTH)
		return false;
	qpn = (uint32_t)bytes[5] << 16 | (uint32_t)bytes[6] << 8 | bytes[7];
	return qpn >> VB_DAEMON_INDEX_BITS == link->slot;
}

static void take_datagram(struct hosted *hosted, struct link *link, unsigned lane, const struct vb_path *from, const uint8_t *bytes,
			  size_t length)
{
	struct vb_daemon_probe probe;

	if (length == sizeof(probe)) {
		memcpy(&probe, bytes, sizeof(probe));
		if (be32_get(probe.magic) == VB_DAEMON_PROBE_MAGIC && link->probes < KEPT_PROBES)
			link->probe[link->probes++] = (struct vb_daemon_probe_seen){.nonce = be64_get(probe.nonce), .lane = lane};
	} else if (length == CHECK_PACKET && is_for(link, bytes, length)) {
		memcpy(&link->last_checked, bytes + 16, sizeof(link->last_checked));
		sim_host_take(hosted->machine->host, from, bytes, length);
	} else if (is_for(link, bytes, length)) {
		sim_host_take(hosted->machine->host, from, bytes, length);
	}
}

static bool take_from(struct hosted *hosted, struct link *link, unsigned lane, bool ipv6)
{
	int fd = lane_of(link, lane)[ipv6], count;
	bool taken = false;

	while (fd >= 0 && (count = vb_udp_batch_receive(hosted->batch, fd, ipv6)) > 0) {
		taken = true;
		for (int i = 0; i < count; i++) {
			const struct vb_udp_bundle *bundle = vb_udp_batch_at(hosted->batch, (unsigned)i);

			for (size_t at = 0; at < bundle->length; at += bundle->segment) {
				size_t rest = bundle->length - at;

				take_datagram(hosted, link, lane, &bundle->from, bundle->bytes + at,
					      rest < bundle->segment ? rest : bundle->segment);
			}
		}
	}
	return taken;
}

static bool take_packets(struct hosted *hosted, struct link *link)
{
	bool taken = false;

	for (unsigned lane = 0; lane < VB_DAEMON_LANES; lane++) {
		taken |= take_from(hosted, link, lane, false);
		taken |= take_from(hosted, link, lane, true);
	}
	return taken;
}

/* ---- at work ---- */

/* Returns whether it had anything to do. */
static bool turn(struct hosted *hosted)
{
	if (!hosted->server || in_use->now < hosted->still_until)
		return false;
	enter(hosted->place);
	seam.now = in_use->now;
	CHECK(!vb_server_turn(hosted->server, VB_TIME_NEVER));
	seam.now = in_use->now; /* what it waited for probes has taken no time */
	return seam.ready > 0 || seam.deadline <= seam.now;
}

static bool run_processes(struct hosted *hosted)
{
	bool busy = false;

	VB_LIST_FOR_EACH(node, &hosted->links) {
		struct link *link = vb_container_of(node, struct link, node);

		busy |= listen_to_daemon(hosted, link);
		busy |= take_packets(hosted, link);
		busy |= report_probes(link);
	}
	sim_host_serve(hosted->machine->host);
	return busy;
}

static void fire(struct sim *sim, void *object, vb_time when)
{
	struct hosted *hosted = object;

	(void)sim;
	if (hosted->armed != when)
		return; /* it was armed for an earlier time since */
	hosted->armed = VB_TIME_NEVER;
	work(hosted);
}

static void arm(struct hosted *hosted, vb_time when)
{
	if (when >= hosted->armed)
		return;
	hosted->armed = when;
	sim_events_plan(&in_use->events, when, fire, hosted);
}

/* Until there is nothing more to do now. A loop that does not come to rest is a fault, too. */
static void work(struct hosted *hosted)
{
	unsigned turns = 0;
	bool busy;

	do {
		busy = turn(hosted);
		if (busy || turns == 0)
			busy |= run_processes(hosted);
		CHECK(turns++ < MOST_TURNS);
	} while (busy);
	if (hosted->server)
		arm(hosted, in_use->now < hosted->still_until ? hosted->still_until : seam.deadline);
}

static struct link *send_command(struct hosted *hosted, const struct vb_connect_owner *owner, const struct vb_cm_command *command)
{
	struct link *link = find_link(hosted, owner);

	CHECK(link && link->served && !link->reply);
	CHECK(vb_unix_send(link->fd, command, sizeof(*command), NULL, 0, false) == 0);
	return link;
}

/* What it told the others before is theirs. */
void hosted_command_unanswered(struct machine *machine, struct vb_connect_owner *owner, const struct vb_cm_command *command)
{
	struct hosted *hosted = machine->hosted;
	const struct link *asking = send_command(hosted, owner, command);

	if (sim_below(in_use, 2) == 0)
		(void)turn(hosted);
	VB_LIST_FOR_EACH(node, &hosted->links) {
		struct link *link = vb_container_of(node, struct link, node);

		if (link != asking)
			(void)listen_to_daemon(hosted, link);
	}
}

void hosted_command(struct machine *machine, struct vb_connect_owner *owner, const struct vb_cm_command *command,
		    struct vb_cm_reply *reply)
{
	struct hosted *hosted = machine->hosted;
	struct link *link = send_command(hosted, owner, command);
	unsigned turns = 0;

	link->reply = reply;
	while (link->reply) {
		CHECK(turns++ < MOST_TURNS);
		(void)turn(hosted);
		(void)run_processes(hosted);
	}
	/* What follows from it is done later; the process may be dead by then, or verbenad. */
	arm(hosted, in_use->now);
}

bool hosted_link(struct machine *machine, struct vb_connect_owner *owner)
{
	struct hosted *hosted = machine->hosted;
	struct link *link = find_link(hosted, owner);
	struct vb_daemon_message message;

	if (!link) {
		link = calloc(1, sizeof(*link));
		CHECK(link);
		link->owner = owner;
		link->fd = -1;
		for (unsigned i = 0; i < DESCRIPTORS; i++)
			link->kept[i] = -1;
		vb_list_append(&hosted->links, &link->node);
	}
	if (link->fd < 0) {
		enter(hosted->place);
		link->fd = vb_unix_connect(NAME);
		CHECK(link->fd >= 0 && fcntl(link->fd, F_SETFL, O_NONBLOCK) == 0);
		vb_daemon_message_begin(&message, VB_DAEMON_HELLO, 0);
		memcpy(message.hello.program, "world", 6);
		say(link, &message, NULL, 0);
		work(hosted);
	}
	return link->served;
}

uint32_t hosted_slot(const struct machine *machine, const struct vb_connect_owner *owner)
{
	const struct link *link = find_link(machine->hosted, owner);

	CHECK(link && link->slot != 0);
	return link->slot;
}

unsigned hosted_lanes(const struct machine *machine)
{
	unsigned lanes = 0;

	VB_LIST_FOR_EACH(node, &machine->hosted->links)
		for (unsigned lane = 1; lane < VB_DAEMON_LANES; lane++)
			lanes += *lane_of(vb_container_of(node, struct link, node), lane) >= 0;
	return lanes;
}

static void close_remains(struct sim *sim, void *object, vb_time when)
{
	struct remains *remains = object;

	(void)sim;
	(void)when;
	for (unsigned i = 0; i < DESCRIPTORS; i++)
		if (remains->kept[i] >= 0)
			shut(remains->kept[i]);
	work(remains->hosted);
	free(remains);
}

/* Its sockets at once, or later than its connection, for as long as its end takes. */
void hosted_process_ended(struct machine *machine, const struct vb_connect_owner *owner)
{
	struct hosted *hosted = machine->hosted;
	struct link *link = find_link(hosted, owner);
	struct remains *remains;

	if (!link)
		return;
	remains = malloc(sizeof(*remains));
	CHECK(remains);
	remains->hosted = hosted;
	memcpy(remains->kept, link->kept, sizeof(remains->kept));
	hang_up(link);
	vb_list_remove(&link->node);
	free(link);
	if (sim_below(in_use, 2) == 0)
		close_remains(in_use, remains, 0);
	else
		sim_events_plan(&in_use->events, in_use->now + VB_MICROSECONDS(sim_below(in_use, 100000)), close_remains, remains);
}

/* ---- life and death ---- */

void hosted_start_daemon(struct machine *machine)
{
	const struct vb_server_config config = {.idle = IDLE};
	struct hosted *hosted = machine->hosted;
	int listener;

	enter(hosted->place);
	seam.now = in_use->now;
	listener = vb_unix_listen(NAME);
	CHECK(listener >= 0);
	CHECK(vb_server_create(&hosted->server, (int[]){listener, -1}, &config) == 0);
	work(hosted);
}

/* What its kernel would do: all its descriptors are closed. */
void hosted_kill_daemon(struct machine *machine)
{
	struct hosted *hosted = machine->hosted;

	vb_server_destroy(hosted->server);
	hosted->server = NULL;
	hosted->still_until = 0;
	VB_LIST_FOR_EACH(node, &hosted->links)
		hang_up(vb_container_of(node, struct link, node));
}

void hosted_stand_still(struct machine *machine, vb_time until)
{
	machine->hosted->still_until = until;
	work(machine->hosted);
}

bool hosted_is_still(const struct machine *machine)
{
	return in_use->now < machine->hosted->still_until;
}

bool hosted_has_daemon(const struct machine *machine)
{
	return machine->hosted->server;
}

void hosted_open(struct machine *machine)
{
	struct hosted *hosted = calloc(1, sizeof(*hosted));

	CHECK(hosted && machine->host->index < MOST_PLACES && place[machine->host->index].space > 0);
	hosted->machine = machine;
	hosted->place = &place[machine->host->index];
	hosted->armed = VB_TIME_NEVER;
	hosted->batch = vb_udp_batch_create();
	CHECK(hosted->batch);
	vb_list_init(&hosted->links);
	machine->hosted = hosted;
	machine->host->carry = carry;
	machine->host->carry_context = hosted;
}

void hosted_close(struct machine *machine)
{
	if (machine->hosted->server)
		hosted_kill_daemon(machine);
	CHECK(vb_list_is_empty(&machine->hosted->links));
	vb_udp_batch_destroy(machine->hosted->batch);
	free(machine->hosted);
	machine->hosted = NULL;
}

/* ---- judging ---- */

static void packet_reaches(struct hosted *hosted, struct link *link, unsigned lane)
{
	static uint64_t number;
	struct vb_path path = {.source_port = 0xc000};
	uint8_t packet[CHECK_PACKET] = {[0] = 4};

	memcpy(path.source, hosted->machine->host->address, 16);
	memcpy(path.destination, hosted->machine->host->address, 16);
	packet[5] = (uint8_t)(link->slot >> 2);
	packet[6] = (uint8_t)(link->slot << 6);
	packet[7] = (uint8_t)lane;
	number++;
	memcpy(packet + 16, &number, sizeof(number));
	inject(hosted, &path, packet, sizeof(packet));
	await_arrival(hosted->place);
	work(hosted);
	CHECK(link->last_checked == number);
}

void hosted_check(struct machine *machine)
{
	VB_LIST_FOR_EACH(node, &machine->hosted->links) {
		struct link *link = vb_container_of(node, struct link, node);

		CHECK(link->served);
		VB_LIST_FOR_EACH(other, &machine->hosted->links)
			CHECK(node == other || vb_container_of(other, struct link, node)->slot != link->slot);
		for (unsigned lane = 0; lane < VB_DAEMON_LANES; lane++)
			packet_reaches(machine->hosted, link, lane);
	}
}

/* The port is closed when no id and no slot is left (daemon/server.c), and nothing else has a deadline. */
void hosted_check_empty(struct machine *machine)
{
	CHECK(vb_list_is_empty(&machine->hosted->links));
	work(machine->hosted);
	enter(machine->hosted->place);
	CHECK(vb_udp_port_is_unused(false, VB_ROCE_PORT) && vb_udp_port_is_unused(true, VB_ROCE_PORT));
	CHECK(seam.deadline >= in_use->now + IDLE - VB_SECONDS(1000));
}
