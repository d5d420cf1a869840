/* SPDX-License-Identifier: MIT
 *
 * Both ends of a cable under virtual time: joining, losing, coming back, and what a stranger can do (nothing).
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fabric/adapter.h"
#include "fabric/hosts.h"
#include "fabric/links.h"
#include "fabric/topology.h"

enum { ADAPTERS = 3, MOST = 1024 };

static const struct vb_cable_address fabric_address = {.gid = {[10] = 0xff, [11] = 0xff, [15] = 1}, .port = 14791};

struct datagram {
	int to;                            /* an adapter, -1: the fabric */
	struct vb_cable_address from;
	size_t length;
	uint8_t bytes[600];
};

static struct datagram wire[MOST];
static unsigned wire_count;
static bool wire_is_broken;
enum { NOBODY = -2, THE_FABRIC = -1 };
static int stopped;                        /* who has no processor: THE_FABRIC, an adapter, NOBODY */
static struct vb_fabric fabric;
static struct vb_fabric_hosts hosts;
static struct vb_adapter adapter[ADAPTERS];
static int joined_error[ADAPTERS];
static char joined_text[ADAPTERS][160];
static unsigned changes[ADAPTERS];
static vb_time now;
static uint32_t keys;

static struct vb_cable_address address_of(int index)
{
	return (struct vb_cable_address){.gid = {[10] = 0xff, [11] = 0xff, [15] = (uint8_t)(10 + index)}, .port = 5000};
}

static void put_on_wire(int to, const struct vb_cable_address *from, const void *head, size_t head_length,
	const void *body, size_t body_length)
{
	struct datagram *datagram = &wire[wire_count];

	if (wire_is_broken)
		return;
	assert_true(wire_count++ < MOST);
	datagram->to = to;
	datagram->from = *from;
	datagram->length = head_length + body_length;
	assert_true(datagram->length <= sizeof(datagram->bytes));
	memcpy(datagram->bytes, head, head_length);
	if (body_length)
		memcpy(datagram->bytes + head_length, body, body_length);
}

static void from_adapter(void *context, const struct vb_cable_address *to, const void *head, size_t head_length, const void *body,
			 size_t body_length)
{
	int index = (int)((struct vb_adapter *)context - adapter);
	struct vb_cable_address from = address_of(index);

	assert_memory_equal(to->gid, fabric_address.gid, 16);
	put_on_wire(-1, &from, head, head_length, body, body_length);
}

static void from_fabric(void *context, const struct vb_cable_address *to, const void *head, size_t head_length, const void *body,
			size_t body_length)
{
	(void)context;
	put_on_wire(to->gid[15] - 10, &fabric_address, head, head_length, body, body_length);
}

static void joined(void *context, int error, const char *text)
{
	int index = (int)((struct vb_adapter *)context - adapter);

	joined_error[index] = error;
	strncpy(joined_text[index], text, sizeof(joined_text[index]) - 1);
}

static void changed(void *context, unsigned what)
{
	changes[(struct vb_adapter *)context - adapter] |= what;
}

static void deliver(void *context, void *owner, uint32_t agent, int status, const struct vb_mad_address *address, const void *message,
		    size_t length)
{
	(void)context;
	(void)address;
	(void)message;
	(void)agent;
	assert_int_equal(length, VB_MAD_LENGTH);
	assert_int_equal(status, 0);
	++*(unsigned *)owner;
}

static uint32_t next_key(void *context)
{
	(void)context;
	return ++keys;
}

static const struct vb_adapter_host adapter_host = {.send = from_adapter, .joined = joined, .changed = changed,
	.agents = {.deliver = deliver}};
static const struct vb_fabric_hosts_owner owner = {.send = from_fabric, .random = next_key};

static void begin_fabric(const char *topology)
{
	struct vb_topology_error error;

	vb_fabric_init(&fabric, &vb_fabric_hosts_carrier, &hosts);
	vb_fabric_hosts_init(&hosts, &fabric, &owner, NULL);
	assert_int_equal(vb_topology_read(&fabric, topology, strlen(topology), now, &error), 0);
}

