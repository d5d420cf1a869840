/* SPDX-License-Identifier: MIT
 *
 * The stream itself: cut at every byte on both sides, ended at every byte, bytes that a peer must not send, and who speaks first.
 */
#include "base/crc32c.h"
#include "streams.h"

/* Each of thousands of cases makes its two ends anew: what they do not use is not made. Where messages lie in an end's memory. */
#define SMALL .arena = 64 << 10, .pipe = 64 << 10, .max_wr = 32, .cq_capacity = 64
enum { THERE = 16 << 10, ELSEWHERE = 32 << 10 };

static struct streams streams;
static struct end *const a = &streams.end[0], *const b = &streams.end[1];

/* ---- FPDUs as a peer would make them ---- */

enum { MOST = 4096 };
static uint8_t wire[MOST];
static uint32_t wire_length;

static void add_fpdu(const struct vb_ddp_header *header, const void *behind, uint32_t length)
{
	uint8_t *at = wire + wire_length;
	uint32_t ulpdu = (uint32_t)vb_ddp_header_length(header) + length, head;

	vb_fpdu_put_length(at, ulpdu);
	head = 2 + (uint32_t)vb_ddp_encode(header, at + 2);
	if (length > 0)
		memcpy(at + head, behind, length);
	head += length;
	wire_length += head + vb_fpdu_put_trailer(at + head, ulpdu, vb_crc32c(0, at, head), streams.options.crc);
}

static struct vb_ddp_header send_header(uint32_t msn, uint32_t mo, bool last)
{
	struct vb_ddp_header header = vb_ddp_header_of(VB_RDMAP_SEND, last);

	header.msn = msn;
	header.mo = mo;
	return header;
}

/* ---- cut at every byte ---- */

static void exchange(void)
{
	fill(a, 0, 3000, 4);
	post_receive(b, THERE, 3000, 60);
	post_receive(b, THERE, 0, 61);
	post_send(a, IBV_WR_SEND, 0, 3000, 0, 1, IBV_SEND_SOLICITED);
	post_send(a, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 1501, ELSEWHERE, 2, 0);
	post_send(a, IBV_WR_RDMA_READ, THERE, 1501, ELSEWHERE, 3, IBV_SEND_FENCE);
	streams_settle(&streams);
	for (uint64_t i = 1; i <= 3; i++)
		expect(&a->send_cq, i, IBV_WC_SUCCESS);
	expect(&b->recv_cq, 60, IBV_WC_SUCCESS);
	expect(&b->recv_cq, 61, IBV_WC_SUCCESS);
	expect_none(&streams);
	verify(b, THERE, 3000, 4);
	verify(a, THERE, 1501, 4);
}

static void test_cuts(void **state)
{
	(void)state;
	for (unsigned crc = 0; crc < 2; crc++)
		for (size_t piece = 1; piece < 80; piece++) {
			struct options options = {SMALL, .crc = crc, .most_read = piece, .most_taken = 81 - piece, .direct = true};

			streams_open(&streams, &options);
			exchange();
			streams_close(&streams);
		}
}

/* One cut, at every byte of the stream. */
static void test_each_cut(void **state)
{
	static uint8_t bytes[MOST];

	(void)state;
	for (unsigned crc = 0; crc < 2; crc++) {
		size_t length = 1;

		for (size_t cut = 0; cut < length; cut++) {
			struct options options = {SMALL, .crc = crc};

			streams_open(&streams, &options);
			fill(a, 0, 1600, 4);
			post_receive(b, THERE, 1600, 60);
			post_send(a, IBV_WR_SEND, 0, 1600, 0, 1, 0);
			post_send(a, IBV_WR_RDMA_WRITE, 0, 13, ELSEWHERE, 2, 0);
			length = end_drain(a, bytes, sizeof(bytes));
			assert_true(length > 1613 && length < MOST);
			end_feed(b, bytes, cut);
			assert_int_equal(b->rest_length, 0);
			end_feed(b, bytes + cut, length - cut);
			expect(&b->recv_cq, 60, IBV_WC_SUCCESS);
			verify(b, THERE, 1600, 4);
			verify(b, ELSEWHERE, 13, 4);
			streams_close(&streams);
		}
	}
}

