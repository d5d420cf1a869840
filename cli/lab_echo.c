/* SPDX-License-Identifier: MIT
 *
 * The echo lab: the student's server, and our clients. Conversations: one message; a thousand, four at a time; one after
 * which the client is silent; and four clients at the same time, one of which is killed.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/lab_check.h"

enum step { COMPILES, LISTENS, WAKES, TAKES_EVENTS, ACCEPTS, ECHOES, MANY, SLEEPS, TOGETHER, ENDS };
static const char *const steps[] = {
	[COMPILES] = "it compiles",
	[LISTENS] = "part 1: it listens",
	[WAKES] = "part 2: it wakes up when somebody comes",
	[TAKES_EVENTS] = "part 3: it takes events of connections",
	[ACCEPTS] = "part 4: it accepts a client",
	[ECHOES] = "part 5: a message comes back",
	[MANY] = "a thousand messages come back, four at a time",
	[SLEEPS] = "it sleeps while nothing happens",
	[TOGETHER] = "several clients are served at the same time; one is killed",
	[ENDS] = "it gives everything back, and ends",
};

enum { CROWD = 3 };
/* Seconds for a server to end that has nothing left to do. Whether it does is judged last; here it may tell why not. */
enum { ENDING = 5 };

/* How the student's server was when no client wanted anything. */
struct rest {
	bool seen, awake;
	unsigned long switches;              /* times that it was woken in a second */
};

/* ---- Looking at a server that should sleep ---- */

/* Of the first thread: is it asleep, and how often did it go to sleep so far? */
static bool look_at(pid_t pid, bool *asleep, unsigned long *switches)
{
	char path[64], *text, *state, *count;
	bool found;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", (int)pid, (int)pid);
	text = vb_cli_lab_text(path);
	state = vb_cli_lab_line(text, "State:\t");
	count = vb_cli_lab_line(text, "voluntary_ctxt_switches:\t");
	found = state && count;
	if (found) {
		*asleep = *state == 'S';
		*switches = strtoul(count, NULL, 10);
	}
	free(state);
	free(count);
	free(text);
	return found;
}

/* A thread that polls is never asleep, however little of a processor it gets; one that sleeps and looks now and then
 * goes to sleep again and again. */
static struct rest watch_rest(struct vb_cli_lab_process *student)
{
	struct rest rest = { .awake = true };
	unsigned long before = 0, after = 0;
	bool asleep = false;

	/* It may have something left to do. */
	for (int i = 0; i < 300 && rest.awake && !vb_cli_lab_interrupted; i++) {
		rest.seen = look_at(student->pid, &asleep, &before);
		rest.awake = rest.seen && !asleep;
		if (rest.awake)
			nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	}
	if (!rest.seen || rest.awake)
		return rest;
	nanosleep(&(struct timespec){ .tv_sec = 1 }, NULL);
	rest.seen = look_at(student->pid, &asleep, &after);
	rest.switches = after - before;
	return rest;
}

/* ---- Conversations ---- */

static int begin(struct vb_cli_lab_check *check, struct vb_cli_lab_talk *talk, char *clients)
{
	int error = vb_cli_lab_start_student(check, talk, (char *[]){ "server", check->port, clients, NULL });

	/* Without that line the client will find no server, and the step is judged by what was said instead. */
	if (!error)
		vb_cli_lab_wait(&talk->student, "listening", VB_CLI_LAB_STARTING);
	return error;
}

static int converse(struct vb_cli_lab_check *check, struct vb_cli_lab_talk *talk, char *messages, struct rest *rest)
{
	int error = begin(check, talk, "1");

	if (!error)
		error = vb_cli_lab_start_partner(check, &talk->partner, "partner.out",
						 (char *[]){ "client", "127.0.0.1", check->port, messages,
							     rest ? "hold" : NULL, NULL });
	if (error)
		return vb_cli_lab_cannot(check, talk, error);
	if (rest && vb_cli_lab_wait(&talk->partner, "holding", VB_CLI_LAB_TALKING)) {
		*rest = watch_rest(&talk->student);
		kill(talk->partner.pid, SIGTERM);
	}
	vb_cli_lab_wait(&talk->partner, NULL, VB_CLI_LAB_TALKING);
	/* A client that was never served is no reason to wait for the server's end. */
	if (talk->partner.code == 0)
		vb_cli_lab_wait_for_student(check, talk, ENDING);
	vb_cli_lab_collect(check, talk);
	return 0;
}

