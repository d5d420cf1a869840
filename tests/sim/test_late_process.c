/* SPDX-License-Identifier: MIT
 *
 * A process that did not run while its verbenad was replaced comes when all others have been served: its slot is still its own, also
 * where the new verbenad draws that very number for another. verbenad itself, with a clock and chance of the test's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/server.h"
#include "io/unix_socket.h"
#include "lib/private_network.h"
#include "sim/seams.h"
#include "wire/daemon_message.h"

#define NAME "verbena/late"

enum { DRAWN = 41, MOST_TURNS = 200 };

struct process {
	int fd, kept[VB_DAEMON_MAX_FDS];   /* by the bits of VB_DAEMON_FD_ALL; -1: none */
	uint32_t slot;
	bool is_elsewhere;                 /* it is none of this process, as the kernel sees it */
	int error;                         /* of the last refusal */
};

static struct vb_server *server;
static uint32_t draws;

/* Of 1,023 slots always the same one; as the number of a probe, never the same. */
static uint32_t draw(uint32_t bound)
{
	(void)bound;
	return DRAWN + (VB_DAEMON_SLOTS - 1) * ++draws;
}

static void start_daemon(void)
{
	const struct vb_server_config config = {.idle = VB_SECONDS(100000)};
	int listener = vb_unix_listen(NAME);

	assert_true(listener >= 0);
	assert_int_equal(vb_server_create(&server, (int[]){listener, -1}, &config), 0);
}

/* What its kernel would do: all its descriptors are closed. */
static void kill_daemon(void)
{
	vb_server_destroy(server);
	server = NULL;
}

static void begin(struct process *process)
{
	*process = (struct process){.fd = -1};
	for (unsigned i = 0; i < VB_DAEMON_MAX_FDS; i++)
		process->kept[i] = -1;
}

static void hang_up(struct process *process)
{
	if (process->fd >= 0)
		close(process->fd);
	process->fd = -1;
}

static void end(struct process *process)
{
	hang_up(process);
	for (unsigned i = 0; i < VB_DAEMON_MAX_FDS; i++)
		if (process->kept[i] >= 0)
			close(process->kept[i]);
	begin(process);
}

static void say(struct process *process, struct vb_daemon_message *message, const int *fds, unsigned count)
{
	message->header.sequence = 1;
	assert_int_equal(vb_unix_send(process->fd, message, message->header.length, fds, count, false), 0);
}

static void take_slot(struct process *process, const struct vb_daemon_slot *slot, const int *fds)
{
	for (unsigned i = 0, next = 0; i < VB_DAEMON_MAX_FDS; i++) {
		if (!(slot->descriptors & 1u << i))
			continue;
		if (process->kept[i] >= 0)
			close(process->kept[i]);
		process->kept[i] = fcntl(fds[next++], F_DUPFD_CLOEXEC, 3);
	}
	process->slot = slot->slot;
}

/* verbenad's answer, while its time passes. */
static void await_slot(struct process *process)
{
	for (unsigned turns = 0; turns < MOST_TURNS; turns++) {
		struct vb_daemon_message message;
		int fds[VB_DAEMON_MAX_FDS];
		unsigned count = 0;
		ssize_t length;

		assert_false(vb_server_turn(server, seam.now));
		seam.now += VB_MILLISECONDS(20);
		length = vb_unix_receive(process->fd, &message, sizeof(message), fds, VB_DAEMON_MAX_FDS, &count, 0);
		if (length == -EAGAIN)
			continue;
		assert_true(length > 0);
		if (message.header.type == VB_DAEMON_SLOT)
			take_slot(process, &message.slot, fds);
		for (unsigned i = 0; i < count; i++)
			close(fds[i]);
		process->error = message.header.type == VB_DAEMON_ERROR ? message.error.error : 0;
		if (message.header.type != VB_DAEMON_WELCOME)
			return;
	}
	fail_msg("verbenad does not answer");
}

/* By another process: verbenad asks the kernel who connected. */
static int connect_elsewhere(void)
{
	int ends[2], fd = -1;
	unsigned count = 0;
	char byte = 0;
	pid_t child;

	assert_int_equal(vb_unix_pair(ends), 0);
	child = fork();
	if (child == 0) {
		fd = vb_unix_connect(NAME);
		_exit(fd >= 0 && vb_unix_send(ends[1], &byte, 1, &fd, 1, true) == 0 ? 0 : 1);
	}
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_int_equal(vb_unix_receive(ends[0], &byte, 1, &fd, 1, &count, 0), 1);
	assert_int_equal(count, 1);
	close(ends[0]);
	close(ends[1]);
	return fd;
}

