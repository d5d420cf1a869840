/* SPDX-License-Identifier: MIT
 *
 * The engine thread of a child, held up while its other threads go on: no thread has looked then at what only that thread would see.
 */
#ifndef TESTS_LIB_ENGINE_STOP_H
#define TESTS_LIB_ENGINE_STOP_H

#include <sys/types.h>

/* In the child: its engine thread, when it is asleep until something comes. No lock is in its hands then. */
pid_t engine_asleep(void);
/* In the parent, while nothing comes. */
void stop_engine(pid_t engine);
void resume_engine(pid_t engine);

#endif