/* Several clients, and one that is killed while it is silent. */
static int crowd(struct vb_cli_lab_check *check, struct vb_cli_lab_talk *talk, int *good)
{
	struct vb_cli_lab_process others[CROWD];
	int error = begin(check, talk, "4"), started = 0;
	char output[32];

	*good = 0;
	if (!error)
		error = vb_cli_lab_start_partner(check, &talk->partner, "partner.out",
						 (char *[]){ "client", "127.0.0.1", check->port, "1", "hold", NULL });
	for (; !error && started < CROWD; started++) {
		snprintf(output, sizeof(output), "other-%d.out", started);
		error = vb_cli_lab_start_partner(check, &others[started], output,
						 (char *[]){ "client", "127.0.0.1", check->port, "300", NULL });
		if (error)
			break;
	}
	if (!error) {
		vb_cli_lab_wait(&talk->partner, "holding", VB_CLI_LAB_TALKING);
		vb_cli_lab_kill(&talk->partner);
	}
	for (int i = 0; i < started; i++) {
		vb_cli_lab_wait(&others[i], NULL, VB_CLI_LAB_TALKING);
		vb_cli_lab_kill(&others[i]);
		*good += others[i].code == 0;
	}
	if (error)
		return vb_cli_lab_cannot(check, talk, error);
	if (*good == CROWD)
		vb_cli_lab_wait_for_student(check, talk, VB_CLI_LAB_TALKING);
	vb_cli_lab_collect(check, talk);
	return 0;
}

/* ---- Steps ---- */

static bool listens(struct vb_cli_lab_check *check, const struct vb_cli_lab_talk *talk)
{
	char *port = vb_cli_lab_line(talk->student_said, "listening on port ");
	bool good = false;

	if (!port)
		vb_cli_lab_fails_by_end(check, talk, "");
	else if (strcmp(port, check->port))
		vb_cli_lab_fails(check, "The server was told to listen on port %s, and listens on %s.", check->port, port);
	else if (strstr(talk->partner_said, "does the server listen?"))
		vb_cli_lab_fails(check, "The client was rejected: nobody listens on port %s. rdma_bind_addr chooses the port, "
				 "rdma_listen makes it one that clients reach.", check->port);
	else
		good = true;
	free(port);
	return good;
}

static bool wakes(struct vb_cli_lab_check *check, const struct vb_cli_lab_talk *talk)
{
	return vb_cli_lab_says(talk->student_said, "event: ") ||
	       vb_cli_lab_fails_by_end(check, talk, "A client wants to connect, and wait[0].revents does not say so.");
}

static bool takes_events(struct vb_cli_lab_check *check, const struct vb_cli_lab_talk *talk)
{
	return vb_cli_lab_says(talk->student_said, "a client comes") ||
	       vb_cli_lab_fails_by_end(check, talk, "There was a CONNECT_REQUEST, and nobody called welcome().");
}

static bool accepts(struct vb_cli_lab_check *check, const struct vb_cli_lab_talk *talk)
{
	return vb_cli_lab_says(talk->partner_said, "connected") ||
	       vb_cli_lab_fails_by_end(check, talk, "The client waits to be accepted.");
}

static bool echoes(struct vb_cli_lab_check *check, const struct vb_cli_lab_talk *talk)
{
	return vb_cli_lab_says(talk->partner_said, "echoed ") ||
	       vb_cli_lab_fails_by_end(check, talk, "Is ibv_req_notify_cq called before the first message can come?");
}

static bool echoes_many(struct vb_cli_lab_check *check, const struct vb_cli_lab_talk *talk)
{
	return vb_cli_lab_says(talk->partner_said, "echoed ") ||
	       vb_cli_lab_fails_by_end(check, talk, "Is the next event asked for before the queue is polled empty, and each "
						    "slot's receive posted again once its answer is completed?");
}

static bool sleeps(struct vb_cli_lab_check *check, const struct vb_cli_lab_talk *talk, const struct rest *rest)
{
	if (!rest->seen)
		return vb_cli_lab_fails_by_end(check, talk, "");
	if (rest->awake)
		return vb_cli_lab_fails(check, "The client is connected and silent, and the server does not sleep: it polls. "
					       "Wait by poll(2) without a time limit, for all descriptors at once.");
	return rest->switches <= 5 ||
	       vb_cli_lab_fails(check, "The client is connected and silent, and the server woke up %lu times in a second. Wait "
				       "by poll(2) without a time limit.", rest->switches);
}

