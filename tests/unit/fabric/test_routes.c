/* SPDX-License-Identifier: MIT
 *
 * How frames find their way: directed routes up to 63 hops and with pointers that lie, linear and multicast tables,
 * loops; and what ports count.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fabric/links.h"
#include "lab.h"

static struct lab lab;

/* SM - S1 - S2 - ... - Sn */
static void begin_chain(unsigned length)
{
	char text[8192];
	size_t at = (size_t)snprintf(text, sizeof(text), "Ca 1 \"SM\"\n[1] \"S1\"[1]\n");

	for (unsigned i = 1; i <= length; i++) {
		at += (size_t)snprintf(text + at, sizeof(text) - at, "Switch 4 \"S%u\"\n", i);
		if (i < length)
			at += (size_t)snprintf(text + at, sizeof(text) - at, "[2] \"S%u\"[1]\n", i + 1);
	}
	lab_begin(&lab, text);
}

static void sixty_three_hops(void **state)
{
	uint8_t path[63];
	char name[16];

	(void)state;
	begin_chain(63);
	memset(path, 2, sizeof(path));
	path[0] = 1;
	for (uint8_t hops = 0; hops <= 63; hops++) {
		struct vb_mad mad = {0};
		struct vb_smp *smp = (struct vb_smp *)(void *)&mad;

		assert_true(lab_ask(&lab, path, hops, VB_MAD_GET, 0x0010, 0, &mad));
		snprintf(name, sizeof(name), hops ? "S%u" : "SM", hops);
		assert_string_equal((char *)smp->data, name);
		assert_int_equal(mad.hop_pointer, 0);
		for (unsigned i = 1; i <= hops; i++)
			assert_int_equal(smp->return_path[i], 1);
	}
	lab_end(&lab);
}

/* Everything that a hop pointer, hop count or path may say: no answer, nothing broken. */
static void routes_that_lie(void **state)
{
	struct vb_fabric_node *first;
	unsigned seed = 1;

	(void)state;
	begin_chain(3);
	first = vb_fabric_find(&lab.fabric, "S1");
	for (unsigned i = 0; i < 20000; i++) {
		struct vb_mad_address address = {.route = {.dlid = VB_PERMISSIVE_LID, .slid = VB_PERMISSIVE_LID, .vl = 15}, .pkey = 0xffff};
		struct vb_mad mad = {.base_version = 1, .mgmt_class = VB_MAD_SMP_DIRECTED, .class_version = 1, .method = VB_MAD_GET,
				     .attribute = be16_of(0x0011)};
		struct vb_smp *smp = (struct vb_smp *)(void *)&mad;
		uint8_t frame[VB_IB_MAD_FRAME];
		size_t length;

		mad.hop_pointer = (uint8_t)rand_r(&seed);
		mad.hop_count = (uint8_t)(i % 2 ? rand_r(&seed) % 5 : rand_r(&seed));
		mad.status = be16_of(rand_r(&seed) % 2 ? VB_SMP_RETURNING : 0);
		smp->dr_slid = be16_of(rand_r(&seed) % 4 ? VB_PERMISSIVE_LID : (uint16_t)rand_r(&seed));
		smp->dr_dlid = be16_of(rand_r(&seed) % 4 ? VB_PERMISSIVE_LID : (uint16_t)rand_r(&seed));
		for (unsigned j = 0; j < 64; j++) {
			smp->initial_path[j] = (uint8_t)(rand_r(&seed) % 6);
			smp->return_path[j] = (uint8_t)(rand_r(&seed) % 6);
		}
		length = vb_mad_frame_encode(&address, &mad, frame);
		vb_fabric_receive(&lab.fabric, lab.now, &first->port[1], frame, length);
		assert_int_equal(lab.fabric.waiting_count, 0);
	}
	lab_end(&lab);
}