static void end_fabric(void)
{
	vb_fabric_hosts_fini(&hosts);
	vb_fabric_fini(&fabric);
	wire_count = 0;
}

static int begin(void **state)
{
	(void)state;
	now = VB_SECONDS(1);
	wire_count = 0;
	wire_is_broken = false;
	stopped = NOBODY;
	memset(joined_error, 1, sizeof(joined_error));
	memset(changes, 0, sizeof(changes));
	for (int i = 0; i < ADAPTERS; i++)
		vb_adapter_init(&adapter[i], &adapter_host, &adapter[i]);
	begin_fabric("Switch 2 \"S1\"\n[1] \"H1\"[1] # 4xFDR\nCa 2 \"H1\" # \"a ghost\"\n");
	return 0;
}

static int end(void **state)
{
	(void)state;
	for (int i = 0; i < ADAPTERS; i++)
		vb_adapter_fini(&adapter[i]);
	end_fabric();
	return 0;
}

/* What is for one that is stopped waits in its socket. */
static void run_wire(void)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < wire_count; i++) {
		struct datagram datagram = wire[i];

		if (datagram.to == stopped)
			wire[kept++] = datagram;
		else if (datagram.to < 0)
			vb_fabric_hosts_receive(&hosts, now, &datagram.from, datagram.bytes, datagram.length);
		else
			vb_adapter_receive(&adapter[datagram.to], now, &datagram.from, datagram.bytes, datagram.length);
	}
	wire_count = kept;
}

static vb_time next_deadline(void)
{
	vb_time next = VB_TIME_NEVER;

	if (stopped != THE_FABRIC)
		next = vb_time_earlier(vb_fabric_hosts_deadline(&hosts), vb_fabric_deadline(&fabric));
	for (int i = 0; i < ADAPTERS; i++)
		if (stopped != i)
			next = vb_time_earlier(next, vb_adapter_deadline(&adapter[i]));
	return next;
}

/* Everything that happens until then. */
static void run_until(vb_time until)
{
	run_wire();
	while (now < until) {
		vb_time next = next_deadline();

		now = next < until ? (next > now ? next : now + 1) : until;
		for (int i = 0; i < ADAPTERS; i++)
			if (stopped != i)
				vb_adapter_expire(&adapter[i], now);
		if (stopped != THE_FABRIC) {
			vb_fabric_hosts_expire(&hosts, now);
			vb_fabric_expire(&fabric, now);
		}
		run_wire();
	}
}

/* As its loop does when it goes on: it hears first what has come meanwhile. */
static void go_without(int who, vb_time how_long)
{
	stopped = who;
	run_until(now + how_long);
	stopped = NOBODY;
	run_until(now + VB_MILLISECONDS(500));
}

static void join(int index, const char *wanted)
{
	assert_int_equal(vb_adapter_join(&adapter[index], now, &fabric_address, 0x1000 + (unsigned)index,
		0xabcd + (unsigned)index, 5, "a host", wanted), 0);
	run_until(now + VB_MILLISECONDS(50));
}

static enum vb_port_state state_of(int index)
{
	return vb_fabric_port_state(adapter[index].port);
}

