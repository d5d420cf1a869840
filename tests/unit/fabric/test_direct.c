/* SPDX-License-Identifier: MIT
 *
 * Processes with sockets of their own at the fabric: where frames for them go, what they may send, and what others cannot do in their name.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fabric/hosts.h"
#include "one_switch.h"
#include "wire/daemon_message.h"
#include "wire/roce_packet.h"

enum { HOSTS = 2, BTH_TO_ICRC = 12 + 8 + 4, DAEMON_PORT = 5000, PROCESS_PORT = 6000, SLOT = 7, SLOT_KEY = 0x5107, GENERATION = 3 };

/* LIDs of the hosts, and a queue pair of the slot's process. */
static const uint16_t lid[HOSTS] = {11, 12};
static const uint32_t qpn = SLOT << VB_DAEMON_INDEX_BITS | 5;

struct sent {
	struct vb_cable_address to;
	union vb_cable_message message;    /* as far as it is one */
	uint8_t bytes[VB_IB_MAX_FRAME];
	size_t length;                     /* of the frame behind the header */
};

static struct vb_fabric fabric;
static struct vb_fabric_hosts hosts;
static struct vb_fabric_node *the_switch;
static struct sent last;
static unsigned sent_count;
static uint32_t cable_key[HOSTS], keys;
static vb_time now;

static struct vb_cable_address address_of(unsigned host, uint16_t port)
{
	return (struct vb_cable_address){.gid = {[10] = 0xff, [11] = 0xff, [15] = (uint8_t)(1 + host)}, .port = port};
}

static void take(void *context, const struct vb_cable_address *to, const void *head, size_t head_length, const void *body,
		 size_t body_length)
{
	(void)context;
	last.to = *to;
	memcpy(&last.message, head, head_length);
	if (body_length)
		memcpy(last.bytes, body, body_length);
	last.length = body_length;
	sent_count++;
}

static uint32_t next_key(void *context)
{
	(void)context;
	return ++keys;
}

static const struct vb_fabric_hosts_owner owner = {.send = take, .random = next_key};

static void receive(const struct vb_cable_address *from, const void *bytes, size_t length)
{
	uint8_t copy[VB_CABLE_HEADER_LENGTH + VB_IB_MAX_FRAME];

	memcpy(copy, bytes, length);
	vb_fabric_hosts_receive(&hosts, now, from, copy, length);
}

static void join(unsigned host)
{
	struct vb_cable_address from = address_of(host, DAEMON_PORT);
	union vb_cable_message message;
	struct vb_fabric_port *port = &the_switch->port[1 + host];

	vb_cable_begin(&message, VB_CABLE_JOIN, 0);
	message.join.nonce = be64_of(100 + host);
	message.join.guid = be64_of(100 + host);
	receive(&from, &message, sizeof(message.join));
	cable_key[host] = be32_get(last.message.header.key);
	vb_cable_begin(&message, VB_CABLE_KEEP_ALIVE, cable_key[host]);
	receive(&from, &message, sizeof(message.keep_alive));
	/* What a subnet manager would do. */
	port->info.speed_state = (uint8_t)((port->info.speed_state & 0xf0) | VB_PORT_ACTIVE);
	the_switch->linear[lid[host]] = (uint8_t)(1 + host);
}

static int begin(void **state)
{
	(void)state;
	now = VB_SECONDS(1);
	the_switch = one_switch(&fabric, &hosts, &owner, now);
	for (unsigned i = 0; i < HOSTS; i++)
		join(i);
	sent_count = 0;
	return 0;
}

static int end(void **state)
{
	(void)state;
	vb_fabric_hosts_fini(&hosts);
	vb_fabric_fini(&fabric);
	return 0;
}

/* Announce the slot of that host's process, from there. */
static void announce_from(struct vb_cable_address from, unsigned host, uint32_t key, uint16_t process_port)
{
	struct vb_cable_address process = address_of(host, process_port);
	union vb_cable_message message;

	vb_cable_begin(&message, VB_CABLE_SLOT, key);
	message.slot.header.slot = be16_of(SLOT);
	message.slot.slot_key = be32_of(SLOT_KEY + host);
	message.slot.generation = be32_of(GENERATION);
	memcpy(message.slot.gid, process.gid, sizeof(process.gid));
	message.slot.port = be16_of(process_port);
	receive(&from, &message, sizeof(message.slot));
}

