/* SPDX-License-Identifier: MIT
 *
 * TERMINATE against any bytes, in both forms. What is accepted must mean the same when it is encoded again.
 */
#include <string.h>

#include "target.h"
#include "wire/terminate.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length)
{
	struct vb_terminate terminate, second;
	uint8_t *body, again[VB_TERMINATE_MOST];
	size_t encoded;

	if (length < 1)
		return 0;
	length--;
	body = malloc(length ? length : 1);
	if (!body)
		return 0;
	memcpy(body, input + 1, length);
	/* Some of the bits that say what follows. */
	if (input[0] & 2 && length > 2)
		body[2] = (uint8_t)(input[0] & 4 ? input[0] >> 5 << 5 : input[0] >> 5);
	if (vb_terminate_decode(&terminate, body, length, input[0] & 8)) {
		FUZZ_CHECK(vb_terminate_layer_name(terminate.cause) && vb_terminate_type_name(terminate.cause) &&
			   vb_terminate_code_name(terminate.cause));
		encoded = vb_terminate_encode(&terminate, again);
		FUZZ_CHECK(encoded <= sizeof(again) && encoded <= length);
		FUZZ_CHECK(vb_terminate_decode(&second, again, encoded, input[0] & 8));
		FUZZ_CHECK(second.cause.v == terminate.cause.v && second.by_siw == terminate.by_siw);
		FUZZ_CHECK(second.has_header == terminate.has_header && second.has_read == terminate.has_read);
		FUZZ_CHECK(!second.has_read || memcmp(&second.read, &terminate.read, sizeof(second.read)) == 0);
	}
	free(body);
	return 0;
}
