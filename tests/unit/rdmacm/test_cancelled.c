/* SPDX-License-Identifier: MIT
 *
 * Threads of programs that cancel them (pthread_cancel, pthreads(7)), or leave them behind. A thread that waits for an event is
 * cancelled, and another then has the next event. One that was told to end beforehand comes back from each call of librdmacm that takes
 * locks. One that waits while another thread destroys the channel, as rping's does when rping ends, is not told of that. And a wait may
 * be left by a signal handler's longjmp.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <rdma/rdma_cma.h>

#include "lib/patience.h"
#include "lib/private_network.h"

static struct sockaddr_in address_of(uint16_t port)
{
	return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

#ifndef __SANITIZE_ADDRESS__
/* ---- a thread that waits for an event ---- */

struct waiter {
	struct rdma_event_channel *channel;
	pthread_t thread;
	sem_t ready;
	int look;                        /* /proc/.../syscall of it */
};

static void *wait_for_event(void *argument)
{
	struct waiter *waiter = argument;
	struct rdma_cm_event *event;

	waiter->look = open("/proc/thread-self/syscall", O_RDONLY | O_CLOEXEC);
	sem_post(&waiter->ready);
	return rdma_get_cm_event(waiter->channel, &event) == 0 ? (void *)event : NULL;
}

static bool sleeps(const struct waiter *waiter)
{
	char said[256] = "";

	return pread(waiter->look, said, sizeof(said) - 1, 0) > 0 && atoi(said) == SYS_futex;
}

static void start(struct waiter *waiter, struct rdma_event_channel *channel)
{
	waiter->channel = channel;
	assert_int_equal(sem_init(&waiter->ready, 0, 0), 0);
	assert_int_equal(pthread_create(&waiter->thread, NULL, wait_for_event, waiter), 0);
	assert_int_equal(sem_wait(&waiter->ready), 0);
	assert_true(waiter->look >= 0);
	assert_true(eventually(sleeps(waiter)));
}

static void *end_of(struct waiter *waiter)
{
	void *result;

	assert_int_equal(pthread_join(waiter->thread, &result), 0);
	close(waiter->look);
	sem_destroy(&waiter->ready);
	return result;
}

static struct rdma_cm_id *resolve(struct rdma_event_channel *channel)
{
	struct sockaddr_in there = address_of(7000);
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&there, 1000), 0);
	return id;
}

static void is_cancelled_while_it_waits(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	struct waiter first, second;

	(void)state;
	start(&first, channel);
	start(&second, channel);
	assert_int_equal(pthread_cancel(first.thread), 0);
	assert_ptr_equal(end_of(&first), PTHREAD_CANCELED);
	id = resolve(channel);
	event = end_of(&second);
	assert_non_null(event);
	assert_int_equal(event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

#endif
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* ---- a channel that is destroyed ---- */

static sem_t held, go;

static void hold(int signal)
{
	(void)signal;
	sem_post(&held);
	while (sem_wait(&go) != 0)
		;
}

/* There is an event for it, which is gone before the thread gets the processor. It then finds that there is no channel. */
static void waits_on_when_its_channel_is_destroyed(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sigaction action = {.sa_handler = hold, .sa_flags = SA_RESTART};
	struct waiter waiter;

	(void)state;
	assert_int_equal(sem_init(&held, 0, 0), 0);
	assert_int_equal(sem_init(&go, 0, 0), 0);
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	start(&waiter, channel);
	assert_int_equal(pthread_kill(waiter.thread, SIGUSR1), 0);
	assert_int_equal(sem_wait(&held), 0);
	assert_int_equal(rdma_destroy_id(resolve(channel)), 0);
	rdma_destroy_event_channel(channel);
	assert_int_equal(sem_post(&go), 0);
	/* It ends when it is told to, and not before. */
	assert_int_equal(pthread_cancel(waiter.thread), 0);
	assert_ptr_equal(end_of(&waiter), PTHREAD_CANCELED);
}

/* ---- a wait that is left by a handler ---- */

static sigjmp_buf away;

static void leave_by_longjmp(int signal)
{
	(void)signal;
	siglongjmp(away, 1);
}

struct jumper {
	struct waiter waiter;
	int state, type;
	bool came_back;
};

static void *jump_and_go_on(void *argument)
{
	struct jumper *jumper = argument;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;

	if (sigsetjmp(away, 1) == 0) {
		(void)wait_for_event(&jumper->waiter);
		return NULL;
	}
	channel = rdma_create_event_channel();
	(void)pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &jumper->state);
	(void)pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &jumper->type);
	pthread_cancel(pthread_self());
	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0 && rdma_destroy_id(id) == 0)
		jumper->came_back = true;
	rdma_destroy_event_channel(channel);
	pthread_testcancel();
	return NULL;
}

