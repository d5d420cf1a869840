/* SPDX-License-Identifier: MIT */
#include "io/thread.h"

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>

/* Of the thread that loads the library: main, if the program is linked to it. */
static struct {
	bool known;
	cpu_set_t processors;
	int policy;
	struct sched_param parameters;
} at_load;

__attribute__((constructor)) static void remember(void)
{
	/* More processors than the set has room for are EINVAL: threads then run where their maker does. */
	at_load.known = sched_getaffinity(0, sizeof(at_load.processors), &at_load.processors) == 0 &&
			pthread_getschedparam(pthread_self(), &at_load.policy, &at_load.parameters) == 0;
}

static int start_as_at_load(pthread_t *thread, void *(*run)(void *), void *context)
{
	pthread_attr_t attributes;
	int error;

	pthread_attr_init(&attributes);
	pthread_attr_setaffinity_np(&attributes, sizeof(at_load.processors), &at_load.processors);
	pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(&attributes, at_load.policy);
	pthread_attr_setschedparam(&attributes, &at_load.parameters);
	error = pthread_create(thread, &attributes, run, context);
	pthread_attr_destroy(&attributes);
	return error;
}

int vb_thread_start(pthread_t *thread, void *(*run)(void *), void *context)
{
	sigset_t all, before;
	int error = -1;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (at_load.known)
		error = start_as_at_load(thread, run, context);
	/* Processors may have gone since, or privileges. */
	if (error != 0)
		error = pthread_create(thread, NULL, run, context);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -error;
}

int vb_thread_start_detached(void *(*run)(void *), void *context)
{
	pthread_t thread;
	int error = vb_thread_start(&thread, run, context);

	if (error == 0)
		pthread_detach(thread);
	return error;
}

void vb_thread_forget_maker(void)
{
	struct sched_param ordinary = {0};
	cpu_set_t any;

	/* The kernel leaves out those that the process's cpuset has not. */
	memset(&any, 0xff, sizeof(any));
	(void)sched_setaffinity(0, sizeof(any), &any);
	(void)sched_setscheduler(0, SCHED_OTHER, &ordinary);
}
