/* SPDX-License-Identifier: MIT
 *
 * What a ladder says about a packet, an event, an address: a short label, and the details that show when the mouse rests
 * on it.
 */
#ifndef VB_CAPTURE_LADDER_TEXT_H
#define VB_CAPTURE_LADDER_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vb_capture_record;
struct vb_ladder_item;
struct vb_story_packet;

struct vb_ladder_psn {
	bool absolute;
	uint32_t first;                    /* counted from here */
};

/* A '#' in a label stands where labels that otherwise agree may differ; folding takes it out. */
void vb_ladder_packet_text(struct vb_ladder_item *item, const struct vb_story_packet *packet,
			   const struct vb_ladder_psn *psn);
/* Of an MPA frame, an FPDU, the end of a stream (ladder_stream.c): label, details, style. */
void vb_ladder_stream_text(struct vb_ladder_item *item, const struct vb_story_packet *packet);
/* Also sets the style. */
void vb_ladder_event_text(struct vb_ladder_item *item, const struct vb_capture_record *event);
/* `item` stands for item->times of its like, of which `last` is the last. */
void vb_ladder_fold_text(struct vb_ladder_item *item, const struct vb_ladder_item *last);
void vb_ladder_address(const uint8_t gid[16], char *out, size_t room);

#endif
