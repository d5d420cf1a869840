/* SPDX-License-Identifier: MIT
 *
 * The work behind captured requests of the kernel's rxe, posted at our requester: it sends the same packets, byte for
 * byte but for what depends on the machine (queue pair numbers) or is the sender's to choose (when to ask for an
 * acknowledgement), takes rxe's own answers, and completes every request as it should.
 */
#include "sim/golden.h"

enum { MEMORY = 1 << 20, MAX_WORK = 512 };

static const char *folder;
static unsigned files_played, requests_compared, refusals_told;

struct playing {
	struct golden_file *file;
	const struct golden_end *end;
	struct pair pair;
	unsigned at;                     /* of the file: the next of its requests that we have to send */
	unsigned sent;
	uint8_t read_back[MEMORY];       /* what rxe's responses carried */
	uint32_t read_length;
};

static unsigned next_request(const struct playing *playing, unsigned at)
{
	while (at < playing->file->count && !golden_is_for(&playing->file->packets[at], playing->end))
		at++;
	return at;
}

static void compare(const struct vb_roce_packet *ours, const struct vb_roce_packet *theirs)
{
	assert_int_equal(ours->opcode, theirs->opcode);
	assert_int_equal(ours->psn.v, theirs->psn.v);
	assert_int_equal(ours->pkey, theirs->pkey);
	assert_int_equal(ours->solicited, theirs->solicited);
	assert_int_equal(ours->migration_request, theirs->migration_request);
	assert_int_equal(ours->pad, theirs->pad);
	assert_int_equal(ours->payload_length, theirs->payload_length);
	assert_memory_equal(ours->payload, theirs->payload, ours->payload_length);
	/* A message's end asks for an acknowledgement in both; ours may ask earlier too (IBA 9.2: AckReq is the requester's). */
	if (theirs->ack_request)
		assert_true(ours->ack_request);
	if (theirs->op->headers & VB_HEADER_RETH) {
		assert_true(ours->reth.address == theirs->reth.address);
		assert_int_equal(ours->reth.rkey, theirs->reth.rkey);
		assert_int_equal(ours->reth.length, theirs->reth.length);
	}
	if (theirs->op->headers & VB_HEADER_ATOMIC_ETH) {
		assert_true(ours->atomic.address == theirs->atomic.address);
		assert_true(ours->atomic.swap_or_add == theirs->atomic.swap_or_add);
		assert_true(ours->atomic.compare == theirs->atomic.compare);
		assert_int_equal(ours->atomic.rkey, theirs->atomic.rkey);
	}
	if (theirs->op->headers & VB_HEADER_IMMEDIATE)
		assert_memory_equal(&ours->immediate, &theirs->immediate, 4);
	if (theirs->op->headers & VB_HEADER_IETH)
		assert_int_equal(ours->invalidate_rkey, theirs->invalidate_rkey);
}

static bool look(void *context, const struct vb_roce_packet *packet)
{
	struct playing *playing = context;

	if (!packet->op->is_request)
		return false;
	playing->at = next_request(playing, playing->at);
	assert_true(playing->at < playing->file->count);
	compare(packet, &playing->file->packets[playing->at]);
	playing->at++;
	playing->sent++;
	return false;
}

static enum ibv_wr_opcode work_of(const struct vb_roce_packet *first, const struct vb_roce_packet *last)
{
	switch (first->op->kind) {
	case VB_KIND_SEND:
		return last->op->headers & VB_HEADER_IETH      ? IBV_WR_SEND_WITH_INV :
		       last->op->headers & VB_HEADER_IMMEDIATE ? IBV_WR_SEND_WITH_IMM :
								 IBV_WR_SEND;
	case VB_KIND_WRITE:
		return last->op->headers & VB_HEADER_IMMEDIATE ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
	case VB_KIND_READ_REQUEST:
		return IBV_WR_RDMA_READ;
	case VB_KIND_ATOMIC_CMP_SWP:
		return IBV_WR_ATOMIC_CMP_AND_SWP;
	default:
		return IBV_WR_ATOMIC_FETCH_AND_ADD;
	}
}

/* The message that begins with packet `at` of the file, as a work request. */
static void post_message(struct playing *playing, unsigned at)
{
	const struct vb_roce_packet *first = &playing->file->packets[at], *last = first;
	uint8_t *bytes = playing->pair.a_memory.bytes;
	struct ibv_sge sge = {(uintptr_t)bytes, 0, playing->pair.a_memory.key};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED};

	for (;;) {
		last = &playing->file->packets[at];
		memcpy(bytes + sge.length, last->payload, last->payload_length);
		sge.length += last->payload_length;
		if (last->op->position == VB_POSITION_LAST || last->op->position == VB_POSITION_ONLY)
			break;
		at = next_request(playing, at + 1);
		assert_true(at < playing->file->count);
	}
	wr.opcode = work_of(first, last);
	if (last->solicited)
		wr.send_flags |= IBV_SEND_SOLICITED;
	memcpy(&wr.imm_data, &last->immediate, 4);
	if (wr.opcode == IBV_WR_SEND_WITH_INV)
		wr.invalidate_rkey = last->invalidate_rkey;
	if (first->op->headers & VB_HEADER_RETH) {
		wr.wr.rdma.remote_addr = first->reth.address;
		wr.wr.rdma.rkey = first->reth.rkey;
	}
	if (wr.opcode == IBV_WR_RDMA_READ)
		sge.length = first->reth.length;
	if (first->op->headers & VB_HEADER_ATOMIC_ETH) {
		bool swaps = wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP;

		sge.length = 8;
		wr.wr.atomic.remote_addr = first->atomic.address;
		wr.wr.atomic.rkey = first->atomic.rkey;
		wr.wr.atomic.compare_add = swaps ? first->atomic.compare : first->atomic.swap_or_add;
		wr.wr.atomic.swap = swaps ? first->atomic.swap_or_add : 0;
	}
	assert_true(sge.length <= MEMORY);
	assert_int_equal(sim_post_send(playing->pair.a, &wr), 0);
}

