/* SPDX-License-Identifier: MIT
 *
 * Sending by connected sockets: each packet that leaves, read from the wire, has the ICRC of the identification that it really has.
 * Lone packets, runs, many runs in a row; after sends that failed, errors that came back, other destinations from the same port; from
 * several threads; and where it cannot be learnt what the socket counts from. A socket by which nothing is sent does not learn.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/udp.h"
#include "lib/patience.h"
#include "lib/private_network.h"
#include "links/udp/source_ports.h"
#include "namespace.h"
#include "tunnel.h"
#include "wire/burst.h"
#include "wire/icrc.h"
#include "wire/roce_opcode.h"

#define TUNNEL "tunnel"

enum { MTU_PAYLOAD = 1024, TOO_MUCH = 2048, THREADS = 3, ROUNDS = 3000 };

static const uint8_t address4[4] = {10, 9, 0, 1};
static const uint8_t here4[16] = {[10] = 0xff, 0xff, 10, 9, 0, 1}, there4[16] = {[10] = 0xff, 0xff, 10, 9, 0, 2};
static const uint8_t elsewhere4[16] = {[10] = 0xff, 0xff, 10, 9, 0, 3};
static const uint8_t here6[16] = {0x20, 1, 0xd, 0xb8, [15] = 1}, there6[16] = {0x20, 1, 0xd, 0xb8, [15] = 2};
static uint8_t payload[TOO_MUCH];
static int wire;

/* ---- the wire ---- */

struct seen {
	uint16_t id, source_port;
	uint8_t last;                      /* byte of the destination */
	uint8_t traffic_class;
	uint32_t psn;
	uint8_t packet[128];               /* its beginning */
};

static bool read_packet(struct seen *seen)
{
	uint8_t bytes[4096];
	ssize_t length = read(wire, bytes, sizeof(bytes));
	bool ipv6 = length > 0 && bytes[0] >> 4 == 6;
	size_t headers = ipv6 ? 48 : 28, payload_length = (size_t)length - headers;
	const uint8_t *udp = bytes + headers - 8, *bth = bytes + headers;
	struct vb_path path = {0};
	uint8_t expected[4];

	if (length < 0)
		return false;
	/* Not what the kernel says by itself, of neighbours and groups. */
	if (bytes[ipv6 ? 6 : 9] != IPPROTO_UDP || udp[2] != VB_ROCE_PORT >> 8 || udp[3] != (VB_ROCE_PORT & 0xff))
		return read_packet(seen);
	seen->id = ipv6 ? 0 : (uint16_t)(bytes[4] << 8 | bytes[5]);
	seen->traffic_class = ipv6 ? (uint8_t)(bytes[0] << 4 | bytes[1] >> 4) : bytes[1];
	path.source_port = seen->source_port = (uint16_t)(udp[0] << 8 | udp[1]);
	if (ipv6) {
		memcpy(path.source, bytes + 8, 16);
		memcpy(path.destination, bytes + 24, 16);
	} else {
		path.source[10] = path.source[11] = path.destination[10] = path.destination[11] = 0xff;
		memcpy(path.source + 12, bytes + 12, 4);
		memcpy(path.destination + 12, bytes + 16, 4);
		/* Don't fragment, and nothing else. */
		assert_int_equal(bytes[6] << 8 | bytes[7], 0x4000);
	}
	seen->last = path.destination[15];
	seen->psn = (uint32_t)bth[9] << 16 | (uint32_t)bth[10] << 8 | bth[11];
	memcpy(seen->packet, bytes, sizeof(seen->packet));
	vb_icrc_store(vb_icrc_headers(vb_icrc_begin(&path, seen->id, payload_length), bth, payload_length - 4), expected);
	assert_memory_equal(bth + payload_length - 4, expected, 4);
	return true;
}

static struct seen must_see(void)
{
	struct seen seen = {0};

	assert_true(eventually(read_packet(&seen)));
	return seen;
}

/* PSNs from 1 on. A class may be overtaken: where another processor serves the interface's queue just then, the kernel's pfifo_fast sends
 * what is not bulk first. */
