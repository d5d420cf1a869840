/* SPDX-License-Identifier: MIT
 *
 * TCP read up to the token, and not beyond.
 *
 * What may be the beginning of the token, which random bytes of the program are once in 256 times, is taken out of TCP
 * until more has come, and not left in it: one byte keeps the whole buffer of the packet it came in, the kernel then
 * offers the peer no window, and what would tell whether it is the token never comes.
 */
#ifndef VB_PRELOAD_SOCKETS_TOKEN_READER_H
#define VB_PRELOAD_SOCKETS_TOKEN_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "preload/sockets/token.h"

struct vb_iov_cursor;

struct vb_token_reader {
	uint8_t begun[VB_TOKEN];         /* taken from TCP: the token, as far as it has come, if it is one */
	size_t begun_length;
	int error;                       /* of TCP, found after those bytes and not told yet */
	size_t certain;                  /* bytes of the program's before all that may be the token */
};

/* TCP has so many bytes that came before a token could: the program may have been told of them, and is to have them, whatever
 * they look like. */
void vb_token_reader_settle(struct vb_token_reader *reader, size_t in_tcp);

/* How many bytes before the token could be received now (not all, if they are many), 0: TCP has ended, -EAGAIN: none,
 * or another -errno. *is_next: the token was next, and has been taken. NULL: nothing is to be taken, as TCP may yet have the
 * connection for good. */
ssize_t vb_token_reader_look(struct vb_token_reader *reader, const uint8_t token[VB_TOKEN], int fd, bool *is_next);

/* The same, and receive them; flags may have MSG_PEEK. */
ssize_t vb_token_reader_receive(struct vb_token_reader *reader, const uint8_t token[VB_TOKEN], int fd,
				struct vb_iov_cursor *to, int flags, bool *is_next);

#endif
