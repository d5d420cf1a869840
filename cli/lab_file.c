/* SPDX-License-Identifier: MIT
 *
 * The file lab, ordinary and expert: which step works, and why the next does not.
 *
 * The student's sender talks to our receiver. Four conversations: a file that fits into the region, one that needs
 * windows, one that is changed behind the sender's back after it was hashed, and one whose receiver is killed.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "cli/lab_check.h"

enum { SMALL_FILE = 700001, SMALL_REGION = 65536, FILE_IN_WINDOWS = 5 * SMALL_REGION + 123 };
/* What can be under way at a time (examples/lab/lab.h). */
enum { SENDS = 8 + 2, RECEIVES = 4 };

enum trick { HONEST, CHANGE_FILE, KILL_RECEIVER };

/* ---- Conversations ---- */

static int make_file(const char *path, size_t length)
{
	unsigned char *bytes = malloc(length);
	int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), error = 0;

	for (size_t done = 0; bytes && done < length;) {
		ssize_t count = getrandom(bytes + done, length - done, 0);

		done += count > 0 ? (size_t)count : 0;
	}
	if (!bytes || file < 0 || write(file, bytes, length) != (ssize_t)length)
		error = bytes ? -errno : -ENOMEM;
	if (file >= 0)
		close(file);
	free(bytes);
	return error;
}

/* The first byte becomes another one. */
static void change_file(const char *path)
{
	int file = open(path, O_RDWR | O_CLOEXEC);
	unsigned char byte;

	if (file >= 0 && pread(file, &byte, 1, 0) == 1) {
		byte ^= 0xff;
		if (pwrite(file, &byte, 1, 0) != 1)
			fprintf(stderr, "verbena lab: %s: %s\n", path, strerror(errno));
	}
	if (file >= 0)
		close(file);
}

/* 0, or -errno when not even the receiver could be started: that is not the student's fault. */
static int converse(struct vb_cli_lab_check *check, size_t length, size_t region, enum trick trick,
		    struct vb_cli_lab_talk *talk)
{
	char file[128], copy[128], region_text[32];
	int error;

	snprintf(file, sizeof(file), "%s/file", check->own);
	snprintf(copy, sizeof(copy), "%s/copy", check->own);
	snprintf(region_text, sizeof(region_text), "%zu", region);
	error = make_file(file, length);
	if (!error)
		error = vb_cli_lab_start_partner(check, &talk->partner, "partner.out",
						 (char *[]){ "receiver", copy, check->port, region_text, NULL });
	if (!error && !vb_cli_lab_wait(&talk->partner, "listening", VB_CLI_LAB_STARTING))
		error = -ECONNREFUSED;
	/* It hears of the connection only when the file is another one than the sender has hashed. */
	if (!error && trick == CHANGE_FILE)
		kill(talk->partner.pid, SIGSTOP);
	if (!error)
		error = vb_cli_lab_start_student(check, talk,
						 (char *[]){ "sender", "127.0.0.1", file, check->identity, check->port, NULL });
	if (error)
		return vb_cli_lab_cannot(check, talk, error);
	if (trick == CHANGE_FILE) {
		vb_cli_lab_wait(&talk->student, "SHA-256", VB_CLI_LAB_TALKING);
		change_file(file);
		kill(talk->partner.pid, SIGCONT);
	} else if (trick == KILL_RECEIVER) {
		vb_cli_lab_wait(&talk->partner, "window:", VB_CLI_LAB_TALKING);
		vb_cli_lab_kill(&talk->partner);
	}
	vb_cli_lab_wait_for_student(check, talk, VB_CLI_LAB_TALKING);
	/* No other sender will come. One that was connected may be gone before a busy machine let the receiver say so. */
	if (vb_cli_lab_wait(&talk->partner, "connected:",
			    vb_cli_lab_wait(&talk->student, "connected", 0) ? VB_CLI_LAB_LEAVING : 0))
		vb_cli_lab_wait(&talk->partner, NULL, VB_CLI_LAB_LEAVING);
	vb_cli_lab_collect(check, talk);
	return 0;
}

