/* SPDX-License-Identifier: MIT
 *
 * All lists are bounded and forget what is oldest: the page may stay open for days.
 */
#include "web/records.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "capture/ladder.h"
#include "capture/story.h"
#include "cli/json.h"
#include "cli/processes.h"

enum {
	PROCESSES = 256, FILES = 32, EXPLANATIONS = 200, LONGEST_EXPLANATION = 4096,
	ENVIRONMENT = 256 * 1024, READ_AT_ONCE = 64 * 1024, ARROWS = 200,
};

/* A larger capture is read in seconds, not at a click. */
#define LARGEST_CAPTURE (96 * 1024 * 1024)

struct process {
	uint32_t pid;
	char capture[PATH_MAX];            /* "": none */
};

struct followed {
	char path[PATH_MAX];
	off_t read;
	uint64_t last;                     /* its newest explanation */
	size_t kept;                       /* of a line that is not whole yet */
	char line[LONGEST_EXPLANATION];
};

struct explanation {
	uint64_t number;
	time_t time;
	char text[LONGEST_EXPLANATION];
};

struct vb_web_records {
	struct process process[PROCESSES];
	struct followed followed[FILES];
	struct explanation explanation[EXPLANATIONS];
	unsigned processes, files;         /* ever; the place is the rest of the division */
	uint64_t explanations;
};

int vb_web_records_create(struct vb_web_records **out)
{
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : -ENOMEM;
}

void vb_web_records_destroy(struct vb_web_records *records)
{
	free(records);
}

/* ---- which files ---- */

static const struct process *find_process(const struct vb_web_records *records, uint32_t pid)
{
	for (unsigned i = 0; i < PROCESSES && i < records->processes; i++)
		if (records->process[i].pid == pid)
			return &records->process[i];
	return NULL;
}

/* A name that begins elsewhere than at the root was meant from where the process stands. */
static bool make_path(char path[PATH_MAX], uint32_t pid, const char *name)
{
	char link[64];
	ssize_t length = 0;

	if (name[0] != '/') {
		snprintf(link, sizeof(link), "/proc/%u/cwd", pid);
		length = readlink(link, path, PATH_MAX - 1);
		if (length < 0)
			return false;
		path[length++] = '/';
	}
	return snprintf(path + length, (size_t)(PATH_MAX - length), "%s", name) < PATH_MAX - length;
}

void vb_web_records_follow(struct vb_web_records *records, const char *path)
{
	struct followed *followed = &records->followed[records->files % FILES];

	for (unsigned i = 0; i < FILES && i < records->files; i++)
		if (!strcmp(records->followed[i].path, path))
			return;
	*followed = (struct followed){ 0 };
	snprintf(followed->path, sizeof(followed->path), "%s", path);
	records->files++;
}

static const char *value_of(const char *variable, const char *name)
{
	size_t length = strlen(name);

	return !strncmp(variable, name, length) && variable[length] == '=' ? variable + length + 1 : NULL;
}

static size_t read_environment(uint32_t pid, char *text)
{
	char path[64];
	size_t used = 0;
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/environ", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	while (used < ENVIRONMENT && (got = read(fd, text + used, ENVIRONMENT - used)) > 0)
		used += (size_t)got;
	close(fd);
	text[used] = '\0';
	return used;
}

static void look_at_process(struct vb_web_records *records, uint32_t pid)
{
	struct process *process = &records->process[records->processes++ % PROCESSES];
	char path[PATH_MAX], *text = malloc(ENVIRONMENT + 1);
	size_t length = text ? read_environment(pid, text) : 0;

	*process = (struct process){ .pid = pid };
	for (const char *at = text; at && at < text + length; at += strlen(at) + 1) {
		const char *capture = value_of(at, "VERBENA_CAPTURE"), *explain = value_of(at, "VERBENA_EXPLAIN");

		if (capture && *capture && make_path(path, pid, capture))
			memcpy(process->capture, path, sizeof(path));
		if (explain && *explain && strcmp(explain, "0") != 0 && strcmp(explain, "1") != 0 && make_path(path, pid, explain))
			vb_web_records_follow(records, path);
	}
	free(text);
}

/* ---- explanations ---- */

static void add_explanation(struct vb_web_records *records, struct followed *followed)
{
	struct explanation *explanation = &records->explanation[records->explanations % EXPLANATIONS];

	explanation->number = followed->last = ++records->explanations;
	explanation->time = time(NULL);
	memcpy(explanation->text, followed->line, followed->kept);
	explanation->text[followed->kept] = '\0';
}

/* Lines that begin with a blank go on with what the one before began. */
static bool goes_on(const struct vb_web_records *records, const struct followed *followed)
{
	return followed->line[0] == ' ' && followed->last > 0 && followed->last == records->explanations;
}

