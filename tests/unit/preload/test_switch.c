/* SPDX-License-Identifier: MIT
 *
 * While a connection moves from TCP to RDMA: what poll and FIONREAD have told of can be read, and a token is nobody's bytes. Between any
 * two calls the rsocket may come about, and from then on what TCP has may be a token.
 *
 * The rsockets are played here; TCP is a pair of Unix sockets. The token begins with the byte that the peer writes.
 */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "preload/sockets/connection.h"
#include "preload/sockets/readiness.h"
#include "preload/sockets/report.h"
#include "preload/sockets/settings.h"
#include "preload/sockets/transfer.h"
#include "rdmacm/rsocket/stream.h"
#include "rdmacm/rsocket/wait.h"

static const uint8_t token[VB_TOKEN] = "xyxyxyxyabcdefgh", peer_token[VB_TOKEN] = "0123456789abcdef";

static struct {
	int program, peer;
	struct vb_rsocket rs;
	struct vb_rstream stream;
	struct rdma_cm_id id;
	bool is_accepted;                /* by the listener, and not fetched yet */
	void (*meanwhile)(void);         /* once, while the calling thread is between two looks */
} play;

/* ---- rsockets, as far as they matter ---- */

static short ask_nothing(struct vb_rsocket *rs)
{
	(void)rs;
	return 0;
}

static void do_nothing(struct vb_rsocket *rs)
{
	(void)rs;
}

static int no_descriptor(struct vb_rsocket *rs)
{
	(void)rs;
	return -1;
}

static const struct vb_rsocket_kind kind = {.arm = do_nothing, .collect = do_nothing, .revents = ask_nothing, .wait_fd = no_descriptor};

struct vb_rsocket *vb_rstream_open_hidden(int domain, const uint8_t of_token[VB_RSTREAM_TOKEN], int *error)
{
	(void)domain;
	(void)of_token;
	*error = 0;
	return &play.rs;
}

int vb_rstream_bind(struct vb_rsocket *rs, const struct sockaddr *address, socklen_t length)
{
	(void)rs;
	(void)address;
	(void)length;
	return 0;
}

int vb_rstream_listen(struct vb_rsocket *rs, int backlog)
{
	(void)rs;
	(void)backlog;
	return 0;
}

int vb_rstream_connect(struct vb_rsocket *rs, const struct sockaddr *address, socklen_t length)
{
	(void)address;
	(void)length;
	rs->stream->state = VB_RSTREAM_CONNECTING;
	return -EINPROGRESS;
}

struct vb_rsocket *vb_rstream_take_accepted(struct vb_rsocket *listener)
{
	(void)listener;
	if (!play.is_accepted)
		return NULL;
	play.is_accepted = false;
	return &play.rs;
}

void vb_rstream_disconnect(struct vb_rsocket *rs)
{
	(void)rs;
}

struct vb_rsocket *vb_rsocket_withdraw(int fd)
{
	(void)fd;
	return NULL;
}

struct vb_rsocket *vb_rsocket_hold(struct vb_rsocket *rs)
{
	return rs;
}

void vb_rsocket_put(struct vb_rsocket *rs)
{
	(void)rs;
}

int vb_rstream_shutdown(struct vb_rsocket *rs, int how)
{
	(void)rs;
	(void)how;
	return 0;
}

ssize_t vb_rstream_receive(struct vb_rsocket *rs, struct vb_iov_cursor *to, int flags)
{
	(void)rs;
	(void)to;
	(void)flags;
	return -EAGAIN;
}

ssize_t vb_rstream_send(struct vb_rsocket *rs, struct vb_iov_cursor *from, int flags)
{
	(void)rs;
	(void)from;
	(void)flags;
	return -EAGAIN;
}

void vb_rsocket_progress(struct vb_rsocket *rs)
{
	(void)rs;
}

void vb_rsocket_wake(struct vb_rsocket *rs)
{
	(void)rs;
}

int vb_rsocket_watch(struct vb_rsocket *rs)
{
	(void)rs;
	return -1;
}

void vb_rsocket_unwatch_all(void)
{
}

void vb_rsocket_wake_clear(int wake_fd)
{
	(void)wake_fd;
}

int vb_rstream_sleep_begin(struct vb_rsocket *rs)
{
	(void)rs;
	return -1;
}

void vb_rstream_sleep_settle(void)
{
}

void vb_rstream_sleep_end(void)
{
}

void vb_rstream_sleep_woken(void)
{
}

void vb_rstream_disarm(struct vb_rsocket *rs)
{
	(void)rs;
}

vb_time vb_rsocket_now(void)
{
	void (*meanwhile)(void) = play.meanwhile;

	play.meanwhile = NULL;
	if (meanwhile != NULL)
		meanwhile();
	return VB_SECONDS(1);
}

vb_time vb_rsocket_look_until(vb_time least)
{
	return VB_SECONDS(1) + least;
}

