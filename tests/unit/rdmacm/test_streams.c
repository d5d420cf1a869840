/* SPDX-License-Identifier: MIT
 *
 * Connections of iWARP devices, both ends in one process: what is told to whom, private data, refusals; and peers that are no library
 * of ours but a plain TCP socket, which says what it likes.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <rdma/rdma_verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cm.h"
#include "lib/patience.h"
#include "lib/private_network.h"
#include "wire/mpa_frame.h"

static const struct rdma_conn_param one_read = {.responder_resources = 1, .initiator_depth = 1};

/* ---- both ends ours ---- */

static void both_sides_are_told_the_end(void **state)
{
	struct connection connection;

	(void)state;
	connection_open(&connection);
	assert_int_equal(connection.id[0]->verbs->device->transport_type, IBV_TRANSPORT_IWARP);
	assert_int_equal(connection.id[0]->route.num_paths, 0);
	exchange_message(&connection, 0, "from the one who asked");
	exchange_message(&connection, 1, "from the one who accepted");
	assert_int_equal(rdma_disconnect(connection.id[0]), 0);
	assert_int_equal(expect_cm_event(connection.channel[1], RDMA_CM_EVENT_DISCONNECTED), 0);
	assert_int_equal(rdma_disconnect(connection.id[1]), 0);
	assert_int_equal(expect_cm_event(connection.channel[0], RDMA_CM_EVENT_DISCONNECTED), 0);
	/* Said twice it does no harm. */
	assert_int_equal(rdma_disconnect(connection.id[0]), 0);
	assert_int_equal(rdma_disconnect(connection.id[1]), 0);
	connection_close(&connection);
}

static void data_of_every_length_travels(void **state)
{
	static const unsigned lengths[] = {0, 1, 56, 148, 196, 251, 252};
	struct rdma_event_channel *channel = rdma_create_event_channel(), *passive = rdma_create_event_channel();
	struct rdma_cm_id *listener, *asking, *accepting;
	struct rdma_cm_event *event;
	uint8_t data[256];
	uint16_t port;

	(void)state;
	for (unsigned i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7 + 1);
	listener = listen_on_loopback(passive, RDMA_PS_TCP, &port);
	for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct rdma_conn_param param = {.private_data = data, .private_data_len = (uint8_t)lengths[i],
						.responder_resources = 3, .initiator_depth = 5};

		asking = resolved_id(channel, RDMA_PS_TCP, port);
		add_qp(asking);
		assert_int_equal(rdma_connect(asking, &param), 0);
		event = next_event(passive, RDMA_CM_EVENT_CONNECT_REQUEST);
		accepting = event->id;
		assert_int_equal(event->param.conn.private_data_len, lengths[i]);
		assert_memory_equal(event->param.conn.private_data != NULL ? event->param.conn.private_data : data, data, lengths[i]);
		/* Ours to ask is theirs to answer. */
		assert_int_equal(event->param.conn.responder_resources, 5);
		assert_int_equal(event->param.conn.initiator_depth, 3);
		assert_int_equal(rdma_ack_cm_event(event), 0);
		add_qp(accepting);
		assert_int_equal(rdma_accept(accepting, &param), 0);
		assert_int_equal(expect_cm_event(passive, RDMA_CM_EVENT_ESTABLISHED), 0);
		event = next_event(channel, RDMA_CM_EVENT_ESTABLISHED);
		assert_int_equal(event->param.conn.private_data_len, lengths[i]);
		assert_memory_equal(event->param.conn.private_data != NULL ? event->param.conn.private_data : data, data, lengths[i]);
		assert_int_equal(event->param.conn.initiator_depth, 5);
		assert_int_equal(rdma_ack_cm_event(event), 0);
		rdma_destroy_ep(asking);
		assert_int_equal(expect_cm_event(passive, RDMA_CM_EVENT_DISCONNECTED), 0);
		rdma_destroy_ep(accepting);
	}
	/* One byte too many. */
	asking = resolved_id(channel, RDMA_PS_TCP, port);
	add_qp(asking);
	assert_int_equal(rdma_connect(asking, &(struct rdma_conn_param){.private_data = data, .private_data_len = 253}), -1);
	assert_int_equal(errno, EINVAL);
	rdma_destroy_ep(asking);
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(channel);
	rdma_destroy_event_channel(passive);
}

