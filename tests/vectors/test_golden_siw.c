/* SPDX-License-Identifier: MIT
 *
 * The kernel's iWARP streams, decoded and encoded again, byte for byte: the MPA frames, and of every FPDU length, DDP header, body, padding
 * and CRC.
 *
 * Usage: test_golden_siw FOLDER
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/crc32c.h"
#include "siw_streams.h"
#include "wire/ddp.h"
#include "wire/fpdu.h"
#include "wire/mpa_frame.h"
#include "wire/rdmap_opcode.h"
#include "wire/terminate.h"

static const char *folder;

/* Files of the index and the FPDUs that they must hold. */
enum { EXPECTED_FILES = 39, EXPECTED_FPDUS = 551, EXPECTED_TERMINATES = 7, EXPECTED_DIRTY_PADS = 14 };

static unsigned opcodes_seen[VB_RDMAP_OPCODES], terminates, dirty_pads;

static void check_body(const struct vb_rdmap_opcode *op, const uint8_t *body, size_t length)
{
	struct vb_rdmap_read read;
	struct vb_terminate terminate;
	uint8_t again[VB_TERMINATE_MOST];

	if (op->kind == VB_RDMAP_KIND_READ_REQUEST) {
		assert_int_equal(length, VB_RDMAP_READ_LENGTH);
		vb_rdmap_read_decode(&read, body);
		vb_rdmap_read_encode(&read, again);
		assert_memory_equal(again, body, length);
	} else if (op->kind == VB_RDMAP_KIND_TERMINATE) {
		assert_true(vb_terminate_decode(&terminate, body, length, false));
		assert_true(terminate.by_siw);
		assert_true(terminate.has_header);
		assert_int_equal(vb_terminate_encode(&terminate, again), length);
		assert_memory_equal(again, body, length);
		/* A cause that has a name. */
		assert_null(strstr(vb_terminate_code_name(terminate.cause), "without a name"));
		terminates++;
	}
}

static uint32_t check_fpdu(const uint8_t *fpdu, size_t left, bool crc)
{
	uint32_t ulpdu, length, head;
	const struct vb_rdmap_opcode *op;
	struct vb_ddp_header header;
	uint8_t again[VB_FPDU_LENGTH_FIELD + VB_DDP_UNTAGGED_LENGTH], trailer[VB_FPDU_MOST_TRAILER];

	assert_true(left >= VB_FPDU_LENGTH_FIELD);
	ulpdu = vb_fpdu_get_length(fpdu);
	length = vb_fpdu_length(ulpdu);
	assert_true(length <= left);
	assert_true(vb_ddp_decode(&header, fpdu + VB_FPDU_LENGTH_FIELD, ulpdu));
	assert_int_equal(header.ddp_version, VB_DDP_VERSION);
	assert_int_equal(header.rdmap_version, VB_RDMAP_VERSION);
	op = vb_rdmap_opcode(header.opcode);
	assert_non_null(op->name);
	assert_int_equal(op->tagged, header.tagged);
	assert_true(ulpdu >= op->header_length);
	if (!header.tagged)
		assert_int_equal(header.queue, op->queue);
	opcodes_seen[header.opcode]++;
	vb_fpdu_put_length(again, ulpdu);
	head = VB_FPDU_LENGTH_FIELD + (uint32_t)vb_ddp_encode(&header, again + VB_FPDU_LENGTH_FIELD);
	assert_memory_equal(again, fpdu, head);
	check_body(op, fpdu + head, ulpdu + VB_FPDU_LENGTH_FIELD - head);
	assert_int_equal(vb_fpdu_get_crc(fpdu + length - VB_FPDU_CRC_LENGTH), crc ? vb_crc32c(0, fpdu, length - VB_FPDU_CRC_LENGTH) : 0);
	assert_int_equal(vb_fpdu_put_trailer(trailer, ulpdu, vb_crc32c(0, fpdu, VB_FPDU_LENGTH_FIELD + ulpdu), crc),
			 length - VB_FPDU_LENGTH_FIELD - ulpdu);
	/* RFC 5044 4.1 wants zeros; siw leaves what was there before, and its CRC covers that. */
	if (memcmp(fpdu + VB_FPDU_LENGTH_FIELD + ulpdu, "\0\0\0", vb_fpdu_pad(ulpdu)) != 0)
		dirty_pads++;
	else
		assert_memory_equal(trailer, fpdu + VB_FPDU_LENGTH_FIELD + ulpdu, length - VB_FPDU_LENGTH_FIELD - ulpdu);
	return length;
}

static size_t check_frame(const struct siw_direction *from, unsigned side, struct vb_mpa_frame *frame)
{
	enum vb_mpa_kind kind = side == 0 ? VB_MPA_REQUEST : VB_MPA_REPLY;
	size_t length = vb_mpa_frame_length(kind, from->bytes, from->length);
	uint8_t again[VB_MPA_MAX_FRAME];

	assert_true(length >= VB_MPA_HEADER && length <= from->length);
	assert_true(vb_mpa_frame_decode(frame, kind, from->bytes, length));
	assert_int_equal(vb_mpa_frame_encode(frame, again), length);
	assert_memory_equal(again, from->bytes, length);
	return length;
}

static unsigned check_connection(const struct siw_connection *connection)
{
	struct vb_mpa_frame frame[2];
	size_t at[2];
	unsigned fpdus = 0;

	for (unsigned side = 0; side < 2; side++)
		at[side] = check_frame(&connection->from[side], side, &frame[side]);
	for (unsigned side = 0; side < 2; side++)
		while (at[side] < connection->from[side].length) {
			at[side] += check_fpdu(connection->from[side].bytes + at[side], connection->from[side].length - at[side],
					       frame[0].crc || frame[1].crc);
			fpdus++;
		}
	return fpdus;
}

static void every_stream(void **state)
{
	struct siw_index index;
	unsigned files = 0, all = 0;

	(void)state;
	assert_true(siw_index_open(&index, folder));
	while (siw_index_next(&index)) {
		struct siw_file file;
		unsigned fpdus = 0;

		assert_true(siw_open(&file, folder, index.name));
		assert_int_equal(file.connections, index.connections);
		for (unsigned i = 0; i < file.connections; i++)
			fpdus += check_connection(&file.connection[i]);
		assert_int_equal(fpdus, index.fpdus);
		siw_close(&file);
		files++;
		all += fpdus;
	}
	siw_index_close(&index);
	assert_int_equal(files, EXPECTED_FILES);
	assert_int_equal(all, EXPECTED_FPDUS);
	for (unsigned opcode = VB_RDMAP_WRITE; opcode <= VB_RDMAP_TERMINATE; opcode++)
		assert_true(opcodes_seen[opcode] > 0 || opcode == VB_RDMAP_SEND_SOLICITED_INVALIDATE);
	assert_int_equal(terminates, EXPECTED_TERMINATES);
	assert_int_equal(dirty_pads, EXPECTED_DIRTY_PADS);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(every_stream)};

	if (argc != 2)
		return 1;
	folder = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
