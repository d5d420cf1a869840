/* SPDX-License-Identifier: MIT
 *
 * Conversations on a wire that loses nothing unless told so: what each side says, what each process is told, and when.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "sim.h"

enum { PORT = 7174, CLIENT_QPN = 0x4001, SERVER_QPN = 0x8002 };

static struct sim sim;
static struct sim_process *client, *server;

static int set_up(void **state)
{
	(void)state;
	sim_begin(&sim, 1);
	client = &sim.host[0].process[0];
	server = &sim.host[1].process[0];
	return 0;
}

#define SENT(message) sim.sent[VB_CM_##message - VB_CM_REQ]

/* Let what is on the wire arrive, and nothing more. */
static void settle(void)
{
	sim_run(&sim, sim.now + VB_MILLISECONDS(20));
}

/* Both processes end, and everything runs out. */
static void finish(void)
{
	for (unsigned h = 0; h < SIM_HOSTS; h++)
		for (unsigned p = 0; p < SIM_PROCESSES; p++)
			vb_connect_owner_gone(sim.host[h].connect, sim.now, &sim.host[h].process[p].owner);
	sim_run(&sim, VB_TIME_NEVER);
	sim_end_clean(&sim);
}

struct pair {
	uint32_t listener, active, passive;
};

/* As far as the CONNECT_REQUEST event, which is read. */
static struct pair ask(void)
{
	struct pair pair = {.listener = sim_listen(server, VB_CM_PS_TCP, PORT, 8),
			    .active = sim_create(client, VB_CM_PS_TCP)};

	assert_int_equal(sim_connect(client, pair.active, 1, PORT, CLIENT_QPN), 0);
	settle();
	pair.passive = sim_expect(server, VB_CM_EVENT_CONNECT_REQUEST)->id;
	return pair;
}

static struct pair establish(void)
{
	struct pair pair = ask();

