/* SPDX-License-Identifier: MIT
 *
 * See daemon_client.h. verbenad is looked for where our library lies: <dir>/../bin, <dir>, the directory it was
 * configured to be installed in; $VERBENA_DAEMON overrides all, except in set-user-ID programs.
 */
#include "io/daemon_client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "io/clock.h"
#include "io/daemon_silence.h"
#include "io/descriptor.h"
#include "io/event.h"
#include "io/host.h"
#include "io/process.h"
#include "io/spawn.h"
#include "io/unix_socket.h"

#ifndef VERBENA_BINDIR
#define VERBENA_BINDIR "/usr/bin"
#endif

#define START_PATIENCE VB_SECONDS(10)
#define ANSWER_PATIENCE VB_SECONDS(10)
#define STOPPED_PATIENCE VB_SECONDS(2)

enum { MOST_TRIES = 12, MOST_STARTS = 3 };

static bool is_trusted(uid_t uid)
{
	uid_t account;

	return uid == 0 || uid == geteuid() || (vb_host_account("verbena", &account) && uid == account);
}

static int start_daemon(void)
{
	const char *chosen = secure_getenv("VERBENA_DAEMON");
	char directory[3072], path[4096], why[256];
	int error;

	if (chosen && *chosen) {
		snprintf(path, sizeof(path), "%s", chosen);
	} else {
		bool located = vb_spawn_own_directory(directory, sizeof(directory)) == 0;

		path[0] = '\0';
		if (located)
			snprintf(path, sizeof(path), "%s/../bin/verbenad", directory);
		if (access(path, X_OK) != 0 && located)
			snprintf(path, sizeof(path), "%s/verbenad", directory);
		if (access(path, X_OK) != 0)
			snprintf(path, sizeof(path), "%s/verbenad", VERBENA_BINDIR);
	}
	if (access(path, X_OK) != 0) {
		error = -errno;
		vb_log(VB_LOG_ERROR, "no verbenad runs, and there is none to start at %s: %s (VERBENA_DAEMON may say "
		       "where)", path, strerror(-error));
		return error;
	}
	error = vb_spawn_daemon(path, why, sizeof(why), vb_clock_now() + START_PATIENCE);
	if (error != 0)
		vb_log(VB_LOG_ERROR, "cannot start %s: %s", path, why);
	return error;
}

static int refuse_foreign(uid_t uid)
{
	char owner[96];

	vb_host_user_name(uid, owner, sizeof(owner));
	vb_log(VB_LOG_ERROR, "the verbenad that runs here belongs to %s, who could read this program's traffic: not "
	       "used. For several users let root start the system's: verbenad --system", owner);
	return -EACCES;
}

/* As vb_daemon_client_receive; -ETIMEDOUT: no answer. One that is stopped is waited for as long as a signal or a debugger may take to let
 * it go on, one that runs until the deadline: the machine may be busy. */
static int await(struct vb_daemon_client *client, struct vb_daemon_message *message, int *fds, unsigned *count, vb_time deadline)
{
	struct vb_unix_peer peer;

	for (;;) {
		vb_time until = vb_time_earlier(vb_clock_now() + STOPPED_PATIENCE, deadline);
		int error = vb_daemon_client_receive(client, message, fds, count, until);

		if (error != -EAGAIN)
			return error;
		if (until == deadline || (vb_unix_peer(client->fd, &peer) == 0 && vb_process_is_stopped(peer.pid)))
			return -ETIMEDOUT;
	}
}