static void a_rejection_is_told_with_its_data(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel(), *passive = rdma_create_event_channel();
	struct rdma_conn_param param = one_read;
	struct rdma_cm_id *listener, *asking;
	struct rdma_cm_event *event;
	uint16_t port;

	(void)state;
	listener = listen_on_loopback(passive, RDMA_PS_TCP, &port);
	asking = resolved_id(channel, RDMA_PS_TCP, port);
	add_qp(asking);
	assert_int_equal(rdma_connect(asking, &param), 0);
	event = next_event(passive, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(rdma_reject(event->id, "not today", 9), 0);
	assert_int_equal(rdma_destroy_id(event->id), 0);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	event = next_event(channel, RDMA_CM_EVENT_REJECTED);
	assert_int_equal(event->status, -ECONNREFUSED);
	assert_int_equal(event->param.conn.private_data_len, 9);
	assert_memory_equal(event->param.conn.private_data, "not today", 9);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	rdma_destroy_ep(asking);
	/* A request whose id is destroyed is refused as well; nobody has to wait for it. */
	asking = resolved_id(channel, RDMA_PS_TCP, port);
	add_qp(asking);
	assert_int_equal(rdma_connect(asking, &param), 0);
	event = next_event(passive, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(rdma_destroy_id(event->id), 0);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(expect_cm_event(channel, RDMA_CM_EVENT_REJECTED), -ECONNREFUSED);
	rdma_destroy_ep(asking);
	assert_int_equal(rdma_destroy_id(listener), 0);
	/* Nobody is there at all any more. */
	asking = resolved_id(channel, RDMA_PS_TCP, port);
	add_qp(asking);
	assert_int_equal(rdma_connect(asking, &param), 0);
	assert_int_equal(expect_cm_event(channel, RDMA_CM_EVENT_REJECTED), -ECONNREFUSED);
	rdma_destroy_ep(asking);
	rdma_destroy_event_channel(channel);
	rdma_destroy_event_channel(passive);
}

/* As perftest does it: the client asks a moment before the server listens. */
static void a_listener_may_be_a_moment_late(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel(), *passive = rdma_create_event_channel();
	struct rdma_conn_param param = one_read;
	struct rdma_cm_id *listener, *asking;
	struct sockaddr_in address;
	struct rdma_cm_event *event;
	uint16_t port;

	(void)state;
	listener = listen_on_loopback(passive, RDMA_PS_TCP, &port);
	assert_int_equal(rdma_destroy_id(listener), 0);
	asking = resolved_id(channel, RDMA_PS_TCP, port);
	add_qp(asking);
	assert_int_equal(rdma_connect(asking, &param), 0);
	address = loopback(port);
	assert_int_equal(rdma_create_id(passive, &listener, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(listener, (struct sockaddr *)&address), 0);
	assert_int_equal(rdma_listen(listener, 1), 0);
	event = next_event(passive, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(rdma_reject(event->id, NULL, 0), 0);
	assert_int_equal(rdma_destroy_id(event->id), 0);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(expect_cm_event(channel, RDMA_CM_EVENT_REJECTED), -ECONNREFUSED);
	rdma_destroy_ep(asking);
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(channel);
	rdma_destroy_event_channel(passive);
}

/* ---- a peer of our own making ---- */

static int tcp_socket(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	struct timeval patience = {.tv_sec = PATIENCE_MS / 1000};

	assert_true(fd >= 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
	return fd;
}

static int tcp_to(uint16_t port)
{
	struct sockaddr_in address = loopback(port);
	int fd = tcp_socket();

	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

static void say(int fd, const void *bytes, size_t length)
{
	assert_int_equal(send(fd, bytes, length, MSG_NOSIGNAL), (ssize_t)length);
}

/* It is closed, or reset, and says nothing before. */
static void expect_closed(int fd)
{
	uint8_t byte;
	ssize_t got = recv(fd, &byte, 1, 0);

	assert_true(got == 0 || (got < 0 && errno == ECONNRESET));
	close(fd);
}

static void send_request(int fd, const struct vb_mpa_frame *request)
{
	uint8_t bytes[VB_MPA_MAX_FRAME];

	say(fd, bytes, vb_mpa_frame_encode(request, bytes));
}

static void read_reply(int fd, struct vb_mpa_frame *reply)
{
	uint8_t bytes[VB_MPA_MAX_FRAME];
	size_t there = 0, whole;

	while ((whole = vb_mpa_frame_length(VB_MPA_REPLY, bytes, there)) > there) {
		ssize_t got = recv(fd, bytes + there, whole - there, 0);

		assert_true(got > 0);
		there += (size_t)got;
	}
	assert_true(vb_mpa_frame_decode(reply, VB_MPA_REPLY, bytes, there));
}

static const struct vb_mpa_frame plain_request = {.kind = VB_MPA_REQUEST, .revision = 2, .enhanced = true, .ird = 1, .ord = 1};

/* One that means it is served, whatever else goes on. */
static void expect_service(struct rdma_event_channel *passive, uint16_t port)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *asking = resolved_id(channel, RDMA_PS_TCP, port);
	struct rdma_conn_param param = one_read;
	struct rdma_cm_event *event;
	struct rdma_cm_id *accepting;

	add_qp(asking);
	assert_int_equal(rdma_connect(asking, &param), 0);
	event = next_event(passive, RDMA_CM_EVENT_CONNECT_REQUEST);
	accepting = event->id;
	assert_int_equal(rdma_ack_cm_event(event), 0);
	add_qp(accepting);
	assert_int_equal(rdma_accept(accepting, &param), 0);
	assert_int_equal(expect_cm_event(passive, RDMA_CM_EVENT_ESTABLISHED), 0);
	assert_int_equal(expect_cm_event(channel, RDMA_CM_EVENT_ESTABLISHED), 0);
	rdma_destroy_ep(asking);
	assert_int_equal(expect_cm_event(passive, RDMA_CM_EVENT_DISCONNECTED), 0);
	rdma_destroy_ep(accepting);
	rdma_destroy_event_channel(channel);
}

static void nonsense_is_closed_and_troubles_nobody(void **state)
{
	static const char *const nonsense[] = {"GET / HTTP/1.1\r\n\r\n", "MPA ID Rep Frame\x10\x02\0\0", "MPA ID Req Frame\x10\x03\0\x04",
					       "MPA ID Req Frame\x10\x02\x02\x01"};
	static const size_t lengths[] = {18, 20, 20, 20};
	struct rdma_event_channel *passive = rdma_create_event_channel();
	struct vb_mpa_frame request = plain_request, reply;
	struct rdma_cm_id *listener;
	uint16_t port;
	int fd;

	(void)state;
	listener = listen_on_loopback(passive, RDMA_PS_TCP, &port);
	for (unsigned i = 0; i < 4; i++) {
		fd = tcp_to(port);
		say(fd, nonsense[i], lengths[i]);
		if (i == 2)
			say(fd, "\0\0\0\0", 4);
		expect_closed(fd);
	}
	/* Half a request, and gone. */
	fd = tcp_to(port);
	say(fd, "MPA ID Req", 10);
	close(fd);
	/* Markers: a reply with R. */
	fd = tcp_to(port);
	request.markers = true;
	send_request(fd, &request);
	read_reply(fd, &reply);
	assert_true(reply.reject);
	expect_closed(fd);
	expect_no_cm_event(passive);
	expect_service(passive, port);
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(passive);
}

/* There is room for 1024 that do not say what they want; one more costs the oldest its place. */
static void half_open_handshakes_are_bounded(void **state)
{
	enum { MANY = 1024 + 8 };
	static int fds[MANY];
	struct rdma_event_channel *passive = rdma_create_event_channel();
	struct rlimit limit;
	struct rdma_cm_id *listener;
	uint16_t port;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = limit.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	if (limit.rlim_cur < 3 * MANY) {
		print_message("not tried: no more than %lu descriptors\n", (unsigned long)limit.rlim_cur);
		return;
	}
	listener = listen_on_loopback(passive, RDMA_PS_TCP, &port);
	for (unsigned i = 0; i < MANY; i++) {
		fds[i] = tcp_to(port);
		say(fds[i], "MPA ", 4);
	}
	expect_service(passive, port);
	/* Sooner or later in this order; the last ones when their five seconds are over. */
	for (unsigned i = 0; i < MANY; i++)
		expect_closed(fds[i]);
	expect_no_cm_event(passive);
	expect_service(passive, port);
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(passive);
}

/* After a good handshake: the connection ends, and nothing else does. */
static void nonsense_after_the_handshake_ends_one_connection(void **state)
{
	static const struct {
		const char *bytes;
		size_t length;
	} streams[] = {
		{"", 0},                                                           /* FIN */
		{"\x00\x01\x41", 3},                                               /* an FPDU of which little comes */
		{"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 20},
		{"\x00\x00\x00\x00\x00\x00\x00\x00", 8},                           /* shorter than any header */
		{"\x00\x0e\xc1\x40\x00\x00\x12\x34\0\0\0\0\0\0\0\0\0\0\0\0", 20},  /* a WRITE of nothing: no fault */
		/* A WRITE of four bytes to a key that is none. */
		{"\x00\x12\xc1\x40\x00\x00\x12\x34\0\0\0\0\0\0\0\0" "abcd\0\0\0\0\0\0", 26},
	};
	struct rdma_event_channel *passive = rdma_create_event_channel();
	struct rdma_conn_param param = one_read;
	struct rdma_cm_id *listener;
	uint16_t port;

	(void)state;
	listener = listen_on_loopback(passive, RDMA_PS_TCP, &port);
	for (unsigned i = 0; i < sizeof(streams) / sizeof(streams[0]); i++) {
		struct vb_mpa_frame reply;
		struct rdma_cm_event *event;
		struct rdma_cm_id *accepting;
		uint8_t bytes[256];
		int fd = tcp_to(port);

		send_request(fd, &plain_request);
		event = next_event(passive, RDMA_CM_EVENT_CONNECT_REQUEST);
		accepting = event->id;
		assert_int_equal(rdma_ack_cm_event(event), 0);
		add_qp(accepting);
		assert_int_equal(rdma_accept(accepting, &param), 0);
		assert_int_equal(expect_cm_event(passive, RDMA_CM_EVENT_ESTABLISHED), 0);
		read_reply(fd, &reply);
		assert_false(reply.reject);
		if (streams[i].length > 0)
			say(fd, streams[i].bytes, streams[i].length);
		assert_int_equal(shutdown(fd, SHUT_WR), 0);
		assert_int_equal(expect_cm_event(passive, RDMA_CM_EVENT_DISCONNECTED), 0);
		while (recv(fd, bytes, sizeof(bytes), 0) > 0)
			; /* perhaps a TERMINATE */
		close(fd);
		rdma_destroy_ep(accepting);
	}
	expect_service(passive, port);
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(passive);
}

/* As responder: the reply, or what stands for it. */
static void a_bad_reply_is_a_rejection(void **state)
{
	static const struct {
		const char *bytes;
		size_t length;
		int status;
	} replies[] = {
		{"", 0, -ECONNRESET},
		{"MPA ID Rep Fra", 14, -ECONNRESET},
		{"MPA ID Req Frame\0\x02\0\0", 20, -EPROTO},
		{"MPA ID Rep Frame\x80\x02\0\0", 20, -EPROTO},
		{"HTTP/1.1 400 Bad Request", 24, -EPROTO},
	};
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in address = loopback(0);
	socklen_t length = sizeof(address);
	struct rdma_conn_param param = one_read;
	int listening = tcp_socket();

	(void)state;
	assert_int_equal(bind(listening, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(listening, 8), 0);
	assert_int_equal(getsockname(listening, (struct sockaddr *)&address, &length), 0);
	for (unsigned i = 0; i < sizeof(replies) / sizeof(replies[0]); i++) {
		struct rdma_cm_id *asking = resolved_id(channel, RDMA_PS_TCP, ntohs(address.sin_port));
		uint8_t request[VB_MPA_MAX_FRAME];
		int fd;

		add_qp(asking);
		assert_int_equal(rdma_connect(asking, &param), 0);
		fd = accept(listening, NULL, NULL);
		assert_true(fd >= 0);
		assert_int_equal(recv(fd, request, 24, MSG_WAITALL), 24);
		if (replies[i].length > 0)
			say(fd, replies[i].bytes, replies[i].length);
		(void)shutdown(fd, SHUT_WR); /* it may have been reset by now */
		assert_int_equal(expect_cm_event(channel, RDMA_CM_EVENT_REJECTED), replies[i].status);
		close(fd);
		rdma_destroy_ep(asking);
	}
	close(listening);
	rdma_destroy_event_channel(channel);
}

/* ---- the end, and siw ---- */

enum { LAST_MS = 100 };              /* docs/iwarp.md: last */

static const struct vb_mpa_frame ready_request = {.kind = VB_MPA_REQUEST, .revision = 2, .enhanced = true, .ird = 1, .ord = 1,
						  .peer_to_peer = true, .rtr_write = true};

static struct rdma_cm_id *accept_one(struct rdma_event_channel *passive)
{
	struct rdma_cm_event *event = next_event(passive, RDMA_CM_EVENT_CONNECT_REQUEST);
	struct rdma_conn_param param = one_read;
	struct rdma_cm_id *accepting = event->id;

	assert_int_equal(rdma_ack_cm_event(event), 0);
	add_qp(accepting);
	assert_int_equal(rdma_accept(accepting, &param), 0);
	return accepting;
}

/* What siw sends fails if the end of the stream comes before its sender has looked up from it: status 2 at a message that has arrived. So
 * the end comes no sooner than some time behind its last bytes. The peer here sends them when `began` is noted. */
static void expect_the_end_no_sooner(int fd, int64_t began)
{
	uint8_t bytes[256];

	while (recv(fd, bytes, sizeof(bytes), 0) > 0)
		;
	assert_in_range(patience_clock() - began, LAST_MS, PATIENCE_MS);
	close(fd);
}

/* The peer's first message makes the connection; its bytes are the last there are. */
static int64_t say_ready(int fd, struct vb_mpa_frame *reply)
{
	static const uint8_t nothing[20] = "\x00\x0e\xc1\x40\x00\x00\x00\x01";
	int64_t began;

	read_reply(fd, reply);
	assert_false(reply->reject);
	began = patience_clock();
	say(fd, nothing, sizeof(nothing));
	return began;
}

static void the_end_is_not_told_behind_the_last_bytes(void **state)
{
	struct rdma_event_channel *passive = rdma_create_event_channel();
	struct rdma_cm_id *listener, *accepting;
	struct vb_mpa_frame reply;
	uint16_t port;

	(void)state;
	listener = listen_on_loopback(passive, RDMA_PS_TCP, &port);
	for (unsigned destroyed = 0; destroyed < 2; destroyed++) {
		int fd = tcp_to(port);
		int64_t began;

		send_request(fd, &ready_request);
		accepting = accept_one(passive);
		began = say_ready(fd, &reply);
		assert_int_equal(expect_cm_event(passive, RDMA_CM_EVENT_ESTABLISHED), 0);
		if (destroyed)
			rdma_destroy_ep(accepting);
		else
			assert_int_equal(rdma_disconnect(accepting), 0);
		expect_the_end_no_sooner(fd, began);
		if (!destroyed) {
			assert_int_equal(expect_cm_event(passive, RDMA_CM_EVENT_DISCONNECTED), 0);
			rdma_destroy_ep(accepting);
		}
	}
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(passive);
}

/* siw takes an end that comes together with a refusal for the end alone, and its program does not hear the reason. */
static void the_end_is_not_told_behind_a_rejection(void **state)
{
	struct rdma_event_channel *passive = rdma_create_event_channel();
	struct vb_mpa_frame markers = ready_request, reply;
	struct rdma_cm_id *listener;
	int64_t began;
	uint16_t port;
	int fd;

	(void)state;
	listener = listen_on_loopback(passive, RDMA_PS_TCP, &port);
	for (unsigned by_destroying = 0; by_destroying < 2; by_destroying++) {
		struct rdma_cm_event *event;
		struct rdma_cm_id *refused;

		fd = tcp_to(port);
		began = patience_clock();
		send_request(fd, &ready_request);
		event = next_event(passive, RDMA_CM_EVENT_CONNECT_REQUEST);
		refused = event->id;
		assert_int_equal(rdma_ack_cm_event(event), 0);
		if (!by_destroying)
			assert_int_equal(rdma_reject(refused, "not today", 9), 0);
		assert_int_equal(rdma_destroy_id(refused), 0);
		read_reply(fd, &reply);
		assert_true(reply.reject);
		expect_the_end_no_sooner(fd, began);
	}
	/* Nor where the program is not asked: markers are what we do not do. */
	fd = tcp_to(port);
	began = patience_clock();
	markers.markers = true;
	send_request(fd, &markers);
	read_reply(fd, &reply);
	assert_true(reply.reject);
	expect_the_end_no_sooner(fd, began);
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(passive);
}

/* What an accepted socket is set to it has from the one that listens: as one that connects. */
static void both_ends_are_set_alike(void **state)
{
	static const struct {
		int level, name;
	} options[] = {{IPPROTO_TCP, TCP_NODELAY}, {IPPROTO_TCP, TCP_NOTSENT_LOWAT}, {IPPROTO_TCP, TCP_USER_TIMEOUT},
		       {SOL_SOCKET, SO_KEEPALIVE}, {IPPROTO_TCP, TCP_KEEPIDLE}, {IPPROTO_TCP, TCP_KEEPINTVL}, {IPPROTO_TCP, TCP_KEEPCNT}};
	enum { OPTIONS = sizeof(options) / sizeof(options[0]), DESCRIPTORS = 256 };
	struct rdma_event_channel *passive = rdma_create_event_channel(), *active = rdma_create_event_channel();
	struct rdma_conn_param param = one_read;
	struct rdma_cm_id *listener, *asking, *accepting;
	int value[2][OPTIONS], plain[OPTIONS], bare = tcp_socket();
	unsigned ends = 0;
	uint16_t port;

	(void)state;
	listener = listen_on_loopback(passive, RDMA_PS_TCP, &port);
	asking = resolved_id(active, RDMA_PS_TCP, port);
	add_qp(asking);
	assert_int_equal(rdma_connect(asking, &param), 0);
	accepting = accept_one(passive);
	assert_int_equal(expect_cm_event(active, RDMA_CM_EVENT_ESTABLISHED), 0);
	assert_int_equal(expect_cm_event(passive, RDMA_CM_EVENT_ESTABLISHED), 0);
	for (int fd = 0; fd < DESCRIPTORS; fd++) {
		struct sockaddr_storage address;
		int type = 0;

		if (getpeername(fd, (struct sockaddr *)&address, &(socklen_t){sizeof(address)}) != 0 || address.ss_family == AF_UNIX ||
		    getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &(socklen_t){sizeof(type)}) != 0 || type != SOCK_STREAM)
			continue;
		assert_in_range(ends, 0, 1);
		for (unsigned i = 0; i < OPTIONS; i++)
			assert_int_equal(getsockopt(fd, options[i].level, options[i].name, &value[ends][i], &(socklen_t){sizeof(int)}), 0);
		ends++;
	}
	assert_int_equal(ends, 2);
	assert_memory_equal(value[0], value[1], sizeof(value[0]));
	for (unsigned i = 0; i < OPTIONS; i++) {
		assert_int_equal(getsockopt(bare, options[i].level, options[i].name, &plain[i], &(socklen_t){sizeof(int)}), 0);
		assert_int_not_equal(plain[i], value[0][i]);
	}
	close(bare);
	rdma_destroy_ep(asking);
	rdma_destroy_ep(accepting);
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(passive);
	rdma_destroy_event_channel(active);
}

/* A program that leaves as soon as it has what it waited for. */
static void accept_and_leave(int told, bool clean)
{
	struct rdma_event_channel *passive = rdma_create_event_channel();
	struct rdma_cm_id *listener, *accepting;
	uint16_t port;

	listener = listen_on_loopback(passive, RDMA_PS_TCP, &port);
	if (write(told, &port, sizeof(port)) != sizeof(port))
		_exit(1);
	accepting = accept_one(passive);
	if (expect_cm_event(passive, RDMA_CM_EVENT_ESTABLISHED) != 0)
		_exit(1);
	if (clean) {
		rdma_destroy_ep(accepting);
		(void)rdma_destroy_id(listener);
		rdma_destroy_event_channel(passive);
	}
	exit(0);
}

static void the_end_of_a_process_is_not_told_sooner(void **state)
{
	(void)state;
	for (unsigned clean = 0; clean < 2; clean++) {
		struct vb_mpa_frame reply;
		uint16_t port;
		int pipes[2], fd, status;
		int64_t began;
		pid_t child;

		assert_int_equal(pipe(pipes), 0);
		child = fork();
		assert_true(child >= 0);
		if (child == 0)
			accept_and_leave(pipes[1], clean);
		assert_int_equal(read(pipes[0], &port, sizeof(port)), sizeof(port));
		fd = tcp_to(port);
		send_request(fd, &ready_request);
		began = say_ready(fd, &reply);
		expect_the_end_no_sooner(fd, began);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
		close(pipes[0]);
		close(pipes[1]);
	}
}

enum { LAST_MESSAGE = 256 * 1024, LONGEST_STAY_MS = 4000 };

/* What the socket has taken has completed, so a program may leave. */
static void send_and_leave(int told)
{
	struct rdma_event_channel *passive = rdma_create_event_channel();
	struct rdma_cm_id *listener, *accepting;
	struct ibv_wc completion;
	struct ibv_mr *mr;
	uint16_t port;

	listener = listen_on_loopback(passive, RDMA_PS_TCP, &port);
	if (write(told, &port, sizeof(port)) != sizeof(port))
		_exit(1);
	accepting = accept_one(passive);
	mr = rdma_reg_msgs(accepting, calloc(1, LAST_MESSAGE), LAST_MESSAGE);
	if (expect_cm_event(passive, RDMA_CM_EVENT_ESTABLISHED) != 0 || mr == NULL ||
	    rdma_post_send(accepting, NULL, mr->addr, LAST_MESSAGE, mr, IBV_SEND_SIGNALED) != 0 ||
	    !eventually(ibv_poll_cq(accepting->qp->send_cq, 1, &completion) == 1) || completion.status != IBV_WC_SUCCESS)
		_exit(1);
	(void)listener;
	exit(0);
}

/* A socket that is closed by the end of its process answers what comes with RST, and drops what it has not sent. */
static void what_has_completed_arrives_from_a_process_that_left(void **state)
{
	static const uint8_t nothing[20] = "\x00\x0e\xc1\x40\x00\x00\x00\x01";
	struct vb_mpa_frame request = ready_request, reply;
	struct sockaddr_in address;
	const int little = 4096;
	size_t came = 0;
	uint8_t bytes[4096];
	uint16_t port;
	int pipes[2], fd, status;
	int64_t began;
	ssize_t got;
	pid_t child;

	(void)state;
	assert_int_equal(pipe(pipes), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0)
		send_and_leave(pipes[1]);
	assert_int_equal(read(pipes[0], &port, sizeof(port)), sizeof(port));
	fd = tcp_socket();
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &little, sizeof(little)), 0);
	address = loopback(port);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	request.large = true; /* as one of ours, to whom the end may be told at once */
	send_request(fd, &request);
	(void)say_ready(fd, &reply);
	/* The message has begun to come, and the rest lies in the other's socket. Does the process leave it there? */
	began = patience_clock();
	(void)eventually_within(100, waitpid(child, &status, WNOHANG | WNOWAIT) == child);
	while (came < LAST_MESSAGE && (got = recv(fd, bytes, sizeof(bytes), 0)) > 0) {
		came += (size_t)got;
		(void)send(fd, nothing, sizeof(nothing), MSG_NOSIGNAL);
	}
	/* It does not wait for ever; a machine that was busy elsewhere for so long has shown nothing. */
	if (patience_clock() - began < LONGEST_STAY_MS)
		assert_in_range(came, LAST_MESSAGE, LAST_MESSAGE + LAST_MESSAGE / 8);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	close(fd);
	close(pipes[0]);
	close(pipes[1]);
}

/* ---- ports and processes ---- */

static void a_port_is_one_of_tcp(void **state)
{
	struct rdma_event_channel *passive = rdma_create_event_channel();
	struct sockaddr_in address = loopback(0);
	socklen_t length = sizeof(address);
	struct rdma_cm_id *id;
	int fd = tcp_socket();

	(void)state;
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
	assert_int_equal(rdma_create_id(passive, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&address), -1);
	assert_int_equal(errno, EADDRINUSE);
	/* The id is as it was: another port will do, and that one when it is free. */
	close(fd);
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&address), 0);
	assert_int_equal(rdma_listen(id, 1), 0);
	fd = tcp_socket();
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), -1);
	close(fd);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(passive);
}

