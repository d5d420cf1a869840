/* SPDX-License-Identifier: MIT
 *
 * The way past verbenad, of the link of InfiniBand: when there is none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "links/fabric/fabric_link.h"
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_fabric_there_is_no_way_past_verbenad),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
