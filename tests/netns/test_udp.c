/* SPDX-License-Identifier: MIT
 *
 * UDP sockets as RoCEv2 uses them, on the loopback of a network namespace of our own: runs and bundles, what a packet
 * tells about itself, the way out when the kernel refuses segmentation, groups of sockets on port 4791 and the steering
 * program in them. Some of these are facts about the kernel that the design stands on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <linux/filter.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/port_group.h"
#include "daemon/steering.h"
#include "io/clock.h"
#include "io/descriptor.h"
#include "io/event.h"
#include "io/process_memory.h"
#include "io/udp.h"
#include "lib/patience.h"
#include "namespace.h"
#include "wire/burst.h"
#include "wire/icrc.h"
#include "wire/roce_opcode.h"

enum { PORT = 0xc123, PAYLOAD = 1000 };

static const uint8_t loopback4[16] = {[10] = 0xff, 0xff, 127, 0, 0, 1};
static const uint8_t second4[16] = {[10] = 0xff, 0xff, 127, 0, 0, 9};
static const uint8_t loopback6[16] = {[15] = 1};
static uint8_t payload[PAYLOAD];

static struct vb_path make_path(bool ipv6)
{
	struct vb_path path = {.source_port = PORT, .traffic_class = 0x2a, .hop_limit = 33};

	memcpy(path.source, ipv6 ? loopback6 : second4, 16);
	memcpy(path.destination, ipv6 ? loopback6 : loopback4, 16);
	return path;
}

static struct vb_burst *make_burst(const struct vb_path *path, unsigned packets, uint32_t qpn)
{
	struct vb_burst *burst = malloc(sizeof(*burst));

	assert_non_null(burst);
	vb_burst_reset(burst);
	for (unsigned i = 0; i < packets; i++) {
		struct vb_roce_packet packet = {.opcode = 0x01, .op = vb_roce_opcode(0x01), .pkey = 0xffff,
						.destination_qpn = qpn, .psn = psn_of(i)};
		struct iovec span = {payload, PAYLOAD};

		assert_true(vb_burst_has_room(burst, PAYLOAD));
		vb_burst_append(burst, path, &packet, &span, 1);
	}
	assert_int_equal(burst->runs, 1);
	return burst;
}

static int next_batch(struct vb_udp_batch *batch, int fd, bool ipv6, vb_time deadline)
{
	struct vb_wait_item item = {.fd = fd};

	vb_wait(&item, 1, deadline);
	return vb_udp_batch_receive(batch, fd, ipv6);
}

/* Take so many packets, and what else is there; returns how many came. What was sent is not always there at once: a
 * busy kernel hands it to a thread of its own. */
static unsigned collect(int fd, bool ipv6, const struct vb_path *path, unsigned expected, unsigned *bundles, uint16_t *first_id)
{
	vb_time end = vb_clock_now() + VB_SECONDS(PATIENCE_SECONDS);
	struct vb_udp_batch *batch = vb_udp_batch_create();
	unsigned packets = 0;
	int count;

	assert_non_null(batch);
	*bundles = 0;
	while ((count = next_batch(batch, fd, ipv6, packets < expected ? end : 0)) > 0) {
		for (int b = 0; b < count; b++) {
			const struct vb_udp_bundle *bundle = vb_udp_batch_at(batch, (unsigned)b);
			unsigned index = 0;

			++*bundles;
			assert_memory_equal(bundle->from.source, path->source, 16);
			assert_memory_equal(bundle->from.destination, path->destination, 16);
			assert_int_equal(bundle->from.source_port, PORT);
			assert_int_equal(bundle->from.traffic_class, path->traffic_class);
			assert_int_equal(bundle->from.hop_limit, path->hop_limit);
			assert_true(bundle->from.interface_index > 0);
			for (size_t at = 0; at < bundle->length; at += bundle->segment, index++) {
				struct vb_roce_packet packet;
				const uint8_t *bytes = bundle->bytes + at;
				uint32_t crc = vb_icrc_begin(&bundle->from, 0, bundle->segment);

				assert_int_equal(vb_roce_packet_decode(&packet, bytes, bundle->segment, &bundle->from,
								       true, (uint16_t)index), VB_PACKET_OK);
				assert_int_equal(packet.psn.v, packets++);
				assert_int_equal(packet.payload_length, PAYLOAD);
				assert_memory_equal(packet.payload, payload, PAYLOAD);
				/* Was the ICRC computed for identification 0? */
				crc = vb_icrc_headers(crc, bytes, bundle->segment - 4);
				vb_icrc_store(crc, (uint8_t *)&crc);
				*first_id += memcmp(&crc, bytes + bundle->segment - 4, 4) == 0;
			}
		}
	}
	vb_udp_batch_destroy(batch);
	return packets;
}