/* FIN and RST at every byte: nothing is delivered twice or in part, and everything completes once. */
static void test_each_end(void **state)
{
	static uint8_t bytes[MOST];
	struct ibv_wc wc;

	(void)state;
	for (unsigned variant = 0; variant < 4; variant++) {
		size_t length = 1;

		for (size_t cut = 0; cut <= length; cut++) {
			struct options options = {SMALL, .crc = variant & 1};
			unsigned delivered = 0, flushed = 0;

			streams_open(&streams, &options);
			post_receive(b, THERE, 100, 60);
			post_receive(b, THERE, 100, 61);
			post_receive(b, THERE, 100, 62);
			post_send(a, IBV_WR_SEND, 0, 100, 0, 1, 0);
			post_send(a, IBV_WR_SEND, 0, 99, 0, 2, 0);
			length = end_drain(a, bytes, sizeof(bytes));
			end_feed(b, bytes, cut);
			vb_lock_take(&b->qp->lock);
			vb_iwarp_ended(b->qp, streams.now, variant & 2 ? VB_IWARP_END_RESET : VB_IWARP_END_FIN);
			vb_lock_release(&b->qp->lock);
			while (poll_cq(&b->recv_cq, &wc)) {
				assert_int_equal(wc.wr_id, 60 + delivered + flushed);
				if (wc.status == IBV_WC_SUCCESS)
					delivered++;
				else
					flushed++;
			}
			assert_int_equal(delivered + flushed, 3);
			assert_int_equal(delivered, cut == length ? 2 : cut >= length - vb_fpdu_length(18 + 99) ? 1 : 0);
			assert_int_equal(b->qp->state, IBV_QPS_ERR);
			streams_close(&streams);
		}
	}
}

/* ---- what a peer must not send ---- */

/* end b alone, in front of a peer that is this test. */
static void face(bool crc)
{
	struct options options = {SMALL, .crc = crc};

	streams_make(&streams, &options);
	assert_int_equal(streams_begin(b, false), 0);
	wire_length = 0;
}

/* What b sent last, after what was fed to it: TERMINATE. */
static struct vb_terminate expect_terminate(uint16_t cause)
{
	static uint8_t bytes[MOST];
	struct vb_terminate terminate;
	struct vb_ddp_header header;
	uint32_t ulpdu;
	size_t length;

	end_feed(b, wire, wire_length);
	length = end_drain(b, bytes, sizeof(bytes));
	assert_true(length > 22);
	ulpdu = vb_fpdu_get_length(bytes);
	assert_int_equal(vb_fpdu_length(ulpdu), length);
	assert_true(vb_ddp_decode(&header, bytes + 2, ulpdu));
	assert_int_equal(header.opcode, VB_RDMAP_TERMINATE);
	assert_int_equal(header.queue, 2);
	assert_int_equal(header.msn, 1);
	assert_int_equal(header.mo, 0);
	assert_true(header.last);
	if (streams.options.crc)
		assert_int_equal(vb_crc32c(0, bytes, length - 4), vb_fpdu_get_crc(bytes + length - 4));
	assert_true(vb_terminate_decode(&terminate, bytes + 20, ulpdu - 18, false));
	assert_int_equal(terminate.cause.v, cause);
	assert_false(terminate.by_siw);
	assert_int_equal(b->qp->state, IBV_QPS_ERR);
	assert_int_equal(b->qp->fault.terminate, cause);
	assert_true(b->shut);
	/* What comes behind is not looked at. */
	end_feed(b, wire, wire_length);
	assert_int_equal(end_drain(b, bytes, sizeof(bytes)), 0);
	streams_close(&streams);
	return terminate;
}

