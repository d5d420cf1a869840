/* SPDX-License-Identifier: MIT
 *
 * Bytes that grow at the end. Running out of memory is remembered, not reported at each step: look at `failed` once.
 */
#ifndef VB_CAPTURE_BUFFER_H
#define VB_CAPTURE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct vb_capture_buffer {
	uint8_t *bytes;
	size_t used, room;
	bool failed;
};

/* Room for `length` more bytes, zeroed; NULL: none. */
static inline uint8_t *vb_capture_buffer_extend(struct vb_capture_buffer *buffer, size_t length)
{
	uint8_t *at;

	if (buffer->used + length > buffer->room) {
		size_t room = buffer->room ? buffer->room : 4096;
		uint8_t *bytes;

		while (room < buffer->used + length)
			room *= 2;
		bytes = realloc(buffer->bytes, room);
		if (!bytes) {
			buffer->failed = true;
			return NULL;
		}
		buffer->bytes = bytes;
		buffer->room = room;
	}
	at = buffer->bytes + buffer->used;
	memset(at, 0, length);
	buffer->used += length;
	return at;
}

static inline void vb_capture_buffer_add(struct vb_capture_buffer *buffer, const void *bytes, size_t length)
{
	uint8_t *at = vb_capture_buffer_extend(buffer, length);

	if (at && length > 0)
		memcpy(at, bytes, length);
}

static inline void vb_capture_buffer_free(struct vb_capture_buffer *buffer)
{
	free(buffer->bytes);
	memset(buffer, 0, sizeof(*buffer));
}

#endif
