/* SPDX-License-Identifier: MIT
 *
 * Stream rsockets: connecting, sending, receiving, ending. What TCP sockets would do is what is expected.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cm.h"
#include "lib/patience.h"
#include "lib/private_network.h"
#include "rsockets.h"

enum { LAST_WORDS = 900000 };

static void a_connection_is_made_before_anybody_accepts(void **state)
{
	struct sockaddr_in address, name, peer;
	socklen_t length = sizeof(name);
	int listener = listening(&address, 0, 0), client = rsocket(AF_INET, SOCK_STREAM, 0), server;

	(void)state;
	assert_int_equal(rgetpeername(client, (struct sockaddr *)&peer, &length), -1);
	assert_int_equal(errno, ENOTCONN);
	assert_int_equal(rconnect(client, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(rconnect(client, (struct sockaddr *)&address, sizeof(address)), -1);
	assert_int_equal(errno, EISCONN);
	send_stream(client, 0, 1000);
	assert_int_equal(poll_one(listener, POLLIN, PATIENCE_MS), POLLIN);
	length = sizeof(peer);
	server = raccept(listener, (struct sockaddr *)&peer, &length);
	assert_true(server >= 0);
	expect_stream(server, 0, 1000);
	length = sizeof(name);
	assert_int_equal(rgetsockname(client, (struct sockaddr *)&name, &length), 0);
	assert_int_equal(name.sin_port, peer.sin_port);
	assert_int_equal(name.sin_addr.s_addr, peer.sin_addr.s_addr);
	length = sizeof(peer);
	assert_int_equal(rgetpeername(client, (struct sockaddr *)&peer, &length), 0);
	assert_int_equal(peer.sin_port, address.sin_port);
	rclose(client);
	rclose(server);
	rclose(listener);
}

static void an_unaccepted_connection_ends_with_its_listener(void **state)
{
	struct sockaddr_in address;
	int listener = listening(&address, 0, 0), client = rsocket(AF_INET, SOCK_STREAM, 0);
	char byte;

	(void)state;
	assert_int_equal(rconnect(client, (struct sockaddr *)&address, sizeof(address)), 0);
	rclose(listener);
	assert_int_equal(rrecv(client, &byte, 1, 0), 0);
	rclose(client);
}

static void nobody_listens(void **state)
{
	struct sockaddr_in address;
	int listener = listening(&address, 0, 0), client = rsocket(AF_INET, SOCK_STREAM, 0), error;
	socklen_t length = sizeof(error);

	(void)state;
	rclose(listener);
	assert_int_equal(rconnect(client, (struct sockaddr *)&address, sizeof(address)), -1);
	assert_int_equal(errno, ECONNREFUSED);
	rclose(client);
	client = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	assert_int_equal(rconnect(client, (struct sockaddr *)&address, sizeof(address)), -1);
	assert_int_equal(errno, EINPROGRESS);
	assert_int_equal(poll_one(client, POLLOUT, PATIENCE_MS), POLLOUT | POLLERR | POLLHUP);
	assert_int_equal(rgetsockopt(client, SOL_SOCKET, SO_ERROR, &error, &length), 0);
	assert_int_equal(error, ECONNREFUSED);
	assert_int_equal(rgetsockopt(client, SOL_SOCKET, SO_ERROR, &error, &length), 0);
	assert_int_equal(error, 0);
	assert_int_equal(rsend(client, "x", 1, 0), -1);
	assert_int_equal(errno, ENOTCONN);
	rclose(client);
}

/* A number that was taken just before, while a lower one was in use that is free again. */
static int number_before(void)
{
	int low = open("/dev/null", O_RDONLY | O_CLOEXEC), number = open("/dev/null", O_RDONLY | O_CLOEXEC);

	assert_true(low >= 0 && number > low);
	close(low);
	return number;
}