/* As its verbenad does. */
static void announce(unsigned host, uint32_t key)
{
	announce_from(address_of(host, DAEMON_PORT), host, key, PROCESS_PORT);
}

struct frame {
	uint16_t slot, slid, dlid, from_port;
	uint32_t key, qpn;
	uint8_t vl;
};

/* A frame comes from host 0. */
static void frame(struct frame wanted)
{
	struct vb_ib_route route = {.slid = wanted.slid, .dlid = wanted.dlid, .vl = wanted.vl};
	struct vb_cable_address from = address_of(0, wanted.from_port);
	struct vb_cable_header header = {.key = be32_of(wanted.key), .slot = be16_of(wanted.slot), .kind = be16_of(VB_CABLE_FRAME)};
	uint8_t bytes[VB_CABLE_HEADER_LENGTH + VB_IB_MAX_FRAME] = {0}, *at = bytes + sizeof(header);
	size_t headers = vb_ib_route_encode(&route, BTH_TO_ICRC, at);

	memcpy(bytes, &header, sizeof(header));
	at[headers] = 0x04; /* RC SEND_ONLY */
	for (unsigned i = 0; i < 3; i++)
		at[headers + 5 + i] = (uint8_t)(wanted.qpn >> (16 - 8 * i));
	vb_ib_frame_seal(at, headers + BTH_TO_ICRC);
	sent_count = 0;
	receive(&from, bytes, sizeof(header) + headers + BTH_TO_ICRC);
}

/* ---- bundles ---- */

enum { IN_BUNDLE = 9, DATAGRAM = VB_CABLE_HEADER_LENGTH + VB_LRH_LENGTH + BTH_TO_ICRC, LOG = 4096 };

/* All that was sent, as the network would see it. */
static uint8_t log_bytes[LOG];
static size_t log_length;
static unsigned runs;

static void log_datagram(const struct vb_cable_address *to, const void *bytes, size_t length)
{
	assert_true(log_length + 4 + length <= LOG);
	log_bytes[log_length++] = to->gid[15];
	log_bytes[log_length++] = (uint8_t)(to->port >> 8);
	log_bytes[log_length++] = (uint8_t)to->port;
	log_bytes[log_length++] = (uint8_t)length;
	memcpy(log_bytes + log_length, bytes, length);
	log_length += length;
}

static void log_single(void *context, const struct vb_cable_address *to, const void *head, size_t head_length, const void *body,
		       size_t body_length)
{
	uint8_t bytes[VB_CABLE_HEADER_LENGTH + VB_IB_MAX_FRAME];

	(void)context;
	memcpy(bytes, head, head_length);
	memcpy(bytes + head_length, body, body_length);
	log_datagram(to, bytes, head_length + body_length);
}

static void log_run(void *context, const struct vb_cable_address *to, const uint8_t *bytes, size_t segment, unsigned count)
{
	(void)context;
	runs++;
	for (unsigned i = 0; i < count; i++)
		log_datagram(to, bytes + i * segment, segment);
}

static const struct vb_fabric_hosts_owner logging = {.send = log_single, .send_run = log_run, .random = next_key},
	logging_singly = {.send = log_single, .random = next_key};

/* From host 0's process: datagrams that are all the same but for their PSN. Returns how many bytes they are. */
static size_t make_bundle(uint8_t *bytes, unsigned count)
{
	struct vb_cable_header header = {.key = be32_of(SLOT_KEY), .slot = be16_of(SLOT), .kind = be16_of(VB_CABLE_FRAME)};
	struct vb_ib_route route = {.slid = lid[0], .dlid = lid[1]};

	memset(bytes, 0, (size_t)count * DATAGRAM);
	for (unsigned i = 0; i < count; i++) {
		uint8_t *at = bytes + (size_t)i * DATAGRAM, *bth = at + sizeof(header) + VB_LRH_LENGTH;

		memcpy(at, &header, sizeof(header));
		(void)vb_ib_route_encode(&route, BTH_TO_ICRC, at + sizeof(header));
		bth[0] = 0x04;
		for (unsigned j = 0; j < 3; j++)
			bth[5 + j] = (uint8_t)(qpn >> (16 - 8 * j));
		bth[11] = (uint8_t)i;
	}
	return (size_t)count * DATAGRAM;
}

