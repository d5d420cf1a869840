/* SPDX-License-Identifier: MIT
 *
 * Datagram rsockets: the first message goes over UDP, the next over queue pairs; the program sees no difference.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cm.h"
#include "lib/patience.h"
#include "lib/private_network.h"
#include "rsockets.h"

enum { MOST = 2048 - 16 };

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static int bound(int family, union address *address, socklen_t *length)
{
	int socket = rsocket(family, SOCK_DGRAM, 0);

	assert_true(socket >= 0);
	memset(address, 0, sizeof(*address));
	address->any.sa_family = (sa_family_t)family;
	if (family == AF_INET)
		address->v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else
		address->v6.sin6_addr = in6addr_loopback;
	*length = family == AF_INET ? sizeof(address->v4) : sizeof(address->v6);
	assert_int_equal(rbind(socket, &address->any, *length), 0);
	assert_int_equal(rgetsockname(socket, &address->any, length), 0);
	return socket;
}

static void fill(uint8_t *bytes, size_t length, unsigned seed)
{
	for (size_t i = 0; i < length; i++)
		bytes[i] = stream_byte(i + seed);
}

/* `from` is the sender's address, as the receiver sees it. */
static void pass(int sender, const union address *to, socklen_t length, int receiver, size_t size, union address *from)
{
	uint8_t out[MOST], in[MOST + 1];
	socklen_t from_length = sizeof(*from);

	fill(out, size, (unsigned)size);
	assert_int_equal(rsendto(sender, out, size, 0, &to->any, length), size);
	memset(from, 0, sizeof(*from));
	assert_int_equal(rrecvfrom(receiver, in, sizeof(in), 0, &from->any, &from_length), size);
	assert_memory_equal(in, out, size);
	assert_int_equal(from_length, length);
}

static void there_and_back(int family)
{
	static const size_t sizes[] = {1, 0, 16, 100, 1000, 1016, 1017, 2000, 5, 5, 5, 5};
	union address a_address, b_address, from;
	socklen_t length;
	int a = bound(family, &a_address, &length), b = bound(family, &b_address, &length);

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		pass(a, &b_address, length, b, sizes[i], &from);
		assert_memory_equal(&from, &a_address, length);
		pass(b, &from, length, a, sizes[i], &from);
		assert_memory_equal(&from, &b_address, length);
	}
	rclose(a);
	rclose(b);
}

static void datagrams_of_all_sizes(void **state)
{
	(void)state;
	there_and_back(AF_INET);
	there_and_back(AF_INET6);
}

static void unbound_and_connected(void **state)
{
	union address server_address, from;
	int client = rsocket(AF_INET, SOCK_DGRAM, 0), server;
	socklen_t length, from_length = sizeof(from);
	char bytes[100];

	(void)state;
	server = bound(AF_INET, &server_address, &length);
	assert_int_equal(rsend(client, "x", 1, 0), -1);
	assert_int_equal(errno, EDESTADDRREQ);
	assert_int_equal(rconnect(client, &server_address.any, length), 0);
	assert_int_equal(rgetpeername(client, &from.any, &from_length), 0);
	assert_int_equal(from.v4.sin_port, server_address.v4.sin_port);
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(rsend(client, "question", 8, 0), 8);
		from_length = sizeof(from);
		assert_int_equal(rrecvfrom(server, bytes, sizeof(bytes), 0, &from.any, &from_length), 8);
		assert_memory_equal(bytes, "question", 8);
		assert_int_not_equal(from.v4.sin_port, 0);
		assert_int_equal(rsendto(server, "answer", 6, 0, &from.any, from_length), 6);
		assert_int_equal(rrecv(client, bytes, sizeof(bytes), 0), 6);
		assert_memory_equal(bytes, "answer", 6);
	}
	rclose(client);
	rclose(server);
}

