/* SPDX-License-Identifier: MIT
 *
 * posix_spawn(3): safe from threaded programs. The child starts with default signals and an empty mask; verbenad itself
 * closes what it inherits, leaves the session and forks away, so that the host program has no child to wait for.
 */
#include "io/spawn.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/clock.h"
#include "io/event.h"

extern char **environ;

enum { READY_FD = 3 };

/* Our environment without what is preloaded into this program: a daemon whose sockets are rsockets would wait for
 * itself. NULL: no memory. */
static char **own_environment(void)
{
	size_t count = 0, kept = 0;
	char **copy;

	while (environ != NULL && environ[count] != NULL)
		count++;
	copy = calloc(count + 1, sizeof(*copy));
	for (size_t i = 0; copy != NULL && i < count; i++)
		if (strncmp(environ[i], "LD_PRELOAD=", strlen("LD_PRELOAD=")) != 0)
			copy[kept++] = environ[i];
	return copy;
}

static int start(const char *path, int ready, pid_t *child)
{
	char **environment = own_environment();
	char *arguments[] = {(char *)(uintptr_t)path, (char *)"--ready-fd", (char *)"3", NULL};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none, all;
	int error;

	if (environment == NULL)
		return -ENOMEM;
	sigemptyset(&none);
	sigfillset(&all);
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attributes);
	/* dup2 clears close-on-exec, even onto itself (posix_spawn(3)). */
	posix_spawn_file_actions_adddup2(&actions, ready, READY_FD);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &all);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	error = posix_spawn(child, path, &actions, &attributes, arguments, environment);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	free(environment);
	return -error;
}

/* One line, or what there is until the end or the deadline. */
static size_t read_line(int fd, char *line, size_t room, vb_time deadline)
{
	size_t used = 0;

	while (used + 1 < room && vb_clock_now() < deadline) {
		struct vb_wait_item item = {.fd = fd};
		ssize_t got;

		vb_wait(&item, 1, deadline);
		if (!item.readable)
			continue;
		got = read(fd, line + used, room - 1 - used);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		used += (size_t)got;
		if (line[used - 1] == '\n') {
			used--;
			break;
		}
	}
	line[used] = '\0';
	return used;
}

static void say(char *why, size_t room, const char *text)
{
	size_t length = strnlen(text, room - 1);

	memcpy(why, text, length);
	why[length] = '\0';
}

int vb_spawn_daemon(const char *path, char *why, size_t room, vb_time deadline)
{
	int ends[2], error;
	pid_t child;

	why[0] = '\0';
	if (pipe2(ends, O_CLOEXEC) != 0) {
		error = -errno;
		say(why, room, strerror(-error));
		return error;
	}
	error = start(path, ends[1], &child);
	close(ends[1]);
	if (error == 0) {
		if (read_line(ends[0], why, room, deadline) == 0)
			error = -ETIMEDOUT;
		else if (strcmp(why, "ready") != 0)
			error = -ECONNREFUSED;
		/* It has forked away: this is short. The program may reap every child itself, then there is nothing
		 * left. */
		while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
			;
	}
	close(ends[0]);
	if (error == -ETIMEDOUT)
		say(why, room, "it did not say that it is ready");
	else if (error != 0 && why[0] == '\0')
		say(why, room, strerror(-error));
	return error;
}

int vb_spawn_own_directory(char *out, size_t room)
{
	Dl_info info;
	char *slash;
	size_t length;

	if (dladdr((void *)(uintptr_t)&vb_spawn_own_directory, &info) == 0 || !info.dli_fname)
		return -ENOENT;
	length = strlen(info.dli_fname);
	if (length + 1 > room)
		return -ENAMETOOLONG;
	memcpy(out, info.dli_fname, length + 1);
	slash = strrchr(out, '/');
	if (!slash) {
		/* A program found through PATH: only the kernel knows where it lies. */
		ssize_t got = readlink("/proc/self/exe", out, room - 1);

		if (got < 0)
			return -errno;
		out[got] = '\0';
		slash = strrchr(out, '/');
		if (!slash)
			return -ENOENT;
	}
	*slash = '\0';
	return 0;
}