static void send_and_receive(bool ipv6, unsigned packets, bool refuse_segments)
{
	struct vb_path path = make_path(ipv6);
	struct vb_burst *burst = make_burst(&path, packets, 5);
	int receiver = vb_udp_open_receiver(ipv6, VB_ROCE_PORT), sender = vb_udp_open_sender(ipv6, PORT), one = 1;
	unsigned bundles;
	uint16_t with_id_0 = 0;
	uint32_t lost = 99;

	assert_true(receiver >= 0 && sender >= 0);
	/* The kernel does not segment what has no checksum (udp(7)). */
	if (refuse_segments)
		assert_int_equal(setsockopt(sender, ipv6 ? IPPROTO_UDP : SOL_SOCKET, ipv6 ? UDP_NO_CHECK6_TX : SO_NO_CHECK, &one,
					    sizeof(one)), 0);
	assert_int_equal(vb_udp_send_run(sender, burst, 0, &lost), 0);
	assert_int_equal(lost, 0);
	assert_int_equal(collect(receiver, ipv6, &path, packets, &bundles, &with_id_0), packets);
	if (refuse_segments || packets == 1)
		assert_int_equal(bundles, packets);
	else
		assert_true(bundles < packets);
	/* Over IPv6 there is no identification: any of them is "computed for 0". */
	assert_int_equal(with_id_0, refuse_segments || ipv6 ? packets : 1);
	close(receiver);
	close(sender);
	free(burst);
}

static void a_run_arrives_as_a_bundle(void **state)
{
	(void)state;
	for (unsigned packets = 1; packets <= 60; packets += packets < 4 ? 1 : 28) {
		send_and_receive(false, packets, false);
		send_and_receive(true, packets, false);
	}
}

static void refused_segments_go_one_by_one(void **state)
{
	(void)state;
	send_and_receive(false, 7, true);
	/* Nor does an IPv6 socket take it, unless told to; the kernel's rxe sends no checksum. */
	send_and_receive(true, 7, true);
}

static void what_cannot_be_sent_is_lost(void **state)
{
	struct vb_path path = make_path(false);
	struct vb_burst *burst;
	int sender = vb_udp_open_sender(false, PORT);
	uint32_t lost = 0;

	(void)state;
	/* No route. */
	path.destination[12] = 203;
	burst = make_burst(&path, 3, 5);
	assert_true(vb_udp_send_run(sender, burst, 0, &lost) < 0);
	assert_int_equal(lost, 3);
	close(sender);
	free(burst);
}

/* By a socket of `own`, on `path`: `collect` sees whether it says what the path says. */
static void send_from(const struct vb_path *own, const struct vb_path *path, bool has_address)
{
	struct vb_path said = *own;
	bool ipv6 = !vb_path_is_ipv4(own);
	int receiver = vb_udp_open_receiver(ipv6, VB_ROCE_PORT), sender = vb_udp_open_sender_of(&said);
	struct vb_burst *burst = make_burst(path, 3, 5);
	static const uint8_t nobody[16];
	uint16_t ids = 0;
	unsigned bundles;

	assert_true(receiver >= 0 && sender >= 0);
	assert_memory_equal(said.source, has_address ? own->source : nobody, 16);
	assert_int_equal(vb_udp_send_runs(sender, &said, burst, 0, 1), 0);
	assert_int_equal(collect(receiver, ipv6, path, 3, &bundles, &ids), 3);
	assert_int_equal(ids, ipv6 ? 3 : 1);
	close(receiver);
	close(sender);
	free(burst);
}

