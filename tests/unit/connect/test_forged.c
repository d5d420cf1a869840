/* SPDX-License-Identifier: MIT
 *
 * Another user of the peer's host: it sends from the peer's address and knows everything about that host but what the
 * two connection managers said to each other. It ends nobody's connection, and does not learn which queue pairs have
 * one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sim.h"

enum { PORT = 7174, OTHER_PORT = 7175, CLIENT_QPN = 0x123, SERVER_QPN = 0x456, QPNS = 0x500 };

#define SENT(message) sim.sent[VB_CM_##message - VB_CM_REQ]

static struct sim sim;
static struct sim_process *client, *server;
static uint32_t active, passive;

static int establish(void **state)
{
	(void)state;
	sim_begin(&sim, 0xf04ed);
	client = &sim.host[0].process[0];
	server = &sim.host[1].process[0];
	sim_listen(server, VB_CM_PS_TCP, PORT, 16);
	active = sim_create(client, VB_CM_PS_TCP);
	assert_int_equal(sim_connect(client, active, 1, PORT, CLIENT_QPN), 0);
	sim_run(&sim, sim.now + VB_MILLISECONDS(1));
	passive = sim_expect(server, VB_CM_EVENT_CONNECT_REQUEST)->id;
	assert_int_equal(sim_accept(server, passive, SERVER_QPN), 0);
	sim_run(&sim, sim.now + VB_MILLISECONDS(1));
	sim_expect(client, VB_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(sim_order(client, VB_CM_ESTABLISH, active), 0);
	sim_run(&sim, sim.now + VB_MILLISECONDS(1));
	sim_expect(server, VB_CM_EVENT_ESTABLISHED);
	return 0;
}

static int finish(void **state)
{
	(void)state;
	for (unsigned h = 0; h < SIM_HOSTS; h++)
		vb_connect_owner_gone(sim.host[h].connect, sim.now, &sim.host[h].process[0].owner);
	sim_run(&sim, VB_TIME_NEVER);
	sim_end_clean(&sim);
	return 0;
}

static void forge_request(unsigned from, unsigned to, uint32_t qpn, uint16_t port)
{
	struct vb_cm_ip_header header = {.ip_version = 4, .port = 4000};
	struct vb_cm_mad mad = {
		.attribute = VB_CM_REQ,
		.req = {.local_id = 0x66600000 | qpn,
			.local_ca_guid = sim.host[from].guid,
			.local_qpn = qpn,
			.max_cm_retries = 0,
			.service_id = 0x01060000 | port},
	};

	memcpy(header.source, sim.host[from].gid, 16);
	memcpy(header.destination, sim.host[to].gid, 16);
	vb_cm_ip_header_encode(&header, mad.req.private_data);
	sim_inject(&sim, from, to, &mad);
}

/* Whoever was asked for a connection in between says no. */
static void expect_no_end(struct sim_process *process)
{
	while (process->read != process->told) {
		struct vb_cm_event event = process->events[process->read++ % SIM_EVENTS];

		if (event.kind == VB_CM_EVENT_CONNECT_REQUEST)
			assert_int_equal(sim_order(process, VB_CM_DESTROY, event.id), 0);
		else if (event.id == active || event.id == passive)
			fail_msg("event %u about a connection that both ends have", event.kind);
	}
}

static void both_ends_still_have_it(void)
{
	assert_int_equal(sim_order(client, VB_CM_DISCONNECT, active), 0);
	sim_run(&sim, sim.now + VB_MILLISECONDS(1));
	assert_int_equal(sim_expect(server, VB_CM_EVENT_DISCONNECTED)->id, passive);
}

static void requests_that_name_every_queue_pair_end_nothing(void **state)
{
	(void)state;
	for (uint32_t qpn = 1; qpn < QPNS; qpn++) {
		forge_request(0, 1, qpn, PORT);
		forge_request(0, 1, qpn, OTHER_PORT);
		sim_run(&sim, sim.now + VB_MILLISECONDS(1));
		expect_no_end(server);
		expect_no_end(client);
	}
	sim_run(&sim, sim.now + VB_SECONDS(100));
	expect_no_end(server);
	expect_no_end(client);
	both_ends_still_have_it();
}

/* The side that asked is as safe. */
static void requests_to_the_active_side_end_nothing(void **state)
{
	(void)state;
	sim_listen(client, VB_CM_PS_TCP, PORT, 16);
	for (uint32_t qpn = 1; qpn < QPNS; qpn++) {
		forge_request(1, 0, qpn, PORT);
		sim_run(&sim, sim.now + VB_MILLISECONDS(1));
		expect_no_end(server);
		expect_no_end(client);
	}
	sim_run(&sim, sim.now + VB_SECONDS(100));
	expect_no_end(server);
	expect_no_end(client);
	both_ends_still_have_it();
}

/* Where nobody listens, the answer is the same for every QP. */
static void answers_do_not_tell_who_is_connected(void **state)
{
	(void)state;
	for (uint32_t qpn = CLIENT_QPN - 1; qpn <= CLIENT_QPN + 1; qpn++) {
		forge_request(0, 1, qpn, OTHER_PORT);
		assert_int_equal(sim.last.attribute, VB_CM_REJ);
		assert_int_equal(sim.last.rej.reason, VB_CM_REJECT_INVALID_SERVICE_ID);
	}
}

/* However many requests are forged, the peer is asked once a second. */
static void the_peer_is_not_flooded_with_questions(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 1000; i++) {
		forge_request(0, 1, CLIENT_QPN, PORT);
		sim_run(&sim, sim.now + VB_MILLISECONDS(2));
	}
	assert_in_range(SENT(DREQ), 1, 3);
	expect_no_end(server);
	expect_no_end(client);
}

/* "I know nothing of it" counts from who was asked, which is told by the transaction. */
static void forged_answers_end_nothing(void **state)
{
	struct vb_cm_mad answer = {.attribute = VB_CM_DREP, .drep = {.local_id = active, .remote_id = passive}};

	(void)state;
	sim_inject(&sim, 0, 1, &answer); /* nothing was asked */
	forge_request(0, 1, CLIENT_QPN, PORT);
	sim_inject(&sim, 0, 1, &answer);
	for (unsigned i = 0; i < 1000; i++) {
		answer.transaction = (uint64_t)sim_draw(&sim) << 32 | passive;
		sim_inject(&sim, 0, 1, &answer);
	}
	expect_no_end(server);
	both_ends_still_have_it();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, establish, finish)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(requests_that_name_every_queue_pair_end_nothing),
		TEST(requests_to_the_active_side_end_nothing),
		TEST(answers_do_not_tell_who_is_connected),
		TEST(the_peer_is_not_flooded_with_questions),
		TEST(forged_answers_end_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
