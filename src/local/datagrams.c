/* SPDX-License-Identifier: MIT
 *
 * See datagrams.h. A record is a multiple of VB_RECORD_ALIGN bytes and does not go over the end of the ring; where the next one would, a
 * record of no bytes says that it is at the beginning. Two words: stamp and length; the length of each packet. Then the path, then the
 * packets.
 */
#include "local/datagrams.h"

#include <string.h>

#include "base/stamped_ring.h"

enum {
	WORDS = 16,
	HEADER = (WORDS + sizeof(struct vb_path) + 7) / 8 * 8,
};

_Static_assert(VB_DATAGRAM_RING % VB_RECORD_ALIGN == 0, "a header fits behind any record");

static uint32_t size_of(uint32_t length)
{
	return (HEADER + length + VB_RECORD_ALIGN - 1) / VB_RECORD_ALIGN * VB_RECORD_ALIGN;
}

static uint64_t first_word(uint64_t number, uint32_t length)
{
	return (uint64_t)length << 32 | vb_record_stamp(number);
}

/* ---- writing ---- */

void vb_datagram_writer_open(struct vb_datagram_writer *writer, struct vb_segment *own, uint32_t own_slot, uint32_t ring,
			     const struct vb_segment *theirs, uint64_t their_id, uint32_t their_slot)
{
	writer->theirs = &theirs->datagrams[own_slot % VB_SEGMENT_SLOTS];
	if (writer->reader == their_id)
		return;
	vb_datagram_writer_close(writer);
	*writer = (struct vb_datagram_writer){
		.theirs = writer->theirs,
		.mine = &own->datagrams[their_slot % VB_SEGMENT_SLOTS],
		.ring = own->datagram_ring[ring % VB_DATAGRAM_RINGS],
		.own_id = own->header.id,
		.reader = their_id,
	};
	__atomic_store_n((uint64_t *)(void *)writer->ring, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&writer->mine->ring, ring, __ATOMIC_RELAXED);
	__atomic_store_n(&writer->mine->reader, their_id, __ATOMIC_RELEASE);
}

void vb_datagram_writer_close(struct vb_datagram_writer *writer)
{
	if (writer->reader != 0)
		__atomic_store_n(&writer->mine->reader, 0, __ATOMIC_RELAXED);
	writer->reader = 0;
}

bool vb_datagram_writer_is_attended(const struct vb_datagram_writer *writer)
{
	return writer->reader != 0 && __atomic_load_n(&writer->theirs->attends, __ATOMIC_ACQUIRE) == writer->own_id;
}

static uint64_t *word_at(const struct vb_datagram_writer *writer, uint64_t position)
{
	return (uint64_t *)(void *)(writer->ring + position % VB_DATAGRAM_RING);
}

/* The stamp behind what is written is cleared, so the ring is never quite full. */
static bool has_room(struct vb_datagram_writer *writer, uint64_t bytes)
{
	const uint64_t room = VB_DATAGRAM_RING - VB_RECORD_ALIGN;
	uint64_t released;

	if (writer->head - writer->released + bytes <= room)
		return true;
	released = vb_stamped_released(&writer->theirs->released);
	/* What cannot be is not taken for true. */
	if (released - writer->released <= writer->head - writer->released && released % VB_RECORD_ALIGN == 0)
		writer->released = released;
	return writer->head - writer->released + bytes <= room;
}

bool vb_datagram_put(struct vb_datagram_writer *writer, const struct vb_path *path, const void *bytes, uint32_t length, uint32_t segment)
{
	uint32_t size = size_of(length), left = VB_DATAGRAM_RING - (uint32_t)(writer->head % VB_DATAGRAM_RING);
	uint64_t *at;

	if (length == 0 || length > VB_DATAGRAM_RUN || !has_room(writer, size > left ? (uint64_t)left + size : size))
		return false;
	if (size > left) {
		at = word_at(writer, writer->head);
		writer->head += left;
		vb_stamped_leave(at, first_word(writer->number + 1, 0), 0, word_at(writer, writer->head));
	}
	at = word_at(writer, writer->head);
	memcpy((uint8_t *)at + WORDS, path, sizeof(*path));
	memcpy((uint8_t *)at + HEADER, bytes, length);
	writer->head += size;
	writer->number++;
	vb_stamped_leave(at, first_word(writer->number, length), segment, word_at(writer, writer->head));
	return true;
}

