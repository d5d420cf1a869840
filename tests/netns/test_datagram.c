/* SPDX-License-Identifier: MIT
 *
 * Datagrams of cables in batches, on the loopback of a network namespace of our own: what is of one length and for one address travels as
 * one, everything arrives in order and whole, and the way out when the kernel refuses segmentation.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/datagram.h"
#include "io/datagram_batch.h"
#include "namespace.h"

enum { FIRST = 14791, SECOND = 14792, HEAD = 8 };

static const uint8_t loopback4[16] = {[10] = 0xff, 0xff, 127, 0, 0, 1}, second4[16] = {[10] = 0xff, 0xff, 127, 0, 0, 9};
static int fds[2];
static struct vb_datagram_batch *batch;
static struct vb_datagram_queue *queue;

static void set_mtu(int mtu)
{
	struct ifreq request = {.ifr_name = "lo", .ifr_mtu = mtu};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	assert_true(fd >= 0);
	assert_int_equal(ioctl(fd, SIOCSIFMTU, &request), 0);
	close(fd);
}

static int open_all(void **state)
{
	(void)state;
	fds[0] = vb_datagram_open(FIRST);
	fds[1] = vb_datagram_open(SECOND);
	batch = vb_datagram_batch_create();
	queue = batch ? vb_datagram_queue_create(fds[0], batch) : NULL;
	return fds[0] < 0 || fds[1] < 0 || !queue;
}

static int close_all(void **state)
{
	(void)state;
	vb_datagram_queue_destroy(queue);
	vb_datagram_batch_destroy(batch);
	close(fds[0]);
	close(fds[1]);
	return 0;
}

/* A datagram of `length` bytes that say which it is. */
static void add(const uint8_t gid[16], uint16_t port, uint8_t number, size_t length)
{
	uint8_t bytes[4096];

	memset(bytes, number, length);
	vb_datagram_queue_add(queue, gid, port, 0, bytes, HEAD, bytes + HEAD, length - HEAD);
}

struct seen {
	unsigned bundles, datagrams;
	uint8_t number[1024];
	size_t length[1024];
};

static struct seen receive(int fd)
{
	struct seen seen = {0};
	unsigned count;

	/* On loopback what was sent has arrived. */
	while ((count = vb_datagram_batch_receive(batch, fd)) > 0) {
		seen.bundles += count;
		for (unsigned i = 0; i < count; i++) {
			struct vb_datagram_bundle *bundle = vb_datagram_batch_at(batch, i);

			assert_int_equal(bundle->port, FIRST);
			for (size_t at = 0; at < bundle->length; at += bundle->segment, seen.datagrams++) {
				size_t own = bundle->length - at < bundle->segment ? bundle->length - at : bundle->segment;

				seen.number[seen.datagrams] = bundle->bytes[at];
				seen.length[seen.datagrams] = own;
				for (size_t i2 = 0; i2 < own; i2++)
					assert_int_equal(bundle->bytes[at + i2], bundle->bytes[at]);
			}
		}
	}
	return seen;
}

static void check_datagrams(const struct seen *seen, const size_t *length, unsigned count)
{
	assert_int_equal(seen->datagrams, count);
	for (unsigned i = 0; i < count; i++) {
		assert_int_equal(seen->number[i], i + 1);
		assert_int_equal(seen->length[i], length[i]);
	}
}

static void equal_lengths_travel_as_one(void **state)
{
	static const size_t length[] = {1000, 1000, 1000, 500, 1000, 1000, 2000};
	struct seen seen;

	(void)state;
	for (uint8_t i = 0; i < 7; i++)
		add(loopback4, SECOND, (uint8_t)(i + 1), length[i]);
	assert_int_equal(vb_datagram_batch_receive(batch, fds[1]), 0);
	vb_datagram_queue_flush(queue);
	seen = receive(fds[1]);
	check_datagrams(&seen, length, 7);
	/* Three and a shorter one; two; a longer one. */
	assert_int_equal(seen.bundles, 3);
}