/* For a slot, or with the one it has. */
static void come(struct process *process)
{
	int fds[VB_DAEMON_MAX_FDS];
	struct vb_daemon_message message;
	unsigned count = 0;

	hang_up(process);
	process->fd = process->is_elsewhere ? connect_elsewhere() : vb_unix_connect(NAME);
	assert_true(process->fd >= 0);
	vb_daemon_message_begin(&message, VB_DAEMON_HELLO, 0);
	say(process, &message, NULL, 0);
	vb_daemon_message_begin(&message, process->slot == 0 ? VB_DAEMON_OPEN_SLOT : VB_DAEMON_ADOPT_SLOT, 0);
	if (process->slot != 0)
		message.slot.slot = process->slot;
	for (unsigned i = 0; process->slot != 0 && 1u << i < VB_DAEMON_FD_CLAIM; i++) {
		if (process->kept[i] < 0)
			continue;
		message.slot.descriptors |= 1u << i;
		fds[count++] = process->kept[i];
	}
	say(process, &message, fds, count);
	await_slot(process);
}

static int set_up(void **state)
{
	(void)state;
	seam = (struct seam){.now = VB_SECONDS(1000), .draw = draw};
	start_daemon();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	kill_daemon();
	return 0;
}

static void a_process_that_was_stopped_keeps_its_slot(void **state)
{
	struct process stopped, other;

	(void)state;
	begin(&stopped);
	begin(&other);
	come(&stopped);
	assert_int_equal(stopped.slot, DRAWN + 1);
	kill_daemon();
	start_daemon();
	come(&other);
	assert_int_not_equal(other.slot, 0);
	assert_int_not_equal(other.slot, stopped.slot);
	come(&stopped);
	assert_int_equal(stopped.error, 0);
	end(&other);
	end(&stopped);
}

static void the_slot_of_a_process_that_has_ended_is_free(void **state)
{
	struct process ended, other;

	(void)state;
	begin(&ended);
	begin(&other);
	come(&ended);
	kill_daemon();
	end(&ended);
	start_daemon();
	come(&other);
	assert_int_equal(other.slot, DRAWN + 1);
	end(&other);
}

/* Any user can take names: that ends in what was before there were claims, and the process is told that it has lost its slot, not that
 * it might try again. */
static void slots_are_given_though_all_names_are_taken(void **state)
{
	static int taken[VB_DAEMON_SLOTS];
	struct process stopped, other;

	(void)state;
	begin(&stopped);
	begin(&other);
	come(&stopped);
	kill_daemon();
	for (unsigned slot = 1; slot < VB_DAEMON_SLOTS; slot++) {
		char name[64];
		int error;

		snprintf(name, sizeof(name), VB_DAEMON_SOCKET "/slot/%u", slot);
		taken[slot] = vb_unix_open();
		error = vb_unix_bind(taken[slot], name);
		assert_int_equal(error, slot == stopped.slot ? -EADDRINUSE : 0);
	}
	start_daemon();
	other.is_elsewhere = true;
	come(&other);
	assert_int_equal(other.slot, stopped.slot);
	assert_int_equal(other.kept[5], -1);
	come(&stopped);
	assert_int_equal(stopped.error, ESTALE);
	end(&other);
	end(&stopped);
	for (unsigned slot = 1; slot < VB_DAEMON_SLOTS; slot++)
		close(taken[slot]);
}

/* Its connection ended for want of memory, say, and verbenad has not looked yet: then it is to try again. When verbenad has looked, the
 * slot's sockets are out of the group, and the slot is lost for good. */
static void who_has_the_slot_itself_is_not_told_that_it_is_lost(void **state)
{
	struct process process, again;

	(void)state;
	begin(&process);
	come(&process);
	again = process;
	again.fd = -1;
	come(&again);
	assert_int_equal(again.error, EBUSY);
	hang_up(&process);
	come(&again);
	assert_int_equal(again.error, ESTALE);
	end(&again);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_process_that_was_stopped_keeps_its_slot, set_up, tear_down),
		cmocka_unit_test_setup_teardown(the_slot_of_a_process_that_has_ended_is_free, set_up, tear_down),
		cmocka_unit_test_setup_teardown(slots_are_given_though_all_names_are_taken, set_up, tear_down),
		cmocka_unit_test_setup_teardown(who_has_the_slot_itself_is_not_told_that_it_is_lost, set_up, tear_down),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
