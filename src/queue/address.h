/* SPDX-License-Identifier: MIT
 *
 * An address handle: a resolved path for datagrams.
 */
#ifndef VB_QUEUE_ADDRESS_H
#define VB_QUEUE_ADDRESS_H

#include <stdint.h>

#include "memory/region.h"
#include "wire/path.h"

struct vb_ah {
	struct vb_pd *pd;
	struct vb_path path;
	uint8_t service_level;
	uint8_t source_gid_index;
};

#endif
