/* SPDX-License-Identifier: MIT
 *
 * Threads that wait in ibv_get_cq_event and sleep on what tells that something has come (verbs/channel_wait.h). By wire, and through
 * memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
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

static struct ibv_cq *take_any_event(struct ibv_comp_channel *channel)
{
	struct ibv_cq *cq;
	void *context;

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_takes_and_sends_itself),
		WITH_PAIR(each_event_is_told_of),
		WITH_PAIR(what_is_due_by_time_comes),
		WITH_PAIR(threads_have_each_their_own),
		WITH_PAIR(signals_end_it_or_do_not),
		cmocka_unit_test(a_handler_may_leave_it_by_longjmp),
#ifndef __SANITIZE_ADDRESS__
		WITH_PAIR(one_that_is_cancelled_gives_it_up),
#endif
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
