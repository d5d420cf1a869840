/* SPDX-License-Identifier: MIT
 *
 * What the daemon cannot do even if a message or a packet takes it over: a filter of system calls (seccomp(2)), put in
 * place when it has its listening sockets and before the first byte from a client or the network is read.
 *
 *   ends the process   calls that no fault of ours explains: starting programs, processes and threads, reaching into other
 *                      processes, changing users, namespaces, mounts, modules, keys or the kernel's programs
 *   EPERM              all that is not listed, opening files for writing, sockets of other families
 *   allowed            the list in sandbox.c
 */
#ifndef VB_DAEMON_SANDBOX_H
#define VB_DAEMON_SANDBOX_H

/* For good. 0; -ENOTSUP: a processor that the list does not know, or a build with a sanitizer, which needs more calls;
 * -EINVAL, -EPERM, ...: the kernel's word. The process goes on without a filter then. */
int vb_sandbox_enter(void);

#endif