static void sockets_say_what_the_path_says(void **state)
{
	(void)state;
	for (unsigned ipv6 = 0; ipv6 < 2; ipv6++) {
		struct vb_path own = make_path(ipv6), path = own;

		send_from(&own, &path, true);
		path.traffic_class = 0;
		send_from(&own, &path, true);
		path.hop_limit = 1;
		send_from(&own, &path, true);
		path.traffic_class = own.traffic_class;
		send_from(&own, &path, true);
		own.traffic_class = own.hop_limit = 0;
		send_from(&own, &path, true);
		/* An address that is not ours. */
		own.source[ipv6 ? 1 : 12] = 203;
		send_from(&own, &path, false);
	}
}

static void sockets_send_from_other_addresses(void **state)
{
	struct vb_path own = make_path(false), path = own;

	(void)state;
	memcpy(path.source, loopback4, 16);
	send_from(&own, &path, true);
	path.interface_index = if_nametoindex("lo");
	send_from(&own, &path, true);
}

/* Neither address nor hop limit of a socket are those of what it sends to groups. */
static void groups_hear_what_the_path_says(void **state)
{
	const uint8_t group4[16] = {[10] = 0xff, 0xff, 239, 1, 2, 3};
	struct vb_path own = make_path(false), path = own;
	struct vb_burst *burst;
	int member = vb_udp_open_receiver(false, VB_ROCE_PORT), sender;
	uint16_t ids = 0;
	unsigned bundles;

	(void)state;
	memcpy(path.destination, group4, 16);
	path.interface_index = if_nametoindex("lo");
	sender = vb_udp_open_sender_of(&own);
	burst = make_burst(&path, 1, 0xffffff);
	assert_true(member >= 0 && sender >= 0);
	assert_int_equal(vb_udp_join(member, group4, path.interface_index, true), 0);
	assert_int_equal(vb_udp_send_runs(sender, &own, burst, 0, 1), 0);
	assert_int_equal(collect(member, false, &path, 1, &bundles, &ids), 1);
	close(member);
	close(sender);
	free(burst);
}

static void source_ports_are_exclusive(void **state)
{
	int first = vb_udp_open_sender(false, PORT), six = vb_udp_open_sender(true, PORT);
	struct vb_path path = make_path(false);

	(void)state;
	assert_true(first >= 0 && six >= 0);
	assert_int_equal(vb_udp_open_sender(false, PORT), -EADDRINUSE);
	assert_int_equal(vb_udp_open_sender_of(&path), -EADDRINUSE);
	close(first);
	first = vb_udp_open_sender_of(&path);
	assert_true(first >= 0);
	assert_int_equal(vb_udp_open_sender(false, PORT), -EADDRINUSE);
	assert_int_equal(vb_udp_open_sender_of(&path), -EADDRINUSE);
	close(first);
	close(six);
}

/* Takes it, too. -1: nobody has. */
static int who_has_something(const int *fd, unsigned count)
{
	char room[64];

	for (unsigned i = 0; i < count; i++)
		if (fd[i] >= 0 && vb_descriptor_receive(fd[i], room, sizeof(room)) >= 0)
			return (int)i;
	return -1;
}

static int who_gets(const int *fd, unsigned count, bool ipv6, const void *bytes, size_t length)
{
	int found;

	assert_int_equal(who_has_something(fd, count), -1);
	assert_int_equal(vb_udp_send_loopback(fd[0], ipv6, VB_ROCE_PORT, bytes, length), 0);
	(void)eventually((found = who_has_something(fd, count)) >= 0);
	return found;
}