	assert_int_equal(sim_accept(server, pair.passive, SERVER_QPN), 0);
	settle();
	sim_expect(client, VB_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(sim_order(client, VB_CM_ESTABLISH, pair.active), 0);
	settle();
	sim_expect(server, VB_CM_EVENT_ESTABLISHED);
	sim_expect_none(client);
	sim_expect_none(server);
	return pair;
}

static void both_sides_learn_of_each_other(void **state)
{
	const struct vb_cm_event *event;
	struct pair pair;
	uint64_t cookie;

	(void)state;
	pair.listener = sim_listen(server, VB_CM_PS_TCP, PORT, 0);
	pair.active = sim_create(client, VB_CM_PS_TCP);
	assert_int_equal(sim_connect(client, pair.active, 1, PORT, CLIENT_QPN), 0);
	/* As in the kernel's own requests. */
	assert_int_equal(sim.last.attribute, VB_CM_REQ);
	assert_int_equal(sim.last.req.local_id, pair.active);
	assert_int_equal(sim.last.req.service_id, 0x01060000 | PORT);
	assert_int_equal(sim.last.req.max_cm_retries, 15);
	assert_int_equal(sim.last.req.local_response_timeout, 20);
	assert_int_equal(sim.last.req.remote_response_timeout, 20);
	assert_int_equal(sim.last.req.primary.local_ack_timeout, 17);
	assert_int_equal(sim.last.req.primary.hop_limit, 64);
	assert_int_equal(sim.last.req.path_mtu, 3);
	assert_int_equal(sim.last.req.pkey, 0xffff);
	settle();

	event = sim_expect(server, VB_CM_EVENT_CONNECT_REQUEST);
	pair.passive = event->id;
	assert_int_equal(event->listen_id, pair.listener);
	assert_int_equal(event->interface_index, 7);
	assert_int_equal(event->source.port, PORT);
	assert_in_range(event->destination.port, 32768, 60999);
	assert_memory_equal(event->source.gid, sim.host[1].gid, 16);
	assert_memory_equal(event->destination.gid, sim.host[0].gid, 16);
	assert_int_equal(event->conn.qp_type, IBV_QPT_RC);
	assert_int_equal(event->conn.qpn, CLIENT_QPN);
	assert_int_equal(event->conn.starting_psn, 0x123456);
	/* Turned round. */
	assert_int_equal(event->conn.responder_resources, 2);
	assert_int_equal(event->conn.initiator_depth, 4);
	assert_int_equal(event->conn.retry_count, 7);
	assert_int_equal(event->conn.rnr_retry_count, 6);
	assert_int_equal(event->conn.private_data_length, 56);
	assert_string_equal((const char *)event->conn.private_data, "hello");

	assert_int_equal(sim_accept(server, pair.passive, SERVER_QPN), 0);
	settle();
	event = sim_expect(client, VB_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(event->id, pair.active);
	assert_int_equal(event->conn.qpn, SERVER_QPN);
	assert_int_equal(event->conn.starting_psn, 0x654321);
	assert_int_equal(event->conn.responder_resources, 4);
	assert_int_equal(event->conn.initiator_depth, 2);
	assert_int_equal(event->conn.rnr_retry_count, 5);
	assert_int_equal(event->conn.ack_timeout, 17);
	assert_int_equal(event->conn.private_data_length, 196);
	assert_string_equal((const char *)event->conn.private_data, "welcome");
	cookie = event->remote_cookie;
	assert_int_equal(cookie, (uint64_t)pair.active << 32 | pair.passive);

	assert_int_equal(sim_order(client, VB_CM_ESTABLISH, pair.active), 0);
	settle();
	event = sim_expect(server, VB_CM_EVENT_ESTABLISHED);
	assert_int_equal(event->id, pair.passive);
	assert_int_equal(event->remote_cookie, (uint64_t)pair.passive << 32 | pair.active);
	finish();
}

static void disconnect_ends_in_timewait_on_both_sides(void **state)
{
	struct pair pair = establish();
	vb_time asked = sim.now;

	(void)state;
	assert_int_equal(sim_order(client, VB_CM_DISCONNECT, pair.active), 0);
	settle();
	assert_int_equal(sim_expect(server, VB_CM_EVENT_DISCONNECTED)->id, pair.passive);
	sim_expect_none(client); /* until the other process answers */
	assert_int_equal(sim_order(server, VB_CM_DISCONNECT, pair.passive), 0);
	settle();
	assert_int_equal(sim_expect(client, VB_CM_EVENT_DISCONNECTED)->status, 0);
	sim_run(&sim, asked + VB_MILLISECONDS(500));
	sim_expect_none(client);
	sim_run(&sim, asked + VB_MILLISECONDS(600)); /* 4.096 us << 17 */
	sim_expect(client, VB_CM_EVENT_TIMEWAIT_EXIT);
	sim_expect(server, VB_CM_EVENT_TIMEWAIT_EXIT);
	assert_int_equal(SENT(DREQ), 1);
	assert_int_equal(SENT(DREP), 1);
	/* Once more is no error, and says nothing. */
	assert_int_equal(sim_order(client, VB_CM_DISCONNECT, pair.active), 0);
	assert_int_equal(SENT(DREQ), 1);
	finish();
}

static void simultaneous_disconnect(void **state)
{
	struct pair pair = establish();

	(void)state;
	assert_int_equal(sim_order(client, VB_CM_DISCONNECT, pair.active), 0);
	assert_int_equal(sim_order(server, VB_CM_DISCONNECT, pair.passive), 0);
	settle();
	sim_expect(client, VB_CM_EVENT_DISCONNECTED);
	sim_expect(server, VB_CM_EVENT_DISCONNECTED);
	sim_run(&sim, sim.now + VB_SECONDS(1));
	sim_expect(client, VB_CM_EVENT_TIMEWAIT_EXIT);
	sim_expect(server, VB_CM_EVENT_TIMEWAIT_EXIT);
	assert_int_equal(SENT(DREQ), 2);
	assert_int_equal(SENT(DREP), 2);
	finish();
}

static void no_listener_is_told_at_once(void **state)
{
	uint32_t id = sim_create(client, VB_CM_PS_TCP);

	(void)state;
	assert_int_equal(sim_connect(client, id, 1, PORT, CLIENT_QPN), 0);
	settle();
	assert_int_equal(sim_expect(client, VB_CM_EVENT_REJECTED)->status, 8);
	/* The id had its chance. */
	assert_int_equal(sim_connect(client, id, 1, PORT, CLIENT_QPN), EINVAL);
	finish();
}

static void rejection_carries_reason_and_words(void **state)
{
	struct pair pair = ask();
	struct vb_cm_command reject = {.verb = VB_CM_REJECT,
				       .id = pair.passive,
				       .conn = {.private_data_length = 9, .private_data = "not today"}};
	const struct vb_cm_event *event;

	(void)state;
	assert_int_equal(sim_command(server, &reject, NULL), 0);
	settle();
	event = sim_expect(client, VB_CM_EVENT_REJECTED);
	assert_int_equal(event->status, 28);
	assert_int_equal(event->conn.private_data_length, 148);
	assert_string_equal((const char *)event->conn.private_data, "not today");
	assert_int_equal(sim_command(server, &reject, NULL), EINVAL);
	finish();
}

static void lost_rejection_is_repeated(void **state)
{
	struct pair pair = ask();

	(void)state;
	sim.masked = 1, sim.mask = SIM_LOSE;
	assert_int_equal(sim_order(server, VB_CM_REJECT, pair.passive), 0);
	assert_int_equal(sim_order(server, VB_CM_DESTROY, pair.passive), 0);
	settle();
	sim_expect_none(client);
	sim_run(&sim, sim.now + VB_SECONDS(6));
	assert_int_equal(sim_expect(client, VB_CM_EVENT_REJECTED)->status, 28);
	sim_expect_none(server); /* the repeated request made no second event */
	assert_int_equal(SENT(REQ), 2);
	assert_int_equal(SENT(REJ), 2);
	finish();
}

/* IBA 12.7.4, 12.7.27: 16 times, 4.096 us * 2^20 and twice the packet life apart. */
static void dead_host_is_unreachable(void **state)
{
	const vb_time interval = VB_NANOSECONDS(4096) * ((1 << 20) + 2 * (1 << 16));
	uint32_t id = sim_create(client, VB_CM_PS_TCP);
	vb_time begun = sim.now;

	(void)state;
	sim.unplugged = true;
	assert_int_equal(sim_connect(client, id, 1, PORT, CLIENT_QPN), 0);
	for (unsigned i = 1; i <= 15; i++) {
		sim_run(&sim, begun + i * interval - 1);
		assert_int_equal(SENT(REQ), i);
	}
	sim_run(&sim, begun + 16 * interval - 1);
	sim_expect_none(client);
	sim_run(&sim, begun + 16 * interval);
	assert_int_equal(sim_expect(client, VB_CM_EVENT_UNREACHABLE)->status, -ETIMEDOUT);
	assert_int_equal(SENT(REQ), 16);
	finish();
}

static void slow_process_is_waited_for(void **state)
{
	struct pair pair = ask();

	(void)state;
	/* The request is repeated; MRA asks for 69 s more; nothing is repeated meanwhile. */
	sim_run(&sim, sim.now + VB_SECONDS(60));
	assert_int_equal(SENT(REQ), 2);
	assert_int_equal(SENT(MRA), 1);
	assert_int_equal(sim.last.mra.about, VB_CM_ABOUT_REQ);
	assert_int_equal(sim_accept(server, pair.passive, SERVER_QPN), 0);
	settle();
	sim_expect(client, VB_CM_EVENT_CONNECT_RESPONSE);
	/* The active process is slow as well. */
	sim_run(&sim, sim.now + VB_SECONDS(60));
	assert_int_equal(SENT(REP), 2);
	assert_int_equal(SENT(MRA), 2);
	assert_int_equal(sim.last.mra.about, VB_CM_ABOUT_REP);
	assert_int_equal(sim_order(client, VB_CM_ESTABLISH, pair.active), 0);
	settle();
	sim_expect(server, VB_CM_EVENT_ESTABLISHED);
	sim_expect_none(client);
	finish();
}

static void lost_ready_message_is_repeated_or_replaced_by_data(void **state)
{
	struct pair pair = ask();

	(void)state;
	assert_int_equal(sim_accept(server, pair.passive, SERVER_QPN), 0);
	settle();
	sim_expect(client, VB_CM_EVENT_CONNECT_RESPONSE);
	sim.masked = 1, sim.mask = SIM_LOSE;
	assert_int_equal(sim_order(client, VB_CM_ESTABLISH, pair.active), 0);
	settle();
	sim_expect_none(server);
	/* The REP is repeated, and answered by the RTU. */
	sim_run(&sim, sim.now + VB_SECONDS(5));
	assert_int_equal(SENT(RTU), 2);
	sim_expect(server, VB_CM_EVENT_ESTABLISHED);
	assert_int_equal(sim_order(server, VB_CM_NOTIFY, pair.passive), EISCONN);
	finish();
}

static void data_counts_as_ready_message(void **state)
{
	struct pair pair = ask();

	(void)state;
	assert_int_equal(sim_order(server, VB_CM_NOTIFY, pair.passive), EINVAL);
	assert_int_equal(sim_accept(server, pair.passive, SERVER_QPN), 0);
	settle();
	sim_expect(client, VB_CM_EVENT_CONNECT_RESPONSE);
	sim.masked = 1, sim.mask = SIM_LOSE;
	assert_int_equal(sim_order(client, VB_CM_ESTABLISH, pair.active), 0);
	assert_int_equal(sim_order(server, VB_CM_NOTIFY, pair.passive), 0);
	sim_expect(server, VB_CM_EVENT_ESTABLISHED);
	sim_run(&sim, sim.now + VB_SECONDS(100));
	assert_int_equal(SENT(REP), 1);
	sim_expect_none(server);
	finish();
}

static void dead_process_disconnects_at_once(void **state)
{
	struct pair pair = establish();

	(void)state;
	(void)pair;
	vb_connect_owner_gone(sim.host[1].connect, sim.now, &server->owner);
	settle();
	assert_int_equal(sim_expect(client, VB_CM_EVENT_DISCONNECTED)->status, 0);
	sim_expect_none(server);
	assert_int_equal(sim_order(client, VB_CM_DISCONNECT, pair.active), 0);
	sim_run(&sim, sim.now + VB_SECONDS(1));
	assert_int_equal(vb_connect_count(sim.host[1].connect), 0);
	finish();
}

static void dead_process_refuses_what_it_was_asked(void **state)
{
	struct pair pair = ask();

	(void)state;
	(void)pair;
	vb_connect_owner_gone(sim.host[1].connect, sim.now, &server->owner);
	settle();
	assert_int_equal(sim_expect(client, VB_CM_EVENT_REJECTED)->status, 28);
	finish();
}

static void dead_process_withdraws_what_it_asked(void **state)
{
	struct pair pair = ask();

	(void)state;
	vb_connect_owner_gone(sim.host[0].connect, sim.now, &client->owner);
	assert_int_equal(sim.last.attribute, VB_CM_REJ);
	assert_int_equal(sim.last.rej.reason, 4);
	assert_int_equal(sim.last.rej.about, VB_CM_ABOUT_OTHER);
	settle();
	assert_int_equal(sim_expect(server, VB_CM_EVENT_REJECTED)->status, 4);
	assert_int_equal(sim_accept(server, pair.passive, SERVER_QPN), EINVAL);
	finish();
}

static void unanswered_disconnect_gives_up(void **state)
{
	struct pair pair = establish();

	(void)state;
	sim.unplugged = true;
	assert_int_equal(sim_order(client, VB_CM_DISCONNECT, pair.active), 0);
	sim_run(&sim, sim.now + VB_SECONDS(70));
	sim_expect_none(client);
	sim_run(&sim, sim.now + VB_SECONDS(10));
	assert_int_equal(sim_expect(client, VB_CM_EVENT_DISCONNECTED)->status, -ETIMEDOUT);
	sim_expect(client, VB_CM_EVENT_TIMEWAIT_EXIT);
	assert_int_equal(SENT(DREQ), 16);
	sim.unplugged = false;
	finish();
}

static void stale_connection_is_refused_and_cleared(void **state)
{
	struct pair pair = establish();
	uint32_t again;

	(void)state;
	/* The client's host forgets everything (power cut), and the same QP asks anew. */
	sim.unplugged = true;
	vb_connect_owner_gone(sim.host[0].connect, sim.now, &client->owner);
	sim_run(&sim, sim.now + VB_SECONDS(100));
	assert_int_equal(vb_connect_count(sim.host[0].connect), 0);
	sim.unplugged = false;
	again = sim_create(client, VB_CM_PS_TCP);
	assert_int_equal(sim_connect(client, again, 1, PORT, CLIENT_QPN), 0);
	settle();
	assert_int_equal(sim_expect(client, VB_CM_EVENT_REJECTED)->status, 10);
	/* The old connection was asked to end; nobody knows it, which is answer enough. */
	assert_int_equal(sim_expect(server, VB_CM_EVENT_DISCONNECTED)->id, pair.passive);
	assert_int_equal(sim_order(client, VB_CM_DESTROY, again), 0);
	again = sim_create(client, VB_CM_PS_TCP);
	assert_int_equal(sim_connect(client, again, 1, PORT, CLIENT_QPN), 0);
	settle();
	sim_expect(server, VB_CM_EVENT_CONNECT_REQUEST);
	finish();
}

static void repeated_request_of_an_ended_connection_is_stale(void **state)
{
	struct pair pair = ask();
	struct vb_cm_mad request = {
		.attribute = VB_CM_REQ,
		.transaction = 99,
		.req = {.local_id = pair.active,
			.local_ca_guid = sim.host[0].guid,
			.local_qpn = CLIENT_QPN,
			.service_id = 0x01060000 | PORT},
	};

	(void)state;
	assert_int_equal(sim_accept(server, pair.passive, SERVER_QPN), 0);
	settle();
	assert_int_equal(sim_order(client, VB_CM_ESTABLISH, pair.active), 0);
	assert_int_equal(sim_order(client, VB_CM_DISCONNECT, pair.active), 0);
	settle();
	assert_int_equal(sim_order(server, VB_CM_DISCONNECT, pair.passive), 0);
	sim_inject(&sim, 0, 1, &request);
	assert_int_equal(sim.last.attribute, VB_CM_REJ);
	assert_int_equal(sim.last.rej.reason, 10);
	assert_int_equal(sim.last.rej.remote_id, pair.active);
	assert_int_equal(sim.last.transaction, 99);
	finish();
}

static void reply_to_nobody_is_refused(void **state)
{
	struct vb_cm_mad reply = {.attribute = VB_CM_REP, .rep = {.local_id = 0x1111, .remote_id = 0x2222}};

	(void)state;
	sim_inject(&sim, 0, 1, &reply);
	assert_int_equal(sim.last.attribute, VB_CM_REJ);
	assert_int_equal(sim.last.rej.reason, 6);
	assert_int_equal(sim.last.rej.about, VB_CM_ABOUT_REP);
	assert_int_equal(sim.last.rej.remote_id, 0x1111);
	finish();
}

static void disconnect_of_nobody_is_confirmed(void **state)
{
	struct vb_cm_mad dreq = {
		.attribute = VB_CM_DREQ, .transaction = 5, .dreq = {.local_id = 0x1111, .remote_id = 0x2222}};

	(void)state;
	sim_inject(&sim, 0, 1, &dreq);
	assert_int_equal(sim.last.attribute, VB_CM_DREP);
	assert_int_equal(sim.last.transaction, 5);
	assert_int_equal(sim.last.drep.remote_id, 0x1111);
	finish();
}

static void alternate_paths_are_refused(void **state)
{
	struct pair pair = establish();
	struct vb_cm_mad lap = {.attribute = VB_CM_LAP, .lap = {.local_id = pair.active, .remote_id = pair.passive}};

	(void)state;
	sim_inject(&sim, 0, 1, &lap);
	assert_int_equal(sim.last.attribute, VB_CM_APR);
	assert_int_equal(sim.last.apr.status, VB_CM_APR_NOT_SUPPORTED);
	lap.lap.remote_id = 0x777;
	sim_inject(&sim, 0, 1, &lap);
	assert_int_equal(sim.last.apr.status, VB_CM_APR_INVALID_ID);
	finish();
}

static void strangers_cannot_end_a_connection(void **state)
{
	struct pair pair = establish();
	struct vb_cm_mad dreq = {
		.attribute = VB_CM_DREQ,
		.dreq = {.local_id = pair.active, .remote_id = pair.passive, .remote_qpn = SERVER_QPN}};
	struct vb_cm_mad rej = {.attribute = VB_CM_REJ,
				.rej = {.local_id = pair.active, .remote_id = pair.passive, .reason = 28}};

	(void)state;
	sim_inject(&sim, 1, 1, &dreq);   /* right numbers, wrong address */
	sim_inject(&sim, 1, 1, &rej);
	dreq.dreq.local_id++;
	sim_inject(&sim, 0, 1, &dreq);   /* wrong id */
	dreq.dreq.local_id--;
	dreq.dreq.remote_qpn++;
	sim_inject(&sim, 0, 1, &dreq);   /* wrong QP */
	sim_expect_none(server);
	dreq.dreq.remote_qpn--;
	sim_inject(&sim, 0, 1, &dreq);
	sim_expect(server, VB_CM_EVENT_DISCONNECTED);
	finish();
}

static void requests_must_come_to_the_address_they_name(void **state)
{
	struct vb_cm_mad request = {
		.attribute = VB_CM_REQ,
		.req = {.local_id = 1, .local_ca_guid = 2, .local_qpn = 3, .service_id = 0x01060000 | PORT},
	};
	struct vb_cm_ip_header header = {.ip_version = 4, .port = 4000};

	(void)state;
	sim_listen(server, VB_CM_PS_TCP, PORT, 8);
	memcpy(header.source, sim.host[0].gid, 16);
	memcpy(header.destination, sim.host[1].gid, 16);
	header.destination[12] = 127;
	vb_cm_ip_header_encode(&header, request.req.private_data);
	sim_inject(&sim, 0, 1, &request);
	assert_int_equal(sim.last.rej.reason, 8);
	memcpy(header.destination, sim.host[1].gid, 16);
	vb_cm_ip_header_encode(&header, request.req.private_data);
	request.req.transport = VB_CM_TRANSPORT_UC;
	sim_inject(&sim, 0, 1, &request);
	assert_int_equal(sim.last.rej.reason, 9);
	sim_expect_none(server);
	request.req.transport = VB_CM_TRANSPORT_RC;
	sim_inject(&sim, 0, 1, &request);
	sim_expect(server, VB_CM_EVENT_CONNECT_REQUEST);
	finish();
}

/* A14: asked for by the side that sends, as an extended transport; the number of the other one stands where an end-to-end context would. */
static void xrc_is_a_transport_of_its_own(void **state)
{
	struct vb_cm_command create = {.verb = VB_CM_CREATE, .port_space = VB_CM_PS_IB, .qp_type = IBV_QPT_XRC_RECV};
	struct vb_cm_command bind = {.verb = VB_CM_BIND, .source = {.family = AF_INET, .port = PORT}};
	struct vb_cm_command listen = {.verb = VB_CM_LISTEN, .backlog = 8};
	struct vb_cm_command connect = {
		.verb = VB_CM_CONNECT,
		.source = sim_address(&sim, 0, 0),
		.destination = sim_address(&sim, 1, PORT),
		.conn = {.qpn = 0x11, .starting_psn = 5},
	};
	struct vb_cm_command accept = {.verb = VB_CM_ACCEPT, .conn = {.qpn = 0x22, .starting_psn = 6}};
	const struct vb_cm_event *event;
	struct vb_cm_reply reply;

	(void)state;
	assert_int_equal(sim_command(server, &create, &reply), 0);
	bind.id = listen.id = reply.id;
	assert_int_equal(sim_command(server, &bind, NULL), 0);
	assert_int_equal(sim_command(server, &listen, NULL), 0);
	/* RC does not reach it. */
	create.qp_type = IBV_QPT_RC;
	assert_int_equal(sim_command(client, &create, &reply), 0);
	connect.id = reply.id;
	assert_int_equal(sim_command(client, &connect, NULL), 0);
	settle();
	assert_int_equal(sim.last.rej.reason, 9);
	sim_expect(client, VB_CM_EVENT_REJECTED);
	sim_expect_none(server);

	create.qp_type = IBV_QPT_XRC_SEND;
	assert_int_equal(sim_command(client, &create, &reply), 0);
	connect.id = reply.id;
	connect.conn.qpn = 0x13;
	assert_int_equal(sim_command(client, &connect, NULL), 0);
	assert_int_equal(sim.last.req.transport, 3);
	assert_int_equal(sim.last.req.extended_transport, 1);
	settle();
	event = sim_expect(server, VB_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(event->conn.qpn, 0x13);
	accept.id = event->id;
	assert_int_equal(sim_command(server, &accept, NULL), 0);
	assert_int_equal(sim.last.rep.local_qpn, 0);
	assert_int_equal(sim.last.rep.local_eecn, 0x22);
	assert_int_equal(sim.last.rep.srq, 1);
	settle();
	event = sim_expect(client, VB_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(event->conn.qpn, 0x22);
	finish();
}

static void greed_is_clamped(void **state)
{
	struct vb_cm_command connect = {
		.verb = VB_CM_CONNECT,
		.source = sim_address(&sim, 0, 0),
		.destination = sim_address(&sim, 1, PORT),
		.conn = {.qpn = 1, .responder_resources = 255, .initiator_depth = 255},
	};
	const struct vb_cm_event *event;
	uint32_t passive;
	struct vb_cm_command accept = {.verb = VB_CM_ACCEPT,
				       .conn = {.qpn = 2, .responder_resources = 255, .initiator_depth = 255}};

	(void)state;
	sim_listen(server, VB_CM_PS_TCP, PORT, 8);
	connect.id = sim_create(client, VB_CM_PS_TCP);
	assert_int_equal(sim_command(client, &connect, NULL), 0);
	assert_int_equal(sim.last.req.responder_resources, 128);
	assert_int_equal(sim.last.req.initiator_depth, 128);
	settle();
	event = sim_expect(server, VB_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(event->conn.responder_resources, 128);
	assert_int_equal(event->conn.initiator_depth, 128);
	passive = accept.id = event->id;
	assert_int_equal(sim_command(server, &accept, NULL), 0);
	assert_int_equal(sim.last.rep.responder_resources, 128);
	assert_int_equal(sim.last.rep.initiator_depth, 128);
	settle();
	event = sim_expect(client, VB_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(event->conn.responder_resources, 128);
	assert_int_equal(event->remote_cookie & 0xffffffff, passive);

	/* What was offered is the limit of what may be asked. */
	connect.id = sim_create(client, VB_CM_PS_TCP);
	connect.conn.qpn = 3;
	accept.conn.qpn = 4;
	connect.conn.responder_resources = 3;
	connect.conn.initiator_depth = 5;
	assert_int_equal(sim_command(client, &connect, NULL), 0);
	settle();
	accept.id = sim_expect(server, VB_CM_EVENT_CONNECT_REQUEST)->id;
	assert_int_equal(sim_command(server, &accept, NULL), 0);
	assert_int_equal(sim.last.rep.initiator_depth, 3);
	settle();
	event = sim_expect(client, VB_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(event->conn.initiator_depth, 5);
	assert_int_equal(event->conn.responder_resources, 3);
	finish();
}

static void backlog_is_a_limit(void **state)
{
	struct sim_process *other = &sim.host[0].process[1];
	uint32_t children[3];

	(void)state;
	sim_listen(server, VB_CM_PS_TCP, PORT, 2);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(sim_connect(i < 2 ? client : other, sim_create(i < 2 ? client : other, VB_CM_PS_TCP),
					     1, PORT, 100 + i),
				 0);
	settle();
	children[0] = sim_expect(server, VB_CM_EVENT_CONNECT_REQUEST)->id;
	children[1] = sim_expect(server, VB_CM_EVENT_CONNECT_REQUEST)->id;
	sim_expect_none(server);
	assert_int_equal(sim_expect(other, VB_CM_EVENT_REJECTED)->status, 28);
	/* One is fetched, one accepted: two places are free. */
	assert_int_equal(sim_order(server, VB_CM_FETCHED, children[0]), 0);
	assert_int_equal(sim_accept(server, children[1], 5), 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(sim_connect(other, sim_create(other, VB_CM_PS_TCP), 1, PORT, 200 + i), 0);
	settle();
	sim_expect(server, VB_CM_EVENT_CONNECT_REQUEST);
	sim_expect(server, VB_CM_EVENT_CONNECT_REQUEST);
	sim_expect_none(server);
	sim_expect(other, VB_CM_EVENT_REJECTED);
	/* Fetched twice frees one place only. */
	assert_int_equal(sim_order(server, VB_CM_FETCHED, children[0]), 0);
	assert_int_equal(sim_connect(other, sim_create(other, VB_CM_PS_TCP), 1, PORT, 300), 0);
	settle();
	sim_expect(other, VB_CM_EVENT_REJECTED);
	finish();
}

static void datagram_services_are_resolved(void **state)
{
	uint32_t active = sim_create(client, VB_CM_PS_UDP);
	const struct vb_cm_event *event;
	uint32_t passive;

	(void)state;
	sim_listen(server, VB_CM_PS_UDP, PORT, 8);
	assert_int_equal(sim_connect(client, active, 1, PORT, 0), 0);
	assert_int_equal(sim.last.attribute, VB_CM_SIDR_REQ);
	assert_int_equal(sim.last.sidr_req.service_id, 0x01110000 | PORT);
	settle();
	event = sim_expect(server, VB_CM_EVENT_CONNECT_REQUEST);
	passive = event->id;
	assert_int_equal(event->conn.qp_type, IBV_QPT_UD);
	assert_int_equal(event->conn.private_data_length, 180);
	assert_string_equal((const char *)event->conn.private_data, "hello");
	/* The answer is lost; the question is repeated and so is the answer, though the process let go meanwhile. */
	sim.masked = 1, sim.mask = SIM_LOSE;
	assert_int_equal(sim_accept(server, passive, SERVER_QPN), 0);
	assert_int_equal(sim_order(server, VB_CM_DESTROY, passive), 0);
	sim_run(&sim, sim.now + VB_SECONDS(6));
	sim_expect_none(server);
	event = sim_expect(client, VB_CM_EVENT_ESTABLISHED);
	assert_int_equal(event->conn.qpn, SERVER_QPN);
	assert_int_equal(event->conn.qkey, 0x01234567);
	assert_int_equal(event->conn.private_data_length, 136);
	assert_string_equal((const char *)event->conn.private_data, "welcome");
	assert_int_equal(SENT(SIDR_REQ), 2);
	assert_int_equal(SENT(SIDR_REP), 2);
	finish();
}

static void datagram_refusals_have_their_status(void **state)
{
	uint32_t id = sim_create(client, VB_CM_PS_UDP);

	(void)state;
	assert_int_equal(sim_connect(client, id, 1, PORT, 0), 0);
	settle();
	assert_int_equal(sim_expect(client, VB_CM_EVENT_UNREACHABLE)->status, VB_CM_SIDR_NO_SERVICE);
	sim_listen(server, VB_CM_PS_UDP, PORT, 8);
	id = sim_create(client, VB_CM_PS_UDP);
	assert_int_equal(sim_connect(client, id, 1, PORT, 0), 0);
	settle();
	assert_int_equal(sim_order(server, VB_CM_REJECT, sim_expect(server, VB_CM_EVENT_CONNECT_REQUEST)->id), 0);
	settle();
	assert_int_equal(sim_expect(client, VB_CM_EVENT_UNREACHABLE)->status, VB_CM_SIDR_REJECTED);
	id = sim_create(client, VB_CM_PS_UDP);
	sim.unplugged = true;
	assert_int_equal(sim_connect(client, id, 1, PORT, 0), 0);
	sim_run(&sim, sim.now + VB_SECONDS(100));
	assert_int_equal(sim_expect(client, VB_CM_EVENT_UNREACHABLE)->status, -ETIMEDOUT);
	finish();
}

/* A TCP port and a UDP port of the same number do not meet. */
static void port_spaces_do_not_meet(void **state)
{
	uint32_t stream = sim_create(client, VB_CM_PS_TCP);

	(void)state;
	sim_listen(server, VB_CM_PS_UDP, PORT, 8);
	assert_int_equal(sim_connect(client, stream, 1, PORT, 1), 0);
	settle();
	assert_int_equal(sim_expect(client, VB_CM_EVENT_REJECTED)->status, 8);
	finish();
}

static void a_host_connects_to_itself(void **state)
{
	struct sim_process *peer = &sim.host[0].process[1];
	uint32_t active = sim_create(client, VB_CM_PS_TCP), passive;

	(void)state;
	sim_listen(peer, VB_CM_PS_TCP, PORT, 8);
	assert_int_equal(sim_connect(client, active, 0, PORT, CLIENT_QPN), 0);
	settle();
	passive = sim_expect(peer, VB_CM_EVENT_CONNECT_REQUEST)->id;
	assert_int_equal(sim_accept(peer, passive, SERVER_QPN), 0);
	settle();
	sim_expect(client, VB_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(sim_order(client, VB_CM_ESTABLISH, active), 0);
	settle();
	sim_expect(peer, VB_CM_EVENT_ESTABLISHED);
	vb_connect_owner_gone(sim.host[0].connect, sim.now, &peer->owner);
	settle();
	sim_expect(client, VB_CM_EVENT_DISCONNECTED);
	sim_expect_none(peer);
	finish();
}

static void connections_outlive_the_daemon(void **state)
{
	struct pair pair = ask();
	uint64_t cookie = ((uint64_t)pair.passive << 32) | pair.active;
	struct vb_cm_command adopt = {
		.verb = VB_CM_ADOPT,
		.port_space = VB_CM_PS_TCP,
		.state = VB_CM_ADOPTED_CONNECTED,
		.source = sim_address(&sim, 1, PORT),
		.destination = sim_address(&sim, 0, 40000),
		.remote_cookie = cookie,
		.conn = {.qpn = CLIENT_QPN},
	};
	struct vb_connect_host callbacks;
	struct vb_cm_reply reply;

	(void)state;
	assert_int_equal(sim_accept(server, pair.passive, SERVER_QPN), 0);
	settle();
	sim_expect(client, VB_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(sim_order(client, VB_CM_ESTABLISH, pair.active), 0);
	settle();
	sim_expect(server, VB_CM_EVENT_ESTABLISHED);

	/* An id that lives cannot be adopted. */
	assert_int_equal(sim_command(server, &adopt, NULL), EADDRINUSE);
	memcpy(&callbacks, sim.host[1].connect, sizeof(callbacks)); /* its first member */
	vb_connect_destroy(sim.host[1].connect);
	sim.host[1].connect = vb_connect_create(&callbacks);
	vb_connect_owner_init(&server->owner);

	assert_int_equal(sim_command(server, &adopt, &reply), 0);
	assert_int_equal(reply.id, pair.passive);
	adopt.state = VB_CM_ADOPTED_LISTENING;
	adopt.source = (struct vb_cm_address){.family = AF_INET, .port = PORT};
	adopt.backlog = 3;
	assert_int_equal(sim_command(server, &adopt, &reply), 0);
	assert_int_not_equal(reply.id, 0);
	assert_int_equal(sim_command(server, &adopt, &reply), EADDRNOTAVAIL);

	/* The old connection ends as it should, and new ones come. */
	assert_int_equal(sim_connect(client, sim_create(client, VB_CM_PS_TCP), 1, PORT, 77), 0);
	settle();
	sim_expect(server, VB_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(sim_order(client, VB_CM_DISCONNECT, pair.active), 0);
	settle();
	assert_int_equal(sim_expect(server, VB_CM_EVENT_DISCONNECTED)->id, pair.passive);
	assert_int_equal(sim_order(server, VB_CM_DISCONNECT, pair.passive), 0);
	settle();
	sim_expect(client, VB_CM_EVENT_DISCONNECTED);
	finish();
}

/* RoCEv1: what was asked for by frames of an interface is answered by frames of it, and the process is told. */
static void frames_are_answered_by_frames(void **state)
{
	enum { INTERFACE = 5 };
	struct vb_cm_command command = {
		.verb = VB_CM_CONNECT,
		.id = sim_create(client, VB_CM_PS_TCP),
		.source = sim_address(&sim, 0, 0),
		.destination = sim_address(&sim, 1, PORT),
		.interface_index = INTERFACE,
		.path = {.framing = VB_FRAMING_ETHERNET},
		.conn = {.qpn = CLIENT_QPN},
	};
	const struct vb_cm_event *event;

	(void)state;
	sim_listen(server, VB_CM_PS_TCP, PORT, 8);
	assert_int_equal(sim_command(client, &command, NULL), 0);
	settle();
	event = sim_expect(server, VB_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(event->path.framing, VB_FRAMING_ETHERNET);
	assert_int_equal(event->path.interface_index, INTERFACE);
	assert_int_equal(sim_accept(server, event->id, SERVER_QPN), 0);
	/* The REP, on its way. */
	assert_int_equal(sim.packet_count, 1);
	assert_int_equal(sim.packets[0].path.framing, VB_FRAMING_ETHERNET);
	assert_int_equal(sim.packets[0].path.interface_index, INTERFACE);
	settle();
	event = sim_expect(client, VB_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(event->path.framing, VB_FRAMING_ETHERNET);
	finish();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, set_up)
	const struct CMUnitTest tests[] = {
		TEST(both_sides_learn_of_each_other),
		TEST(disconnect_ends_in_timewait_on_both_sides),
		TEST(simultaneous_disconnect),
		TEST(no_listener_is_told_at_once),
		TEST(rejection_carries_reason_and_words),
		TEST(lost_rejection_is_repeated),
		TEST(dead_host_is_unreachable),
		TEST(slow_process_is_waited_for),
		TEST(lost_ready_message_is_repeated_or_replaced_by_data),
		TEST(data_counts_as_ready_message),
		TEST(dead_process_disconnects_at_once),
		TEST(dead_process_refuses_what_it_was_asked),
		TEST(dead_process_withdraws_what_it_asked),
		TEST(unanswered_disconnect_gives_up),
		TEST(stale_connection_is_refused_and_cleared),
		TEST(repeated_request_of_an_ended_connection_is_stale),
		TEST(reply_to_nobody_is_refused),
		TEST(disconnect_of_nobody_is_confirmed),
		TEST(alternate_paths_are_refused),
		TEST(strangers_cannot_end_a_connection),
		TEST(requests_must_come_to_the_address_they_name),
		TEST(xrc_is_a_transport_of_its_own),
		TEST(greed_is_clamped),
		TEST(backlog_is_a_limit),
		TEST(datagram_services_are_resolved),
		TEST(datagram_refusals_have_their_status),
		TEST(port_spaces_do_not_meet),
		TEST(a_host_connects_to_itself),
		TEST(connections_outlive_the_daemon),
		TEST(frames_are_answered_by_frames),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