void vb_rsocket_looked(bool saw_something)
{
	(void)saw_something;
}

bool vb_sockets_port_is_wanted(uint16_t port)
{
	(void)port;
	return true;
}

void vb_sockets_report(const struct vb_connection *connection)
{
	(void)connection;
}

/* The token of the side that accepted. */
ssize_t getrandom(void *bytes, size_t length, unsigned flags)
{
	(void)flags;
	assert_int_equal(length, sizeof(token));
	memcpy(bytes, token, sizeof(token));
	return (ssize_t)length;
}

/* The address of the TCP connection and of the rsocket are the same: there is one peer. */
static const struct sockaddr_in6 somewhere = {.sin6_family = AF_INET6, .sin6_port = 1};

int getpeername(int fd, struct sockaddr *name, socklen_t *length)
{
	(void)fd;
	memcpy(name, &somewhere, sizeof(somewhere));
	*length = sizeof(somewhere);
	return 0;
}

int getsockname(int fd, struct sockaddr *name, socklen_t *length)
{
	return getpeername(fd, name, length);
}

/* ---- the play ---- */

static void begin(bool is_connector)
{
	int fds[2];

	memset(&play, 0, sizeof(play));
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	play.program = fds[0];
	play.peer = fds[1];
	play.rs.kind = &kind;
	play.rs.stream = &play.stream;
	play.stream.id = &play.id;
	memcpy(&play.id.route.addr.dst_storage, &somewhere, sizeof(somewhere));
	vb_mutex_init(&play.rs.lock, VB_RANK_RSOCKET);
	memcpy(play.stream.peer_token, peer_token, sizeof(peer_token));
	play.stream.peer_has_token = true;
	vb_connection_track(play.program, is_connector, true, is_connector ? &play.rs : NULL, token);
}

static void end(void)
{
	vb_connection_forget(play.program);
	close(play.program);
	close(play.peer);
	vb_mutex_fini(&play.rs.lock);
}

static void peer_writes(const void *bytes, size_t length)
{
	assert_int_equal(write(play.peer, bytes, length), length);
}

static bool is_readable(void)
{
	struct vb_connection *connection = vb_connection_get(play.program);
	short events;

	assert_non_null(connection);
	vb_mutex_lock(&connection->lock);
	events = vb_readiness_look(connection, false);
	vb_mutex_unlock(&connection->lock);
	vb_connection_put(connection);
	return (events & POLLIN) != 0;
}

static int readable_bytes(void)
{
	struct vb_connection *connection = vb_connection_get(play.program);
	int bytes;

	vb_mutex_lock(&connection->lock);
	bytes = vb_stream_readable_bytes(connection);
	vb_mutex_unlock(&connection->lock);
	vb_connection_put(connection);
	return bytes;
}

static ssize_t receive(char *bytes, size_t room, int flags)
{
	struct vb_connection *connection = vb_connection_get(play.program);
	struct iovec iov = {.iov_base = bytes, .iov_len = room};
	ssize_t got = vb_transfer_receive(connection, &iov, 1, flags);

	vb_connection_put(connection);
	return got;
}

static void expect(const char *text)
{
	char bytes[100];

	assert_int_equal(receive(bytes, sizeof(bytes), 0), strlen(text));
	assert_memory_equal(bytes, text, strlen(text));
}

static void rsocket_comes(void)
{
	play.stream.state = VB_RSTREAM_CONNECTED;
	play.is_accepted = true;
}

static void rsocket_and_token_come(void)
{
	rsocket_comes();
	peer_writes(token, sizeof(token));
}

/* ---- tests; each for the side that accepted and the one that connected ---- */

static void what_poll_told_of_can_be_read(void **state)
{
	char byte;

	(void)state;
	for (int is_connector = 0; is_connector < 2; is_connector++) {
		begin(is_connector);
		peer_writes("x", 1);
		assert_true(is_readable());
		rsocket_comes();
		assert_int_equal(receive(&byte, 1, MSG_PEEK), 1);
		assert_true(is_readable());
		expect("x");
		assert_false(is_readable());
		end();
	}
}

static void what_fionread_told_of_can_be_read(void **state)
{
	(void)state;
	for (int is_connector = 0; is_connector < 2; is_connector++) {
		begin(is_connector);
		peer_writes("..xy", 4);
		assert_true(is_readable());
		assert_int_equal(readable_bytes(), 4);
		rsocket_comes();
		assert_int_equal(readable_bytes(), 4);
		expect("..xy");
		assert_int_equal(readable_bytes(), 0);
		end();
	}
}

/* Then nothing is told of it either. */
static void what_comes_later_is_held_back_until_it_is_no_token(void **state)
{
	char byte;

	(void)state;
	for (int is_connector = 0; is_connector < 2; is_connector++) {
		begin(is_connector);
		peer_writes(".", 1);
		assert_true(is_readable());
		rsocket_comes();
		expect(".");
		peer_writes("x", 1);
		assert_false(is_readable());
		assert_int_equal(readable_bytes(), 0);
		assert_int_equal(receive(&byte, 1, 0), -EAGAIN);
		peer_writes("!", 1);
		assert_true(is_readable());
		expect("x!");
		peer_writes(token, sizeof(token));
		assert_false(is_readable());
		end();
	}
}