/* The first part by LID, then directed, then by LID again, and back. */
static void routes_of_three_parts(void **state)
{
	struct vb_mad mad = {.mgmt_class = VB_MAD_SMP_DIRECTED};
	struct vb_smp *smp = (struct vb_smp *)(void *)&mad;
	struct vb_fabric_node *node[5];
	char name[16];

	(void)state;
	begin_chain(4);
	lab_set_lid(lab.manager, 9);
	for (unsigned i = 1; i <= 4; i++) {
		snprintf(name, sizeof(name), "S%u", i);
		node[i] = vb_fabric_find(&lab.fabric, name);
		lab_set_lid(node[i], (uint16_t)i);
		node[i]->switch_info.linear_top = be16_of(9);
		node[i]->linear[9] = 1;
		for (unsigned lid = 1; lid <= 4; lid++)
			node[i]->linear[lid] = lid < i ? 1 : lid > i ? 2 : 0;
	}
	smp->dr_slid = be16_of(9);
	smp->dr_dlid = be16_of(VB_PERMISSIVE_LID);
	mad.hop_count = 1;
	smp->initial_path[1] = 2;
	assert_true(lab_ask_lid(&lab, 2, VB_MAD_SMP_DIRECTED, VB_MAD_GET, 0x0010, 0, &mad));
	assert_string_equal((char *)smp->data, "S3");
	smp->dr_dlid = be16_of(4);
	mad.hop_pointer = 0;
	assert_true(lab_ask_lid(&lab, 1, VB_MAD_SMP_DIRECTED, VB_MAD_GET, 0x0010, 0, &mad));
	assert_string_equal((char *)smp->data, "S4");
	lab_end(&lab);
}

static void tables_lead_and_loops_end(void **state)
{
	struct vb_fabric_node *one, *two;
	struct vb_mad mad = {0};

	(void)state;
	begin_chain(2);
	one = vb_fabric_find(&lab.fabric, "S1");
	two = vb_fabric_find(&lab.fabric, "S2");
	lab_set_lid(lab.manager, 9);
	lab_set_lid(two, 2);
	lab_activate(&lab);
	one->switch_info.linear_top = two->switch_info.linear_top = be16_of(20);
	one->linear[2] = 2;
	one->linear[9] = two->linear[9] = 1;
	assert_true(lab_ask_lid(&lab, 2, VB_MAD_PERFORMANCE, VB_MAD_GET, 0x0001, 0, &mad));
	assert_int_equal(lab_status(&mad), 0);
	/* Not active: management of the fabric passes, nothing else does. */
	vb_fabric_cut(&two->port[1], true, lab.now);
	vb_fabric_cut(&two->port[1], false, lab.now);
	assert_false(lab_ask_lid(&lab, 2, VB_MAD_PERFORMANCE, VB_MAD_GET, 0x0001, 0, &mad));
	assert_true(lab_ask_lid(&lab, 2, VB_MAD_SMP_LID, VB_MAD_GET, 0x0011, 0, &mad));
	lab_activate(&lab);
	/* No entry; beyond the top; a port that is none. */
	assert_false(lab_ask_lid(&lab, 5, VB_MAD_PERFORMANCE, VB_MAD_GET, 0x0001, 0, &mad));
	assert_false(lab_ask_lid(&lab, 21, VB_MAD_PERFORMANCE, VB_MAD_GET, 0x0001, 0, &mad));
	one->linear[6] = 200;
	assert_false(lab_ask_lid(&lab, 6, VB_MAD_PERFORMANCE, VB_MAD_GET, 0x0001, 0, &mad));
	assert_int_equal(one->port[1].counters.relay_errors, 3);
	lab_end(&lab);

	/* Three switches in a ring whose tables send a LID round and round. */
	lab_begin(&lab,
		"Ca 1 \"SM\"\n[1] \"S1\"[3]\nSwitch 3 \"S1\"\n[1] \"S2\"[2]\n"
		"Switch 3 \"S2\"\n[1] \"S3\"[2]\nSwitch 3 \"S3\"\n[1] \"S1\"[2]\n");
	lab_set_lid(lab.manager, 9);
	lab_activate(&lab);
	for (struct vb_fabric_node *node = lab.fabric.first; node; node = node->next)
		if (node->type == VB_NODE_SWITCH) {
			node->switch_info.linear_top = be16_of(20);
			node->linear[7] = 1;
		}
	assert_false(lab_ask_lid(&lab, 7, VB_MAD_PERFORMANCE, VB_MAD_GET, 0x0001, 0, &mad));
	assert_int_equal(lab.fabric.waiting_count, 0);
	lab_end(&lab);
}

static unsigned frames_seen;