/* From there on the thread is as cancellable as it was, another has the next event, and the channel can be destroyed. */
static void a_wait_that_a_handler_leaves(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sigaction action = {.sa_handler = leave_by_longjmp};
	struct jumper jumper = {.waiter.channel = channel};
	struct waiter waiter;
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	(void)state;
	assert_int_equal(sigaction(SIGUSR2, &action, NULL), 0);
	assert_int_equal(sem_init(&jumper.waiter.ready, 0, 0), 0);
	assert_int_equal(pthread_create(&jumper.waiter.thread, NULL, jump_and_go_on, &jumper), 0);
	assert_int_equal(sem_wait(&jumper.waiter.ready), 0);
	assert_true(eventually(sleeps(&jumper.waiter)));
	assert_int_equal(pthread_kill(jumper.waiter.thread, SIGUSR2), 0);
	assert_ptr_equal(end_of(&jumper.waiter), PTHREAD_CANCELED);
	assert_true(jumper.came_back);
	assert_int_equal(jumper.state, PTHREAD_CANCEL_ENABLE);
	assert_int_equal(jumper.type, PTHREAD_CANCEL_DEFERRED);
	start(&waiter, channel);
	id = resolve(channel);
	event = end_of(&waiter);
	assert_non_null(event);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

#endif

/* ---- a thread that was told to end ---- */

static struct rdma_cm_event *next_event(struct rdma_event_channel *channel)
{
	struct rdma_cm_event *event = NULL;

	/* It would be cancelled where it waits. */
	for (unsigned i = 0; i < 100000000 && rdma_get_cm_event(channel, &event) != 0 && errno == EAGAIN; i++)
		sched_yield();
	return event;
}

struct life {
	unsigned steps;
	bool came_back;
};

static bool step(struct life *life, int result)
{
	life->steps += result == 0;
	return result == 0;
}

static void *live(void *argument)
{
	struct sockaddr_in here = address_of(0), there = address_of(7001);
	struct life *life = argument;
	struct rdma_event_channel *channel = NULL;
	struct rdma_cm_event *event;
	struct rdma_cm_id *id, *listener;
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC,
					.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};
	int before;

	pthread_cancel(pthread_self());
	channel = rdma_create_event_channel();
	/* No call of the C library that might end the thread. */
	(void)syscall(SYS_fcntl, channel->fd, F_SETFL, O_NONBLOCK);
	if (step(life, rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP)) &&
	    step(life, rdma_bind_addr(listener, (struct sockaddr *)&here)) &&
	    step(life, rdma_listen(listener, 1)) && step(life, rdma_create_id(channel, &id, NULL, RDMA_PS_TCP)) &&
	    step(life, rdma_resolve_addr(id, NULL, (struct sockaddr *)&there, 1000))) {
		event = next_event(channel);
		if (event && step(life, rdma_ack_cm_event(event)) && step(life, rdma_create_qp(id, NULL, &attr))) {
			rdma_destroy_qp(id);
			life->steps++;
		}
		(void)step(life, rdma_destroy_id(id));
		(void)step(life, rdma_destroy_id(listener));
	}
	rdma_destroy_event_channel(channel);
	life->came_back = true;
	/* AddressSanitizer takes the stack of a thread that is really cancelled for a wrong one. */
	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return NULL;
}

static void is_not_cancelled_in_calls_that_take_locks(void **state)
{
	struct life life = {0};
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, live, &life), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(life.came_back);
	assert_int_equal(life.steps, 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_not_cancelled_in_calls_that_take_locks),
#ifndef __SANITIZE_ADDRESS__
		cmocka_unit_test(is_cancelled_while_it_waits),
#ifndef __SANITIZE_THREAD__ /* which runs no handler while a system call waits that it does not know */
		cmocka_unit_test(waits_on_when_its_channel_is_destroyed),
		cmocka_unit_test(a_wait_that_a_handler_leaves),
#endif
#endif
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