/* Long enough for what is posted to leave, short enough for no timer of ours to run out. */
static void run_a_little(struct playing *playing)
{
	sim_run_to(playing->pair.sim, playing->pair.sim->now + VB_MICROSECONDS(1));
}

static void take_answer(struct playing *playing, struct vb_roce_packet answer)
{
	uint8_t type = answer.op->headers & VB_HEADER_AETH ? answer.aeth.syndrome & VB_AETH_TYPE_MASK : VB_AETH_ACK;

	if (answer.op->kind == VB_KIND_READ_RESPONSE) {
		memcpy(playing->read_back + playing->read_length, answer.payload, answer.payload_length);
		playing->read_length += answer.payload_length;
	}
	sim_inject(playing->pair.a, &answer);
	/* Not ready, code 0: to be asked again after 655.36 ms (IBA table 45). */
	if (type == VB_AETH_RNR_NAK) {
		sim_run_to(playing->pair.sim, playing->pair.sim->now + VB_MILLISECONDS(656));
		refusals_told++;
	} else {
		run_a_little(playing);
	}
	if (answer.op->kind == VB_KIND_READ_RESPONSE &&
	    (answer.op->position == VB_POSITION_LAST || answer.op->position == VB_POSITION_ONLY)) {
		assert_memory_equal(playing->pair.a_memory.bytes, playing->read_back, playing->read_length);
		playing->read_length = 0;
	}
}

static enum ibv_wc_status expected_status(const struct golden_file *file)
{
	static const char *const denied[] = {"badkey", "bound", "noperm"};

	for (unsigned i = 0; i < sizeof(denied) / sizeof(denied[0]); i++)
		if (golden_name_has(file, denied[i]))
			return IBV_WC_REM_ACCESS_ERR;
	return golden_name_has(file, "toolong") ? IBV_WC_REM_OP_ERR : IBV_WC_SUCCESS;
}

static void settle_completions(struct playing *playing, unsigned messages)
{
	enum ibv_wc_status wanted = expected_status(playing->file);
	struct ibv_wc wc;
	unsigned count = 0;

	while (sim_poll(playing->pair.a_cq, &wc)) {
		assert_int_equal(wc.status, wanted);
		count++;
	}
	assert_int_equal(count, messages);
	if (wanted != IBV_WC_SUCCESS)
		refusals_told++;
}

static void play_requester(struct golden_file *file, const struct golden_end *end)
{
	static struct playing playing;
	struct sim_connection connection = sim_usual;
	unsigned messages = 0, requests = 0, posted = 0;

	memset(&playing, 0, sizeof(playing));
	playing.file = file;
	playing.end = end;
	pair_make(&playing.pair, 1, false, IBV_QPT_RC, MEMORY);
	connection.mtu = golden_mtu(end);
	/* As rdma_cm sets it; with it no timer of ours runs out before rxe's answer is played. */
	connection.timeout = 17;
	connection.psn_a = end->first_psn;
	connection.rd_atomic_a = connection.rd_atomic_b = 128;
	sim_connect(playing.pair.a, playing.pair.b, &connection);
	playing.pair.sim->network.filter = look;
	playing.pair.sim->network.filter_context = &playing;
	for (unsigned i = 0; i < file->count; i++) {
		const struct vb_roce_packet *packet = &file->packets[i];

		if (golden_is_for(packet, end)) {
			enum vb_roce_position position = packet->op->position;
			bool begins = position == VB_POSITION_FIRST || position == VB_POSITION_ONLY;

			requests++;
			/* One that we sent already, earlier than rxe did, is a retransmission or the rest of a message. */
			if (!begins || requests <= posted)
				continue;
			post_message(&playing, i);
			run_a_little(&playing);
			messages++;
		} else if (!packet->op->is_request && memcmp(packet->from.source, end->address, 16) == 0) {
			take_answer(&playing, *packet);
			posted = playing.sent;
		}
	}
	assert_int_equal(playing.sent, requests);
	requests_compared += requests;
	settle_completions(&playing, messages);
	pair_close(&playing.pair);
}

/* In captures with loss, rxe sends again on its own clock; with several queue pairs to a side, answers cannot be told apart. */
static bool is_playable(const struct golden_file *file)
{
	unsigned targets = 0;

	if (golden_name_has(file, "loss") || golden_name_has(file, "blackhole"))
		return false;
	for (unsigned i = 0; i < file->end_count; i++) {
		if (file->ends[i].type != IBV_QPT_RC)
			return false;
		targets++;
	}
	return targets <= 2 && (targets < 2 || memcmp(file->ends[0].address, file->ends[1].address, 16) != 0);
}

static void play(struct golden_file *file)
{
	if (!is_playable(file) || file->end_count == 0)
		return;
	print_message("%s\n", file->name);
	files_played++;
	for (unsigned i = 0; i < file->end_count; i++)
		play_requester(file, &file->ends[i]);
}

static void our_requests_are_theirs(void **state)
{
	(void)state;
	golden_each(folder, play);
	print_message("%u files, %u requests compared, %u refusals\n", files_played, requests_compared, refusals_told);
	assert_true(files_played >= 40);
	assert_true(requests_compared > 600);
	assert_true(refusals_told >= 8);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(our_requests_are_theirs)};

	if (argc != 2)
		return 77;
	folder = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
