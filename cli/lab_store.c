/* SPDX-License-Identifier: MIT
 *
 * The store lab: the student's client, and our server. The server says what it has put where, with a word that no program could
 * have known, and the client is asked for it: a bucket; one that is being changed; keys that are and are not there; a
 * key of the client's own. The server counts the messages it gets: reading must not make any.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/lab_check.h"

enum step { COMPILES, CONNECTS, READS, BELIEVES, FINDS, PUTS, ONE_SIDED };
static const char *const steps[] = {
	[COMPILES] = "it compiles",
	[CONNECTS] = "part 1: it connects, and learns where the table is",
	[READS] = "part 2: it reads a bucket",
	[BELIEVES] = "part 3: it does not believe a bucket that is being changed",
	[FINDS] = "part 4: it finds keys, and knows which are absent",
	[PUTS] = "part 5: it puts a value, and another client finds it",
	[ONE_SIDED] = "reading costs the server nothing",
};

enum { KEYS = 4, KEY = 40, VALUE = 128 };

/* What the server has. */
struct contents {
	struct {
		int bucket;
		char key[KEY], value[VALUE];
	} seeded[KEYS + 2];                  /* the last two are being changed */
	int count;
	char absent[KEY];
};

/* ---- Conversations ---- */

static int start_server(struct vb_cli_lab_check *check, struct vb_cli_lab_process *server, struct contents *contents)
{
	int error = vb_cli_lab_start_partner(check, server, "partner.out",
					     (char *[]){ "server", check->port, check->identity, NULL });
	char *said, *absent;

	if (!error && !vb_cli_lab_wait(server, "listening", VB_CLI_LAB_STARTING))
		error = -ECONNREFUSED;
	said = vb_cli_lab_output(server);
	for (const char *line = said; !error && (line = strstr(line, "seeded: ")) && contents->count < KEYS + 2; line++) {
		int i = contents->count++;

		if (sscanf(line, "seeded: bucket %d: %39s = %127[^\n]", &contents->seeded[i].bucket, contents->seeded[i].key,
			   contents->seeded[i].value) != 3)
			error = -EPROTO;
	}
	absent = vb_cli_lab_line(said, "absent: ");
	if (!absent || contents->count != KEYS + 2)
		error = error ? error : -EPROTO;
	else
		snprintf(contents->absent, sizeof(contents->absent), "%s", absent);
	free(absent);
	free(said);
	return error;
}

/* What was said so far, by a server that goes on. */
static void keep(const struct vb_cli_lab_check *check, struct vb_cli_lab_talk *talk, const struct vb_cli_lab_process *server)
{
	talk->partner = *server;
	talk->partner.ended = true;
	vb_cli_lab_collect(check, talk);
}

/* The student's client with these commands, against a server that runs already. */
static int ask(struct vb_cli_lab_check *check, struct vb_cli_lab_talk *talk, const struct vb_cli_lab_process *server,
	       char *const commands[])
{
	char *arguments[24] = { "client", "127.0.0.1", check->port };
	int error;

	for (size_t i = 0; i < 20 && commands[i]; i++)
		arguments[3 + i] = commands[i];
	error = vb_cli_lab_start_student(check, talk, arguments);
	if (error)
		return error;
	vb_cli_lab_wait_for_student(check, talk, VB_CLI_LAB_TALKING);
	keep(check, talk, server);
	return 0;
}

/* Asks for a bucket that is being changed; the server finishes when the client has had two seconds to believe it. */
static int ask_too_early(struct vb_cli_lab_check *check, struct vb_cli_lab_talk *talk, const struct vb_cli_lab_process *server,
			 int bucket, bool finish)
{
	char number[16];
	int error;

	snprintf(number, sizeof(number), "%d", bucket);
	error = vb_cli_lab_start_student(check, talk, (char *[]){ "client", "127.0.0.1", check->port, "peek", number, NULL });
	if (error)
		return error;
	if (vb_cli_lab_wait(&talk->student, "reading bucket", VB_CLI_LAB_TALKING))
		vb_cli_lab_wait(&talk->student, NULL, 2);
	if (finish)
		kill(server->pid, SIGUSR1);
	else
		vb_cli_lab_kill(&talk->student);
	vb_cli_lab_wait_for_student(check, talk, VB_CLI_LAB_TALKING);
	keep(check, talk, server);
	return 0;
}

/* ---- Steps ---- */

static bool connects(struct vb_cli_lab_check *check, const struct vb_cli_lab_talk *talk)
{
	char *told = vb_cli_lab_line(talk->partner_said, "table: "), *learned = vb_cli_lab_line(talk->student_said, "the table: ");
	bool good = false;

	if (!told || !learned)
		vb_cli_lab_fails_by_end(check, talk, told ? "The server has accepted it." : "The server saw no connection.");
	else if (strcmp(told, learned))
		vb_cli_lab_fails(check, "The server said: %s. The client took it for: %s. Numbers travel big-endian, and private "
					"data is gone when its event is acknowledged.", told, learned);
	else
		good = true;
	free(told);
	free(learned);
	return good;
}

