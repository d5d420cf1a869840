/* SPDX-License-Identifier: MIT
 *
 * `verbena devices` for programs: also what the page of `verbena web` shows.
 */
#ifndef VB_CLI_DEVICES_H
#define VB_CLI_DEVICES_H

#include <stdio.h>

#include "progress/devices.h"

void vb_cli_devices_print_json(FILE *out, const struct vb_device_info *list, unsigned count);

#endif
