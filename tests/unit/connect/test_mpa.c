/* SPDX-License-Identifier: MIT
 *
 * The MPA handshake, two sides against each other and against bytes of others: what they agree on, whatever the bytes are cut into,
 * and how it ends when it does not end well.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "connect/mpa.h"

static const struct vb_mpa_wishes plain = {.ird = 16, .ord = 8};

/* All that one has to say to the other, in pieces of that size. Never more than the other wants. */
static void pass(struct vb_mpa *from, struct vb_mpa *to, size_t piece)
{
	const uint8_t *bytes;
	size_t length;

	while ((bytes = vb_mpa_output(from, &length)) != NULL && vb_mpa_wants(to) > 0) {
		size_t n = length < piece ? length : piece;

		if (n > vb_mpa_wants(to))
			n = vb_mpa_wants(to);
		vb_mpa_take(to, bytes, n);
		vb_mpa_sent(from, n);
	}
}

struct pair {
	struct vb_mpa a, b;
};

static void ask(struct pair *pair, const struct vb_mpa_wishes *wishes, size_t piece)
{
	vb_mpa_request(&pair->a, wishes, "hello", 5, 1000);
	vb_mpa_listen(&pair->b, 1000);
	pass(&pair->a, &pair->b, piece);
}

static void shake(struct pair *pair, const struct vb_mpa_wishes *a, const struct vb_mpa_wishes *b)
{
	ask(pair, a, 7);
	assert_int_equal(pair->b.state, VB_MPA_ASKED);
	vb_mpa_accept(&pair->b, b, "welcome", 7);
	assert_int_equal(pair->b.state, VB_MPA_AGREED);
	pass(&pair->b, &pair->a, 7);
	assert_int_equal(pair->a.state, VB_MPA_AGREED);
}

static void frames_may_come_in_any_pieces(void **state)
{
	(void)state;
	for (size_t piece = 1; piece < 40; piece++) {
		struct pair pair;

		ask(&pair, &plain, piece);
		assert_int_equal(pair.b.state, VB_MPA_ASKED);
		assert_int_equal(vb_mpa_wants(&pair.b), 0);
		assert_int_equal(pair.b.deadline, VB_TIME_NEVER);
		assert_int_equal(pair.b.peer.private_length, 5);
		assert_memory_equal(pair.b.peer.private_data, "hello", 5);
		vb_mpa_accept(&pair.b, &plain, "welcome", 7);
		pass(&pair.b, &pair.a, piece);
		assert_int_equal(pair.a.state, VB_MPA_AGREED);
		assert_int_equal(pair.a.deadline, VB_TIME_NEVER);
		assert_int_equal(pair.a.peer.private_length, 7);
		assert_memory_equal(pair.a.peer.private_data, "welcome", 7);
	}
}

/* What is behind the frame is not asked for. */
static void no_more_is_read_than_the_frame(void **state)
{
	struct vb_mpa b;
	uint8_t bytes[VB_MPA_MAX_FRAME];
	struct vb_mpa_frame frame = {.revision = 2, .enhanced = true, .private_length = 100};
	size_t length = vb_mpa_frame_encode(&frame, bytes), taken = 0;

	(void)state;
	vb_mpa_listen(&b, 0);
	assert_int_equal(vb_mpa_wants(&b), 20);
	while (vb_mpa_wants(&b) > 0) {
		size_t n = vb_mpa_wants(&b);

		assert_true(taken + n <= length);
		vb_mpa_take(&b, bytes + taken, n);
		taken += n;
	}
	assert_int_equal(taken, length);
	assert_int_equal(b.state, VB_MPA_ASKED);
}

static void crc_is_used_if_either_wants_it(void **state)
{
	(void)state;
	for (unsigned who = 0; who < 4; who++) {
		struct vb_mpa_wishes a = plain, b = plain;
		struct pair pair;

		a.crc = who & 1;
		b.crc = who & 2;
		shake(&pair, &a, &b);
		assert_int_equal(pair.a.terms.crc, who != 0);
		assert_int_equal(pair.b.terms.crc, who != 0);
		assert_false(pair.a.terms.large || pair.b.terms.large);
		a.large = who & 1;
		b.large = who & 2;
		shake(&pair, &a, &b);
		assert_int_equal(pair.a.terms.large, who == 3);
		assert_int_equal(pair.b.terms.large, who == 3);
	}
}

