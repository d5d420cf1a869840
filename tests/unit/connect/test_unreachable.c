/* SPDX-License-Identifier: MIT
 *
 * The network says that a message could not be delivered (ICMP). Whoever asked for a connection need not wait for the
 * last repetition; but only for the very message that it sent, while nobody has answered it, and for nothing else.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sim.h"

enum { PORT = 7174, CLIENT_QPN = 0x123, SERVER_QPN = 0x456 };

static struct sim sim;
static struct sim_process *client, *server;

static int begin(void **state)
{
	(void)state;
	sim_begin(&sim, 0x1c3b);
	client = &sim.host[0].process[0];
	server = &sim.host[1].process[0];
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

/* What ICMP quotes of the last message sent, with the destination it could not reach. */
static void say(int error, unsigned destination, size_t length)
{
	uint8_t bytes[VB_CM_MAD_LENGTH];

	vb_cm_mad_encode(&sim.last, bytes);
	vb_connect_undelivered(sim.host[0].connect, sim.host[destination].gid, bytes, length, error);
}

static uint32_t ask(uint32_t port_space)
{
	uint32_t id = sim_create(client, port_space);

	sim.unplugged = true;
	assert_int_equal(sim_connect(client, id, 1, PORT, CLIENT_QPN), 0);
	return id;
}

static void a_request_that_cannot_be_delivered_ends_at_once(void **state)
{
	static const int errors[] = {ECONNREFUSED, EHOSTUNREACH, ENETUNREACH};
	static const uint32_t spaces[] = {VB_CM_PS_TCP, VB_CM_PS_UDP};

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		for (unsigned s = 0; s < 2; s++) {
			uint32_t id = ask(spaces[s]);
			const struct vb_cm_event *event;

			say(errors[i], 1, VB_CM_MAD_LENGTH);
			event = sim_expect(client, VB_CM_EVENT_UNREACHABLE);
			assert_int_equal(event->id, id);
			assert_int_equal(event->status, -errors[i]);
			assert_int_equal(sim_order(client, VB_CM_DESTROY, id), 0);
		}
	}
	sim_run(&sim, sim.now + VB_SECONDS(100));
	sim_expect_none(client);
}

static void what_was_not_said_ends_nothing(void **state)
{
	uint32_t id = ask(VB_CM_PS_TCP);
	struct vb_cm_mad said = sim.last;

	(void)state;
	say(EMSGSIZE, 1, VB_CM_MAD_LENGTH); /* about the path, not the peer */
	say(ECONNREFUSED, 0, VB_CM_MAD_LENGTH); /* another destination */
	for (size_t length = 0; length < VB_CM_MAD_LENGTH; length++)
		say(ECONNREFUSED, 1, length);
	sim.last.req.local_id ^= 1; /* nobody's id, and then ours with another message */
	say(ECONNREFUSED, 1, VB_CM_MAD_LENGTH);
	sim.last = said;
	sim.last.transaction ^= 1;
	say(ECONNREFUSED, 1, VB_CM_MAD_LENGTH);
	sim.last = said;
	sim.last.attribute = VB_CM_DREQ;
	say(ECONNREFUSED, 1, VB_CM_MAD_LENGTH);
	sim_expect_none(client);
	sim.last = said;
	say(ECONNREFUSED, 1, VB_CM_MAD_LENGTH);
	assert_int_equal(sim_expect(client, VB_CM_EVENT_UNREACHABLE)->id, id);
}

static void a_connection_that_was_answered_goes_on(void **state)
{
	uint32_t active, passive;
	struct vb_cm_mad request;

	(void)state;
	sim_listen(server, VB_CM_PS_TCP, PORT, 16);
	active = sim_create(client, VB_CM_PS_TCP);
	assert_int_equal(sim_connect(client, active, 1, PORT, CLIENT_QPN), 0);
	request = sim.last;
	sim_run(&sim, sim.now + VB_MILLISECONDS(1));
	passive = sim_expect(server, VB_CM_EVENT_CONNECT_REQUEST)->id;
	assert_int_equal(sim_accept(server, passive, SERVER_QPN), 0);
	sim_run(&sim, sim.now + VB_MILLISECONDS(1));
	sim_expect(client, VB_CM_EVENT_CONNECT_RESPONSE);
	sim.last = request;
	say(ECONNREFUSED, 1, VB_CM_MAD_LENGTH);
	assert_int_equal(sim_order(client, VB_CM_ESTABLISH, active), 0);
	sim.last = request;
	say(EHOSTUNREACH, 1, VB_CM_MAD_LENGTH);
	sim_expect_none(client);
	sim_run(&sim, sim.now + VB_MILLISECONDS(1));
	sim_expect(server, VB_CM_EVENT_ESTABLISHED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, finish)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_request_that_cannot_be_delivered_ends_at_once),
		TEST(what_was_not_said_ends_nothing),
		TEST(a_connection_that_was_answered_goes_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
