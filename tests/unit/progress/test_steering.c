/* SPDX-License-Identifier: MIT
 *
 * The steering program, run by an interpreter of the few classic BPF instructions it may use: every slot and lane goes where the
 * table says, for tables of every size, with holes, and nothing jumps outside.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <linux/filter.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/steering.h"
#include "wire/daemon_message.h"

static struct sock_filter program[VB_STEERING_INSTRUCTIONS];

static uint32_t load_word(const uint8_t *bytes, size_t length, uint32_t at, bool *outside)
{
	*outside = at + 4 > length;
	if (*outside)
		return 0;
	return (uint32_t)bytes[at] << 24 | (uint32_t)bytes[at + 1] << 16 | (uint32_t)bytes[at + 2] << 8 | bytes[at + 3];
}

/* As the kernel does: a load outside ends the program with 0. */
static uint32_t interpret(unsigned length, const uint8_t *packet, size_t packet_length, unsigned *steps)
{
	uint32_t a = 0, x = 0;

	*steps = 0;
	for (unsigned pc = 0;; pc++) {
		const struct sock_filter *f = &program[pc];
		bool outside;

		assert_true(pc < length);
		++*steps;
		switch (f->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			a = load_word(packet, packet_length, f->k, &outside);
			if (outside)
				return 0;
			break;
		case BPF_MISC | BPF_TAX:
			x = a;
			break;
		case BPF_MISC | BPF_TXA:
			a = x;
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= f->k;
			break;
		case BPF_ALU | BPF_RSH | BPF_K:
			a >>= f->k;
			break;
		case BPF_JMP | BPF_JA:
			pc += f->k;
			break;
		case BPF_JMP | BPF_JEQ | BPF_K:
			pc += a == f->k ? f->jt : f->jf;
			break;
		case BPF_JMP | BPF_JGT | BPF_K:
			pc += a > f->k ? f->jt : f->jf;
			break;
		case BPF_RET | BPF_K:
			return f->k;
		case BPF_RET | BPF_A:
			return a;
		default:
			fail_msg("instruction %u has code %#x", pc, f->code);
		}
	}
}

static void make_packet(uint8_t packet[16], uint32_t qpn)
{
	memset(packet, 0, 16);
	packet[0] = 0x04;                  /* RC SEND ONLY */
	packet[4] = 0xc0;                  /* FECN and BECN stand before the QPN and are not part of it */
	packet[5] = (uint8_t)(qpn >> 16);
	packet[6] = (uint8_t)(qpn >> 8);
	packet[7] = (uint8_t)qpn;
}

/* Every slot and lane, with the lowest and the highest QPN of it. */
static void check_all_slots(unsigned length, const struct vb_steering_entry *entries, unsigned count,
			    uint32_t otherwise)
{
	uint32_t expected[VB_DAEMON_SLOTS][VB_DAEMON_LANES];
	unsigned worst = 0;

	for (unsigned s = 0; s < VB_DAEMON_SLOTS; s++)
		for (unsigned lane = 0; lane < VB_DAEMON_LANES; lane++)
			expected[s][lane] = otherwise;
	for (unsigned i = 0; i < count; i++)
		for (unsigned lane = 0; lane < VB_DAEMON_LANES; lane++)
			expected[entries[i].slot][lane] = entries[i].lanes & 1u << lane ? entries[i].lane_index[lane] : entries[i].index;
	for (uint32_t qpn = 0; qpn < VB_DAEMON_SLOTS << VB_DAEMON_INDEX_BITS; qpn++) {
		uint32_t index = qpn % VB_DAEMON_INDICES;
		uint8_t packet[16];
		unsigned steps;

		if (index == VB_DAEMON_LANES)
			qpn += VB_DAEMON_INDICES - 2 * VB_DAEMON_LANES; /* to the last of this slot */
		make_packet(packet, qpn);
		assert_int_equal(interpret(length, packet, sizeof(packet), &steps),
				 expected[qpn >> VB_DAEMON_INDEX_BITS][qpn % VB_DAEMON_LANES]);
		worst = steps > worst ? steps : worst;
	}
	assert_true(worst <= 48);
}

/* Of 1344 sockets. */
static uint16_t any_index(void)
{
	return (uint16_t)(rand() % 1344);
}

static void give_lanes(struct vb_steering_entry *entries, unsigned count, unsigned wanted)
{
	while (wanted > 0) {
		struct vb_steering_entry *entry = &entries[(unsigned)rand() % count];
		unsigned lane = 1 + (unsigned)rand() % (VB_DAEMON_LANES - 1);

		wanted -= !(entry->lanes & 1u << lane);
		entry->lanes |= (uint16_t)(1u << lane);
		entry->lane_index[lane] = any_index();
	}
}

