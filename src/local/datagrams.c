/* SPDX-License-Identifier: MIT
 *
 * See datagrams.h. A record is a multiple of VB_RECORD_ALIGN bytes and does not go over the end of the ring; where the next one would, a
 * record of no bytes says that it is at the beginning. Two words: stamp and length; the length of each packet, and whether the record is
 * behind the wire. Then the path, then the packets.
 */
#include "local/datagrams.h"

#include <string.h>

#include "base/stamped_ring.h"

enum {
	WORDS = 16,
	HEADER = (WORDS + sizeof(struct vb_path) + 7) / 8 * 8,
};

/* In the second word. */
#define BEHIND_THE_WIRE (UINT64_C(1) << 63)

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
		.is_behind = true,
	};
	__atomic_store_n(&writer->mine->detour, 0, __ATOMIC_RELAXED);
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

static void see_released(struct vb_datagram_writer *writer)
{
	uint64_t released = vb_stamped_released(&writer->theirs->released);

	/* What cannot be is not taken for true. */
	if (released - writer->released <= writer->head - writer->released && released % VB_RECORD_ALIGN == 0)
		writer->released = released;
}

/* The stamp behind what is written is cleared, so the ring is never quite full. */
static bool has_room(struct vb_datagram_writer *writer, uint64_t bytes)
{
	const uint64_t room = VB_DATAGRAM_RING - VB_RECORD_ALIGN;

	if (writer->head - writer->released + bytes <= room)
		return true;
	see_released(writer);
	return writer->head - writer->released + bytes <= room;
}

/* It is over when all that was in the ring is taken, and what did not fit lies in a socket. */
static bool is_on_detour(struct vb_datagram_writer *writer)
{
	if (!writer->detours)
		return false;
	see_released(writer);
	if (writer->underway > 0 || writer->released != writer->head)
		return true;
	writer->detours = false;
	writer->is_behind = true;
	__atomic_store_n(&writer->mine->detour, 0, __ATOMIC_RELAXED);
	return false;
}

/* Shown before the caller sends. Partner: vb_datagram_reader_is_bypassed, after the socket was read; the system's locks are between. */
static bool make_detour(struct vb_datagram_writer *writer)
{
	writer->detours = true;
	writer->underway++;
	__atomic_store_n(&writer->mine->detour, 1, __ATOMIC_RELEASE);
	return false;
}

void vb_datagram_sent_by_wire(struct vb_datagram_writer *writer)
{
	/* None where the process that it was for is gone, and another has the ring. */
	if (writer->underway > 0)
		writer->underway--;
}

void vb_datagram_goes_by_wire(struct vb_datagram_writer *writer)
{
	writer->is_behind = true;
}

bool vb_datagram_put(struct vb_datagram_writer *writer, const struct vb_path *path, const void *bytes, uint32_t length, uint32_t segment)
{
	uint32_t size = size_of(length), left = VB_DATAGRAM_RING - (uint32_t)(writer->head % VB_DATAGRAM_RING);
	uint64_t *at;

	if (length == 0 || length > VB_DATAGRAM_RUN || is_on_detour(writer) ||
	    !has_room(writer, size > left ? (uint64_t)left + size : size))
		return make_detour(writer);
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
	vb_stamped_leave(at, first_word(writer->number, length), writer->is_behind ? segment | BEHIND_THE_WIRE : segment,
			 word_at(writer, writer->head));
	writer->is_behind = false;
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
	uint64_t segment = vb_stamped_second(at) & ~BEHIND_THE_WIRE;

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

/* Goes to the record that is next, if it is there. At the beginning there is room for any: a second one without bytes would be nonsense,
 * and is found to be that. */
static bool go_to_next(struct vb_datagram_reader *reader, uint32_t *length)
{
	if (reader->ended || !find(reader, reader->position, reader->number, length))
		return false;
	if (*length > 0)
		return true;
	advance(reader, reader->position + left_at(reader), reader->number);
	return find(reader, reader->position, reader->number, length);
}

static bool is_behind_the_wire(const struct vb_datagram_reader *reader)
{
	return (vb_stamped_second(record_at(reader, reader->position)) & BEHIND_THE_WIRE) != 0;
}

bool vb_datagram_reader_clears(struct vb_datagram_reader *reader)
{
	uint32_t length;

	if (reader->is_clear || !go_to_next(reader, &length) || !is_behind_the_wire(reader))
		return false;
	reader->is_clear = true;
	return true;
}

bool vb_datagram_reader_is_bypassed(const struct vb_datagram_reader *reader)
{
	return __atomic_load_n(&reader->theirs->detour, __ATOMIC_ACQUIRE) != 0 && vb_datagram_reader_has_work(reader);
}

bool vb_datagram_take(struct vb_datagram_reader *reader, struct vb_datagram_run *run)
{
	uint32_t length;

	if (!go_to_next(reader, &length) || (is_behind_the_wire(reader) && !reader->is_clear))
		return false;
	reader->is_clear = false;
	if (!copy_out(record_at(reader, reader->position), length, left_at(reader), run)) {
		__atomic_store_n(&reader->ended, true, __ATOMIC_RELAXED);
		return false;
	}
	advance(reader, reader->position + size_of(length), reader->number + 1);
	/* Partner of the load in has_room. */
	__atomic_store_n(&reader->mine->released, reader->position, __ATOMIC_RELEASE);
	return true;
}
