/* SPDX-License-Identifier: MIT
 *
 * A stream rsocket whose peer does not keep to the protocol: a plain rdma_cm connection that says what it likes.
 * Whatever it says, the rsocket refuses or breaks the connection, and nothing else is harmed.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <rdma/rdma_verbs.h>
#include <rdma/rsocket.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cm.h"
#include "lib/patience.h"
#include "lib/private_network.h"
#include "rdmacm/rsocket/stream_wire.h"
#include "rsockets.h"

/* The peer: an id, its memory, and what the rsocket said of its own. */
struct peer {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	uint8_t memory[4096];
	struct vb_rstream_hello theirs;
	int listener, server;
	uint16_t port;
};

static void prepare(struct peer *peer)
{
	struct sockaddr_in address;

	peer->listener = listening(&address, 4096, 2);
	peer->port = ntohs(address.sin_port);
	peer->channel = rdma_create_event_channel();
	peer->id = resolved_id(peer->channel, RDMA_PS_TCP, peer->port);
	add_qp(peer->id);
	peer->mr = rdma_reg_write(peer->id, peer->memory, sizeof(peer->memory));
	assert_non_null(peer->mr);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(rdma_post_recv(peer->id, NULL, peer->memory, sizeof(peer->memory), peer->mr), 0);
}

static void finish(struct peer *peer)
{
	rdma_dereg_mr(peer->mr);
	rdma_destroy_qp(peer->id);
	rdma_destroy_id(peer->id);
	rdma_destroy_event_channel(peer->channel);
	rclose(peer->listener);
}

static struct vb_rstream_hello_bytes good_hello(const struct peer *peer)
{
	struct vb_rstream_hello hello = {
		.credits = 8,
		.iomaps = 2,
		.targets = {.address = (uintptr_t)peer->memory, .key = peer->mr->rkey, .length = 2},
		.data = {.address = (uintptr_t)peer->memory + 1024, .key = peer->mr->rkey, .length = 1024},
	};
	struct vb_rstream_hello_bytes bytes;

	vb_rstream_hello_encode(&bytes, &hello);
	return bytes;
}

static void ask(struct peer *peer, const void *hello, uint8_t length)
{
	struct rdma_conn_param parameters = {.private_data = hello, .private_data_len = length, .retry_count = 7,
					     .rnr_retry_count = 7};

	assert_int_equal(rdma_connect(peer->id, &parameters), 0);
}

static void connect_peer(struct peer *peer)
{
	struct vb_rstream_hello_bytes hello;
	struct rdma_cm_event *event;

	prepare(peer);
	hello = good_hello(peer);
	ask(peer, &hello, sizeof(hello));
	event = next_event(peer->channel, RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(vb_rstream_hello_decode(&peer->theirs, event->param.conn.private_data,
						 event->param.conn.private_data_len), 0);
	rdma_ack_cm_event(event);
	peer->server = raccept(peer->listener, NULL, NULL);
	assert_true(peer->server >= 0);
}

/* One message, with `length` bytes written to `address` before it. Whether it is acknowledged is not our concern. */
static void say(struct peer *peer, uint32_t immediate, uint64_t address, uint32_t key, uint32_t length)
{
	struct ibv_sge piece = {.addr = (uintptr_t)peer->memory + 2048, .length = length, .lkey = peer->mr->lkey};
	struct ibv_send_wr request = {
		.sg_list = &piece,
		.num_sge = length > 0 ? 1 : 0,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED,
		.imm_data = htonl(immediate),
		.wr.rdma = {.remote_addr = address, .rkey = key},
	}, *refused;

	assert_int_equal(ibv_post_send(peer->id->qp, &request, &refused), 0);
}

static void expect_broken(struct peer *peer)
{
	char byte;

	assert_int_equal(poll_one(peer->server, POLLIN, PATIENCE_MS) & (POLLERR | POLLIN), POLLERR | POLLIN);
	assert_int_equal(rrecv(peer->server, &byte, 1, 0), -1);
	assert_int_equal(errno, EPROTO);
	assert_int_equal(rsend(peer->server, &byte, 1, 0), -1);
	assert_int_equal(errno, ECONNRESET);
	rclose(peer->server);
	finish(peer);
}

static void bad_hellos_are_rejected(void **state)
{
	struct vb_rstream_hello_bytes hello;
	struct peer peer;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		prepare(&peer);
		hello = good_hello(&peer);
		if (i == 0)
			hello.version = 9;
		else if (i == 1)
			hello.target_entries = be32_of(0);
		if (i == 2)
			ask(&peer, NULL, 0);
		else
			ask(&peer, &hello, sizeof(hello));
		expect_cm_event(peer.channel, RDMA_CM_EVENT_REJECTED);
		assert_int_equal(poll_one(peer.listener, POLLIN, 0), 0);
		finish(&peer);
	}
}

