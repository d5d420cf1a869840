/* SPDX-License-Identifier: MIT
 *
 * See allocator.h.
 */
#include "queue/allocator.h"

#include <infiniband/verbs.h>
#include <stdlib.h>

/* Cache lines of two queues are not mixed. */
enum { ALIGNMENT = 64 };

bool vb_allocate(struct vb_allocation *allocation, const struct vb_allocator *allocator, enum vb_allocated what, size_t count,
		 size_t size)
{
	void *bytes = allocator ? allocator->allocate(allocator, count * size, ALIGNMENT, what) : IBV_ALLOCATOR_USE_DEFAULT;
	bool is_theirs = bytes != IBV_ALLOCATOR_USE_DEFAULT;

	if (!is_theirs)
		bytes = malloc(count * size);
	*allocation = (struct vb_allocation){bytes, allocator, what, is_theirs};
	return bytes != NULL;
}

void vb_release(struct vb_allocation *allocation)
{
	if (!allocation->is_theirs)
		free(allocation->bytes);
	else if (allocation->bytes)
		allocation->allocator->release(allocation->allocator, allocation->bytes, allocation->what);
	allocation->bytes = NULL;
}