/* What was said of a bucket is what is in it. */
static bool says_bucket(const struct vb_cli_lab_talk *talk, const struct contents *contents, int i)
{
	char line[VALUE + KEY + 32];

	snprintf(line, sizeof(line), "bucket %d: %s = %s\n", contents->seeded[i].bucket, contents->seeded[i].key,
		 contents->seeded[i].value);
	return strstr(talk->student_said, line) != NULL;
}

static bool reads(struct vb_cli_lab_check *check, const struct vb_cli_lab_talk *talk, const struct contents *contents)
{
	char *complaint = vb_cli_lab_line(talk->student_said, "client: "), *bucket = vb_cli_lab_line(talk->student_said, "bucket ");
	bool good = false;

	/* It came to the next part: the READ was completed. */
	if (says_bucket(talk, contents, 0) || (complaint && !strcmp(complaint, "part 3 is not written yet")))
		good = true;
	else if (bucket)
		vb_cli_lab_fails(check, "Bucket %d holds %s = %s; the client says: bucket %s. Is it read from table.address + number * "
					"sizeof(struct store_bucket), and is the READ waited for?", contents->seeded[0].bucket,
				 contents->seeded[0].key, contents->seeded[0].value, bucket);
	else
		vb_cli_lab_fails_by_end(check, talk, "");
	free(complaint);
	free(bucket);
	return good;
}

static bool believes(struct vb_cli_lab_check *check, const struct vb_cli_lab_talk *early, const struct vb_cli_lab_talk *late,
		     const struct contents *contents)
{
	char *complaint = vb_cli_lab_line(early->student_said, "client: ");

	if (complaint) {
		free(complaint);
		return vb_cli_lab_fails_by_end(check, early, "");
	}
	if (vb_cli_lab_says(early->student_said, "bucket "))
		return vb_cli_lab_fails(check, "Bucket %d is being changed: its version is odd. The client believed what it read "
					       "there.", contents->seeded[KEYS].bucket);
	if (!strstr(late->student_said, "bucket ") || !says_bucket(late, contents, KEYS + 1)) {
		if (vb_cli_lab_says(late->student_said, "bucket "))
			return vb_cli_lab_fails(check, "Bucket %d does not add up: its version is even, but not all of it has arrived. "
						       "The client believed what it read there; store_check() tells.",
						contents->seeded[KEYS + 1].bucket);
		return vb_cli_lab_fails_by_end(check, late, "The server has finished its changes, and the client goes on reading: does "
							    "it take a whole bucket for a torn one?");
	}
	return true;
}

static bool finds(struct vb_cli_lab_check *check, const struct vb_cli_lab_talk *talk, const struct contents *contents)
{
	char line[VALUE + KEY + 32], *said;

	for (int i = 0; i < KEYS + 2; i++) {
		snprintf(line, sizeof(line), "%s = ", contents->seeded[i].key);
		said = vb_cli_lab_line(talk->student_said, line);
		if (said && !strcmp(said, contents->seeded[i].value)) {
			free(said);
			continue;
		}
		if (said)
			vb_cli_lab_fails(check, "%s is \"%s\"; the client says \"%s\".", contents->seeded[i].key,
					 contents->seeded[i].value, said);
		else
			vb_cli_lab_fails_by_end(check, talk, "");
		free(said);
		snprintf(line, sizeof(line), "%s is absent\n", contents->seeded[i].key);
		if (strstr(talk->student_said, line))
			vb_cli_lab_fails(check, "%s is in bucket %d, and the client says that it is absent. %s", contents->seeded[i].key,
					 contents->seeded[i].bucket,
					 i == 1 ? "Its home is taken by another key: the search goes on in the next bucket."
					 : i == 3 ? "Its home is the last bucket, which another key has: the search goes on in the first."
						  : "");
		return false;
	}
	snprintf(line, sizeof(line), "%s is absent\n", contents->absent);
	return strstr(talk->student_said, line) != NULL ||
	       vb_cli_lab_fails_by_end(check, talk, "The table does not have the last key that was asked for: an empty bucket ends the "
						    "search.");
}

static bool puts_value(struct vb_cli_lab_check *check, const struct vb_cli_lab_talk *put, const struct vb_cli_lab_talk *get)
{
	char wanted[VALUE];

	if (!vb_cli_lab_says(put->student_said, "fruit is stored"))
		return vb_cli_lab_fails_by_end(check, put, vb_cli_lab_says(put->partner_said, "put: ") ? "The server has answered."
												  : "The server waits for a request.");
	snprintf(wanted, sizeof(wanted), "fruit = quince-%s\n", check->identity);
	return strstr(get->student_said, wanted) != NULL ||
	       vb_cli_lab_fails_by_end(check, get, "Another client does not find what this one has put.");
}

