/* SPDX-License-Identifier: MIT
 *
 * `verbena capture`: run a command with VERBENA_CAPTURE set, wait for it, and put the file in order when the last of
 * those who write to it is done: while a process does, a lock on the file says so.
 */
#include "cli/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "capture/pcapng.h"
#include "capture/story.h"
#include "cli/capture_mads.h"
#include "cli/command.h"
#include "links/faults.h"

enum { PATIENCE_MS = 2000, NAP_MS = 20, SIGNALLED = 128, TOLD_QUEUE_PAIRS = 16 };

static volatile sig_atomic_t child;

/* Who ends us means the command. */
static void pass_on(int number)
{
	if (child > 0)
		kill((pid_t)child, number);
}

int vb_cli_set_faults(const char *who, const char *specification)
{
	struct vb_faults *faults;
	char why[256];

	if (vb_faults_create(&faults, specification, why, sizeof(why)) != 0) {
		fprintf(stderr, "verbena %s: --faults: %s\n", who, why);
		return VB_CLI_USAGE;
	}
	vb_faults_destroy(faults);
	return setenv("VERBENA_FAULTS", specification, 1) == 0 ? 0 : VB_CLI_FAILED;
}

/* ---- pictures ---- */

static int draw_one(const char *who, const struct vb_ladder *ladder, const char *path,
		    void (*draw)(const struct vb_ladder *ladder, FILE *out))
{
	FILE *out;
	int error = 0;

	if (!path)
		return 0;
	out = strcmp(path, "-") == 0 ? stdout : fopen(path, "we");
	if (!out) {
		fprintf(stderr, "verbena %s: %s: %s\n", who, path, strerror(errno));
		return VB_CLI_FAILED;
	}
	draw(ladder, out);
	if (fflush(out) != 0 || ferror(out))
		error = errno;
	if (out != stdout && fclose(out) != 0)
		error = errno;
	if (error)
		fprintf(stderr, "verbena %s: %s: %s\n", who, path, strerror(error));
	return error ? VB_CLI_FAILED : 0;
}

static bool has_number(const uint32_t *number, size_t count, uint32_t wanted)
{
	for (size_t i = 0; i < count; i++)
		if (number[i] == wanted)
			return true;
	return false;
}

/* Which queue pairs there are, for a user who asked for one that is not. */
static void list_queue_pairs(const struct vb_story *story)
{
	uint32_t number[TOLD_QUEUE_PAIRS];
	size_t count = 0;

	for (size_t i = 0; i < 2 * story->packets; i++) {
		const struct vb_capture_record *note = &story->packet[i / 2].note;
		uint32_t qpn = i % 2 ? note->peer_qpn : note->qpn;

		if (qpn == 0 || has_number(number, count, qpn))
			continue;
		if (count == TOLD_QUEUE_PAIRS) {
			fputs(", ...", stderr);
			break;
		}
		number[count++] = qpn;
		fprintf(stderr, "%s0x%06x", count == 1 ? "; there are " : ", ", qpn);
	}
	fputc('\n', stderr);
}

static int draw_story(const char *who, const char *shown, const struct vb_story *story,
		      const struct vb_cli_pictures *pictures)
{
	struct vb_ladder ladder;
	int error = vb_ladder_build(&ladder, story, &pictures->options);

	if (error != 0) {
		fprintf(stderr, "verbena %s: %s\n", who, strerror(-error));
		return VB_CLI_FAILED;
	}
	if (pictures->options.qpn && ladder.items == 0 && ladder.left_out == 0) {
		fprintf(stderr, "verbena %s: %s holds nothing of queue pair 0x%06x", who, shown, pictures->options.qpn);
		list_queue_pairs(story);
		error = VB_CLI_FAILED;
	}
	if (error == 0)
		error = draw_one(who, &ladder, pictures->svg, vb_ladder_svg);
	if (error == 0)
		error = draw_one(who, &ladder, pictures->html, vb_ladder_html);
	if (error == 0)
		error = draw_one(who, &ladder, pictures->text, vb_ladder_plain);
	vb_ladder_free(&ladder);
	return error;
}

int vb_cli_draw(const char *who, const char *file, const struct vb_cli_pictures *pictures)
{
	struct vb_story story;
	char why[256];
	int error;

	if (vb_story_load(&story, file, why, sizeof(why)) != 0) {
		fprintf(stderr, "verbena %s: %s: %s\n", who, file, why);
		return VB_CLI_FAILED;
	}
	if (story.packets == 0)
		fprintf(stderr, "verbena %s: %s holds no packet of RoCE or iWARP\n", who, file);
	error = draw_story(who, file, &story, pictures);
	vb_story_free(&story);
	return error;
}

