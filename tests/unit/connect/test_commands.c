/* SPDX-License-Identifier: MIT
 *
 * Commands in every state, right and wrong, and with everything wrong that a process can get wrong.
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

#include "connect/states.h"
#include "sim.h"

enum { PORT = 7174 };

static struct sim sim;
static struct sim_process *client, *server;

static void begin(void)
{
	sim_begin(&sim, 1);
	client = &sim.host[0].process[0];
	server = &sim.host[1].process[0];
}

static int set_up(void **state)
{
	(void)state;
	begin();
	return 0;
}

static void finish(void)
{
	sim.unplugged = false;
	for (unsigned h = 0; h < SIM_HOSTS; h++)
		for (unsigned p = 0; p < SIM_PROCESSES; p++)
			vb_connect_owner_gone(sim.host[h].connect, sim.now, &sim.host[h].process[p].owner);
	sim_run(&sim, VB_TIME_NEVER);
	sim_end_clean(&sim);
}

static void settle(void)
{
	sim_run(&sim, sim.now + VB_MILLISECONDS(20));
}

/* Bring an id into the state; *who is its process. */
static uint32_t reach(enum vb_connect_state state, struct sim_process **who)
{
	bool sidr = state == VB_CONNECT_SIDR_REQ_SENT || state == VB_CONNECT_SIDR_REQ_RECEIVED ||
		    state == VB_CONNECT_SIDR_ANSWERED;
	uint32_t active, passive, space = sidr ? VB_CM_PS_UDP : VB_CM_PS_TCP;
	struct vb_cm_command bind = {.verb = VB_CM_BIND, .source = {.family = AF_INET, .port = 99}};

	*who = client;
	active = sim_create(client, space);
	if (state == VB_CONNECT_IDLE)
		return active;
	bind.id = active;
	assert_int_equal(sim_command(client, &bind, NULL), 0);
	if (state == VB_CONNECT_BOUND)
		return active;
	if (state == VB_CONNECT_LISTENING) {
		assert_int_equal(sim_order(client, VB_CM_LISTEN, active), 0);
		return active;
	}
	if (state != VB_CONNECT_CLOSED)
		sim_listen(server, space, PORT, 8);
	assert_int_equal(sim_connect(client, active, 1, PORT, 1), 0);
	if (state == VB_CONNECT_REQ_SENT || state == VB_CONNECT_SIDR_REQ_SENT)
		return active;
	settle();
	if (state == VB_CONNECT_CLOSED) {
		sim_expect(client, VB_CM_EVENT_REJECTED);
		return active;
	}
	passive = sim_expect(server, VB_CM_EVENT_CONNECT_REQUEST)->id;
	if (state == VB_CONNECT_MRA_REQ_RECEIVED) {
		sim_run(&sim, sim.now + VB_SECONDS(10));
		return active;
	}
	*who = server;
	if (state == VB_CONNECT_REQ_RECEIVED || state == VB_CONNECT_SIDR_REQ_RECEIVED)
		return passive;
	if (state == VB_CONNECT_REJECTED) {
		assert_int_equal(sim_order(server, VB_CM_REJECT, passive), 0);
		return passive;
	}
	assert_int_equal(sim_accept(server, passive, 2), 0);
	if (state == VB_CONNECT_REP_SENT || state == VB_CONNECT_SIDR_ANSWERED)
		return passive;
	settle();
	if (state == VB_CONNECT_MRA_REP_RECEIVED) {
		sim_run(&sim, sim.now + VB_SECONDS(10));
		return passive;
	}
	*who = client;
	if (state == VB_CONNECT_REP_RECEIVED)
		return active;
	assert_int_equal(sim_order(client, VB_CM_ESTABLISH, active), 0);
	settle();
	if (state == VB_CONNECT_ESTABLISHED)
		return active;
	assert_int_equal(sim_order(client, VB_CM_DISCONNECT, active), 0);
	if (state == VB_CONNECT_DREQ_SENT)
		return active;
	settle();
	*who = server;
	if (state == VB_CONNECT_DREQ_RECEIVED)
		return passive;
	assert_int_equal(sim_order(server, VB_CM_DISCONNECT, passive), 0);
	assert_int_equal(state, VB_CONNECT_TIMEWAIT);
	return passive;
}

#define S(name) 1u << VB_CONNECT_##name