/* ---- Steps ---- */

static bool connects(struct vb_cli_lab_check *check, const struct vb_cli_lab_talk *talk)
{
	return vb_cli_lab_says(talk->partner_said, "connected:") || vb_cli_lab_fails_by_end(check, talk, "The receiver saw no connection.");
}

static bool offers(struct vb_cli_lab_check *check, const struct vb_cli_lab_talk *talk)
{
	char *offer = vb_cli_lab_line(talk->partner_said, "offered: "),
	     *region = vb_cli_lab_line(talk->student_said, "the receiver's region: ");
	char *hashed = strstr(talk->student_said, "SHA-256 "), hash[65] = "";
	unsigned long long length = 0;
	bool good = false;

	if (!offer)
		vb_cli_lab_fails_by_end(check, talk, "The receiver waits for OFFER.");
	else if (sscanf(offer, "%llu bytes, SHA-256 %64s", &length, hash) != 2 || length != SMALL_FILE)
		vb_cli_lab_fails(check, "The receiver was offered %llu bytes; the file has %d.", length, SMALL_FILE);
	else if (!hashed || strncmp(hashed + 8, hash, 64))
		vb_cli_lab_fails(check, "The SHA-256 in the offer is not the file's, which is in sender->hash.");
	else if (!region)
		vb_cli_lab_fails_by_end(check, talk, "The receiver has answered with REGION.");
	else if (strtoull(region, NULL, 10) != 2 * SMALL_FILE)
		vb_cli_lab_fails(check, "The receiver offered a region of %d bytes; sender->region says %s.", 2 * SMALL_FILE,
		      region);
	else
		good = true;
	free(offer);
	free(region);
	return good;
}

static bool writes(struct vb_cli_lab_check *check, const struct vb_cli_lab_talk *talk)
{
	char *complaint = vb_cli_lab_line(talk->student_said, "sender: ");
	bool good;

	/* It came to the next part: every WRITE was completed. */
	if (complaint && !strcmp(complaint, "part 4 is not written yet"))
		good = true;
	else if (strstr(talk->partner_said, "bad: wrong hash"))
		good = vb_cli_lab_fails(check, "The receiver got all bytes announced, but not those of the file. Does each WRITE "
				    "take its own slot (sender->slots + slot * SLOT), all of its length, to "
				    "sender->region.address + offset?");
	else if (vb_cli_lab_says(talk->partner_said, "done:"))
		good = true;
	else if (talk->hung)
		good = vb_cli_lab_fails(check, "The sender did not end within %d seconds. Is each WRITE signaled, with wr_id "
				    "LAB_ID_WRITE, and counted once in writes_under_way?", VB_CLI_LAB_TALKING);
	else
		good = vb_cli_lab_fails_by_end(check, talk, "");
	free(complaint);
	return good;
}

static bool gets_verdict(struct vb_cli_lab_check *check, const struct vb_cli_lab_talk *talk)
{
	if (!vb_cli_lab_says(talk->partner_said, "done:"))
		return vb_cli_lab_fails_by_end(check, talk, "The receiver waits for DONE.");
	if (!vb_cli_lab_says(talk->partner_said, "good:"))
		return vb_cli_lab_fails_by_end(check, talk, "");
	return vb_cli_lab_says(talk->student_said, "the receiver says: good") ||
	       vb_cli_lab_fails_by_end(check, talk, "The receiver has said GOOD.");
}

static bool gets_key(struct vb_cli_lab_check *check, const struct vb_cli_lab_talk *talk)
{
	char *identity = vb_cli_lab_line(talk->partner_said, "identity: "),
	     *key = vb_cli_lab_line(talk->partner_said, "key sent: ");
	bool good = false;

	if (!identity)
		vb_cli_lab_fails_by_end(check, talk, "The receiver waits for IDENTITY.");
	else if (strcmp(identity, check->identity))
		vb_cli_lab_fails(check, "The sender was called with the ID \"%s\", and told the receiver \"%s\".", check->identity,
		      identity);
	else if (!key)
		vb_cli_lab_fails_by_end(check, talk, "The receiver has sent the key, and the connection did not end well.");
	else if (!strstr(talk->student_said, key))
		vb_cli_lab_fails(check, "The receiver sent the key %s; the sender prints another.", key);
	else if (talk->hung || talk->student.code)
		vb_cli_lab_fails_by_end(check, talk, "The key has arrived.");
	else
		good = true;
	free(identity);
	free(key);
	return good;
}

