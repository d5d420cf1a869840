/* SPDX-License-Identifier: MIT
 *
 * Programs that `verbena lab check` runs. Their output goes to files, not pipes: a daemon one of them starts would
 * hold a pipe open, and a program that prints much must not block because we do not read yet.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/lab.h"

volatile sig_atomic_t vb_cli_lab_interrupted;

/* In the child. Programs of the exercise find our libraries first, whatever was set before. */
static void use_our_libraries(void)
{
	char directory[VB_CLI_PATH_MAX], *value;
	const char *before = getenv("LD_LIBRARY_PATH");

	if (vb_cli_library_directory(directory) == 0 &&
	    asprintf(&value, "%s%s%s", directory, before && *before ? ":" : "", before ? before : "") > 0)
		setenv("LD_LIBRARY_PATH", value, 1);
}

/* In the child, too: what a user asked of us by the environment is not asked of it. */
static void explain_to(const char *file)
{
	unsetenv("VERBENA_EXPLAIN_ALL");
	unsetenv("VERBENA_WATCH");
	if (!file) {
		unsetenv("VERBENA_EXPLAIN");
		return;
	}
	setenv("VERBENA_EXPLAIN", file, 1);
	setenv("VERBENA_EXPLAIN_FORMAT", "json", 1);
}

__attribute__((noreturn)) static void become(const char *folder, int output, const char *explanations, char *const argv[])
{
	int nothing = open("/dev/null", O_RDONLY);

	if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0 ||
	    dup2(output, STDERR_FILENO) < 0)
		_exit(126);
	if (folder && chdir(folder)) {
		fprintf(stderr, "%s: %s\n", folder, strerror(errno));
		_exit(126);
	}
	use_our_libraries();
	explain_to(explanations);
	execvp(argv[0], argv);
	fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

int vb_cli_lab_start(struct vb_cli_lab_process *process, const char *folder, const char *output, const char *explanations,
		     char *const argv[])
{
	int file;

	*process = (struct vb_cli_lab_process){ 0 };
	if (snprintf(process->output, sizeof(process->output), "%s", output) >= (int)sizeof(process->output))
		return -ENAMETOOLONG;
	file = open(output, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
	if (file < 0)
		return -errno;
	process->pid = fork();
	if (process->pid == 0)
		become(folder, file, explanations, argv);
	close(file);
	if (process->pid < 0) {
		process->ended = true;
		return -errno;
	}
	return 0;
}

static void look(struct vb_cli_lab_process *process)
{
	int status;

	if (process->ended || waitpid(process->pid, &status, WNOHANG) != process->pid)
		return;
	process->ended = true;
	process->code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static bool has_printed(const struct vb_cli_lab_process *process, const char *text)
{
	char *output = vb_cli_lab_output(process);
	bool found = strstr(output, text) != NULL;

	free(output);
	return found;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

bool vb_cli_lab_wait(struct vb_cli_lab_process *process, const char *text, double seconds)
{
	double limit = now() + seconds;

	for (;;) {
		bool ended = process->ended;

		if (text ? has_printed(process, text) : ended)
			return true;
		if (ended || now() > limit || vb_cli_lab_interrupted)
			return false;
		nanosleep(&(struct timespec){ .tv_nsec = 3000000 }, NULL);
		look(process);
	}
}

void vb_cli_lab_kill(struct vb_cli_lab_process *process)
{
	int status;

	look(process);
	if (process->pid <= 0 || process->ended)
		return;
	kill(process->pid, SIGKILL);
	waitpid(process->pid, &status, 0);
	process->ended = process->killed = true;
	process->code = 128 + SIGKILL;
}

char *vb_cli_lab_text(const char *path)
{
	size_t length = 0;
	char *text = NULL;
	FILE *file = fopen(path, "r");

	if (file && getdelim(&text, &length, '\0', file) < 0) {
		free(text);
		text = NULL;
	}
	if (file)
		fclose(file);
	if (!text && !(text = strdup("")))
		abort();
	return text;
}

char *vb_cli_lab_output(const struct vb_cli_lab_process *process)
{
	return vb_cli_lab_text(process->output);
}