/* ---- reading ---- */

void vb_datagram_reader_open(struct vb_datagram_reader *reader, struct vb_segment *own, uint32_t own_slot,
			     const struct vb_segment *theirs, uint64_t their_id, uint32_t their_slot)
{
	struct vb_segment_datagrams *mine = &own->datagrams[their_slot % VB_SEGMENT_SLOTS];

	*reader = (struct vb_datagram_reader){
		.segment = theirs,
		.theirs = &theirs->datagrams[own_slot % VB_SEGMENT_SLOTS],
		.mine = mine,
		.own_id = own->header.id,
	};
	__atomic_store_n(&mine->released, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&mine->attends, their_id, __ATOMIC_RELEASE);
}

/* Whatever the writer says, it is one of its rings. */
static const uint64_t *record_at(const struct vb_datagram_reader *reader, uint64_t position)
{
	uint32_t ring = __atomic_load_n(&reader->theirs->ring, __ATOMIC_RELAXED) % VB_DATAGRAM_RINGS;

	return (const uint64_t *)(const void *)(reader->segment->datagram_ring[ring] + position % VB_DATAGRAM_RING);
}

/* The record that is next, if it is there. */
static bool find(const struct vb_datagram_reader *reader, uint64_t position, uint64_t number, uint32_t *length)
{
	uint64_t first;

	/* Of another process that had our slot. */
	if (__atomic_load_n(&reader->theirs->reader, __ATOMIC_ACQUIRE) != reader->own_id)
		return false;
	first = vb_stamped_look(record_at(reader, position));
	*length = (uint32_t)(first >> 32);
	return (uint32_t)first == vb_record_stamp(number + 1);
}

bool vb_datagram_reader_has_work(const struct vb_datagram_reader *reader)
{
	uint32_t length;

	return !__atomic_load_n(&reader->ended, __ATOMIC_RELAXED) &&
	       find(reader, __atomic_load_n(&reader->position, __ATOMIC_RELAXED), __atomic_load_n(&reader->number, __ATOMIC_RELAXED),
		    &length);
}

/* Copied out before anything of it is looked at: its writer might change it under our eyes. */
static bool copy_out(const uint64_t *at, uint32_t length, uint32_t left, struct vb_datagram_run *run)
{
	uint64_t segment = vb_stamped_second(at);

	if (length > VB_DATAGRAM_RUN || size_of(length) > left || segment == 0 || segment > length)
		return false;
	memcpy(&run->path, (const uint8_t *)at + WORDS, sizeof(run->path));
	memcpy(run->bytes, (const uint8_t *)at + HEADER, length);
	run->segment = (uint32_t)segment;
	run->length = length;
	return true;
}

static void advance(struct vb_datagram_reader *reader, uint64_t position, uint64_t number)
{
	__atomic_store_n(&reader->position, position, __ATOMIC_RELAXED);
	__atomic_store_n(&reader->number, number, __ATOMIC_RELAXED);
}

static uint32_t left_at(const struct vb_datagram_reader *reader)
{
	return VB_DATAGRAM_RING - (uint32_t)(reader->position % VB_DATAGRAM_RING);
}

bool vb_datagram_take(struct vb_datagram_reader *reader, struct vb_datagram_run *run)
{
	uint32_t length;

	if (reader->ended || !find(reader, reader->position, reader->number, &length))
		return false;
	if (length == 0) {
		/* At the beginning there is room for any: a second one would be nonsense, and is found to be that. */
		advance(reader, reader->position + left_at(reader), reader->number);
		if (!find(reader, reader->position, reader->number, &length))
			return false;
	}
	if (!copy_out(record_at(reader, reader->position), length, left_at(reader), run)) {
		__atomic_store_n(&reader->ended, true, __ATOMIC_RELAXED);
		return false;
	}
	advance(reader, reader->position + size_of(length), reader->number + 1);
	/* Partner of the load in has_room. */
	__atomic_store_n(&reader->mine->released, reader->position, __ATOMIC_RELEASE);
	return true;
}
