/* SPDX-License-Identifier: MIT
 *
 * The order of a group's sockets against a model of the kernel's, by seed: after a daemon's death processes come, or die before, after,
 * or while they say where they stand, probes behind the end go to any socket, answers are late, others join. When nothing changes any more
 * the order is the kernel's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "daemon/group_order.h"

enum { SEEDS = 4000, STEPS = 120, MOST = 12, KEPT = 256, ROUNDS = 60 };

struct process {
	bool alive, known;                 /* known: connected to the daemon */
	uint64_t seen[KEPT];               /* nonces that it has not told yet */
	unsigned first, last;
};

static struct world {
	uint64_t random, nonce;
	uint16_t kernel[2 * MOST];
	unsigned sockets;
	struct process process[MOST];      /* 0: the daemon itself */
	struct vb_group_order order;
} world;

static unsigned below(unsigned bound)
{
	world.random = world.random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (unsigned)(world.random >> 33) % bound;
}

/* ---- the kernel ---- */

static int index_of(unsigned slot)
{
	for (unsigned i = 0; i < world.sockets; i++)
		if (world.kernel[i] == slot)
			return (int)i;
	return -1;
}

static void leave(unsigned slot)
{
	int index = index_of(slot);

	assert_true(index >= 0);
	world.kernel[index] = world.kernel[--world.sockets];
}

static void probe(void)
{
	for (unsigned i = 0; i < world.order.members; i++) {
		struct process *receiver;

		if (world.order.member[i] != VB_GROUP_UNKNOWN)
			continue;
		world.order.nonce[i] = ++world.nonce;
		receiver = &world.process[world.kernel[i < world.sockets ? i : below(world.sockets)]];
		if (receiver->last - receiver->first < KEPT)
			receiver->seen[receiver->last++ % KEPT] = world.nonce;
	}
}

/* ---- processes ---- */

static void tell_one(unsigned slot)
{
	struct process *process = &world.process[slot];

	if (process->alive && process->known && process->first != process->last)
		(void)vb_group_order_seen(&world.order, (uint16_t)slot, process->seen[process->first++ % KEPT]);
}

static void die(unsigned slot)
{
	if (index_of(slot) >= 0)
		leave(slot);
	world.process[slot] = (struct process){0};
}

/* The daemon hears of the end: of one whose place it knows at once, of another the sockets leave when they do. */
static void hang_up(unsigned slot)
{
	struct process *process = &world.process[slot];

	if (!process->known)
		return;
	process->known = false;
	if (vb_group_order_drop(&world.order, (uint16_t)slot))
		die(slot);
}

static void join(unsigned slot)
{
	world.process[slot] = (struct process){.alive = true, .known = true};
	world.kernel[world.sockets++] = (uint16_t)slot;
	vb_group_order_append(&world.order, (uint16_t)slot);
}

static void step(void)
{
	unsigned slot = 1 + below(MOST - 1);
	struct process *process = &world.process[slot];

	switch (below(16)) {
	case 0:
	case 1:
		probe();
		break;
	case 2:
		if (process->alive && !process->known)
			die(slot);
		break;
	case 3:
		hang_up(slot);
		break;
	case 4:
		if (!process->alive)
			join(slot);
		break;
	case 5:
	case 6:
		process->known = process->alive;
		break;
	default:
		tell_one(below(MOST));
		break;
	}
}

static void begin(unsigned seed)
{
	memset(&world, 0, sizeof(world));
	world.random = seed;
	for (unsigned slot = 1; slot < MOST; slot++) {
		if (below(3) == 0)
			continue;
		world.process[slot].alive = true;
		world.kernel[world.sockets++] = (uint16_t)slot;
	}
	world.process[0] = (struct process){.alive = true, .known = true};
	world.kernel[world.sockets++] = 0;
	vb_group_order_begin(&world.order, 0, world.sockets - 1);
}

static void end(void)
{
	for (unsigned round = 0; round < ROUNDS; round++) {
		probe();
		for (unsigned slot = 0; slot < MOST; slot++)
			for (world.process[slot].known = world.process[slot].alive;
			     world.process[slot].known && world.process[slot].first != world.process[slot].last;)
				tell_one(slot);
	}
}

static void it_becomes_the_kernels(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= SEEDS; seed++) {
		begin(seed);
		for (unsigned i = 0; i < STEPS; i++)
			step();
		end();
		if (world.order.members != world.sockets || memcmp(world.order.member, world.kernel, world.sockets * sizeof(uint16_t)) != 0)
			fail_msg("seed %u", seed);
	}
}

/* One that was known at its place leaves, and the last stands there: no question is needed. */
static void who_leaves_is_followed(void **state)
{
	struct vb_group_order order = {0};

	(void)state;
	vb_group_order_begin(&order, 0, 0);
	for (uint16_t slot = 1; slot < 4; slot++)
		vb_group_order_append(&order, slot);
	assert_true(vb_group_order_drop(&order, 1));
	assert_int_equal(vb_group_order_find(&order, 3), 1);
	assert_int_equal(vb_group_order_unknown(&order), 0);
	assert_false(vb_group_order_drop(&order, 1));
	assert_false(vb_group_order_seen(&order, 3, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_becomes_the_kernels),
		cmocka_unit_test(who_leaves_is_followed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
