/* SPDX-License-Identifier: MIT
 *
 * Received frames against flow rules: any frame, and a rule of any bytes. What is read of the frame is inside it; a rule made of the
 * frame's own key matches it, whichever bits it masks; a queue pair that gets the frame has a rule for it.
 */
#include <string.h>

#include "queue/flow.h"
#include "queue/qp.h"
#include "target.h"

enum { RULE = sizeof(struct ibv_flow_attr) + 96 };

static struct vb_qp pair[2];

/* The first bytes are a rule as a program might write it, the rest is the frame. */
static bool parse_rule(struct vb_flow_rule *rule, const uint8_t *input)
{
	struct {
		struct ibv_flow_attr attr;
		/* As much as a rule of that many specs may be read of. */
		uint8_t specs[VB_FLOW_SPECS * sizeof(struct ibv_flow_spec)];
	} written;
	const char *what = NULL;
	uint16_t size;

	memset(&written, 0, sizeof(written));
	memcpy(&written.attr, input, sizeof(written.attr));
	memcpy(written.specs, input + sizeof(written.attr), RULE - sizeof(written.attr));
	written.attr.comp_mask = 0;
	written.attr.type = input[4] & 3;
	written.attr.flags &= input[5] & 1 ? 0xffffffff : IBV_FLOW_ATTR_FLAGS_DONT_TRAP;
	written.attr.num_of_specs &= 3;
	/* Mostly specs that are known. */
	memcpy(written.specs, &(uint32_t){(uint32_t[]){0x20, 0x30, 0x31, 0x32, 0x40, 0x41, 0x1000, 0x1001}[input[6] & 7]}, 4);
	size = (uint16_t[]){40, 24, 88, 32, 16, 16, 12, 8}[input[6] & 7];
	memcpy(written.specs + 4, &size, 2);
	return vb_flow_rule_parse(rule, &written.attr, &what) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length)
{
	struct vb_flow_rule given, own = {.type = IBV_FLOW_ATTR_NORMAL, .qp = &pair[1], .priority = 9};
	struct vb_flow_table table;
	struct vb_flow_layout layout;
	struct vb_flow_key key;
	uint8_t *frame;

	if (length < 1 + RULE)
		return 0;
	/* The first is for targets with a choice. */
	input++;
	length -= 1 + RULE;
	frame = malloc(length ? length : 1);
	if (!frame)
		return 0;
	memcpy(frame, input + RULE, length);
	vb_flow_table_init(&table);
	vb_list_init(&own.node);
	if (vb_flow_key_decode(&key, frame, length, &layout)) {
		FUZZ_CHECK(length >= VB_ETHERNET_HEADER && layout.network < length + 1 && layout.transport <= length);
		FUZZ_CHECK(!key.has_ports || (layout.transport != 0 && layout.transport + 4 <= length));
		FUZZ_CHECK(key.ip_version == 0 || layout.network >= VB_ETHERNET_HEADER);
		for (size_t i = 0; i < sizeof(key); i++) {
			((uint8_t *)&own.mask)[i] = input[i % RULE];
			((uint8_t *)&own.value)[i] = ((const uint8_t *)&key)[i] & input[i % RULE];
		}
		vb_flow_table_add(&table, &own);
		FUZZ_CHECK(vb_flow_table_find(&table, &key, false, &pair[1]) == &own);
		FUZZ_CHECK(!vb_flow_table_find(&table, &key, false, &pair[0]));
		if (parse_rule(&given, input)) {
			const struct vb_flow_rule *found;

			given.qp = &pair[0];
			vb_flow_table_add(&table, &given);
			found = vb_flow_table_find(&table, &key, input[7] & 1, &pair[0]);
			FUZZ_CHECK(!found || found == &given);
			FUZZ_CHECK(!found || given.type != IBV_FLOW_ATTR_NORMAL || vb_flow_key_matches(&key, &given.value, &given.mask));
		}
	}
	free(frame);
	return 0;
}