static void every_slot_goes_where_the_table_says(void **state)
{
	unsigned seed = 20;

	(void)state;
	print_message("seed %u\n", seed);
	srand(seed);
	for (unsigned wanted = 0; wanted <= 1023; wanted += wanted < 20 ? 1 : 59) {
		struct vb_steering_entry entries[VB_DAEMON_SLOTS];
		unsigned count = 0, most;
		unsigned length;

		for (unsigned slot = 1; slot < VB_DAEMON_SLOTS; slot++) {
			/* Choose `wanted` of the slots, each equally likely. */
			if ((unsigned)rand() % (VB_DAEMON_SLOTS - slot) >= wanted - count)
				continue;
			entries[count] = (struct vb_steering_entry){(uint16_t)slot, any_index()};
			count++;
		}
		assert_int_equal(count, wanted);
		length = vb_steering_generate(program, entries, count, 5);
		assert_true(length <= VB_STEERING_INSTRUCTIONS);
		check_all_slots(length, entries, count, 5);
		most = count * (VB_DAEMON_LANES - 1) < VB_STEERING_LANES ? count * (VB_DAEMON_LANES - 1) : VB_STEERING_LANES;
		give_lanes(entries, count, (unsigned)rand() % (most + 1));
		length = vb_steering_generate(program, entries, count, 5);
		assert_true(length <= VB_STEERING_INSTRUCTIONS);
		check_all_slots(length, entries, count, 5);
	}
}

static void the_largest_table_fits(void **state)
{
	struct vb_steering_entry entries[VB_DAEMON_SLOTS];
	unsigned length;

	(void)state;
	for (unsigned slot = 1; slot < VB_DAEMON_SLOTS; slot++)
		entries[slot - 1] = (struct vb_steering_entry){(uint16_t)slot, (uint16_t)(1086 - slot)};
	length = vb_steering_generate(program, entries, VB_DAEMON_SLOTS - 1, 1086);
	assert_true(length < 3000);
	check_all_slots(length, entries, VB_DAEMON_SLOTS - 1, 1086);
}

/* The first lane of a slot takes the most. One may be given to each of some slots, wherever they are, or seven to fewer. */
static void the_largest_table_fits_with_all_lanes(void **state)
{
	(void)state;
	for (unsigned first = 0; first + VB_STEERING_LANES < VB_DAEMON_SLOTS; first += 85) {
		for (unsigned each = 1; each < VB_DAEMON_LANES; each += VB_DAEMON_LANES - 2) {
			struct vb_steering_entry entries[VB_DAEMON_SLOTS];
			unsigned lanes = 0, length;

			for (unsigned slot = 1; slot < VB_DAEMON_SLOTS; slot++)
				entries[slot - 1] = (struct vb_steering_entry){(uint16_t)slot, (uint16_t)(1343 - slot)};
			for (; lanes < VB_STEERING_LANES; lanes++) {
				struct vb_steering_entry *entry = &entries[first + lanes / each];

				entry->lanes |= (uint16_t)(2u << lanes % each);
				entry->lane_index[1 + lanes % each] = (uint16_t)lanes;
			}
			length = vb_steering_generate(program, entries, VB_DAEMON_SLOTS - 1, 1343);
			assert_true(length < 3700);
			check_all_slots(length, entries, VB_DAEMON_SLOTS - 1, 1343);
		}
	}
}

static void probes_name_their_index(void **state)
{
	const struct vb_steering_entry entry = {7, 3};
	struct vb_daemon_probe probe = {be32_of(VB_DAEMON_PROBE_MAGIC), be32_of(41), be64_of(99)};
	unsigned length = vb_steering_generate(program, &entry, 1, 0), steps;

	(void)state;
	assert_int_equal(interpret(length, (const uint8_t *)&probe, sizeof(probe), &steps), 41);
	/* Anything else is a packet. */
	probe.magic = be32_of(VB_DAEMON_PROBE_MAGIC + 1);
	probe.index = be32_of(7 << 14);
	assert_int_equal(interpret(length, (const uint8_t *)&probe, sizeof(probe), &steps), 3);
}

static void short_datagrams_stay_inside(void **state)
{
	const struct vb_steering_entry entry = {7, 3};
	unsigned length = vb_steering_generate(program, &entry, 1, 2), steps;
	uint8_t packet[16];

	(void)state;
	make_packet(packet, 7 << 14);
	for (size_t cut = 0; cut < 8; cut++)
		assert_int_equal(interpret(length, packet, cut, &steps), 0);
	assert_int_equal(interpret(length, packet, 8, &steps), 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_slot_goes_where_the_table_says),
		cmocka_unit_test(the_largest_table_fits),
		cmocka_unit_test(the_largest_table_fits_with_all_lanes),
		cmocka_unit_test(probes_name_their_index),
		cmocka_unit_test(short_datagrams_stay_inside),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
