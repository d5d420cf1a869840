/* SPDX-License-Identifier: MIT
 *
 * Other processes of this host: whether they live, and whether they may reach into our memory.
 */
#ifndef VB_IO_PROCESS_H
#define VB_IO_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

/* A descriptor that becomes readable when the process has ended, threads, copies under way and all. -errno: there is none, or
 * the kernel is older than 5.3. */
int vb_process_watch(pid_t pid);
bool vb_process_has_ended(int watch);
/* By a signal or by a debugger. False also where that cannot be told. */
bool vb_process_is_stopped(pid_t pid);

enum vb_ptrace_rule {
	VB_PTRACE_ORDINARY,                /* the usual rules: same user, dumpable */
	VB_PTRACE_DESCENDANTS,             /* Yama 1: only children, and whom a process has asked in */
	VB_PTRACE_ADMINISTRATORS,          /* Yama 2: needs CAP_SYS_PTRACE */
	VB_PTRACE_NONE,                    /* Yama 3 */
};
enum vb_ptrace_rule vb_process_ptrace_rule(void);
/* Under Yama 1: let every process of this user reach our memory, as without Yama. 0 or -errno. */
int vb_process_admit_peers(void);

#endif
