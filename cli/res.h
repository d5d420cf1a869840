/* SPDX-License-Identifier: MIT
 *
 * `verbena res`: which objects are asked for, and the two forms in which they are printed.
 */
#ifndef VB_CLI_RES_H
#define VB_CLI_RES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "cli/processes.h"

struct vb_cli_res_options {
	bool json;
	uint32_t pid;                    /* 0: every process */
	const char *device;              /* NULL: every device */
	bool kind[VB_RESOURCE_KINDS];    /* by enum vb_resource_kind */
};

/* Is this object on the device that was asked for? */
static inline bool vb_cli_res_wants(const struct vb_cli_res_options *options, const struct vb_cli_holder *holder,
				    uint32_t interface_index)
{
	return !options->device || !strcmp(vb_cli_holder_device(holder, interface_index), options->device);
}

void vb_cli_res_print_table(const struct vb_cli_res_options *options, const struct vb_cli_holders *holders);
void vb_cli_res_print_json(FILE *out, const struct vb_cli_res_options *options, const struct vb_cli_holders *holders);

#endif