/* Without touching it: the daemon's last words may still be in the socket. */
static int greet(struct vb_daemon_client *client, vb_time patience)
{
	struct vb_daemon_message message;
	int fds[VB_DAEMON_MAX_FDS], error;
	unsigned count = 0;

	vb_daemon_message_begin(&message, VB_DAEMON_HELLO, 0);
	memcpy(message.hello.program, program_invocation_short_name,
	       strnlen(program_invocation_short_name, sizeof(message.hello.program) - 1));
	for (char *at = message.hello.program; *at; at++)
		if ((unsigned char)*at < ' ' || *at == 0x7f)
			*at = '?';
	error = vb_daemon_client_send(client, &message, NULL, 0);
	if (error != 0 && error != -EPIPE)
		return error;
	error = await(client, &message, fds, &count, vb_clock_now() + patience);
	if (error != 0)
		return error;
	if (message.header.type == VB_DAEMON_ERROR) {
		vb_log(VB_LOG_ERROR, "%s", message.error.text);
		return -message.error.error;
	}
	if (message.header.type != VB_DAEMON_WELCOME)
		return -EPROTO;
	client->pid = message.welcome.pid;
	client->uid = message.welcome.uid;
	client->is_system = message.welcome.flags & VB_DAEMON_IS_SYSTEM;
	memcpy(client->version, message.welcome.version, sizeof(client->version));
	return 0;
}

/* Where only root can listen first: any user may hold the other name. */
static int connect_to_daemon(void)
{
	char path[64];
	int fd = vb_host_meeting_path(VB_DAEMON_DIRECTORY, path, sizeof(path)) ? vb_unix_connect(path) : -ENOENT;

	return fd >= 0 || fd == -EAGAIN ? fd : vb_unix_connect(VB_DAEMON_SOCKET);
}

static int try_connect(struct vb_daemon_client *client, vb_time patience)
{
	struct vb_unix_peer peer;
	pid_t stopped = vb_daemon_that_is_stopped();
	int error;

	*client = (struct vb_daemon_client){.fd = -1, .pid = (uint32_t)stopped, .patience = patience};
	if (stopped != 0)
		return -ETIMEDOUT;
	client->fd = connect_to_daemon();
	if (client->fd < 0)
		return client->fd == -EAGAIN ? -ETIMEDOUT : client->fd;
	error = vb_unix_peer(client->fd, &peer);
	if (error == 0)
		client->pid = (uint32_t)peer.pid;
	if (error == 0 && !is_trusted(peer.uid))
		error = refuse_foreign(peer.uid);
	if (error == 0)
		error = greet(client, patience);
	vb_daemon_note(error, (pid_t)client->pid);
	if (error != 0)
		vb_daemon_client_close(client);
	return error;
}

static void tell_failure(const struct vb_daemon_client *client, int error)
{
	if (error == -ETIMEDOUT)
		vb_log(VB_LOG_ERROR, "cannot talk to verbenad: it %s (pid %u)", vb_daemon_silence_in_words((pid_t)client->pid),
		       client->pid);
	else if (error != 0 && error != -EACCES)
		vb_log(VB_LOG_ERROR, "cannot talk to verbenad: %s", strerror(-error));
}

int vb_daemon_client_connect(struct vb_daemon_client *client, bool may_start)
{
	unsigned starts = 0;
	int error = 0;

	for (unsigned tries = 0; tries < MOST_TRIES; tries++) {
		error = try_connect(client, vb_daemon_patience(ANSWER_PATIENCE));
		/* No daemon listens: start one. Hung up on: it was just about to exit, the next look finds none. */
		if (error != -ECONNREFUSED && error != -ECONNRESET)
			break;
		if (!may_start)
			return error;
		if (error == -ECONNREFUSED && starts < MOST_STARTS) {
			starts++;
			error = start_daemon();
			if (error != 0)
				return error;
			continue;
		}
		/* Another process's has bound the name and does not listen yet: microseconds. */
		vb_wait(NULL, 0, vb_clock_now() + (VB_MILLISECONDS(1) << tries));
	}
	client->patience = ANSWER_PATIENCE;
	tell_failure(client, error);
	return error;
}

int vb_daemon_client_reach(struct vb_daemon_client *client, vb_time patience)
{
	return try_connect(client, patience);
}

