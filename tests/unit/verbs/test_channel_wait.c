/* SPDX-License-Identifier: MIT
 *
 * Threads that wait for a channel and sleep on what tells that something has come: in ibv_get_cq_event (verbs/channel_wait.h), and, where
 * the preloaded library is there, which is linked in here, in poll or epoll_wait (verbs/descriptor_wait.h). By wire, and through memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/engine_stop.h"
#include "lib/one_pair.h"
#include "lib/patience.h"
#include "lib/private_network.h"
#include "lib/two_processes.h"
#include "wire/sleeping_call.h"

int execute_ioctl(struct ibv_context *context, void *command);

enum { ROUNDS = 50, SIZE = 64, BATCH = 32, THREADS = 3 };

static enum { BY_CALL, BY_POLL, BY_EPOLL } way;

static int say(enum vb_sleeping_verb verb)
{
	struct vb_sleeping_call call = {.magic = VB_SLEEPING_MAGIC, .version = VB_SLEEPING_VERSION, .verb = verb, .fd = -1};

	return execute_ioctl(world.context, &call);
}

/* From now on this thread sleeps on the sockets, as long as no other goes to sleep. */
static void be_the_one(void)
{
	int64_t since = patience_clock();

	while (say(VB_SLEEPING_BEGIN) != 0)
		patience_rest(since);
	assert_int_equal(say(VB_SLEEPING_END), 0);
}

static void arm(struct ibv_cq *cq)
{
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
}

static int open_set(const struct ibv_comp_channel *channel)
{
	struct epoll_event readable = {.events = EPOLLIN};
	int set = epoll_create1(EPOLL_CLOEXEC);

	assert_true(set >= 0);
	assert_int_equal(epoll_ctl(set, EPOLL_CTL_ADD, channel->fd, &readable), 0);
	return set;
}

/* As poll, for the channel alone. */
static int wait_for(const struct ibv_comp_channel *channel, int timeout)
{
	struct pollfd one = {.fd = channel->fd, .events = POLLIN};
	struct epoll_event found;
	int set, result;

	if (way == BY_POLL)
		return poll(&one, 1, timeout);
	set = open_set(channel);
	result = epoll_wait(set, &found, 1, timeout);
	close(set);
	return result;
}

static struct ibv_cq *take_any_event(struct ibv_comp_channel *channel)
{
	struct ibv_cq *cq;
	void *context;