static int who_gets_qpn(const int *fd, unsigned count, bool ipv6, uint32_t qpn)
{
	uint8_t packet[16] = {[0] = 4, [5] = (uint8_t)(qpn >> 16), (uint8_t)(qpn >> 8), (uint8_t)qpn};

	return who_gets(fd, count, ipv6, packet, sizeof(packet));
}

static int who_gets_probe(const int *fd, unsigned count, bool ipv6, uint32_t index)
{
	struct vb_daemon_probe probe = {be32_of(VB_DAEMON_PROBE_MAGIC), be32_of(index), be64_of(1)};

	return who_gets(fd, count, ipv6, &probe, sizeof(probe));
}

/* The kernel runs the program, gives indices in the order of joining, and moves the last into the hole. */
static void the_kernel_steers(void **state)
{
	static struct sock_filter program[VB_STEERING_INSTRUCTIONS];
	const struct vb_steering_entry entries[] = {{3, 1}, {500, 2}, {1023, 3}};

	(void)state;
	for (unsigned family = 0; family < 2; family++) {
		bool ipv6 = family == 1;
		int fd[5], copy;

		for (unsigned i = 0; i < 5; i++) {
			fd[i] = vb_udp_open_receiver(ipv6, VB_ROCE_PORT);
			assert_true(vb_udp_is_receiver(fd[i], ipv6, VB_ROCE_PORT));
			assert_false(vb_udp_is_receiver(fd[i], !ipv6, VB_ROCE_PORT));
		}
		assert_int_equal(vb_udp_attach_program(fd[0], program,
						       vb_steering_generate(program, entries, 3, 0)), 0);
		assert_int_equal(who_gets_qpn(fd, 5, ipv6, 3 << 14 | 77), 1);
		assert_int_equal(who_gets_qpn(fd, 5, ipv6, 500 << 14), 2);
		assert_int_equal(who_gets_qpn(fd, 5, ipv6, 0xffffff), 3);
		assert_int_equal(who_gets_qpn(fd, 5, ipv6, 1), 0);
		assert_int_equal(who_gets_qpn(fd, 5, ipv6, 4 << 14), 0);
		for (uint32_t i = 0; i < 5; i++)
			assert_int_equal(who_gets_probe(fd, 5, ipv6, i), i);
		/* Leaves although somebody holds a copy; the last takes its place. */
		copy = vb_descriptor_duplicate(fd[1]);
		assert_int_equal(vb_udp_cookie(copy), vb_udp_cookie(fd[1]));
		assert_int_equal(vb_udp_leave_group(fd[1], ipv6), 0);
		assert_int_equal(who_gets_probe(fd, 5, ipv6, 1), 4);
		assert_int_equal(who_gets_probe(fd, 5, ipv6, 2), 2);
		close(copy);
		close(fd[1]);
		fd[1] = -1;
		assert_int_equal(who_gets_probe(fd, 5, ipv6, 1), 4);
		close(fd[2]);
		fd[2] = -1;
		assert_int_equal(who_gets_probe(fd, 5, ipv6, 2), 3);
		close(fd[0]);
		close(fd[3]);
		close(fd[4]);
	}
}

/* The mirror stays true through random comings and goings. */
static void the_group_mirrors_the_kernel(void **state)
{
	static struct vb_port_group group;
	uint32_t slots[40], count = 0;
	unsigned seed = 12;
	char why[248];

	(void)state;
	print_message("seed %u\n", seed);
	srand(seed);
	vb_port_group_init(&group, VB_ROCE_PORT);
	assert_int_equal(vb_port_group_open(&group, why, sizeof(why)), 0);
	assert_true(group.settled);
	for (unsigned step = 0; step < 150; step++) {
		if (count < 2 || (count < 40 && rand() % 2)) {
			do
				slots[count] = 1 + (uint32_t)rand() % 1023;
			while (group.taken[slots[count]]);
			assert_int_equal(vb_port_group_add(&group, slots[count], why, sizeof(why)), 0);
			count++;
		} else {
			unsigned leaving = (unsigned)rand() % count;

			vb_port_group_remove(&group, slots[leaving]);
			slots[leaving] = slots[--count];
		}
		for (unsigned family = 0; family < VB_GROUP_FAMILIES; family++) {
			int fd[41] = {group.family[family].fd[0]};
			unsigned i = (unsigned)rand() % count;

			for (unsigned s = 0; s < count; s++)
				fd[s + 1] = group.family[family].fd[slots[s]];
			assert_int_equal(who_gets_qpn(fd, count + 1, family == VB_GROUP_IPV6, slots[i] << 14), i + 1);
			assert_int_equal(who_gets_qpn(fd, count + 1, family == VB_GROUP_IPV6, 1), 0);
		}
	}
	vb_port_group_close(&group);
}

