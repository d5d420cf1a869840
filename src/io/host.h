/* SPDX-License-Identifier: MIT
 *
 * Who and where we are.
 */
#ifndef VB_IO_HOST_H
#define VB_IO_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A number that stays the same on this host until it is booted again, and differs from that of other hosts, network
 * namespaces included. */
uint64_t vb_host_seed(void);
/* The account that runs the system's verbenad. False: there is none. */
bool vb_host_account(const char *name, uid_t *uid);
/* A group by its name or its number. False: there is none. */
bool vb_host_group(const char *name, gid_t *gid);
/* For messages: the account's name, or its number. */
void vb_host_user_name(uid_t uid, char *out, size_t room);

/* Where root's processes of this network namespace meet others: a path in `directory`. False: /proc is not there. */
bool vb_host_meeting_path(const char *directory, char *out, size_t room);

/* Who has a UDP port: a pid (0: not to be seen by us) and a uid. False: none. */
bool vb_host_port_holder(unsigned port, pid_t *pid, uid_t *uid);

#endif
