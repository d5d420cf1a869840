/* SPDX-License-Identifier: MIT
 *
 * What the kernel's rxe sent, played at our responder: it accepts every request of every capture, and answers with
 * the opcodes, PSNs and message numbers with which rxe answered. Keys and addresses of the captured machine stand
 * for memory that takes anything.
 */
#include "sim/golden.h"
#include "wire/burst.h"

static const char *folder;

/* Answers that our responder gave. */
struct answers {
	struct {
		uint8_t opcode;
		uint32_t psn, msn, length;
	} list[GOLDEN_PACKETS];
	unsigned count;
	unsigned naks;
};

static bool record(void *context, const struct vb_roce_packet *packet)
{
	struct answers *answers = context;

	if (packet->op->is_request || packet->op->service == VB_SERVICE_CNP)
		return false;
	if ((packet->op->headers & VB_HEADER_AETH) && (packet->aeth.syndrome & VB_AETH_TYPE_MASK) != VB_AETH_ACK)
		answers->naks++;
	assert_true(answers->count < GOLDEN_PACKETS);
	answers->list[answers->count].opcode = packet->opcode;
	answers->list[answers->count].psn = packet->psn.v;
	answers->list[answers->count].msn = packet->op->headers & VB_HEADER_AETH ? packet->aeth.msn : 0;
	answers->list[answers->count].length = packet->payload_length;
	answers->count++;
	return false;
}

/* Captures in which rxe refused something, or repeated itself: what we answer is ours to decide. */
static bool answers_are_comparable(const struct golden_file *file)
{
	static const char *const special[] = {"badkey", "bound", "noperm",    "toolong",
					      "rnr",    "loss",  "blackhole", "op-sendinv"};

	for (unsigned i = 0; i < sizeof(special) / sizeof(special[0]); i++)
		if (golden_name_has(file, special[i]))
			return false;
	return file->end_count <= 2;
}

static void compare_answers(const struct golden_file *file, const struct golden_end *end, const struct answers *answers)
{
	unsigned n = 0;

	for (unsigned i = 0; i < file->count; i++) {
		const struct vb_roce_packet *theirs = &file->packets[i];

		if (theirs->op->is_request || memcmp(theirs->from.source, end->address, 16) != 0)
			continue;
		assert_true(n < answers->count);
		assert_int_equal(answers->list[n].opcode, theirs->opcode);
		assert_int_equal(answers->list[n].psn, theirs->psn.v);
		assert_int_equal(answers->list[n].length, theirs->payload_length);
		if (theirs->op->headers & VB_HEADER_AETH)
			assert_int_equal(answers->list[n].msn, theirs->aeth.msn);
		n++;
	}
	assert_int_equal(n, answers->count);
}

static void open_end(struct pair *pair, const struct golden_end *end)
{
	struct sim_connection connection = sim_usual;

	if (end->type == IBV_QPT_UD) {
		sim_open_datagram(pair->a, end->qkey, IBV_MTU_4096);
		return;
	}
	connection.mtu = golden_mtu(end);
	assert_int_equal(sim_to_init(pair->a, SIM_ALL_ACCESS & ~IBV_ACCESS_MW_BIND), 0);
	assert_int_equal(sim_to_init(pair->b, SIM_ALL_ACCESS & ~IBV_ACCESS_MW_BIND), 0);
	assert_int_equal(sim_to_rtr(pair->a, pair->b, &connection, end->first_psn, 128), 0);
}

static unsigned play(struct golden_file *file, const struct golden_end *end)
{
	struct answers *answers = calloc(1, sizeof(*answers));
	uint32_t null_key;
	unsigned accepted = 0;
	struct pair pair;
	struct ibv_wc wc;

	assert_non_null(answers);
	pair_make(&pair, 1, false, end->type, 65536);
	null_key = sim_null_region(pair.hosts[0]);
	open_end(&pair, end);
	pair.sim->network.filter = record;
	pair.sim->network.filter_context = answers;
	for (unsigned i = 0; i < file->count; i++) {
		struct vb_roce_packet packet = file->packets[i];

		if (!golden_is_for(&packet, end))
			continue;
		while (sim_poll(pair.a_cq, &wc))
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
		sim_post_receive(pair.a, pair.a_memory.bytes, 65536, pair.a_memory.key, 1);
		packet.reth.rkey = null_key;
		packet.atomic.rkey = pair.a_memory.key;
		packet.atomic.address = (uintptr_t)pair.a_memory.bytes;
		/* There is no window here to be invalidated. */
		if (packet.op->headers & VB_HEADER_IETH)
			continue;
		sim_inject(pair.a, &packet);
		sim_run(pair.sim);
		if (pair.a->fault.fault != VB_FAULT_NONE)
			print_message("%s: packet %u: %s\n", file->name, i, vb_fault_sentence(pair.a->fault.fault));
		assert_int_equal(pair.a->fault.fault, VB_FAULT_NONE);
		accepted++;
	}
	if (!golden_name_has(file, "loss"))
		assert_int_equal(answers->naks, 0);
	if (end->type == IBV_QPT_RC && answers_are_comparable(file))
		compare_answers(file, end, answers);
	assert_int_equal(pair.hosts[0]->counters.dropped_pkts, 0);
	pair_close(&pair);
	free(answers);
	return accepted;
}

static unsigned accepted_requests;

static void play_file(struct golden_file *file)
{
	for (unsigned i = 0; i < file->end_count; i++)
		accepted_requests += play(file, &file->ends[i]);
}

static void every_captured_request_is_accepted(void **state)
{
	(void)state;
	golden_each(folder, play_file);
	print_message("%u requests\n", accepted_requests);
	assert_true(accepted_requests > 900);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_captured_request_is_accepted),
	};

	if (argc != 2)
		return 77;
	folder = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
