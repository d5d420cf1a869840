/* SPDX-License-Identifier: MIT
 *
 * Cables of memory at the process with the switches: who may plug one in, that frames come and go by it, and what is left when a process
 * ends, is silent or writes nonsense.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/fabric_cables.h"
#include "fabric/hosts.h"
#include "io/descriptor.h"
#include "io/event.h"
#include "io/frame_ring.h"
#include "io/memory_cable.h"
#include "io/unix_socket.h"
#include "one_switch.h"
#include "wire/daemon_message.h"

enum { HOSTS = 2, DAEMON_PORT = 5000, PROCESS_PORT = 6000, SLOT = 7, SLOT_KEY = 0x5107, PACKET = 12 + 8 + 4, MAX_TAGS = 8 };

static const uint16_t lid[HOSTS] = {11, 12};

/* A process of a host, as far as its cable goes. */
struct process {
	int line;
	struct vb_frame_ring_segment *segment;
	struct vb_frame_ring_writer writer;
	struct vb_frame_ring_reader reader;
};

static struct vb_fabric fabric;
static struct vb_fabric_hosts hosts;
static struct vb_fabric_node *the_switch;
static struct vb_fabric_cables *cables;
static struct process process[HOSTS];
static unsigned by_udp;                    /* frames that left by UDP */
static union vb_cable_message said;        /* the last message that is no frame */
static uint32_t cable_key[HOSTS], keys;
static int poller;
static vb_time now;

static struct vb_cable_address address_of(unsigned host, uint16_t port)
{
	return (struct vb_cable_address){.gid = {[10] = 0xff, [11] = 0xff, [15] = (uint8_t)(1 + host)}, .port = port};
}

static void send_one(void *context, const struct vb_cable_address *to, const void *head, size_t head_length, const void *body,
		     size_t body_length)
{
	(void)context;
	if (to->memory != 0)
		vb_fabric_cables_send(cables, to->memory, head, head_length, body, body_length);
	else if (body_length > 0)
		by_udp++;
	else
		memcpy(&said, head, head_length);
}

static void send_run(void *context, const struct vb_cable_address *to, const uint8_t *bytes, size_t segment, unsigned count)
{
	(void)context;
	if (to->memory != 0)
		vb_fabric_cables_send_run(cables, to->memory, bytes, segment, count);
	else
		by_udp += count;
}

static uint32_t next_key(void *context)
{
	(void)context;
	return ++keys;
}

static void sent(void *context)
{
	(void)context;
}

static const struct vb_fabric_hosts_owner owner = {.send = send_one, .send_run = send_run, .random = next_key};

static void tell(unsigned host, const void *message, size_t length)
{
	struct vb_cable_address from = address_of(host, DAEMON_PORT);
	uint8_t copy[sizeof(union vb_cable_message)];

	memcpy(copy, message, length);
	vb_fabric_hosts_receive(&hosts, now, &from, copy, length);
}

static void announce(unsigned host)
{
	struct vb_cable_address where = address_of(host, PROCESS_PORT);
	union vb_cable_message message;

	vb_cable_begin(&message, VB_CABLE_SLOT, cable_key[host]);
	message.slot.header.slot = be16_of(SLOT);
	message.slot.slot_key = be32_of(SLOT_KEY + host);
	message.slot.generation = be32_of(1);
	memcpy(message.slot.gid, where.gid, sizeof(where.gid));
	message.slot.port = be16_of(PROCESS_PORT);
	tell(host, &message, sizeof(message.slot));
}

static void join(unsigned host)
{
	struct vb_fabric_port *port = &the_switch->port[1 + host];
	union vb_cable_message message;

	vb_cable_begin(&message, VB_CABLE_JOIN, 0);
	message.join.nonce = be64_of(100 + host);
	message.join.guid = be64_of(100 + host);
	tell(host, &message, sizeof(message.join));
	cable_key[host] = be32_get(said.header.key);
	vb_cable_begin(&message, VB_CABLE_KEEP_ALIVE, cable_key[host]);
	tell(host, &message, sizeof(message.keep_alive));
	port->info.speed_state = (uint8_t)((port->info.speed_state & 0xf0) | VB_PORT_ACTIVE);
	the_switch->linear[lid[host]] = (uint8_t)(1 + host);
	announce(host);
}