static bool goes_in_windows(struct vb_cli_lab_check *check, const struct vb_cli_lab_talk *talk)
{
	if (vb_cli_lab_says(talk->partner_said, "good:") && !talk->hung && talk->student.code == 0)
		return true;
	return vb_cli_lab_fails_by_end(check, talk, vb_cli_lab_says(talk->partner_said, "window:") ? "At least one window was passed on."
									       : "The receiver waits for WINDOW.");
}

static bool sees_bad(struct vb_cli_lab_check *check, const struct vb_cli_lab_talk *talk)
{
	if (!strstr(talk->partner_said, "bad: wrong hash"))
		return vb_cli_lab_fails_by_end(check, talk, "The receiver should have found a wrong hash.");
	if (talk->hung)
		return vb_cli_lab_fails(check, "The receiver said BAD (the file was changed after it was hashed), and the sender "
				    "did not end.");
	if (talk->student.code == 0 || vb_cli_lab_says(talk->student_said, "the receiver says: good") ||
	    vb_cli_lab_says(talk->student_said, "key for "))
		return vb_cli_lab_fails(check, "The receiver said BAD (the file was changed after it was hashed), and the sender "
				    "went on as if it had said GOOD.");
	return true;
}

static bool sees_death(struct vb_cli_lab_check *check, const struct vb_cli_lab_talk *talk)
{
	if (talk->hung)
		return vb_cli_lab_fails(check, "The receiver was killed in the middle of the file, and the sender still waited "
				    "%d seconds later. Wait by lab_wait, lab_receive or lab_expect only.", VB_CLI_LAB_TALKING);
	return talk->student.code != 0 ||
	       vb_cli_lab_fails(check, "The receiver was killed in the middle of the file, and the sender's exit code is 0.");
}

/* ---- What the expert makes ---- */

static bool resolves(struct vb_cli_lab_check *check, const struct vb_cli_lab_talk *talk)
{
	return vb_cli_lab_says(talk->student_said, "device: ") ||
	       vb_cli_lab_fails_by_end(check, talk, "lab_prepare was not reached.");
}

static bool makes_completion_queue(struct vb_cli_lab_check *check, const struct vb_cli_lab_talk *talk)
{
	char *line = vb_cli_lab_line(talk->student_said, "completion queue: ");
	bool good = false;

	if (!line)
		vb_cli_lab_fails_by_end(check, talk, "");
	else if (atoi(line) < SENDS + RECEIVES)
		vb_cli_lab_fails(check, "The completion queue has %d entries; %d completions can be waiting.", atoi(line),
				 SENDS + RECEIVES);
	else if (strstr(line, "no channel"))
		vb_cli_lab_fails(check, "The completion queue reports to no channel: lab_wait would sleep for ever.");
	else
		good = true;
	free(line);
	return good;
}

static bool makes_queue_pair(struct vb_cli_lab_check *check, const struct vb_cli_lab_talk *talk)
{
	char *line = vb_cli_lab_line(talk->student_said, "queue pair: ");
	unsigned sends = 0, receives = 0;
	bool good = false;

	if (!line || sscanf(line, "%u sends, %u receives", &sends, &receives) != 2)
		vb_cli_lab_fails_by_end(check, talk, "");
	else if (sends < SENDS || receives < RECEIVES)
		vb_cli_lab_fails(check, "The queue pair takes %u sends and %u receives; %d and %d can be under way.", sends,
				 receives, SENDS, RECEIVES);
	else
		good = true;
	free(line);
	return good;
}

