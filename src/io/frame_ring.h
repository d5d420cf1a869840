/* SPDX-License-Identifier: MIT
 *
 * A cable of memory: what a process of a host and the process with the switches else send each other as UDP datagrams (wire/cable.h), where
 * both are on one machine. A segment has two rings, one each way. A record is a bundle: datagrams of `segment` bytes each but perhaps the
 * last, one behind the other, as UDP_GRO would have delivered them.
 *
 *   ... | given back | left, not read | record | 0 | free ...        a record: number; length, segment; the datagrams
 *
 * One writes a ring, the other reads it: base/stamped_ring.h says why that holds, base/sleep_flag.h why no sleeper is missed. Neither side
 * relies on anything that the other can write: positions are its own, lengths are looked at once, and a ring in which there is nonsense
 * is not looked at again. The bytes of a record may change while they are read.
 *
 * A ring that is full takes no more, as a cable does.
 */
#ifndef VB_IO_FRAME_RING_H
#define VB_IO_FRAME_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	VB_FRAME_RING = 1 << 19,
	VB_FRAME_RING_LINE = 64,
	VB_FRAME_RING_RECORD = 65536,      /* the longest */
	VB_FRAME_RING_PAGE = 4096,
};

/* The reader's, of each ring. */
struct vb_frame_ring_words {
	uint64_t released, consumed;       /* atomic: base/stamped_ring.h */
	uint32_t asleep;                   /* atomic: base/sleep_flag.h */
	uint32_t reserved[11];
};

/* Of sides 0, who made it, and 1: a side writes the ring of its number and reads the other. */
struct vb_frame_ring_segment {
	union {
		struct vb_frame_ring_words words[2];
		uint8_t page[VB_FRAME_RING_PAGE];
	};
	uint8_t ring[2][VB_FRAME_RING];
};

_Static_assert(sizeof(struct vb_frame_ring_words) == VB_FRAME_RING_LINE, "words");
_Static_assert(sizeof(struct vb_frame_ring_segment) == VB_FRAME_RING_PAGE + 2 * VB_FRAME_RING, "segment");

struct vb_frame_ring_writer {
	struct vb_frame_ring_words *words;
	uint8_t *ring;
	uint64_t number, position;         /* of the last record; where the next will be */
	uint64_t released;                 /* as it was last seen */
};

struct vb_frame_ring_reader {
	struct vb_frame_ring_words *words;
	uint8_t *ring;
	uint64_t number, position;         /* of the last that was read; where the next will be */
};

struct vb_frame_ring_record {
	uint8_t *bytes;                    /* in the ring */
	size_t length, segment;
};

void vb_frame_ring_open(struct vb_frame_ring_segment *segment, unsigned side, struct vb_frame_ring_writer *writer,
	struct vb_frame_ring_reader *reader);

/* Where a record of that length goes; NULL: the ring is full. */
uint8_t *vb_frame_ring_reserve(struct vb_frame_ring_writer *writer, size_t length);
/* It stands there. True: the reader sleeps and must be woken, by who asks, and from now on it does not say that it sleeps. */
bool vb_frame_ring_publish(struct vb_frame_ring_writer *writer, size_t length, size_t segment);

enum vb_frame_ring_look { VB_FRAME_RING_EMPTY, VB_FRAME_RING_HAS_RECORD, VB_FRAME_RING_IS_BROKEN };
enum vb_frame_ring_look vb_frame_ring_look(struct vb_frame_ring_reader *reader, struct vb_frame_ring_record *record);
/* It was read. */
void vb_frame_ring_done(struct vb_frame_ring_reader *reader, const struct vb_frame_ring_record *record);
/* Is there something? May be called while another thread reads. */
bool vb_frame_ring_has_more(const struct vb_frame_ring_reader *reader);

/* The reader is about to sleep: look once more behind that. It reads, and need not be woken. */
void vb_frame_ring_sleep(struct vb_frame_ring_reader *reader);
void vb_frame_ring_wake(struct vb_frame_ring_reader *reader);
bool vb_frame_ring_is_asleep(const struct vb_frame_ring_reader *reader);

#endif
