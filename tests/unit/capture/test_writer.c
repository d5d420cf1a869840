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

#include "capture/frame.h"
#include "capture/story.h"
#include "capture/writer.h"
#include "wire/ib_packet.h"
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

static size_t make_infiniband(uint8_t *out, uint32_t psn)
{
	const struct vb_ib_route route = {.slid = 3, .dlid = 4};
	size_t headers = vb_ib_route_encode(&route, 24, out);

	(void)make_datagram(out + headers, psn);
	vb_ib_frame_seal(out, headers + 24);
	return headers + 24;
}

/* Frames of three link types by two writers: each type has one interface, whoever came first, and halves meet in each. */
static void test_interfaces(void **state)
{
	static const uint8_t mac[2][6] = {{2, 1}, {2, 2}};
	const struct vb_path ethernet = {.source = {0xfe, 0x80}, .destination = {0xfe, 0x80, [15] = 1}, .framing = VB_FRAMING_ETHERNET};
	struct vb_capture *writer[2];
	struct vb_story story;
	uint8_t frame[128];
	size_t length;
	char why[128];

	(void)state;
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(vb_capture_open(&writer[i], file), 0);
	for (uint32_t psn = 0; psn < 6; psn++) {
		struct vb_capture_record sent = {.flags = VB_CAPTURE_SENT, .time = 1000 * psn + 1, .qpn = 5, .peer_qpn = 0x4011};
		struct vb_capture_record received = {.flags = VB_CAPTURE_RECEIVED, .received = 1000 * psn + 2, .peer_qpn = 0x4011};

		length = make_infiniband(frame, psn);
		vb_capture_infiniband(writer[psn % 2], &sent, frame, length, NULL);
		vb_capture_infiniband(writer[!(psn % 2)], &received, frame, length, NULL);
		length = make_datagram(frame, psn);
		vb_capture_ethernet(writer[psn % 2], &sent, &ethernet, mac[0], mac[1], frame, length, NULL);
		write_packet(writer[0], VB_CAPTURE_SENT, 1000 * psn + 3, psn);
	}
	vb_capture_close(writer[0]);
	vb_capture_close(writer[1]);
	for (unsigned i = 0; i < 2; i++) {
		unsigned both = 0;

		assert_int_equal(vb_story_load(&story, file, why, sizeof(why)), 0);
		assert_int_equal(story.packets, 18);
		assert_int_equal(story.foreign, 0);
		for (size_t p = 0; p < story.packets; p++) {
			const struct vb_story_packet *packet = &story.packet[p];

			assert_true(packet->is_decoded);
			both += (packet->note.flags & VB_CAPTURE_SENT) && (packet->note.flags & VB_CAPTURE_RECEIVED);
			if (packet->path.framing == VB_FRAMING_LOCAL) {
				assert_int_equal(packet->path.dlid, 4);
				assert_int_equal(packet->link_type, VB_FRAME_ERF);
			}
		}
		assert_int_equal(both, 6);
		vb_story_free(&story);
		assert_int_equal(vb_story_tidy(file, why, sizeof(why)), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_halves_meet, make_name, remove_file),
		cmocka_unit_test_setup_teardown(test_many_writers, make_name, remove_file),
		cmocka_unit_test_setup_teardown(test_interfaces, make_name, remove_file),
		cmocka_unit_test_setup_teardown(test_foreign_file, make_name, remove_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