static void test_bad_frames(void **state)
{
	(void)state;
	for (unsigned crc = 0; crc < 2; crc++) {
		struct vb_ddp_header header;

		/* Versions. */
		face(crc);
		header = vb_ddp_header_of(VB_RDMAP_WRITE, true);
		header.ddp_version = 2;
		add_fpdu(&header, NULL, 0);
		expect_terminate(0x1104);
		face(crc);
		header = send_header(1, 0, true);
		header.ddp_version = 0;
		add_fpdu(&header, NULL, 0);
		expect_terminate(0x1206);
		face(crc);
		header = send_header(1, 0, true);
		header.rdmap_version = 0;
		add_fpdu(&header, NULL, 0);
		expect_terminate(0x0205);
		/* Opcodes that do not exist, or that travel otherwise. */
		for (uint8_t opcode = 12; opcode < 16; opcode++) {
			face(crc);
			header = send_header(1, 0, true);
			header.opcode = opcode;
			add_fpdu(&header, NULL, 0);
			expect_terminate(0x0206);
		}
		face(crc);
		header = send_header(1, 0, true);
		header.tagged = true;
		add_fpdu(&header, NULL, 0);
		expect_terminate(0x0206);
		/* Queue, number, offset. */
		face(crc);
		header = send_header(1, 0, true);
		header.queue = 7;
		add_fpdu(&header, NULL, 0);
		expect_terminate(0x1201);
		face(crc);
		header = send_header(2, 0, true);
		add_fpdu(&header, NULL, 0);
		expect_terminate(0x1203);
		face(crc);
		header = send_header(1, 4, true);
		add_fpdu(&header, NULL, 0);
		expect_terminate(0x1204);
		face(crc);
		post_receive(b, 0, 64, 1);
		header = send_header(1, 0, false);
		add_fpdu(&header, "abcd", 4);
		header = send_header(1, 5, true);
		add_fpdu(&header, "abcd", 4);
		expect_terminate(0x1204);
		/* An answer that was not asked for. */
		face(crc);
		header = vb_ddp_header_of(VB_RDMAP_READ_RESPONSE, true);
		add_fpdu(&header, NULL, 0);
		expect_terminate(0x0206);
		face(crc);
		header = vb_ddp_header_of(VB_RDMAP_ATOMIC_RESPONSE, true);
		header.msn = 1;
		add_fpdu(&header, "123456789012", 12);
		expect_terminate(0x0206);
		/* A READ with more behind it, and one in two segments. */
		face(crc);
		header = vb_ddp_header_of(VB_RDMAP_READ_REQUEST, true);
		header.msn = 1;
		add_fpdu(&header, "123456789012345678901234567890", 30);
		expect_terminate(0x1205);
		face(crc);
		header.last = false;
		add_fpdu(&header, "1234567890123456789012345678", 28);
		expect_terminate(0x1205);
	}
}

/* Too short for what it says to be: found before anything is subtracted. */
static void test_short_ulpdus(void **state)
{
	(void)state;
	for (unsigned crc = 0; crc < 2; crc++)
		for (unsigned opcode = 0; opcode < 12; opcode++)
			for (uint32_t ulpdu = 0; ulpdu < vb_rdmap_opcode((uint8_t)opcode)->header_length; ulpdu++) {
				uint8_t bytes[100] = {0}, *at = bytes + 2;

				at[0] = (uint8_t)(vb_rdmap_opcode((uint8_t)opcode)->tagged ? 0xc1 : 0x41);
				at[1] = (uint8_t)(0x40 | opcode);
				if (!vb_rdmap_opcode((uint8_t)opcode)->tagged)
					at[9] = vb_rdmap_opcode((uint8_t)opcode)->queue;
				vb_fpdu_put_length(bytes, ulpdu);
				face(crc);
				wire_length = 2 + ulpdu;
				memcpy(wire, bytes, wire_length);
				wire_length += vb_fpdu_put_trailer(wire + wire_length, ulpdu, vb_crc32c(0, wire, wire_length), crc);
				expect_terminate(0x2003);
			}
}

static void test_wrong_crc(void **state)
{
	struct vb_ddp_header header;

	(void)state;
	for (unsigned bit = 0; bit < 8 * 28; bit++) {
		face(true);
		header = vb_ddp_header_of(VB_RDMAP_WRITE, true);
		header.stag = b->key;
		header.offset = (uintptr_t)b->arena;
		add_fpdu(&header, "\1\2\3\4\5\6\7\10", 8);
		assert_int_equal(wire_length, 28);
		wire[bit / 8] ^= (uint8_t)(1 << bit % 8);
		/* A length that is too long is waited for; one that ends earlier has another CRC. */
		if (bit < 16 && vb_fpdu_length(vb_fpdu_get_length(wire)) > wire_length) {
			end_feed(b, wire, wire_length);
			assert_int_equal(b->qp->state, IBV_QPS_RTS);
			streams_close(&streams);
		} else {
			expect_terminate(0x2002);
		}
	}
}

