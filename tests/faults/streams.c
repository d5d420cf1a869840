/* SPDX-License-Identifier: MIT
 *
 * A stream that comes back: a listener, a connection, bytes there and back, all compared; by rsockets (built with RSOCKETS), or by
 * TCP sockets that libverbena-sockets.so carries. Played while one call of the library fails or moves less than asked (interpose.c), and
 * once more when nothing does.
 *
 *   exit 0    all went well
 *   exit 3    a call was refused, and said so; afterwards all went well
 *   exit 1    a byte was wrong, something never came, or afterwards it did not go well
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifdef RSOCKETS
#include <rdma/rsocket.h>
#define socket rsocket
#define bind rbind
#define listen rlisten
#define accept raccept
#define connect rconnect
#define send rsend
#define recv rrecv
#define poll rpoll
#define close rclose
#define shutdown rshutdown
#define getsockname rgetsockname
#endif

enum { BYTES = 300000, PIECE = 7000, PATIENCE = 60000 };

static uint8_t byte_at(size_t place)
{
	return (uint8_t)(place * 2654435761u >> 13 ^ place);
}

static void lost(const char *what)
{
	printf("lost: %s\n", what);
	fflush(stdout);
	_exit(1);
}

static bool refused(const char *what)
{
	printf("refused: %s (%s)\n", what, strerror(errno));
	return false;
}

/* Ready, or refused. What is not ready after all that time was lost. */
static bool await(int fd, short events)
{
	struct pollfd item = {.fd = fd, .events = events};
	int count;

	do
		count = poll(&item, 1, PATIENCE);
	while (count < 0 && errno == EINTR);
	if (count == 0)
		lost(events & POLLIN ? "bytes" : "room");
	return count > 0;
}

static bool send_all(int fd, const uint8_t *bytes, size_t length)
{
	while (length > 0) {
		ssize_t sent = await(fd, POLLOUT) ? send(fd, bytes, length, MSG_NOSIGNAL) : -1;

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent <= 0)
			return refused("send");
		bytes += sent;
		length -= (size_t)sent;
	}
	return true;
}

/* How many came: 0 at the end, -1: refused. */
static ssize_t receive_some(int fd, uint8_t *bytes, size_t room)
{
	ssize_t got;

	do
		got = await(fd, POLLIN) ? recv(fd, bytes, room, 0) : -1;
	while (got < 0 && errno == EINTR);
	return got;
}

static void *echo(void *argument)
{
	int listener = *(int *)argument, fd;
	uint8_t bytes[PIECE];
	ssize_t got = 0;

	do
		fd = await(listener, POLLIN) ? accept(listener, NULL, NULL) : -1;
	while (fd < 0 && errno == EINTR);
	/* The one that connects, or waits for its connection, hears of it. */
	close(listener);
	if (fd < 0)
		return NULL;
	while ((got = receive_some(fd, bytes, sizeof(bytes))) > 0)
		if (!send_all(fd, bytes, (size_t)got))
			break;
	close(fd);
	return NULL;
}

static bool exchange(int fd)
{
	uint8_t out[PIECE], in[PIECE];
	size_t done = 0;

	while (done < BYTES) {
		size_t length = BYTES - done < PIECE ? BYTES - done : PIECE;

		for (size_t i = 0; i < length; i++)
			out[i] = byte_at(done + i);
		if (!send_all(fd, out, length))
			return false;
		for (size_t came = 0; came < length;) {
			ssize_t got = receive_some(fd, in, length - came);

			if (got <= 0)
				return refused(got == 0 ? "recv: the other end is gone" : "recv");
			for (ssize_t i = 0; i < got; i++)
				if (in[i] != byte_at(done + came + (size_t)i))
					lost("a byte: another came instead");
			came += (size_t)got;
		}
		done += length;
	}
	return true;
}

static bool live(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM, 0), fd;
	pthread_t server;
	bool good;

	if (listener < 0)
		return refused("socket");
	if (bind(listener, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(listener, 4) != 0 ||
	    getsockname(listener, (struct sockaddr *)&address, &length) != 0) {
		refused("bind, listen");
		close(listener);
		return false;
	}
	if (pthread_create(&server, NULL, echo, &listener) != 0)
		lost("a thread");
	fd = socket(AF_INET, SOCK_STREAM, 0);
	good = fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
	if (!good) {
		refused("connect");
		/* The server waits for a connection that will not come. */
		if (fd >= 0)
			close(fd);
		pthread_cancel(server);
		pthread_detach(server);
		return false;
	}
	good = exchange(fd);
	if (good && shutdown(fd, SHUT_WR) != 0)
		good = refused("shutdown");
	if (good && receive_some(fd, (uint8_t[1]){0}, 1) != 0)
		good = refused("the end");
	if (close(fd) != 0)
		good = refused("close");
	pthread_join(server, NULL);
	return good;
}

static void turn(const char *word)
{
	void (*found)(void);

	*(void **)&found = dlsym(RTLD_DEFAULT, word);
	if (found)
		found();
}

int main(void)
{
	bool good;

	setvbuf(stdout, NULL, _IOLBF, 0);
	turn("fail_calls_begin");
	good = live();
	turn("fail_calls_end");
	if (!live())
		lost("what works without a fault");
	return good ? 0 : 3;
}
