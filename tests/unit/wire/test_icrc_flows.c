/* SPDX-License-Identifier: MIT
 *
 * What is learned of a sender's IPv4 identifications, and what of it is demanded: of a sender that numbers the datagrams of a segmented
 * send from 0 on no other number is taken for an explanation of a wrong ICRC, and of one that counts its sends none that it cannot have
 * come to.
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
static vb_time now;

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
	vb_icrc_flow_begin(flow, path, now, &prefix);
	taken = vb_icrc_is_valid_again(&prefix, path, datagram, LENGTH, index);
	assert_int_equal(vb_icrc_copy_is_valid(&prefix, path, datagram, LENGTH, index, 12, copy), taken);
	vb_icrc_flow_end(flow, path, now, &prefix);
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

/* A bundle of so many, sent with `first` and the numbers after it, that did not come before `since`: is all of it taken? */
static bool take_bundle_since(const struct vb_path *path, uint16_t first, unsigned packets, vb_time since)
{
	struct vb_icrc_flow *flow = vb_icrc_flows_find(&flows, path);
	struct vb_icrc_prefix prefix = {0};
	uint8_t datagram[LENGTH] = {0};
	bool taken = true;

	vb_icrc_flow_begin(flow, path, now, &prefix);
	for (unsigned i = 0; i < packets; i++) {
		vb_icrc_store(vb_icrc_headers(vb_icrc_begin(path, (uint16_t)(first + i), LENGTH), datagram, LENGTH - 4),
			      datagram + LENGTH - 4);
		taken &= vb_icrc_is_valid_again(&prefix, path, datagram, LENGTH, (uint16_t)i);
	}
	vb_icrc_flow_end(flow, path, since, &prefix);
	return taken;
}

static bool take_bundle(const struct vb_path *path, uint16_t first, unsigned packets)
{
	return take_bundle_since(path, first, packets, now);
}

/* As our connected sockets do: runs of several lengths, one number further with each. Returns the number of the next. */
static uint16_t count_from(const struct vb_path *path, uint16_t id, unsigned bundles)
{
	for (unsigned i = 0; i < bundles; i++) {
		assert_true(take_bundle(path, id++, 1 + i % VB_ICRC_TRAIN));
		now += VB_MICROSECONDS(10);
	}
	return id;
}

static void who_counts_is_held_to_it(void **state)
{
	struct vb_path path = from(2, 0xc000);
	uint16_t id;

	(void)state;
	memset(&flows, 0, sizeof(flows));
	id = count_from(&path, 0xff80, VB_ICRC_LEARNED + 1);
	for (uint32_t away = 1000; away <= 65000; away += 777) {
		if ((uint16_t)(id + away) < VB_ICRC_TRAIN)
			continue;
		assert_false(take_bundle(&path, (uint16_t)(id + away), 1));
		/* It was damage: what comes next is what would have come. */
		id = count_from(&path, id, VB_ICRC_LEARNED);
	}
}

/* What is foretold is compared, not explained. */
static void what_comes_next_is_foretold(void **state)
{
	struct vb_path path = from(2, 0xc000);
	struct vb_icrc_prefix prefix = {0};

	(void)state;
	memset(&flows, 0, sizeof(flows));
	vb_icrc_flow_begin(vb_icrc_flows_find(&flows, &path), &path, now, &prefix);
	assert_int_equal(prefix.base, 0);
	assert_int_equal(count_from(&path, 7000, 3), 7003);
	vb_icrc_flow_begin(vb_icrc_flows_find(&flows, &path), &path, now, &prefix);
	assert_true(prefix.counts);
	assert_int_equal(prefix.base, 7003);
	assert_false(prefix.strict);
}

/* Some sends are lost, one overtakes another, and what was one run comes in pieces, each a bundle of its own. */
static void counting_stands_loss_and_pieces(void **state)
{
	struct vb_path path = from(2, 0xc000);
	uint16_t id;

	(void)state;
	memset(&flows, 0, sizeof(flows));
	id = count_from(&path, 300, VB_ICRC_LEARNED + 1);
	for (unsigned lost = 1; lost <= 256; lost += 5) {
		id = (uint16_t)(id + lost);
		assert_true(take_bundle(&path, id, 3));
		assert_true(take_bundle(&path, (uint16_t)(id - 1), 3));
		for (uint16_t piece = 0; piece < 62; piece += 31)
			assert_true(take_bundle(&path, (uint16_t)(id + piece), 31));
		id++;
	}
	/* Still held to it. */
	assert_false(take_bundle(&path, (uint16_t)(id + 2000), 1));
}

