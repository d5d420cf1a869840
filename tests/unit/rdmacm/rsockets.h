/* SPDX-License-Identifier: MIT
 *
 * Stream rsockets for tests: connected pairs over the loopback device, and bytes that can be checked anywhere in a
 * stream.
 */
#ifndef TESTS_UNIT_RDMACM_RSOCKETS_H
#define TESTS_UNIT_RDMACM_RSOCKETS_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A listener on 127.0.0.1 with a port of the system's choice. buffer: SO_RCVBUF and SO_SNDBUF, 0: as they are;
 * likewise iomaps. */
int listening(struct sockaddr_in *address, int buffer, int iomaps);
/* [0] asked, [1] was accepted; both blocking. */
void connected(int pair[2], int buffer, int iomaps);
void close_both(int pair[2]);

/* The byte at this place of any test stream. */
uint8_t stream_byte(uint64_t place);
void send_stream(int socket, uint64_t from, size_t length);
/* Exactly these bytes are next. */
void expect_stream(int socket, uint64_t from, size_t length);

/* revents of a rpoll on one rsocket. */
short poll_one(int socket, short events, int timeout);

#endif
