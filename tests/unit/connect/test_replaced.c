/* SPDX-License-Identifier: MIT
 *
 * A daemon dies while messages are lost, and another takes its place, to which the processes tell what they had: both ends of a connection
 * agree in the end. And what a process that dies tells its peer, when that is lost.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sim.h"

enum { PORT = 7174, CLIENT_QPN = 0x4001, SERVER_QPN = 0x8002 };

static struct sim sim;
static struct sim_process *client, *server;
static struct vb_cm_event request, response;
static uint32_t active;

static void run_for(vb_time duration)
{
	sim_run(&sim, sim.now + duration);
}

static int set_up(void **state)
{
	(void)state;
	sim_begin(&sim, 1);
	client = &sim.host[0].process[0];
	server = &sim.host[1].process[0];
	sim_listen(server, VB_CM_PS_TCP, PORT, 4);
	active = sim_create(client, VB_CM_PS_TCP);
	assert_int_equal(sim_connect(client, active, 1, PORT, CLIENT_QPN), 0);
	run_for(VB_MILLISECONDS(20));
	request = *sim_expect(server, VB_CM_EVENT_CONNECT_REQUEST);
	return 0;
}

static int finish(void **state)
{
	(void)state;
	vb_connect_owner_gone(client->host->connect, sim.now, &client->owner);
	vb_connect_owner_gone(server->host->connect, sim.now, &server->owner);
	sim_run(&sim, VB_TIME_NEVER);
	sim_end_clean(&sim);
	return 0;
}

/* As far as the client's side goes; the RTU is lost. */
static void establish(void)
{
	assert_int_equal(sim_accept(server, request.id, SERVER_QPN), 0);
	run_for(VB_MILLISECONDS(20));
	response = *sim_expect(client, VB_CM_EVENT_CONNECT_RESPONSE);
	sim.unplugged = true;
	assert_int_equal(sim_order(client, VB_CM_ESTABLISH, active), 0);
	sim.unplugged = false;
}

static void replace_daemon(struct sim_process *process)
{
	struct sim_host *host = process->host;
	struct vb_connect_host callbacks;

	memcpy(&callbacks, host->connect, sizeof(callbacks)); /* its first member */
	vb_connect_destroy(host->connect);
	host->connect = vb_connect_create(&callbacks);
	assert_non_null(host->connect);
	vb_connect_await_adoption(host->connect, sim.now + VB_CONNECT_ADOPTION);
}

static void adopt(struct sim_process *process, const struct vb_cm_event *told, enum vb_cm_adopted_state state)
{
	struct vb_cm_command command = {
		.verb = VB_CM_ADOPT,
		.port_space = VB_CM_PS_TCP,
		.state = state,
		.source = told->source,
		.destination = told->destination,
		.remote_cookie = told->remote_cookie,
		.conn = told->conn,
	};
	struct vb_cm_reply reply;

	assert_int_equal(sim_command(process, &command, &reply), 0);
	assert_int_equal(reply.id, told->id);
}

static void the_new_daemon_says_that_we_are_ready(void **state)
{
	(void)state;
	establish();
	replace_daemon(client);
	adopt(client, &response, VB_CM_ADOPTED_CONNECTED);
	run_for(VB_SECONDS(10));
	sim_expect(server, VB_CM_EVENT_ESTABLISHED);
	run_for(VB_SECONDS(100));
	sim_expect_none(client);
	sim_expect_none(server);
}

/* The process has the answer; the daemon dies of what is said next. */
static void a_process_that_is_ready_says_so_to_the_new_daemon(void **state)
{
	(void)state;
	assert_int_equal(sim_accept(server, request.id, SERVER_QPN), 0);
	run_for(VB_MILLISECONDS(20));
	response = *sim_expect(client, VB_CM_EVENT_CONNECT_RESPONSE);
	replace_daemon(client);
	adopt(client, &response, VB_CM_ADOPTED_CONNECTED);
	assert_int_equal(sim_order(client, VB_CM_ESTABLISH, response.id), 0);
	run_for(VB_SECONDS(10));
	sim_expect(server, VB_CM_EVENT_ESTABLISHED);
	run_for(VB_SECONDS(100));
	sim_expect_none(client);
	sim_expect_none(server);
}

