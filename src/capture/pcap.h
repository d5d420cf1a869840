/* SPDX-License-Identifier: MIT
 *
 * The older file format, which tcpdump writes (draft-ietf-opsawg-pcap). Pure functions on bytes.
 *
 *   magic | version | two unused | longest frame | link type     then of each frame: seconds | fraction | kept | length
 */
#ifndef VB_CAPTURE_PCAP_H
#define VB_CAPTURE_PCAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/pcapng.h"

struct vb_pcap_reader {
	const uint8_t *bytes;
	size_t length, at;
	bool swapped;                      /* written in the other byte order */
	bool nanoseconds;                  /* else microseconds */
	uint32_t link_type;
	const char *fault;                 /* why VB_PCAPNG_FAULT, for the user; `at` says where */
};

/* Does it begin as such a file does? */
bool vb_pcap_is_one(const uint8_t *bytes, size_t length);
void vb_pcap_read(struct vb_pcap_reader *reader, const uint8_t *bytes, size_t length);
/* The next packet. Every length is checked: any bytes may be given. */
enum vb_pcapng_item_kind vb_pcap_next(struct vb_pcap_reader *reader, struct vb_pcapng_item *item);

#endif