static void take_mad(void *context, vb_time now, struct vb_fabric_port *port, const struct vb_mad_address *address,
	const struct vb_mad *mad)
{
	(void)context;
	(void)now;
	(void)port;
	(void)address;
	(void)mad;
}

static void take_frame(void *context, vb_time now, struct vb_fabric_port *port, const uint8_t *bytes, size_t length)
{
	(void)context;
	(void)now;
	(void)port;
	(void)bytes;
	(void)length;
	frames_seen++;
}

/* A UC SEND_ONLY of four bytes. */
static size_t make_data(uint8_t *out, uint16_t dlid, uint16_t slid)
{
	struct vb_ib_route route = {.dlid = dlid, .slid = slid};
	size_t at = vb_ib_route_encode(&route, 12 + 4 + 4, out);

	memset(out + at, 0, 20);
	out[at] = 0x24;
	out[at + 7] = 42;
	vb_ib_frame_seal(out, at + 20);
	return at + 20;
}

static void groups_and_counters(void **state)
{
	static const struct vb_fabric_consumer consumer = {.mad = take_mad, .frame = take_frame};
	static const char *const names[] = {"A", "B", "C"};
	struct vb_fabric_node *one, *two;
	uint8_t frame[64];
	size_t length;
	struct vb_mad mad = {0};
	struct vb_port_counters *counters = (struct vb_port_counters *)(void *)((uint8_t *)&mad + VB_GMP_DATA);
	struct vb_port_counters_extended *extended = (struct vb_port_counters_extended *)(void *)((uint8_t *)&mad + VB_GMP_DATA);

	(void)state;
	lab_begin(&lab, "Switch 20 \"S1\"\n[1] \"A\"[1]\n[2] \"B\"[1]\n[18] \"S2\"[20]\nSwitch 20 \"S2\"\n[1] \"C\"[1]\n[2] \"SM\"[1]\n"
			"Ca 1 \"A\"\nCa 1 \"B\"\nCa 1 \"C\"\nCa 1 \"SM\"\n");
	one = vb_fabric_find(&lab.fabric, "S1");
	two = vb_fabric_find(&lab.fabric, "S2");
	for (unsigned i = 0; i < 3; i++) {
		vb_fabric_find(&lab.fabric, names[i])->consumer = &consumer;
		lab_set_lid(vb_fabric_find(&lab.fabric, names[i]), (uint16_t)(i + 1));
	}
	lab_set_lid(lab.manager, 9);
	lab_set_lid(two, 10);
	lab_activate(&lab);
	two->switch_info.linear_top = be16_of(20);
	two->linear[9] = 2;
	one->multicast[5][0] = be16_of(1 << 1 | 1 << 2);
	one->multicast[5][1] = be16_of(1 << 2); /* port 18 */
	two->multicast[5][0] = be16_of(1 << 1);
	two->multicast[5][1] = be16_of(1 << 4); /* port 20: back to S1 */
	length = make_data(frame, 0xc005, 1);
	frames_seen = 0;
	vb_fabric_receive(&lab.fabric, lab.now, &one->port[1], frame, length);
	/* B and C; not A, where it came from. */
	assert_int_equal(frames_seen, 2);
	assert_int_equal(one->port[18].counters.multicast_transmit, 1);
	assert_int_equal(two->port[20].counters.multicast_receive, 1);
	assert_int_equal(two->port[20].counters.transmit_packets, 0);
	assert_int_equal(two->port[20].counters.receive_data, length / 4);

	/* Told by management: 32 bits, 64 bits, and cleared by its mask. */
	counters->port = 20;
	assert_true(lab_ask_lid(&lab, 10, VB_MAD_PERFORMANCE, VB_MAD_GET, 0x0012, 0, &mad));
	assert_int_equal(be32_get(counters->receive_packets), 1);
	assert_int_equal(be32_get(counters->receive_data), length / 4);
	memset(&mad, 0, sizeof(mad));
	extended->port = 20;
	assert_true(lab_ask_lid(&lab, 10, VB_MAD_PERFORMANCE, VB_MAD_GET, 0x001d, 0, &mad));
	assert_int_equal(be64_get(extended->receive_packets), 1);
	assert_int_equal(be64_get(extended->multicast_receive), 1);
	extended->select = be16_of(1 << 3);
	assert_true(lab_ask_lid(&lab, 10, VB_MAD_PERFORMANCE, VB_MAD_SET, 0x001d, 0, &mad));
	assert_int_equal(be64_get(extended->receive_packets), 0);
	assert_int_equal(be64_get(extended->multicast_receive), 1);
	extended->port = 21;
	assert_true(lab_ask_lid(&lab, 10, VB_MAD_PERFORMANCE, VB_MAD_GET, 0x001d, 0, &mad));
	assert_int_equal(lab_status(&mad), 0x1c);
	/* All ports at once: what the questions themselves cost is in it. */
	memset(&mad, 0, sizeof(mad));
	counters->port = 255;
	assert_true(lab_ask_lid(&lab, 10, VB_MAD_PERFORMANCE, VB_MAD_GET, 0x0012, 0, &mad));
	assert_true(be32_get(counters->receive_packets) > 4);
	/* They stop at their largest value. */
	two->port[3].counters.receive_errors = 100000;
	memset(&mad, 0, sizeof(mad));
	counters->port = 3;
	assert_true(lab_ask_lid(&lab, 10, VB_MAD_PERFORMANCE, VB_MAD_GET, 0x0012, 0, &mad));
	assert_int_equal(be16_get(counters->receive_errors), 0xffff);
	lab_end(&lab);
}