static uint32_t free_slot(const struct vb_port_group *group)
{
	uint32_t slot = 1;

	while (group->taken[slot])
		slot++;
	return slot;
}

static unsigned unknown_after_probes(struct vb_port_group *group, uint32_t slot, const int *fd)
{
	struct vb_daemon_probe probe;

	for (unsigned family = 0; family < 2; family++)
		while (vb_descriptor_receive(fd[family], &probe, sizeof(probe)) == sizeof(probe))
			vb_port_group_probe_seen(group, slot, 0, be64_get(probe.nonce));
	return vb_port_group_unknown(group);
}

static void a_second_daemon_finds_strangers(void **state)
{
	static struct vb_port_group first, second;
	static const uint32_t slot[] = {700, 3, 1023};
	char why[248];
	unsigned unknown;

	(void)state;
	vb_port_group_init(&first, VB_ROCE_PORT);
	vb_port_group_init(&second, VB_ROCE_PORT);
	assert_int_equal(vb_port_group_open(&first, why, sizeof(why)), 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(vb_port_group_add(&first, slot[i], why, sizeof(why)), 0);
	assert_int_equal(vb_port_group_open(&second, why, sizeof(why)), 0);
	assert_false(second.settled);
	unknown = vb_port_group_unknown(&second);
	assert_int_equal(unknown, 2 * 4);
	/* Its predecessor's own sockets are as good as new ones. */
	vb_port_group_adopt_own(&second, (int[]){first.family[0].fd[0], first.family[1].fd[0]});
	assert_int_equal(vb_port_group_unknown(&second), unknown - 2);
	for (unsigned i = 0; i < 3; i++) {
		const int fd[] = {first.family[0].fd[slot[i]], first.family[1].fd[slot[i]]};

		assert_int_equal(vb_port_group_adopt(&second, slot[i], fd), 0);
		assert_int_equal(vb_port_group_adopt(&second, slot[i], fd), -EBUSY);
		/* Nobody can claim a slot he was not given. */
		assert_int_equal(vb_port_group_adopt(&second, free_slot(&first), fd), -EINVAL);
		vb_port_group_probe(&second);
		assert_true(eventually(unknown_after_probes(&second, slot[i], fd) <= unknown - 2 - 2 * (i + 1)));
		assert_int_equal(vb_port_group_unknown(&second), unknown - 2 - 2 * (i + 1));
	}
	vb_port_group_settle(&second);
	assert_true(second.settled);
	for (unsigned family = 0; family < 2; family++) {
		assert_int_equal(first.family[family].order.members, second.family[family].order.members);
		assert_memory_equal(first.family[family].order.member, second.family[family].order.member,
				    first.family[family].order.members * sizeof(uint16_t));
	}
	vb_port_group_close(&first);
	vb_port_group_close(&second);
}

static void a_mark_cannot_be_changed(void **state)
{
	struct sock_filter instruction = {.code = BPF_RET | BPF_K, .k = 0};
	struct sock_fprog filter = {.len = 1, .filter = &instruction};
	int fd = vb_udp_open_receiver(false, VB_ROCE_PORT);
	uint16_t mark;

	(void)state;
	assert_int_equal(vb_udp_read_mark(fd, &mark), -ENOENT);
	assert_int_equal(vb_udp_mark(fd, 777), 0);
	assert_int_equal(vb_udp_read_mark(fd, &mark), 0);
	assert_int_equal(mark, 777);
	assert_int_equal(vb_udp_mark(fd, 778), -EPERM);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &(int){0}, sizeof(int)), -1);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)), -1);
	assert_int_equal(vb_udp_attach_program(fd, &instruction, 1), -EPERM);
	assert_int_equal(vb_udp_read_mark(fd, &mark), 0);
	assert_int_equal(mark, 777);
	assert_int_equal(who_gets_qpn(&fd, 1, false, 1), 0);
	close(fd);
	/* A filter that only looks like one is none. */
	fd = vb_udp_open_receiver(false, VB_ROCE_PORT);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)), 0);
	assert_int_equal(vb_udp_read_mark(fd, &mark), -ENOENT);
	close(fd);
}