static void see_by_psn(struct seen *all, uint32_t count)
{
	uint32_t came = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct seen seen = must_see();

		assert_in_range(seen.psn, 1, count);
		came |= 1u << seen.psn;
		all[seen.psn - 1] = seen;
	}
	assert_int_equal(came, (2u << count) - 2);
}

static void must_see_nothing(void)
{
	struct seen seen;

	assert_false(read_packet(&seen));
}

/* ---- packets ---- */

static struct vb_path path_from(const uint8_t source[16], const uint8_t destination[16])
{
	struct vb_path path = {.hop_limit = 64};

	memcpy(path.source, source, 16);
	memcpy(path.destination, destination, 16);
	return path;
}

static void append(struct vb_burst *burst, const struct vb_path *path, uint32_t psn, size_t length)
{
	struct vb_roce_packet packet = {.opcode = 0x01, .op = vb_roce_opcode(0x01), .pkey = 0xffff, .destination_qpn = 5,
					.psn = psn_of(psn)};
	struct iovec span = {payload, length};

	assert_true(vb_burst_has_room(burst, length));
	vb_burst_append(burst, path, &packet, &span, 1);
}

static struct vb_burst *make_burst(struct vb_source_ports *ports)
{
	struct vb_burst *burst = calloc(1, sizeof(*burst));

	assert_non_null(burst);
	vb_burst_reset(burst);
	burst->numbers = &ports->numbers;
	return burst;
}

static void empty(struct vb_source_ports *ports, struct vb_burst *burst)
{
	vb_burst_reset(burst);
	burst->numbers = &ports->numbers;
}

static uint32_t send_all(struct vb_source_port *port, struct vb_burst *burst)
{
	return vb_counted_send(port, burst, 0, burst->runs);
}

struct sender {
	struct vb_source_ports ports;
	struct vb_path path;
	struct vb_source_port *port;
	struct vb_burst *burst;
};

static void open_sender(struct sender *sender, const uint8_t source[16], const uint8_t destination[16])
{
	vb_source_ports_init(&sender->ports);
	sender->path = path_from(source, destination);
	sender->path.source_port = vb_source_ports_choose(&sender->ports, &sender->path, 1);
	assert_int_not_equal(sender->path.source_port, 0);
	sender->port = vb_source_ports_find(&sender->ports, !vb_path_is_ipv4(&sender->path), sender->path.source_port);
	assert_non_null(sender->port);
	sender->burst = make_burst(&sender->ports);
	/* Nothing left in order to learn. */
	must_see_nothing();
}

static void close_sender(struct sender *sender)
{
	free(sender->burst);
	vb_source_ports_fini(&sender->ports);
}

static bool is_connected(const struct sender *sender)
{
	return sender->port->counted.state == VB_COUNTED_CONNECTED;
}

/* One packet: with which identification did it leave? */
static uint16_t send_one(struct sender *sender, uint32_t psn)
{
	struct seen seen;

	empty(&sender->ports, sender->burst);
	append(sender->burst, &sender->path, psn, 100);
	assert_int_equal(send_all(sender->port, sender->burst), 0);
	seen = must_see();
	assert_int_equal(seen.psn, psn);
	assert_int_equal(seen.source_port, sender->path.source_port);
	return seen.id;
}

/* ---- tests ---- */

static void each_packet_has_its_icrc(void **state)
{
	struct sender sender;
	uint16_t next = 0;

	(void)state;
	open_sender(&sender, here4, there4);
	(void)send_one(&sender, 0);
	assert_true(is_connected(&sender));
	assert_true(vb_counted_next(&sender.port->counted, &next));
	for (uint32_t round = 0; round < 200; round++) {
		unsigned runs = 1 + round % 10, psn = 0;

		empty(&sender.ports, sender.burst);
		/* Each shorter one ends a run. */
		for (unsigned run = 0; run < runs; run++)
			for (unsigned i = 0; i <= round % 5; i++)
				append(sender.burst, &sender.path, psn++, i < round % 5 ? MTU_PAYLOAD : 40);
		/* Foretold: nothing has to be computed twice. */
		for (uint32_t run = 0; run < sender.burst->runs; run++)
			assert_int_equal(sender.burst->run[run].first_id, (uint16_t)(next + run));
		assert_int_equal(send_all(sender.port, sender.burst), 0);
		psn = 0;
		for (uint32_t run = 0; run < sender.burst->runs; run++) {
			for (uint32_t i = 0; i < sender.burst->run[run].packets; i++) {
				struct seen seen = must_see();

				assert_int_equal(seen.psn, psn++);
				assert_int_equal(seen.id, (uint16_t)(next + i));
			}
			next++;
		}
	}
	assert_true(is_connected(&sender));
	must_see_nothing();
	close_sender(&sender);
}

