/* SPDX-License-Identifier: MIT
 *
 * Messages of many segments, with loss, and with segments that lie.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fabric/rmpp.h"

static unsigned seed;

static bool lost(unsigned percent)
{
	return (unsigned)rand_r(&seed) % 100 < percent;
}

static uint8_t *make_message(uint8_t mgmt_class, size_t length)
{
	uint8_t *message = malloc(length);

	for (size_t i = 0; i < length; i++)
		message[i] = (uint8_t)(i * 7 + (i >> 8));
	message[0] = 1;
	message[1] = mgmt_class;
	message[3] = 0x92;
	return message;
}

/* Plays a message through a link that loses; returns how many segments were sent. */
static unsigned play(uint8_t mgmt_class, size_t length, unsigned percent)
{
	uint8_t *message = make_message(mgmt_class, length);
	struct vb_rmpp_sender sender;
	struct vb_rmpp_receiver receiver;
	enum vb_rmpp_result sent = VB_RMPP_GOES_ON, received = VB_RMPP_GOES_ON;
	unsigned segments = 0;
	vb_time now = 0;

	assert_int_equal(vb_rmpp_sender_init(&sender, message, length, now, VB_SECONDS(1), 1000), 0);
	vb_rmpp_receiver_init(&receiver, mgmt_class);
	while (sent == VB_RMPP_GOES_ON) {
		struct vb_mad segment, reply;
		bool has_reply;

		if (!vb_rmpp_sender_next(&sender, &segment)) {
			now = sender.deadline;
			sent = vb_rmpp_sender_expire(&sender, now);
			continue;
		}
		assert_true(++segments < 1000000);
		if (lost(percent))
			continue;
		received = vb_rmpp_receiver_receive(&receiver, &segment, &reply, &has_reply);
		assert_int_not_equal(received, VB_RMPP_FAILED);
		if (has_reply && !lost(percent)) {
			assert_int_equal(reply.method, 0x12);
			sent = vb_rmpp_sender_receive(&sender, now, &reply);
		}
	}
	assert_int_equal(sent, VB_RMPP_DONE);
	assert_int_equal(received, VB_RMPP_DONE);
	assert_int_equal(receiver.length, length);
	/* The RMPP header is each segment's own. */
	assert_memory_equal(receiver.message, message, VB_MAD_HEADER_LENGTH);
	assert_memory_equal(receiver.message + VB_RMPP_DATA, message + VB_RMPP_DATA, length - VB_RMPP_DATA);
	vb_rmpp_sender_fini(&sender);
	vb_rmpp_receiver_fini(&receiver);
	free(message);
	return segments;
}

static void lengths(void **state)
{
	(void)state;
	for (size_t data = 0; data <= 1000; data += data % 200 < 3 || data % 200 > 197 ? 1 : 13)
		assert_int_equal(play(VB_MAD_SA, 56 + data, 0), data == 0 ? 1 : (data + 199) / 200);
	assert_int_equal(play(VB_MAD_SA, 56 + 200 * 64, 0), 64);
	assert_int_equal(play(VB_MAD_SA, 56 + 200 * 1000 + 1, 0), 1001);
	assert_int_equal(play(0x30, 40 + 216 * 3, 0), 3);
}

static void loss(void **state)
{
	(void)state;
	for (unsigned i = 1; i <= 20; i++) {
		seed = i;
		printf("seed %u\n", i);
		assert_true(play(VB_MAD_SA, 56 + 200 * 300 + i, 5 * (i % 8)) >= 301);
	}
}

/* What a first and a last segment say of the length (IBA 13.6.2.1): typed by hand for 450 bytes of SA data. */
static void payload_lengths(void **state)
{
	uint8_t *message = make_message(VB_MAD_SA, 56 + 450);
	struct vb_rmpp_sender sender;
	static const unsigned expected[] = {510, 0, 70}, flags[] = {3, 1, 5};

	(void)state;
	assert_int_equal(vb_rmpp_sender_init(&sender, message, 56 + 450, 0, VB_SECONDS(1), 1), 0);
	sender.window_last = 64;
	for (unsigned i = 0; i < 3; i++) {
		struct vb_mad mad;
		const struct vb_rmpp *rmpp = (const struct vb_rmpp *)(const void *)&mad;

		assert_true(vb_rmpp_sender_next(&sender, &mad));
		assert_int_equal(be32_get(rmpp->segment), i + 1);
		assert_int_equal(be32_get(rmpp->length_or_window), expected[i]);
		assert_int_equal(rmpp->time_flags & 7, flags[i]);
		assert_int_equal(rmpp->type, 1);
	}
	vb_rmpp_sender_fini(&sender);
	free(message);
}

