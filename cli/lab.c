/* SPDX-License-Identifier: MIT
 *
 * `verbena lab start DIR` and `verbena lab check DIR`: exercises in RDMA programming. The files are those of examples/,
 * carried inside this program, so that an installed Verbena has them too; the insides of the student's parts are missing.
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
	/* What is there may be hours of a student's work. */
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

const struct vb_cli_lab_exercise *vb_cli_lab_at(size_t index)
{
	static const struct vb_cli_lab_exercise *const all[] = { &vb_cli_lab_file, &vb_cli_lab_expert, &vb_cli_lab_echo,
								 &vb_cli_lab_store };

	return index < sizeof(all) / sizeof(all[0]) ? all[index] : NULL;
}

const struct vb_cli_lab_exercise *vb_cli_lab_find(const char *name)
{
	const struct vb_cli_lab_exercise *exercise;

	for (size_t i = 0; (exercise = vb_cli_lab_at(i)); i++)
		if (!strcmp(exercise->name, name))
			return exercise;
	return NULL;
}

static int start(const struct vb_cli_lab_exercise *exercise, const char *folder)
{
	const struct vb_cli_lab_file *file;
	int error = mkdir(folder, 0777) && errno != EEXIST ? -errno : 0;

	for (file = exercise->files; !error && file->name; file++)
		if (exists(folder, file->name)) {
			fprintf(stderr, "verbena lab: %s/%s is there already, and is left alone\n", folder, file->name);
			return VB_CLI_FAILED;
		}
	for (file = exercise->files; !error && file->name; file++)
		error = vb_cli_lab_write(folder, file);
	if (error) {
		fprintf(stderr, "verbena lab: %s: %s\n", folder, strerror(-error));
		return VB_CLI_FAILED;
	}
	printf("The %s lab is in %s. Begin with its README.md; %s.\n\n"
	       "  cd %s && make\n"
	       "  verbena lab check .        how far you are, and what is wrong with the next step\n", exercise->name, folder,
	       exercise->todo, folder);
	return VB_CLI_DONE;
}

static int list(void)
{
	const struct vb_cli_lab_exercise *exercise;

	for (size_t i = 0; (exercise = vb_cli_lab_at(i)); i++)
		printf("%-8s %s\n", exercise->name, exercise->summary);
	return VB_CLI_DONE;
}

static int lab(int argc, char **argv)
{
	const struct vb_cli_lab_exercise *exercise = &vb_cli_lab_file;
	const char *word[3] = { NULL };
	bool json = false;
	int words = 0;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--json"))
			json = true;
		else if (argv[i][0] == '-')
			return vb_cli_usage_error(&vb_cli_lab, "unknown option", argv[i]);
		else if (words < 3)
			word[words++] = argv[i];
		else
			return vb_cli_usage_error(&vb_cli_lab, "one folder at a time, not also", argv[i]);
	}
	if (!word[0])
		return vb_cli_usage_error(&vb_cli_lab, "list, start or check?", NULL);
	if (strcmp(word[0], "start") != 0 && strcmp(word[0], "check") != 0 && strcmp(word[0], "list") != 0)
		return vb_cli_usage_error(&vb_cli_lab, "list, start [LAB] DIR, or check [--json] DIR; there is no", word[0]);
	if (json && strcmp(word[0], "check") != 0)
		return vb_cli_usage_error(&vb_cli_lab, "--json goes with check, not with", word[0]);
	if (!strcmp(word[0], "list"))
		return word[1] ? vb_cli_usage_error(&vb_cli_lab, "list takes nothing, not", word[1]) : list();
	if (!word[1])
		return vb_cli_usage_error(&vb_cli_lab, "which folder?", NULL);
	if (!strcmp(word[0], "check"))
		return word[2] ? vb_cli_usage_error(&vb_cli_lab, "one folder at a time, not also", word[2])
			       : vb_cli_lab_grade(word[1], json);
	if (word[2] && !(exercise = vb_cli_lab_find(word[1])))
		return vb_cli_usage_error(&vb_cli_lab, "file, expert, echo or store; there is no", word[1]);
	return start(exercise, word[2] ? word[2] : word[1]);
}

const struct vb_cli_command vb_cli_lab = {
	.name = "lab",
	.summary = "exercises: write an RDMA program, and have it graded",
	.usage = "Usage: verbena lab list\n"
		 "       verbena lab start [LAB] DIR\n"
		 "       verbena lab check [--json] DIR\n\n"
		 "start writes an exercise into DIR: a program that is ready, and one with parts to fill in that talks to it. Files\n"
		 "that are there already are never overwritten. LAB is one of\n"
		 "  file     send a file by RDMA WRITE (if none is named)\n"
		 "  expert   the same, with PD, CQ, QP and MR of your own making\n"
		 "  echo     a server that sends messages back, by events, for many clients\n"
		 "  store    a key-value store that is read by RDMA READ\n"
		 "check builds your program, runs it against one of its own, and says which steps work and why the next one does\n"
		 "not. It reads what --explain would say of your program, and names the part that is to blame.\n"
		 "Exit code 0 when all steps work, 1 when one does not.\n"
		 "A C compiler, make, and the packages libibverbs-dev, librdmacm-dev and (file, expert) libssl-dev, Debian's names,\n"
		 "are needed.\n\n"
		 "Examples:\n"
		 "  verbena lab start ~/filelab\n"
		 "  verbena lab start store ~/storelab\n"
		 "  verbena lab check ~/filelab\n",
	.main = lab,
};
