/* SPDX-License-Identifier: MIT
 *
 * Two ends of rsockets in two processes, of which one may die at any call that its library makes (interpose.c). The other waits in
 * rrecv, or sends, and hears of it: no call of these has a time limit of its own.
 *
 *   rsocket_peers server ADDRESS PORT    "listening"; "accepted" and "ended (why)" for each connection; sends back what comes
 *   rsocket_peers client ADDRESS PORT    exit 0: all came back; 3: something was refused, or the other end is gone, and it says so;
 *                                        1: a byte was wrong
 */
#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rsocket.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE = 7000, PIECES = 6 };

static bool refused(const char *what)
{
	printf("refused: %s (%s)\n", what, strerror(errno));
	return false;
}

static bool send_all(int fd, const uint8_t *bytes, size_t length)
{
	while (length > 0) {
		ssize_t sent = rsend(fd, bytes, length, 0);

		if (sent <= 0)
			return refused("rsend");
		bytes += sent;
		length -= (size_t)sent;
	}
	return true;
}

/* ---- the server ---- */

static void echo(int fd)
{
	uint8_t bytes[PIECE];
	ssize_t got;

	while ((got = rrecv(fd, bytes, sizeof(bytes), 0)) > 0)
		if (!send_all(fd, bytes, (size_t)got))
			break;
	printf("ended (%s)\n", got == 0 ? "at its end" : strerror(errno));
	rclose(fd);
}

static int serve(const struct sockaddr_in *address)
{
	int listener = rsocket(AF_INET, SOCK_STREAM, 0), one = 1;

	if (listener < 0 || rsetsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
	    rbind(listener, (const struct sockaddr *)address, sizeof(*address)) != 0 || rlisten(listener, 4) != 0)
		return refused("a listener") ? 0 : 3;
	puts("listening");
	for (;;) {
		int fd = raccept(listener, NULL, NULL);

		if (fd < 0) {
			(void)refused("raccept");
			continue;
		}
		puts("accepted");
		echo(fd);
	}
}

/* ---- the client ---- */

static bool exchange(int fd, unsigned number)
{
	uint8_t out[PIECE], in[PIECE];

	for (unsigned i = 0; i < PIECE; i++)
		out[i] = (uint8_t)(i * 13 + number);
	if (!send_all(fd, out, PIECE))
		return false;
	for (size_t came = 0; came < PIECE;) {
		ssize_t got = rrecv(fd, in + came, PIECE - came, 0);

		if (got <= 0)
			return refused(got == 0 ? "rrecv: the other end is gone" : "rrecv");
		came += (size_t)got;
	}
	if (memcmp(in, out, PIECE) != 0)
		_exit(1);
	return true;
}

static int ask(const struct sockaddr_in *address)
{
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);
	bool good = fd >= 0 && rconnect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0;

	if (!good)
		(void)refused("rconnect");
	for (unsigned i = 0; good && i < PIECES; i++)
		good = exchange(fd, i);
	if (good && rshutdown(fd, SHUT_RDWR) != 0)
		good = refused("rshutdown");
	if (fd >= 0)
		rclose(fd);
	return good ? 0 : 3;
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = {.sin_family = AF_INET};

	if (argc != 4 || inet_pton(AF_INET, argv[2], &address.sin_addr) != 1)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	address.sin_port = htons((uint16_t)atoi(argv[3]));
	return strcmp(argv[1], "server") == 0 ? serve(&address) : ask(&address);
}