/* What rdma-core 44's librspreload.so relies on. */
static void numbers_are_above_those_before(void **state)
{
	struct sockaddr_in address;
	int listener = listening(&address, 0, 0), client = rsocket(AF_INET, SOCK_STREAM, 0), before = number_before(),
	    stream = rsocket(AF_INET, SOCK_STREAM, 0), later = number_before(), datagram = rsocket(AF_INET, SOCK_DGRAM, 0), last, server;

	(void)state;
	assert_true(stream > before);
	assert_true(datagram > later);
	assert_int_equal(rconnect(client, (struct sockaddr *)&address, sizeof(address)), 0);
	last = number_before();
	server = raccept(listener, NULL, NULL);
	assert_true(server > last);
	close(before);
	close(later);
	close(last);
	rclose(stream);
	rclose(datagram);
	rclose(client);
	rclose(server);
	rclose(listener);
}

static void without_waiting(void **state)
{
	struct sockaddr_in address;
	int listener = listening(&address, 20000, 0), client = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0),
		       server, error;
	socklen_t length = sizeof(error);
	uint8_t bytes[1000];
	size_t sent = 0;
	ssize_t now;

	(void)state;
	assert_int_equal(rfcntl(listener, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(rfcntl(listener, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
	assert_int_equal(raccept(listener, NULL, NULL), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(rconnect(client, (struct sockaddr *)&address, sizeof(address)), -1);
	assert_int_equal(errno, EINPROGRESS);
	assert_int_equal(poll_one(client, POLLOUT, PATIENCE_MS), POLLOUT);
	assert_int_equal(rgetsockopt(client, SOL_SOCKET, SO_ERROR, &error, &length), 0);
	assert_int_equal(error, 0);
	assert_int_equal(rconnect(client, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(poll_one(listener, POLLIN, PATIENCE_MS), POLLIN);
	server = raccept(listener, NULL, NULL);
	assert_int_equal(rfcntl(server, F_GETFL) & O_NONBLOCK, 0);
	assert_int_equal(rrecv(client, bytes, sizeof(bytes), 0), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(poll_one(client, POLLIN, 0), 0);

	/* Until both buffers are full, and then it can again when they are not. Before they are, a busy machine may take
	 * its time to move what is in the first to the second. */
	for (;;) {
		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = stream_byte(sent + i);
		now = rsend(client, bytes, sizeof(bytes), 0);
		if (now < 0 && errno == EAGAIN && poll_one(client, POLLOUT, sent < 40000 ? PATIENCE_MS : 300) == 0)
			break;
		sent += now > 0 ? (size_t)now : 0;
		assert_true(sent < 1000000);
	}
	assert_true(sent >= 40000);
	expect_stream(server, 0, sent);
	assert_int_equal(poll_one(client, POLLOUT, PATIENCE_MS), POLLOUT);
	rclose(client);
	rclose(server);
	rclose(listener);
}

struct flow {
	int socket;
	size_t length;
	unsigned seed;
};

static void *send_pieces(void *argument)
{
	struct flow *flow = argument;
	size_t done = 0;

	while (done < flow->length) {
		size_t now = (size_t)rand_r(&flow->seed) % (rand_r(&flow->seed) % 4 ? 700 : 90000) + 1;

		if (now > flow->length - done)
			now = flow->length - done;
		send_stream(flow->socket, done, now);
		done += now;
	}
	return NULL;
}

static void *receive_pieces(void *argument)
{
	struct flow *flow = argument;
	size_t done = 0;

	while (done < flow->length) {
		size_t now = (size_t)rand_r(&flow->seed) % (rand_r(&flow->seed) % 4 ? 700 : 90000) + 1;

		if (now > flow->length - done)
			now = flow->length - done;
		expect_stream(flow->socket, done, now);
		done += now;
	}
	return NULL;
}

/* Both directions at once, a thread for each end of each: every one of them must be woken when it is its turn. */
static void streams_both_ways(int buffer, size_t length)
{
	unsigned seed = (unsigned)buffer * 7 + 1;
	pthread_t threads[4];
	struct flow flows[4];
	int pair[2];

	printf("buffer %d, seed %u\n", buffer, seed);
	connected(pair, buffer, 0);
	for (unsigned i = 0; i < 4; i++) {
		flows[i] = (struct flow){.socket = pair[i % 2], .length = length, .seed = seed + i};
		assert_int_equal(pthread_create(&threads[i], NULL, i < 2 ? send_pieces : receive_pieces, &flows[i]), 0);
	}
	for (unsigned i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	close_both(pair);
}

static void streams_of_all_sizes(void **state)
{
	(void)state;
	streams_both_ways(0, 4000000);
	streams_both_ways(2048, 300000);
	streams_both_ways(30001, 2000000);
}

static void one_side_ends_before_the_other(void **state)
{
	char bytes[10];
	int pair[2];

	(void)state;
	connected(pair, 0, 0);
	send_stream(pair[0], 0, 5000);
	assert_int_equal(rshutdown(pair[0], SHUT_WR), 0);
	assert_int_equal(rsend(pair[0], "x", 1, MSG_NOSIGNAL), -1);
	assert_int_equal(errno, EPIPE);
	/* The end is a message of its own, behind the bytes. */
	assert_true(eventually(poll_one(pair[1], POLLIN | POLLRDHUP, PATIENCE_MS) == (POLLIN | POLLRDHUP)));
	expect_stream(pair[1], 0, 5000);
	assert_int_equal(rrecv(pair[1], bytes, sizeof(bytes), 0), 0);
	/* The other direction goes on. */
	send_stream(pair[1], 0, 70000);
	expect_stream(pair[0], 0, 70000);
	send_stream(pair[1], 70000, 10);
	assert_int_equal(rclose(pair[1]), 0);
	assert_int_equal(poll_one(pair[0], POLLIN, PATIENCE_MS) & POLLIN, POLLIN);
	expect_stream(pair[0], 70000, 10);
	assert_int_equal(rrecv(pair[0], bytes, sizeof(bytes), 0), 0);
	assert_int_equal(poll_one(pair[0], POLLIN, PATIENCE_MS), POLLIN | POLLHUP);
	assert_int_equal(rshutdown(pair[0], SHUT_RDWR), 0);
	assert_int_equal(rclose(pair[0]), 0);
}

static void what_was_sent_is_there_after_close(void **state)
{
	char byte;
	int pair[2];

	(void)state;
	connected(pair, 0, 0);
	send_stream(pair[0], 0, 200000);
	assert_int_equal(rclose(pair[0]), 0);
	expect_stream(pair[1], 0, 200000);
	assert_int_equal(rrecv(pair[1], &byte, 1, 0), 0);
	assert_int_equal(rsend(pair[1], &byte, 1, 0), -1);
	assert_int_equal(errno, ECONNRESET);
	assert_int_equal(rclose(pair[1]), 0);
	assert_int_equal(rclose(pair[1]), -1);
	assert_int_equal(errno, EBADF);
}

/* Who says something short and leaves may be gone before the other end has even noticed that it is connected. What was said
 * waits for whoever accepts, as with TCP. Which of the two is first is a matter of luck: hence so often. */
static void a_guest_who_left_is_still_received(void **state)
{
	enum { GUESTS = 300 };
	struct sockaddr_in address;
	int listener = listening(&address, 0, 0);

	(void)state;
	for (int i = 0; i < GUESTS; i++) {
		int client = rsocket(AF_INET, SOCK_STREAM, 0), server;
		char byte;

		assert_int_equal(rconnect(client, (struct sockaddr *)&address, sizeof(address)), 0);
		send_stream(client, 0, 100);
		assert_int_equal(rclose(client), 0);
		assert_int_equal(poll_one(listener, POLLIN, PATIENCE_MS), POLLIN);
		server = raccept(listener, NULL, NULL);
		assert_true(server >= 0);
		expect_stream(server, 0, 100);
		assert_int_equal(rrecv(server, &byte, 1, 0), 0);
		assert_int_equal(rclose(server), 0);
	}
	assert_int_equal(rclose(listener), 0);
}

static void flags_and_lists_of_buffers(void **state)
{
	char a[4], b[3], peeked[8] = "";
	struct iovec out[] = {{(char *)"abc", 3}, {(char *)"", 0}, {(char *)"defg", 4}}, in[] = {{a, 4}, {b, 3}};
	struct msghdr message = {.msg_iov = in, .msg_iovlen = 2};
	pthread_t thread;
	struct flow flow;
	uint8_t *bytes = malloc(500000);
	int pair[2];

	(void)state;
	connected(pair, 0, 0);
	assert_int_equal(rwritev(pair[0], out, 3), 7);
	assert_int_equal(poll_one(pair[1], POLLIN, PATIENCE_MS), POLLIN);
	assert_int_equal(rrecv(pair[1], peeked, 7, MSG_PEEK), 7);
	assert_string_equal(peeked, "abcdefg");
	assert_int_equal(rreadv(pair[1], in, 2), 7);
	assert_memory_equal(a, "abcd", 4);
	assert_memory_equal(b, "efg", 3);
	assert_int_equal(rrecv(pair[1], a, 4, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
	message.msg_iov = out;
	message.msg_iovlen = 3;
	assert_int_equal(rsendmsg(pair[0], &message, 0), 7);
	message.msg_iov = in;
	message.msg_iovlen = 2;
	assert_int_equal(rrecvmsg(pair[1], &message, MSG_WAITALL), 7);
	assert_memory_equal(b, "efg", 3);
	assert_int_equal(rrecv(pair[1], a, 0, 0), 0);
	assert_int_equal(rsend(pair[1], a, 0, 0), 0);

	flow = (struct flow){.socket = pair[0], .length = 500000, .seed = 3};
	pthread_create(&thread, NULL, send_pieces, &flow);
	assert_int_equal(rrecv(pair[1], bytes, 500000, MSG_WAITALL), 500000);
	pthread_join(thread, NULL);
	for (size_t i = 0; i < 500000; i++)
		assert_int_equal(bytes[i], stream_byte(i));
	free(bytes);
	close_both(pair);
}

static void timeouts(void **state)
{
	struct timeval limit = {.tv_usec = 60000};
	struct sockaddr_in address;
	int listener = listening(&address, 0, 0), pair[2];
	char byte;

	(void)state;
	connected(pair, 2048, 0);
	assert_int_equal(rsetsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
	assert_int_equal(rsetsockopt(pair[0], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)), 0);
	assert_int_equal(rsetsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
	assert_int_equal(rrecv(pair[0], &byte, 1, 0), -1);
	assert_int_equal(errno, EAGAIN);
	while (rsend(pair[0], &address, sizeof(address), 0) > 0)
		;
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(raccept(listener, NULL, NULL), -1);
	assert_int_equal(errno, EAGAIN);
	rclose(listener);
	close_both(pair);
}

static void *receive_one(void *socket)
{
	char byte;
	ssize_t result = rrecv(*(int *)socket, &byte, 1, 0);

	return (void *)(intptr_t)(result < 0 ? -errno : result);
}

static void closed_under_a_sleeper(void **state)
{
	pthread_t thread;
	void *result;
	int pair[2];

	(void)state;
	connected(pair, 0, 0);
	assert_int_equal(pthread_create(&thread, NULL, receive_one, &pair[0]), 0);
	usleep(50000);                           /* asleep or not yet there: either way it must not stay */
	assert_int_equal(rclose(pair[0]), 0);
	pthread_join(thread, &result);
	assert_true((intptr_t)result == 0 || (intptr_t)result == -EBADF);
	rclose(pair[1]);
}

static void direct_placement(void **state)
{
	static uint8_t window[3][10000], bytes[10000];
	int pair[2];

	(void)state;
	connected(pair, 0, 2);
	assert_int_equal(riomap(pair[1], window[0], sizeof(window[0]), PROT_READ, 0, 0), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(riomap(pair[1], window[0], sizeof(window[0]), PROT_WRITE, 0, 4096), 4096);
	assert_int_equal(riomap(pair[1], window[1], sizeof(window[1]), PROT_WRITE, 0, -1), (off_t)(uintptr_t)window[1]);
	assert_int_equal(riomap(pair[1], window[2], sizeof(window[2]), PROT_WRITE, 0, 0), -1);
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(riomap(pair[1], window[2], sizeof(window[2]), PROT_NONE, 0, 0), 0);
	assert_int_equal((ssize_t)riowrite(pair[0], bytes, 1, 4096, 0), -1);
	assert_int_equal(errno, EINVAL);
	/* Known to the peer once it has received what was sent afterwards. */
	send_stream(pair[1], 0, 10);
	expect_stream(pair[0], 0, 10);
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = stream_byte(i);
	assert_int_equal(riowrite(pair[0], bytes, 9000, 4096 + 500, 0), 9000);
	assert_int_equal(riowrite(pair[0], bytes, sizeof(bytes), (off_t)(uintptr_t)window[1], 0), sizeof(bytes));
	assert_int_equal(riowrite(pair[0], bytes, 100, 4096 + 9990, 0), 10);     /* to the end of the window */
	/* ... and what was written is there before what is sent after it. */
	send_stream(pair[0], 0, 1);
	expect_stream(pair[1], 0, 1);
	assert_memory_equal(window[0] + 500, bytes, 9000);
	assert_memory_equal(window[0] + 9990, bytes, 10);
	assert_memory_equal(window[1], bytes, sizeof(bytes));
	assert_int_equal(riounmap(pair[1], window[0], 5), -1);
	assert_int_equal(riounmap(pair[1], window[0], sizeof(window[0])), 0);
	assert_int_equal(riomap(pair[1], window[2], sizeof(window[2]), PROT_WRITE, 0, 1 << 20), 1 << 20);
	send_stream(pair[1], 0, 10);
	expect_stream(pair[0], 0, 10);
	assert_int_equal(riowrite(pair[0], bytes, 7, (1 << 20) + 3, 0), 7);
	send_stream(pair[0], 0, 1);
	expect_stream(pair[1], 0, 1);
	assert_memory_equal(window[2] + 3, bytes, 7);
	close_both(pair);
}

/* Between rlisten and raccept, as riostream does: whoever came first was accepted in between. */
static void windows_asked_for_after_listening(void **state)
{
	static uint8_t window[100];
	int pair[2], listener, one = 1;
	struct sockaddr_in address;

	(void)state;
	listener = listening(&address, 0, 0);
	pair[0] = rsocket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(rconnect(pair[0], (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(rsetsockopt(listener, SOL_RDMA, RDMA_IOMAPSIZE, &one, sizeof(one)), 0);
	pair[1] = raccept(listener, NULL, NULL);
	assert_true(pair[1] >= 0);
	assert_int_equal(riomap(pair[0], window, sizeof(window), PROT_WRITE, 0, 0), 0);
	send_stream(pair[0], 0, 10);
	expect_stream(pair[1], 0, 10);
	assert_int_equal(riowrite(pair[1], "verbena", 7, 3, 0), 7);
	send_stream(pair[1], 0, 1);
	expect_stream(pair[0], 0, 1);
	assert_memory_equal(window + 3, "verbena", 7);
	close_both(pair);
	assert_int_equal(rclose(listener), 0);
}

static int option(int socket, int level, int name)
{
	int value = -1;
	socklen_t length = sizeof(value);

	assert_int_equal(rgetsockopt(socket, level, name, &value, &length), 0);
	assert_int_equal(length, sizeof(value));
	return value;
}

static void options(void **state)
{
	int socket = rsocket(AF_INET, SOCK_STREAM, 0), value = 100000, on = 1, pair[2];
	struct tcp_info info;
	socklen_t length = sizeof(info);

	(void)state;
	assert_int_equal(rsetsockopt(socket, SOL_SOCKET, SO_RCVBUF, &value, sizeof(value)), 0);
	assert_int_equal(option(socket, SOL_SOCKET, SO_RCVBUF), 200000);
	value = 100;
	assert_int_equal(rsetsockopt(socket, SOL_RDMA, RDMA_SQSIZE, &value, sizeof(value)), 0);
	assert_int_equal(option(socket, SOL_RDMA, RDMA_SQSIZE), 100);
	assert_int_equal(rsetsockopt(socket, SOL_RDMA, RDMA_IOMAPSIZE, &value, sizeof(value)), 0);
	assert_int_equal(option(socket, SOL_RDMA, RDMA_IOMAPSIZE), 100);
	assert_int_equal(rsetsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
	assert_int_equal(option(socket, SOL_SOCKET, SO_REUSEADDR), 1);
	assert_int_equal(rsetsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)), 0);
	assert_int_equal(option(socket, IPPROTO_TCP, TCP_NODELAY), 1);
	assert_int_equal(rsetsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)), 0);
	assert_int_equal(option(socket, SOL_SOCKET, SO_KEEPALIVE), 1);
	assert_int_equal(option(socket, SOL_SOCKET, SO_TYPE), SOCK_STREAM);
	assert_int_equal(rsetsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, 1), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rsetsockopt(socket, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3), -1);
	assert_int_equal(errno, ENOTSUP);
	assert_int_equal(rsetsockopt(socket, 4711, 1, &on, sizeof(on)), -1);
	assert_int_equal(errno, ENOTSUP);
	rclose(socket);

	connected(pair, 0, 0);
	assert_int_equal(rsetsockopt(pair[0], SOL_RDMA, RDMA_SQSIZE, &value, sizeof(value)), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rgetsockopt(pair[0], IPPROTO_TCP, TCP_INFO, &info, &length), 0);
	assert_int_equal(info.tcpi_state, TCP_ESTABLISHED);
	assert_true(option(pair[0], IPPROTO_TCP, TCP_MAXSEG) >= 256);
	value = 1;
	assert_int_equal(rsetsockopt(pair[0], IPPROTO_TCP, TCP_KEEPIDLE, &value, sizeof(value)), 0);
	assert_int_equal(rsetsockopt(pair[0], SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)), 0);
	usleep(1200000);                         /* one goes out, and disturbs nothing */
	send_stream(pair[0], 0, 1000);
	expect_stream(pair[1], 0, 1000);
	close_both(pair);
}

/* Few writes ask for a completion, and what the others hold must come back: of the shortest send queue that there is, of the smallest
 * buffer, of writes that are inline and of others. */
static void many_writes_through_a_short_queue(void **state)
{
	static const size_t lengths[] = {1, 64, 65, 1000};
	struct sockaddr_in address;
	int listener = listening(&address, 4096, 0), pair[2] = {rsocket(AF_INET, SOCK_STREAM, 0)}, value = 1;
	uint64_t place = 0;

	(void)state;
	assert_int_equal(rsetsockopt(pair[0], SOL_RDMA, RDMA_SQSIZE, &value, sizeof(value)), 0);
	value = 4096;
	assert_int_equal(rsetsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &value, sizeof(value)), 0);
	assert_int_equal(rconnect(pair[0], (struct sockaddr *)&address, sizeof(address)), 0);
	pair[1] = raccept(listener, NULL, NULL);
	rclose(listener);
	for (unsigned i = 0; i < 400; i++) {
		size_t length = lengths[i % 4];

		send_stream(pair[0], place, length);
		send_stream(pair[0], place + length, 1);
		expect_stream(pair[1], place, length + 1);
		place += length + 1;
	}
	close_both(pair);
}

static void what_is_not_there(void **state)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_un { sa_family_t family; char path[20]; } elsewhere = {AF_UNIX, "x"};
	int socket = rsocket(AF_INET, SOCK_STREAM, 0), plain = open("/dev/null", O_RDWR);
	char byte = 0;

	(void)state;
	assert_int_equal(rsocket(AF_UNIX, SOCK_STREAM, 0), -1);
	assert_int_equal(errno, ENOTSUP);
	assert_int_equal(rsocket(AF_INET, SOCK_RAW, 0), -1);
	assert_int_equal(errno, ENOTSUP);
	assert_int_equal(rsocket(AF_INET, SOCK_STREAM, IPPROTO_UDP), -1);
	assert_int_equal(errno, ENOTSUP);
	assert_int_equal(rsend(plain, &byte, 1, 0), -1);
	assert_int_equal(errno, EBADF);
	assert_int_equal(rrecv(-1, &byte, 1, 0), -1);
	assert_int_equal(errno, EBADF);
	assert_int_equal(rlisten(1 << 30, 1), -1);
	assert_int_equal(errno, EBADF);
	assert_int_equal(rsend(socket, &byte, 1, 0), -1);
	assert_int_equal(errno, ENOTCONN);
	assert_int_equal(rshutdown(socket, SHUT_RDWR), -1);
	assert_int_equal(errno, ENOTCONN);
	assert_int_equal(raccept(socket, NULL, NULL), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rbind(socket, (struct sockaddr *)&address, 3), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rconnect(socket, (struct sockaddr *)&elsewhere, sizeof(elsewhere)), -1);
	assert_int_equal(errno, EAFNOSUPPORT);
	assert_int_equal(riomap(socket, &byte, 1, PROT_WRITE, 0, -1), -1);
	assert_int_equal(errno, EINVAL);
	rclose(socket);
	close(plain);
}

static void over_ipv6(void **state)
{
	struct sockaddr_in6 address = {.sin6_family = AF_INET6}, peer;
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int listener = rsocket(AF_INET6, SOCK_STREAM, 0), client = rsocket(AF_INET6, SOCK_STREAM, 0), server;
	socklen_t length = sizeof(address);

	(void)state;
	assert_int_equal(rbind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(rlisten(listener, 5), 0);
	assert_int_equal(rgetsockname(listener, (struct sockaddr *)&address, &length), 0);
	address.sin6_addr = in6addr_loopback;
	assert_int_equal(rconnect(client, (struct sockaddr *)&address, sizeof(address)), 0);
	length = sizeof(peer);
	server = raccept(listener, (struct sockaddr *)&peer, &length);
	assert_true(server >= 0);
	assert_int_equal(length, sizeof(peer));
	assert_true(IN6_IS_ADDR_LOOPBACK(&peer.sin6_addr));
	send_stream(client, 0, 100000);
	expect_stream(server, 0, 100000);
	rclose(client);
	rclose(server);
	/* The wildcard takes IPv4 too, and says so in IPv6's terms. */
	client = rsocket(AF_INET, SOCK_STREAM, 0);
	v4.sin_port = address.sin6_port;
	assert_int_equal(rconnect(client, (struct sockaddr *)&v4, sizeof(v4)), 0);
	length = sizeof(peer);
	server = raccept(listener, (struct sockaddr *)&peer, &length);
	assert_int_equal(peer.sin6_family, AF_INET6);
	assert_true(IN6_IS_ADDR_V4MAPPED(&peer.sin6_addr));
	rclose(client);
	rclose(server);
	rclose(listener);
}

static void a_child_has_none_of_its_parents(void **state)
{
	int pair[2], status;
	pid_t child;

	(void)state;
	connected(pair, 0, 0);
	child = fork();
	if (child == 0) {
		char byte = 0;

		_exit(rsend(pair[0], &byte, 1, 0) == -1 && errno == EBADF && rclose(pair[0]) == -1 ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	send_stream(pair[0], 0, 10000);
	expect_stream(pair[1], 0, 10000);
	close_both(pair);
}

static void nothing_is_left_behind(void **state)
{
	unsigned before = 0;
	int pair[2];

	(void)state;
	for (unsigned i = 0; i < 30; i++) {
		connected(pair, 0, 0);
		send_stream(pair[0], 0, 1000);
		expect_stream(pair[1], 0, 1000);
		close_both(pair);
		if (i == 0)
			before = open_descriptors();
	}
	/* What the library closes in its own time, it closes soon. */
	assert_true(eventually(open_descriptors() == before));
}

/* This program again, as somebody who connects, says something and stays; or says much and leaves. */
static void run_as_peer(const char *port, bool stays)
{
	struct sockaddr_in address = loopback((uint16_t)atoi(port));
	int socket = rsocket(AF_INET, SOCK_STREAM, 0);
	char byte;

	alarm(4 * PATIENCE_SECONDS);
	if (rconnect(socket, (struct sockaddr *)&address, sizeof(address)) != 0 || rsend(socket, "here", 4, 0) != 4)
		exit(1);
	if (stays)
		rrecv(socket, &byte, 1, 0);
	else
		send_stream(socket, 0, LAST_WORDS);
	exit(0);
}

static pid_t start_peer(const struct sockaddr_in *address, const char *how)
{
	char port[8];
	pid_t child;

	snprintf(port, sizeof(port), "%d", ntohs(address->sin_port));
	child = fork();
	if (child == 0) {
		execl("/proc/self/exe", "test", how, port, NULL);
		_exit(1);
	}
	return child;
}

/* It neither closes nor waits; what it has sent comes all the same. */
static void last_words_of_a_program(void **state)
{
	struct sockaddr_in address;
	int listener = listening(&address, 0, 0), server, status;
	pid_t child = start_peer(&address, "--leaving");
	char bytes[4];

	(void)state;
	server = raccept(listener, NULL, NULL);
	assert_int_equal(rrecv(server, bytes, 4, MSG_WAITALL), 4);
	expect_stream(server, 0, LAST_WORDS);
	assert_int_equal(rrecv(server, bytes, 1, 0), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	rclose(server);
	rclose(listener);
}

static void a_killed_peer_is_noticed(void **state)
{
	struct sockaddr_in address;
	int listener = listening(&address, 0, 0), server, status;
	pid_t child = start_peer(&address, "--staying");
	char bytes[8];

	(void)state;
	server = raccept(listener, NULL, NULL);
	assert_int_equal(rrecv(server, bytes, 4, MSG_WAITALL), 4);
	assert_int_equal(poll_one(server, POLLIN, 0), 0);
	kill(child, SIGKILL);
	assert_int_equal(poll_one(server, POLLIN, PATIENCE_MS), POLLIN | POLLHUP);
	assert_int_equal(rrecv(server, bytes, 1, 0), 0);
	assert_int_equal(rsend(server, bytes, 1, 0), -1);
	assert_int_equal(errno, ECONNRESET);
	assert_int_equal(waitpid(child, &status, 0), child);
	rclose(server);
	rclose(listener);
}

int main(int count, char **arguments)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_connection_is_made_before_anybody_accepts),
		cmocka_unit_test(an_unaccepted_connection_ends_with_its_listener),
		cmocka_unit_test(nobody_listens),
		cmocka_unit_test(numbers_are_above_those_before),
		cmocka_unit_test(without_waiting),
		cmocka_unit_test(streams_of_all_sizes),
		cmocka_unit_test(one_side_ends_before_the_other),
		cmocka_unit_test(what_was_sent_is_there_after_close),
		cmocka_unit_test(a_guest_who_left_is_still_received),
		cmocka_unit_test(flags_and_lists_of_buffers),
		cmocka_unit_test(timeouts),
		cmocka_unit_test(closed_under_a_sleeper),
		cmocka_unit_test(direct_placement),
		cmocka_unit_test(windows_asked_for_after_listening),
		cmocka_unit_test(options),
		cmocka_unit_test(many_writes_through_a_short_queue),
		cmocka_unit_test(what_is_not_there),
		cmocka_unit_test(over_ipv6),
		cmocka_unit_test(a_child_has_none_of_its_parents),
		cmocka_unit_test(nothing_is_left_behind),
		cmocka_unit_test(last_words_of_a_program),
		cmocka_unit_test(a_killed_peer_is_noticed),
	};

	if (count == 3)
		run_as_peer(arguments[2], strcmp(arguments[1], "--staying") == 0);
	private_network_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
