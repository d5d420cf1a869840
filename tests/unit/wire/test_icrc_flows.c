/* SPDX-License-Identifier: MIT
 *
 * What is learned of a sender's IPv4 identifications, and what of it is demanded: of a sender that numbers the datagrams of a segmented
 * send from 0 on no other number is taken for an explanation of a wrong ICRC.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "wire/icrc_flows.h"

enum { LENGTH = 64 };

static struct vb_icrc_flows flows;

static struct vb_path from(uint8_t last_byte, uint16_t port)
{
	return (struct vb_path){
		.source = {[10] = 0xff, 0xff, 10, 0, 0, last_byte},
		.destination = {[10] = 0xff, 0xff, 10, 0, 0, 1},
		.source_port = port,
	};
}

/* A bundle of one datagram that was sent with `id`, the `index`-th of its bundle: is it taken? */
static bool take(const struct vb_path *path, uint16_t id, uint16_t index)
{
	struct vb_icrc_flow *flow = vb_icrc_flows_find(&flows, path);
	struct vb_icrc_prefix prefix = {0};
	uint8_t datagram[LENGTH], copy[LENGTH];
	bool taken;

	for (unsigned i = 0; i < LENGTH; i++)
		datagram[i] = (uint8_t)(i * 7);
	vb_icrc_store(vb_icrc_headers(vb_icrc_begin(path, id, LENGTH), datagram, LENGTH - 4), datagram + LENGTH - 4);
	assert_non_null(flow);
	vb_icrc_flow_begin(flow, path, &prefix);
	taken = vb_icrc_is_valid_again(&prefix, path, datagram, LENGTH, index);
	assert_int_equal(vb_icrc_copy_is_valid(&prefix, path, datagram, LENGTH, index, 12, copy), taken);
	vb_icrc_flow_end(flow, path, &prefix);
	return taken;
}

static void learn(const struct vb_path *path)
{
	for (unsigned i = 0; i < VB_ICRC_LEARNED; i++)
		assert_true(take(path, (uint16_t)(i % VB_ICRC_TRAIN), (uint16_t)(i * 5 % VB_ICRC_TRAIN)));
}

static void what_was_learned_is_demanded(void **state)
{
	struct vb_path path = from(2, 0xc000);

	(void)state;
	memset(&flows, 0, sizeof(flows));
	/* Not known yet: any number may be right. */
	assert_true(take(&path, 0xbeef, 0));
	learn(&path);
	for (uint32_t id = VB_ICRC_TRAIN; id <= 0xffff; id += 97) {
		assert_false(take(&path, (uint16_t)id, 0));
		/* Long enough ago, it was damage. */
		learn(&path);
	}
	for (uint16_t id = 0; id < VB_ICRC_TRAIN; id++)
		assert_true(take(&path, id, (uint16_t)(63 - id)));
}

static void who_changes_habits_is_believed(void **state)
{
	struct vb_path path = from(2, 0xc000);

	(void)state;
	memset(&flows, 0, sizeof(flows));
	learn(&path);
	assert_false(take(&path, 1000, 0));
	assert_true(take(&path, 1, 0));
	assert_false(take(&path, 1001, 0));
	assert_true(take(&path, 1002, 0));
	learn(&path);
	assert_false(take(&path, 1003, 0));
}

/* A counter passes through the small numbers now and then. */
static void who_counts_is_never_taken_for_one_of_us(void **state)
{
	struct vb_path path = from(2, 0xc000);

	(void)state;
	memset(&flows, 0, sizeof(flows));
	for (uint32_t id = 0; id < 3 * 65536; id++)
		assert_true(take(&path, (uint16_t)id, 0));
}

static void flows_are_told_apart(void **state)
{
	struct vb_path ours = from(2, 0xc000), other = from(2, 0xc001), six = from(2, 0xc000);

	(void)state;
	memset(&flows, 0, sizeof(flows));
	learn(&ours);
	assert_true(take(&other, 5000, 0));
	assert_false(take(&ours, 5000, 0));
	/* Who shares a place begins anew, and is not held to what another did. */
	for (unsigned host = 3; host < 255; host++)
		for (uint16_t port = 0xc000; port < 0xc010; port++) {
			struct vb_path many = from((uint8_t)host, port);

			assert_true(take(&many, 5000, 0));
		}
	six.source[0] = six.destination[0] = 0x20;
	assert_null(vb_icrc_flows_find(&flows, &six));
}

/* One sender, one port, two of our addresses: what is kept of one is not used for the other. */
static void destinations_are_told_apart(void **state)
{
	struct vb_path here = from(2, 0xc000), there = from(2, 0xc000);

	(void)state;
	memset(&flows, 0, sizeof(flows));
	there.destination[15] = 77;
	learn(&here);
	for (unsigned i = 0; i < 4; i++) {
		assert_true(take(&there, 0, 0));
		assert_true(take(&here, 0, 0));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_learned_is_demanded),
		cmocka_unit_test(who_changes_habits_is_believed),
		cmocka_unit_test(who_counts_is_never_taken_for_one_of_us),
		cmocka_unit_test(flows_are_told_apart),
		cmocka_unit_test(destinations_are_told_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
