/* SPDX-License-Identifier: MIT
 *
 * Asking the process of `fabric up` in this network namespace (fabric_answer.h).
 */
#ifndef VB_CLI_FABRIC_REQUEST_H
#define VB_CLI_FABRIC_REQUEST_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/time.h"

struct vb_cli_fabric_list;

/* Its name in the abstract namespace. */
void vb_cli_fabric_socket(uint16_t port, char out[32]);
/* The lowest UDP port of a fabric that runs here. */
bool vb_cli_fabric_find(uint16_t *port);

/* 0: the answer is in `out`. -ENOENT: no such fabric; -EINVAL: why is in `problem`. */
int vb_cli_fabric_request(uint16_t port, const char *request, vb_time patience, FILE *out, FILE *problem);
/* The fabric as a list, which is to be freed in any case. 0, or as above, -EPROTO or -ENOMEM. */
int vb_cli_fabric_list_get(uint16_t port, vb_time patience, struct vb_cli_fabric_list *list);

#endif
