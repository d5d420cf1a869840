/* SPDX-License-Identifier: MIT
 *
 * With CRC, segments of a long message are verified and placed in one pass (src/iwarp/one_pass.c). Whatever byte of one is damaged: the
 * stream ends, nothing is delivered, and nothing is written but where that segment belongs; and not its last bytes.
 */
#include "streams.h"

enum {
	PART = 32 << 10, LENGTH = 2 * PART + PART / 2, AT = 8 << 10, BYTES = 128 << 10, LAST = 64,
	UNTOUCHED = 0x5a,
};

static struct streams streams;

struct scene {
	enum ibv_wr_opcode opcode;
	uint32_t head;                   /* of its FPDUs: length and DDP header */
	unsigned sender;                 /* of the payload */
	bool first_at_once;              /* its first segment, too: where it goes is known before */
};

static const struct scene scenes[] = {
	{IBV_WR_RDMA_WRITE, 16, 0, false},
	{IBV_WR_SEND, 20, 0, false},
	{IBV_WR_RDMA_READ, 16, 1, true},
};

static struct end *target_of(const struct scene *scene)
{
	return &streams.end[1 - scene->sender];
}

/* `damage`: of the stream that carries the payload; 0: none. */
static void play(const struct scene *scene, size_t damage)
{
	const struct options options = {.crc = true, .mulpdu = VB_MULPDU_LARGE, .arena = BYTES, .pipe = 1 << 20, .attentive = true};
	struct end *asker = &streams.end[0];

	streams_open(&streams, &options);
	streams_settle(&streams);
	memset(target_of(scene)->arena, UNTOUCHED, BYTES);
	fill(&streams.end[scene->sender], AT, LENGTH, 9);
	streams.end[scene->sender].damage_at = damage;
	if (scene->opcode == IBV_WR_SEND)
		assert_int_equal(post_receive(&streams.end[1], AT, LENGTH, 2), 0);
	assert_int_equal(post_send(asker, scene->opcode, AT, LENGTH, AT, 1, 0), 0);
	streams_settle(&streams);
}

static bool is_untouched(const struct end *end, uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++)
		if (end->arena[i] != UNTOUCHED)
			return false;
	return true;
}

static void test_undamaged(void **state)
{
	(void)state;
	for (unsigned i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++) {
		const struct end *target;

		play(&scenes[i], 0);
		target = target_of(&scenes[i]);
		(void)expect(&streams.end[0].send_cq, 1, IBV_WC_SUCCESS);
		if (scenes[i].opcode == IBV_WR_SEND)
			(void)expect(&streams.end[1].recv_cq, 2, IBV_WC_SUCCESS);
		verify(target, AT, LENGTH, 9);
		assert_true(is_untouched(target, 0, AT) && is_untouched(target, AT + LENGTH, BYTES));
		streams_close(&streams);
	}
}

/* A byte of the FPDU number `part` is damaged. What stands there of it afterwards is `touched`: all but the last bytes, or nothing. */
static void damaged(const struct scene *scene, unsigned part, uint32_t offset, bool touched)
{
	uint32_t whole = scene->head + PART + VB_FPDU_CRC_LENGTH, begin = AT + part * PART, end = part < 2 ? begin + PART : AT + LENGTH;
	const struct end *target;
	struct ibv_wc wc;

	play(scene, part * whole + offset);
	target = target_of(scene);
	assert_int_equal(target->qp->state, IBV_QPS_ERR);
	if (part > 0)
		verify(target, AT, part * PART, 9);
	if (!is_untouched(target, 0, AT) || !is_untouched(target, end - LAST, BYTES) || (!touched && !is_untouched(target, begin, BYTES)))
		fail_msg("opcode %d, byte %u of FPDU %u: written where nothing belongs", scene->opcode, offset, part);
	if (touched && offset >= scene->head)
		assert_false(is_untouched(target, begin, end - LAST));
	/* The SEND or WRITE has left before; what it was to become has not. */
	if (scene->opcode == IBV_WR_SEND)
		(void)expect(&streams.end[1].recv_cq, 2, IBV_WC_WR_FLUSH_ERR);
	if (scene->opcode == IBV_WR_RDMA_READ)
		assert_true(poll_cq(&streams.end[0].send_cq, &wc) && wc.status != IBV_WC_SUCCESS);
	streams_close(&streams);
}

static void test_payload_and_trailer(void **state)
{
	(void)state;
	for (unsigned i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++) {
		const uint32_t head = scenes[i].head, offsets[] = {head, head + 1000, head + PART - LAST, head + PART - 1, head + PART + 1};

		for (unsigned at = 0; at < sizeof(offsets) / sizeof(offsets[0]); at++) {
			damaged(&scenes[i], 0, offsets[at], scenes[i].first_at_once);
			damaged(&scenes[i], 1, offsets[at], true);
		}
		/* Of a WRITE, how long its last segment is nobody knows but its header: nothing vouches for that. */
		damaged(&scenes[i], 2, head + 10, scenes[i].opcode != IBV_WR_RDMA_WRITE);
	}
}