/* Typed from what the man pages say of each call. */
static const struct {
	uint32_t verb;
	uint32_t states;
} allowed[] = {
	{VB_CM_BIND, S(IDLE)},
	{VB_CM_LISTEN, S(IDLE) | S(BOUND)},
	{VB_CM_CONNECT, S(IDLE) | S(BOUND)},
	{VB_CM_ACCEPT, S(REQ_RECEIVED) | S(SIDR_REQ_RECEIVED)},
	{VB_CM_REJECT, S(REQ_SENT) | S(MRA_REQ_RECEIVED) | S(REP_RECEIVED) | S(REQ_RECEIVED) | S(REP_SENT) |
			       S(MRA_REP_RECEIVED) | S(SIDR_REQ_RECEIVED)},
	{VB_CM_ESTABLISH, S(REP_RECEIVED)},
	{VB_CM_NOTIFY, S(REP_SENT) | S(MRA_REP_RECEIVED)},
	{VB_CM_DISCONNECT, ~(S(IDLE) | S(BOUND) | S(LISTENING))},
	{VB_CM_FETCHED, ~0u},
	{VB_CM_DESTROY, ~0u},
};

static void every_verb_in_every_state(void **unused)
{
	(void)unused;
	for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++) {
		for (unsigned state = VB_CONNECT_IDLE; state < VB_CONNECT_STATE_COUNT; state++) {
			struct vb_cm_command command = {.verb = allowed[i].verb, .conn = {.qpn = 5}};
			struct vb_cm_reply reply;
			struct sim_process *who;
			int error, expected = allowed[i].states & 1u << state ? 0 : EINVAL;

			begin();
			command.id = reach((enum vb_connect_state)state, &who);
			command.source = sim_address(&sim, (unsigned)(who->host - sim.host), 0);
			command.destination = sim_address(&sim, 1, PORT);
			if (command.verb == VB_CM_NOTIFY && state == VB_CONNECT_ESTABLISHED)
				expected = EISCONN;
			error = sim_command(who, &command, &reply);
			if (error != expected)
				fail_msg("verb %u in %s: %d, expected %d", command.verb,
					 vb_connect_state_name((enum vb_connect_state)state), error, expected);
			/* By this alone the process knows what was refused of which it does not await the reply. */
			assert_int_equal(reply.id, command.id);
			/* Nobody else may touch it, nor find out that it exists. */
			if (command.verb != VB_CM_DESTROY)
				assert_int_equal(sim_command(&who->host->process[1], &command, NULL), ENOENT);
			finish();
		}
	}
}

static void ids_end_with_destroy(void **unused)
{
	(void)unused;
	for (unsigned state = VB_CONNECT_IDLE; state < VB_CONNECT_STATE_COUNT; state++) {
		struct sim_process *who;
		uint32_t id;

		begin();
		id = reach((enum vb_connect_state)state, &who);
		assert_int_equal(sim_order(who, VB_CM_DESTROY, id), 0);
		assert_int_equal(sim_order(who, VB_CM_DESTROY, id), ENOENT);
		who->read = who->told;
		sim_run(&sim, sim.now + VB_SECONDS(200));
		while (who->read != who->told) /* others of its ids may have events */
			assert_int_not_equal(who->events[who->read++ % SIM_EVENTS].id, id);
		finish();
	}
}

static void unknown_verbs_and_spaces(void **unused)
{
	static const uint32_t spaces[] = {0, 1, 3, 0x105, 0x107, 0x110, 0x112, 0x140, ~0u};

	(void)unused;
	assert_int_equal(sim_order(client, 0, 1), EINVAL);
	assert_int_equal(sim_order(client, VB_CM_FETCHED + 1, 1), EINVAL);
	assert_int_equal(sim_order(client, ~0u, 1), EINVAL);
	assert_int_equal(sim_order(client, VB_CM_BIND, 0), ENOENT);
	for (size_t i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++) {
		struct vb_cm_command create = {.verb = VB_CM_CREATE, .port_space = spaces[i]};

		assert_int_equal(sim_command(client, &create, NULL), EINVAL);
	}
	for (uint32_t type = 0; type < 300; type++) {
		struct vb_cm_command create = {.verb = VB_CM_CREATE, .port_space = VB_CM_PS_IB, .qp_type = type};
		bool good = type == IBV_QPT_RC || type == IBV_QPT_UC || type == IBV_QPT_UD || type == IBV_QPT_XRC_SEND ||
			    type == IBV_QPT_XRC_RECV;

		assert_int_equal(sim_command(client, &create, NULL), good ? 0 : EINVAL);
	}
	finish();
}

