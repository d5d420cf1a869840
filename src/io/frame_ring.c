/* SPDX-License-Identifier: MIT */
#include "io/frame_ring.h"

#include "base/sleep_flag.h"
#include "base/stamped_ring.h"

enum { HEAD = 2 * sizeof(uint64_t) };

static size_t size_of(size_t length)
{
	return (HEAD + length + VB_FRAME_RING_LINE - 1) & ~(size_t)(VB_FRAME_RING_LINE - 1);
}

static size_t offset_of(uint64_t position)
{
	return (size_t)(position % VB_FRAME_RING);
}

static uint64_t *word_at(uint8_t *ring, uint64_t position)
{
	return (uint64_t *)(void *)(ring + offset_of(position));
}

void vb_frame_ring_open(struct vb_frame_ring_segment *segment, unsigned side, struct vb_frame_ring_writer *writer,
			struct vb_frame_ring_reader *reader)
{
	*writer = (struct vb_frame_ring_writer){.words = &segment->words[side], .ring = segment->ring[side]};
	*reader = (struct vb_frame_ring_reader){.words = &segment->words[!side], .ring = segment->ring[!side]};
}

/* ---- writing ---- */

/* With the place of the record behind it, which is cleared. What the reader says is believed as far as it makes sense. */
static bool has_room(struct vb_frame_ring_writer *writer, size_t size)
{
	uint64_t released;

	size += VB_FRAME_RING_LINE;
	if (writer->position - writer->released + size <= VB_FRAME_RING)
		return true;
	released = vb_stamped_released(&writer->words->released);
	if (writer->position - released > VB_FRAME_RING)
		return false;
	writer->released = released;
	return writer->position - released + size <= VB_FRAME_RING;
}

static void leave(struct vb_frame_ring_writer *writer, uint64_t what, size_t size)
{
	uint64_t *at = word_at(writer->ring, writer->position);

	writer->position += size;
	vb_stamped_leave(at, ++writer->number, what, word_at(writer->ring, writer->position));
}

uint8_t *vb_frame_ring_reserve(struct vb_frame_ring_writer *writer, size_t length)
{
	size_t size = size_of(length), to_end = VB_FRAME_RING - offset_of(writer->position), skipped = size > to_end ? to_end : 0;

	if (length == 0 || length > VB_FRAME_RING_RECORD || !has_room(writer, skipped + size))
		return NULL;
	/* A record without length: the next is at the beginning. */
	if (skipped > 0)
		leave(writer, 0, skipped);
	return writer->ring + offset_of(writer->position) + HEAD;
}

bool vb_frame_ring_publish(struct vb_frame_ring_writer *writer, size_t length, size_t segment)
{
	leave(writer, (uint64_t)length << 32 | segment, size_of(length));
	/* Once is enough, until it says so again. */
	return vb_sleep_take_flag(&writer->words->asleep);
}

/* ---- reading ---- */

static void move(struct vb_frame_ring_reader *reader, size_t size)
{
	__atomic_store_n(&reader->position, reader->position + size, __ATOMIC_RELAXED);
	__atomic_store_n(&reader->number, reader->number + 1, __ATOMIC_RELAXED);
}

enum vb_frame_ring_look vb_frame_ring_look(struct vb_frame_ring_reader *reader, struct vb_frame_ring_record *record)
{
	const uint64_t *at = word_at(reader->ring, reader->position);
	uint64_t what;

	if (vb_stamped_look(at) != reader->number + 1)
		return VB_FRAME_RING_EMPTY;
	what = vb_stamped_second(at);
	if (what == 0) {
		if (offset_of(reader->position) == 0)
			return VB_FRAME_RING_IS_BROKEN;
		move(reader, VB_FRAME_RING - offset_of(reader->position));
		at = word_at(reader->ring, reader->position);
		if (vb_stamped_look(at) != reader->number + 1)
			return VB_FRAME_RING_EMPTY;
		what = vb_stamped_second(at);
	}
	record->length = (size_t)(what >> 32);
	record->segment = (size_t)(what & UINT32_MAX);
	if (record->length == 0 || record->length > VB_FRAME_RING_RECORD || record->segment == 0 || record->segment > record->length ||
	    size_of(record->length) > VB_FRAME_RING - offset_of(reader->position))
		return VB_FRAME_RING_IS_BROKEN;
	record->bytes = reader->ring + offset_of(reader->position) + HEAD;
	return VB_FRAME_RING_HAS_RECORD;
}

void vb_frame_ring_done(struct vb_frame_ring_reader *reader, const struct vb_frame_ring_record *record)
{
	move(reader, size_of(record->length));
	vb_stamped_give_back(&reader->words->released, reader->position, &reader->words->consumed, reader->number);
}

/* Between two stores of a thread that reads it may look at the wrong place or for the wrong number: that thread looks again anyway. */
bool vb_frame_ring_has_more(const struct vb_frame_ring_reader *reader)
{
	uint64_t position = __atomic_load_n(&reader->position, __ATOMIC_RELAXED);

	return vb_stamped_peek(word_at(reader->ring, position)) == __atomic_load_n(&reader->number, __ATOMIC_RELAXED) + 1;
}

/* ---- sleeping ---- */

void vb_frame_ring_sleep(struct vb_frame_ring_reader *reader)
{
	(void)vb_sleep_begin(&reader->words->asleep, NULL);
}

void vb_frame_ring_wake(struct vb_frame_ring_reader *reader)
{
	vb_sleep_end(&reader->words->asleep);
}

bool vb_frame_ring_is_asleep(const struct vb_frame_ring_reader *reader)
{
	return __atomic_load_n(&reader->words->asleep, __ATOMIC_RELAXED) != 0;
}