/* A header that is not what must come next has nothing placed. Some say the same however they are damaged: those place where it belongs. */
static void test_headers(void **state)
{
	(void)state;
	for (unsigned i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++)
		for (unsigned part = 0; part < 3; part++)
			for (uint32_t offset = 2; offset < scenes[i].head; offset++) {
				/* Reserved bits of the control fields; which STag a SEND would invalidate is for its end. */
				bool is_idle = offset < 4 || (scenes[i].opcode == IBV_WR_SEND && offset < 8);
				bool at_once = part == 1 || (part == 0 && scenes[i].first_at_once) ||
					       (part == 2 && scenes[i].opcode != IBV_WR_RDMA_WRITE);

				damaged(&scenes[i], part, offset, is_idle && at_once);
			}
}

/* A length that is damaged has bytes of what follows taken for its own: it is not as long as it must be, or as it may be. */
static void test_lengths(void **state)
{
	(void)state;
	for (unsigned i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++) {
		const struct end *target;

		play(&scenes[i], scenes[i].head + PART + VB_FPDU_CRC_LENGTH);
		target = target_of(&scenes[i]);
		assert_int_equal(target->qp->state, IBV_QPS_ERR);
		verify(target, AT, PART, 9);
		assert_true(is_untouched(target, 0, AT) && is_untouched(target, AT + LENGTH, BYTES));
		streams_close(&streams);
	}
}

/* A read that ends with an FPDU leaves none of which a part has to be kept. */
static void test_reads_end_with_an_fpdu(void **state)
{
	const uint32_t whole = 16 + PART + VB_FPDU_CRC_LENGTH;
	const struct end *target = &streams.end[1];

	(void)state;
	play(&scenes[0], 0);
	/* The last was a half. */
	assert_int_equal(vb_iwarp_take_at_once(target->qp, 100 << 10) % (whole - PART / 2), 0);
	streams_close(&streams);
	for (size_t part = 0; part < whole; part += 4096) {
		const struct options options = {.crc = true, .mulpdu = VB_MULPDU_LARGE, .arena = BYTES, .pipe = 1 << 20, .attentive = true};
		static uint8_t bytes[4 * (PART + 20)];

		streams_open(&streams, &options);
		streams_settle(&streams);
		assert_int_equal(post_send(&streams.end[0], IBV_WR_RDMA_WRITE, 0, 2 * PART, 0, 1, 0), 0);
		assert_int_equal(end_drain(&streams.end[0], bytes, sizeof(bytes)), 2 * whole);
		end_feed(&streams.end[1], bytes, whole + part);
		assert_int_equal(vb_iwarp_take_at_once(streams.end[1].qp, 256 << 10), (part > 0 ? whole - part : 0) + 7 * whole);
		assert_int_equal(vb_iwarp_take_at_once(streams.end[1].qp, 1000), 1000);
		streams_close(&streams);
	}
}

/* Without CRC what follows a long FPDU is asked for its header alone: its payload can then be read to its place. In the midst of one,
 * and behind a short one, as much as there is. */
static void test_headers_are_read_alone(void **state)
{
	const struct options options = {.mulpdu = VB_MULPDU_LARGE, .arena = BYTES, .pipe = 1 << 20, .attentive = true};
	static uint8_t bytes[4 * (PART + 20)];
	struct iovec spans[2];
	size_t whole = 16 + PART + VB_FPDU_CRC_LENGTH, most = 256 << 10, head;

	(void)state;
	streams_open(&streams, &options);
	assert_int_equal(vb_iwarp_take_at_once(streams.end[1].qp, most), most);
	fill(&streams.end[0], 0, 2 * PART, 9);
	assert_int_equal(post_send(&streams.end[0], IBV_WR_RDMA_WRITE, 0, 2 * PART, 0, 1, 0), 0);
	assert_int_equal(end_drain(&streams.end[0], bytes, sizeof(bytes)), 2 * whole);
	end_feed(&streams.end[1], bytes, 1000);
	assert_int_equal(vb_iwarp_take_at_once(streams.end[1].qp, most), most);
	end_feed(&streams.end[1], bytes + 1000, whole - 1000);
	head = vb_iwarp_take_at_once(streams.end[1].qp, most);
	assert_in_range(head, 20, 100);
	end_feed(&streams.end[1], bytes + whole, head);
	vb_lock_take(&streams.end[1].qp->lock);
	assert_int_equal(vb_iwarp_want(streams.end[1].qp, spans, 2), 2);
	assert_int_equal(spans[0].iov_len, PART - (head - 16));
	vb_iwarp_got(streams.end[1].qp, streams.now, 0);
	vb_lock_release(&streams.end[1].qp->lock);
	end_feed(&streams.end[1], bytes + whole + head, whole - head);
	verify(&streams.end[1], 0, 2 * PART, 9);
	assert_int_equal(post_send(&streams.end[0], IBV_WR_RDMA_WRITE, 0, 8, 0, 2, 0), 0);
	end_feed(&streams.end[1], bytes, end_drain(&streams.end[0], bytes, sizeof(bytes)));
	assert_int_equal(vb_iwarp_take_at_once(streams.end[1].qp, most), most);
	streams_close(&streams);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_undamaged), cmocka_unit_test(test_payload_and_trailer), cmocka_unit_test(test_headers),
		cmocka_unit_test(test_lengths), cmocka_unit_test(test_reads_end_with_an_fpdu),
		cmocka_unit_test(test_headers_are_read_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