/* Two processes of a user who may have three ids between them; one that waits for a last answer still counts. */
static void users_have_a_quota_of_ids(void **unused)
{
	struct vb_connect_quota quota = {.most = 3};
	struct vb_cm_command create = {.verb = VB_CM_CREATE, .port_space = VB_CM_PS_TCP};
	struct sim_process *other = &sim.host[0].process[1];
	uint32_t id;

	(void)unused;
	client->owner.quota = other->owner.quota = &quota;
	id = sim_create(client, VB_CM_PS_TCP);
	sim_create(other, VB_CM_PS_TCP);
	sim_create(other, VB_CM_PS_TCP);
	assert_int_equal(sim_command(client, &create, NULL), ENOMEM);
	assert_int_equal(sim_command(other, &create, NULL), ENOMEM);
	assert_int_equal(quota.count, 3);
	assert_int_equal(sim_order(client, VB_CM_DESTROY, id), 0);
	assert_int_equal(sim_command(other, &create, NULL), 0);
	assert_int_equal(sim_command(client, &create, NULL), ENOMEM);
	finish();
	assert_int_equal(quota.count, 0);
}

static void private_data_has_limits(void **unused)
{
	struct {
		enum vb_connect_state state;
		uint32_t verb;
		unsigned most;
	} cases[] = {
		{VB_CONNECT_IDLE, VB_CM_CONNECT, 56},
		{VB_CONNECT_REQ_RECEIVED, VB_CM_ACCEPT, 196},
		{VB_CONNECT_REQ_RECEIVED, VB_CM_REJECT, 148},
		{VB_CONNECT_SIDR_REQ_RECEIVED, VB_CM_ACCEPT, 136},
		{VB_CONNECT_SIDR_REQ_RECEIVED, VB_CM_REJECT, 136},
	};

	(void)unused;
	sim_end_clean(&sim);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		static const uint16_t excess[] = {1, 40, 100, 10000};
		struct vb_cm_command command = {.verb = cases[i].verb};
		struct sim_process *who;

		begin();
		command.id = reach(cases[i].state, &who);
		command.source = sim_address(&sim, 0, 0);
		command.destination = sim_address(&sim, 1, PORT);
		for (size_t j = 0; j < sizeof(excess) / sizeof(excess[0]); j++) {
			command.conn.private_data_length = (uint16_t)(cases[i].most + excess[j]);
			assert_int_equal(sim_command(who, &command, NULL), EINVAL);
		}
		command.conn.private_data_length = UINT16_MAX;
		assert_int_equal(sim_command(who, &command, NULL), EINVAL);
		command.conn.private_data_length = (uint16_t)cases[i].most;
		memset(command.conn.private_data, 0xa5, sizeof(command.conn.private_data));
		assert_int_equal(sim_command(who, &command, NULL), 0);
		finish();
	}
	begin();
	finish();
}

static void nonsense_is_refused(void **unused)
{
	uint32_t id = sim_create(client, VB_CM_PS_TCP);
	const struct vb_cm_command good = {
		.verb = VB_CM_CONNECT,
		.id = id,
		.source = sim_address(&sim, 0, 0),
		.destination = sim_address(&sim, 1, PORT),
	};
	struct vb_cm_command bad;

	(void)unused;
#define REFUSED(error, ...)                                              \
	do {                                                             \
		bad = good;                                              \
		__VA_ARGS__;                                             \
		assert_int_equal(sim_command(client, &bad, NULL), error); \
	} while (0)
	REFUSED(EAFNOSUPPORT, bad.destination.family = AF_UNIX);
	REFUSED(EAFNOSUPPORT, bad.source.family = AF_INET6);
	REFUSED(EINVAL, memset(bad.destination.gid, 0, 16));
	REFUSED(EINVAL, memset(bad.destination.gid + 12, 0, 4));
	REFUSED(EINVAL, bad.destination.gid[12] = 224);
	REFUSED(EINVAL, bad.destination.gid[0] = 0xff);
	REFUSED(EINVAL, memset(bad.source.gid, 0, 16));
	REFUSED(EADDRNOTAVAIL, bad.source.gid[15] = 77); /* not ours to send from */
	REFUSED(EINVAL, bad.conn.qpn = 0x1000000);
	REFUSED(EINVAL, bad.conn.starting_psn = 0x1000000);
	REFUSED(EINVAL, bad.conn.flow_label = 0x100000);
	REFUSED(EINVAL, bad.conn.ece_vendor = 0x1000000);
	REFUSED(EINVAL, bad.conn.path_mtu = 6);
	REFUSED(EADDRNOTAVAIL, bad.verb = VB_CM_BIND, bad.source.gid[15] = 77);
	REFUSED(EAFNOSUPPORT, bad.verb = VB_CM_BIND, bad.source.family = 0);
	REFUSED(EINVAL, bad.verb = VB_CM_ADOPT, bad.port_space = VB_CM_PS_TCP, bad.state = 0);
	REFUSED(EINVAL, bad.verb = VB_CM_ADOPT, bad.port_space = VB_CM_PS_TCP, bad.state = 4);
	REFUSED(EINVAL, bad.verb = VB_CM_ADOPT, bad.port_space = VB_CM_PS_TCP, bad.state = VB_CM_ADOPTED_CONNECTED);
	REFUSED(EINVAL, bad.verb = VB_CM_ADOPT, bad.port_space = 5, bad.state = VB_CM_ADOPTED_CONNECTED,
		bad.remote_cookie = ~0ull);
	REFUSED(EINVAL, bad.verb = VB_CM_ADOPT, bad.port_space = VB_CM_PS_UDP, bad.state = VB_CM_ADOPTED_CONNECTED,
		bad.remote_cookie = ~0ull);
	assert_int_equal(client->owner.count, 1);
	/* None of this has spoilt the id. */
	bad = good;
	assert_int_equal(sim_command(client, &bad, NULL), 0);
	finish();
}

