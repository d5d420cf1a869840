/* SPDX-License-Identifier: MIT
 *
 * `verbena lab start DIR` and `verbena lab check DIR`: an exercise in RDMA programming. The files are those of
 * examples/lab, carried inside this program, so that an installed Verbena has them too; of the sender, the insides of
 * the parts are missing.
 */
#include "cli/lab.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/command.h"

int vb_cli_lab_write(const char *folder, const struct vb_cli_lab_file *file)
{
	char path[VB_CLI_PATH_MAX];
	int target;
	ssize_t written;

	if (snprintf(path, sizeof(path), "%s/%s", folder, file->name) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	/* What is there may be hours of somebody's work. */
	target = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (target < 0)
		return -errno;
	written = write(target, file->bytes, file->length);
	if (close(target) == 0 && written == (ssize_t)file->length)
		return 0;
	unlink(path);
	return written < 0 ? -errno : -ENOSPC;
}

static bool exists(const char *folder, const char *name)
{
	char path[VB_CLI_PATH_MAX];

	return snprintf(path, sizeof(path), "%s/%s", folder, name) < (int)sizeof(path) && access(path, F_OK) == 0;
}

static int start(const char *folder)
{
	const struct vb_cli_lab_file *file;
	int error = mkdir(folder, 0777) && errno != EEXIST ? -errno : 0;

	for (file = vb_cli_lab_files; !error && file->name; file++)
		if (exists(folder, file->name)) {
			fprintf(stderr, "verbena lab: %s/%s is there already, and is left alone\n", folder, file->name);
			return VB_CLI_FAILED;
		}
	for (file = vb_cli_lab_files; !error && file->name; file++)
		error = vb_cli_lab_write(folder, file);
	if (error) {
		fprintf(stderr, "verbena lab: %s: %s\n", folder, strerror(-error));
		return VB_CLI_FAILED;
	}
	printf("The file lab is in %s. Begin with its README.md; sender.c is yours to complete, in six parts.\n\n"
	       "  cd %s && make\n"
	       "  verbena lab check .        how far you are, and what is wrong with the next step\n", folder, folder);
	return VB_CLI_DONE;
}

static int lab(int argc, char **argv)
{
	const char *what = NULL, *folder = NULL;
	bool json = false;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--json"))
			json = true;
		else if (argv[i][0] == '-')
			return vb_cli_usage_error(&vb_cli_lab, "unknown option", argv[i]);
		else if (!what)
			what = argv[i];
		else if (!folder)
			folder = argv[i];
		else
			return vb_cli_usage_error(&vb_cli_lab, "one folder at a time, not also", argv[i]);
	}
	if (!what)
		return vb_cli_usage_error(&vb_cli_lab, "start or check?", NULL);
	if (strcmp(what, "start") != 0 && strcmp(what, "check") != 0)
		return vb_cli_usage_error(&vb_cli_lab, "start DIR, or check [--json] DIR; there is no", what);
	if (!folder)
		return vb_cli_usage_error(&vb_cli_lab, "which folder?", NULL);
	if (!strcmp(what, "check"))
		return vb_cli_lab_check(folder, json);
	if (json)
		return vb_cli_usage_error(&vb_cli_lab, "--json goes with check, not with start", NULL);
	return start(folder);
}

const struct vb_cli_command vb_cli_lab = {
	.name = "lab",
	.summary = "an exercise: write a program that sends a file by RDMA WRITE, and have it graded",
	.usage = "Usage: verbena lab start DIR\n"
		 "       verbena lab check [--json] DIR\n\n"
		 "start writes the exercise into DIR: a receiver that is ready, and a sender with six parts to fill "
		 "in. Files that are\n"
		 "there already are never overwritten.\n"
		 "check builds the sender, runs it against a receiver of its own, and says which steps work and why "
		 "the next one does\n"
		 "not. Exit code 0 when all work, 1 when one does not.\n"
		 "A C compiler, make, and the packages libibverbs-dev, librdmacm-dev and libssl-dev (Debian's names) "
		 "are needed.\n\n"
		 "Examples:\n"
		 "  verbena lab start ~/filelab\n"
		 "  verbena lab check ~/filelab\n",
	.main = lab,
};