/* Can it be written when the command has ended? Said before, so that nothing is captured for nothing. Nothing is made yet. */
static bool can_be_drawn(const char *who, const char *path)
{
	char folder[PATH_MAX];
	const char *slash;

	if (!path || !strcmp(path, "-"))
		return true;
	slash = strrchr(path, '/');
	snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
	if (access(path, F_OK) == 0 ? access(path, W_OK) == 0 : errno == ENOENT && access(folder, W_OK | X_OK) == 0)
		return true;
	fprintf(stderr, "verbena %s: %s: %s\n", who, path, strerror(errno));
	return false;
}

/* ---- the file ---- */

/* Begin the file anew, unless others write to it right now: then they and we write to the same. The descriptor's shared
 * lock keeps everybody from putting it in order meanwhile. Descriptor or -errno. */
static int open_file(const char *path)
{
	uint8_t head[VB_PCAPNG_HEAD];
	int64_t unused;
	ssize_t length;
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600), error = 0;

	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
		length = pread(fd, head, sizeof(head), 0);
		if (length < 0)
			error = -errno;
		else if (length > 0 && !vb_pcapng_is_ours(head, (size_t)length, &unused))
			error = -EEXIST;
		else if (ftruncate(fd, 0) != 0)
			error = -errno;
	}
	if (error == 0 && flock(fd, LOCK_SH) != 0)
		error = -errno;
	if (error == 0)
		return fd;
	close(fd);
	return error;
}

/* Programs started by the command may take a moment longer than itself. */
static void tidy(const char *who, const char *path, const char *shown)
{
	char why[256];
	int error = 0;

	for (unsigned waited = 0; waited <= PATIENCE_MS; waited += NAP_MS) {
		error = vb_story_tidy(path, why, sizeof(why));
		if (error != -EBUSY)
			break;
		nanosleep(&(struct timespec){.tv_nsec = NAP_MS * 1000000L}, NULL);
	}
	if (error == -EBUSY)
		fprintf(stderr, "verbena %s: other programs still write to %s: it is put in order when the last one "
			"ends\n", who, shown);
	else if (error)
		fprintf(stderr, "verbena %s: %s: %s\n", who, shown, why);
}

static void summarise(const char *who, const char *shown, const struct vb_story *story)
{
	size_t lost = 0, work = 0;

	for (size_t i = 0; i < story->packets; i++)
		lost += story->packet[i].note.flags & VB_CAPTURE_DROPPED ? 1 : 0;
	for (size_t i = 0; i < story->events; i++)
		work += story->event[i].kind == VB_CAPTURE_POST_SEND;
	fprintf(stderr, "verbena %s: %s: %zu packet%s, %zu work request%s", who, shown, story->packets,
		story->packets == 1 ? "" : "s", work, work == 1 ? "" : "s");
	if (lost)
		fprintf(stderr, ", %zu packet%s lost on purpose", lost, lost == 1 ? "" : "s");
	fputs(story->packets ? "\n" : "; was the command an RDMA program, and did it connect?\n", stderr);
}

/* What was captured, in a line and in pictures. 0 or 1; why it cannot be read was said before. */
static int present(const char *who, const char *path, const char *shown, const struct vb_cli_pictures *pictures)
{
	struct vb_story story;
	char why[256];
	int error = 0;

	if (vb_story_load(&story, path, why, sizeof(why)) != 0)
		return VB_CLI_FAILED;
	summarise(who, shown, &story);
	if (pictures->svg || pictures->html)
		error = draw_story(who, shown, &story, pictures);
	vb_story_free(&story);
	return error;
}

/* ---- the command ---- */

static int start_and_wait(const char *who, const char *path, char **argv)
{
	struct sigaction action = {.sa_handler = pass_on}, ignore = {.sa_handler = SIG_IGN}, interrupt, quit;
	struct vb_cli_mads *mads;
	int status;
	pid_t pid;

	/* Ctrl-C goes to the command by itself; we stay to put the file in order. */
	sigaction(SIGINT, &ignore, &interrupt);
	sigaction(SIGQUIT, &ignore, &quit);
	mads = vb_cli_mads_start(path);
	pid = fork();
	if (pid < 0) {
		fprintf(stderr, "verbena %s: %s\n", who, strerror(errno));
		vb_cli_mads_stop(mads);
		return VB_CLI_CANNOT_START;
	}
	if (pid == 0) {
		int count = 0;

		sigaction(SIGINT, &interrupt, NULL);
		sigaction(SIGQUIT, &quit, NULL);
		while (argv[count])
			count++;
		_exit(vb_cli_run_command(argv, count));
	}
	child = pid;
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return VB_CLI_FAILED;
	child = 0;
	vb_cli_mads_stop(mads);
	return WIFSIGNALED(status) ? SIGNALLED + WTERMSIG(status) : WEXITSTATUS(status);
}

