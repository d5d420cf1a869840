/* SPDX-License-Identifier: MIT
 *
 * See explain_output.h.
 */
#include "io/explain_output.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "io/descriptor.h"
#include "io/uncancelled.h"

static struct {
	bool on, watches, json, tells_all, tells_peers;
	int fd;
} settings = {.fd = STDERR_FILENO};
static pthread_once_t settings_once = PTHREAD_ONCE_INIT;

static bool is_set(const char *value)
{
	return value != NULL && *value != '\0' && strcmp(value, "0") != 0;
}

static void read_settings(void)
{
	const char *where = secure_getenv("VERBENA_EXPLAIN"), *watch = secure_getenv("VERBENA_WATCH");
	const char *format = secure_getenv("VERBENA_EXPLAIN_FORMAT"), *peers = secure_getenv("VERBENA_EXPLAIN_PEERS");

	settings.on = is_set(where);
	settings.watches = watch != NULL ? is_set(watch) : settings.on;
	settings.json = format != NULL && strcmp(format, "json") == 0;
	settings.tells_all = is_set(secure_getenv("VERBENA_EXPLAIN_ALL"));
	settings.tells_peers = peers == NULL || is_set(peers);
	if (settings.on && strcmp(where, "1") != 0) {
		int fd = open(where, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);

		if (fd >= 0)
			settings.fd = vb_descriptor_lift(fd);
		else
			vb_log(VB_LOG_ERROR, "cannot write explanations to %s (%m): to stderr then", where);
	}
}

bool vb_explain_output_is_on(void)
{
	pthread_once(&settings_once, read_settings);
	return settings.on;
}

bool vb_explain_output_watches(void)
{
	pthread_once(&settings_once, read_settings);
	return settings.watches;
}

bool vb_explain_output_is_json(void)
{
	pthread_once(&settings_once, read_settings);
	return settings.json;
}

bool vb_explain_output_tells_all(void)
{
	pthread_once(&settings_once, read_settings);
	return settings.tells_all;
}

bool vb_explain_output_tells_peers(void)
{
	pthread_once(&settings_once, read_settings);
	return settings.tells_peers;
}

void vb_explain_output_write(const char *text, size_t length)
{
	int saved_errno = errno;

	pthread_once(&settings_once, read_settings);
	/* A report that cannot be written is no reason to fail, and there is no other place to tell it. */
	if (vb_call_write(settings.fd, text, length) < 0)
		errno = saved_errno;
	errno = saved_errno;
}
