/* SPDX-License-Identifier: MIT
 *
 * See barrier.h. The C library has no function for it.
 */
#include "io/barrier.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool call(int command)
{
	return syscall(SYS_membarrier, command, 0, 0) == 0;
}

bool vb_barrier_join(void)
{
	return call(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) && vb_barrier_impose();
}

bool vb_barrier_impose(void)
{
	return call(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
}

bool vb_barrier_join_own(void)
{
	return call(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) && vb_barrier_impose_own();
}

bool vb_barrier_impose_own(void)
{
	return call(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}
