/* SPDX-License-Identifier: MIT
 *
 * Questions to the kernel by rtnetlink(7): one that has one answer, and lists ("dumps"). A socket is opened for each, so
 * that no state is shared between threads.
 */
#ifndef VB_IO_RTNETLINK_H
#define VB_IO_RTNETLINK_H

#include <stdint.h>

struct nlmsghdr;

enum { VB_RTNETLINK_DUMPS = 16 };

/* One message of the answer. What it returns is the result, if it is not 0. */
typedef int (*vb_rtnetlink_take)(void *context, const struct nlmsghdr *message);

/* 0 or -errno: what the kernel answered, `take` returned or the socket failed with; -EBADMSG: that was no answer. */
int vb_rtnetlink_ask(const struct nlmsghdr *question, vb_rtnetlink_take take, void *context);

/* All of one kind (RTM_GETLINK, ...). The kernel says when the list changed while it was read, and may then have left out
 * or doubled what is in it: `begin` is called again and all is read anew, VB_RTNETLINK_DUMPS times, and then -EAGAIN. */
int vb_rtnetlink_dump(uint16_t type, void (*begin)(void *context), vb_rtnetlink_take take, void *context);

#endif