/* The TERMINATE shows the headers of what it is about. */
static void test_terminate_shows_headers(void **state)
{
	struct vb_rdmap_read read = {.sink_stag = 5, .sink_offset = 77, .size = 8, .source_stag = 0x999, .source_offset = 3};
	struct vb_ddp_header header = vb_ddp_header_of(VB_RDMAP_READ_REQUEST, true);
	uint8_t body[VB_RDMAP_READ_LENGTH], shown[VB_RDMAP_READ_LENGTH];
	struct vb_terminate terminate;

	(void)state;
	face(false);
	header.msn = 1;
	vb_rdmap_read_encode(&read, body);
	add_fpdu(&header, body, sizeof(body));
	terminate = expect_terminate(0x0100);
	assert_true(terminate.has_length && terminate.has_header && terminate.has_read);
	assert_int_equal(terminate.segment_length, 46);
	assert_int_equal(terminate.header.msn, 1);
	vb_rdmap_read_encode(&terminate.read, shown);
	assert_memory_equal(shown, body, sizeof(body));
	face(false);
	header = vb_ddp_header_of(VB_RDMAP_WRITE, true);
	header.stag = 0x1234;
	header.offset = 0xabcdef;
	add_fpdu(&header, "1234567", 7);
	terminate = expect_terminate(0x1100);
	assert_true(terminate.has_header && !terminate.has_read);
	assert_int_equal(terminate.segment_length, 21);
	assert_int_equal(terminate.header.stag, 0x1234);
	assert_int_equal(terminate.header.offset, 0xabcdef);
}

/* ---- the peer's TERMINATE, in both forms ---- */

