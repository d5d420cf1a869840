/* SPDX-License-Identifier: MIT */
#include "preload/sockets/token_reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "preload/next.h"
#include "rdmacm/rsocket/iov.h"

enum { PEEKED = 32768 };

/* As far as it has been looked at: what has come since may be something else. */
static void take_token(struct vb_token_reader *reader, int fd, size_t seen, bool *is_next)
{
	size_t missing = VB_TOKEN - reader->begun_length;
	ssize_t got = NEXT(recv)(fd, reader->begun + reader->begun_length, seen < missing ? seen : missing, MSG_DONTWAIT);

	if (got > 0)
		reader->begun_length += (size_t)got;
	*is_next = reader->begun_length == VB_TOKEN;
	if (*is_next)
		reader->begun_length = 0;
}

/* TCP has ended, so what we hold is no token. */
static ssize_t end(struct vb_token_reader *reader, int error)
{
	if (reader->begun_length == 0)
		return -error;
	reader->error = error;
	return (ssize_t)reader->begun_length;
}

void vb_token_reader_settle(struct vb_token_reader *reader, size_t in_tcp)
{
	reader->certain = reader->begun_length + in_tcp;
}

/* bytes: room for PEEKED. */
static ssize_t look(struct vb_token_reader *reader, const uint8_t token[VB_TOKEN], int fd, uint8_t *bytes, bool *is_next)
{
	size_t held = reader->begun_length, before, room = PEEKED;
	bool has_come;
	ssize_t got;

	if (is_next != NULL)
		*is_next = false;
	memcpy(bytes, reader->begun, held);
	if (reader->error != 0)
		return held > 0 ? (ssize_t)held : -reader->error;
	if (reader->certain > 0 && reader->certain < room)
		room = reader->certain;
	if (held >= room)
		return (ssize_t)room;
	got = NEXT(recv)(fd, bytes + held, room - held, MSG_PEEK | MSG_DONTWAIT);
	if (got == 0 || (got < 0 && errno != EAGAIN))
		return end(reader, got == 0 ? 0 : errno);
	if (got < 0) {
		reader->certain = 0;
		return -EAGAIN;
	}
	if (reader->certain > 0)
		return (ssize_t)held + got;
	before = vb_token_find(token, bytes, held + (size_t)got, &has_come);
	if (before > 0)
		return (ssize_t)before;
	if (is_next != NULL)
		take_token(reader, fd, (size_t)got, is_next);
	return -EAGAIN;
}

ssize_t vb_token_reader_look(struct vb_token_reader *reader, const uint8_t token[VB_TOKEN], int fd, bool *is_next)
{
	uint8_t *bytes = malloc(PEEKED);
	ssize_t count = bytes != NULL ? look(reader, token, fd, bytes, is_next) : -ENOMEM;

	free(bytes);
	return count;
}

/* Of these bytes, which look has found, the first are held and the others still TCP's. */
static size_t take(struct vb_token_reader *reader, int fd, uint8_t *bytes, size_t count)
{
	size_t held = count < reader->begun_length ? count : reader->begun_length;
	ssize_t got = 0;

	reader->begun_length -= held;
	memmove(reader->begun, reader->begun + held, reader->begun_length);
	if (count > held)
		got = NEXT(recv)(fd, bytes + held, count - held, MSG_DONTWAIT);
	count = held + (got > 0 ? (size_t)got : 0);
	reader->certain -= count < reader->certain ? count : reader->certain;
	return count;
}

ssize_t vb_token_reader_receive(struct vb_token_reader *reader, const uint8_t token[VB_TOKEN], int fd,
				struct vb_iov_cursor *to, int flags, bool *is_next)
{
	uint8_t *bytes = malloc(PEEKED);
	ssize_t count;

	if (bytes == NULL)
		return -ENOMEM;
	count = look(reader, token, fd, bytes, is_next);
	if (count > 0) {
		if ((size_t)count > to->left)
			count = (ssize_t)to->left;
		if (!(flags & MSG_PEEK))
			count = (ssize_t)take(reader, fd, bytes, (size_t)count);
		vb_iov_cursor_write(to, bytes, (size_t)count);
	} else if (reader->error != 0 && count == -reader->error && !(flags & MSG_PEEK)) {
		reader->error = 0;
	}
	free(bytes);
	return count;
}
