/* SPDX-License-Identifier: MIT
 *
 * See daemon_silence.h.
 */
#include "io/daemon_silence.h"

#include <errno.h>

#include "base/log.h"
#include "io/clock.h"
#include "io/process.h"

#define SILENCE VB_SECONDS(10)

static vb_time silent_until;               /* atomic; 0: it answers */

bool vb_daemon_is_silent(void)
{
	vb_time until = __atomic_load_n(&silent_until, __ATOMIC_RELAXED);

	return until != 0 && vb_clock_now() < until;
}

void vb_daemon_note(int error, pid_t daemon)
{
	if (error != -ETIMEDOUT) {
		if (__atomic_load_n(&silent_until, __ATOMIC_RELAXED) != 0)
			__atomic_store_n(&silent_until, 0, __ATOMIC_RELAXED);
		return;
	}
	__atomic_store_n(&silent_until, vb_clock_now() + SILENCE, __ATOMIC_RELAXED);
	vb_log(VB_LOG_ERROR, "verbenad (pid %d) %s. For the next 10 s this process does without it: threads share their sockets, and "
	       "peers of this host that it has not met are reached by packets",
	       (int)daemon, vb_process_is_stopped(daemon) ? "is stopped" : "does not answer");
}