static void test_terminate_of_both_kinds(void **state)
{
	static const struct {
		uint16_t cause;
		enum ibv_wc_status status;
	} rows[] = {{0x0100, IBV_WC_REM_ACCESS_ERR}, {0x0101, IBV_WC_REM_ACCESS_ERR}, {0x0206, IBV_WC_REM_INV_REQ_ERR},
		    {0x0207, IBV_WC_REM_OP_ERR}, {0x1202, IBV_WC_REM_INV_REQ_ERR}, {0x00ff, IBV_WC_REM_OP_ERR}};

	(void)state;
	for (unsigned i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
		struct options options = {SMALL};
		struct vb_terminate terminate = {.cause = {rows[i / 2].cause}, .by_siw = i % 2, .has_length = true, .has_header = true,
						 .has_read = true, .header = vb_ddp_header_of(VB_RDMAP_READ_REQUEST, true)};
		struct vb_ddp_header header = vb_ddp_header_of(VB_RDMAP_TERMINATE, true);
		uint8_t body[VB_TERMINATE_MOST];

		streams_make(&streams, &options);
		wire_length = 0;
		assert_int_equal(streams_begin(a, true), 0);
		for (uint64_t r = 0; r < 3; r++)
			post_send(a, IBV_WR_RDMA_READ, 0, 8, 0, r, 0);
		end_transmit(a);
		terminate.read.sink_offset = UINT64_C(1) << 32;
		header.msn = 1;
		add_fpdu(&header, body, (uint32_t)vb_terminate_encode(&terminate, body));
		end_feed(a, wire, wire_length);
		expect(&a->send_cq, 0, IBV_WC_WR_FLUSH_ERR);
		expect(&a->send_cq, 1, rows[i / 2].status);
		expect(&a->send_cq, 2, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(a->events, 1);
		assert_int_equal(a->event[0], IBV_EVENT_QP_FATAL);
		assert_int_equal(a->qp->fault.terminate, rows[i / 2].cause);
		/* None is sent back; the stream is shut. */
		assert_int_equal(vb_iwarp_wish(a->qp), VB_IWARP_SHUT);
		streams_close(&streams);
	}
}

/* Cut at every byte it is still the end. */
static void test_terminate_cut_short(void **state)
{
	(void)state;
	for (uint32_t length = 4; length < VB_TERMINATE_MOST + 20; length++) {
		struct vb_ddp_header header = vb_ddp_header_of(VB_RDMAP_TERMINATE, true);
		uint8_t body[VB_TERMINATE_MOST + 20] = {0x01, 0x00, 0xe0};

		face(length % 2);
		header.msn = 1;
		add_fpdu(&header, body, length);
		end_feed(b, wire, wire_length);
		assert_int_equal(b->qp->state, IBV_QPS_ERR);
		assert_int_equal(vb_iwarp_wish(b->qp), VB_IWARP_SHUT);
		streams_close(&streams);
	}
}

/* ---- who speaks first ---- */

static void test_responder_holds_back(void **state)
{
	struct options options = {SMALL};
	uint8_t bytes[256];
	vb_time began;

	(void)state;
	/* It waits for the peer's first FPDU. */
	streams_make(&streams, &options);
	assert_int_equal(streams_begin(b, false), 0);
	assert_int_equal(streams_begin(a, true), 0);
	post_send(b, IBV_WR_RDMA_WRITE, 0, 8, 0, 1, 0);
	assert_int_equal(end_drain(b, bytes, sizeof(bytes)), 0);
	assert_true(vb_iwarp_holds_back(b->qp));
	assert_false(vb_iwarp_has_heard(b->qp));
	streams_settle(&streams);
	expect(&b->send_cq, 1, IBV_WC_SUCCESS);
	assert_true(vb_iwarp_has_heard(b->qp));
	assert_int_equal(vb_iwarp_next_deadline(b->qp), VB_TIME_NEVER);
	streams_close(&streams);
	/* Or for a time, as siw's clients need it. */
	streams_make(&streams, &options);
	assert_int_equal(streams_begin(b, false), 0);
	post_send(b, IBV_WR_RDMA_WRITE, 0, 8, 0, 1, 0);
	began = streams.now;
	assert_int_equal(vb_iwarp_next_deadline(b->qp), began + VB_MILLISECONDS(100));
	vb_lock_take(&b->qp->lock);
	vb_iwarp_expire(b->qp, began + VB_MILLISECONDS(100) - 1);
	assert_true(vb_iwarp_holds_back(b->qp));
	vb_iwarp_expire(b->qp, began + VB_MILLISECONDS(100));
	assert_false(vb_iwarp_holds_back(b->qp));
	vb_lock_release(&b->qp->lock);
	assert_true(end_drain(b, bytes, sizeof(bytes)) > 0);
	expect(&b->send_cq, 1, IBV_WC_SUCCESS);
	streams_close(&streams);
	/* By the letter of the RFC, for ever. */
	options.strict = true;
	streams_make(&streams, &options);
	assert_int_equal(streams_begin(b, false), 0);
	post_send(b, IBV_WR_RDMA_WRITE, 0, 8, 0, 1, 0);
	assert_int_equal(vb_iwarp_next_deadline(b->qp), VB_TIME_NEVER);
	assert_int_equal(end_drain(b, bytes, sizeof(bytes)), 0);
	streams_close(&streams);
}

static size_t drain_at(struct end *end, vb_time when, uint8_t *bytes, size_t room)
{
	streams.now = when;
	vb_lock_take(&end->qp->lock);
	vb_iwarp_expire(end->qp, when);
	vb_lock_release(&end->qp->lock);
	return end_drain(end, bytes, room);
}

/* siw as an initiator may miss what comes while it makes the reply into a connection, until more comes: whoever spoke first, and hears
 * nothing, says something more. Nothing, if there was nothing to say. */
static void test_responder_speaks_again(void **state)
{
	static const vb_time again[] = {VB_MILLISECONDS(50), VB_MILLISECONDS(200), VB_SECONDS(1)};
	struct options options = {SMALL};
	uint8_t bytes[256];
	vb_time began;

	(void)state;
	for (unsigned speaks = 0; speaks < 2; speaks++) {
		options.ready = speaks == 1 ? VB_IWARP_READY_SEND : VB_IWARP_READY_NONE;
		streams_make(&streams, &options);
		assert_int_equal(streams_begin(b, false), 0);
		if (speaks == 1)
			assert_int_equal(post_send(b, IBV_WR_RDMA_WRITE, 0, 8, 0, 1, 0), 0);
		began = streams.now + VB_MILLISECONDS(100);
		assert_int_equal(drain_at(b, began, bytes, sizeof(bytes)), speaks * vb_fpdu_length(14 + 8));
		for (unsigned i = 0; i < 3; i++) {
			assert_int_equal(vb_iwarp_next_deadline(b->qp), began + again[i]);
			assert_int_equal(drain_at(b, began + again[i], bytes, sizeof(bytes)), speaks * vb_fpdu_length(14));
			if (speaks == 1)
				assert_memory_equal(bytes, "\0\x0e\xc1\x40\0\0\0\1", 8);
		}
		assert_int_equal(vb_iwarp_next_deadline(b->qp), VB_TIME_NEVER);
		streams_close(&streams);
	}
	/* Heard meanwhile: no more of it. */
	options.ready = VB_IWARP_READY_NONE;
	streams_make(&streams, &options);
	assert_int_equal(streams_begin(b, false), 0);
	assert_int_equal(post_send(b, IBV_WR_RDMA_WRITE, 0, 8, 0, 1, 0), 0);
	(void)drain_at(b, streams.now + VB_MILLISECONDS(100), bytes, sizeof(bytes));
	assert_int_equal(streams_begin(a, true), 0);
	streams_settle(&streams);
	assert_int_equal(vb_iwarp_next_deadline(b->qp), VB_TIME_NEVER);
	streams_close(&streams);
}

/* A peer that misses what comes behind its reply until more comes (siw): the greeting is repeated until something came back. */
static void test_initiator_greets(void **state)
{
	struct options options = {SMALL};
	static const vb_time at[] = {VB_MILLISECONDS(50), VB_MILLISECONDS(200), VB_SECONDS(1)};
	uint8_t bytes[256];
	vb_time began;

	(void)state;
	streams_make(&streams, &options);
	assert_int_equal(streams_begin(a, true), 0);
	began = streams.now;
	assert_int_equal(end_drain(a, bytes, sizeof(bytes)), vb_fpdu_length(14));
	assert_memory_equal(bytes, "\0\x0e\xc1\x40\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0", 20);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(vb_iwarp_next_deadline(a->qp), began + at[i]);
		streams.now = began + at[i];
		vb_lock_take(&a->qp->lock);
		vb_iwarp_expire(a->qp, streams.now);
		vb_lock_release(&a->qp->lock);
		assert_int_equal(end_drain(a, bytes, sizeof(bytes)), vb_fpdu_length(14));
		assert_memory_equal(bytes, "\0\x0e\xc1\x40\0\0\0\1", 8);
	}
	assert_int_equal(vb_iwarp_next_deadline(a->qp), VB_TIME_NEVER);
	streams_close(&streams);
	/* A peer that is known to miss nothing is not greeted, and as initiator not waited for. */
	options.attentive = true;
	streams_make(&streams, &options);
	assert_int_equal(streams_begin(a, true), 0);
	assert_int_equal(end_drain(a, bytes, sizeof(bytes)), 0);
	assert_int_equal(vb_iwarp_next_deadline(a->qp), VB_TIME_NEVER);
	assert_int_equal(streams_begin(b, false), 0);
	assert_int_equal(vb_iwarp_next_deadline(b->qp), VB_TIME_NEVER);
	assert_int_equal(post_send(b, IBV_WR_RDMA_WRITE, 0, 8, 0, 1, 0), 0);
	assert_int_equal(end_drain(b, bytes, sizeof(bytes)), vb_fpdu_length(14 + 8));
	streams_close(&streams);
	/* Heard: no more of it. */
	options.attentive = false;
	streams_open(&streams, &options);
	post_send(b, IBV_WR_RDMA_WRITE, 0, 8, 0, 1, 0);
	streams_settle(&streams);
	assert_int_equal(vb_iwarp_next_deadline(a->qp), VB_TIME_NEVER);
	streams_close(&streams);
}