/* What the loop of the process does, until nothing is reported any more. */
static void turn(void)
{
	void *tags[MAX_TAGS];
	unsigned count;

	while ((count = vb_poller_wait(poller, tags, MAX_TAGS, 0)) > 0)
		for (unsigned i = 0; i < count; i++)
			vb_fabric_cables_serve(cables, now, tags[i]);
	while (vb_fabric_cables_drain(cables, now))
		;
}

static int begin(void **state)
{
	(void)state;
	now = VB_SECONDS(1);
	the_switch = one_switch(&fabric, &hosts, &owner, now);
	poller = vb_poller_open();
	/* Of a port of our own: other tests, and other fabrics of this user, have theirs. */
	cables = vb_fabric_cables_open(poller, &hosts, (uint16_t)getpid(), sent, NULL);
	assert_non_null(cables);
	for (unsigned i = 0; i < HOSTS; i++) {
		join(i);
		process[i] = (struct process){.line = -1};
	}
	by_udp = 0;
	return 0;
}

static void unplug(unsigned host)
{
	if (process[host].line >= 0)
		vb_descriptor_close(process[host].line);
	vb_page_unmap(process[host].segment, sizeof(*process[host].segment));
	process[host] = (struct process){.line = -1};
}

static int end(void **state)
{
	(void)state;
	for (unsigned i = 0; i < HOSTS; i++)
		unplug(i);
	vb_fabric_cables_close(cables);
	vb_fabric_hosts_fini(&hosts);
	vb_fabric_fini(&fabric);
	vb_descriptor_close(poller);
	return 0;
}

/* As links/fabric/memory.c does. True: the fabric has taken it. */
static bool plug(unsigned host, uint32_t key, size_t size)
{
	struct vb_cable_plug message = {
		.magic = be32_of(VB_CABLE_MAGIC), .version = be16_of(VB_CABLE_VERSION), .slot = be16_of(SLOT), .slot_key = be32_of(key)};
	struct process *own = &process[host];
	int memory = vb_page_create("cable", size);
	bool rang, there;

	own->line = vb_memory_cable_connect(said.slot.gid);
	assert_true(own->line >= 0 && memory >= 0);
	own->segment = vb_page_map(memory, sizeof(*own->segment), true);
	if (own->segment) {
		vb_frame_ring_open(own->segment, 0, &own->writer, &own->reader);
		vb_frame_ring_sleep(&own->reader);
		own->segment->words[0].asleep = 1;
	}
	assert_int_equal(vb_unix_send(own->line, &message, sizeof(message), &memory, 1, false), 0);
	vb_descriptor_close(memory);
	turn();
	there = vb_memory_cable_heard(own->line, &rang);
	return there && rang;
}

/* Frames of host 0's process for host 1's, in one record. */
static bool put(unsigned count, uint16_t slid)
{
	struct vb_cable_header header = {.key = be32_of(SLOT_KEY), .slot = be16_of(SLOT), .kind = be16_of(VB_CABLE_FRAME)};
	struct vb_ib_route route = {.slid = slid, .dlid = lid[1]};
	uint8_t datagram[VB_CABLE_HEADER_LENGTH + VB_IB_MAX_HEADERS + PACKET] = {0}, *to;
	size_t headers = vb_ib_route_encode(&route, PACKET, datagram + sizeof(header)), length = sizeof(header) + headers + PACKET;
	struct be32 qpn = be32_of(SLOT << VB_DAEMON_INDEX_BITS | 5);

	memcpy(datagram, &header, sizeof(header));
	memcpy(datagram + sizeof(header) + headers + 4, &qpn, sizeof(qpn));
	to = vb_frame_ring_reserve(&process[0].writer, length * count);
	if (!to)
		return false;
	for (unsigned i = 0; i < count; i++)
		memcpy(to + i * length, datagram, length);
	if (vb_frame_ring_publish(&process[0].writer, length * count, length))
		vb_memory_cable_ring(process[0].line);
	return true;
}

