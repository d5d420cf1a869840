/* SPDX-License-Identifier: MIT
 *
 * The path of a connection, as a path record.
 */
#ifndef VB_RDMACM_PATH_H
#define VB_RDMACM_PATH_H

#include <stdint.h>

#include "rdmacm/id.h"

/* From id->source, id->destination, its device and options: id->path, and the public route with it. */
void vb_rdmacm_path_fill(struct vb_rdmacm_id *id);

/* Local ACK timeout exponent for the QP. */
uint8_t vb_rdmacm_path_ack_timeout(const struct vb_rdmacm_id *id);

#endif
