/* SPDX-License-Identifier: MIT
 *
 * See own_mapping.h. The layout is the kernel's; Debian 12's headers do not have it.
 */
#include "io/own_mapping.h"

#include <errno.h>
#include <sys/ioctl.h>

struct mapping_query {
	uint64_t size;
	uint64_t flags;                    /* of mappings with these rights only */
	uint64_t address;                  /* the mapping that covers it */
	uint64_t start, end;               /* from here on: the answer */
	uint64_t rights, page_size, offset, inode;
	uint32_t major, minor;
	uint32_t name_size, build_id_size; /* 0: not asked for */
	uint64_t name, build_id;
};

_Static_assert(sizeof(struct mapping_query) == 104, "as the kernel has it");

#define QUERY_MAPPING _IOWR('f', 17, struct mapping_query)
enum { MAPPING_READABLE = 1, MAPPING_WRITABLE = 2, MAPPING_SHARED = 8 };

int vb_own_mapping_find(int maps, uint64_t address, bool writable, struct vb_own_mapping *found)
{
	struct mapping_query query = {
		.size = sizeof(query), .address = address, .flags = MAPPING_READABLE | (writable ? MAPPING_WRITABLE : 0),
	};

	if (ioctl(maps, QUERY_MAPPING, &query) != 0)
		return -errno;
	*found = (struct vb_own_mapping){
		.start = query.start,
		.end = query.end,
		.private_memory = !(query.rights & MAPPING_SHARED) && query.inode == 0 && query.major == 0 && query.minor == 0,
	};
	return 0;
}
