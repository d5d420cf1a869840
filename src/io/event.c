/* SPDX-License-Identifier: MIT
 *
 * eventfd(2), ppoll(2), epoll(7), prctl(2).
 */
#include "io/event.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "io/clock.h"
#include "io/descriptor.h"
#include "io/uncancelled.h"

/* The least that the kernel takes. */
#define VB_SLICE_OF_RELAYS 100000

int vb_event_open(void)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	return fd < 0 ? -errno : vb_descriptor_lift(fd);
}

void vb_event_raise(int fd)
{
	uint64_t one = 1;

	/* Fails only when the counter is full, and then the sleeper is awake. */
	while (vb_call_write(fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

void vb_event_clear(int fd)
{
	uint64_t count;

	while (vb_call_read(fd, &count, sizeof(count)) < 0 && errno == EINTR)
		;
}

void vb_wait(struct vb_wait_item *items, unsigned count, vb_time deadline)
{
	struct pollfd set[VB_WAIT_ITEMS];
	struct timespec timeout = {0, 0};

	assert(count <= VB_WAIT_ITEMS);
	for (unsigned i = 0; i < count; i++)
		set[i] = (struct pollfd){.fd = items[i].fd, .events = POLLIN};
	if (deadline != VB_TIME_NEVER) {
		vb_time left = deadline - vb_clock_now();

		if (left > 0)
			timeout = (struct timespec){left / 1000000000, left % 1000000000};
	}
	if (ppoll(set, count, deadline == VB_TIME_NEVER ? NULL : &timeout, NULL) < 0)
		for (unsigned i = 0; i < count; i++)
			set[i].revents = 0;
	for (unsigned i = 0; i < count; i++)
		items[i].readable = items[i].fd >= 0 && set[i].revents != 0;
}

int vb_poller_open(void)
{
	int fd = epoll_create1(EPOLL_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int add(int poller, int fd, void *tag, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = tag};

	return epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}

int vb_poller_add(int poller, int fd, void *tag)
{
	return add(poller, fd, tag, EPOLLIN);
}

int vb_poller_add_for_errors(int poller, int fd, void *tag)
{
	return add(poller, fd, tag, 0);
}

static uint32_t events_of(bool read, bool write)
{
	return (read ? EPOLLIN : 0) | (write ? EPOLLOUT : 0);
}

int vb_poller_add_wanting(int poller, int fd, void *tag, bool read, bool write)
{
	return add(poller, fd, tag, events_of(read, write));
}

void vb_poller_remove(int poller, int fd)
{
	epoll_ctl(poller, EPOLL_CTL_DEL, fd, NULL);
}

void vb_poller_want(int poller, int fd, void *tag, bool read, bool write)
{
	struct epoll_event event = {.events = events_of(read, write), .data.ptr = tag};

	epoll_ctl(poller, EPOLL_CTL_MOD, fd, &event);
}

void vb_poller_want_write(int poller, int fd, void *tag, bool wanted)
{
	vb_poller_want(poller, fd, tag, true, wanted);
}

unsigned vb_poller_wait(int poller, void **tags, unsigned room, vb_time deadline)
{
	struct epoll_event events[64];
	int timeout = -1, count;

	if (deadline != VB_TIME_NEVER) {
		vb_time left = deadline - vb_clock_now();

		/* Rounded up: waking early would only mean waiting again. */
		timeout = left <= 0 ? 0 : left > VB_SECONDS(1000) ? 1000000 : (int)((left + 999999) / 1000000);
	}
	count = epoll_wait(poller, events, room < 64 ? (int)room : 64, timeout);
	for (int i = 0; i < count; i++)
		tags[i] = events[i].data.ptr;
	return count < 0 ? 0 : (unsigned)count;
}

void vb_thread_prepare(const char *name)
{
	prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0);
	prctl(PR_SET_NAME, name, 0, 0, 0);
}

/* sched_setattr(2), which glibc has no function for before 2.41. */
struct scheduling {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

void vb_thread_prefer_soon(void)
{
	struct scheduling scheduling = {.size = sizeof(scheduling)};

	/* Since Linux 6.12 `runtime` of an ordinary thread is its slice: one that wakes with a shorter slice than the running
	 * thread's takes over at once. Programs that poll their queues use theirs up, some milliseconds. */
	if (syscall(SYS_sched_getattr, 0, &scheduling, sizeof(scheduling), 0) != 0 || scheduling.policy != SCHED_OTHER)
		return;
	scheduling.runtime = VB_SLICE_OF_RELAYS;
	(void)syscall(SYS_sched_setattr, 0, &scheduling, 0);
}

unsigned vb_processors(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
}

int vb_thread_cpu(void)
{
	return sched_getcpu();
}

void vb_thread_yield(void)
{
	sched_yield();
}
