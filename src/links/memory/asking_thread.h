/* SPDX-License-Identifier: MIT
 *
 * A thread that is there for as long as there are questions to verbenad, which may take seconds to answer. Its owner has a lock, under
 * which questions are kept and taken; `runs` is stored under it by the thread, when it takes a question or finds none.
 */
#ifndef VB_LINKS_MEMORY_ASKING_THREAD_H
#define VB_LINKS_MEMORY_ASKING_THREAD_H

#include <pthread.h>
#include <stdbool.h>

#include "base/lock.h"

struct vb_schedule;

struct vb_asking_thread {
	struct vb_schedule *schedule;
	/* Takes a question and answers it. False: there is none, or `stops` is set; runs is false then, and the thread ends. */
	bool (*answer)(void *owner);
	void *owner;
	pthread_t thread;
	bool has_thread;                   /* to be joined; atomic for others */
	bool runs, stops;
};

/* There is a question. Caller holds the owner's lock. False: there is one, or there shall be none. */
bool vb_asking_thread_start(struct vb_asking_thread *asking);
/* The engine thread is about to sleep: a thread that has ended is not left behind. */
void vb_asking_thread_rest(struct vb_asking_thread *asking, struct vb_lock *lock);
void vb_asking_thread_stop(struct vb_asking_thread *asking, struct vb_lock *lock);
void vb_asking_thread_abandon(struct vb_asking_thread *asking);            /* in a forked child */

#endif