void vb_daemon_client_close(struct vb_daemon_client *client)
{
	if (client->fd >= 0)
		vb_descriptor_close(client->fd);
	client->fd = -1;
}

int vb_daemon_client_receive(struct vb_daemon_client *client, struct vb_daemon_message *message, int *fds,
			     unsigned *count, vb_time deadline)
{
	ssize_t length;
	int error;

	length = vb_unix_receive(client->fd, message, sizeof(*message), fds, VB_DAEMON_MAX_FDS, count, deadline);
	if (length == 0)
		return -ECONNRESET;
	if (length < 0)
		return (int)length;
	error = vb_daemon_message_check(message, (size_t)length, *count, VB_DAEMON_FROM_DAEMON);
	if (error == 0) {
		/* Messages may be shorter than their struct. */
		memset((uint8_t *)message + length, 0, sizeof(*message) - (size_t)length);
		return 0;
	}
	for (unsigned i = 0; i < *count; i++)
		vb_descriptor_close(fds[i]);
	*count = 0;
	return error;
}

int vb_daemon_client_send(struct vb_daemon_client *client, struct vb_daemon_message *message, const int *fds,
			  unsigned count)
{
	message->header.sequence = ++client->sequence;
	return vb_unix_send(client->fd, message, message->header.length, fds, count, true);
}

static bool ends_answer(const struct vb_daemon_message *message)
{
	switch (message->header.type) {
	case VB_DAEMON_DEVICE:
	case VB_DAEMON_PROCESS:
	case VB_DAEMON_PROCESS_DEVICE:
	case VB_DAEMON_PROCESS_RESOURCES:
	case VB_DAEMON_ADAPTER:
		return false;
	}
	return true;
}

static int ask(struct vb_daemon_client *client, struct vb_daemon_message *request, const int *fds, unsigned count, vb_daemon_take *take,
	       void *context, enum vb_log_level refusal)
{
	vb_time deadline = vb_clock_now() + vb_daemon_patience(client->patience);
	int error = vb_daemon_client_send(client, request, fds, count);

	while (error == 0) {
		struct vb_daemon_message answer;
		int received[VB_DAEMON_MAX_FDS];
		unsigned received_count = 0;
		bool asked, more;

		error = await(client, &answer, received, &received_count, deadline);
		/* It is there still when there is memory for it. */
		if ((error == -ENOMEM || error == -ENOBUFS) && vb_clock_now() < deadline) {
			vb_wait(NULL, 0, vb_clock_now() + VB_MILLISECONDS(1));
			error = 0;
			continue;
		}
		if (error != 0)
			break;
		asked = answer.header.sequence == request->header.sequence;
		if (asked && answer.header.type == VB_DAEMON_ERROR) {
			vb_log(refusal, "%s", answer.error.text);
			return -answer.error.error;
		}
		if (!asked && answer.header.sequence != 0) {
			/* To a question whose answer was not waited for to the end. */
			error = answer.header.sequence < request->header.sequence ? 0 : -EPROTO;
			more = false;
		} else {
			more = take(context, &answer, received, received_count);
		}
		for (unsigned i = 0; i < received_count; i++)
			vb_descriptor_close(received[i]);
		if (asked && (!more || ends_answer(&answer)))
			break;
	}
	vb_daemon_note(error, (pid_t)client->pid);
	return error == -EPIPE ? -ECONNRESET : error;
}

int vb_daemon_client_request(struct vb_daemon_client *client, struct vb_daemon_message *request, const int *fds,
			     unsigned count, vb_daemon_take *take, void *context)
{
	return ask(client, request, fds, count, take, context, VB_LOG_ERROR);
}

int vb_daemon_client_try(struct vb_daemon_client *client, struct vb_daemon_message *request, vb_daemon_take *take, void *context)
{
	return ask(client, request, NULL, 0, take, context, VB_LOG_INFO);
}