int vb_cli_capture_command(const char *who, const char *file, const char *shown, const struct vb_cli_pictures *pictures,
			   char **argv)
{
	char path[PATH_MAX];
	int fd, code, error;

	if (!can_be_drawn(who, pictures->svg) || !can_be_drawn(who, pictures->html))
		return VB_CLI_FAILED;
	/* The command may change its directory. */
	if (file[0] == '/' || !getcwd(path, sizeof(path)))
		path[0] = '\0';
	if (strlen(path) + 1 + strlen(file) >= sizeof(path)) {
		fprintf(stderr, "verbena %s: %s: %s\n", who, file, strerror(ENAMETOOLONG));
		return VB_CLI_FAILED;
	}
	snprintf(path + strlen(path), sizeof(path) - strlen(path), "%s%s", path[0] ? "/" : "", file);
	fd = open_file(path);
	if (fd < 0) {
		fprintf(stderr, "verbena %s: %s: %s\n", who, file,
			fd == -EEXIST ? "is a file of another kind: it stays as it is, choose another name" : strerror(-fd));
		return VB_CLI_FAILED;
	}
	if (setenv("VERBENA_CAPTURE", path, 1) != 0) {
		close(fd);
		return VB_CLI_FAILED;
	}
	code = start_and_wait(who, path, argv);
	close(fd);
	tidy(who, path, shown);
	error = present(who, path, shown, pictures);
	return code ? code : error;
}

static int run_capture(int argc, char **argv)
{
	struct vb_cli_pictures pictures = {.options = {.most = VB_CLI_LADDER_ARROWS}};
	const char *file = NULL, *faults = NULL;
	char *shell[] = {getenv("SHELL"), NULL};
	char temporary[] = "/tmp/verbena-capture-XXXXXX";
	int i, code;

	for (i = 1; i < argc && argv[i][0] == '-' && strcmp(argv[i], "--") != 0; i++) {
		const char **value = !strcmp(argv[i], "-o") || !strcmp(argv[i], "--output") ? &file :
				     !strcmp(argv[i], "--ladder") ? &pictures.svg :
				     !strcmp(argv[i], "--html") ? &pictures.html :
				     !strcmp(argv[i], "--title") ? &pictures.options.title :
				     !strcmp(argv[i], "--faults") ? &faults : NULL;

		if (!value)
			return vb_cli_usage_error(&vb_cli_capture, "unknown option", argv[i]);
		if (i + 1 == argc)
			return vb_cli_usage_error(&vb_cli_capture, "a value is missing", argv[i]);
		*value = argv[++i];
	}
	if (i < argc && !strcmp(argv[i], "--"))
		i++;
	if (!file && !pictures.svg && !pictures.html)
		return vb_cli_usage_error(&vb_cli_capture, "which file? -o FILE or --ladder FILE", NULL);
	if (faults && (code = vb_cli_set_faults("capture", faults)) != 0)
		return code;
	if (!file) {
		int fd = mkstemp(temporary);

		if (fd < 0) {
			fprintf(stderr, "verbena capture: %s: %s\n", temporary, strerror(errno));
			return VB_CLI_FAILED;
		}
		close(fd);
	}
	if (i >= argc) {
		if (!shell[0] || !*shell[0])
			shell[0] = (char *)"/bin/sh";
		fprintf(stderr, "verbena capture: what is run in this shell is captured; leave it to end the capture\n");
	}
	/* A file that is gone when the command ends is not worth naming. */
	code = vb_cli_capture_command("capture", file ? file : temporary, file ? file : pictures.svg ? pictures.svg : pictures.html,
				      &pictures, i < argc ? argv + i : shell);
	if (!file)
		unlink(temporary);
	return code;
}

const struct vb_cli_command vb_cli_capture = {
	.name = "capture",
	.summary = "run a command and keep every packet, for Wireshark or as a picture",
	.usage = "Usage: verbena capture -o FILE [OPTIONS] [-- COMMAND [ARGUMENTS]]\n\n"
		 "Runs the command (or a shell, until you leave it) with Verbena's libraries, and writes every packet that\n"
		 "it and what it starts send and receive to a pcapng file that Wireshark and tshark read, with the work\n"
		 "requests as comments. No rights are needed. Two commands in two terminals may write to one file: start\n"
		 "both with the same -o.\n\n"
		 "  -o, --output FILE   the capture; not needed when only a picture is wanted\n"
		 "  --ladder FILE       draw it as a sequence diagram (SVG); - for standard output\n"
		 "  --html FILE         the diagram and a table of all that is in it, as a web page\n"
		 "  --title TEXT        above the diagram\n"
		 "  --faults SPEC       lose, double, damage, delay or reorder packets: docs/faults.md\n\n"
		 "The exit code is the command's own.\n\n"
		 "Examples:\n"
		 "  verbena capture -o x.pcapng -- rping -c -a 192.0.2.1 -C 1 -v\n"
		 "  verbena capture --ladder x.svg -- sh -c 'ib_write_bw -n 5 & sleep 1; ib_write_bw -n 5 localhost'\n"
		 "  verbena capture -o x.pcapng --faults drop-psn=+2 -- ib_write_bw 192.0.2.1 -n 5\n"
		 "  wireshark x.pcapng\n",
	.main = run_capture,
};