static void addresses_are_kept_apart(void **state)
{
	struct seen seen;

	(void)state;
	for (uint8_t i = 1; i <= 6; i++)
		add(i % 3 == 1 ? second4 : loopback4, i % 2 ? SECOND : FIRST, i, 100);
	vb_datagram_queue_flush(queue);
	seen = receive(fds[1]);
	assert_int_equal(seen.datagrams, 3);
	seen = receive(fds[0]);
	assert_int_equal(seen.datagrams, 3);
	assert_int_equal(seen.number[0], 2);
}

static void a_full_queue_is_flushed(void **state)
{
	struct seen seen;
	uint8_t number = 0;

	(void)state;
	/* More runs than it holds, then more bytes than it copies. */
	for (unsigned i = 0; i < 40; i++)
		add(loopback4, i % 2 ? SECOND : FIRST, 7, 64);
	for (unsigned i = 0; i < 100; i++)
		add(loopback4, SECOND, ++number, 4000);
	vb_datagram_queue_flush(queue);
	assert_int_equal(receive(fds[0]).datagrams, 20);
	seen = receive(fds[1]);
	assert_int_equal(seen.datagrams, 20 + 100);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(seen.number[20 + i], i + 1);
}

/* What was received goes on from where it lies: nothing is copied, and a change before the flush is seen. */
static void received_bodies_are_sent_from_their_place(void **state)
{
	struct vb_datagram_bundle *bundle;
	struct seen seen;

	(void)state;
	add(loopback4, FIRST, 1, 300);
	vb_datagram_queue_flush(queue);
	assert_int_equal(vb_datagram_batch_receive(batch, fds[0]), 1);
	bundle = vb_datagram_batch_at(batch, 0);
	vb_datagram_queue_add(queue, loopback4, SECOND, 0, "\2\2\2\2\2\2\2\2", HEAD, bundle->bytes + HEAD, 300 - HEAD);
	memset(bundle->bytes + HEAD, 2, 300 - HEAD);
	vb_datagram_queue_flush(queue);
	seen = receive(fds[1]);
	assert_int_equal(seen.datagrams, 1);
	assert_int_equal(seen.number[0], 2);
}

/* Datagrams that were received one behind the other go on so, as many as one call takes; where they are too long, one by one. */
static void received_runs_are_sent_from_their_place(void **state)
{
	struct vb_datagram_bundle *bundle;

	(void)state;
	for (int mtu = 65536; mtu >= 1500; mtu -= 65536 - 1500) {
		struct seen seen;

		add(loopback4, FIRST, 1, 300);
		vb_datagram_queue_flush(queue);
		assert_int_equal(vb_datagram_batch_receive(batch, fds[0]), 1);
		bundle = vb_datagram_batch_at(batch, 0);
		for (unsigned i = 0; i < 30; i++)
			memset(bundle->bytes + i * 2000, (int)i + 1, 2000);
		set_mtu(mtu);
		vb_datagram_queue_add_run(queue, loopback4, SECOND, 0, bundle->bytes, 2000, 30);
		add(loopback4, SECOND, 31, 500);
		vb_datagram_queue_flush(queue);
		set_mtu(65536);
		seen = receive(fds[1]);
		assert_int_equal(seen.datagrams, 31);
		assert_int_equal(seen.bundles, mtu == 65536 ? 1 : 31);
		for (unsigned i = 0; i < 31; i++) {
			assert_int_equal(seen.number[i], i + 1);
			assert_int_equal(seen.length[i], i < 30 ? 2000 : 500);
		}
	}
	/* More than a call takes. */
	add(loopback4, FIRST, 1, 300);
	vb_datagram_queue_flush(queue);
	assert_int_equal(vb_datagram_batch_receive(batch, fds[0]), 1);
	bundle = vb_datagram_batch_at(batch, 0);
	memset(bundle->bytes, 9, 200 * 100);
	vb_datagram_queue_add_run(queue, loopback4, SECOND, 0, bundle->bytes, 100, 200);
	vb_datagram_queue_flush(queue);
	assert_int_equal(receive(fds[1]).datagrams, 200);
}