static bool makes_messages(struct vb_cli_lab_check *check, const struct vb_cli_lab_talk *talk)
{
	char *line = vb_cli_lab_line(talk->student_said, "messages: ");
	bool good = false;

	if (!line)
		vb_cli_lab_fails_by_end(check, talk, "");
	else if (atoi(line) != RECEIVES)
		vb_cli_lab_fails(check, "%d receives were posted; there are %d slots to receive into.", atoi(line), RECEIVES);
	else
		good = true;
	free(line);
	return good;
}

static bool registers_slots(struct vb_cli_lab_check *check, const struct vb_cli_lab_talk *talk)
{
	return vb_cli_lab_says(talk->student_said, "slots: ") || vb_cli_lab_fails_by_end(check, talk, "");
}

/* ---- The exercises ---- */

typedef bool judge(struct vb_cli_lab_check *check, const struct vb_cli_lab_talk *talk);

/* `first`: what one honest conversation shows, in the order of the steps; the last has no function. */
static int grade(struct vb_cli_lab_check *check, judge *const *first)
{
	static const struct {
		size_t length;
		enum trick trick;
		judge *judge;
	} rest[] = { { FILE_IN_WINDOWS, HONEST, goes_in_windows },
		     { FILE_IN_WINDOWS, CHANGE_FILE, sees_bad },
		     { 512 * SMALL_REGION, KILL_RECEIVER, sees_death } };
	struct vb_cli_lab_talk talk = { 0 };
	int error = converse(check, SMALL_FILE, 2 * SMALL_FILE, HONEST, &talk);
	bool on = !error;
	int first_step;

	for (; on && *first; first++)
		on = vb_cli_lab_pass(check, (*first)(check, &talk));
	on = !error && vb_cli_lab_examine(check, &talk, 1) && on;
	for (size_t i = 0; on && i < sizeof(rest) / sizeof(rest[0]); i++) {
		vb_cli_lab_forget(&talk);
		first_step = check->passed;
		error = converse(check, rest[i].length, SMALL_REGION, rest[i].trick, &talk);
		on = !error && vb_cli_lab_pass(check, rest[i].judge(check, &talk));
		/* Of a receiver that is killed, Verbena has much to say that is not the student's fault. */
		if (!error && rest[i].trick == HONEST)
			on = vb_cli_lab_examine(check, &talk, first_step) && on;
	}
	vb_cli_lab_forget(&talk);
	return error;
}

#define CONNECTING "part 1: it connects"
#define REST                                                                                                           \
	"part 2: it offers length and SHA-256, and takes the region", "part 3: it writes the file into the region",     \
		"part 4: it says DONE and hears that all is good", "part 5: it sends its ID and gets the key",          \
		"part 6: a file larger than the region goes in windows", "a wrong hash is noticed",                     \
		"a receiver that vanishes is noticed"

static const char *const steps[] = { "it compiles", CONNECTING, REST };
static const char *const expert_steps[] = {
	"it compiles",
	"part 1: it resolves address and route",
	"part 7: it makes protection domain, completion channel and completion queue",
	"part 8: it makes the queue pair",
	"part 9: it registers memory for messages, and posts receives",
	CONNECTING,
	"part 10: it registers memory for the file",
	REST,
};

enum { COMPILES, CONNECTS, OFFERS, WRITES };
enum { X_RESOLVES = 1, X_COMPLETIONS, X_QUEUE_PAIR, X_MESSAGES, X_CONNECTS, X_SLOTS, X_OFFERS, X_WRITES };

#define UNACKNOWLEDGED "An event of the connection was taken by lab_event and not acknowledged; the program waits for that when it ends."
#define SLOT_CHANGED "A slot was filled again while its WRITE was under way: is each WRITE counted in writes_under_way?"