struct outcome {
	uint8_t bytes[LOG];
	size_t length;
	struct vb_fabric_counters counters[3];
};

/* What becomes of a bundle: all at once, or a datagram at a time. */
static void outcome_of(struct outcome *outcome, const uint8_t *bundle, size_t length, bool at_once, const struct vb_fabric_hosts_owner *by)
{
	struct vb_cable_address from = address_of(0, PROCESS_PORT);
	uint8_t bytes[IN_BUNDLE * DATAGRAM];

	keys = 0;
	begin(NULL);
	announce(0, cable_key[0]);
	announce(1, cable_key[1]);
	hosts.owner = by;
	log_length = runs = 0;
	memcpy(bytes, bundle, length);
	for (size_t at = 0; !at_once && at < length; at += DATAGRAM)
		vb_fabric_hosts_receive(&hosts, now, &from, bytes + at, length - at < DATAGRAM ? length - at : DATAGRAM);
	if (at_once)
		vb_fabric_hosts_receive_bundle(&hosts, now, &from, bytes, length, DATAGRAM);
	memset(outcome, 0, sizeof(*outcome));
	memcpy(outcome->bytes, log_bytes, log_length);
	outcome->length = log_length;
	for (unsigned i = 0; i < 3; i++)
		outcome->counters[i] = the_switch->port[i].counters;
	hosts.owner = &owner;
	end(NULL);
}

static void assert_same_as_singly(const uint8_t *bundle, size_t length)
{
	static struct outcome singly, together;

	outcome_of(&singly, bundle, length, false, &logging);
	outcome_of(&together, bundle, length, true, &logging);
	assert_memory_equal(&singly, &together, sizeof(singly));
	outcome_of(&together, bundle, length, true, &logging_singly);
	assert_memory_equal(&singly, &together, sizeof(singly));
}

static void a_bundle_passes_as_one(void **state)
{
	static struct outcome outcome;
	uint8_t bytes[IN_BUNDLE * DATAGRAM];
	size_t length = make_bundle(bytes, IN_BUNDLE);

	(void)state;
	assert_same_as_singly(bytes, length);
	outcome_of(&outcome, bytes, length, true, &logging);
	assert_int_equal(runs, 1);
	assert_int_equal(outcome.length, IN_BUNDLE * (4 + DATAGRAM));
	assert_int_equal(outcome.counters[1].receive_packets, IN_BUNDLE);
	assert_int_equal(outcome.counters[2].transmit_packets, IN_BUNDLE);
	assert_int_equal(outcome.counters[2].transmit_data, IN_BUNDLE * ((VB_LRH_LENGTH + BTH_TO_ICRC) / 4));
	/* A last one that is shorter is none of them. */
	assert_same_as_singly(bytes, length - 4);
}

/* Whatever a byte of any of them is: no frame gets anywhere in another's company that it would not have got to alone. */
static void no_frame_hides_in_a_bundle(void **state)
{
	uint8_t bytes[4 * DATAGRAM];
	size_t length = make_bundle(bytes, 4);

	(void)state;
	for (size_t at = 0; at < length; at++) {
		static const uint8_t change[] = {0x01, 0x03, 0x80, 0xf0, 0xff};

		if (at % DATAGRAM >= VB_CABLE_HEADER_LENGTH + VB_LRH_LENGTH + 12)
			continue;
		for (unsigned i = 0; i < sizeof(change); i++) {
			bytes[at] ^= change[i];
			assert_same_as_singly(bytes, length);
			bytes[at] ^= change[i];
		}
	}
	/* One of them for QP1, one on VL 15, one from another's LID. */
	memset(bytes + DATAGRAM + VB_CABLE_HEADER_LENGTH + VB_LRH_LENGTH + 5, 0, 3);
	bytes[DATAGRAM + VB_CABLE_HEADER_LENGTH + VB_LRH_LENGTH + 7] = 1;
	assert_same_as_singly(bytes, length);
	bytes[2 * DATAGRAM + VB_CABLE_HEADER_LENGTH] |= VB_IB_MANAGEMENT_VL << 4;
	assert_same_as_singly(bytes, length);
	bytes[3 * DATAGRAM + VB_CABLE_HEADER_LENGTH + 7] = (uint8_t)lid[1];
	assert_same_as_singly(bytes, length);
}

