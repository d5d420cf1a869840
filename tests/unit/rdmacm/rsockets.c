/* SPDX-License-Identifier: MIT */
#include "rsockets.h"

#include <arpa/inet.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void set_sizes(int socket, int buffer, int iomaps)
{
	if (buffer > 0) {
		assert_int_equal(rsetsockopt(socket, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer)), 0);
		assert_int_equal(rsetsockopt(socket, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer)), 0);
	}
	if (iomaps > 0)
		assert_int_equal(rsetsockopt(socket, SOL_RDMA, RDMA_IOMAPSIZE, &iomaps, sizeof(iomaps)), 0);
}

int listening(struct sockaddr_in *address, int buffer, int iomaps)
{
	socklen_t length = sizeof(*address);
	int listener = rsocket(AF_INET, SOCK_STREAM, 0);

	assert_true(listener >= 0);
	set_sizes(listener, buffer, iomaps);
	*address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	assert_int_equal(rbind(listener, (struct sockaddr *)address, sizeof(*address)), 0);
	assert_int_equal(rlisten(listener, 10), 0);
	assert_int_equal(rgetsockname(listener, (struct sockaddr *)address, &length), 0);
	assert_int_equal(length, sizeof(*address));
	assert_int_not_equal(address->sin_port, 0);
	return listener;
}

void connected(int pair[2], int buffer, int iomaps)
{
	struct sockaddr_in address;
	int listener = listening(&address, buffer, iomaps);

	pair[0] = rsocket(AF_INET, SOCK_STREAM, 0);
	assert_true(pair[0] >= 0);
	set_sizes(pair[0], buffer, iomaps);
	assert_int_equal(rconnect(pair[0], (struct sockaddr *)&address, sizeof(address)), 0);
	pair[1] = raccept(listener, NULL, NULL);
	assert_true(pair[1] >= 0);
	assert_int_equal(rclose(listener), 0);
}

void close_both(int pair[2])
{
	assert_int_equal(rclose(pair[0]), 0);
	assert_int_equal(rclose(pair[1]), 0);
}

uint8_t stream_byte(uint64_t place)
{
	return (uint8_t)(place * 2654435761u >> 13 ^ place);
}

void send_stream(int socket, uint64_t from, size_t length)
{
	uint8_t bytes[30000];

	while (length > 0) {
		size_t now = length < sizeof(bytes) ? length : sizeof(bytes);
		ssize_t sent;

		for (size_t i = 0; i < now; i++)
			bytes[i] = stream_byte(from + i);
		sent = rsend(socket, bytes, now, 0);
		assert_true(sent > 0);
		from += (uint64_t)sent;
		length -= (size_t)sent;
	}
}

void expect_stream(int socket, uint64_t from, size_t length)
{
	uint8_t bytes[30000];

	while (length > 0) {
		ssize_t got = rrecv(socket, bytes, length < sizeof(bytes) ? length : sizeof(bytes), 0);

		assert_true(got > 0);
		for (ssize_t i = 0; i < got; i++)
			assert_int_equal(bytes[i], stream_byte(from + (uint64_t)i));
		from += (uint64_t)got;
		length -= (size_t)got;
	}
}

short poll_one(int socket, short events, int timeout)
{
	struct pollfd fd = {.fd = socket, .events = events};

	assert_true(rpoll(&fd, 1, timeout) >= 0);
	return fd.revents;
}