/* Two of ours know one another by what siw, which returns the reserved bits of a request, cannot say. */
static void ours_are_told_from_siw(void **state)
{
	struct vb_mpa_wishes welcome = plain;
	struct vb_mpa_frame echo;
	struct vb_mpa initiator;
	struct pair pair;
	uint8_t bytes[VB_MPA_MAX_FRAME];
	size_t length, taken = 0;

	(void)state;
	welcome.large = true;
	shake(&pair, &welcome, &welcome);
	assert_true(pair.a.terms.half_close && pair.b.terms.half_close);
	/* A request of siw's says nothing, so neither does the reply. */
	shake(&pair, &plain, &welcome);
	assert_false(pair.a.terms.half_close || pair.b.terms.half_close);
	assert_false(pair.a.peer.half_close || pair.a.peer.large);
	/* siw's reply. */
	vb_mpa_request(&initiator, &welcome, NULL, 0, 0);
	memcpy(bytes, vb_mpa_output(&initiator, &length), VB_MPA_HEADER + VB_MPA_ENHANCEMENT);
	assert_true(vb_mpa_frame_decode(&echo, VB_MPA_REQUEST, bytes, length));
	echo.kind = VB_MPA_REPLY;
	length = vb_mpa_frame_encode(&echo, bytes);
	while (taken < length) {
		size_t n = vb_mpa_wants(&initiator);

		vb_mpa_take(&initiator, bytes + taken, n);
		taken += n;
	}
	assert_int_equal(initiator.state, VB_MPA_AGREED);
	assert_true(initiator.terms.large);
	assert_false(initiator.terms.half_close);
}

static void depths_fit_together(void **state)
{
	(void)state;
	for (uint16_t i = 0; i <= 128; i += 16) {
		for (uint16_t j = 0; j <= 128; j += 16) {
			struct vb_mpa_wishes a = {.ird = i, .ord = j}, b = {.ird = (uint16_t)(128 - j), .ord = (uint16_t)(128 - i)};
			struct pair pair;

			shake(&pair, &a, &b);
			assert_true(pair.a.terms.ord <= pair.b.terms.ird && pair.b.terms.ord <= pair.a.terms.ird);
			assert_int_equal(pair.a.terms.ord, j);
			assert_int_equal(pair.b.terms.ord, 128 - i < i ? 128 - i : i);
		}
	}
}

/* A reply that wants to ask more than we said we answer, and one that cannot be. */
static void a_reply_may_raise_our_depth(void **state)
{
	struct vb_mpa_frame reply = {.kind = VB_MPA_REPLY, .revision = 2, .enhanced = true, .ird = 4, .ord = 100};
	uint8_t bytes[VB_MPA_MAX_FRAME];
	struct vb_mpa a;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		reply.ord = (uint16_t)(i == 0 ? 100 : i == 1 ? 129 : VB_MPA_DEPTH_UNKNOWN);
		vb_mpa_request(&a, &plain, NULL, 0, 0);
		vb_mpa_take(&a, bytes, (vb_mpa_frame_encode(&reply, bytes), 20));
		vb_mpa_take(&a, bytes + 20, 4);
		assert_int_equal(a.state, i == 1 ? VB_MPA_FAILED : VB_MPA_AGREED);
		if (i == 1)
			assert_int_equal(a.error, -EPROTO);
		else
			assert_int_equal(a.terms.ird, i == 0 ? 100 : 16);
		if (i != 1)
			assert_int_equal(a.terms.ord, 4);
	}
}

static void asked_by(struct vb_mpa *b, const struct vb_mpa_frame *request)
{
	uint8_t bytes[VB_MPA_MAX_FRAME];
	size_t length = vb_mpa_frame_encode(request, bytes);

	vb_mpa_listen(b, 0);
	vb_mpa_take(b, bytes, 20);
	if (length > 20 && b->state == VB_MPA_LISTENING)
		vb_mpa_take(b, bytes + 20, length - 20);
}

