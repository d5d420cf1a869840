/* SPDX-License-Identifier: MIT
 *
 * A list of resources from a process that means no good: whatever it holds, reading ends, stays inside, and gives
 * strings that end.
 */
#include <string.h>

#include "target.h"
#include "wire/resource.h"

/* The input as rows: a byte chooses the kind, another whether the length is true, the rest fills the body. */
static size_t compose(uint8_t *list, size_t room, const uint8_t *input, size_t length)
{
	static const size_t bodies[] = {
#define X(name, value, member, body) [value] = sizeof(body),
		VB_RESOURCES(X)
#undef X
	};
	struct vb_resource_head head = {.magic = VB_RESOURCE_MAGIC};
	size_t at = sizeof(head);

	for (size_t i = 0; i + 3 <= length; i += 3) {
		unsigned kind = input[i] % 9;
		size_t body = kind >= 1 && kind <= 7 ? bodies[kind] : input[i + 2];
		struct vb_resource_row row = {.kind = kind, .length = (uint32_t)(sizeof(row) + body)};

		if (sizeof(row) + body > room - at)
			break;
		if (input[i + 1] % 16 == 0)
			row.length += input[i + 2];
		memcpy(list + at, &row, sizeof(row));
		memset(list + at + sizeof(row), input[i + 2], body);
		at += sizeof(row) + body;
	}
	head.length = (uint32_t)at;
	memcpy(list, &head, sizeof(head));
	return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length)
{
	static uint8_t composed[16384];
	union vb_resource resource;
	uint32_t left_out;
	uint8_t *bytes;
	size_t size, at;
	int kind;

	if (length < 1)
		return 0;
	size = input[0] & 1 ? compose(composed, sizeof(composed), input + 1, length - 1) : length - 1;
	bytes = malloc(size ? size : 1); /* of exactly that size, for the sanitizer */
	if (!bytes)
		return 0;
	memcpy(bytes, input[0] & 1 ? composed : input + 1, size);
	if (vb_resource_begin(bytes, size, &at, &left_out) == 0) {
		while ((kind = vb_resource_next(bytes, size, &at, &resource)) > 0) {
			FUZZ_CHECK(at <= size && kind < VB_RESOURCE_KINDS);
			if (kind == VB_RESOURCE_DEVICE)
				FUZZ_CHECK(memchr(resource.device.name, 0, sizeof(resource.device.name)));
			if (kind == VB_RESOURCE_CM_ID)
				FUZZ_CHECK(memchr(resource.cm_id.state, 0, sizeof(resource.cm_id.state)));
		}
		FUZZ_CHECK(kind < 0 || at == size);
	}
	free(bytes);
	return 0;
}
