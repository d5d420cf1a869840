/* SPDX-License-Identifier: MIT
 *
 * See barrier.h. The C library has no function for it.
 */
#include "io/barrier.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#else
enum { __libc_single_threaded = 0 };       /* not known */
#endif

static bool call(int command)
{
	return syscall(SYS_membarrier, command, 0, 0) == 0;
}

/* When the library is loaded, mostly before there are threads: two calls of a microsecond. Once there are threads the system waits in each
 * of them until every processor has been through its scheduler: QEMU opens its device as it begins to move a machine, and stood still for
 * 29 ms. Who loads the library later joins when a device is opened. */
__attribute__((constructor)) static void join_before_there_are_threads(void)
{
	if (!__libc_single_threaded)
		return;
	(void)call(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED);
	(void)call(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
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