/* A zero-length WRITE by which whoever missed what came before it finds all of that. */
static void expect_greeting(struct end *end)
{
	uint8_t bytes[256];

	assert_int_equal(end_drain(end, bytes, sizeof(bytes)), vb_fpdu_length(14));
	assert_memory_equal(bytes, "\0\x0e\xc1\x40\0\0\0\1", 8);
	assert_int_equal(vb_iwarp_next_deadline(end->qp), VB_TIME_NEVER);
	assert_int_equal(end_drain(end, bytes, sizeof(bytes)), 0);
}

/* The peer speaks of its own accord, as rsockets do, and has not noticed what was sent before (siw): something more is said, once. */
static void test_heard_is_not_answered(void **state)
{
	const struct vb_ddp_header header = vb_ddp_header_of(VB_RDMAP_WRITE, true);
	uint8_t bytes[256];

	(void)state;
	for (unsigned variant = 0; variant < 8; variant++) {
		bool initiator = variant & 1, speaks = variant & 2;
		struct options options = {SMALL, .attentive = variant & 4};
		struct end *end = initiator ? a : b;

		streams_make(&streams, &options);
		wire_length = 0;
		add_fpdu(&header, NULL, 0);
		assert_int_equal(streams_begin(end, initiator), 0);
		if (speaks)
			assert_int_equal(post_send(end, IBV_WR_SEND, 0, 8, 0, 1, 0), 0);
		/* The responder holds back for so long; from one that misses nothing neither greeting nor patience is wanted. */
		assert_int_equal(drain_at(end, streams.now + (initiator ? 0 : VB_MILLISECONDS(100)), bytes, sizeof(bytes)),
				 (initiator && !options.attentive) * vb_fpdu_length(14) + speaks * vb_fpdu_length(18 + 8));
		end_feed(end, wire, wire_length);
		if (speaks && !options.attentive)
			expect_greeting(end);
		assert_int_equal(end_drain(end, bytes, sizeof(bytes)), 0);
		end_feed(end, wire, wire_length);
		assert_int_equal(end_drain(end, bytes, sizeof(bytes)), 0);
		assert_int_equal(vb_iwarp_next_deadline(end->qp), VB_TIME_NEVER);
		streams_close(&streams);
	}
	/* Who has held back until then sends what there is, and nothing else. */
	face(false);
	add_fpdu(&header, NULL, 0);
	assert_int_equal(post_send(b, IBV_WR_SEND, 0, 8, 0, 1, 0), 0);
	end_feed(b, wire, wire_length);
	assert_int_equal(end_drain(b, bytes, sizeof(bytes)), vb_fpdu_length(18 + 8));
	assert_int_equal(end_drain(b, bytes, sizeof(bytes)), 0);
	streams_close(&streams);
}

