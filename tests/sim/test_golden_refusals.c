/* SPDX-License-Identifier: MIT
 *
 * Requests of captures in which the kernel's rxe refused, played at our responder with the same memory and receives
 * behind it: it refuses with the same syndrome, PSN and message number. One difference is on purpose and written down
 * here.
 */
#include "sim/golden.h"

static const char *folder;

/* What stands behind the target, as tests/interop/operation.c sets it up, and what is answered. */
static const struct refusal {
	const char *name;
	bool writable;
	uint32_t offset;                 /* of the request in the region; 0x80000000: with a key that is nobody's */
	uint32_t receive;                /* length of the one posted receive; 0: none */
	uint8_t theirs, ours;            /* syndromes */
} refusals[] = {
	{"rxe-op-badkeyw.pcap", true, 0x80000000, 1024, 0x62, 0x62},
	{"rxe-op-badkeyr.pcap", true, 0x80000000, 1024, 0x62, 0x62},
	{"rxe-op-badkeya.pcap", true, 0x80000000, 1024, 0x62, 0x62},
	{"rxe-op-boundw.pcap", true, 8192 - 8, 1024, 0x62, 0x62},
	{"rxe-op-boundr.pcap", true, 8192 - 8, 1024, 0x62, 0x62},
	{"rxe-op-noperm.pcap", false, 0, 1024, 0x62, 0x62},
	/* A message longer than its receive is an invalid request (IBA 9.7.5.2, NAK codes); rxe says remote operational
	 * error. */
	{"rxe-op-toolong.pcap", true, 0, 16, 0x63, 0x61},
	/* Not ready, timer code 0. */
	{"rxe-op-rnr.pcap", true, 0, 0, 0x20, 0x20},
};

struct heard {
	unsigned answers;
	uint8_t syndrome;
	uint32_t psn, msn;
};

static bool hear(void *context, const struct vb_roce_packet *packet)
{
	struct heard *heard = context;

	assert_false(packet->op->is_request);
	assert_true(packet->op->headers & VB_HEADER_AETH);
	heard->answers++;
	heard->syndrome = packet->aeth.syndrome;
	heard->psn = packet->psn.v;
	heard->msn = packet->aeth.msn;
	return false;
}

static const struct vb_roce_packet *first_answer(const struct golden_file *file, const struct golden_end *end)
{
	for (unsigned i = 0; i < file->count; i++)
		if (!file->packets[i].op->is_request && memcmp(file->packets[i].from.source, end->address, 16) == 0)
			return &file->packets[i];
	return NULL;
}

static void play(const struct refusal *refusal)
{
	struct sim_connection connection = sim_usual;
	const struct vb_roce_packet *theirs;
	struct vb_roce_packet request;
	struct sim_region target;
	struct golden_file file;
	struct golden_end *end;
	struct heard heard = {0};
	struct pair pair;
	unsigned i = 0;

	print_message("%s\n", refusal->name);
	golden_open(&file, folder, refusal->name);
	assert_int_equal(file.end_count, 1);
	end = &file.ends[0];
	theirs = first_answer(&file, end);
	assert_non_null(theirs);
	assert_int_equal(theirs->aeth.syndrome, refusal->theirs);

	pair_make(&pair, 1, false, IBV_QPT_RC, 8192);
	target = sim_region(pair.hosts[0], 8192,
			    refusal->writable ? SIM_ALL_ACCESS : IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	connection.psn_b = end->first_psn;
	connection.min_rnr_timer = 0;
	sim_connect(pair.a, pair.b, &connection);
	pair.sim->network.filter = hear;
	pair.sim->network.filter_context = &heard;
	if (refusal->receive)
		assert_int_equal(sim_post_receive(pair.a, pair.a_memory.bytes, refusal->receive, pair.a_memory.key, 1), 0);
	while (!golden_is_for(&file.packets[i], end))
		i++;
	request = file.packets[i];
	if (!(refusal->offset & 0x80000000)) {
		request.reth.address = (uintptr_t)target.bytes + refusal->offset;
		request.reth.rkey = target.key;
	} else {
		request.reth.rkey = request.atomic.rkey = target.key ^ 0x5a;
	}
	sim_inject(pair.a, &request);
	sim_run(pair.sim);
	assert_int_equal(heard.answers, 1);
	assert_int_equal(heard.syndrome, refusal->ours);
	assert_int_equal(heard.psn, theirs->psn.v);
	assert_int_equal(heard.msn, theirs->aeth.msn);
	sim_region_free(&target);
	pair_close(&pair);
	golden_close(&file);
}

static void refusals_are_theirs(void **state)
{
	(void)state;
	for (unsigned i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
		play(&refusals[i]);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(refusals_are_theirs)};

	if (argc != 2)
		return 77;
	folder = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
