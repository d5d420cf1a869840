/* SPDX-License-Identifier: MIT
 *
 * One thread with an epoll set of event channels and UDP sockets, started when the first is added. An event names a
 * descriptor only; the table says which rsocket that is now, if any, so a closed one needs no farewell.
 */
#include "rdmacm/rsocket/service.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/list.h"
#include "base/mutex.h"
#include "base/time.h"
#include "io/descriptor.h"
#include "io/event.h"
#include "io/thread.h"
#include "rdmacm/rsocket/rsocket.h"
#include "rdmacm/rsocket/wait.h"

enum { EVENTS_AT_ONCE = 16 };

struct keep_alive {
	struct vb_list node;
	int fd;
	vb_time period, next;
};

static struct {
	struct vb_mutex lock;
	bool started, watches_forks;
	int poller, wake_fd;             /* wake_fd: the earliest keep-alive may have changed */
	struct vb_list keep_alives;
} service = {
	.lock = VB_MUTEX_INITIALIZER(VB_RANK_RSOCKET_SERVICE),
	.poller = -1,
	.wake_fd = -1,
	.keep_alives = {&service.keep_alives, &service.keep_alives},
};

static void before_fork(void) VB_TAKES(service.lock)
{
	vb_mutex_lock(&service.lock);
}

static void after_fork_in_parent(void) VB_RELEASES(service.lock)
{
	vb_mutex_unlock(&service.lock);
}

/* The thread and its set are the parent's; the child starts its own when it needs one. */
static void after_fork_in_child(void) VB_RELEASES(service.lock)
{
	if (service.started) {
		close(service.poller);
		close(service.wake_fd);
		service.started = false;
		VB_LIST_FOR_EACH(node, &service.keep_alives) {
			vb_list_remove(node);
			free(vb_container_of(node, struct keep_alive, node));
		}
	}
	vb_mutex_unlock(&service.lock);
}

/* The descriptor whose keep-alive is due at `now`, or -1; `next` is when the earliest is. */
static int due_keep_alive(vb_time now, vb_time *next)
{
	int fd = -1;

	*next = VB_TIME_NEVER;
	vb_mutex_lock(&service.lock);
	VB_LIST_FOR_EACH(node, &service.keep_alives) {
		struct keep_alive *keep_alive = vb_container_of(node, struct keep_alive, node);

		if (keep_alive->next <= now && fd < 0) {
			fd = keep_alive->fd;
			keep_alive->next = now + keep_alive->period;
		}
		*next = vb_time_earlier(*next, keep_alive->next);
	}
	vb_mutex_unlock(&service.lock);
	return fd;
}

/* Milliseconds until the next one, as epoll_wait counts. */
static int keep_alive_all(void)
{
	vb_time now = vb_rsocket_now(), next;
	int fd;

	while ((fd = due_keep_alive(now, &next)) >= 0) {
		struct vb_rsocket *rs = vb_rsocket_enter(fd);

		if (rs == NULL)
			continue;
		if (rs->kind->keep_alive != NULL)
			rs->kind->keep_alive(rs);
		vb_rsocket_leave(rs);
	}
	if (next == VB_TIME_NEVER)
		return -1;
	next = (next - now) / VB_MILLISECONDS(1) + 1;
	return next > 1000000 ? 1000000 : (int)next;
}

static void *serve(void *unused)
{
	int poller, wake_fd;

	(void)unused;
	vb_mutex_lock(&service.lock);
	poller = service.poller;
	wake_fd = service.wake_fd;
	vb_mutex_unlock(&service.lock);
	for (;;) {
		struct epoll_event events[EVENTS_AT_ONCE];
		int count = epoll_wait(poller, events, EVENTS_AT_ONCE, keep_alive_all());

		for (int i = 0; i < count; i++) {
			struct vb_rsocket *rs;

			if (events[i].data.fd == wake_fd) {
				vb_rsocket_wake_clear(wake_fd);
				continue;
			}
			rs = vb_rsocket_get(events[i].data.fd);
			if (rs == NULL)
				continue;
			rs->kind->attend(rs);
			vb_rsocket_put(rs);
		}
	}
	return NULL;
}