/* From host 0's verbenad. */
static struct frame by_daemon(uint32_t to_qpn)
{
	return (struct frame){.slid = lid[0], .dlid = lid[1], .from_port = DAEMON_PORT, .key = cable_key[0], .qpn = to_qpn};
}

/* From host 0's process. */
static struct frame by_process(void)
{
	return (struct frame){.slot = SLOT, .slid = lid[0], .dlid = lid[1], .from_port = PROCESS_PORT, .key = SLOT_KEY, .qpn = qpn};
}

static void assert_left_to(uint16_t port, uint32_t key)
{
	assert_int_equal(sent_count, 1);
	assert_int_equal(last.to.gid[15], 2);
	assert_int_equal(last.to.port, port);
	assert_int_equal(be32_get(last.message.header.key), key);
}

static void frames_go_to_who_was_announced(void **state)
{
	struct frame management = by_daemon(1);

	(void)state;
	frame(by_daemon(qpn));
	assert_left_to(DAEMON_PORT, cable_key[1]);
	announce(1, cable_key[1]);
	/* It is told so, at the socket that was announced. */
	assert_int_equal(last.to.gid[15], 2);
	assert_int_equal(last.to.port, PROCESS_PORT);
	assert_int_equal(be16_get(last.message.header.kind), VB_CABLE_SLOT);
	assert_int_equal(be32_get(last.message.header.key), SLOT_KEY + 1);
	assert_int_equal(be32_get(last.message.slot.generation), GENERATION);
	frame(by_daemon(qpn));
	assert_left_to(PROCESS_PORT, SLOT_KEY + 1);
	/* Another process's queue pair, and QP1, are verbenad's; and so is QP0, by VL 15. */
	frame(by_daemon(qpn + (1 << VB_DAEMON_INDEX_BITS)));
	assert_left_to(DAEMON_PORT, cable_key[1]);
	frame(management);
	assert_left_to(DAEMON_PORT, cable_key[1]);
	management.vl = VB_IB_MANAGEMENT_VL;
	management.qpn = qpn;
	frame(management);
	assert_left_to(DAEMON_PORT, cable_key[1]);
	/* Not renewed. */
	now += VB_CABLE_PATIENCE;
	frame(by_daemon(qpn));
	assert_left_to(DAEMON_PORT, cable_key[1]);
}

static void groups_go_to_the_daemon(void **state)
{
	struct frame group = by_daemon(VB_MULTICAST_QPN);

	(void)state;
	announce(1, cable_key[1]);
	group.dlid = VB_MULTICAST_LID;
	the_switch->multicast[0][0] = be16_of(1 << 2);
	frame(group);
	assert_left_to(DAEMON_PORT, cable_key[1]);
}

static void every_port_counts_what_processes_send(void **state)
{
	struct vb_fabric_counters *in = &the_switch->port[1].counters, *out = &the_switch->port[2].counters;
	uint64_t packets, data;

	(void)state;
	announce(0, cable_key[0]);
	announce(1, cable_key[1]);
	packets = in->receive_packets;
	data = out->transmit_data;
	frame(by_process());
	assert_left_to(PROCESS_PORT, SLOT_KEY + 1);
	assert_int_equal(last.length, VB_LRH_LENGTH + BTH_TO_ICRC);
	assert_int_equal(in->receive_packets, packets + 1);
	assert_int_equal(out->transmit_data, data + (VB_LRH_LENGTH + BTH_TO_ICRC) / 4);
}