static bool serves_together(struct vb_cli_lab_check *check, const struct vb_cli_lab_talk *talk, int good)
{
	if (good == CROWD)
		return true;
	return vb_cli_lab_fails_by_end(check, talk, "Not every client got its echoes.");
}

static bool ends(struct vb_cli_lab_check *check, const struct vb_cli_lab_talk *talk)
{
	if (!talk->hung && talk->student.code == 0)
		return true;
	return vb_cli_lab_fails_by_end(check, talk, "All clients have gone, one of them without a word: DISCONNECTED has come for "
						    "each, and farewell() wants to be called.");
}

/* ---- The exercise ---- */

/* The reason why a conversation is not over well is often seen in its end: so each is examined. */
static int grade(struct vb_cli_lab_check *check)
{
	struct vb_cli_lab_talk talk = { 0 };
	struct rest rest = { 0 };
	int good = 0, error = converse(check, &talk, "1", NULL);
	bool on = !error && vb_cli_lab_pass(check, listens(check, &talk)) && vb_cli_lab_pass(check, wakes(check, &talk)) &&
		  vb_cli_lab_pass(check, takes_events(check, &talk)) && vb_cli_lab_pass(check, accepts(check, &talk)) &&
		  vb_cli_lab_pass(check, echoes(check, &talk));

	on = !error && vb_cli_lab_examine(check, &talk, LISTENS) && on;
	vb_cli_lab_forget(&talk);
	if (on) {
		error = converse(check, &talk, "1000", NULL);
		on = !error && vb_cli_lab_pass(check, echoes_many(check, &talk));
		on = !error && vb_cli_lab_examine(check, &talk, MANY) && on;
		vb_cli_lab_forget(&talk);
	}
	if (on) {
		error = converse(check, &talk, "1", &rest);
		on = !error && vb_cli_lab_pass(check, sleeps(check, &talk, &rest));
		vb_cli_lab_forget(&talk);
	}
	if (on) {
		error = crowd(check, &talk, &good);
		on = !error && vb_cli_lab_pass(check, serves_together(check, &talk, good)) && vb_cli_lab_pass(check, ends(check, &talk));
		vb_cli_lab_forget(&talk);
	}
	return error;
}

static const struct vb_cli_lab_blame blames[] = {
	{ "verb", "rdma_bind_addr", NULL, NULL, LISTENS, "" },
	{ "verb", "rdma_listen", NULL, NULL, LISTENS, "" },
	{ "misuse", "unacknowledged_events", "object", "rdma_cm_id", TAKES_EVENTS,
	  "An event of a connection was taken and not acknowledged: farewell() waits for that." },
	{ "misuse", "unacknowledged_events", "object", "CQ", ECHOES,
	  "An event of the completion queue was taken and not acknowledged: farewell() waits for that." },
	{ "verb", "rdma_accept", NULL, NULL, ACCEPTS, "" },
	{ "verb", "rdma_create_qp", NULL, NULL, ACCEPTS, "" },
	{ "verb", "ibv_create_cq", NULL, NULL, ACCEPTS, "" },
	{ "verb", "ibv_post_recv", NULL, NULL, ACCEPTS, "" },
	{ "misuse", "cq_crowded", NULL, NULL, ACCEPTS, "The completion queue is too small." },
	{ "explain", "completion", "opcode", "RECV", ACCEPTS, "A message could not be received." },
	{ "misuse", "buffer_changed", NULL, NULL, ECHOES,
	  "A slot was received into again while its answer was under way: post its receive when the send is completed." },
	{ "verb", "ibv_post_send", NULL, NULL, ECHOES, "" },
	{ 0 },
};

const struct vb_cli_lab_exercise vb_cli_lab_echo = {
	.name = "echo",
	.summary = "a server that sends messages back, by events, for many clients: five parts",
	.todo = "server.c is yours to complete, in five parts",
	.files = vb_cli_lab_echo_files,
	.program = "server",
	.partner = "client",
	.partner_files = vb_cli_lab_echo_files,
	.steps = steps,
	.step_count = sizeof(steps) / sizeof(steps[0]),
	.blames = blames,
	.grade = grade,
};