	if (way != BY_CALL)
		assert_int_equal(wait_for(channel, -1), 1);
	assert_int_equal(ibv_get_cq_event(channel, &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
	return cq;
}

static void post_send(struct pair *of, int side, uint64_t number, bool signaled)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = pair_request(of, side, IBV_WR_SEND, &sge, 0, SIZE);

	wr.wr_id = number;
	wr.send_flags = signaled ? IBV_SEND_SIGNALED : 0;
	pair_post(of, side, &wr);
}

/* ---- with an engine thread that is stopped ---- */

/* Long enough for what is posted next to wait for the next poll. */
static void spin(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	for (int64_t began = patience_clock(); patience_clock() - began < 5;)
		assert_int_equal(ibv_poll_cq(cq, 1, &wc), 0);
}

static void wait_without_engine(int fd)
{
	struct card other, nothing;
	struct ibv_comp_channel *channel;

	world_open(&world, "lo");
	channel = open_channel();
	pair_open(&pair, &world, &(struct pair_options){.stay_in_reset = true, .channel = channel});
	talk(fd, &(const struct card){.qpn = pair.qp[CHILD]->qp_num}, &other);
	pair.elsewhere = other.qpn;
	pair_to_init(&pair, CHILD);
	pair_to_rtr(&pair, CHILD);
	pair_to_rts(&pair, CHILD);
	pair_receive(&pair, CHILD, 1, 0, SIZE);
	meet(fd);                        /* both are ready */
	be_the_one();
	talk(fd, &(const struct card){.qpn = (uint32_t)engine_asleep()}, &nothing);
	meet(fd);                        /* it is stopped */

	arm(pair.cq[CHILD]);
	meet(fd);                        /* a message is sent */
	assert_ptr_equal(take_any_event(channel), pair.cq[CHILD]);
	expect_completion(pair.cq[CHILD], 1, IBV_WC_RECV);

	spin(pair.cq[CHILD]);
	for (unsigned i = 1; i <= BATCH; i++)
		post_send(&pair, CHILD, i, i == BATCH);
	arm(pair.cq[CHILD]);
	assert_ptr_equal(take_any_event(channel), pair.cq[CHILD]);
	expect_completion(pair.cq[CHILD], BATCH, IBV_WC_SEND);
	meet(fd);
	meet(fd);                        /* it goes on */
	pair_close(&pair);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
	world_close(&world);
}

/* What wakes it, and what it posted: none of it is left to the engine thread. */
static void it_takes_and_sends_itself(void **state)
{
	/* No packet is sent twice, but in ages: one would wake it in any case. */
	const struct pair_options options = {.timeout = 20};
	struct card other;
	pid_t child, engine;
	int fd;

	(void)state;
	child = start(wait_without_engine, &fd);
	open_half(&world, &pair, PARENT, &options, fd, &other);
	for (unsigned i = 1; i <= BATCH; i++)
		pair_receive(&pair, PARENT, i, 0, SIZE);
	talk(fd, &(const struct card){0}, &other);
	engine = (pid_t)other.qpn;
	stop_engine(engine);
	meet(fd);
	meet(fd);
	post_send(&pair, PARENT, 1, false);
	for (unsigned i = 1; i <= BATCH; i++)
		expect_completion(pair.cq[PARENT], i, IBV_WC_RECV);
	meet(fd);
	resume_engine(engine);
	meet(fd);
	finish(child, fd);
	close_half(&world, &pair);
}

/* ---- with one ---- */

/* Both CQs of the pair have an event, of one pass or of two. Who takes the first leaves a channel that says that there is a second. */
static void each_event_is_told_of(void **state)
{
	struct ibv_comp_channel *channel = pair.options.channel;

	(void)state;
	be_the_one();
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct ibv_cq *first, *second;

		arm(pair.cq[0]);
		arm(pair.cq[1]);
		pair_receive(&pair, 1, i, 0, SIZE);
		post_send(&pair, 0, i, true);
		first = take_any_event(channel);
		assert_int_equal(poll(&(struct pollfd){.fd = channel->fd, .events = POLLIN}, 1, PATIENCE_MS), 1);
		second = take_any_event(channel);
		assert_ptr_not_equal(first, second);
		assert_int_equal(poll(&(struct pollfd){.fd = channel->fd, .events = POLLIN}, 1, 0), 0);
		expect_completion(pair.cq[1], i, IBV_WC_RECV);
		expect_completion(pair.cq[0], i, IBV_WC_SEND);
	}
}

/* An event that is due by time, while the thread sleeps: no packet comes. */
static void what_is_due_by_time_comes(void **state)
{
	struct ibv_modify_cq_attr attr = {.attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = {.cq_count = 100, .cq_period = 3000}};

	(void)state;
	assert_int_equal(ibv_modify_cq(pair.cq[1], &attr), 0);
	be_the_one();
	for (unsigned i = 0; i < ROUNDS; i++) {
		arm(pair.cq[1]);
		pair_receive(&pair, 1, i, 0, SIZE);
		post_send(&pair, 0, i, true);
		assert_ptr_equal(take_any_event(pair.options.channel), pair.cq[1]);
		expect_completion(pair.cq[1], i, IBV_WC_RECV);
		expect_completion(pair.cq[0], i, IBV_WC_SEND);
	}
}

static void *exchange(void *of)
{
	struct pair *own = of;

	for (unsigned i = 0; i < ROUNDS; i++) {
		arm(own->cq[1]);
		pair_receive(own, 1, i, 0, SIZE);
		post_send(own, 0, i, true);
		assert_ptr_equal(take_any_event(own->options.channel), own->cq[1]);
		expect_completion(own->cq[1], i, IBV_WC_RECV);
		expect_completion(own->cq[0], i, IBV_WC_SEND);
	}
	return NULL;
}

