/* SPDX-License-Identifier: MIT
 *
 * The pcapng file format (draft-ietf-opsawg-pcapng), as much of it as captures need: section header, interface
 * description, enhanced packet, comments, and our own block (capture/record.h). Pure functions on bytes.
 *
 *   type | total length | body, padded to 4 bytes | total length
 */
#ifndef VB_CAPTURE_PCAPNG_H
#define VB_CAPTURE_PCAPNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/record.h"

struct vb_capture_buffer;

enum { VB_PCAPNG_INTERFACES = 64 };

/* How a file of ours begins: the section and its first interface, raw IP. `clock`: what must be added to this machine's monotonic
 * clock to have nanoseconds since 1970; every process that joins uses the same. */
void vb_pcapng_begin(struct vb_capture_buffer *buffer, int64_t clock);
/* Is it one of ours? Reads `clock` back. `length` may be less than the whole file: VB_PCAPNG_HEAD is enough. */
enum { VB_PCAPNG_HEAD = 512 };
bool vb_pcapng_is_ours(const uint8_t *bytes, size_t length, int64_t *clock);

void vb_pcapng_record(struct vb_capture_buffer *buffer, const struct vb_capture_record *record);

/* One interface more, for frames of another link type (enum vb_frame_link). They are numbered in the order of the file, from 0 on. */
void vb_pcapng_interface(struct vb_capture_buffer *buffer, uint16_t link_type);
/* A packet of that interface in two pieces, headers and the rest; comment may be NULL. */
void vb_pcapng_packet(struct vb_capture_buffer *buffer, uint32_t interface, int64_t time, uint32_t flags, const uint8_t *headers,
		      size_t header_length, const uint8_t *rest, size_t rest_length, const char *comment);

/* ---- reading ---- */

enum vb_pcapng_item_kind { VB_PCAPNG_END, VB_PCAPNG_PACKET, VB_PCAPNG_RECORD, VB_PCAPNG_FAULT };

struct vb_pcapng_item {
	int64_t time;                      /* of a packet */
	uint32_t link_type;
	const uint8_t *frame;
	size_t length;
	bool cut;                          /* the frame was longer */
	struct vb_capture_record record;
};

struct vb_pcapng_reader {
	const uint8_t *bytes;
	size_t length, at;
	bool swapped;                      /* the section is in the other byte order */
	unsigned interfaces;
	struct {
		uint32_t link_type;
		uint8_t resolution;        /* if_tsresol */
		int64_t offset;            /* if_tsoffset, seconds */
	} interface[VB_PCAPNG_INTERFACES];
	const char *fault;                 /* why VB_PCAPNG_FAULT, for the user; `at` says where */
};

void vb_pcapng_read(struct vb_pcapng_reader *reader, const uint8_t *bytes, size_t length);
/* The next packet or record; other blocks are skipped. Every length is checked: any bytes may be given. */
enum vb_pcapng_item_kind vb_pcapng_next(struct vb_pcapng_reader *reader, struct vb_pcapng_item *item);

#endif