static void unbound_listener_gets_a_port(void **unused)
{
	struct vb_cm_command listen = {.verb = VB_CM_LISTEN, .id = sim_create(server, VB_CM_PS_TCP), .backlog = 5};
	struct vb_cm_reply reply;

	(void)unused;
	assert_int_equal(sim_command(server, &listen, &reply), 0);
	assert_in_range(reply.source.port, 32768, 60999);
	assert_int_equal(sim_connect(client, sim_create(client, VB_CM_PS_TCP), 1, reply.source.port, 1), 0);
	settle();
	sim_expect(server, VB_CM_EVENT_CONNECT_REQUEST);
	finish();
}

/* ---- ten thousand */

enum { MANY = 10000 };

static uint32_t actives[MANY];
static unsigned established, disconnected;

static void count(struct sim *s, struct sim_process *process, const struct vb_cm_event *event)
{
	(void)s;
	switch (event->kind) {
	case VB_CM_EVENT_CONNECT_REQUEST:
		assert_int_equal(sim_accept(process, event->id, 0x10000 + event->conn.qpn), 0);
		break;
	case VB_CM_EVENT_CONNECT_RESPONSE:
		assert_int_equal(sim_order(process, VB_CM_ESTABLISH, event->id), 0);
		break;
	case VB_CM_EVENT_ESTABLISHED:
		established++;
		break;
	case VB_CM_EVENT_DISCONNECTED:
		disconnected++;
		assert_int_equal(sim_order(process, VB_CM_DESTROY, event->id), 0);
		break;
	default:
		fail_msg("event %u", event->kind);
	}
}

static void ten_thousand_connections(void **unused)
{
	(void)unused;
	established = disconnected = 0;
	sim.react = count;
	sim_listen(server, VB_CM_PS_TCP, PORT, 0);
	for (unsigned i = 0; i < MANY; i++) {
		actives[i] = sim_create(client, VB_CM_PS_TCP);
		assert_int_equal(sim_connect(client, actives[i], 1, PORT, 1 + i), 0);
		if (i % 100 == 99)
			settle();
	}
	settle();
	assert_int_equal(established, MANY);
	assert_int_equal(vb_connect_count(sim.host[0].connect), MANY);
	assert_int_equal(vb_connect_count(sim.host[1].connect), MANY + 1);
	/* The process with all of them dies: every peer hears of it at once. */
	vb_connect_owner_gone(sim.host[0].connect, sim.now, &client->owner);
	settle();
	assert_int_equal(disconnected, MANY);
	sim_run(&sim, sim.now + VB_SECONDS(1));
	assert_int_equal(vb_connect_count(sim.host[0].connect), 0);
	assert_int_equal(vb_connect_count(sim.host[1].connect), 1);
	finish();
}

static void ten_thousand_listeners(void **unused)
{
	(void)unused;
	for (unsigned i = 0; i < MANY; i++)
		actives[i] = sim_listen(server, i & 1 ? VB_CM_PS_TCP : VB_CM_PS_UDP, (uint16_t)(1000 + i / 2), 1);
	assert_int_equal(vb_connect_bound_count(sim.host[1].connect), MANY);
	assert_int_equal(sim_connect(client, sim_create(client, VB_CM_PS_TCP), 1, 1000 + 4321, 1), 0);
	settle();
	assert_int_equal(sim_expect(server, VB_CM_EVENT_CONNECT_REQUEST)->listen_id, actives[2 * 4321 + 1]);
	finish();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_verb_in_every_state),
		cmocka_unit_test(ids_end_with_destroy),
		cmocka_unit_test_setup(unknown_verbs_and_spaces, set_up),
		cmocka_unit_test_setup(users_have_a_quota_of_ids, set_up),
		cmocka_unit_test_setup(private_data_has_limits, set_up),
		cmocka_unit_test_setup(nonsense_is_refused, set_up),
		cmocka_unit_test_setup(unbound_listener_gets_a_port, set_up),
		cmocka_unit_test_setup(ten_thousand_connections, set_up),
		cmocka_unit_test_setup(ten_thousand_listeners, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