/* It sent to others meanwhile: as much as the time allows, and after a while any number. */
static void time_lets_a_counter_come_further(void **state)
{
	struct vb_path path = from(2, 0xc000);
	uint16_t id;

	(void)state;
	memset(&flows, 0, sizeof(flows));
	id = count_from(&path, 300, VB_ICRC_LEARNED + 1);
	now += VB_MICROSECONDS(100);
	assert_false(take_bundle(&path, (uint16_t)(id + 3000), 1));
	id = count_from(&path, id, VB_ICRC_LEARNED);
	now += VB_MICROSECONDS(1000);
	assert_true(take_bundle(&path, (uint16_t)(id + 3000), 1));
	id = count_from(&path, (uint16_t)(id + 3001), VB_ICRC_LEARNED);
	now += VB_MILLISECONDS(5);
	assert_true(take_bundle(&path, (uint16_t)(id + 50000), 1));
}

/* The receiver was away, and its socket full. What is read first came long before, and of what was sent after it a thousand are lost. */
static void what_lay_in_a_socket_came_earlier(void **state)
{
	struct vb_path path = from(2, 0xc000);
	vb_time empty;
	uint16_t id;

	(void)state;
	memset(&flows, 0, sizeof(flows));
	id = count_from(&path, 300, VB_ICRC_LEARNED + 1);
	empty = now;
	now += VB_MICROSECONDS(500);
	for (unsigned i = 0; i < 64; i++)
		assert_true(take_bundle_since(&path, id++, 39, empty));
	id = (uint16_t)(id + 1000);
	for (unsigned i = 0; i < 64; i++)
		assert_true(take_bundle_since(&path, id++, 39, empty));
	/* Still held to it when all was read. */
	assert_true(take_bundle(&path, id++, 1));
	assert_false(take_bundle(&path, (uint16_t)(id + 2000), 1));
}

/* A sender whose socket was disconnected: nothing is lost, and what it does then is demanded. */
static void a_counter_may_go_back_to_nothing(void **state)
{
	struct vb_path path = from(2, 0xc000);
	uint16_t id;

	(void)state;
	memset(&flows, 0, sizeof(flows));
	id = count_from(&path, 300, VB_ICRC_LEARNED + 1);
	for (unsigned i = 0; i < 10; i++)
		assert_true(take_bundle(&path, 0, VB_ICRC_TRAIN));
	assert_false(take_bundle(&path, id, 1));
}

/* A counter that others share, as rxe's: it is never demanded of it that it goes on by one. */
static void a_shared_counter_is_never_held_to_anything(void **state)
{
	struct vb_path path = from(2, 0xc000);
	uint16_t id = 300;

	(void)state;
	memset(&flows, 0, sizeof(flows));
	for (unsigned round = 0; round < 1000; round++) {
		for (unsigned i = 0; i < VB_ICRC_LEARNED - 1; i++)
			assert_true(take(&path, id++, 0));
		id = (uint16_t)(id + 5000);
	}
}

static void damage_is_no_explanation(void **state)
{
	struct vb_path path = from(2, 0xc000);
	struct vb_icrc_prefix prefix = {0};
	uint8_t datagram[LENGTH] = {0};
	uint16_t id;

	(void)state;
	memset(&flows, 0, sizeof(flows));
	id = count_from(&path, 300, VB_ICRC_LEARNED + 1);
	vb_icrc_store(vb_icrc_headers(vb_icrc_begin(&path, id, LENGTH), datagram, LENGTH - 4), datagram + LENGTH - 4);
	for (unsigned bit = 0; bit < LENGTH * 8; bit++) {
		/* Its congestion byte the ICRC does not cover. */
		if (bit / 8 == 4)
			continue;
		vb_icrc_flow_begin(vb_icrc_flows_find(&flows, &path), &path, now, &prefix);
		datagram[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_false(vb_icrc_is_valid_again(&prefix, &path, datagram, LENGTH, 0));
		assert_int_equal(prefix.base, id);
		datagram[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	assert_true(vb_icrc_is_valid_again(&prefix, &path, datagram, LENGTH, 0));
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
		cmocka_unit_test(who_counts_is_held_to_it),
		cmocka_unit_test(what_comes_next_is_foretold),
		cmocka_unit_test(counting_stands_loss_and_pieces),
		cmocka_unit_test(time_lets_a_counter_come_further),
		cmocka_unit_test(what_lay_in_a_socket_came_earlier),
		cmocka_unit_test(a_counter_may_go_back_to_nothing),
		cmocka_unit_test(a_shared_counter_is_never_held_to_anything),
		cmocka_unit_test(damage_is_no_explanation),
		cmocka_unit_test(flows_are_told_apart),
		cmocka_unit_test(destinations_are_told_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
