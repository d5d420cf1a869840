/* SPDX-License-Identifier: MIT
 *
 * Where the memory of queues comes from: the heap, or an application's allocator (ibv_alloc_parent_domain(3)), which
 * may leave each piece to us. Called when a queue is made, resized and destroyed, never for a work request.
 */
#ifndef VB_QUEUE_ALLOCATOR_H
#define VB_QUEUE_ALLOCATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What applications are told (docs/verbs.md): never changes. */
enum vb_allocated {
	VB_ALLOCATED_SEND_QUEUE = 1,
	VB_ALLOCATED_RECEIVE_QUEUE = 2,
	VB_ALLOCATED_SRQ = 3,
	VB_ALLOCATED_CQ = 4,
};

struct vb_allocator {
	/* IBV_ALLOCATOR_USE_DEFAULT: take it from the heap. NULL: there is none. */
	void *(*allocate)(const struct vb_allocator *allocator, size_t size, size_t alignment, enum vb_allocated what);
	void (*release)(const struct vb_allocator *allocator, void *bytes, enum vb_allocated what);
};

/* One piece, and who has it. */
struct vb_allocation {
	void *bytes;
	const struct vb_allocator *allocator; /* to be asked; NULL: none */
	enum vb_allocated what;
	bool is_theirs;
};

/* Any bytes: a slot is written when it is used, and of a queue that is not used up to its end the pages behind stay unused. False: no
 * memory, nothing has changed but `bytes`, which is NULL. */
bool vb_allocate(struct vb_allocation *allocation, const struct vb_allocator *allocator, enum vb_allocated what, size_t count,
		 size_t size);
void vb_release(struct vb_allocation *allocation);

#endif
