/* SPDX-License-Identifier: MIT
 *
 * Frames of queue pairs: an adapter takes from its processes what is its own to send, switches carry it by the LID, and every port on the
 * way counts it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "lab.h"

enum { BTH_TO_ICRC = 12 + 8 + 4 };

static struct lab lab;
static unsigned taken;
static uint8_t last[VB_IB_MAX_FRAME];

static void take(void *context, vb_time now, struct vb_fabric_port *port, const uint8_t *bytes, size_t length)
{
	(void)context;
	(void)now;
	(void)port;
	taken++;
	memcpy(last, bytes, length);
}

static const struct vb_fabric_consumer consumer = {.frame = take};

static size_t make(uint8_t *out, struct vb_ib_route route)
{
	size_t headers = vb_ib_route_encode(&route, BTH_TO_ICRC, out);

	memset(out + headers, 0, BTH_TO_ICRC);
	out[headers] = 0x04; /* RC SEND_ONLY */
	vb_ib_frame_seal(out, headers + BTH_TO_ICRC);
	return headers + BTH_TO_ICRC;
}

static bool sends(struct vb_fabric_port *port, struct vb_ib_route route)
{
	uint8_t bytes[VB_IB_MAX_FRAME];
	size_t length = make(bytes, route);
	bool sent = vb_fabric_send_frame(port, 0, bytes, length);

	vb_fabric_run(&lab.fabric, 0);
	return sent;
}

/* SM, LID 1, at port 1 of a switch; B, LID 2, at its port 2. */
static void from_end_to_end(void **state)
{
	struct vb_fabric_node *a, *b, *s;
	struct vb_fabric_port *port;
	uint64_t discards;

	(void)state;
	lab_begin(&lab, "Ca 1 \"SM\"\n[1] \"S\"[1]\nCa 1 \"B\"\n[1] \"S\"[2]\nSwitch 4 \"S\"\n");
	a = vb_fabric_find(&lab.fabric, "SM");
	b = vb_fabric_find(&lab.fabric, "B");
	s = vb_fabric_find(&lab.fabric, "S");
	a->consumer = b->consumer = &consumer;
	port = &a->port[1];
	lab_set_lid(a, 1);
	lab_set_lid(b, 2);
	s->switch_info.linear_top = be16_of(2);
	s->linear[1] = 1;
	s->linear[2] = 2;
	/* Nothing but a subnet manager's own packets passes a port that is not active. */
	assert_false(sends(port, (struct vb_ib_route){.dlid = 2, .slid = 1}));
	lab_activate(&lab);
	taken = 0;
	assert_true(sends(port, (struct vb_ib_route){.dlid = 2, .slid = 1, .sl = 3}));
	assert_int_equal(taken, 1);
	assert_true(vb_ib_icrc_is_valid(last, VB_LRH_LENGTH + BTH_TO_ICRC));
	assert_int_equal(port->counters.unicast_transmit, 1);
	assert_int_equal(s->port[1].counters.unicast_receive, 1);
	assert_int_equal(s->port[2].counters.unicast_transmit, 1);
	assert_int_equal(s->port[2].counters.transmit_data, (VB_LRH_LENGTH + BTH_TO_ICRC) / 4);
	assert_int_equal(b->port[1].counters.unicast_receive, 1);
	/* To itself: it takes no cable. */
	assert_true(sends(port, (struct vb_ib_route){.dlid = 1, .slid = 1, .has_grh = true}));
	assert_int_equal(taken, 2);
	assert_int_equal(port->counters.unicast_transmit, 1);
	/* In another's name, as management, and bytes that are no frame. */
	discards = port->counters.transmit_discards;
	assert_false(sends(port, (struct vb_ib_route){.dlid = 2, .slid = 2}));
	assert_false(sends(port, (struct vb_ib_route){.dlid = 2, .slid = 1, .vl = VB_IB_MANAGEMENT_VL}));
	assert_false(vb_fabric_send_frame(port, 0, last, 16));
	assert_int_equal(port->counters.transmit_discards, discards + 3);
	assert_int_equal(taken, 2);
	lab_end(&lab);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(from_end_to_end)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