static bool is_one_sided(struct vb_cli_lab_check *check, const char *server_said, unsigned puts)
{
	char *messages = vb_cli_lab_line(server_said, "messages: ");
	unsigned count = messages ? (unsigned)strtoul(messages, NULL, 10) : 0;

	free(messages);
	return (messages && count == puts) ||
	       vb_cli_lab_fails(check, "The server got %u messages; there was %u put. A value is read by RDMA READ, without a message.",
				count, puts);
}

/* ---- The exercise ---- */

static int grade(struct vb_cli_lab_check *check)
{
	struct vb_cli_lab_talk talk = { 0 }, next = { 0 };
	struct vb_cli_lab_process server = { 0 };
	struct contents contents = { .count = 0 };
	char bucket[16], value[64], *said;
	int error = start_server(check, &server, &contents);
	bool on;

	snprintf(bucket, sizeof(bucket), "%d", contents.seeded[0].bucket);
	snprintf(value, sizeof(value), "quince-%s", check->identity);
	if (error) {
		talk.partner = server;
		error = vb_cli_lab_cannot(check, &talk, error);
	} else {
		error = ask(check, &talk, &server, (char *[]){ "peek", bucket, NULL });
	}
	on = !error && vb_cli_lab_pass(check, connects(check, &talk)) && vb_cli_lab_pass(check, reads(check, &talk, &contents));
	on = !error && vb_cli_lab_examine(check, &talk, CONNECTS) && on;
	vb_cli_lab_forget(&talk);
	if (on) {
		error = ask_too_early(check, &talk, &server, contents.seeded[KEYS].bucket, false);
		if (!error)
			error = ask_too_early(check, &next, &server, contents.seeded[KEYS + 1].bucket, true);
		on = !error && vb_cli_lab_pass(check, believes(check, &talk, &next, &contents));
		vb_cli_lab_forget(&talk);
		vb_cli_lab_forget(&next);
	}
	if (on) {
		error = ask(check, &talk, &server,
			    (char *[]){ "get", contents.seeded[0].key, "get", contents.seeded[1].key, "get", contents.seeded[2].key,
					"get", contents.seeded[3].key, "get", contents.seeded[4].key, "get", contents.seeded[5].key,
					"get", contents.absent, NULL });
		on = !error && vb_cli_lab_pass(check, finds(check, &talk, &contents));
		on = !error && vb_cli_lab_examine(check, &talk, FINDS) && on;
		vb_cli_lab_forget(&talk);
	}
	if (on) {
		error = ask(check, &talk, &server, (char *[]){ "put", "fruit", value, NULL });
		if (!error)
			error = ask(check, &next, &server, (char *[]){ "get", "fruit", NULL });
		on = !error && vb_cli_lab_pass(check, puts_value(check, &talk, &next));
		on = !error && vb_cli_lab_examine(check, &talk, PUTS) && on;
		vb_cli_lab_forget(&talk);
		vb_cli_lab_forget(&next);
	}
	if (server.pid > 0 && !server.ended)
		kill(server.pid, SIGTERM);
	if (on) {
		vb_cli_lab_wait(&server, "messages: ", VB_CLI_LAB_LEAVING);
		said = vb_cli_lab_output(&server);
		vb_cli_lab_pass(check, is_one_sided(check, said, 1));
		free(said);
	}
	vb_cli_lab_kill(&server);
	return error;
}

static const struct vb_cli_lab_blame blames[] = {
	{ "misuse", "unacknowledged_events", "object", "rdma_cm_id", CONNECTS,
	  "ESTABLISHED was taken and not acknowledged: the program waits for that when it ends." },
	{ "verb", "rdma_connect", NULL, NULL, CONNECTS, "" },
	{ "explain", "connection", NULL, NULL, CONNECTS, "" },
	{ "verb", "ibv_post_recv", NULL, NULL, PUTS, "" },
	{ "explain", "completion", "opcode", "RECV", PUTS, "The answer could not be received." },
	{ "explain", "completion", "opcode", "SEND", PUTS, "The request could not be sent." },
	{ "verb", "ibv_post_send", "opcode", "SEND", PUTS, "" },
	{ "status", "LOC_QP_OP_ERR", "opcode", "RDMA_READ", CONNECTS, "READs were not allowed for when the connection was made." },
	{ "explain", "completion", "opcode", "RDMA_READ", READS, "The READ failed." },
	{ "verb", "ibv_post_send", "opcode", "RDMA_READ", READS, "The READ was refused." },
	{ 0 },
};

const struct vb_cli_lab_exercise vb_cli_lab_store = {
	.name = "store",
	.summary = "a key-value store that is read by RDMA READ: five parts of its client",
	.todo = "client.c is yours to complete, in five parts",
	.files = vb_cli_lab_store_files,
	.program = "client",
	.partner = "server",
	.partner_files = vb_cli_lab_store_files,
	.steps = steps,
	.step_count = sizeof(steps) / sizeof(steps[0]),
	.blames = blames,
	.grade = grade,
};
