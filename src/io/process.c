/* SPDX-License-Identifier: MIT
 *
 * pidfd_open(2), prctl(2), and what Yama says in /proc/sys.
 */
#include "io/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "io/descriptor.h"
#include "io/uncancelled.h"

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

	/* Those ask who poll for completions. */
	return vb_call_ppoll(&item, 1, &(struct timespec){0}) == 1;
}

bool vb_process_is_stopped(pid_t pid)
{
	char path[32], text[256];
	const char *name_ends;
	ssize_t length;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	length = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[length > 0 ? length : 0] = '\0';
	/* proc_pid_stat(5): "pid (name) state"; the name may hold anything. */
	name_ends = strrchr(text, ')');
	return name_ends && name_ends[1] == ' ' && (name_ends[2] == 'T' || name_ends[2] == 't');
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
