/* SPDX-License-Identifier: MIT
 *
 * See descriptor_wait.h.
 */
#include "verbs/descriptor_wait.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <time.h>

#include "io/cancellation.h"
#include "progress/endpoint.h"
#include "wire/waiting.h"

static int sleep_beside(struct pollfd *fds, unsigned long count, const struct timespec *timeout, const void *mask);

static struct vb_waiting waiting = {.version = VB_WAITING_VERSION, .sleep = sleep_beside};
static bool is_met;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* While a thread is here, or left its sleep by longjmp. */
static _Thread_local struct vb_endpoint *visited;

static void meet(void)
{
	vb_waiting_function *function = NULL;

	*(void **)&function = dlsym(RTLD_DEFAULT, VB_WAITING_NAME);
	is_met = function != NULL && function(&waiting);
}

void vb_descriptor_wait_note(int fd, bool is_channel)
{
	(void)pthread_once(&once, meet);
	if (is_met)
		waiting.note(fd, is_channel);
}

static void end_visit(void)
{
	struct vb_endpoint *endpoint = visited;
	int saved = errno;

	if (endpoint == NULL)
		return;
	visited = NULL;
	vb_endpoint_sleep_end(endpoint);
	vb_endpoint_put(endpoint);
	errno = saved;
}

/* Of a thread that is cancelled while it sleeps, or was after it had left its sleep. */
static void give_up(void *unused)
{
	(void)unused;
	end_visit();
}

static int poll_at_once(struct pollfd *fds, unsigned long count, const void *mask)
{
	const struct timespec none = {0};

	return waiting.ppoll(fds, count, &none, mask);
}

static int sleep_on(struct pollfd *fds, unsigned long count, const struct timespec *timeout, const void *mask)
{
	unsigned owed = vb_cancellation_owe(give_up, NULL);
	int result = waiting.ppoll(fds, count, timeout, mask);

	vb_cancellation_settled(owed);
	return result;
}

/* What was posted leaves before this thread sleeps. True: until the end of the sleep `fds` has the descriptor of the wire behind all
 * others. */
static bool begin(struct vb_endpoint *endpoint, struct pollfd *wire, vb_time since, bool *has_worked)
{
	enum vb_sleep_look found = VB_SLEEP_ELSEWHERE;

	*wire = (struct pollfd){.fd = vb_endpoint_sleep_begin(endpoint, VB_SLEEPER_HAS_ARMED), .events = POLLIN};
	if (wire->fd >= 0)
		found = vb_endpoint_sleep_look(endpoint, since);
	*has_worked = found == VB_SLEEP_DONE;
	if (found == VB_SLEEP_ON)
		return true;
	vb_endpoint_sleep_end(endpoint);
	return false;
}

/* Once. 0: and not yet. */
static int sleep_once(struct vb_endpoint *endpoint, struct pollfd *fds, unsigned long count, const struct timespec *timeout,
		      const void *mask, bool *goes_on)
{
	struct pollfd *wire = &fds[count];
	vb_time since = vb_endpoint_now();
	bool has_worked;
	int result;

	*goes_on = false;
	if (!begin(endpoint, wire, since, &has_worked)) {
		*goes_on = has_worked;
		return has_worked ? poll_at_once(fds, count, mask) : sleep_on(fds, count, timeout, mask);
	}
	result = sleep_on(fds, count + 1, timeout, mask);
	vb_endpoint_sleep_end(endpoint);
	if (result <= 0 || wire->revents == 0)
		return result;
	(void)vb_endpoint_sleep_pass(endpoint, since);
	*goes_on = true;
	return poll_at_once(fds, count, mask);
}

static int sleep_until_ready(struct vb_endpoint *endpoint, struct pollfd *fds, unsigned long count, const struct timespec *timeout,
			     const void *mask)
{
	vb_time deadline = timeout == NULL || timeout->tv_sec > INT32_MAX ? VB_TIME_NEVER :
			   vb_endpoint_now() + VB_SECONDS(timeout->tv_sec) + timeout->tv_nsec;
	struct timespec left;
	bool goes_on;
	int result;

	do {
		vb_time now = deadline == VB_TIME_NEVER ? 0 : vb_endpoint_now();

		if (now >= deadline)
			return poll_at_once(fds, count, mask);
		left = (struct timespec){.tv_sec = (deadline - now) / VB_SECONDS(1), .tv_nsec = (deadline - now) % VB_SECONDS(1)};
		result = sleep_once(endpoint, fds, count, deadline == VB_TIME_NEVER ? NULL : &left, mask, &goes_on);
	} while (result == 0 && goes_on);
	return result;
}

static int sleep_beside(struct pollfd *fds, unsigned long count, const struct timespec *timeout, const void *mask)
{
	struct vb_endpoint *endpoint;
	int result;

	end_visit();
	/* Sockets over RDMA, or ibv_get_cq_event: it sleeps on the wire as it is. */
	endpoint = vb_endpoint_sleep_is_begun() ? NULL : vb_endpoint_visit();
	if (endpoint == NULL)
		return waiting.ppoll(fds, count, timeout, mask);
	visited = endpoint;
	result = sleep_until_ready(endpoint, fds, count, timeout, mask);
	end_visit();
	return result;
}