static void joining(void **state)
{
	struct vb_fabric_node *the_switch = vb_fabric_find(&fabric, "S1"), *ghost = vb_fabric_find(&fabric, "H1");

	(void)state;
	join(0, "");
	assert_int_equal(joined_error[0], 0);
	assert_string_equal(joined_text[0], "S1[1]");
	/* It is the ghost now, with all that the file says of it. */
	assert_int_equal(adapter[0].port->node->guid, ghost->guid);
	assert_int_equal(adapter[0].port->node->ports, 2);
	assert_string_equal(adapter[0].port->node->description, "a ghost");
	assert_int_equal(adapter[0].port->rate.extended, 1);
	assert_int_equal(state_of(0), VB_PORT_INIT);
	assert_int_equal(vb_fabric_port_state(&the_switch->port[1]), VB_PORT_INIT);
	assert_int_equal(vb_fabric_port_state(&ghost->port[1]), VB_PORT_DOWN);
	/* The next one gets a free port, the third none. */
	join(1, "");
	assert_string_equal(joined_text[1], "S1[2]");
	assert_int_equal(adapter[1].port->node->guid, 0x1001);
	join(2, "");
	assert_int_equal(joined_error[2], -ECONNREFUSED);
	assert_string_equal(joined_text[2], "no port of a switch is free");
	join(2, "H1");
	assert_string_equal(joined_text[2], "another host stands in for this node already");
	join(2, "H7");
	assert_string_equal(joined_text[2], "no adapter of this name is in the fabric, joined to a switch");
	assert_int_equal(vb_adapter_join(&adapter[0], now, &fabric_address, 1, 1, 5, "", ""), -EALREADY);
	/* It leaves, and the ghost is back. */
	vb_adapter_leave(&adapter[0], now);
	run_until(now + VB_MILLISECONDS(1));
	assert_ptr_equal(the_switch->port[1].peer, &ghost->port[1]);
	assert_int_equal(vb_fabric_port_state(&ghost->port[1]), VB_PORT_INIT);
	join(2, "H1");
	assert_int_equal(joined_error[2], 0);
}

static void nobody_is_there(void **state)
{
	(void)state;
	wire_is_broken = true;
	join(0, "");
	run_until(now + VB_SECONDS(4));
	assert_int_equal(joined_error[0], -ETIMEDOUT);
	assert_int_equal(adapter[0].state, VB_ADAPTER_IDLE);
	assert_int_equal(vb_adapter_deadline(&adapter[0]), VB_TIME_NEVER);
}

static void a_cable_that_is_lost(void **state)
{
	struct vb_fabric_node *the_switch = vb_fabric_find(&fabric, "S1");

	(void)state;
	join(0, "");
	run_until(now + VB_SECONDS(5));
	assert_int_equal(state_of(0), VB_PORT_INIT);
	wire_is_broken = true;
	run_until(now + VB_MILLISECONDS(2880));
	assert_int_equal(state_of(0), VB_PORT_INIT);
	run_until(now + VB_MILLISECONDS(250));
	assert_int_equal(state_of(0), VB_PORT_DOWN);
	assert_int_equal(vb_fabric_port_state(&the_switch->port[1]), VB_PORT_DOWN);
	run_until(now + VB_SECONDS(10));
	wire_is_broken = false;
	run_until(now + VB_SECONDS(1));
	assert_int_equal(state_of(0), VB_PORT_INIT);
	assert_int_equal(vb_fabric_port_state(&the_switch->port[1]), VB_PORT_INIT);
	assert_string_equal(adapter[0].where, "S1[1]");
	/* Cut by hand: down while it is, and not a word passes. */
	vb_fabric_cut(&the_switch->port[1], true, now);
	run_until(now + VB_SECONDS(4));
	assert_int_equal(state_of(0), VB_PORT_DOWN);
	assert_int_equal(vb_fabric_port_state(&the_switch->port[1]), VB_PORT_DOWN);
	run_until(now + VB_SECONDS(100));
	vb_fabric_cut(&the_switch->port[1], false, now);
	run_until(now + VB_SECONDS(2));
	assert_int_equal(state_of(0), VB_PORT_INIT);
	assert_int_equal(vb_fabric_port_state(&the_switch->port[1]), VB_PORT_INIT);
}

/* As a subnet manager has it. */
static void make_active(struct vb_fabric_port *far)
{
	vb_fabric_port_set_state(far, VB_PORT_ACTIVE, now);
	vb_fabric_port_set_state(adapter[0].port, VB_PORT_ACTIVE, now);
	far->node->switch_info.life_state &= (uint8_t)~VB_SWITCH_STATE_CHANGE;
}

