/* SPDX-License-Identifier: MIT
 *
 * What the kernel's siw sent, played at our responder and at our initiator. The other side's FPDUs are fed as they came, with the STags
 * of this machine; for each request that siw's counterpart made, the same is posted here. Our engine must answer as it did: the same
 * messages of the same lengths, the same completions, and TERMINATE where it said TERMINATE.
 *
 * Usage: test_golden FOLDER
 */
#include "base/crc32c.h"
#include "siw_streams.h"
#include "streams.h"
#include "wire/mpa_frame.h"

static const char *folder;
static struct streams streams;

enum { MESSAGES = 512, RECEIVES = 400, TARGET = 1 << 20 };

struct message {
	uint8_t opcode;
	uint32_t length;
	uint16_t cause;
};

struct messages {
	struct message message[MESSAGES];
	unsigned count;
	uint32_t length;                 /* of the one under way */
};

/* One connection from one side. */
struct play {
	const char *name;
	const struct siw_connection *connection;
	struct end *ours;
	unsigned side;                   /* that we are */
	bool crc;
	struct messages expected, received, made;
	uint32_t reads_answered, read_received;
	uint64_t wr_id;
	uint64_t target;                 /* as the peer was told by private data; 0: it was not */
	uint32_t target_key, our_key;
};

static bool is(const struct play *play, const char *part)
{
	return strstr(play->name, part);
}

static void note(struct messages *messages, const struct vb_ddp_header *header, uint32_t length, uint16_t cause)
{
	messages->length += length;
	if (!header->last)
		return;
	assert_true(messages->count < MESSAGES);
	messages->message[messages->count++] = (struct message){header->opcode, messages->length, cause};
	messages->length = 0;
}

/* The memory that a WRITE or READ of the peer names, here. */
static uint32_t translate(const struct play *play, uint32_t stag)
{
	if (is(play, "-op-"))
		return stag == play->target_key ? play->our_key : stag;
	return play->our_key;
}

static void feed(struct play *play, const uint8_t *fpdu)
{
	uint32_t ulpdu = vb_fpdu_get_length(fpdu), length = vb_fpdu_length(ulpdu), head;
	static uint8_t bytes[VB_FPDU_LONGEST];
	const struct vb_rdmap_opcode *op;
	struct vb_ddp_header header;
	struct vb_rdmap_read read;
	struct vb_terminate terminate;

	memcpy(bytes, fpdu, length);
	assert_true(vb_ddp_decode(&header, bytes + 2, ulpdu));
	op = vb_rdmap_opcode(header.opcode);
	head = 2 + (uint32_t)vb_ddp_header_length(&header);
	switch (op->kind) {
	case VB_RDMAP_KIND_WRITE:
		header.stag = translate(play, header.stag);
		if (!is(play, "-op-"))
			header.offset = (uintptr_t)play->ours->arena + TARGET;
		break;
	case VB_RDMAP_KIND_READ_REQUEST:
		vb_rdmap_read_decode(&read, bytes + head);
		read.source_stag = translate(play, read.source_stag);
		if (!is(play, "-op-"))
			read.source_offset = (uintptr_t)play->ours->arena + TARGET;
		vb_rdmap_read_encode(&read, bytes + head);
		break;
	case VB_RDMAP_KIND_READ_RESPONSE:
		header.stag = VB_IWARP_SINK_STAG;
		header.offset = (uint64_t)play->reads_answered << 32 | play->read_received;
		play->read_received += ulpdu + 2 - head;
		if (header.last) {
			play->reads_answered++;
			play->read_received = 0;
		}
		break;
	case VB_RDMAP_KIND_TERMINATE:
		assert_true(vb_terminate_decode(&terminate, bytes + head, ulpdu + 2 - head, false));
		terminate.read.sink_offset = (uint64_t)play->reads_answered << 32;
		vb_terminate_encode(&terminate, bytes + head);
		break;
	default:
		break;
	}
	vb_ddp_encode(&header, bytes + 2);
	if (play->crc)
		vb_fpdu_put_trailer(bytes + 2 + ulpdu, ulpdu, vb_crc32c(0, bytes, 2 + ulpdu), true);
	note(&play->received, &header, op->carries_payload ? ulpdu + 2 - head : 0, 0);
	end_feed(play->ours, bytes, length);
}

