/* SPDX-License-Identifier: MIT
 *
 * A stream read up to its token, wherever reads and packets cut it.
 */
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "preload/sockets/token_reader.h"
#include "rdmacm/rsocket/iov.h"

static const uint8_t token[VB_TOKEN] = "abababcdabababce";

void *__wrap_dlsym(void *handle, const char *name);
void *__real_dlsym(void *handle, const char *name);

struct line {
	int writer, reader;
	struct vb_token_reader state;
	bool found;
};

/* What comes right behind the next look at what there is, from this writer. */
static struct {
	int writer;
	const char *text;
} comes_late;

static ssize_t recv_and_be_late(int fd, void *bytes, size_t length, int flags)
{
	ssize_t got = recv(fd, bytes, length, flags);

	if (comes_late.text && (flags & MSG_PEEK)) {
		const char *text = comes_late.text;

		comes_late.text = NULL;
		assert_int_equal(send(comes_late.writer, text, strlen(text), 0), strlen(text));
	}
	return got;
}

/* By which the reader finds the functions of the C library. */
void *__wrap_dlsym(void *handle, const char *name)
{
	ssize_t (*late)(int, void *, size_t, int) = recv_and_be_late;
	void *found;

	if (strcmp(name, "recv") != 0)
		return __real_dlsym(handle, name);
	memcpy(&found, &late, sizeof(found));
	return found;
}

static int open_pair(void **state)
{
	static struct line line;
	int fds[2];

	line = (struct line){0};
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	line.writer = fds[0];
	line.reader = fds[1];
	*state = &line;
	return 0;
}

static int close_pair(void **state)
{
	struct line *line = *state;

	if (line->writer >= 0)
		close(line->writer);
	close(line->reader);
	return 0;
}

static void put(struct line *line, const char *text)
{
	assert_int_equal(send(line->writer, text, strlen(text), 0), strlen(text));
}

static ssize_t get(struct line *line, char *bytes, size_t room, int flags)
{
	struct iovec iov = {.iov_base = bytes, .iov_len = room};
	struct vb_iov_cursor to;

	assert_int_equal(vb_iov_cursor_init(&to, &iov, 1), 0);
	return vb_token_reader_receive(&line->state, token, line->reader, &to, flags, &line->found);
}

static void expect(struct line *line, const char *text)
{
	char bytes[100];

	assert_int_equal(get(line, bytes, sizeof(bytes), 0), strlen(text));
	assert_memory_equal(bytes, text, strlen(text));
	assert_false(line->found);
}

static void expect_nothing(struct line *line)
{
	char bytes[100];
	int in_kernel;

	assert_int_equal(get(line, bytes, sizeof(bytes), 0), -EAGAIN);
	assert_false(line->found);
	assert_int_equal(ioctl(line->reader, FIONREAD, &in_kernel), 0);
	assert_int_equal(in_kernel, 0);
}

static void data_that_begins_like_the_token(void **state)
{
	struct line *line = *state;

	put(line, "data:a");
	expect(line, "data:");
	expect_nothing(line);
	put(line, "b");
	expect_nothing(line);
	put(line, "ababab");
	/* abababab: the first two cannot be the token's any more. */
	expect(line, "ab");
	expect_nothing(line);
	put(line, "X");
	expect(line, "abababX");
	expect_nothing(line);
}

static void read_in_small_pieces(void **state)
{
	struct line *line = *state;
	char bytes[3];

	put(line, "abababcdabab");
	expect_nothing(line);
	put(line, "XY");
	assert_int_equal(get(line, bytes, 3, MSG_PEEK), 3);
	assert_memory_equal(bytes, "aba", 3);
	assert_int_equal(vb_token_reader_look(&line->state, token, line->reader, &line->found), 14);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(get(line, bytes, 3, 0), 3);
		assert_memory_equal(bytes, &"abababcdabab"[i * 3], 3);
	}
	assert_int_equal(get(line, bytes, 3, 0), 2);
	assert_memory_equal(bytes, "XY", 2);
}

static void the_token_wherever_it_is_cut(void **state)
{
	struct line *line = *state;
	char bytes[10];

	for (size_t cut = 1; cut < VB_TOKEN; cut++) {
		assert_int_equal(send(line->writer, token, cut, 0), cut);
		expect_nothing(line);
		assert_int_equal(send(line->writer, token + cut, VB_TOKEN - cut, 0), VB_TOKEN - cut);
		put(line, "beyond");
		assert_int_equal(get(line, bytes, sizeof(bytes), 0), -EAGAIN);
		assert_true(line->found);
		/* What follows is left alone. */
		assert_int_equal(recv(line->reader, bytes, sizeof(bytes), 0), 6);
	}
}