/* Either end is silent for two seconds, because others have the processors: the port stays active. */
static void an_end_without_a_processor(void **state)
{
	struct vb_fabric_port *far = &vb_fabric_find(&fabric, "S1")->port[1];
	uint64_t downed;

	(void)state;
	join(0, "");
	run_until(now + VB_SECONDS(1));
	make_active(far);
	downed = far->counters.link_downed;
	for (int who = THE_FABRIC; who <= 0; who++) {
		go_without(who, VB_SECONDS(2));
		assert_int_equal(state_of(0), VB_PORT_ACTIVE);
		assert_int_equal(vb_fabric_port_state(far), VB_PORT_ACTIVE);
	}
	assert_int_equal(far->counters.link_downed, downed);
}

/* For longer: the adapter has given the cable up, and the fabric has heard it all the time. Both ends begin anew, and the subnet manager
 * is told, or it would not look at the adapter's port again. */
static void a_fabric_that_was_stopped(void **state)
{
	struct vb_fabric_port *far = &vb_fabric_find(&fabric, "S1")->port[1];

	(void)state;
	join(0, "");
	run_until(now + VB_SECONDS(1));
	make_active(far);
	go_without(THE_FABRIC, VB_SECONDS(4));
	assert_int_equal(state_of(0), VB_PORT_INIT);
	assert_int_equal(vb_fabric_port_state(far), VB_PORT_INIT);
	assert_true(far->node->switch_info.life_state & VB_SWITCH_STATE_CHANGE);
	/* Not again and again: what it has set since stays. */
	make_active(far);
	run_until(now + VB_SECONDS(5));
	assert_int_equal(state_of(0), VB_PORT_ACTIVE);
	assert_int_equal(vb_fabric_port_state(far), VB_PORT_ACTIVE);
}

/* The process with the switches ends and comes back; the adapter is the same node. */
static void a_fabric_that_comes_back(void **state)
{
	struct vb_fabric_port *port;

	(void)state;
	join(0, "");
	run_until(now + VB_SECONDS(1));
	port = adapter[0].port;
	end_fabric();
	begin_fabric("Switch 2 \"S1\"\n[1] \"H1\"[1] # 4xFDR\nCa 2 \"H1\" # \"a ghost\"\n");
	/* Which says at once that it does not know of the adapter. */
	run_until(now + VB_MILLISECONDS(400));
	assert_int_equal(hosts.count, 1);
	assert_ptr_equal(adapter[0].port, port);
	assert_int_equal(adapter[0].state, VB_ADAPTER_JOINED);
	assert_int_equal(state_of(0), VB_PORT_INIT);
	/* A daemon that comes back has its place too, however soon. */
	vb_adapter_fini(&adapter[0]);
	vb_adapter_init(&adapter[0], &adapter_host, &adapter[0]);
	assert_int_equal(vb_adapter_join(&adapter[0], now, &fabric_address, 0x1000, 0x9999, 5, "a host", ""), 0);
	run_until(now + VB_SECONDS(1));
	assert_string_equal(adapter[0].where, "S1[1]");
	assert_int_equal(hosts.count, 1);
}

/* Another host has the GUID of one that is there and speaks: it gets a place of its own, and takes nobody's. */
static void two_of_one_guid(void **state)
{
	(void)state;
	join(0, "");
	run_until(now + VB_SECONDS(1));
	assert_int_equal(vb_adapter_join(&adapter[1], now, &fabric_address, 0x1000, 0x9999, 5, "a twin", ""), 0);
	run_until(now + VB_SECONDS(1));
	assert_int_equal(state_of(0), VB_PORT_INIT);
	assert_string_equal(adapter[0].where, "S1[1]");
	assert_string_equal(adapter[1].where, "S1[2]");
	run_until(now + VB_SECONDS(5));
	assert_int_equal(state_of(0), VB_PORT_INIT);
	assert_int_equal(hosts.count, 2);
}