static void too_much_too_little_and_not_yet(void **state)
{
	union address a_address, b_address, from;
	struct iovec halves[2];
	struct msghdr message = {.msg_iov = halves, .msg_iovlen = 2};
	uint8_t bytes[MOST + 1] = {0}, in[100];
	socklen_t length;
	int a, b;

	(void)state;
	a = bound(AF_INET, &a_address, &length);
	b = bound(AF_INET, &b_address, &length);
	assert_int_equal(rrecv(b, in, sizeof(in), MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(poll_one(b, POLLIN | POLLOUT, 0), POLLOUT);
	assert_int_equal(rsendto(a, bytes, MOST + 1, 0, &b_address.any, length), -1);
	assert_int_equal(errno, EMSGSIZE);
	pass(a, &b_address, length, b, MOST, &from);
	/* Cut to the room there is, and the rest is gone. */
	fill(bytes, 200, 9);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(rsendto(a, bytes, 200, 0, &b_address.any, length), 200);
		assert_int_equal(poll_one(b, POLLIN, PATIENCE_MS), POLLIN);
		assert_int_equal(rrecv(b, in, 50, MSG_PEEK), 50);
		halves[0] = (struct iovec){in, 10};
		halves[1] = (struct iovec){in + 10, 40};
		assert_int_equal(rrecvmsg(b, &message, 0), 50);
		assert_int_equal(message.msg_flags & MSG_TRUNC, MSG_TRUNC);
		assert_memory_equal(in, bytes, 50);
		assert_int_equal(rrecv(b, in, 50, MSG_DONTWAIT), -1);
	}
	assert_int_equal(rlisten(a, 1), -1);
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(rshutdown(b, SHUT_RD), 0);
	assert_int_equal(rrecv(b, in, 1, 0), 0);
	rclose(a);
	rclose(b);
}

/* Anything can arrive at a UDP port. */
static void strangers_are_ignored(void **state)
{
	static const uint8_t half_a_header[] = {0x55, 0x55, 0x55, 0x55, 4, 0, 16, 0, 0, 0, 0};
	union address address, other_address, from;
	int receiver, other, plain = socket(AF_INET, SOCK_DGRAM, 0);
	socklen_t length;
	uint8_t noise[3000];

	(void)state;
	receiver = bound(AF_INET, &address, &length);
	other = bound(AF_INET, &other_address, &length);
	/* No more than the socket holds before anybody looks: what comes after it must not be lost. */
	for (unsigned i = 0; i < 30; i++) {
		fill(noise, sizeof(noise), i * 77);
		assert_true(sendto(plain, noise, i * 97, 0, &address.any, length) >= 0);
	}
	assert_true(sendto(plain, half_a_header, sizeof(half_a_header), 0, &address.any, length) >= 0);
	pass(other, &address, length, receiver, 500, &from);
	pass(other, &address, length, receiver, 501, &from);
	assert_int_equal(poll_one(receiver, POLLIN, 0), 0);
	close(plain);
	rclose(receiver);
	rclose(other);
}

static void nothing_is_left_behind(void **state)
{
	union address a_address, b_address, from;
	unsigned before = 0;
	socklen_t length;

	(void)state;
	for (unsigned i = 0; i < 10; i++) {
		int a = bound(AF_INET, &a_address, &length), b = bound(AF_INET, &b_address, &length);

		pass(a, &b_address, length, b, 10, &from);
		pass(b, &a_address, length, a, 10, &from);
		/* A thread keeps what it is woken by from the first time that it sleeps, which else is now or in a later round. */
		if (i == 0)
			assert_int_equal(rpoll(&(struct pollfd){.fd = a, .events = POLLIN}, 1, 1), 0);
		rclose(a);
		rclose(b);
		if (i == 0)
			before = open_descriptors();
	}
	/* What the library closes in its own time, it closes soon; it may have had some of that open when we counted. */
	assert_true(eventually(open_descriptors() <= before));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(datagrams_of_all_sizes),
		cmocka_unit_test(unbound_and_connected),
		cmocka_unit_test(too_much_too_little_and_not_yet),
		cmocka_unit_test(strangers_are_ignored),
		cmocka_unit_test(nothing_is_left_behind),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