/* A subnet manager makes the ports of a cable active one after the other, and programs send as soon as theirs is: what comes to the other
 * end before its turn is no error of the packet. */
static void ports_become_active_one_after_the_other(void **state)
{
	static const struct vb_fabric_consumer consumer = {.mad = take_mad, .frame = take_frame};
	struct vb_fabric_node *one, *a, *b;
	struct vb_fabric_port *last;
	uint8_t frame[64];
	size_t length;

	(void)state;
	lab_begin(&lab, "Switch 4 \"S1\"\n[1] \"A\"[1]\n[2] \"B\"[1]\n[3] \"SM\"[1]\nCa 1 \"A\"\nCa 1 \"B\"\nCa 1 \"SM\"\n");
	one = vb_fabric_find(&lab.fabric, "S1");
	a = vb_fabric_find(&lab.fabric, "A");
	b = vb_fabric_find(&lab.fabric, "B");
	b->consumer = &consumer;
	last = &b->port[1];
	lab_set_lid(a, 1);
	lab_set_lid(b, 2);
	lab_activate(&lab);
	one->switch_info.linear_top = be16_of(3);
	one->linear[2] = 2;
	length = make_data(frame, 2, 1);
	frames_seen = 0;
	/* Its link has come up, and nothing more was said: it is too early. */
	vb_fabric_port_set_state(last, VB_PORT_INIT, lab.now);
	vb_fabric_receive(&lab.fabric, lab.now, &one->port[1], frame, length);
	assert_int_equal(frames_seen, 0);
	assert_int_equal(vb_fabric_port_state(last), VB_PORT_INIT);
	/* Armed: it takes the packet, and is active. So is a switch's port in between. */
	vb_fabric_port_set_state(last, VB_PORT_ARMED, lab.now);
	vb_fabric_port_set_state(&one->port[1], VB_PORT_ARMED, lab.now);
	vb_fabric_receive(&lab.fabric, lab.now, &one->port[1], frame, length);
	assert_int_equal(frames_seen, 1);
	assert_int_equal(vb_fabric_port_state(last), VB_PORT_ACTIVE);
	assert_int_equal(vb_fabric_port_state(&one->port[1]), VB_PORT_ACTIVE);
	/* Out of an armed port nothing but management passes. */
	vb_fabric_port_set_state(&one->port[2], VB_PORT_ARMED, lab.now);
	vb_fabric_receive(&lab.fabric, lab.now, &one->port[1], frame, length);
	assert_int_equal(frames_seen, 1);
	assert_int_equal(one->port[2].counters.transmit_discards, 1);
	assert_int_equal(last->counters.receive_errors, 0);
	assert_int_equal(one->port[1].counters.receive_errors, 0);
	lab_end(&lab);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sixty_three_hops),
		cmocka_unit_test(routes_that_lie),
		cmocka_unit_test(routes_of_three_parts),
		cmocka_unit_test(tables_lead_and_loops_end),
		cmocka_unit_test(groups_and_counters),
		cmocka_unit_test(ports_become_active_one_after_the_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
