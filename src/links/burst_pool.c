/* SPDX-License-Identifier: MIT */
#include "links/burst_pool.h"

#include <stdlib.h>

#include "wire/burst.h"

struct vb_burst *vb_burst_pool_take(struct vb_burst_pool *pool)
{
	for (unsigned i = 0; i < VB_SPARE_BURSTS; i++) {
		struct vb_burst *burst = __atomic_exchange_n(&pool->spare[i], NULL, __ATOMIC_ACQ_REL);

		if (burst)
			return burst;
	}
	return calloc(1, sizeof(struct vb_burst));
}

void vb_burst_pool_give(struct vb_burst_pool *pool, struct vb_burst *burst)
{
	for (unsigned i = 0; i < VB_SPARE_BURSTS; i++) {
		struct vb_burst *none = NULL;

		if (__atomic_compare_exchange_n(&pool->spare[i], &none, burst, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return;
	}
	free(burst);
}

void vb_burst_pool_fini(struct vb_burst_pool *pool)
{
	for (unsigned i = 0; i < VB_SPARE_BURSTS; i++)
		free(pool->spare[i]);
}
