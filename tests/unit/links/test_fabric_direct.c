/* SPDX-License-Identifier: MIT
 *
 * The way past verbenad, of the link of InfiniBand: when there is none, and whose fault it is that a packet is not taken.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include <string.h>

#include "io/datagram.h"
#include "io/datagram_batch.h"
#include "links/fabric/fabric_link.h"
#include "wire/cable.h"
#include "wire/burst.h"

/* Generation 0: the host has joined no fabric. That the fabric knows of none, which is 0 too, opens no way there. */
static void without_a_fabric_there_is_no_way_past_verbenad(void **state)
{
	static struct vb_fabric_link fabric;
	static const uint8_t packet[64];
	struct vb_frame_page page = {.key = 1};
	struct vb_burst_run run = {.segment_size = sizeof(packet), .packets = 1, .bytes = sizeof(packet), .data = packet};
	uint32_t lost = 0;
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	fabric.fd = ends[0];
	fabric.udp = ends[1];
	fabric.page = &page;
	assert_false(vb_fabric_direct_send(&fabric, &run, &lost));
	assert_int_equal(lost, 0);
	assert_int_equal(page.transmit_discards, 0);
	close(ends[0]);
	close(ends[1]);
}

static unsigned frames_taken;

static void take(void *context, const uint8_t *frame, size_t length, const uint8_t *others, size_t stride, unsigned count)
{
	(void)context;
	(void)frame;
	(void)length;
	(void)others;
	(void)stride;
	frames_taken += count;
}

static void end(void *context)
{
	(void)context;
}

/* One for LID 5 comes in. */
static void receive_one(struct vb_fabric_link *fabric, int peer)
{
	struct {
		struct vb_cable_header header;
		uint8_t frame[36];
	} message = {
		.header = {.key = be32_of(1), .kind = be16_of(VB_CABLE_FRAME)},
		.frame = {0, VB_IB_LNH_LOCAL, 0, 5, 0, 9, 0, 6},
	};

	assert_int_equal(send(peer, &message, sizeof(message), 0), sizeof(message));
	assert_true(vb_fabric_direct_receive(fabric, 1, true, take, end, NULL));
}

/* PortRcvErrors are packets for another LID; not those that come before a subnet manager has made the port active. */
static void a_port_that_is_not_active_has_no_receive_errors(void **state)
{
	static struct vb_fabric_link fabric;
	static const uint8_t loopback[16] = {[10] = 0xff, 0xff, 127, 0, 0, 1};
	struct vb_frame_page page = {.key = 1};
	uint8_t gid[16];
	uint16_t own;
	int peer = vb_datagram_open(0);

	(void)state;
	fabric.udp = vb_datagram_open(0);
	fabric.page = &page;
	assert_true(peer >= 0 && fabric.udp >= 0);
	assert_int_equal(vb_datagram_own_address(fabric.udp, gid, &own), 0);
	assert_int_equal(vb_datagram_connect(peer, loopback, own, 0), 0);
	receive_one(&fabric, peer);
	assert_int_equal(frames_taken, 0);
	assert_int_equal(page.receive_errors, 0);
	page.source = VB_FRAME_SOURCE_ACTIVE | 5 << 3;
	receive_one(&fabric, peer);
	assert_int_equal(frames_taken, 1);
	assert_int_equal(page.receive_errors, 0);
	page.source = VB_FRAME_SOURCE_ACTIVE | 6 << 3;
	receive_one(&fabric, peer);
	assert_int_equal(frames_taken, 1);
	assert_int_equal(page.receive_errors, 1);
	assert_int_equal(page.receive_packets, 3);
	vb_datagram_batch_destroy(fabric.batch);
	close(fabric.udp);
	close(peer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_fabric_there_is_no_way_past_verbenad),
		cmocka_unit_test(a_port_that_is_not_active_has_no_receive_errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
