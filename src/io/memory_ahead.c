/* SPDX-License-Identifier: MIT
 *
 * See memory_ahead.h. The thread starts where a run is long enough. It stays for a while when nothing is left to bring in: to start one
 * takes 50 us of the thread that registers, for each second chunk.
 *
 * The program did not register these pages, and may unmap them at any time. So the mapping is looked at each time: it is memory of this
 * process alone, of no file, and holds the whole run as well as what follows. Within the microseconds between that and bringing pages in
 * the program may put another mapping there. MADV_POPULATE_WRITE changes no byte of it (madvise(2)): at worst two megabytes of a sparse
 * file are allocated. Where nothing is mapped, or nothing writable, the call fails.
 *
 * No thread waits for this one: it may stand still in a page that userfaultfd(2) has another thread bring.
 */
#include "io/memory_ahead.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mutex.h"
#include "io/clock.h"
#include "io/event.h"
#include "io/memory_run.h"
#include "io/own_mapping.h"
#include "io/thread.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* From one chunk of a run to the next but one it is a few milliseconds at most. */
#define STAYS VB_MILLISECONDS(200)

static struct {
	struct vb_mutex lock;
	pthread_cond_t more;               /* valid while there is a thread */
	struct vb_memory_run run;
	pid_t pid;                         /* atomic: whose thread it is, 0: there is none. A forked child has none */
} ahead = {
	.lock = VB_MUTEX_INITIALIZER(VB_RANK_AHEAD),
};

static bool thread_is_ours(void)
{
	return __atomic_load_n(&ahead.pid, __ATOMIC_RELAXED) == getpid();
}

/* In a child of fork the lock may be that of a thread which the child does not have: it does without. */
static bool take_lock(void) VB_TRIES(ahead.lock) VB_UNCHECKED
{
	if (!thread_is_ours())
		return vb_mutex_try(&ahead.lock);
	vb_mutex_lock(&ahead.lock);
	return true;
}

static bool is_private_memory(uint64_t start, uint64_t end)
{
	struct vb_own_mapping mapping;
	int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC), error;

	if (maps < 0)
		return false;
	error = vb_own_mapping_find(maps, start, true, &mapping);
	close(maps);
	return error == 0 && mapping.private_memory && mapping.end >= end;
}

/* Where pages are to be brought in. */
static bool wants_pages(uint64_t *from) VB_NEEDS(ahead.lock)
{
	struct vb_memory_run next = ahead.run;
	uint64_t to;

	return vb_memory_run_next(&next, from, &to);
}

/* False: nothing came. What came at the last moment is not left. */
static bool wait_for_more(void) VB_NEEDS(ahead.lock)
{
	uint64_t from;
	vb_time until = vb_clock_now() + STAYS;
	struct timespec limit = {.tv_sec = until / VB_SECONDS(1), .tv_nsec = until % VB_SECONDS(1)};

	return vb_mutex_wait_until(&ahead.lock, &ahead.more, &limit) != ETIMEDOUT || wants_pages(&from);
}

static void *run(void *unused)
{
	bool stays = true;

	(void)unused;
	vb_thread_prepare("verbena-ahead");
	vb_mutex_lock(&ahead.lock);
	while (stays) {
		uint64_t from, to, start = ahead.run.start;

		if (!vb_memory_run_next(&ahead.run, &from, &to)) {
			stays = wait_for_more();
			continue;
		}
		vb_mutex_unlock(&ahead.lock);
		if (is_private_memory(start, to))
			(void)madvise((void *)(uintptr_t)from, to - from, MADV_POPULATE_WRITE);
		vb_mutex_lock(&ahead.lock);
	}
	/* Under the lock: who adds to the run after this starts another. */
	__atomic_store_n(&ahead.pid, 0, __ATOMIC_RELAXED);
	vb_mutex_unlock(&ahead.lock);
	return NULL;
}

/* Made anew with each thread: no thread waits there. A forked child's copy may remember one that it does not have. */
static void make_condition(void) VB_NEEDS(ahead.lock)
{
	pthread_condattr_t attributes;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&ahead.more, &attributes);
	pthread_condattr_destroy(&attributes);
}

/* Caller holds ahead.lock. */
static void start_thread(void) VB_NEEDS(ahead.lock)
{
	make_condition();
	if (vb_thread_start_detached(run, NULL) != 0)
		return;
	__atomic_store_n(&ahead.pid, getpid(), __ATOMIC_RELAXED);
}

/* A program that has used its memory before it registers it has no need of this. */
static bool is_there(uint64_t page)
{
	unsigned char state = 0;

	return mincore((void *)(uintptr_t)page, 1, &state) == 0 && (state & 1);
}

void vb_memory_ahead_registered(uint64_t start, uint64_t end)
{
	uint64_t from;

	if (end - start < VB_RUN_SMALLEST || !take_lock())
		return;
	vb_memory_run_add(&ahead.run, start, end);
	if (wants_pages(&from) && !is_there(from)) {
		if (thread_is_ours())
			pthread_cond_signal(&ahead.more);
		else
			start_thread();
	}
	vb_mutex_unlock(&ahead.lock);
}

void vb_memory_ahead_forget(uint64_t start, uint64_t length)
{
	if (length < VB_RUN_SMALLEST || !take_lock())
		return;
	vb_memory_run_forget(&ahead.run, start, length);
	vb_mutex_unlock(&ahead.lock);
}
