/* SPDX-License-Identifier: MIT
 *
 * One side of a cable of memory (io/frame_ring.h) whose other side writes anything anywhere, while the first reads and writes records. An
 * input
 * is a list of steps of four bytes: what, and three that say where or how much.
 */
#include <stdlib.h>
#include <string.h>

#include "io/frame_ring.h"
#include "target.h"

enum { STEP = 4 };

static void read_record(struct vb_frame_ring_segment *segment, struct vb_frame_ring_reader *reader)
{
	struct vb_frame_ring_record record;
	uint8_t sum = 0;

	if (vb_frame_ring_look(reader, &record) != VB_FRAME_RING_HAS_RECORD)
		return;
	FUZZ_CHECK(record.length > 0 && record.segment > 0 && record.segment <= record.length);
	FUZZ_CHECK(record.bytes >= segment->ring[0] && record.bytes + record.length <= segment->ring[0] + VB_FRAME_RING);
	for (size_t i = 0; i < record.length; i++)
		sum = (uint8_t)(sum + record.bytes[i]);
	record.bytes[0] = sum;
	vb_frame_ring_done(reader, &record);
}

static void write_record(struct vb_frame_ring_segment *segment, struct vb_frame_ring_writer *writer, size_t length)
{
	uint8_t *to = vb_frame_ring_reserve(writer, length);

	if (!to)
		return;
	FUZZ_CHECK(to >= segment->ring[1] && to + length <= segment->ring[1] + VB_FRAME_RING);
	memset(to, 0xa5, length);
	(void)vb_frame_ring_publish(writer, length, 1 + length / 2);
}

/* What the other side would leave: a number near the one that is expected, and any second word. */
static void lie(struct vb_frame_ring_segment *segment, const struct vb_frame_ring_reader *reader, const uint8_t *step)
{
	uint64_t *words = (uint64_t *)(void *)(segment->ring[0] + reader->position % VB_FRAME_RING);

	words[0] = reader->number + (step[0] >> 4 != 15);
	words[1] = (uint64_t)(step[1] & 1) << 48 | (uint64_t)step[1] << 40 | (uint64_t)step[2] << 32 | step[3];
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length)
{
	struct vb_frame_ring_segment *segment = calloc(1, sizeof(*segment));
	struct vb_frame_ring_writer writer;
	struct vb_frame_ring_reader reader;

	FUZZ_CHECK(segment != NULL);
	vb_frame_ring_open(segment, 1, &writer, &reader);
	for (; length >= STEP; input += STEP, length -= STEP) {
		size_t number = (size_t)input[1] << 16 | (size_t)input[2] << 8 | input[3];

		switch (input[0] % 6) {
		case 0:
			lie(segment, &reader, input);
			read_record(segment, &reader);
			break;
		case 1:
			read_record(segment, &reader);
			break;
		case 2:
			write_record(segment, &writer, number % (VB_FRAME_RING_RECORD + 2));
			break;
		case 3:
			segment->words[1].released = input[0] & 128 ? writer.position - number : number << 40 | number;
			break;
		case 4:
			segment->ring[0][number % VB_FRAME_RING] = input[0];
			break;
		default:
			/* To the end of the ring, where there is the most to go wrong. */
			reader.position += VB_FRAME_RING - reader.position % VB_FRAME_RING - (number % 8 + 1) * VB_FRAME_RING_LINE;
			break;
		}
	}
	free(segment);
	return 0;
}