/* Each with a channel of its own, and one that sleeps throughout. */
static void threads_have_each_their_own(void **state)
{
	struct pair own[THREADS];
	pthread_t thread[THREADS], sleeper;

	(void)state;
	be_the_one();
	arm(pair.cq[1]);
	pair_receive(&pair, 1, 7, 0, SIZE);
	assert_int_equal(pthread_create(&sleeper, NULL, (void *(*)(void *))take_any_event, pair.options.channel), 0);
	for (unsigned i = 0; i < THREADS; i++) {
		pair_open(&own[i], &world, &(struct pair_options){.channel = open_channel()});
		assert_int_equal(pthread_create(&thread[i], NULL, exchange, &own[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		struct ibv_comp_channel *channel = own[i].options.channel;

		assert_int_equal(pthread_join(thread[i], NULL), 0);
		pair_close(&own[i]);
		assert_int_equal(ibv_destroy_comp_channel(channel), 0);
	}
	post_send(&pair, 0, 7, true);
	assert_int_equal(pthread_join(sleeper, NULL), 0);
	expect_completion(pair.cq[1], 7, IBV_WC_RECV);
	expect_completion(pair.cq[0], 7, IBV_WC_SEND);
}

/* ---- poll and epoll_wait ---- */

static void *send_one(void *number)
{
	post_send(&pair, 0, *(uint64_t *)number, true);
	return NULL;
}

/* And that is all that is told of, again and again, until the event is taken. */
static void it_tells_what_is_ready(void **state)
{
	struct ibv_comp_channel *channel = pair.options.channel;
	int pipes[2];

	(void)state;
	be_the_one();
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	for (uint64_t i = 0; i < ROUNDS; i++) {
		struct pollfd fds[] = {{.fd = pipes[0], .events = POLLIN}, {.fd = -1, .events = POLLIN},
				       {.fd = channel->fd, .events = POLLIN}, {.fd = pipes[1], .events = POLLIN}};
		pthread_t sender;

		arm(pair.cq[1]);
		pair_receive(&pair, 1, i, 0, SIZE);
		assert_int_equal(pthread_create(&sender, NULL, send_one, &i), 0);
		for (unsigned again = 0; again < 2; again++) {
			assert_int_equal(poll(fds, 4, -1), 1);
			assert_int_equal(fds[0].revents | fds[1].revents | fds[3].revents, 0);
			assert_int_equal(fds[2].revents, POLLIN);
			assert_int_equal(wait_for(channel, -1), 1);
		}
		assert_int_equal(pthread_join(sender, NULL), 0);
		assert_ptr_equal(take_any_event(channel), pair.cq[1]);
		expect_completion(pair.cq[1], i, IBV_WC_RECV);
		expect_completion(pair.cq[0], i, IBV_WC_SEND);

		assert_int_equal(write(pipes[1], "x", 1), 1);
		assert_int_equal(poll(fds, 4, -1), 1);
		assert_int_equal(fds[0].revents, POLLIN);
		assert_int_equal(fds[2].revents, 0);
		assert_int_equal(read(pipes[0], &(char){0}, 1), 1);
	}
	close(pipes[0]);
	close(pipes[1]);
}

/* Packets that come meanwhile, and raise nothing, do not make it longer or shorter. */
static void it_waits_no_longer_than_told(void **state)
{
	(void)state;
	be_the_one();
	for (uint64_t i = 0; i < ROUNDS / 5; i++) {
		int64_t began = patience_clock();
		pthread_t sender;

		pair_receive(&pair, 1, i, 0, SIZE);
		assert_int_equal(pthread_create(&sender, NULL, send_one, &i), 0);
		assert_int_equal(wait_for(pair.options.channel, 20), 0);
		assert_true(patience_clock() - began >= 19);
		assert_int_equal(pthread_join(sender, NULL), 0);
		expect_completion(pair.cq[1], i, IBV_WC_RECV);
		expect_completion(pair.cq[0], i, IBV_WC_SEND);
	}
}

static void what_it_cannot_wait_for_the_kernel_refuses(void **state)
{
	struct pollfd one = {.fd = pair.options.channel->fd, .events = POLLIN};
	const struct timespec wrong = {.tv_nsec = 1000000000};
	struct pollfd *volatile nowhere = NULL; /* the compiler shall not see it */
	struct epoll_event found;
	int set = open_set(pair.options.channel);

	(void)state;
	assert_int_equal(ppoll(&one, 1, &wrong, NULL), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(epoll_wait(set, &found, 0, -1), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(epoll_pwait2(set, &found, 1, &wrong, NULL), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(poll(nowhere, 1, -1), -1);
	assert_int_equal(errno, EFAULT);
	close(set);
}

/* A child of fork has none of it, but the descriptor. */
static void a_child_waits_as_for_any_descriptor(void **state)
{
	int status;
	pid_t child;

	(void)state;
	be_the_one();
	child = fork();
	assert_true(child >= 0);
	if (child == 0)
		_exit(wait_for(pair.options.channel, 20) != 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/* ---- what ends its sleep ---- */

static void ignore(int number)
{
	(void)number;
}

static void handle(int flags)
{
	const struct sigaction action = {.sa_handler = ignore, .sa_flags = flags};

	assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
}

static void *send_after_some(void *unused)
{
	const struct timespec while_signals_come = {.tv_nsec = 30000000};

	(void)unused;
	(void)nanosleep(&while_signals_come, NULL);
	post_send(&pair, 0, 1, true);
	return NULL;
}

static void signals_end_it_or_do_not(void **state)
{
	/* Again and again: the first may come before it sleeps. */
	const struct itimerval soon = {.it_value = {.tv_usec = 5000}, .it_interval = {.tv_usec = 5000}}, never = {0};
	struct ibv_cq *cq;
	void *context;
	pthread_t sender;
	sigset_t alarm_only;

	(void)state;
	be_the_one();
	arm(pair.cq[1]);
	handle(0);
	assert_int_equal(setitimer(ITIMER_REAL, &soon, NULL), 0);
	assert_int_equal(ibv_get_cq_event(pair.options.channel, &cq, &context), -1);
	assert_int_equal(errno, EINTR);
	assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);

	handle(SA_RESTART);
	pair_receive(&pair, 1, 1, 0, SIZE);
	sigemptyset(&alarm_only);
	sigaddset(&alarm_only, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &alarm_only, NULL); /* the sender shall not get it */
	assert_int_equal(pthread_create(&sender, NULL, send_after_some, NULL), 0);
	pthread_sigmask(SIG_UNBLOCK, &alarm_only, NULL);
	be_the_one();
	assert_int_equal(setitimer(ITIMER_REAL, &soon, NULL), 0);
	assert_ptr_equal(take_any_event(pair.options.channel), pair.cq[1]);
	assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
	assert_int_equal(pthread_join(sender, NULL), 0);
	expect_completion(pair.cq[1], 1, IBV_WC_RECV);
	expect_completion(pair.cq[0], 1, IBV_WC_SEND);
	signal(SIGALRM, SIG_DFL);
}

static volatile sig_atomic_t alarms;

static void count_alarm(int number)
{
	(void)number;
	alarms = alarms + 1;
}

/* poll and epoll_wait are not restarted, whatever the handler asks for. And a signal that is let through during the wait alone comes in
 * it. */
static void signals_end_a_wait(void **state)
{
	const struct sigaction action = {.sa_handler = count_alarm, .sa_flags = SA_RESTART};
	const struct itimerval soon = {.it_value = {.tv_usec = 5000}, .it_interval = {.tv_usec = 5000}}, never = {0};
	struct pollfd one = {.fd = pair.options.channel->fd, .events = POLLIN};
	struct epoll_event found;
	int set = open_set(pair.options.channel), before;
	sigset_t alarm_only, none;

	(void)state;
	be_the_one();
	assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
	assert_int_equal(setitimer(ITIMER_REAL, &soon, NULL), 0);
	assert_int_equal(wait_for(pair.options.channel, -1), -1);
	assert_int_equal(errno, EINTR);

	sigemptyset(&none);
	sigemptyset(&alarm_only);
	sigaddset(&alarm_only, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &alarm_only, NULL);
	before = alarms;
	assert_int_equal(way == BY_POLL ? ppoll(&one, 1, NULL, &none) : epoll_pwait(set, &found, 1, -1, &none), -1);
	assert_int_equal(errno, EINTR);
	assert_true(alarms > before);
	assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
	pthread_sigmask(SIG_UNBLOCK, &alarm_only, NULL);
	signal(SIGALRM, SIG_DFL);
	close(set);
}

static struct {
	sigjmp_buf away;
	sem_t ready, gone, closed;
	int look;                        /* /proc/.../syscall of it */
} jumper;

static void leave(int number)
{
	(void)number;
	siglongjmp(jumper.away, 1);
}

static bool jumper_sleeps(void)
{
	char said[256] = "";

	return pread(jumper.look, said, sizeof(said) - 1, 0) > 0 && atoi(said) == SYS_ppoll;
}

static void *jump(void *channel)
{
	if (sigsetjmp(jumper.away, 1) == 0) {
		be_the_one();
		jumper.look = open("/proc/thread-self/syscall", O_RDONLY | O_CLOEXEC);
		sem_post(&jumper.ready);
		return take_any_event(channel);
	}
	sem_post(&jumper.gone);
	while (sem_wait(&jumper.closed) != 0)
		;
	return NULL;
}

/* The thread ends when all is closed. */
static void a_handler_may_leave_it_by_longjmp(void **state)
{
	const struct sigaction action = {.sa_handler = leave};
	pthread_t thread;
	void *result;

	assert_int_equal(sigaction(SIGUSR2, &action, NULL), 0);
	assert_int_equal(sem_init(&jumper.ready, 0, 0) + sem_init(&jumper.gone, 0, 0) + sem_init(&jumper.closed, 0, 0), 0);
	open_pair(state);
	assert_int_equal(pthread_create(&thread, NULL, jump, pair.options.channel), 0);
	assert_int_equal(sem_wait(&jumper.ready), 0);
	assert_true(jumper.look >= 0);
	assert_true(eventually(jumper_sleeps()));
	assert_int_equal(pthread_kill(thread, SIGUSR2), 0);
	assert_int_equal(sem_wait(&jumper.gone), 0);
	close_pair(state);
	sem_post(&jumper.closed);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_null(result);
	close(jumper.look);
	signal(SIGUSR2, SIG_DFL);
}

#ifndef __SANITIZE_ADDRESS__
static void *wait_for_nothing(void *channel)
{
	be_the_one();
	return take_any_event(channel);
}

/* Then another may be the one. */
static void one_that_is_cancelled_gives_it_up(void **state)
{
	(void)state;
	for (unsigned i = 0; i < ROUNDS; i++) {
		pthread_t thread;
		void *result;

		assert_int_equal(pthread_create(&thread, NULL, wait_for_nothing, pair.options.channel), 0);
		assert_int_equal(pthread_cancel(thread), 0);
		assert_int_equal(pthread_join(thread, &result), 0);
		assert_ptr_equal(result, PTHREAD_CANCELED);
		be_the_one();
	}
}
#endif

#define EVERYWHERE                                              \
	cmocka_unit_test(it_takes_and_sends_itself),            \
	WITH_PAIR(each_event_is_told_of),                       \
	WITH_PAIR(what_is_due_by_time_comes),                   \
	WITH_PAIR(threads_have_each_their_own),                 \
	cmocka_unit_test(a_handler_may_leave_it_by_longjmp)
#ifdef __SANITIZE_ADDRESS__
#define WHERE_THREADS_ARE_CANCELLED
#else
#define WHERE_THREADS_ARE_CANCELLED WITH_PAIR(one_that_is_cancelled_gives_it_up),
#endif

static int run_by_call(void)
{
	const struct CMUnitTest by_call[] = {
		EVERYWHERE,
		WHERE_THREADS_ARE_CANCELLED
		WITH_PAIR(signals_end_it_or_do_not),
	};

	return cmocka_run_group_tests(by_call, NULL, NULL);
}

static int run_by_descriptor(const char *name)
{
	const struct CMUnitTest by_descriptor[] = {
		EVERYWHERE,
		WHERE_THREADS_ARE_CANCELLED
		WITH_PAIR(it_tells_what_is_ready),
		WITH_PAIR(it_waits_no_longer_than_told),
		WITH_PAIR(what_it_cannot_wait_for_the_kernel_refuses),
		WITH_PAIR(a_child_waits_as_for_any_descriptor),
		WITH_PAIR(signals_end_a_wait),
	};

	return cmocka_run_group_tests_name(name, by_descriptor, NULL, NULL);
}

/* The way of which this is the name; none: by ibv_get_cq_event. */
int main(int count, char **arguments)
{
	private_network_enter();
	if (count < 2)
		return run_by_call();
	way = strcmp(arguments[1], "poll") == 0 ? BY_POLL : BY_EPOLL;
	return run_by_descriptor(arguments[1]);
}