/* How many frames lie in the ring of host 1's process, each under its key. */
static unsigned take_all(void)
{
	struct vb_frame_ring_record record;
	unsigned count = 0;

	while (vb_frame_ring_look(&process[1].reader, &record) == VB_FRAME_RING_HAS_RECORD) {
		for (size_t at = 0; at < record.length; at += record.segment, count++) {
			struct vb_cable_header header;

			memcpy(&header, record.bytes + at, sizeof(header));
			assert_int_equal(be32_get(header.key), SLOT_KEY + 1);
		}
		vb_frame_ring_done(&process[1].reader, &record);
	}
	return count;
}

static void frames_go_from_memory_to_memory(void **state)
{
	(void)state;
	assert_true(plug(0, SLOT_KEY, sizeof(struct vb_frame_ring_segment)) && plug(1, SLOT_KEY + 1, sizeof(struct vb_frame_ring_segment)));
	assert_true(put(1, lid[0]) && put(20, lid[0]));
	turn();
	assert_int_equal(take_all(), 21);
	assert_int_equal(by_udp, 0);
	assert_int_equal(the_switch->port[1].counters.receive_packets, 21);
	assert_int_equal(the_switch->port[2].counters.transmit_packets, 21);
}

/* The receiver has none: by UDP. From a LID that is not its own it cannot send here either. */
static void what_is_true_of_udp_is_true_here(void **state)
{
	(void)state;
	assert_true(plug(0, SLOT_KEY, sizeof(struct vb_frame_ring_segment)));
	assert_true(put(3, lid[0]));
	turn();
	assert_int_equal(by_udp, 3);
	assert_true(put(4, lid[1]));
	turn();
	assert_int_equal(by_udp, 3);
	assert_int_equal(the_switch->port[1].counters.receive_constraints, 4);
	vb_fabric_cut(&the_switch->port[1], true, now);
	assert_true(put(1, lid[0]));
	turn();
	assert_int_equal(by_udp, 3);
}

static void who_may_plug_one_in(void **state)
{
	(void)state;
	assert_false(plug(0, SLOT_KEY + 5, sizeof(struct vb_frame_ring_segment)));
	unplug(0);
	assert_false(plug(0, SLOT_KEY, VB_FRAME_RING_PAGE));
	unplug(0);
	now += VB_CABLE_PATIENCE;
	assert_false(plug(0, SLOT_KEY, sizeof(struct vb_frame_ring_segment)));
	unplug(0);
	announce(0);
	assert_true(plug(0, SLOT_KEY, sizeof(struct vb_frame_ring_segment)));
}

/* What a process sent before it ended goes on: the acknowledgement of the last message is such. */
static void what_a_dead_process_had_sent_goes_on(void **state)
{
	(void)state;
	assert_true(plug(0, SLOT_KEY, sizeof(struct vb_frame_ring_segment)) && plug(1, SLOT_KEY + 1, sizeof(struct vb_frame_ring_segment)));
	for (unsigned i = 0; i < 40; i++)
		assert_true(put(2, lid[0]));
	unplug(0);
	turn();
	assert_int_equal(take_all(), 80);
}

/* It ends, and its slot is still renewed: what is for it goes by UDP, also when the number of its cable is another's. */
static void what_is_for_a_dead_process_goes_by_udp(void **state)
{
	(void)state;
	assert_true(plug(1, SLOT_KEY + 1, sizeof(struct vb_frame_ring_segment)));
	unplug(1);
	turn();
	announce(1);
	assert_true(plug(0, SLOT_KEY, sizeof(struct vb_frame_ring_segment)));
	assert_true(put(2, lid[0]));
	turn();
	assert_int_equal(by_udp, 2);
}

/* It does not read: the rest is lost, and the fabric goes on. */
static void a_full_cable_loses(void **state)
{
	unsigned written = 0, taken;

	(void)state;
	assert_true(plug(0, SLOT_KEY, sizeof(struct vb_frame_ring_segment)) && plug(1, SLOT_KEY + 1, sizeof(struct vb_frame_ring_segment)));
	for (; written < 2 * VB_FRAME_RING / 4096; written++) {
		assert_true(put(100, lid[0]));
		turn();
	}
	taken = take_all();
	assert_in_range(taken, 100 * 100, 100 * written - 1);
	assert_true(put(100, lid[0]));
	turn();
	assert_int_equal(take_all(), 100);
}