/* Made before another left, by any thread. */
static void what_was_foretold_wrongly_is_put_right(void **state)
{
	struct sender sender;
	struct vb_burst *early;

	(void)state;
	open_sender(&sender, here4, there4);
	early = make_burst(&sender.ports);
	for (uint32_t i = 0; i < 10; i++)
		append(early, &sender.path, i, MTU_PAYLOAD);
	(void)send_one(&sender, 100);
	assert_int_equal(send_all(sender.port, early), 0);
	for (uint32_t i = 0; i < 10; i++)
		assert_int_equal(must_see().psn, i);
	/* Its burst begins where ours ends. */
	assert_int_equal(send_one(&sender, 101), (uint16_t)(early->run[0].first_id + 1));
	free(early);
	close_sender(&sender);
}

static void after_a_failure_nothing_is_counted(void **state)
{
	struct sender sender;

	(void)state;
	open_sender(&sender, here4, there4);
	(void)send_one(&sender, 0);
	/* The second does not fit the interface, and has a shorter one in its run. The last two are one that was numbered before. */
	empty(&sender.ports, sender.burst);
	append(sender.burst, &sender.path, 1, 10);
	append(sender.burst, &sender.path, 2, TOO_MUCH);
	append(sender.burst, &sender.path, 3, 10);
	append(sender.burst, &sender.path, 4, 10);
	append(sender.burst, &sender.path, 5, 10);
	assert_int_equal(sender.burst->runs, 3);
	assert_int_equal(send_all(sender.port, sender.burst), 1);
	assert_false(is_connected(&sender));
	assert_int_equal(must_see().psn, 1);
	for (uint32_t psn = 3; psn < 6; psn++) {
		struct seen seen = must_see();

		assert_int_equal(seen.psn, psn);
		assert_int_equal(seen.id, psn == 5);
	}
	assert_int_equal(send_one(&sender, 6), 0);
	assert_int_equal(send_one(&sender, 7), 0);
	close_sender(&sender);
}

/* Runs whose segments do not fit go one by one after that, as by any socket. */
static void refused_runs_are_lost_and_others_leave(void **state)
{
	struct sender sender;

	(void)state;
	open_sender(&sender, here4, there4);
	for (uint32_t i = 0; i < 3; i++)
		append(sender.burst, &sender.path, i, TOO_MUCH);
	assert_int_equal(send_all(sender.port, sender.burst), 3);
	assert_false(is_connected(&sender));
	must_see_nothing();
	assert_int_equal(send_one(&sender, 5), 0);
	close_sender(&sender);
}

static void without_an_interface_all_is_lost(void **state)
{
	struct sender sender;

	(void)state;
	open_sender(&sender, here4, there4);
	(void)send_one(&sender, 0);
	tunnel_set_up(TUNNEL, false);
	empty(&sender.ports, sender.burst);
	append(sender.burst, &sender.path, 1, 10);
	assert_int_equal(send_all(sender.port, sender.burst), 1);
	tunnel_set_up(TUNNEL, true);
	assert_int_equal(send_one(&sender, 2), 0);
	assert_false(is_connected(&sender));
	close_sender(&sender);
}

