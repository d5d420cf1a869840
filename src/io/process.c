/* SPDX-License-Identifier: MIT
 *
 * pidfd_open(2), prctl(2), and what Yama says in /proc/sys.
 */
#include "io/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "io/descriptor.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef PR_SET_PTRACER
#define PR_SET_PTRACER 0x59616d61
#define PR_SET_PTRACER_ANY ((unsigned long)-1)
#endif

int vb_process_watch(pid_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	return fd < 0 ? -errno : vb_descriptor_lift(fd);
}

bool vb_process_has_ended(int watch)
{
	struct pollfd item = {.fd = watch, .events = POLLIN};

	return poll(&item, 1, 0) == 1;
}

enum vb_ptrace_rule vb_process_ptrace_rule(void)
{
	char digit = '0';
	int fd = open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return VB_PTRACE_ORDINARY;
	if (read(fd, &digit, 1) != 1)
		digit = '0';
	close(fd);
	return digit >= '0' && digit <= '3' ? (enum vb_ptrace_rule)(digit - '0') : VB_PTRACE_ORDINARY;
}

int vb_process_admit_peers(void)
{
	return prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0) == 0 ? 0 : -errno;
}
