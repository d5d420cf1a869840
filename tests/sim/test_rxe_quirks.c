/* SPDX-License-Identifier: MIT
 *
 * A peer that answers as the kernel's rxe does where rxe is narrower than the specification, and our requester gets along
 * with it.
 *
 * Repeated READs: rxe remembers of a READ only what was asked of it last. Once a later part was asked for, an
 * earlier one is dropped without a word; a requester that asks for the tail first never gets the rest.
 */
#include "sim/testing.h"
#include "wire/roce_packet.h"

enum { READS = 64, READ_LENGTH = 40 * 1024, KEPT = 4096 };

struct narrow_peer {
	struct sim *sim;
	struct { uint32_t first, packets; uint64_t from; } read[KEPT];
	unsigned reads, repeated, refused;
};

static bool take_read(struct narrow_peer *peer, const struct vb_roce_packet *packet)
{
	for (unsigned i = peer->reads; i-- > 0;) {
		if (((packet->psn.v - peer->read[i].first) & VB_PSN_MASK) >= peer->read[i].packets)
			continue;
		peer->repeated++;
		if (packet->reth.address < peer->read[i].from) {
			peer->refused++;
			return false;
		}
		peer->read[i].from = packet->reth.address;
		return true;
	}
	assert_true(peer->reads < KEPT);
	peer->read[peer->reads].first = packet->psn.v;
	peer->read[peer->reads].packets = packet->reth.length <= 1024 ? 1 : (packet->reth.length + 1023) / 1024;
	peer->read[peer->reads++].from = packet->reth.address;
	return true;
}

static bool pass(void *context, const struct vb_roce_packet *packet)
{
	struct narrow_peer *peer = context;

	/* It knows no opcodes of manufacturers. */
	if (packet->op->service == VB_SERVICE_VENDOR)
		return false;
	if (packet->op->kind == VB_KIND_READ_REQUEST)
		return take_read(peer, packet);
	return packet->op->kind != VB_KIND_READ_RESPONSE || sim_below(peer->sim, 100) >= 5;
}

static void a_repeated_read_never_asks_for_the_tail_first(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 8; seed++) {
		static struct narrow_peer peer;
		struct pair pair;
		struct ibv_wc wc;

		memset(&peer, 0, sizeof(peer));
		pair_open(&pair, seed, false, &sim_usual, READ_LENGTH);
		pair_fill(&pair, &pair.b_memory, READ_LENGTH);
		peer.sim = pair.sim;
		pair.sim->network.filter = pass;
		pair.sim->network.filter_context = &peer;
		print_message("seed %llu\n", (unsigned long long)seed);
		for (unsigned i = 0; i < READS; i++) {
			memset(pair.a_memory.bytes, 0, READ_LENGTH);
			pair_post(&pair, IBV_WR_RDMA_READ, READ_LENGTH, i);
			assert_true(sim_wait(pair.sim, pair.a_cq, &wc, VB_SECONDS(60)));
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			assert_memory_equal(pair.a_memory.bytes, pair.b_memory.bytes, READ_LENGTH);
		}
		assert_true(peer.repeated > 20);
		assert_int_equal(peer.refused, 0);
		pair_close(&pair);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_repeated_read_never_asks_for_the_tail_first)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
