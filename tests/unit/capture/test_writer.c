/* SPDX-License-Identifier: MIT
 *
 * Capture files: several writers append to one, a sent packet and its reception become one packet, foreign files are
 * left alone, and a file is put in order only when nobody writes to it.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "capture/story.h"
#include "capture/writer.h"
#include "wire/icrc.h"

static const struct vb_path path = {
	.source = {[10] = 0xff, 0xff, 127, 0, 0, 1}, .destination = {[10] = 0xff, 0xff, 127, 0, 0, 1},
	.source_port = 0xc123, .hop_limit = 64,
};

static char file[] = "/tmp/verbena-test-XXXXXX";

static int make_name(void **state)
{
	int fd;

	(void)state;
	memcpy(file + strlen(file) - 6, "XXXXXX", 6);
	fd = mkstemp(file);
	return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
	(void)state;
	return unlink(file);
}

static size_t make_datagram(uint8_t *out, uint32_t psn)
{
	const uint8_t bth[VB_BTH_LENGTH] = {0x04, 0, 0xff, 0xff, 0, 0, 0x40, 0x11, 0, 0, 0, (uint8_t)psn};

	memcpy(out, bth, sizeof(bth));
	memset(out + sizeof(bth), (int)psn, 8);
	vb_icrc_store(vb_icrc_headers(vb_icrc_begin(&path, 0, 24), out, 20), out + 20);
	return 24;
}

static void write_packet(struct vb_capture *capture, uint32_t flags, vb_time when, uint32_t psn)
{
	struct vb_capture_record record = {.flags = flags, .time = when, .received = when, .qpn = 5, .peer_qpn = 0x4011};
	uint8_t datagram[64];
	size_t length = make_datagram(datagram, psn);

	vb_capture_packet(capture, &record, &path, 0, datagram, length, NULL);
}

static void test_halves_meet(void **state)
{
	struct vb_capture *sender, *receiver;
	struct vb_story story;
	char why[128];

	(void)state;
	assert_int_equal(vb_capture_open(&sender, file), 0);
	assert_int_equal(vb_capture_open(&receiver, file), 0);
	/* The receiver's half may come into the file first; the times are what counts. */
	write_packet(receiver, VB_CAPTURE_RECEIVED, 2000, 1);
	write_packet(sender, VB_CAPTURE_SENT, 1000, 1);
	write_packet(sender, VB_CAPTURE_SENT | VB_CAPTURE_DROPPED, 3000, 2);
	write_packet(sender, VB_CAPTURE_SENT, 4000, 2);
	write_packet(receiver, VB_CAPTURE_RECEIVED, 5000, 2);
	write_packet(receiver, VB_CAPTURE_RECEIVED, 6000, 9); /* from elsewhere */
	vb_capture_flush(sender);
	vb_capture_flush(receiver);
	assert_int_equal(vb_story_tidy(file, why, sizeof(why)), -EBUSY);
	vb_capture_close(sender);
	assert_int_equal(vb_story_tidy(file, why, sizeof(why)), -EBUSY);
	vb_capture_close(receiver);
	/* The same story before and after. */
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(vb_story_load(&story, file, why, sizeof(why)), 0);
		assert_int_equal(story.packets, 4);
		assert_int_equal(story.packet[0].note.flags, VB_CAPTURE_SENT | VB_CAPTURE_RECEIVED);
		assert_int_equal(story.packet[0].note.received - story.packet[0].note.time, 1000);
		assert_int_equal(story.packet[1].note.flags, VB_CAPTURE_SENT | VB_CAPTURE_DROPPED);
		assert_int_equal(story.packet[2].note.flags, VB_CAPTURE_SENT | VB_CAPTURE_RECEIVED);
		assert_int_equal(story.packet[3].note.flags, VB_CAPTURE_RECEIVED);
		assert_int_equal(story.packet[3].packet.psn.v, 9);
		vb_story_free(&story);
		assert_int_equal(vb_story_tidy(file, why, sizeof(why)), 0);
	}
}

/* Eight processes at once: nothing of anybody's is torn or lost. */
static void test_many_writers(void **state)
{
	enum { WRITERS = 8, EACH = 200 };
	struct vb_story story;
	char why[128];

	(void)state;
	for (unsigned i = 0; i < WRITERS; i++) {
		pid_t pid = fork();

		assert_true(pid >= 0);
		if (pid == 0) {
			struct vb_capture *capture;

			if (vb_capture_open(&capture, file) != 0)
				_exit(1);
			for (unsigned j = 0; j < EACH; j++) {
				struct vb_capture_record note = {.kind = VB_CAPTURE_POST_SEND, .wr_id = i * EACH + j};

				write_packet(capture, VB_CAPTURE_SENT, 1 + j, i);
				if (j % 3 == 0)
					vb_capture_flush(capture);
				vb_capture_note(capture, &note);
			}
			_exit(0); /* as if killed: what was flushed is there */
		}
	}
	for (unsigned i = 0; i < WRITERS; i++) {
		int status;

		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
	}
	assert_int_equal(vb_story_load(&story, file, why, sizeof(why)), 0);
	assert_int_equal(story.packets, WRITERS * EACH);
	assert_int_equal(story.events, WRITERS * EACH);
	vb_story_free(&story);
}

static void test_foreign_file(void **state)
{
	struct vb_capture *capture;
	struct vb_story story;
	FILE *out = fopen(file, "w");
	char why[128];

	(void)state;
	fputs("a file that somebody needs, and that is quite long enough to be looked at", out);
	fclose(out);
	assert_int_equal(vb_capture_open(&capture, file), -EEXIST);
	assert_int_equal(vb_story_load(&story, file, why, sizeof(why)), -EPROTO);
	assert_non_null(strstr(why, "neither a pcapng nor a pcap"));
	assert_int_equal(vb_capture_open(&capture, "/nonexistent/x"), -ENOENT);
	assert_int_equal(vb_story_load(&story, "/nonexistent/x", why, sizeof(why)), -ENOENT);
	assert_int_equal(vb_story_load(&story, "/", why, sizeof(why)), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_halves_meet, make_name, remove_file),
		cmocka_unit_test_setup_teardown(test_many_writers, make_name, remove_file),
		cmocka_unit_test_setup_teardown(test_foreign_file, make_name, remove_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
