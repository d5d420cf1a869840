/* SPDX-License-Identifier: MIT
 *
 * MPA's request and reply against any bytes. The first byte of the input chooses which of the two is expected and what is put right before:
 * the key, revision and flags, the length. What is accepted must survive being encoded again, and a frame that grows byte by
 * byte must never ask for less than before.
 */
#include <string.h>

#include "target.h"
#include "wire/mpa_frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length)
{
	enum vb_mpa_kind kind = length > 0 && input[0] & 1 ? VB_MPA_REPLY : VB_MPA_REQUEST;
	uint8_t *bytes, again[VB_MPA_MAX_FRAME];
	struct vb_mpa_frame frame, second;
	size_t needed, most = 0;

	if (length < 1)
		return 0;
	length--;
	/* A block of its own: reading one byte too far is then seen by the sanitizer. */
	bytes = malloc(length ? length : 1);
	if (!bytes)
		return 0;
	memcpy(bytes, input + 1, length);
	if (input[0] & 2 && length >= VB_MPA_HEADER) {
		memcpy(bytes, kind == VB_MPA_REPLY ? "MPA ID Rep Frame" : "MPA ID Req Frame", 16);
		bytes[17] = input[0] & 4 ? 2 : 1;
		if (input[0] & 4 && length - VB_MPA_HEADER <= 0xffff) {
			bytes[18] = (uint8_t)((length - VB_MPA_HEADER) >> 8);
			bytes[19] = (uint8_t)(length - VB_MPA_HEADER);
		}
	}
	for (size_t there = 1; there <= length; there++) {
		needed = vb_mpa_frame_length(kind, bytes, there);
		if (needed == 0)
			break;
		FUZZ_CHECK(needed >= most && needed <= VB_MPA_MAX_FRAME);
		most = needed;
		if (needed == there)
			break;
	}
	if (vb_mpa_frame_decode(&frame, kind, bytes, length)) {
		FUZZ_CHECK(frame.private_length <= VB_MPA_MAX_DATA);
		needed = vb_mpa_frame_encode(&frame, again);
		FUZZ_CHECK(needed == length);
		FUZZ_CHECK(vb_mpa_frame_decode(&second, kind, again, needed));
		FUZZ_CHECK(second.ird == frame.ird && second.ord == frame.ord && second.crc == frame.crc &&
			   second.peer_to_peer == frame.peer_to_peer && second.private_length == frame.private_length);
		FUZZ_CHECK(memcmp(second.private_data, frame.private_data, frame.private_length) == 0);
	}
	free(bytes);
	return 0;
}
