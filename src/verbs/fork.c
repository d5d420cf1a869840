/* SPDX-License-Identifier: MIT
 *
 * Fork. Copy-on-write is a danger to adapters that write to pinned pages behind the processor's back. Here the
 * bytes are moved by the process itself through its own page tables: nothing needs to be prepared.
 */
#include "verbs/export.h"
#include "verbs/objects.h"

int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);

VB_EXPORT int ibv_fork_init(void)
{
	return 0;
}

VB_EXPORT enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}

VB_EXPORT int ibv_dontfork_range(void *base, size_t size)
{
	(void)base;
	(void)size;
	return 0;
}

VB_EXPORT int ibv_dofork_range(void *base, size_t size)
{
	(void)base;
	(void)size;
	return 0;
}