/* First what it should be, so that what follows fails for its own reason. */
static void an_honest_peer(void **state)
{
	struct peer peer;
	char bytes[5];

	(void)state;
	connect_peer(&peer);
	memcpy(peer.memory + 2048, "bytes", 5);
	say(&peer, vb_rstream_message_encode(VB_RSTREAM_DATA, 5), peer.theirs.data.address, peer.theirs.data.key, 5);
	assert_int_equal(rrecv(peer.server, bytes, 5, MSG_WAITALL), 5);
	assert_memory_equal(bytes, "bytes", 5);
	say(&peer, vb_rstream_message_encode(VB_RSTREAM_CONTROL, VB_RSTREAM_DISCONNECT), 0, 0, 0);
	assert_int_equal(rrecv(peer.server, bytes, 1, 0), 0);
	rclose(peer.server);
	finish(&peer);
}

static void more_bytes_than_were_granted(void **state)
{
	struct peer peer;

	(void)state;
	connect_peer(&peer);
	/* Both halves may have been granted by now: one byte more than that. */
	say(&peer, vb_rstream_message_encode(VB_RSTREAM_DATA, peer.theirs.data.length * 2 + 1), 0, 0, 0);
	expect_broken(&peer);
	connect_peer(&peer);
	say(&peer, vb_rstream_message_encode(VB_RSTREAM_DATA, UINT32_MAX), 0, 0, 0);
	expect_broken(&peer);
}

static void more_grants_than_there_are_entries(void **state)
{
	struct peer peer;

	(void)state;
	connect_peer(&peer);
	for (unsigned i = 0; i < 3; i++)
		say(&peer, vb_rstream_message_encode(VB_RSTREAM_GRANT, 8), peer.theirs.targets.address,
		    peer.theirs.targets.key, 16);
	expect_broken(&peer);
}

static void a_grant_of_nothing(void **state)
{
	struct peer peer;
	char bytes[1025] = "";
	ssize_t sent = 0;

	(void)state;
	connect_peer(&peer);
	memset(peer.memory + 2048, 0, 16);
	say(&peer, vb_rstream_message_encode(VB_RSTREAM_GRANT, 8), peer.theirs.targets.address + 16,
	    peer.theirs.targets.key, 16);
	/* What the hello granted goes out; then comes the entry without length. */
	while (sent >= 0 && poll_one(peer.server, POLLOUT, PATIENCE_MS) & POLLOUT)
		sent = rsend(peer.server, bytes, sizeof(bytes), MSG_DONTWAIT);
	assert_int_equal(sent, -1);
	assert_int_equal(errno, EPROTO);
	rclose(peer.server);
	finish(&peer);
}

static void mappings_that_cannot_be(void **state)
{
	struct peer peer;

	(void)state;
	connect_peer(&peer);
	say(&peer, vb_rstream_message_encode(VB_RSTREAM_IOMAP, 2), 0, 0, 0);
	expect_broken(&peer);
}

static void messages_nobody_knows(void **state)
{
	static const uint32_t kinds[] = {1, 2, 3, 5};
	struct peer peer;

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		connect_peer(&peer);
		say(&peer, kinds[i] << 29, 0, 0, 0);
		expect_broken(&peer);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_hellos_are_rejected),
		cmocka_unit_test(an_honest_peer),
		cmocka_unit_test(more_bytes_than_were_granted),
		cmocka_unit_test(more_grants_than_there_are_entries),
		cmocka_unit_test(a_grant_of_nothing),
		cmocka_unit_test(mappings_that_cannot_be),
		cmocka_unit_test(messages_nobody_knows),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
