/* SPDX-License-Identifier: MIT
 *
 * Counters by name.
 */
#ifndef VB_CLI_COUNTERS_H
#define VB_CLI_COUNTERS_H

#include <stdint.h>
#include <stdio.h>

#include "base/counters.h"

enum { VB_CLI_COUNTERS = sizeof(struct vb_counters) / sizeof(uint64_t) };

const char *vb_cli_counter_name(unsigned index);
uint64_t vb_cli_counter_value(const struct vb_counters *counters, unsigned index);

/* As members of a JSON object, without its braces. */
void vb_cli_json_counters(FILE *out, const struct vb_counters *counters);

#endif
