/* SPDX-License-Identifier: MIT
 *
 * Code generation for the steering program:
 *
 *	A = word at 0
 *	if A == probe magic: A = word at 4, return A
 *	X = word at 4
 *	A = (X & 0xffffff) >> 14                     the slot
 *	a tree of "A > slot?" over the sorted entries, each leaf four entries of
 *		if A == slot: return index
 *	or, of a slot with lanes,
 *		if A == slot:
 *			A = X & 7
 *			if A == lane: return its index     for each lane that it has
 *			return index
 *	and one
 *		return otherwise
 *
 * A conditional jump of classic BPF reaches 255 instructions. The tree is laid out left subtree first, so the jump to
 * the right subtree may be longer: then a BPF_JA, which reaches everywhere, stands in between. 1023 entries make some
 * 2,600 instructions of the 4,096 that are allowed, and a packet runs through about twenty of them. A lane takes two, and the first of
 * a slot four: 256 lanes make 1,024 more at most. Where net.core.optmem_max is still 20,480 bytes (kernels before 6.7) the kernel takes
 * some 650 entries without lanes and refuses more with ENOMEM.
 *
 * A load beyond the end of a short datagram returns 0, the daemon's index in the fresh group: no other socket is bothered.
 */
#include "daemon/steering.h"

#include <assert.h>
#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>

#include "wire/daemon_message.h"

enum { LEAF_ENTRIES = 4, JUMP_REACH = 255 };

struct generator {
	struct sock_filter *program;
	unsigned length;
	uint32_t otherwise;
};

static unsigned emit(struct generator *g, uint16_t code, uint8_t yes, uint8_t no, uint32_t k)
{
	assert(g->length < VB_STEERING_INSTRUCTIONS);
	g->program[g->length] = (struct sock_filter){.code = code, .jt = yes, .jf = no, .k = k};
	return g->length++;
}

static unsigned count_lanes(const struct vb_steering_entry *entry)
{
	return (unsigned)__builtin_popcount(entry->lanes);
}

static unsigned entry_length(const struct vb_steering_entry *entry)
{
	return entry->lanes == 0 ? 2 : 4 + 2 * count_lanes(entry);
}

static void emit_lanes(struct generator *g, const struct vb_steering_entry *entry)
{
	emit(g, BPF_MISC | BPF_TXA, 0, 0, 0);
	emit(g, BPF_ALU | BPF_AND | BPF_K, 0, 0, VB_DAEMON_LANES - 1);
	for (unsigned lane = 0; lane < VB_DAEMON_LANES; lane++) {
		if (!(entry->lanes & 1u << lane))
			continue;
		emit(g, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, lane);
		emit(g, BPF_RET | BPF_K, 0, 0, entry->lane_index[lane]);
	}
}

static void emit_leaf(struct generator *g, const struct vb_steering_entry *entries, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		emit(g, BPF_JMP | BPF_JEQ | BPF_K, 0, (uint8_t)(entry_length(&entries[i]) - 1), entries[i].slot);
		if (entries[i].lanes != 0)
			emit_lanes(g, &entries[i]);
		emit(g, BPF_RET | BPF_K, 0, 0, entries[i].index);
	}
	emit(g, BPF_RET | BPF_K, 0, 0, g->otherwise);
}

/* Instructions of the tree over these entries: a node is one, and one more where the right half is out of reach. */
static unsigned tree_length(const struct vb_steering_entry *entries, unsigned count)
{
	unsigned left = count / 2, left_length, length = 1;

	if (count <= LEAF_ENTRIES) {
		for (unsigned i = 0; i < count; i++)
			length += entry_length(&entries[i]);
		return length;
	}
	left_length = tree_length(entries, left);
	return 1 + (left_length > JUMP_REACH) + left_length + tree_length(entries + left, count - left);
}

static void emit_tree(struct generator *g, const struct vb_steering_entry *entries, unsigned count)
{
	unsigned left = count / 2, left_length;
	uint32_t border;

	if (count <= LEAF_ENTRIES) {
		emit_leaf(g, entries, count);
		return;
	}
	left_length = tree_length(entries, left);
	border = entries[left - 1].slot;
	if (left_length <= JUMP_REACH) {
		emit(g, BPF_JMP | BPF_JGT | BPF_K, (uint8_t)left_length, 0, border);
	} else {
		emit(g, BPF_JMP | BPF_JGT | BPF_K, 0, 1, border);
		emit(g, BPF_JMP | BPF_JA, 0, 0, left_length);
	}
	emit_tree(g, entries, left);
	emit_tree(g, entries + left, count - left);
}

unsigned vb_steering_generate(struct sock_filter *program, const struct vb_steering_entry *entries, unsigned count,
			      uint32_t otherwise)
{
	struct generator g = {.program = program, .otherwise = otherwise};
	unsigned lanes = 0;

	for (unsigned i = 0; i < count; i++)
		lanes += count_lanes(&entries[i]);
	assert(count < VB_DAEMON_SLOTS && lanes <= VB_STEERING_LANES);
	emit(&g, BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct vb_daemon_probe, magic));
	emit(&g, BPF_JMP | BPF_JEQ | BPF_K, 0, 2, VB_DAEMON_PROBE_MAGIC);
	emit(&g, BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct vb_daemon_probe, index));
	emit(&g, BPF_RET | BPF_A, 0, 0, 0);
	/* BTH: a reserved byte at 4, the destination QPN at 5. */
	emit(&g, BPF_LD | BPF_W | BPF_ABS, 0, 0, 4);
	emit(&g, BPF_MISC | BPF_TAX, 0, 0, 0);
	emit(&g, BPF_ALU | BPF_AND | BPF_K, 0, 0, 0xffffff);
	emit(&g, BPF_ALU | BPF_RSH | BPF_K, 0, 0, VB_DAEMON_INDEX_BITS);
	emit_tree(&g, entries, count);
	return g.length;
}