/* A child of fork that lives on does not keep the connection alive. */
static void a_connection_is_its_process_alone(void **state)
{
	struct connection connection;
	int pipes[2];
	pid_t child;
	char byte;

	(void)state;
	connection_open(&connection);
	assert_int_equal(pipe(pipes), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		close(pipes[1]);
		_exit(read(pipes[0], &byte, 1) == 0 ? 0 : 1);
	}
	close(pipes[0]);
	exchange_message(&connection, 0, "after the fork");
	rdma_destroy_qp(connection.id[0]);
	assert_int_equal(rdma_destroy_id(connection.id[0]), 0);
	assert_int_equal(expect_cm_event(connection.channel[1], RDMA_CM_EVENT_DISCONNECTED), 0);
	close(pipes[1]);
	assert_int_equal(waitpid(child, NULL, 0), child);
	rdma_destroy_qp(connection.id[1]);
	assert_int_equal(rdma_destroy_id(connection.id[1]), 0);
	assert_int_equal(rdma_destroy_id(connection.listener), 0);
	rdma_destroy_event_channel(connection.channel[0]);
	rdma_destroy_event_channel(connection.channel[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* First: their children use devices, which a child may only if its parent has not. */
		cmocka_unit_test(the_end_of_a_process_is_not_told_sooner),
		cmocka_unit_test(what_has_completed_arrives_from_a_process_that_left),
		cmocka_unit_test(both_sides_are_told_the_end),
		cmocka_unit_test(data_of_every_length_travels),
		cmocka_unit_test(a_rejection_is_told_with_its_data),
		cmocka_unit_test(a_listener_may_be_a_moment_late),
		cmocka_unit_test(nonsense_is_closed_and_troubles_nobody),
		cmocka_unit_test(nonsense_after_the_handshake_ends_one_connection),
		cmocka_unit_test(a_bad_reply_is_a_rejection),
		cmocka_unit_test(the_end_is_not_told_behind_the_last_bytes),
		cmocka_unit_test(the_end_is_not_told_behind_a_rejection),
		cmocka_unit_test(a_port_is_one_of_tcp),
		cmocka_unit_test(both_ends_are_set_alike),
		cmocka_unit_test(a_connection_is_its_process_alone),
		cmocka_unit_test(half_open_handshakes_are_bounded),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