static void answer(const struct vb_mpa *mpa, struct vb_mpa_frame *frame)
{
	size_t length;
	const uint8_t *bytes = vb_mpa_output(mpa, &length);

	assert_non_null(bytes);
	assert_true(vb_mpa_frame_decode(frame, VB_MPA_REPLY, bytes, length));
}

static void what_is_not_negotiated_is_not_answered(void **state)
{
	struct vb_mpa_frame request = {.revision = 2, .enhanced = true, .ird = VB_MPA_DEPTH_UNKNOWN, .ord = VB_MPA_DEPTH_UNKNOWN}, reply;
	struct vb_mpa b;

	(void)state;
	asked_by(&b, &request);
	vb_mpa_accept(&b, &plain, NULL, 0);
	answer(&b, &reply);
	assert_int_equal(reply.ird, VB_MPA_DEPTH_UNKNOWN);
	assert_int_equal(reply.ord, VB_MPA_DEPTH_UNKNOWN);
	assert_int_equal(b.terms.ird, 16);
	assert_int_equal(b.terms.ord, 8);
	/* An old peer is answered in its revision. */
	request = (struct vb_mpa_frame){.revision = 1, .crc = true};
	asked_by(&b, &request);
	vb_mpa_accept(&b, &plain, NULL, 0);
	answer(&b, &reply);
	assert_int_equal(reply.revision, 1);
	assert_false(reply.enhanced);
	assert_true(reply.crc && b.terms.crc);
	assert_int_equal(b.terms.ord, 8);
}

/* Of what is offered: the WRITE, else the READ, else the SEND. */
static void peer_to_peer_when_the_peer_asks(void **state)
{
	struct vb_mpa_wishes wishes = plain;
	struct pair pair;

	(void)state;
	for (unsigned offer = 0; offer < 8; offer++) {
		struct vb_mpa_frame request = {.revision = 2, .enhanced = true, .peer_to_peer = true, .rtr_send = offer & 1,
					       .rtr_read = offer & 2, .rtr_write = offer & 4}, reply;
		enum vb_mpa_rtr expected = offer & 4 ? VB_MPA_RTR_WRITE : offer & 2 ? VB_MPA_RTR_READ :
					   offer & 1 ? VB_MPA_RTR_SEND : VB_MPA_RTR_NONE;
		struct vb_mpa b;

		asked_by(&b, &request);
		vb_mpa_accept(&b, &plain, NULL, 0);
		answer(&b, &reply);
		assert_true(reply.peer_to_peer && b.terms.peer_to_peer);
		assert_int_equal(b.terms.rtr, expected);
		assert_int_equal(reply.rtr_send + reply.rtr_read + reply.rtr_write, offer != 0);
	}
	wishes.peer_to_peer = true;
	shake(&pair, &wishes, &plain);
	assert_true(pair.a.terms.peer_to_peer && pair.b.terms.peer_to_peer);
	assert_int_equal(pair.a.terms.rtr, VB_MPA_RTR_WRITE);
	shake(&pair, &plain, &wishes);
	assert_false(pair.a.terms.peer_to_peer || pair.b.terms.peer_to_peer);
	/* Somebody has to open the gate of an RNIC (RFC 5044 7.1.2): the initiator always does. */
	assert_int_equal(pair.a.terms.rtr, VB_MPA_RTR_WRITE);
	assert_int_equal(pair.b.terms.rtr, VB_MPA_RTR_NONE);
}

static void rejection_reaches_the_initiator(void **state)
{
	struct pair pair;

	(void)state;
	ask(&pair, &plain, 100);
	vb_mpa_reject(&pair.b, "no", 2);
	assert_int_equal(pair.b.state, VB_MPA_REJECTED);
	pass(&pair.b, &pair.a, 100);
	assert_int_equal(pair.a.state, VB_MPA_REJECTED);
	assert_int_equal(pair.a.peer.private_length, 2);
	assert_memory_equal(pair.a.peer.private_data, "no", 2);
}

