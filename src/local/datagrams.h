/* SPDX-License-Identifier: MIT
 *
 * Datagrams between two processes of one host. Each segment has rings, one for each process that its owner sends to: the owner
 * writes it, the other process reads it and shows in its own segment how far it is. So no process writes into another's memory, many
 * send to one without a word between them, and one that dies in the middle of a datagram leaves a place without a stamp, behind
 * which no thread looks.
 *
 *   writer's segment                             reader's segment
 *   datagrams[reader's slot].reader, .ring       datagrams[writer's slot].attends, .released
 *   datagram_ring[.ring]
 *
 * What goes through a ring is what would go through the system's loopback: packets, as many as were made together, and their
 * path (wire/burst.h). The records are those of base/stamped_ring.h.
 *
 * A ring that is full is no place to lose something that a socket's buffer would have held: what does not fit goes by wire, and so does
 * all that follows, until the ring is empty (a detour). Order holds in both directions:
 *
 *   ring, then wire    the writer shows `detour` before it sends. A reader that has read a socket looks for it, and takes what lies in
 *                      that ring before what the socket gave it
 *   wire, then ring    the next record says that it is behind the wire, as does the first of all. The reader reads its sockets before it
 *                      takes that
 *
 * Where a ring fills up a second time before its reader has come to the record that is behind the wire, datagrams of the two detours lie
 * in one socket, and some may overtake others: that is better than to lose them.
 *
 *   attends    the writer's segment id: the reader looks into its ring. Until then datagrams go by wire
 *   reader     the reader's segment id: for whom the ring is. A slot may be given to another process, whose ring begins anew then;
 *              a ring whose reader is dead is given to another
 *
 * Either is stored last, after all that goes with it (partners: the acquire loads of the other side).
 */
#ifndef VB_LOCAL_DATAGRAMS_H
#define VB_LOCAL_DATAGRAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "local/segment.h"
#include "wire/path.h"

/* To one process. One thread at a time. */
struct vb_datagram_writer {
	const struct vb_segment_datagrams *theirs;
	struct vb_segment_datagrams *mine;
	uint8_t *ring;
	uint64_t own_id, reader;           /* segments; 0: it is not open */
	uint64_t head, released;           /* positions, in bytes, free running */
	uint64_t number;                   /* of the last record */
	uint32_t underway;                 /* runs that did not fit and are not known to be sent by wire yet */
	bool detours;                      /* shown as `detour` */
	bool is_behind;                    /* the next record is behind the wire */
};

/* From one process. One thread at a time, but for has_work. */
struct vb_datagram_reader {
	const struct vb_segment *segment;  /* the writer's */
	const struct vb_segment_datagrams *theirs;
	struct vb_segment_datagrams *mine;
	uint64_t own_id;
	uint64_t position;                 /* atomic for has_work, as is the next */
	uint64_t number;
	bool is_clear;                     /* sockets were read: the next record may be taken, though it is behind the wire */
	bool ended;                        /* atomic: nonsense stood there, and nothing more is read */
};

/* What lay in a ring, copied out: packets of `segment` bytes each, the last may be shorter. */
struct vb_datagram_run {
	struct vb_path path;
	uint32_t segment, length;
	uint8_t bytes[VB_DATAGRAM_RUN];
};

/* To the process whose segment that is, by that ring, which no other has. If it was that before, nothing changes. */
void vb_datagram_writer_open(struct vb_datagram_writer *writer, struct vb_segment *own, uint32_t own_slot, uint32_t ring,
			     const struct vb_segment *theirs, uint64_t their_id, uint32_t their_slot);
/* The process is dead: its ring may be another's. */
void vb_datagram_writer_close(struct vb_datagram_writer *writer);
bool vb_datagram_writer_is_attended(const struct vb_datagram_writer *writer);
/* False: there is no room. It is to be sent by wire, and vb_datagram_sent_by_wire() called then. */
bool vb_datagram_put(struct vb_datagram_writer *writer, const struct vb_path *path, const void *bytes, uint32_t length, uint32_t segment);
void vb_datagram_sent_by_wire(struct vb_datagram_writer *writer);
/* Something is about to go by wire though it might have gone through the ring. */
void vb_datagram_goes_by_wire(struct vb_datagram_writer *writer);

void vb_datagram_reader_open(struct vb_datagram_reader *reader, struct vb_segment *own, uint32_t own_slot,
			     const struct vb_segment *theirs, uint64_t their_id, uint32_t their_slot);
bool vb_datagram_reader_has_work(const struct vb_datagram_reader *reader);
/* Must the sockets be read before the next record is taken? Asked once for each: it is taken to be done then. */
bool vb_datagram_reader_clears(struct vb_datagram_reader *reader);
/* Is what came by wire behind what lies in the ring? To be asked after it was read from the socket. */
bool vb_datagram_reader_is_bypassed(const struct vb_datagram_reader *reader);
/* False: nothing is there, or sockets are to be read first. */
bool vb_datagram_take(struct vb_datagram_reader *reader, struct vb_datagram_run *run);

#endif