/* What comes while it looks has not been looked at. */
static void bytes_that_come_meanwhile_are_not_the_token(void **state)
{
	struct line *line = *state;

	put(line, "ab");
	comes_late.writer = line->writer;
	comes_late.text = "Xabcdefghijklmnopq";
	assert_int_equal(get(line, (char[100]){0}, 100, 0), -EAGAIN);
	assert_false(line->found);
	expect(line, "abXabcdefghijklmnopq");
	/* And those of the token, when it has. */
	assert_int_equal(send(line->writer, token, 5, 0), 5);
	comes_late.text = "bcdabababceB";
	assert_int_equal(get(line, (char[100]){0}, 100, 0), -EAGAIN);
	assert_false(line->found);
	assert_int_equal(get(line, (char[100]){0}, 100, 0), -EAGAIN);
	assert_true(line->found);
	expect(line, "B");
}

static void a_stream_that_ends_like_a_token_begins(void **state)
{
	struct line *line = *state;

	put(line, "abab");
	expect_nothing(line);
	close(line->writer);
	line->writer = -1;
	expect(line, "abab");
	expect(line, "");
}

static void a_reset_after_such_bytes_is_told_after_them(void **state)
{
	struct line *line = *state;
	char bytes[10];

	put(line, "abab");
	expect_nothing(line);
	/* A peer that leaves with bytes unread resets an AF_UNIX connection as it does TCP's. */
	assert_int_equal(send(line->reader, "unread", 6, 0), 6);
	close(line->writer);
	line->writer = -1;
	expect(line, "abab");
	assert_int_equal(get(line, bytes, sizeof(bytes), MSG_PEEK), -ECONNRESET);
	assert_int_equal(get(line, bytes, sizeof(bytes), 0), -ECONNRESET);
	expect(line, "");
}

static void connect_by_tcp(struct line *line)
{
	struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int listener = socket(AF_INET, SOCK_STREAM, 0), small = 4096;
	socklen_t length = sizeof(name);

	close_pair((void *[]){line});
	assert_int_equal(setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&name, sizeof(name)), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&name, &length), 0);
	line->writer = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	assert_true(connect(line->writer, (struct sockaddr *)&name, sizeof(name)) == 0 || errno == EINPROGRESS);
	line->reader = accept(listener, NULL, NULL);
	assert_true(line->reader >= 0);
	close(listener);
}

/* Every byte may be the beginning of the token: whatever the last one of a packet is, the next must come. */
static void the_peer_is_never_left_without_a_window(void **state)
{
	enum { LENGTH = 1 << 20 };
	struct line *line = *state;
	char *sent = malloc(LENGTH), *received = malloc(LENGTH);
	size_t out = 0, in = 0;

	connect_by_tcp(line);
	memset(sent, 'a', LENGTH - 1);
	sent[LENGTH - 1] = '.';
	for (unsigned turns = 0; in < LENGTH && turns < 10000000; turns++) {
		ssize_t got = out < LENGTH ? send(line->writer, sent + out, LENGTH - out, MSG_DONTWAIT) : 0;

		if (got > 0)
			out += (size_t)got;
		got = get(line, received + in, LENGTH - in, 0);
		if (got > 0)
			in += (size_t)got;
		assert_true(got > 0 || got == -EAGAIN);
		assert_false(line->found);
	}
	assert_int_equal(in, LENGTH);
	assert_memory_equal(sent, received, LENGTH);
	free(sent);
	free(received);
}

#define WITH_PAIR(test) cmocka_unit_test_setup_teardown(test, open_pair, close_pair)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_PAIR(data_that_begins_like_the_token),
		WITH_PAIR(read_in_small_pieces),
		WITH_PAIR(the_token_wherever_it_is_cut),
		WITH_PAIR(bytes_that_come_meanwhile_are_not_the_token),
		WITH_PAIR(a_stream_that_ends_like_a_token_begins),
		WITH_PAIR(a_reset_after_such_bytes_is_told_after_them),
		WITH_PAIR(the_peer_is_never_left_without_a_window),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
