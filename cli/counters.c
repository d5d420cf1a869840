/* SPDX-License-Identifier: MIT
 *
 * See counters.h: names and values from the one list in base/counters.h.
 */
#include "cli/counters.h"

#include <string.h>

static const char *const names[VB_CLI_COUNTERS] = {
#define X(name) #name,
	VB_COUNTERS(X)
#undef X
};

const char *vb_cli_counter_name(unsigned index)
{
	return names[index];
}

uint64_t vb_cli_counter_value(const struct vb_counters *counters, unsigned index)
{
	uint64_t value;

	memcpy(&value, (const char *)counters + index * sizeof(value), sizeof(value));
	return value;
}

void vb_cli_json_counters(FILE *out, const struct vb_counters *counters)
{
	for (unsigned i = 0; i < VB_CLI_COUNTERS; i++)
		fprintf(out, "%s\"%s\": %llu", i ? ", " : "", names[i],
			(unsigned long long)vb_cli_counter_value(counters, i));
}