/* What is agreed on as ready-to-receive message is not the application's. */
static void test_ready_messages(void **state)
{
	static const struct {
		enum vb_iwarp_ready ready;
		uint32_t ulpdu;
		uint8_t opcode;
	} rows[] = {{VB_IWARP_READY_WRITE, 14, VB_RDMAP_WRITE}, {VB_IWARP_READY_SEND, 18, VB_RDMAP_SEND},
		    {VB_IWARP_READY_READ, 46, VB_RDMAP_READ_REQUEST}};

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct options options = {SMALL, .ready = rows[i].ready};
		uint8_t bytes[256];

		streams_open(&streams, &options);
		assert_int_equal(end_drain(a, bytes, sizeof(bytes)), vb_fpdu_length(rows[i].ulpdu));
		assert_int_equal(bytes[3] & 15, rows[i].opcode);
		end_feed(b, bytes, vb_fpdu_length(rows[i].ulpdu));
		assert_true(vb_iwarp_has_heard(b->qp));
		assert_false(vb_iwarp_is_stalled(b->qp));
		post_receive(b, 0, 64, 60);
		post_send(a, IBV_WR_SEND, 0, 10, 0, 1, 0);
		post_send(a, IBV_WR_RDMA_READ, 0, 10, 0, 2, 0);
		streams_settle(&streams);
		expect(&a->send_cq, 1, IBV_WC_SUCCESS);
		expect(&a->send_cq, 2, IBV_WC_SUCCESS);
		assert_int_equal(expect(&b->recv_cq, 60, IBV_WC_SUCCESS).byte_len, 10);
		expect_none(&streams);
		streams_close(&streams);
	}
}

/* siw, asked for peer-to-peer mode, may not survive a connection that ends before the ready-to-receive message has come: whoever closes at
 * once has sent it before. */
static void test_ready_before_the_end(void **state)
{
	static const enum vb_iwarp_ready ready[] = {VB_IWARP_READY_WRITE, VB_IWARP_READY_SEND, VB_IWARP_READY_READ};

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct options options = {SMALL, .ready = ready[i], .most_taken = 7};

		streams_open(&streams, &options);
		assert_int_equal(modify(a, IBV_QPS_SQD), 0);
		assert_int_equal(vb_iwarp_wish(a->qp), VB_IWARP_CARRY_ON);
		streams_settle(&streams);
		assert_true(a->shut);
		assert_true(vb_iwarp_has_heard(b->qp));
		streams_close(&streams);
	}
}

