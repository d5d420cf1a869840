/* SPDX-License-Identifier: MIT
 *
 * verbena-web: what `verbena web` starts. Serves the page until it is interrupted, also when the command that was given has ended.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "web/records.h"
#include "web/server.h"
#include "web/state.h"

/* Of the packets of the command. More of them do not fit a picture. */
#define CAPTURE_LIMIT "67108864"

enum { FAILED = 1, USAGE = 2, SIGNALLED = 128 };

struct options {
	uint16_t port;
	char **command;                    /* NULL: none */
};

static int parse(int argc, char **argv, struct options *options)
{
	int i = 1;

	for (; i < argc && argv[i][0] == '-' && strcmp(argv[i], "--") != 0; i++) {
		char *end;
		unsigned long port;

		if (strcmp(argv[i], "--port") != 0 || i + 1 == argc) {
			fprintf(stderr, "verbena web: unknown option, or its value is missing: %s\nTry `verbena web --help`.\n", argv[i]);
			return USAGE;
		}
		port = strtoul(argv[++i], &end, 10);
		if (argv[i][0] < '0' || argv[i][0] > '9' || *end || port > UINT16_MAX) {
			fprintf(stderr, "verbena web: not a port: %s\n", argv[i]);
			return USAGE;
		}
		options->port = (uint16_t)port;
	}
	if (i < argc && !strcmp(argv[i], "--"))
		i++;
	options->command = i < argc ? argv + i : NULL;
	return 0;
}

/* ---- the command ---- */

struct folder {
	char path[64], capture[96], explain[96];
};

static int make_folder(struct folder *folder)
{
	snprintf(folder->path, sizeof(folder->path), "/tmp/verbena-web-XXXXXX");
	if (!mkdtemp(folder->path))
		return -errno;
	snprintf(folder->capture, sizeof(folder->capture), "%s/packets.pcapng", folder->path);
	snprintf(folder->explain, sizeof(folder->explain), "%s/explanations", folder->path);
	return 0;
}

static void remove_folder(const struct folder *folder)
{
	unlink(folder->capture);
	unlink(folder->explain);
	rmdir(folder->path);
}

static void set_environment(const struct folder *folder)
{
	setenv("VERBENA_CAPTURE", folder->capture, 0);
	setenv("VERBENA_CAPTURE_LIMIT", CAPTURE_LIMIT, 0);
	setenv("VERBENA_EXPLAIN", folder->explain, 0);
}

/* As `verbena run` runs it: the program beside this one. */
static pid_t start_command(const struct folder *folder, char **command, const sigset_t *mask)
{
	char path[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 16);
	char *slash, **arguments;
	unsigned count = 0;
	pid_t pid = length > 0 ? fork() : -1;

	if (pid != 0)
		return pid;
	path[length] = '\0';
	slash = strrchr(path, '/');
	strcpy(slash ? slash + 1 : path, "verbena");
	while (command[count])
		count++;
	arguments = calloc(count + 4, sizeof(*arguments));
	if (!arguments)
		_exit(FAILED);
	arguments[0] = path;
	arguments[1] = (char *)"run";
	arguments[2] = (char *)"--";
	memcpy(arguments + 3, command, count * sizeof(*command));
	set_environment(folder);
	sigprocmask(SIG_SETMASK, mask, NULL);
	execv(path, arguments);
	fprintf(stderr, "verbena web: %s: %s\n", path, strerror(errno));
	_exit(FAILED);
}

/* ---- until the end ---- */

/* The command's code if it ended by itself; the page stays for those who look at it. */
static int wait_for_end(const sigset_t *signals, pid_t child)
{
	int code = 0, status, number;

	for (;;) {
		if (sigwait(signals, &number) != 0)
			return FAILED;
		if (number != SIGCHLD)
			break;
		if (child > 0 && waitpid(child, &status, WNOHANG) == child) {
			code = WIFSIGNALED(status) ? SIGNALLED + WTERMSIG(status) : WEXITSTATUS(status);
			child = 0;
			fprintf(stderr, "verbena web: the command has ended (%d); the page stays until Ctrl-C\n", code);
		}
	}
	if (child > 0) {
		kill(child, number);
		while (waitpid(child, &status, 0) < 0 && errno == EINTR)
			;
	}
	return code;
}

static int serve(struct vb_web_server *server, const struct options *options, const struct folder *folder, const sigset_t *signals,
		 const sigset_t *before)
{
	pid_t child = 0;

	printf("http://127.0.0.1:%u/?token=%s\n", vb_web_server_port(server), vb_web_server_token(server));
	fflush(stdout);
	fprintf(stderr, "verbena web: open this address in a browser of this machine; Ctrl-C ends it\n");
	if (options->command) {
		child = start_command(folder, options->command, before);
		if (child < 0) {
			fprintf(stderr, "verbena web: %s: %s\n", options->command[0], strerror(errno));
			return FAILED;
		}
	}
	return wait_for_end(signals, child);
}

int main(int argc, char **argv)
{
	struct options options = { 0 };
	struct folder folder = { 0 };
	struct vb_web_server *server;
	struct vb_web_state *state = NULL;
	struct vb_web_records *records = NULL;
	sigset_t signals, before;
	int code = parse(argc, argv, &options), error;

	if (code)
		return code;
	/* Before there are threads, which inherit it: signals come to sigwait alone. */
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	sigaddset(&signals, SIGCHLD);
	sigprocmask(SIG_BLOCK, &signals, &before);
	error = vb_web_state_create(&state);
	if (error == 0)
		error = vb_web_records_create(&records);
	if (error == 0 && options.command)
		error = make_folder(&folder);
	if (error == 0 && options.command)
		vb_web_records_follow(records, folder.explain);
	if (error == 0)
		error = vb_web_server_start(&server, options.port, state, records);
	if (error) {
		fprintf(stderr, "verbena web: port %u: %s\n", options.port, strerror(-error));
		code = FAILED;
	} else {
		code = serve(server, &options, &folder, &signals, &before);
		vb_web_server_stop(server);
	}
	if (folder.capture[0])
		remove_folder(&folder);
	if (records)
		vb_web_records_destroy(records);
	if (state)
		vb_web_state_destroy(state);
	return code;
}