/* Set DOWN at one end restarts the other, which is in another process. */
static void both_ends_restart(void **state)
{
	struct vb_fabric_port *far = &vb_fabric_find(&fabric, "S1")->port[1];
	unsigned received = 0;
	struct vb_agent_registration registration = {.mgmt_class = VB_MAD_SMP_DIRECTED, .class_version = 1};
	struct vb_mad_address address = {.route = {.dlid = VB_PERMISSIVE_LID}, .pkey = 0xffff};
	struct vb_mad mad = {.base_version = 1, .mgmt_class = VB_MAD_SMP_DIRECTED, .class_version = 1, .method = VB_MAD_SET,
			     .attribute = be16_of(0x0015), .modifier = be32_of(1), .hop_count = 1};
	struct vb_smp *smp = (struct vb_smp *)(void *)&mad;

	(void)state;
	join(0, "");
	run_until(now + VB_SECONDS(1));
	changes[0] = 0;
	assert_int_equal(vb_agents_register(&adapter[0].agents, now, &received, &registration), 0);
	smp->dr_slid = smp->dr_dlid = be16_of(VB_PERMISSIVE_LID);
	smp->initial_path[1] = 1;
	memcpy(smp->data, &far->info, 64);
	((struct vb_port_info *)(void *)smp->data)->speed_state = (uint8_t)((far->info.speed_state & 0xf0) | VB_PORT_DOWN);
	((struct vb_port_info *)(void *)smp->data)->physical_default &= 0x0f;
	assert_int_equal(vb_agents_send(&adapter[0].agents, now, &received, 0, &address, &mad, sizeof(mad), VB_SECONDS(1), 0), 0);
	run_until(now + VB_MILLISECONDS(300));
	assert_int_equal(received, 1);
	assert_int_equal(far->counters.link_downed, 2); /* when it joined, and now */
	assert_int_equal(changes[0] & VB_FABRIC_STATE_CHANGED, VB_FABRIC_STATE_CHANGED);
	assert_int_equal(state_of(0), VB_PORT_INIT);
	assert_int_equal(vb_fabric_port_state(far), VB_PORT_INIT);
}

/* Without the key, or from another address, nothing is believed. */
static void strangers(void **state)
{
	struct vb_cable_address stranger = address_of(2);
	union vb_cable_message message;
	uint64_t received;

	(void)state;
	join(0, "");
	run_until(now + VB_SECONDS(1));
	received = adapter[0].port->counters.receive_packets;
	vb_cable_begin(&message, VB_CABLE_LEAVE, adapter[0].cable.key);
	vb_fabric_hosts_receive(&hosts, now, &stranger, (uint8_t *)&message, vb_cable_length(VB_CABLE_LEAVE));
	assert_int_equal(hosts.count, 1);
	vb_adapter_receive(&adapter[0], now, &stranger, (uint8_t *)&message, vb_cable_length(VB_CABLE_LEAVE));
	vb_cable_begin(&message, VB_CABLE_LEAVE, adapter[0].cable.key + 1);
	stranger = address_of(0);
	vb_fabric_hosts_receive(&hosts, now, &stranger, (uint8_t *)&message, vb_cable_length(VB_CABLE_LEAVE));
	assert_int_equal(hosts.count, 1);
	run_until(now + VB_SECONDS(1));
	assert_int_equal(state_of(0), VB_PORT_INIT);
	assert_int_equal(adapter[0].port->counters.receive_packets, received);
	vb_cable_begin(&message, VB_CABLE_JOIN, 0);
	message.join.version = be16_of(99);
	stranger = address_of(2);
	vb_fabric_hosts_receive(&hosts, now, &stranger, (uint8_t *)&message, sizeof(message.join));
	assert_int_equal(wire_count, 1);
	assert_int_equal(be16_get(((union vb_cable_message *)(void *)wire[0].bytes)->header.kind), VB_CABLE_REFUSE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(joining, begin, end),
		cmocka_unit_test_setup_teardown(nobody_is_there, begin, end),
		cmocka_unit_test_setup_teardown(a_cable_that_is_lost, begin, end),
		cmocka_unit_test_setup_teardown(an_end_without_a_processor, begin, end),
		cmocka_unit_test_setup_teardown(a_fabric_that_was_stopped, begin, end),
		cmocka_unit_test_setup_teardown(a_fabric_that_comes_back, begin, end),
		cmocka_unit_test_setup_teardown(two_of_one_guid, begin, end),
		cmocka_unit_test_setup_teardown(both_ends_restart, begin, end),
		cmocka_unit_test_setup_teardown(strangers, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
