/* SPDX-License-Identifier: MIT
 *
 * How the library that `verbena run` preloads and libibverbs meet, so that a thread which waits for a completion channel by poll or
 * epoll sleeps on the sockets of the wire itself, as one in ibv_get_cq_event does (schedule/waiter.h). The former sees those calls
 * (preload/wait_calls.c), the latter knows what to sleep on (verbs/descriptor_wait.c), and neither is linked with the other: libibverbs
 * looks for the function below by its name. Where there is none such threads are woken by the engine thread, by way of the channel.
 */
#ifndef VB_WIRE_WAITING_H
#define VB_WIRE_WAITING_H

#include <stdbool.h>
#include <stdint.h>

struct pollfd;
struct timespec;

struct vb_waiting {
	uint32_t version;
	/* By libibverbs. As ppoll (`mask`: a sigset_t); `fds` has room for one more than `count`. Not for what does not wait: a timeout of
	 * 0. */
	int (*sleep)(struct pollfd *fds, unsigned long count, const struct timespec *timeout, const void *mask);
	/* By the preloaded library. Such a descriptor is a channel's from now on, or is none any more. */
	void (*note)(int fd, bool is_channel);
	/* The C library's, past that library. */
	int (*ppoll)(struct pollfd *fds, unsigned long count, const struct timespec *timeout, const void *mask);
};

enum { VB_WAITING_VERSION = 1 };

#define VB_WAITING_NAME "verbena_waiting"
/* False: not of that version. `waiting` stays for good. */
typedef bool vb_waiting_function(struct vb_waiting *waiting);

#endif