/* Before the process has told what it had: no answer ends the connection at one side. */
static void what_the_new_daemon_will_know_is_not_denied(void **state)
{
	(void)state;
	establish();
	run_for(VB_SECONDS(3));
	replace_daemon(client);
	run_for(VB_SECONDS(2)); /* the REP comes again */
	adopt(client, &response, VB_CM_ADOPTED_CONNECTED);
	run_for(VB_SECONDS(10));
	sim_expect(server, VB_CM_EVENT_ESTABLISHED);

	replace_daemon(server);
	assert_int_equal(sim_order(client, VB_CM_DISCONNECT, active), 0);
	run_for(VB_MILLISECONDS(20));
	adopt(server, &request, VB_CM_ADOPTED_CONNECTED);
	run_for(VB_SECONDS(10));
	sim_expect(server, VB_CM_EVENT_DISCONNECTED);
	assert_int_equal(sim_order(server, VB_CM_DISCONNECT, request.id), 0);
	run_for(VB_SECONDS(10));
	sim_expect(client, VB_CM_EVENT_DISCONNECTED);
	sim_expect(client, VB_CM_EVENT_TIMEWAIT_EXIT);
	sim_expect(server, VB_CM_EVENT_TIMEWAIT_EXIT);
}

/* Nobody knows whether the REP came. It did not. */
static void what_was_accepted_is_accepted_again(void **state)
{
	(void)state;
	sim.unplugged = true;
	assert_int_equal(sim_accept(server, request.id, SERVER_QPN), 0);
	sim.unplugged = false;
	replace_daemon(server);
	adopt(server, &request, VB_CM_ADOPTED_REQUESTED);
	run_for(VB_SECONDS(6)); /* the REQ comes again, and is known */
	sim_expect_none(server);
	assert_int_equal(sim_accept(server, request.id, SERVER_QPN), 0);
	run_for(VB_MILLISECONDS(20));
	response = *sim_expect(client, VB_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(response.conn.qpn, SERVER_QPN);
	assert_int_equal(response.conn.responder_resources, 4);
	assert_int_equal(response.conn.initiator_depth, 2);
	assert_int_equal(sim_order(client, VB_CM_ESTABLISH, active), 0);
	run_for(VB_MILLISECONDS(20));
	sim_expect(server, VB_CM_EVENT_ESTABLISHED);
}

/* It did, and so did the RTU. */
static void who_was_accepted_before_is_so_still(void **state)
{
	(void)state;
	establish();
	run_for(VB_SECONDS(10));
	sim_expect(server, VB_CM_EVENT_ESTABLISHED);
	replace_daemon(server);
	adopt(server, &request, VB_CM_ADOPTED_REQUESTED);
	assert_int_equal(sim_accept(server, request.id, SERVER_QPN), 0);
	run_for(VB_SECONDS(1));
	sim_expect(server, VB_CM_EVENT_ESTABLISHED);
	sim_expect_none(client);
}

static void a_process_dies_and_its_refusal_is_lost(void **state)
{
	(void)state;
	establish();
	sim.unplugged = true;
	vb_connect_owner_gone(server->host->connect, sim.now, &server->owner);
	run_for(VB_MILLISECONDS(20));
	sim.unplugged = false;
	run_for(VB_SECONDS(10));
	sim_expect(client, VB_CM_EVENT_DISCONNECTED);
	assert_int_equal(sim_order(client, VB_CM_DISCONNECT, active), 0);
}

/* And the peer has not had the REP: it asks again. */
static void a_process_dies_and_nothing_was_heard_of_it(void **state)
{
	(void)state;
	sim.unplugged = true;
	assert_int_equal(sim_accept(server, request.id, SERVER_QPN), 0);
	vb_connect_owner_gone(server->host->connect, sim.now, &server->owner);
	run_for(VB_MILLISECONDS(20));
	sim.unplugged = false;
	run_for(VB_SECONDS(10));
	assert_int_equal(sim_expect(client, VB_CM_EVENT_REJECTED)->status, VB_CM_REJECT_STALE);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, finish)
	const struct CMUnitTest tests[] = {
		TEST(the_new_daemon_says_that_we_are_ready),
		TEST(a_process_that_is_ready_says_so_to_the_new_daemon),
		TEST(what_the_new_daemon_will_know_is_not_denied),
		TEST(what_was_accepted_is_accepted_again),
		TEST(who_was_accepted_before_is_so_still),
		TEST(a_process_dies_and_its_refusal_is_lost),
		TEST(a_process_dies_and_nothing_was_heard_of_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