static void nonsense_ends_the_cable(void **state)
{
	struct vb_frame_ring_segment *segment;
	bool rang;

	(void)state;
	assert_true(plug(0, SLOT_KEY, sizeof(struct vb_frame_ring_segment)));
	segment = process[0].segment;
	memcpy(segment->ring[0], &(uint64_t[]){1, UINT64_MAX}, 16);
	vb_memory_cable_ring(process[0].line);
	turn();
	assert_false(vb_memory_cable_heard(process[0].line, &rang));
}

/* ---- where fabrics meet their processes ---- */

enum { ROOM = 128 };

/* Names of our own: other tests, and other fabrics of this user, have theirs. */
static void make_name(uint8_t mark, uint8_t name[VB_MEMORY_CABLE_NAME], char path[ROOM])
{
	struct be64 own = be64_of((uint64_t)getpid());
	int at = snprintf(path, ROOM, "/tmp/verbena-%u/fabric-", (unsigned)geteuid());

	memset(name, 0, VB_MEMORY_CABLE_NAME);
	name[0] = mark;
	memcpy(name + 1, &own, sizeof(own));
	for (unsigned i = 0; i < VB_MEMORY_CABLE_NAME; i++)
		at += snprintf(path + at, ROOM - (size_t)at, "%02x", name[i]);
}

static bool is_there(const char *path)
{
	struct stat status;

	return lstat(path, &status) == 0;
}

/* One that is killed leaves its socket. The next takes it away, whatever its own name is; and nothing else that lies there. */
static void what_a_killed_fabric_has_left(void **state)
{
	enum { DEAD, LIVING, NEXT, FILE_THERE, LINK, NAMES };
	uint8_t name[NAMES][VB_MEMORY_CABLE_NAME];
	char path[NAMES][ROOM], other[ROOM];
	int lives, next, fd;

	(void)state;
	for (unsigned i = 0; i < NAMES; i++)
		make_name((uint8_t)i, name[i], path[i]);
	snprintf(other, sizeof(other), "/tmp/verbena-%u/of-%u", (unsigned)geteuid(), (unsigned)getpid());
	lives = vb_memory_cable_listen(name[LIVING]);
	fd = vb_memory_cable_listen(name[DEAD]);
	assert_true(lives >= 0 && fd >= 0 && is_there(path[DEAD]) && is_there(path[LIVING]));
	vb_descriptor_close(fd);
	fd = vb_unix_listen(other);
	assert_true(fd >= 0);
	vb_descriptor_close(fd);
	fd = open(path[FILE_THERE], O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	vb_descriptor_close(fd);
	assert_int_equal(symlink(other, path[LINK]), 0);
	next = vb_memory_cable_listen(name[NEXT]);
	assert_true(next >= 0);
	assert_false(is_there(path[DEAD]));
	assert_true(is_there(path[LIVING]) && is_there(path[FILE_THERE]) && is_there(path[LINK]) && is_there(other));
	/* It still listens. */
	fd = vb_memory_cable_connect(name[LIVING]);
	assert_true(fd >= 0);
	vb_descriptor_close(fd);
	for (unsigned i = DEAD; i <= NEXT; i++)
		vb_memory_cable_hide(name[i]);
	vb_descriptor_close(lives);
	vb_descriptor_close(next);
	unlink(path[FILE_THERE]);
	unlink(path[LINK]);
	unlink(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(frames_go_from_memory_to_memory, begin, end),
		cmocka_unit_test_setup_teardown(what_is_true_of_udp_is_true_here, begin, end),
		cmocka_unit_test_setup_teardown(who_may_plug_one_in, begin, end),
		cmocka_unit_test_setup_teardown(what_a_dead_process_had_sent_goes_on, begin, end),
		cmocka_unit_test_setup_teardown(what_is_for_a_dead_process_goes_by_udp, begin, end),
		cmocka_unit_test_setup_teardown(a_full_cable_loses, begin, end),
		cmocka_unit_test_setup_teardown(nonsense_ends_the_cable, begin, end),
		cmocka_unit_test(what_a_killed_fabric_has_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