static void take_line(struct vb_web_records *records, struct followed *followed)
{
	struct explanation *before = &records->explanation[(records->explanations - 1) % EXPLANATIONS];
	size_t used;

	if (followed->kept > 0 && goes_on(records, followed)) {
		used = strlen(before->text);
		snprintf(before->text + used, sizeof(before->text) - used, "\n%.*s", (int)followed->kept, followed->line);
	} else if (followed->kept > 0) {
		add_explanation(records, followed);
	}
	followed->kept = 0;
}

/* Of a line that is too long, the beginning. */
static void take_bytes(struct vb_web_records *records, struct followed *followed, const char *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (bytes[i] == '\n')
			take_line(records, followed);
		else if (bytes[i] != '\0' && followed->kept < LONGEST_EXPLANATION - 1)
			followed->line[followed->kept++] = bytes[i];
	}
}

static void read_on(struct vb_web_records *records, struct followed *followed)
{
	char *bytes = malloc(READ_AT_ONCE);
	int fd = bytes ? open(followed->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;
	struct stat status;
	ssize_t got;

	if (fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) {
		if (status.st_size < followed->read) /* begun anew */
			followed->read = 0;
		got = pread(fd, bytes, READ_AT_ONCE, followed->read);
		if (got > 0) {
			take_bytes(records, followed, bytes, (size_t)got);
			followed->read += got;
		}
	}
	if (fd >= 0)
		close(fd);
	free(bytes);
}

void vb_web_records_find(struct vb_web_records *records, const struct vb_cli_holders *holders)
{
	for (unsigned i = 0; i < holders->count; i++)
		if (holders->row[i].uid == geteuid() && !find_process(records, holders->row[i].pid))
			look_at_process(records, holders->row[i].pid);
	for (unsigned i = 0; i < FILES && i < records->files; i++)
		read_on(records, &records->followed[i]);
}

void vb_web_records_print(const struct vb_web_records *records, FILE *out)
{
	uint64_t first = records->explanations > EXPLANATIONS ? records->explanations - EXPLANATIONS : 0;
	const char *separator = "";

	fprintf(out, "{\"captured\": [");
	for (unsigned i = 0; i < PROCESSES && i < records->processes; i++)
		if (records->process[i].capture[0]) {
			fprintf(out, "%s%u", separator, records->process[i].pid);
			separator = ", ";
		}
	fprintf(out, "], \"explanations\": [");
	for (uint64_t i = first; i < records->explanations; i++) {
		const struct explanation *explanation = &records->explanation[i % EXPLANATIONS];

		fprintf(out, "%s{\"number\": %llu, \"time\": %lld, \"text\": ", i > first ? ",\n" : "",
			(unsigned long long)explanation->number, (long long)explanation->time);
		vb_cli_json_string(out, explanation->text);
		fprintf(out, "}");
	}
	fprintf(out, "]}");
}

/* ---- ladders ---- */

static int print_ladder(const struct vb_story *story, uint32_t qpn, char **page, size_t *length)
{
	struct vb_ladder_options options = { .most = ARROWS, .qpn = qpn };
	struct vb_ladder ladder;
	FILE *out;
	int error = vb_ladder_build(&ladder, story, &options);

	if (error)
		return error;
	out = ladder.items > 0 ? open_memstream(page, length) : NULL;
	if (out)
		vb_ladder_html(&ladder, out);
	error = ladder.items == 0 ? -ENOENT : !out || fclose(out) != 0 ? -ENOMEM : 0;
	vb_ladder_free(&ladder);
	return error;
}

int vb_web_records_draw(const struct vb_web_records *records, uint32_t pid, uint32_t qpn, char **page, size_t *length, char *why,
			size_t room)
{
	const struct process *process = find_process(records, pid);
	struct vb_story story;
	struct stat status;
	int error;

	if (!process || !process->capture[0]) {
		snprintf(why, room, "Packets of process %u are not kept. Start it with `verbena capture -o FILE -- COMMAND`, or this "
				    "page with `verbena web -- COMMAND`.", pid);
		return -ENOENT;
	}
	if (stat(process->capture, &status) != 0 || status.st_size > LARGEST_CAPTURE) {
		snprintf(why, room, "The capture %.128s is %s.", process->capture,
			 errno == ENOENT ? "gone" : "too large for a click: `verbena ladder` draws it");
		return -EFBIG;
	}
	error = vb_story_load(&story, process->capture, why, room);
	if (error)
		return error;
	error = print_ladder(&story, qpn, page, length);
	vb_story_free(&story);
	if (error != 0)
		snprintf(why, room, "%s", error != -ENOENT ? "Out of memory." :
			 "The capture holds no packet of this queue pair: through memory there are none.");
	return error;
}
