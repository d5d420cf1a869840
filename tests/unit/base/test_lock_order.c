/* SPDX-License-Identifier: MIT
 *
 * The order of locks: waiting for one out of order ends the program and names both; trying one, or any order that
 * ranks allow, does not. Built with VB_CHECK_INVARIANTS, whatever the rest is built with.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/mutex.h"

#ifdef __clang__
/* They are taken out of order here, and not given back. */
#pragma clang diagnostic ignored "-Wthread-safety-analysis"
#endif

static struct vb_lock qp, other_qp, cq, srq, posting, other_posting;
static struct vb_mutex memory, table, polling, other_polling, rsocket;

static void open_all(void)
{
	pthread_mutexattr_t recursive;

	vb_lock_init(&qp, VB_RANK_QP);
	vb_lock_init(&other_qp, VB_RANK_QP);
	vb_lock_init(&srq, VB_RANK_SRQ);
	vb_lock_init(&cq, VB_RANK_CQ);
	vb_lock_init(&posting, VB_RANK_POSTING);
	vb_lock_init(&other_posting, VB_RANK_POSTING);
	vb_mutex_init(&memory, VB_RANK_MEMORY);
	vb_mutex_init(&table, VB_RANK_QPNS);
	vb_mutex_init(&polling, VB_RANK_POLLING);
	vb_mutex_init(&other_polling, VB_RANK_POLLING);
	pthread_mutexattr_init(&recursive);
	pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
	vb_mutex_init_with(&rsocket, VB_RANK_RSOCKET, &recursive);
	pthread_mutexattr_destroy(&recursive);
}