static void segments_beyond_the_mtu_go_one_by_one(void **state)
{
	static const size_t length[] = {3000, 3000, 3000, 100};
	struct seen seen;

	(void)state;
	set_mtu(1500);
	for (uint8_t i = 0; i < 4; i++)
		add(loopback4, SECOND, (uint8_t)(i + 1), length[i]);
	vb_datagram_queue_flush(queue);
	set_mtu(65536);
	seen = receive(fds[1]);
	check_datagrams(&seen, length, 4);
}

/* A connected socket reports with the next datagram that an earlier one was refused: the next is sent all the same. */
static void a_refusal_of_the_former_does_not_hold_the_next(void **state)
{
	uint8_t bytes[HEAD] = {5, 5, 5, 5, 5, 5, 5, 5};
	struct iovec part = {bytes, sizeof(bytes)};
	struct pollfd refused = {.fd = fds[0]}, arrived = {.events = POLLIN};

	(void)state;
	close(fds[1]);
	assert_int_equal(vb_datagram_connect(fds[0], loopback4, SECOND, 0), 0);
	assert_int_equal(vb_datagram_send_run(fds[0], &part, 1, 1, sizeof(bytes)), 0);
	assert_int_equal(poll(&refused, 1, 10000), 1);
	arrived.fd = fds[1] = vb_datagram_open(SECOND);
	assert_true(fds[1] >= 0);
	assert_int_equal(vb_datagram_send_run(fds[0], &part, 1, 1, sizeof(bytes)), 0);
	assert_int_equal(poll(&arrived, 1, 10000), 1);
	assert_int_equal(receive(fds[1]).datagrams, 1);
}

/* The kernel chooses the local address for the first and would keep it for the second, from where it may lead nowhere. */
static void connecting_again_chooses_the_local_address_again(void **state)
{
	static const uint8_t loopback6[16] = {[15] = 1};
	union vb_datagram_address own;
	socklen_t length = sizeof(own);
	uint8_t gid[16];
	uint32_t interface_index;
	uint16_t port;
	bool has_ipv6;
	int other;

	(void)state;
	other = vb_datagram_open(0);
	has_ipv6 = other >= 0 && vb_datagram_connect(other, loopback6, SECOND, 0) == 0;
	close(other);
	if (!has_ipv6)
		skip();
	assert_int_equal(vb_datagram_connect(fds[0], second4, SECOND, 0), 0);
	assert_int_equal(vb_datagram_connect(fds[0], loopback6, SECOND, 0), 0);
	assert_int_equal(getsockname(fds[0], &own.any, &length), 0);
	vb_datagram_read_address(&own, gid, &port, &interface_index);
	assert_memory_equal(gid, loopback6, sizeof(gid));
	assert_int_equal(port, FIRST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(equal_lengths_travel_as_one, open_all, close_all),
		cmocka_unit_test_setup_teardown(addresses_are_kept_apart, open_all, close_all),
		cmocka_unit_test_setup_teardown(a_full_queue_is_flushed, open_all, close_all),
		cmocka_unit_test_setup_teardown(received_bodies_are_sent_from_their_place, open_all, close_all),
		cmocka_unit_test_setup_teardown(received_runs_are_sent_from_their_place, open_all, close_all),
		cmocka_unit_test_setup_teardown(segments_beyond_the_mtu_go_one_by_one, open_all, close_all),
		cmocka_unit_test_setup_teardown(a_refusal_of_the_former_does_not_hold_the_next, open_all, close_all),
		cmocka_unit_test_setup_teardown(connecting_again_chooses_the_local_address_again, open_all, close_all),
	};

	enter_namespace();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