/* What the captured machine on our side did: the same is posted here, unless it was an answer. */
static void repeat(struct play *play, const uint8_t *fpdu)
{
	uint32_t ulpdu = vb_fpdu_get_length(fpdu), head;
	struct end *ours = play->ours;
	const struct vb_rdmap_opcode *op;
	struct vb_ddp_header header;
	struct vb_rdmap_read read;
	struct vb_terminate terminate = {0};
	uint32_t length;

	assert_true(vb_ddp_decode(&header, fpdu + 2, ulpdu));
	op = vb_rdmap_opcode(header.opcode);
	head = 2 + (uint32_t)vb_ddp_header_length(&header);
	if (op->kind == VB_RDMAP_KIND_TERMINATE)
		assert_true(vb_terminate_decode(&terminate, fpdu + head, ulpdu + 2 - head, false));
	/* Our initiator greets by itself. */
	if (op->kind == VB_RDMAP_KIND_WRITE && header.stag == 1 && ulpdu + 2 == head)
		return;
	note(&play->expected, &header, op->carries_payload ? ulpdu + 2 - head : 0, terminate.cause.v);
	if (!header.last)
		return;
	length = play->expected.message[play->expected.count - 1].length;
	if (op->kind == VB_RDMAP_KIND_SEND) {
		struct ibv_sge sge = sge_of(ours, 0, length);
		struct ibv_send_wr wr = {.wr_id = play->wr_id++, .sg_list = &sge, .num_sge = 1,
					 .opcode = op->invalidates ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND,
					 .send_flags = IBV_SEND_SIGNALED | (op->solicited ? IBV_SEND_SOLICITED : 0)};

		if (op->invalidates)
			wr.invalidate_rkey = header.stag;
		assert_int_equal(post(ours, &wr), 0);
	} else if (op->kind == VB_RDMAP_KIND_WRITE) {
		assert_int_equal(post_send(ours, IBV_WR_RDMA_WRITE, 0, length, 0, play->wr_id++, 0), 0);
	} else if (op->kind == VB_RDMAP_KIND_READ_REQUEST) {
		vb_rdmap_read_decode(&read, fpdu + head);
		assert_int_equal(post_send(ours, IBV_WR_RDMA_READ, 0, read.size, 0, play->wr_id++, 0), 0);
	}
	end_transmit(ours);
}

/* What our engine sent in all. */
static void collect(struct play *play)
{
	static uint8_t bytes[4 << 20];
	size_t length = end_drain(play->ours, bytes, sizeof(bytes)), at = 0;

	while (at < length) {
		uint32_t ulpdu = vb_fpdu_get_length(bytes + at), head;
		struct vb_terminate terminate = {0};
		struct vb_ddp_header header;
		const struct vb_rdmap_opcode *op;

		assert_true(vb_ddp_decode(&header, bytes + at + 2, ulpdu));
		op = vb_rdmap_opcode(header.opcode);
		head = 2 + (uint32_t)vb_ddp_header_length(&header);
		if (op->kind == VB_RDMAP_KIND_TERMINATE)
			assert_true(vb_terminate_decode(&terminate, bytes + at + head, ulpdu + 2 - head, false));
		if (header.opcode != VB_RDMAP_WRITE || header.stag != 1 || ulpdu + 2 > head)
			note(&play->made, &header, op->carries_payload ? ulpdu + 2 - head : 0, terminate.cause.v);
		at += vb_fpdu_length(ulpdu);
	}
	assert_int_equal(at, length);
}

static bool is_answer(const struct message *message)
{
	return message->opcode == VB_RDMAP_READ_RESPONSE;
}

/* Requests in their order, and answers in theirs: how the two take turns is each side's own affair. */
static void compare(const struct play *play, bool answers)
{
	unsigned made = 0;

	for (unsigned i = 0; i < play->expected.count; i++) {
		const struct message *expected = &play->expected.message[i];

		if (is_answer(expected) != answers || expected->opcode == VB_RDMAP_TERMINATE)
			continue;
		while (made < play->made.count &&
		       (is_answer(&play->made.message[made]) != answers || play->made.message[made].opcode == VB_RDMAP_TERMINATE))
			made++;
		if (made == play->made.count)
			fail_msg("%s: message %u (opcode %u of %u bytes) was not sent", play->name, i, expected->opcode, expected->length);
		assert_int_equal(play->made.message[made].opcode, expected->opcode);
		assert_int_equal(play->made.message[made].length, expected->length);
		made++;
	}
}

static uint16_t last_cause(const struct messages *messages)
{
	return messages->count > 0 ? messages->message[messages->count - 1].cause : 0;
}

/* TERMINATE for TERMINATE. Where we say it otherwise, and why, is in docs/iwarp.md. */
static void compare_ends(const struct play *play)
{
	uint16_t expected = last_cause(&play->expected);

	if (is(play, "toolong") && play->side == 1)
		expected = 0x1205;
	else if (is(play, "sendinv") && play->side == 1)
		expected = 0x0109;
	assert_int_equal(last_cause(&play->made), expected);
}

static void compare_completions(struct play *play)
{
	bool refused = is(play, "toolong") || is(play, "sendinv") || is(play, "rnr");
	struct ibv_wc wc;

	for (unsigned i = 0; i < play->received.count && !(refused && play->side == 1); i++) {
		const struct vb_rdmap_opcode *op = vb_rdmap_opcode(play->received.message[i].opcode);

		if (op->kind != VB_RDMAP_KIND_SEND)
			continue;
		assert_true(poll_cq(&play->ours->recv_cq, &wc));
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.byte_len, play->received.message[i].length);
		assert_int_equal(wc.wc_flags, op->invalidates ? IBV_WC_WITH_INV : 0);
	}
	for (uint64_t i = 0; i < play->wr_id; i++) {
		bool read_fails = (is(play, "badkeyr") || is(play, "boundr")) && play->side == 0;

		assert_true(poll_cq(&play->ours->send_cq, &wc));
		assert_int_equal(wc.wr_id, i);
		assert_int_equal(wc.status, read_fails ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS);
	}
}