static void part_of_it_is_read(void **state)
{
	char bytes[2];

	(void)state;
	begin(false);
	peer_writes("ab", 2);
	peer_writes(token, 8);
	assert_true(is_readable());
	rsocket_comes();
	peer_writes(token, sizeof(token));
	assert_int_equal(receive(bytes, 2, 0), 2);
	assert_memory_equal(bytes, "ab", 2);
	expect("xyxyxyxy");
	assert_false(is_readable());
	end();
}

/* It is there by the time that TCP is read, and was not when the rsocket was looked at. */
static void a_token_that_comes_in_the_midst_of_a_call_is_not_the_programs(void **state)
{
	char bytes[100];

	(void)state;
	begin(false);
	assert_false(is_readable());
	play.meanwhile = rsocket_and_token_come;
	assert_int_equal(receive(bytes, sizeof(bytes), 0), -EAGAIN);
	assert_null(play.meanwhile);
	assert_false(is_readable());
	end();

	begin(false);
	assert_false(is_readable());
	play.meanwhile = rsocket_and_token_come;
	assert_false(is_readable());
	assert_int_equal(readable_bytes(), 0);
	end();
}

/* By iWARP the peer may know of the rsocket before we do. */
static void what_may_be_a_token_is_left_in_tcp_until_there_is_an_rsocket(void **state)
{
	char byte;

	(void)state;
	begin(false);
	play.stream.by_send = true;
	assert_false(is_readable());
	peer_writes("x", 1);
	assert_false(is_readable());
	peer_writes("!", 1);
	assert_true(is_readable());
	expect("x!");
	peer_writes("x", 1);
	assert_int_equal(receive(&byte, 1, 0), -EAGAIN);
	play.stream.state = VB_RSTREAM_REFUSED;
	assert_true(is_readable());
	assert_null(vb_connection_get(play.program));
	assert_int_equal(recv(play.program, &byte, 1, MSG_DONTWAIT), 1);
	assert_int_equal(byte, 'x');
	end();
}

static void the_end_is_readable(void **state)
{
	char byte;

	(void)state;
	begin(false);
	assert_false(is_readable());
	assert_int_equal(shutdown(play.peer, SHUT_WR), 0);
	assert_true(is_readable());
	assert_int_equal(receive(&byte, 1, 0), 0);
	rsocket_comes();
	assert_true(is_readable());
	assert_int_equal(receive(&byte, 1, 0), 0);
	end();
}

/* ---- while the queue pair is made ---- */

static struct {
	sem_t begun, is_over;
} making;

static void *make_queue_pair(void *unused)
{
	(void)unused;
	vb_mutex_lock(&play.rs.lock);
	sem_post(&making.begun);
	sem_wait(&making.is_over);
	__atomic_store_n(&play.stream.is_making, false, __ATOMIC_RELEASE);
	vb_mutex_unlock(&play.rs.lock);
	return NULL;
}

/* Another thread has the rsocket's lock meanwhile. */
static void nothing_waits_for_a_queue_pair(void **state)
{
	pthread_t thread;

	(void)state;
	for (int is_connector = 0; is_connector < 2; is_connector++) {
		begin(is_connector);
		assert_false(is_readable());
		assert_int_equal(sem_init(&making.begun, 0, 0), 0);
		assert_int_equal(sem_init(&making.is_over, 0, 0), 0);
		play.stream.is_making = true;
		assert_int_equal(pthread_create(&thread, NULL, make_queue_pair, NULL), 0);
		assert_int_equal(sem_wait(&making.begun), 0);
		peer_writes("bytes", 5);
		assert_true(is_readable());
		assert_int_equal(readable_bytes(), 5);
		expect("bytes");
		sem_post(&making.is_over);
		assert_int_equal(pthread_join(thread, NULL), 0);
		sem_destroy(&making.begun);
		sem_destroy(&making.is_over);
		end();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_poll_told_of_can_be_read),
		cmocka_unit_test(what_fionread_told_of_can_be_read),
		cmocka_unit_test(what_comes_later_is_held_back_until_it_is_no_token),
		cmocka_unit_test(part_of_it_is_read),
		cmocka_unit_test(a_token_that_comes_in_the_midst_of_a_call_is_not_the_programs),
		cmocka_unit_test(what_may_be_a_token_is_left_in_tcp_until_there_is_an_rsocket),
		cmocka_unit_test(the_end_is_readable),
		cmocka_unit_test(nothing_waits_for_a_queue_pair),
	};

	return cmocka_run_group_tests_name("preload/switch", tests, NULL, NULL);
}