static void segments_that_lie(void **state)
{
	static const struct { uint8_t version, type, flags, status; uint32_t segment, payload; uint8_t expected; } rows[] = {
		{2, 1, 3, 0, 1, 400, VB_RMPP_BAD_VERSION},
		{1, 7, 3, 0, 1, 400, VB_RMPP_BAD_TYPE},
		{1, 1, 3, 9, 1, 400, VB_RMPP_BAD_STATUS},
		{1, 1, 3, 0, 0, 400, VB_RMPP_INCONSISTENT_FIRST},
		{1, 1, 1, 0, 1, 400, VB_RMPP_INCONSISTENT_FIRST},
		{1, 1, 3, 0, 2, 400, VB_RMPP_INCONSISTENT_FIRST},
		{1, 1, 3, 0, 1, 100, VB_RMPP_INCONSISTENT_LAST},
		{1, 1, 7, 0, 1, 221, VB_RMPP_INCONSISTENT_LAST},
		{1, 1, 7, 0, 1, 19, VB_RMPP_INCONSISTENT_LAST},
		{1, 1, 3, 0, 1, 0xffffffff, VB_RMPP_RESOURCES},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct vb_rmpp_receiver receiver;
		struct vb_mad mad = {.base_version = 1, .mgmt_class = VB_MAD_SA, .class_version = 2, .method = 0x92}, reply;
		struct vb_rmpp *rmpp = (struct vb_rmpp *)(void *)&mad;
		bool has_reply;

		rmpp->version = rows[i].version;
		rmpp->type = rows[i].type;
		rmpp->time_flags = rows[i].flags;
		rmpp->status = rows[i].status;
		rmpp->segment = be32_of(rows[i].segment);
		rmpp->length_or_window = be32_of(rows[i].payload);
		vb_rmpp_receiver_init(&receiver, VB_MAD_SA);
		assert_int_equal(vb_rmpp_receiver_receive(&receiver, &mad, &reply, &has_reply), VB_RMPP_FAILED);
		assert_true(has_reply);
		assert_int_equal(((struct vb_rmpp *)(void *)&reply)->type, VB_RMPP_ABORT);
		assert_int_equal(((struct vb_rmpp *)(void *)&reply)->status, rows[i].expected);
		vb_rmpp_receiver_fini(&receiver);
	}
}

static void answers_that_lie(void **state)
{
	uint8_t *message = make_message(VB_MAD_SA, 56 + 2000);
	struct vb_rmpp_sender sender;
	struct vb_mad mad, ack = {.base_version = 1, .mgmt_class = VB_MAD_SA, .method = 0x12};
	struct vb_rmpp *rmpp = (struct vb_rmpp *)(void *)&ack;

	(void)state;
	assert_int_equal(vb_rmpp_sender_init(&sender, message, 56 + 2000, 0, VB_SECONDS(1), 1), 0);
	assert_true(vb_rmpp_sender_next(&sender, &mad));
	assert_false(vb_rmpp_sender_next(&sender, &mad));
	rmpp->version = 1;
	rmpp->type = VB_RMPP_ACK;
	/* Of what was not sent; with a window behind itself. */
	rmpp->segment = be32_of(5);
	rmpp->length_or_window = be32_of(64);
	assert_int_equal(vb_rmpp_sender_receive(&sender, 0, &ack), VB_RMPP_GOES_ON);
	assert_int_equal(sender.acked, 0);
	rmpp->segment = be32_of(1);
	rmpp->length_or_window = be32_of(0);
	assert_int_equal(vb_rmpp_sender_receive(&sender, 0, &ack), VB_RMPP_GOES_ON);
	assert_int_equal(sender.acked, 0);
	rmpp->length_or_window = be32_of(3);
	assert_int_equal(vb_rmpp_sender_receive(&sender, 0, &ack), VB_RMPP_GOES_ON);
	assert_int_equal(sender.acked, 1);
	assert_true(vb_rmpp_sender_next(&sender, &mad));
	assert_true(vb_rmpp_sender_next(&sender, &mad));
	assert_false(vb_rmpp_sender_next(&sender, &mad));
	/* Silence: once more, then the end. */
	assert_int_equal(vb_rmpp_sender_expire(&sender, sender.deadline), VB_RMPP_GOES_ON);
	assert_true(vb_rmpp_sender_next(&sender, &mad));
	assert_int_equal(be32_get(((struct vb_rmpp *)(void *)&mad)->segment), 2);
	assert_int_equal(vb_rmpp_sender_expire(&sender, sender.deadline), VB_RMPP_FAILED);
	rmpp->type = VB_RMPP_ABORT;
	assert_int_equal(vb_rmpp_sender_receive(&sender, 0, &ack), VB_RMPP_FAILED);
	vb_rmpp_sender_fini(&sender);
	assert_int_equal(vb_rmpp_sender_init(&sender, message, 55, 0, 0, 0), -EINVAL);
	message[1] = VB_MAD_PERFORMANCE;
	assert_int_equal(vb_rmpp_sender_init(&sender, message, 1000, 0, 0, 0), -EINVAL);
	free(message);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lengths),
		cmocka_unit_test(loss),
		cmocka_unit_test(payload_lengths),
		cmocka_unit_test(segments_that_lie),
		cmocka_unit_test(answers_that_lie),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
