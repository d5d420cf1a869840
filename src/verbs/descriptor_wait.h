/* SPDX-License-Identifier: MIT
 *
 * How a thread waits that waits for a channel's descriptor by poll or epoll, where `verbena run` lets us know of it (wire/waiting.h): on
 * the sockets of the wire and on what host peers raise as well, if it may (schedule/waiter.h), and then it makes the pass that raises the
 * channel.
 */
#ifndef VB_VERBS_DESCRIPTOR_WAIT_H
#define VB_VERBS_DESCRIPTOR_WAIT_H

#include <stdbool.h>

/* Such a descriptor is one from now on, or before it is closed no more. */
void vb_descriptor_wait_note(int fd, bool is_channel);

#endif