static const struct vb_cli_lab_blame blames[] = {
	{ "misuse", "unacknowledged_events", "object", "rdma_cm_id", CONNECTS, UNACKNOWLEDGED },
	{ "verb", "rdma_connect", NULL, NULL, CONNECTS, "" },
	{ "explain", "connection", NULL, NULL, CONNECTS, "" },
	{ "misuse", "buffer_changed", "opcode", "RDMA_WRITE", WRITES, SLOT_CHANGED },
	{ "explain", "completion", "opcode", "RDMA_WRITE", WRITES, "A WRITE failed." },
	{ "verb", "ibv_post_send", NULL, NULL, WRITES, "A request was refused." },
	{ 0 },
};
static const struct vb_cli_lab_blame expert_blames[] = {
	{ "misuse", "unacknowledged_events", "object", "rdma_cm_id", X_RESOLVES, UNACKNOWLEDGED },
	{ "verb", "rdma_resolve_addr", NULL, NULL, X_RESOLVES, "" },
	{ "verb", "rdma_resolve_route", NULL, NULL, X_RESOLVES, "" },
	{ "verb", "ibv_create_cq", NULL, NULL, X_COMPLETIONS, "" },
	{ "misuse", "cq_crowded", NULL, NULL, X_COMPLETIONS, "The completion queue is too small." },
	{ "event", "CQ_ERR", NULL, NULL, X_COMPLETIONS, "The completion queue is too small." },
	{ "verb", "rdma_create_qp", NULL, NULL, X_QUEUE_PAIR, "" },
	{ "verb", "ibv_create_qp", NULL, NULL, X_QUEUE_PAIR, "" },
	{ "explain", "completion", "opcode", "RECV", X_MESSAGES, "A message could not be received." },
	{ "verb", "ibv_post_recv", NULL, NULL, X_MESSAGES, "" },
	{ "verb", "rdma_connect", NULL, NULL, X_CONNECTS, "" },
	{ "explain", "connection", NULL, NULL, X_CONNECTS, "" },
	/* A WRITE that fails at home: its memory; at the receiver: the request. */
	{ "status", "LOC_PROT_ERR", "opcode", "RDMA_WRITE", X_SLOTS, "A WRITE could not read its slot." },
	{ "status", "LOC_PROT_ERR", "opcode", "SEND", X_MESSAGES, "A message could not be read." },
	{ "misuse", "buffer_changed", "opcode", "RDMA_WRITE", X_WRITES, SLOT_CHANGED },
	{ "explain", "completion", "opcode", "RDMA_WRITE", X_WRITES, "A WRITE failed." },
	{ "verb", "ibv_post_send", NULL, NULL, X_WRITES, "A request was refused." },
	{ 0 },
};

static int grade_ordinary(struct vb_cli_lab_check *check)
{
	static judge *const first[] = { connects, offers, writes, gets_verdict, gets_key, NULL };

	return grade(check, first);
}

static int grade_expert(struct vb_cli_lab_check *check)
{
	static judge *const first[] = { resolves, makes_completion_queue, makes_queue_pair, makes_messages, connects,
					registers_slots, offers, writes, gets_verdict, gets_key, NULL };

	return grade(check, first);
}

const struct vb_cli_lab_exercise vb_cli_lab_file = {
	.name = "file",
	.summary = "send a file by RDMA WRITE: six parts of a sender",
	.todo = "sender.c is yours to complete, in six parts",
	.files = vb_cli_lab_file_files,
	.program = "sender",
	.partner = "receiver",
	.partner_files = vb_cli_lab_file_files,
	.steps = steps,
	.step_count = sizeof(steps) / sizeof(steps[0]),
	.blames = blames,
	.grade = grade_ordinary,
};

const struct vb_cli_lab_exercise vb_cli_lab_expert = {
	.name = "expert",
	.summary = "the same, with PD, CQ, QP and MR of your own making: ten parts",
	.todo = "sender.c and prepare.c are yours to complete, in ten parts",
	.files = vb_cli_lab_expert_files,
	.program = "sender",
	.partner = "receiver",
	.partner_files = vb_cli_lab_file_files,
	.steps = expert_steps,
	.step_count = sizeof(expert_steps) / sizeof(expert_steps[0]),
	.blames = expert_blames,
	.grade = grade_expert,
};