/* The reply of the single operations tells where the responder's region is: address, key, length. */
static void learn_target(struct play *play)
{
	const struct siw_direction *reply = &play->connection->from[1];
	struct vb_region_info info = {.kind = VB_REGION_MR, .pd = &play->ours->pd, .start = (uintptr_t)play->ours->arena + TARGET,
				      .access = is(play, "noperm") ? IBV_ACCESS_LOCAL_WRITE : ALL_ACCESS};
	const uint8_t *data = reply->bytes + VB_MPA_HEADER + VB_MPA_ENHANCEMENT;

	play->our_key = play->ours->key;
	if (!is(play, "-op-") || vb_mpa_frame_length(VB_MPA_REPLY, reply->bytes, reply->length) < VB_MPA_HEADER + 20)
		return;
	for (unsigned i = 0; i < 8; i++)
		play->target = play->target << 8 | data[i];
	for (unsigned i = 8; i < 12; i++)
		play->target_key = play->target_key << 8 | data[i];
	for (unsigned i = 12; i < 16; i++)
		info.length = info.length << 8 | data[i];
	info.iova = play->target;
	assert_int_equal(vb_region_register(play->ours->memory, &info, &play->our_key), 0);
}

static void open_play(struct play *play, struct options *options)
{
	struct vb_mpa_frame frame;

	for (unsigned side = 0; side < 2; side++) {
		const struct siw_direction *from = &play->connection->from[side];
		enum vb_mpa_kind kind = side == 0 ? VB_MPA_REQUEST : VB_MPA_REPLY;

		assert_true(vb_mpa_frame_decode(&frame, kind, from->bytes, vb_mpa_frame_length(kind, from->bytes, from->length)));
		play->crc |= frame.crc;
	}
	*options = (struct options){.crc = play->crc, .ird = {128, 128}, .ord = {128, 128}};
	streams_make(&streams, options);
	play->ours = &streams.end[play->side];
	learn_target(play);
	for (uint64_t i = 0; i < RECEIVES && !is(play, "rnr"); i++)
		assert_int_equal(post_receive(play->ours, 0, is(play, "toolong") ? 32 : 64 << 10, 1000 + i), 0);
	assert_int_equal(streams_begin(play->ours, play->side == 0), 0);
	end_transmit(play->ours);
}

static void expire(struct play *play, vb_time after)
{
	streams.now += after;
	vb_lock_take(&play->ours->qp->lock);
	vb_iwarp_expire(play->ours->qp, streams.now);
	vb_lock_release(&play->ours->qp->lock);
	end_transmit(play->ours);
}

static void play_side(const char *name, const struct siw_connection *connection, unsigned side)
{
	static struct play play;
	struct options options;
	size_t at[2];

	play = (struct play){.name = name, .connection = connection, .side = side};
	open_play(&play, &options);
	for (unsigned i = 0; i < 2; i++)
		at[i] = vb_mpa_frame_length(i == 0 ? VB_MPA_REQUEST : VB_MPA_REPLY, connection->from[i].bytes, connection->from[i].length);
	/* In the order in which the last byte of each FPDU came. */
	for (unsigned c = 0; c < connection->chunks; c++) {
		unsigned from = connection->chunk[c].side;
		const uint8_t *bytes = connection->from[from].bytes;
		size_t end = connection->chunk[c].end;

		while (at[from] + 2 <= end && at[from] + vb_fpdu_length(vb_fpdu_get_length(bytes + at[from])) <= end) {
			if (from == side)
				repeat(&play, bytes + at[from]);
			else
				feed(&play, bytes + at[from]);
			at[from] += vb_fpdu_length(vb_fpdu_get_length(bytes + at[from]));
		}
	}
	/* A responder that speaks first has waited long enough; a SEND without a receive, too. */
	expire(&play, VB_MILLISECONDS(100));
	if (is(&play, "rnr") && side == 1)
		expire(&play, VB_SECONDS(5));
	collect(&play);
	compare(&play, false);
	compare(&play, true);
	compare_ends(&play);
	compare_completions(&play);
	streams_close(&streams);
}

static void play_all(void **state)
{
	struct siw_index index;
	unsigned played = 0;

	(void)state;
	assert_true(siw_index_open(&index, folder));
	while (siw_index_next(&index)) {
		struct siw_file file;

		/* A rejected connection has no stream; the cut ones end in the middle of messages. */
		if (index.fpdus == 0 || strstr(index.name, "64k"))
			continue;
		assert_true(siw_open(&file, folder, index.name));
		for (unsigned i = 0; i < file.connections; i++)
			for (unsigned side = 0; side < 2; side++) {
				play_side(index.name, &file.connection[i], side);
				played++;
			}
		siw_close(&file);
	}
	siw_index_close(&index);
	assert_true(played > 70);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(play_all)};

	if (argc != 2)
		return 1;
	folder = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