/* An event of `fd` will be reported under the name `key`. Caller holds service.lock. */
static int watch_descriptor(int operation, int fd, int key)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = key};

	return epoll_ctl(service.poller, operation, fd, &event) == 0 ? 0 : -errno;
}

/* Caller holds service.lock. */
static int start(void)
{
	int error;

	if (service.started)
		return 0;
	if (!service.watches_forks)
		service.watches_forks = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) == 0;
	service.poller = epoll_create1(EPOLL_CLOEXEC);
	if (service.poller < 0)
		return -errno;
	service.poller = vb_descriptor_lift(service.poller);
	service.wake_fd = vb_event_open();
	error = service.wake_fd;
	if (service.wake_fd >= 0)
		error = watch_descriptor(EPOLL_CTL_ADD, service.wake_fd, service.wake_fd);
	if (error == 0)
		error = vb_thread_start_detached(serve, NULL);
	if (error == 0) {
		service.started = true;
		return 0;
	}
	if (service.wake_fd >= 0)
		close(service.wake_fd);
	close(service.poller);
	return error;
}

int vb_rsocket_service_add(struct vb_rsocket *rs)
{
	int error;

	if (rs->attended)
		return 0;
	vb_mutex_lock(&service.lock);
	error = start();
	if (error == 0)
		error = watch_descriptor(EPOLL_CTL_ADD, rs->event_fd, rs->fd);
	vb_mutex_unlock(&service.lock);
	rs->attended = error == 0;
	return error;
}

void vb_rsocket_service_remove(struct vb_rsocket *rs)
{
	if (!rs->attended)
		return;
	vb_mutex_lock(&service.lock);
	if (service.started)
		epoll_ctl(service.poller, EPOLL_CTL_DEL, rs->event_fd, NULL);
	vb_mutex_unlock(&service.lock);
	rs->attended = false;
}

/* What was reported under the old name and found no rsocket is reported again: the set is level-triggered. */
void vb_rsocket_service_rename(struct vb_rsocket *rs)
{
	if (!rs->attended)
		return;
	vb_mutex_lock(&service.lock);
	if (service.started)
		watch_descriptor(EPOLL_CTL_MOD, rs->event_fd, rs->fd);
	vb_mutex_unlock(&service.lock);
}

/* Caller holds service.lock. */
static struct keep_alive *find_keep_alive(int fd)
{
	VB_LIST_FOR_EACH(node, &service.keep_alives) {
		struct keep_alive *keep_alive = vb_container_of(node, struct keep_alive, node);

		if (keep_alive->fd == fd)
			return keep_alive;
	}
	return NULL;
}

/* Caller holds service.lock. */
static int set_keep_alive(int fd, vb_time period)
{
	struct keep_alive *keep_alive = find_keep_alive(fd);
	int error = start();

	if (error != 0)
		return error;
	if (keep_alive == NULL) {
		keep_alive = calloc(1, sizeof(*keep_alive));
		if (keep_alive == NULL)
			return -ENOMEM;
		keep_alive->fd = fd;
		vb_list_append(&service.keep_alives, &keep_alive->node);
	}
	keep_alive->period = period;
	keep_alive->next = vb_rsocket_now() + period;
	(void)!write(service.wake_fd, &(uint64_t){1}, sizeof(uint64_t));
	return 0;
}

int vb_rsocket_service_keep_alive(int fd, unsigned seconds)
{
	struct keep_alive *keep_alive;
	int error = 0;

	vb_mutex_lock(&service.lock);
	if (seconds != 0) {
		error = set_keep_alive(fd, VB_SECONDS(seconds));
	} else {
		keep_alive = find_keep_alive(fd);
		if (keep_alive != NULL) {
			vb_list_remove(&keep_alive->node);
			free(keep_alive);
		}
	}
	vb_mutex_unlock(&service.lock);
	return error;
}