static void multicast_needs_membership(void **state)
{
	const uint8_t group4[16] = {[10] = 0xff, 0xff, 239, 1, 2, 3};
	struct vb_path path = make_path(false);
	struct vb_burst *burst;
	int member = vb_udp_open_receiver(false, VB_ROCE_PORT), other = vb_udp_open_receiver(false, VB_ROCE_PORT);
	int sender = vb_udp_open_sender(false, PORT);
	uint16_t ids = 0;
	unsigned bundles;
	uint32_t lost;
	char byte;

	(void)state;
	memcpy(path.source, loopback4, 16);
	memcpy(path.destination, group4, 16);
	path.interface_index = if_nametoindex("lo");
	burst = make_burst(&path, 1, 0xffffff);
	assert_int_equal(vb_udp_join(member, group4, path.interface_index, true), 0);
	assert_int_equal(vb_udp_send_run(sender, burst, 0, &lost), 0);
	assert_int_equal(collect(member, false, &path, 1, &bundles, &ids), 1);
	assert_true(vb_descriptor_receive(other, &byte, 1) < 0);
	assert_int_equal(vb_udp_join(member, group4, path.interface_index, false), 0);
	assert_int_equal(vb_udp_send_run(sender, burst, 0, &lost), 0);
	assert_true(vb_descriptor_receive(member, &byte, 1) < 0);
	close(member);
	close(other);
	close(sender);
	free(burst);
}

static void unmapped_memory_is_an_error(void **state)
{
	uint64_t value = 7, copy = 0;

	(void)state;
	assert_int_equal(vb_process_memory_read(NULL, &copy, (uintptr_t)&value, 8), 0);
	assert_int_equal(copy, 7);
	copy = 9;
	assert_int_equal(vb_process_memory_write(NULL, (uintptr_t)&value, &copy, 8), 0);
	assert_int_equal(value, 9);
	assert_int_equal(vb_process_memory_read(NULL, &copy, 4096, 8), -EFAULT);
	assert_int_equal(vb_process_memory_write(NULL, 4096, &copy, 8), -EFAULT);
	assert_int_equal(vb_process_memory_write(NULL, (uintptr_t)"constant", &copy, 8), -EFAULT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_run_arrives_as_a_bundle),
		cmocka_unit_test(refused_segments_go_one_by_one),
		cmocka_unit_test(what_cannot_be_sent_is_lost),
		cmocka_unit_test(sockets_say_what_the_path_says),
		cmocka_unit_test(sockets_send_from_other_addresses),
		cmocka_unit_test(groups_hear_what_the_path_says),
		cmocka_unit_test(source_ports_are_exclusive),
		cmocka_unit_test(the_kernel_steers),
		cmocka_unit_test(the_group_mirrors_the_kernel),
		cmocka_unit_test(a_second_daemon_finds_strangers),
		cmocka_unit_test(a_mark_cannot_be_changed),
		cmocka_unit_test(multicast_needs_membership),
		cmocka_unit_test(unmapped_memory_is_an_error),
	};

	enter_namespace();
	for (unsigned i = 0; i < PAYLOAD; i++)
		payload[i] = (uint8_t)(i * 7);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