static void test_begin(void **state)
{
	struct options options = {SMALL};

	(void)state;
	streams_open(&streams, &options);
	assert_int_equal(streams_begin(a, true), -22);
	assert_int_equal(modify(a, IBV_QPS_ERR), 0);
	assert_int_equal(streams_begin(a, true), -22);
	streams_close(&streams);
	options.mulpdu = 100;
	streams_make(&streams, &options);
	assert_int_equal(streams_begin(a, true), -22);
	assert_int_equal(a->qp->state, IBV_QPS_INIT);
	streams_close(&streams);
}

/* ---- peers on one host ---- */

static bool is_introduced(struct end *end, uint32_t *peer_qpn, uint64_t *connection)
{
	bool introduced;

	vb_lock_take(&end->qp->lock);
	introduced = vb_iwarp_is_introduced(end->qp, peer_qpn, connection);
	vb_lock_release(&end->qp->lock);
	return introduced;
}

static void write_one(uint64_t wr_id)
{
	fill(a, 0, 100, (uint8_t)wr_id);
	post_send(a, IBV_WR_RDMA_WRITE, 0, 100, 0, wr_id, 0);
	streams_settle(&streams);
	expect(&a->send_cq, wr_id, IBV_WC_SUCCESS);
	verify(b, 0, 100, (uint8_t)wr_id);
	expect_none(&streams);
}

/* Whoever has a WRITE says who it is, once, and hears who the other is. Before that, and of SENDs, nothing is said. */
static void test_introductions(void **state)
{
	const uint64_t nonce[2] = {0x0123456789abcdef, 0xfedcba9876543211};
	struct options options = {SMALL, .attentive = true, .nonce = {nonce[0], nonce[1]}};
	size_t before;
	uint32_t qpn;
	uint64_t connection;

	(void)state;
	streams_open(&streams, &options);
	post_receive(b, THERE, 8, 60);
	post_send(a, IBV_WR_SEND, 0, 8, 0, 1, 0);
	streams_settle(&streams);
	expect(&a->send_cq, 1, IBV_WC_SUCCESS);
	expect(&b->recv_cq, 60, IBV_WC_SUCCESS);
	assert_int_equal(a->written, vb_fpdu_length(18 + 8));
	assert_int_equal(b->written, 0);
	assert_false(is_introduced(a, &qpn, &connection) || is_introduced(b, &qpn, &connection));
	for (unsigned i = 0; i < 2; i++) {
		before = a->written;
		write_one(2 + i);
		assert_int_equal(a->written - before, vb_fpdu_length(14 + 100) + (i == 0) * vb_fpdu_length(14));
		assert_int_equal(b->written, vb_fpdu_length(14));
		assert_true(is_introduced(a, &qpn, &connection));
		assert_true(qpn == b->qp->qpn && connection == (nonce[0] ^ nonce[1]));
		assert_true(is_introduced(b, &qpn, &connection));
		assert_true(qpn == a->qp->qpn && connection == (nonce[0] ^ nonce[1]));
	}
	streams_close(&streams);
}

/* A peer that knows nothing of them takes them for what they are: WRITEs of no bytes. */
static void test_introduction_to_another(void **state)
{
	struct options options = {SMALL, .attentive = true, .nonce = {77, 0}};
	uint32_t qpn;
	uint64_t connection;

	(void)state;
	streams_open(&streams, &options);
	write_one(1);
	assert_int_equal(a->written, vb_fpdu_length(14 + 100) + vb_fpdu_length(14));
	assert_int_equal(b->written, 0);
	assert_false(is_introduced(a, &qpn, &connection) || is_introduced(b, &qpn, &connection));
	write_one(2);
	streams_close(&streams);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cuts), cmocka_unit_test(test_each_cut), cmocka_unit_test(test_each_end),
		cmocka_unit_test(test_bad_frames), cmocka_unit_test(test_short_ulpdus), cmocka_unit_test(test_wrong_crc),
		cmocka_unit_test(test_terminate_shows_headers), cmocka_unit_test(test_terminate_of_both_kinds),
		cmocka_unit_test(test_terminate_cut_short), cmocka_unit_test(test_responder_holds_back),
		cmocka_unit_test(test_responder_speaks_again),
		cmocka_unit_test(test_initiator_greets), cmocka_unit_test(test_heard_is_not_answered),
		cmocka_unit_test(test_ready_messages),
		cmocka_unit_test(test_ready_before_the_end), cmocka_unit_test(test_begin),
		cmocka_unit_test(test_introductions), cmocka_unit_test(test_introduction_to_another),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
