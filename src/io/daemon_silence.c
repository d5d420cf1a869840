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
#define MOMENT VB_MILLISECONDS(100)

static vb_time silent_until;               /* atomic; 0: it answers */
static pid_t silent_pid;                   /* atomic */

bool vb_daemon_is_silent(void)
{
	vb_time until = __atomic_load_n(&silent_until, __ATOMIC_RELAXED);

	return until != 0 && vb_clock_now() < until;
}

pid_t vb_daemon_silent_pid(void)
{
	return __atomic_load_n(&silent_pid, __ATOMIC_RELAXED);
}

pid_t vb_daemon_that_is_stopped(void)
{
	pid_t daemon = vb_daemon_silent_pid();

	return vb_daemon_is_silent() && daemon > 0 && vb_process_is_stopped(daemon) ? daemon : 0;
}

vb_time vb_daemon_patience(vb_time patience)
{
	return vb_daemon_is_silent() ? MOMENT : patience;
}

const char *vb_daemon_silence_in_words(pid_t daemon)
{
	return daemon > 0 && vb_process_is_stopped(daemon) ? "is stopped" : "does not answer";
}

void vb_daemon_note(int error, pid_t daemon)
{
	bool was_silent = vb_daemon_is_silent();

	if (error != -ETIMEDOUT) {
		if (__atomic_load_n(&silent_until, __ATOMIC_RELAXED) != 0)
			__atomic_store_n(&silent_until, 0, __ATOMIC_RELAXED);
		return;
	}
	__atomic_store_n(&silent_pid, daemon, __ATOMIC_RELAXED);
	__atomic_store_n(&silent_until, vb_clock_now() + SILENCE, __ATOMIC_RELAXED);
	if (!was_silent)
		vb_log(VB_LOG_ERROR, "verbenad (pid %d) %s. For the next 10 s this process does without it where it can: threads share "
		       "their sockets, and peers of this host that it has not met are reached by packets",
		       (int)daemon, vb_daemon_silence_in_words(daemon));
}
