/* SPDX-License-Identifier: MIT
 *
 * Log lines. Each is formatted on the stack and written with one write(), so that lines of several threads and
 * processes sharing a file do not mix. The environment is read once, at the first line; in a program that runs with
 * raised privileges it is not believed.
 *
 * Of all the lower rooms this is the only file that calls the OS: a diagnosis has nowhere else to go.
 */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/mutex.h"
#include "base/time.h"

enum { LINE_ROOM = 1024, LIMITED_LINES_PER_SECOND = 10 };

static const char *const level_names[] = {"error", "warn", "info", "debug"};

static struct {
	enum vb_log_level level;
	int fd;
} log_settings = {VB_LOG_ERROR, STDERR_FILENO};
static pthread_once_t settings_once = PTHREAD_ONCE_INIT;

static struct {
	struct vb_mutex lock;
	vb_time second_began;
	unsigned lines;           /* in that second */
	unsigned long suppressed; /* since the last line told so */
} limit = {.lock = VB_MUTEX_INITIALIZER(VB_RANK_LOG)};

static void read_settings(void)
{
	const char *level = secure_getenv("VERBENA_LOG");
	const char *file = secure_getenv("VERBENA_LOG_FILE");

	for (unsigned i = 0; level && i < sizeof(level_names) / sizeof(level_names[0]); i++)
		if (strcmp(level, level_names[i]) == 0)
			log_settings.level = (enum vb_log_level)i;
	if (file && *file) {
		int fd = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);

		/* Never give up the line for want of its file. */
		if (fd >= 0)
			log_settings.fd = fd;
	}
}

static bool level_is_wanted(enum vb_log_level level)
{
	pthread_once(&settings_once, read_settings);
	return level <= log_settings.level;
}

__attribute__((format(printf, 2, 0)))
static void write_line(enum vb_log_level level, const char *format, va_list arguments)
{
	char line[LINE_ROOM];
	int length = snprintf(line, sizeof(line), "verbena[%d]: %s: ", (int)getpid(), level_names[level]);
	int more = vsnprintf(line + length, sizeof(line) - (size_t)length, format, arguments);

	if (more < 0)
		return;
	length += more;
	if (length > LINE_ROOM - 1)
		length = LINE_ROOM - 1;
	line[length++] = '\n';
	/* A log that cannot be written is no reason to fail, and there is no other place to tell it. */
	/* Not the C library's: a thread may be cancelled in that (pthreads(7)), and holds our locks. */
	if (syscall(SYS_write, log_settings.fd, line, (size_t)length) < 0)
		return;
}

void vb_log(enum vb_log_level level, const char *format, ...)
{
	int saved_errno = errno;
	va_list arguments;

	if (level_is_wanted(level)) {
		errno = saved_errno; /* a %m in the format means the caller's */
		va_start(arguments, format);
		write_line(level, format, arguments);
		va_end(arguments);
	}
	errno = saved_errno;
}

static vb_time monotonic_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return VB_SECONDS(now.tv_sec) + now.tv_nsec;
}

/* May one more line be written? If so *suppressed says how many were not since the last. */
static bool take_allowance(unsigned long *suppressed)
{
	vb_time now = monotonic_now();
	bool allowed;

	vb_mutex_lock(&limit.lock);
	if (limit.second_began == 0 || now - limit.second_began >= VB_SECONDS(1)) {
		limit.second_began = now;
		limit.lines = 0;
	}
	allowed = limit.lines < LIMITED_LINES_PER_SECOND;
	if (allowed) {
		limit.lines++;
		*suppressed = limit.suppressed;
		limit.suppressed = 0;
	} else {
		limit.suppressed++;
	}
	vb_mutex_unlock(&limit.lock);
	return allowed;
}

void vb_log_limited(enum vb_log_level level, const char *format, ...)
{
	int saved_errno = errno;
	unsigned long suppressed;
	va_list arguments;

	if (level_is_wanted(level) && take_allowance(&suppressed)) {
		if (suppressed)
			vb_log(level, "%lu lines like the next were suppressed", suppressed);
		errno = saved_errno;
		va_start(arguments, format);
		write_line(level, format, arguments);
		va_end(arguments);
	}
	errno = saved_errno;
}