static void markers_are_refused(void **state)
{
	struct vb_mpa_frame request = {.revision = 2, .enhanced = true, .markers = true}, reply;
	struct vb_mpa mpa;
	uint8_t bytes[VB_MPA_MAX_FRAME];

	(void)state;
	asked_by(&mpa, &request);
	assert_int_equal(mpa.state, VB_MPA_REJECTED);
	answer(&mpa, &reply);
	assert_true(reply.reject);
	request.kind = VB_MPA_REPLY;
	request.enhanced = false;
	vb_mpa_frame_encode(&request, bytes);
	vb_mpa_request(&mpa, &plain, NULL, 0, 0);
	vb_mpa_take(&mpa, bytes, 20);
	assert_int_equal(mpa.state, VB_MPA_FAILED);
	assert_int_equal(mpa.error, -EPROTO);
}

/* One wrong byte anywhere in the header; then nothing more is read or sent. */
static void nonsense_ends_it(void **state)
{
	struct pair pair;
	size_t length;

	(void)state;
	vb_mpa_listen(&pair.b, 0);
	vb_mpa_take(&pair.b, (const uint8_t *)"GET / HTTP/1.1\r\n", 16);
	assert_int_equal(pair.b.state, VB_MPA_FAILED);
	assert_int_equal(pair.b.error, -EPROTO);
	assert_int_equal(vb_mpa_wants(&pair.b), 0);
	assert_null(vb_mpa_output(&pair.b, &length));
	/* A request where a reply should be. */
	vb_mpa_request(&pair.a, &plain, NULL, 0, 0);
	vb_mpa_take(&pair.a, (const uint8_t *)"MPA ID Req", 10);
	assert_int_equal(pair.a.state, VB_MPA_FAILED);
}

static void time_is_up(void **state)
{
	struct pair pair;

	(void)state;
	vb_mpa_listen(&pair.b, 1000);
	vb_mpa_take(&pair.b, (const uint8_t *)"MPA ", 4);
	vb_mpa_expire(&pair.b, 1000 + VB_SECONDS(5) - 1);
	assert_int_equal(pair.b.state, VB_MPA_LISTENING);
	vb_mpa_expire(&pair.b, 1000 + VB_SECONDS(5));
	assert_int_equal(pair.b.state, VB_MPA_FAILED);
	assert_int_equal(pair.b.error, -ETIMEDOUT);
	/* The consumer may take its time. */
	ask(&pair, &plain, 100);
	vb_mpa_expire(&pair.b, VB_SECONDS(1000));
	assert_int_equal(pair.b.state, VB_MPA_ASKED);
	vb_mpa_expire(&pair.a, 1000 + VB_SECONDS(60));
	assert_int_equal(pair.a.error, -ETIMEDOUT);
}

static void closing_ends_it(void **state)
{
	struct pair pair;

	(void)state;
	vb_mpa_request(&pair.a, &plain, NULL, 0, 0);
	vb_mpa_closed(&pair.a, 0);
	assert_int_equal(pair.a.state, VB_MPA_FAILED);
	assert_int_equal(pair.a.error, -ECONNRESET);
	ask(&pair, &plain, 100);
	vb_mpa_closed(&pair.b, -EPIPE);
	assert_int_equal(pair.b.state, VB_MPA_FAILED);
	assert_int_equal(pair.b.error, -EPIPE);
	/* What is agreed on stays so: the stream sees the end. */
	shake(&pair, &plain, &plain);
	vb_mpa_closed(&pair.a, 0);
	assert_int_equal(pair.a.state, VB_MPA_AGREED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames_may_come_in_any_pieces),
		cmocka_unit_test(no_more_is_read_than_the_frame),
		cmocka_unit_test(crc_is_used_if_either_wants_it),
		cmocka_unit_test(ours_are_told_from_siw),
		cmocka_unit_test(depths_fit_together),
		cmocka_unit_test(a_reply_may_raise_our_depth),
		cmocka_unit_test(what_is_not_negotiated_is_not_answered),
		cmocka_unit_test(peer_to_peer_when_the_peer_asks),
		cmocka_unit_test(rejection_reaches_the_initiator),
		cmocka_unit_test(markers_are_refused),
		cmocka_unit_test(nonsense_ends_it),
		cmocka_unit_test(time_is_up),
		cmocka_unit_test(closing_ends_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