/* How a child that does this ends, and what it says: `said` holds all of it. */
static int end_of(void (*act)(void), char said[512])
{
	const struct rlimit no_core = {0, 0};
	size_t length = 0;
	ssize_t got;
	int status, ends[2];
	pid_t child;

	assert_int_equal(pipe(ends), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		setrlimit(RLIMIT_CORE, &no_core);
		signal(SIGABRT, SIG_DFL);
		dup2(ends[1], STDERR_FILENO);
		act();
		_exit(0);
	}
	close(ends[1]);
	while (length < 511 && (got = read(ends[0], said + length, 511 - length)) > 0)
		length += (size_t)got;
	said[length] = '\0';
	close(ends[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

static void assert_refused(void (*act)(void), const char *wanted, const char *held)
{
	char said[512], *rest;
	int status = end_of(act, said);

	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	assert_non_null(strstr(said, "lock order"));
	rest = strstr(said, wanted);
	assert_non_null(rest);
	assert_non_null(strstr(rest + strlen(wanted), held));
}

static void assert_allowed(void (*act)(void))
{
	char said[512];
	int status = end_of(act, said);

	assert_string_equal(said, "");
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void take_lock_below(void)
{
	vb_lock_take(&cq);
	vb_lock_take(&qp);
}

static void take_mutex_below(void)
{
	vb_mutex_lock(&table);
	vb_mutex_lock(&memory);
}

static void take_lock_below_mutex(void)
{
	vb_mutex_lock(&memory);
	vb_lock_take(&qp);
}

static void take_two_of_one_rank(void)
{
	vb_lock_take(&qp);
	vb_lock_take(&other_qp);
}

static void take_twice(void)
{
	vb_mutex_lock(&memory);
	vb_mutex_lock(&memory);
}

static void begin_twice(void)
{
	vb_lock_take(&posting);
	vb_lock_take(&posting);
}

static void begin_inside(void)
{
	vb_lock_take(&qp);
	vb_lock_take(&posting);
}

/* Not the last taken counts, but the highest held. */
static void take_between(void)
{
	vb_lock_take(&cq);
	if (vb_lock_try(&qp))
		vb_lock_take(&srq);
}

/* What was only tried is held, all the same. */
static void take_below_tried(void)
{
	if (vb_mutex_try(&memory))
		vb_lock_take(&qp);
}

static void another_order_is_refused(void **state)
{
	(void)state;
	assert_refused(take_lock_below, "qp.lock", "cq.lock");
	assert_refused(take_mutex_below, "memory.mutex", "endpoint.table_lock");
	assert_refused(take_lock_below_mutex, "qp.lock", "memory.mutex");
	assert_refused(take_two_of_one_rank, "qp.lock", "qp.lock");
	assert_refused(take_twice, "memory.mutex", "memory.mutex");
	assert_refused(begin_twice, "queue_pair.posting", "queue_pair.posting");
	assert_refused(begin_inside, "queue_pair.posting", "qp.lock");
	assert_refused(take_between, "srq.lock", "cq.lock");
	assert_refused(take_below_tried, "qp.lock", "memory.mutex");
}

static void take_all_in_order(void)
{
	vb_lock_take(&qp);
	vb_lock_take(&srq);
	vb_lock_take(&cq);
	vb_mutex_lock(&memory);
	vb_mutex_lock(&table);
	/* Given back in any order. */
	vb_lock_release(&qp);
	vb_mutex_unlock(&table);
	vb_lock_release(&srq);
	vb_mutex_unlock(&memory);
	vb_lock_release(&cq);
	/* Nothing is held now: the outermost may be taken again. */
	vb_lock_take(&qp);
	vb_lock_assert_held(&qp);
	vb_lock_release(&qp);
}

static void try_in_another_order(void)
{
	vb_mutex_lock(&memory);
	if (!vb_lock_try(&cq) || !vb_lock_try(&qp) || !vb_lock_try(&other_qp) || vb_lock_try(&qp))
		_exit(1);
	vb_lock_assert_held(&qp);
	vb_lock_release(&qp);
	vb_lock_release(&other_qp);
	vb_lock_release(&cq);
	vb_mutex_lock(&table);
	vb_mutex_unlock(&table);
	vb_mutex_unlock(&memory);
}

/* As programs may: see may_follow() in base/lock_order.c. */
static void take_what_may_be_equal(void)
{
	vb_mutex_lock(&other_polling);
	vb_lock_take(&posting);
	vb_lock_take(&other_posting);
	vb_mutex_lock(&polling);
	vb_mutex_lock(&rsocket);
	vb_mutex_lock(&rsocket);
	vb_mutex_unlock(&rsocket);
	vb_lock_take(&qp);
	vb_lock_release(&qp);
	vb_mutex_unlock(&rsocket);
	vb_mutex_unlock(&other_polling);
	vb_mutex_unlock(&polling);
	vb_lock_release(&posting);
	vb_lock_release(&other_posting);
}

static void init_in_a_child(void)
{
	vb_mutex_lock(&table);
	vb_mutex_init(&table, VB_RANK_QPNS);
	vb_mutex_lock(&memory);
	vb_mutex_lock(&table);
	vb_mutex_unlock(&table);
	vb_mutex_unlock(&memory);
}

static void *take_qp(void *unused)
{
	(void)unused;
	vb_lock_take(&qp);
	vb_lock_release(&qp);
	return NULL;
}

/* The record is each thread's own. */
static void hold_elsewhere(void)
{
	pthread_t thread;

	vb_lock_take(&cq);
	if (pthread_create(&thread, NULL, take_qp, NULL) != 0)
		_exit(1);
	pthread_join(thread, NULL);
	vb_lock_release(&cq);
}

static void this_order_is_allowed(void **state)
{
	(void)state;
	assert_allowed(take_all_in_order);
	assert_allowed(try_in_another_order);
	assert_allowed(take_what_may_be_equal);
	assert_allowed(init_in_a_child);
	assert_allowed(hold_elsewhere);
}

static void wait_under_a_higher_lock(void)
{
	pthread_cond_t condition = PTHREAD_COND_INITIALIZER;

	vb_mutex_lock(&memory);
	vb_mutex_lock(&table);
	(void)vb_mutex_wait_until(&memory, &condition, &(struct timespec){0});
}

static void wait_in_order(void)
{
	pthread_cond_t condition = PTHREAD_COND_INITIALIZER;

	vb_lock_take(&qp);
	vb_mutex_lock(&memory);
	if (vb_mutex_wait_until(&memory, &condition, &(struct timespec){0}) == 0)
		_exit(1);
	vb_mutex_unlock(&memory);
	vb_lock_release(&qp);
}

/* What a condition lets go of, it takes back. */
static void conditions_keep_the_order(void **state)
{
	(void)state;
	assert_refused(wait_under_a_higher_lock, "memory.mutex", "endpoint.table_lock");
	assert_allowed(wait_in_order);
}

static void release_what_is_free(void)
{
	vb_lock_release(&qp);
}

static void need_what_another_holds(void)
{
	vb_lock_take(&cq);
	vb_lock_assert_held(&qp);
}

static void only_the_holder_releases(void **state)
{
	char said[512];
	int status;

	(void)state;
	assert_refused(release_what_is_free, "qp.lock", "does not hold it");
	status = end_of(need_what_another_holds, said);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(another_order_is_refused),
		cmocka_unit_test(this_order_is_allowed),
		cmocka_unit_test(conditions_keep_the_order),
		cmocka_unit_test(only_the_holder_releases),
	};

	open_all();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
