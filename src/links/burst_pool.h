/* SPDX-License-Identifier: MIT
 *
 * Bursts (wire/burst.h) for threads that send. They are large (200 KB) and hot in the cache: a few are kept at hand.
 */
#ifndef VB_LINKS_BURST_POOL_H
#define VB_LINKS_BURST_POOL_H

struct vb_burst;

enum { VB_SPARE_BURSTS = 4 };

struct vb_burst_pool {
	struct vb_burst *spare[VB_SPARE_BURSTS]; /* atomic */
};

/* NULL: out of memory. What is in it is anything. */
struct vb_burst *vb_burst_pool_take(struct vb_burst_pool *pool);
void vb_burst_pool_give(struct vb_burst_pool *pool, struct vb_burst *burst);
void vb_burst_pool_fini(struct vb_burst_pool *pool);

#endif