static uint16_t sum_of(const uint8_t *bytes, size_t length)
{
	uint32_t sum = 0;

	for (size_t i = 0; i < length; i += 2)
		sum += (uint32_t)bytes[i] << 8 | bytes[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

/* Sends what a router or the peer's kernel says of that packet: `type`, `code`, and what stands in the last two bytes of the header. */
static void complain(const struct seen *about, uint8_t type, uint8_t code, uint16_t word)
{
	enum { QUOTED = 28 };
	uint8_t bytes[20 + 8 + QUOTED] = {0x45, 0, 0, sizeof(bytes), 0, 0, 0, 0, 64, IPPROTO_ICMP, 0, 0,
					10, 9, 0, 2, 10, 9, 0, 1, type, code};
	uint16_t sum;

	bytes[26] = (uint8_t)(word >> 8);
	bytes[27] = (uint8_t)word;
	memcpy(bytes + 28, about->packet, QUOTED);
	sum = sum_of(bytes + 20, sizeof(bytes) - 20);
	bytes[22] = (uint8_t)(sum >> 8);
	bytes[23] = (uint8_t)sum;
	sum = sum_of(bytes, 20);
	bytes[10] = (uint8_t)(sum >> 8);
	bytes[11] = (uint8_t)sum;
	assert_int_equal(write(wire, bytes, sizeof(bytes)), sizeof(bytes));
}

/* Nobody listens there; a router lets only shorter packets through: the packet of which the next call says so leaves nevertheless. */
static void errors_that_come_back_end_the_counting(void **state)
{
	(void)state;
	for (unsigned kind = 0; kind < 2; kind++) {
		struct sender sender;
		struct seen seen;

		open_sender(&sender, here4, there4);
		empty(&sender.ports, sender.burst);
		append(sender.burst, &sender.path, 1, 10);
		assert_int_equal(send_all(sender.port, sender.burst), 0);
		seen = must_see();
		complain(&seen, 3, kind == 0 ? 3 : 4, kind == 0 ? 0 : 1400);
		/* The kernel may take its time to read it. */
		assert_true(eventually((send_one(&sender, 2), !is_connected(&sender))));
		assert_int_equal(send_one(&sender, 3), 0);
		close_sender(&sender);
	}
}

/* A port may have to serve two peers, or another traffic class: the socket counts all of it. */
static void other_paths_are_counted_too(void **state)
{
	struct sender sender;
	struct vb_path other, classed;
	struct seen seen[3];
	uint16_t id;

	(void)state;
	open_sender(&sender, here4, there4);
	other = path_from(here4, elsewhere4);
	classed = sender.path;
	other.source_port = sender.path.source_port;
	classed.traffic_class = 0x68;
	id = send_one(&sender, 0);
	for (unsigned i = 0; i < 20; i++) {
		empty(&sender.ports, sender.burst);
		append(sender.burst, &other, 1, 10);
		append(sender.burst, &classed, 2, 10);
		append(sender.burst, &sender.path, 3, 10);
		assert_int_equal(send_all(sender.port, sender.burst), 0);
		see_by_psn(seen, 3);
		assert_int_equal(seen[0].last, 3);
		assert_int_equal(seen[1].traffic_class, 0x68);
		assert_int_equal(seen[2].last, 2);
		assert_int_equal(seen[2].traffic_class, 0);
		for (unsigned k = 0; k < 3; k++)
			assert_int_equal(seen[k].id, ++id);
	}
	assert_true(is_connected(&sender));
	close_sender(&sender);
}

/* The kernel forgets the route that it kept. */
static void routes_may_change(void **state)
{
	const uint8_t second[4] = {10, 9, 1, 1};
	struct sender sender;
	uint16_t id;

	(void)state;
	open_sender(&sender, here4, there4);
	id = send_one(&sender, 0);
	tunnel_set_address(TUNNEL ":1", second, 24);
	assert_int_equal(send_one(&sender, 1), (uint16_t)(id + 1));
	assert_true(is_connected(&sender));
	close_sender(&sender);
}

/* The kernel makes it usable in a thread of its own. */
static bool is_address_there(const uint8_t address[16])
{
	struct sockaddr_in6 six = {.sin6_family = AF_INET6};
	int fd = socket(AF_INET6, SOCK_DGRAM, 0);
	bool there;

	memcpy(&six.sin6_addr, address, 16);
	there = bind(fd, (struct sockaddr *)&six, sizeof(six)) == 0;
	close(fd);
	return there;
}

static void ipv6_has_no_number(void **state)
{
	struct sender sender;
	uint16_t id;

	(void)state;
	/* Whenever the interface goes down its address does. */
	tunnel_add_address6(TUNNEL, here6);
	assert_true(eventually(is_address_there(here6)));
	open_sender(&sender, here6, there6);
	assert_false(vb_path_is_ipv4(&sender.path));
	for (uint32_t psn = 0; psn < 20; psn++)
		(void)send_one(&sender, psn);
	assert_true(is_connected(&sender));
	empty(&sender.ports, sender.burst);
	for (uint32_t i = 0; i < 9; i++)
		append(sender.burst, &sender.path, i, MTU_PAYLOAD);
	/* Of those that do not fit each is lost, and the rest leaves. */
	append(sender.burst, &sender.path, 9, TOO_MUCH);
	append(sender.burst, &sender.path, 10, 10);
	assert_int_equal(sender.ports.numbers.next(&sender.ports.numbers, &sender.path, &id), false);
	assert_int_equal(send_all(sender.port, sender.burst), 1);
	for (uint32_t i = 0; i < 9; i++)
		assert_int_equal(must_see().psn, i);
	assert_int_equal(must_see().psn, 10);
	(void)send_one(&sender, 11);
	close_sender(&sender);
}

static bool is_plain(const struct vb_source_port *port)
{
	return port->counted.state == VB_COUNTED_PLAIN;
}

static void who_must_not_connect_does_not(void **state)
{
	const uint8_t group[16] = {[10] = 0xff, 0xff, 239, 1, 2, 3};
	struct sender sender;
	struct vb_path path;
	uint16_t port;

	(void)state;
	open_sender(&sender, here4, group);
	assert_true(is_plain(sender.port));
	close_sender(&sender);
	/* From an address that is not ours. */
	open_sender(&sender, elsewhere4, there4);
	assert_true(is_plain(sender.port));
	close_sender(&sender);
	vb_source_ports_init(&sender.ports);
	sender.ports.plain = true;
	path = path_from(here4, there4);
	port = vb_source_ports_choose(&sender.ports, &path, 1);
	assert_true(is_plain(vb_source_ports_find(&sender.ports, false, port)));
	vb_source_ports_fini(&sender.ports);
}

/* It is learnt over the loopback interface. Where there is none the socket is as any. */
static void what_cannot_be_learnt_is_not_counted(void **state)
{
	struct sender sender;

	(void)state;
	tunnel_set_up("lo", false);
	open_sender(&sender, here4, there4);
	assert_int_equal(send_one(&sender, 1), 0);
	assert_true(is_plain(sender.port));
	assert_int_equal(send_one(&sender, 2), 0);
	close_sender(&sender);
	tunnel_set_up("lo", true);
}

/* To addresses of this host the samples are delivered: not to a RoCE receiver, and that there is none is no error of ours. */
static void expect_samples_out_of_sight(const uint8_t destination[16])
{
	int receiver = vb_udp_open_receiver(false, VB_ROCE_PORT);
	struct sender sender;
	uint8_t bytes[256];

	assert_true(receiver >= 0);
	open_sender(&sender, here4, destination);
	for (uint8_t psn = 0; psn < 10; psn++) {
		empty(&sender.ports, sender.burst);
		append(sender.burst, &sender.path, psn, 100);
		assert_int_equal(send_all(sender.port, sender.burst), 0);
		assert_true(eventually(recv(receiver, bytes, sizeof(bytes), MSG_DONTWAIT) >= 0));
		assert_int_equal(bytes[11], psn);
		assert_true(is_connected(&sender));
	}
	assert_true(recv(receiver, bytes, sizeof(bytes), MSG_DONTWAIT) < 0);
	close(receiver);
	close_sender(&sender);
}

static void samples_reach_no_receiver(void **state)
{
	static const uint8_t loopback[16] = {[10] = 0xff, 0xff, 127, 0, 0, 1};

	(void)state;
	expect_samples_out_of_sight(loopback);
	expect_samples_out_of_sight(here4);
}

/* As where all goes through memory. */
static void who_sends_nothing_does_not_learn(void **state)
{
	unsigned long before = private_network_datagrams();
	struct sender sender;

	(void)state;
	open_sender(&sender, here4, there4);
	assert_int_equal(private_network_datagrams(), before);
	(void)send_one(&sender, 1);
	assert_true(is_connected(&sender));
	/* What it learns from, and the packet. */
	assert_true(private_network_datagrams() > before + 1);
	close_sender(&sender);
}

/* Each datagram through memory was summed twice, once with a number and once without. */
static void who_is_passed_by_gives_no_numbers(void **state)
{
	struct sender sender;
	uint16_t id;

	(void)state;
	open_sender(&sender, here4, there4);
	(void)send_one(&sender, 1);
	assert_true(vb_counted_next(&sender.port->counted, &id));
	vb_counted_pass_by(&sender.port->counted);
	assert_false(vb_counted_next(&sender.port->counted, &id));
	/* It is connected still: what leaves has the number that the socket gives it. */
	(void)send_one(&sender, 2);
	assert_true(is_connected(&sender));
	assert_true(vb_counted_next(&sender.port->counted, &id));
	(void)send_one(&sender, 3);
	close_sender(&sender);
}

struct worker {
	struct sender *sender;
	bool done;
};

static void *work(void *context)
{
	struct sender *sender = ((struct worker *)context)->sender;
	struct vb_burst *burst = make_burst(&sender->ports);

	for (uint32_t i = 0; i < ROUNDS; i++) {
		empty(&sender->ports, burst);
		for (uint32_t p = 0; p <= i % 4; p++)
			append(burst, &sender->path, p, p < 3 ? 200 : 20);
		(void)send_all(sender->port, burst);
	}
	free(burst);
	__atomic_store_n(&((struct worker *)context)->done, true, __ATOMIC_RELEASE);
	return NULL;
}

/* They take turns, or the socket stops counting: either way each packet is right. */
static void threads_take_turns(void **state)
{
	struct sender sender;
	struct worker worker[THREADS];
	pthread_t thread[THREADS];
	struct seen seen;
	unsigned done = 0;

	(void)state;
	open_sender(&sender, here4, there4);
	for (unsigned i = 0; i < THREADS; i++) {
		worker[i] = (struct worker){.sender = &sender};
		assert_int_equal(pthread_create(&thread[i], NULL, work, &worker[i]), 0);
	}
	while (done < THREADS) {
		struct pollfd item = {.fd = wire, .events = POLLIN};

		(void)poll(&item, 1, 10);
		while (read_packet(&seen))
			;
		done = 0;
		for (unsigned i = 0; i < THREADS; i++)
			done += __atomic_load_n(&worker[i].done, __ATOMIC_ACQUIRE);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	while (read_packet(&seen))
		;
	(void)send_one(&sender, 77);
	close_sender(&sender);
}

/* A crowd: whoever sends finds it taken. */
static void a_crowd_ends_the_counting(void **state)
{
	struct sender sender;

	(void)state;
	open_sender(&sender, here4, there4);
	(void)send_one(&sender, 0);
	assert_true(is_connected(&sender));
	sender.port->counted.crowd = 1 << 20;
	(void)send_one(&sender, 1);
	assert_false(is_connected(&sender));
	assert_int_equal(send_one(&sender, 2), 0);
	close_sender(&sender);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_packet_has_its_icrc),
		cmocka_unit_test(what_was_foretold_wrongly_is_put_right),
		cmocka_unit_test(after_a_failure_nothing_is_counted),
		cmocka_unit_test(refused_runs_are_lost_and_others_leave),
		cmocka_unit_test(without_an_interface_all_is_lost),
		cmocka_unit_test(errors_that_come_back_end_the_counting),
		cmocka_unit_test(other_paths_are_counted_too),
		cmocka_unit_test(routes_may_change),
		cmocka_unit_test(ipv6_has_no_number),
		cmocka_unit_test(who_must_not_connect_does_not),
		cmocka_unit_test(what_cannot_be_learnt_is_not_counted),
		cmocka_unit_test(samples_reach_no_receiver),
		cmocka_unit_test(who_sends_nothing_does_not_learn),
		cmocka_unit_test(who_is_passed_by_gives_no_numbers),
		cmocka_unit_test(threads_take_turns),
		cmocka_unit_test(a_crowd_ends_the_counting),
	};

	enter_namespace();
	wire = tunnel_open(TUNNEL);
	tunnel_set_queue(TUNNEL, 10000);
	tunnel_set_up(TUNNEL, true);
	tunnel_set_address(TUNNEL, address4, 24);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
