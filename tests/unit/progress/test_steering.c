/* SPDX-License-Identifier: MIT
 *
 * The steering program, run by an interpreter of the few classic BPF instructions it may use: every slot goes where the
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
	uint32_t a = 0;

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

/* Every slot, with the lowest and the highest QPN of it. */
static void check_all_slots(unsigned length, const struct vb_steering_entry *entries, unsigned count,
			    uint32_t otherwise)
{
	uint32_t expected[VB_DAEMON_SLOTS];
	unsigned worst = 0;

	for (unsigned s = 0; s < VB_DAEMON_SLOTS; s++)
		expected[s] = otherwise;
	for (unsigned i = 0; i < count; i++)
		expected[entries[i].slot] = entries[i].index;
	for (uint32_t slot = 0; slot < VB_DAEMON_SLOTS; slot++) {
		uint8_t packet[16];
		unsigned steps;

		make_packet(packet, slot << 14);
		assert_int_equal(interpret(length, packet, sizeof(packet), &steps), expected[slot]);
		worst = steps > worst ? steps : worst;
		make_packet(packet, slot << 14 | 0x3fff);
		assert_int_equal(interpret(length, packet, sizeof(packet), &steps), expected[slot]);
	}
	assert_true(worst <= 32);
}

static void every_slot_goes_where_the_table_says(void **state)
{
	unsigned seed = 20;

	(void)state;
	print_message("seed %u\n", seed);
	srand(seed);
	for (unsigned wanted = 0; wanted <= 1023; wanted += wanted < 20 ? 1 : 59) {
		struct vb_steering_entry entries[VB_DAEMON_SLOTS];
		unsigned count = 0;
		unsigned length;

		for (unsigned slot = 1; slot < VB_DAEMON_SLOTS; slot++) {
			/* Choose `wanted` of the slots, each equally likely. */
			if ((unsigned)rand() % (VB_DAEMON_SLOTS - slot) >= wanted - count)
				continue;
			entries[count] = (struct vb_steering_entry){(uint16_t)slot, (uint16_t)(rand() % 1087)};
			count++;
		}
		assert_int_equal(count, wanted);
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
		cmocka_unit_test(probes_name_their_index),
		cmocka_unit_test(short_datagrams_stay_inside),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
