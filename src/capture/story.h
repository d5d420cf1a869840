/* SPDX-License-Identifier: MIT
 *
 * A capture as a whole, read back: packets and events in order of time, each packet once though its sender and its
 * receiver may both have recorded it.
 */
#ifndef VB_CAPTURE_STORY_H
#define VB_CAPTURE_STORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/record.h"
#include "wire/roce_packet.h"

struct vb_capture_buffer;

enum vb_story_kind {
	VB_STORY_ROCE,                     /* a packet of RoCE or InfiniBand */
	VB_STORY_SEGMENT,                  /* of a TCP stream that carries iWARP: see streams.h, also for what follows */
	VB_STORY_MPA_REQUEST, VB_STORY_MPA_REPLY, VB_STORY_FPDU, VB_STORY_FIN, VB_STORY_RST,
};

struct vb_story_packet {
	struct vb_capture_record note;     /* of a capture that is not ours: SENT, by pid 0; queue pairs: peers.h */
	enum vb_story_kind kind;
	uint16_t link_type;                /* enum vb_frame_link; all but frames of RoCEv1 and InfiniBand are kept from the IP header on */
	const uint8_t *frame;
	size_t frame_length;
	size_t order;                      /* in the file */
	struct vb_path path;
	const uint8_t *datagram;           /* of a segment: what it carries, which may be nothing */
	size_t length;
	struct {
		uint16_t destination_port;
		uint32_t sequence;
		uint8_t flags;             /* VB_FRAME_TCP_... */
	} tcp;                             /* of a segment */
	bool is_decoded;                   /* `packet` holds what the datagram says; its ICRC was not looked at */
	struct vb_roce_packet packet;
};

struct vb_story {
	uint8_t *bytes;                    /* the file */
	int64_t clock;
	struct vb_story_packet *packet;
	size_t packets;
	struct vb_capture_record *event;   /* all records but those of packets */
	size_t events;
	size_t segments;                   /* packets that are segments */
	size_t foreign;                    /* frames that were neither packets of RoCE or InfiniBand nor of iWARP */
	size_t segmented;                  /* frames that held several packets: such a story can be drawn, but not saved */
};

/* When it was first seen. */
static inline int64_t vb_story_time(const struct vb_story_packet *packet)
{
	return packet->note.flags & VB_CAPTURE_SENT ? packet->note.time : packet->note.received;
}

/* From one time of the file to another: those of a damaged one may be further apart than a number can tell. */
static inline int64_t vb_story_elapsed(int64_t from, int64_t to)
{
	int64_t elapsed;

	if (__builtin_sub_overflow(to, from, &elapsed))
		return to < from ? INT64_MIN : INT64_MAX;
	return elapsed;
}

/* 0 or -errno (-EPROTO: it is damaged, or no capture; -ENODATA: it is empty); why: a sentence for the user. */
int vb_story_load(struct vb_story *story, const char *path, char *why, size_t room);
/* The same from bytes (taken over, malloc'ed). */
int vb_story_read(struct vb_story *story, uint8_t *bytes, size_t length, char *why, size_t room);
void vb_story_free(struct vb_story *story);

/* The same for what was sent and what was received of one packet; for different packets, hardly ever. */
uint32_t vb_story_packet_hash(const struct vb_story_packet *packet);

/* As a capture in order, with what is known about each packet as its comment: for Wireshark. 0 or -ENOMEM. */
int vb_story_encode(const struct vb_story *story, struct vb_capture_buffer *buffer);

/* The same to a file of that name or in its place, at once or not at all. 0 or -errno. */
int vb_story_save(const struct vb_story *story, const char *path);

/* Put a capture file in order, if no process writes to it any more: 0, -EBUSY, or another -errno with the sentence. */
int vb_story_tidy(const char *path, char *why, size_t room);

#endif