static void processes_are_no_adapters(void **state)
{
	const struct vb_fabric_counters *counters = &the_switch->port[1].counters;
	struct frame wrong[4] = {by_process(), by_process(), by_process(), by_process()};

	(void)state;
	announce(0, cable_key[0]);
	wrong[0].qpn = 1;
	wrong[1].qpn = 0;
	wrong[2].vl = VB_IB_MANAGEMENT_VL;
	wrong[3].slid = lid[1];
	for (unsigned i = 0; i < 4; i++) {
		frame(wrong[i]);
		assert_int_equal(sent_count, 0);
		assert_int_equal(counters->receive_constraints, i + 1);
	}
	frame(by_process());
	assert_int_equal(sent_count, 1);
}

static void strangers(void **state)
{
	struct frame wrong[3] = {by_process(), by_process(), by_process()};

	(void)state;
	/* Not announced; announced by who does not have the cable's key. */
	frame(by_process());
	assert_int_equal(sent_count, 0);
	announce(0, cable_key[0] + 77);
	assert_int_equal(sent_count, 0);
	frame(by_process());
	assert_int_equal(sent_count, 0);
	/* Another key, another socket, another slot. */
	announce(0, cable_key[0]);
	wrong[0].key++;
	wrong[1].from_port++;
	wrong[2].slot++;
	for (unsigned i = 0; i < 3; i++) {
		frame(wrong[i]);
		assert_int_equal(sent_count, 0);
	}
	assert_int_equal(the_switch->port[1].counters.receive_constraints, 0);
}

/* The cable's key is not enough: a process of the host that has read it announces no slot. */
static void only_verbenad_announces(void **state)
{
	(void)state;
	/* From the process's own socket; from another host; a process behind a translator; one that has no port. */
	announce_from(address_of(0, PROCESS_PORT), 0, cable_key[0], PROCESS_PORT);
	announce_from(address_of(1, DAEMON_PORT), 1, cable_key[0], PROCESS_PORT);
	announce_from(address_of(0, DAEMON_PORT), 1, cable_key[0], PROCESS_PORT);
	announce_from(address_of(0, DAEMON_PORT), 0, cable_key[0], 0);
	assert_int_equal(sent_count, 0);
	frame(by_process());
	assert_int_equal(sent_count, 0);
	announce(0, cable_key[0]);
	frame(by_process());
	assert_int_equal(sent_count, 1);
}

static void a_cut_cable_carries_nothing(void **state)
{
	(void)state;
	announce(0, cable_key[0]);
	vb_fabric_cut(&the_switch->port[1], true, now);
	frame(by_process());
	assert_int_equal(sent_count, 0);
	announce(0, cable_key[0]);
	assert_int_equal(sent_count, 0);
}

static void a_host_that_leaves_takes_them_along(void **state)
{
	struct vb_cable_address from = address_of(0, DAEMON_PORT);
	union vb_cable_message message;

	(void)state;
	announce(0, cable_key[0]);
	frame(by_process());
	assert_int_equal(sent_count, 1);
	vb_cable_begin(&message, VB_CABLE_LEAVE, cable_key[0]);
	receive(&from, &message, sizeof(message.header));
	frame(by_process());
	assert_int_equal(sent_count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_bundle_passes_as_one),
		cmocka_unit_test(no_frame_hides_in_a_bundle),
		cmocka_unit_test_setup_teardown(frames_go_to_who_was_announced, begin, end),
		cmocka_unit_test_setup_teardown(groups_go_to_the_daemon, begin, end),
		cmocka_unit_test_setup_teardown(every_port_counts_what_processes_send, begin, end),
		cmocka_unit_test_setup_teardown(processes_are_no_adapters, begin, end),
		cmocka_unit_test_setup_teardown(strangers, begin, end),
		cmocka_unit_test_setup_teardown(only_verbenad_announces, begin, end),
		cmocka_unit_test_setup_teardown(a_cut_cable_carries_nothing, begin, end),
		cmocka_unit_test_setup_teardown(a_host_that_leaves_takes_them_along, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
