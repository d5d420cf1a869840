/* SPDX-License-Identifier: MIT
 *
 * Asking verbenad, and sorting what comes. Lists of objects come from the processes themselves, through verbenad: they
 * may hold anything, and a list that does not read well counts as no answer.
 */
#include "cli/processes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/descriptor.h"

int vb_cli_daemon_find(const char *command, struct vb_daemon_client *daemon)
{
	int error = vb_daemon_client_connect(daemon, false);

	if (error == 0)
		return 1;
	if (error == -ECONNREFUSED || error == -ECONNRESET)
		return 0;
	fprintf(stderr, "verbena %s: %s\n", command, strerror(-error));
	return error;
}

static void copy_program(char to[17], const char from[16])
{
	memcpy(to, from, 16);
	to[16] = '\0';
}

/* ---- counters ---- */

struct listing {
	struct vb_cli_processes *processes;
	bool out_of_memory;
};

static bool take_process(struct vb_cli_processes *processes, const struct vb_daemon_process *process)
{
	struct vb_cli_process *larger = realloc(processes->row, (processes->count + 1) * sizeof(*larger));

	if (!larger)
		return false;
	processes->row = larger;
	larger[processes->count] = (struct vb_cli_process){ .process = *process };
	copy_program(larger[processes->count].program, process->program);
	processes->count++;
	return true;
}

static bool take(void *context, const struct vb_daemon_message *message, const int *fds, unsigned count)
{
	struct listing *listing = context;
	struct vb_cli_processes *processes = listing->processes;

	(void)fds;
	(void)count;
	if (message->header.type == VB_DAEMON_PROCESS && message->process.pid != (uint32_t)getpid()) {
		listing->out_of_memory = !take_process(processes, &message->process);
	} else if (message->header.type == VB_DAEMON_PROCESS_DEVICE && processes->count > 0) {
		struct vb_cli_process *last = &processes->row[processes->count - 1];

		if (last->process.pid == message->process_device.pid && last->devices < VB_DAEMON_PAGE_DEVICES)
			last->device[last->devices++] = message->process_device;
	}
	return !listing->out_of_memory;
}

static int by_process_pid(const void *a, const void *b)
{
	uint32_t x = ((const struct vb_cli_process *)a)->process.pid,
		 y = ((const struct vb_cli_process *)b)->process.pid;

	return (x > y) - (x < y);
}

int vb_cli_processes_get(struct vb_daemon_client *daemon, struct vb_cli_processes *processes)
{
	struct vb_daemon_message request;
	struct listing listing = { .processes = processes };
	int error;

	*processes = (struct vb_cli_processes){ 0 };
	vb_daemon_message_begin(&request, VB_DAEMON_LIST_PROCESSES, 0);
	error = vb_daemon_client_request(daemon, &request, NULL, 0, take, &listing);
	if (error == 0 && listing.out_of_memory)
		error = -ENOMEM;
	if (error)
		vb_cli_processes_free(processes);
	else if (processes->count > 1)
		qsort(processes->row, processes->count, sizeof(*processes->row), by_process_pid);
	return error;
}

void vb_cli_processes_free(struct vb_cli_processes *processes)
{
	free(processes->row);
	*processes = (struct vb_cli_processes){ 0 };
}

/* ---- objects ---- */

/* A process is told of twice when it has both devices and communication ids. */
static struct vb_cli_holder *find_holder(struct vb_cli_holders *holders,
					 const struct vb_daemon_process_resources *process)
{
	struct vb_cli_holder *larger;

	for (unsigned i = 0; i < holders->count; i++)
		if (holders->row[i].pid == process->pid)
			return &holders->row[i];
	larger = realloc(holders->row, (holders->count + 1) * sizeof(*larger));
	if (!larger)
		return NULL;
	holders->row = larger;
	larger += holders->count++;
	*larger = (struct vb_cli_holder){ .pid = process->pid, .uid = process->uid };
	copy_program(larger->program, process->program);
	return larger;
}

/* Contexts that share a session name the same PDs. */
static bool is_repeated_pd(const struct vb_cli_holder *holder, const struct vb_resource_pd *pd)
{
	for (unsigned i = 0; i < holder->count[VB_RESOURCE_PD]; i++) {
		const struct vb_resource_pd *known = &holder->of[VB_RESOURCE_PD][i].pd;

		if (known->session == pd->session && known->number == pd->number)
			return true;
	}
	return false;
}

static int add_object(struct vb_cli_holder *holder, int kind, const union vb_resource *resource)
{
	unsigned count = holder->count[kind];

	if (kind == VB_RESOURCE_PD && is_repeated_pd(holder, &resource->pd))
		return 0;
	/* Room doubles: there may be a hundred thousand. */
	if ((count & (count - 1)) == 0) {
		union vb_resource *larger = realloc(holder->of[kind], (count ? 2 * count : 1) * sizeof(*larger));

		if (!larger)
			return -ENOMEM;
		holder->of[kind] = larger;
	}
	holder->of[kind][count] = *resource;
	holder->count[kind]++;
	return 0;
}

static int read_objects(struct vb_cli_holder *holder, int fd)
{
	union vb_resource resource;
	uint32_t left_out = 0;
	size_t length, at;
	void *bytes;
	int kind, error = vb_page_read(fd, VB_RESOURCE_MOST_BYTES, &bytes, &length);

	if (error)
		return error;
	error = vb_resource_begin(bytes, length, &at, &left_out);
	while (error == 0 && (kind = vb_resource_next(bytes, length, &at, &resource)) != VB_RESOURCE_END)
		error = kind < 0 ? kind : add_object(holder, kind, &resource);
	holder->left_out += left_out;
	free(bytes);
	return error;
}

struct gathering {
	struct vb_cli_holders *holders;
	int error;
};

static bool gather(void *context, const struct vb_daemon_message *message, const int *fds, unsigned count)
{
	struct gathering *gathering = context;
	struct vb_cli_holder *holder;

	if (message->header.type != VB_DAEMON_PROCESS_RESOURCES)
		return true;
	holder = find_holder(gathering->holders, &message->process_resources);
	if (!holder) {
		gathering->error = -ENOMEM;
		return false;
	}
	if (count == 0)
		holder->error = message->process_resources.error;
	else
		holder->error = -read_objects(holder, fds[0]);
	return true;
}

static int by_holder_pid(const void *a, const void *b)
{
	uint32_t x = ((const struct vb_cli_holder *)a)->pid, y = ((const struct vb_cli_holder *)b)->pid;

	return (x > y) - (x < y);
}

static int by_qpn(const void *a, const void *b)
{
	uint32_t x = ((const union vb_resource *)a)->qp.qpn, y = ((const union vb_resource *)b)->qp.qpn;

	return (x > y) - (x < y);
}

/* By number; of equal ones what the process itself says is last. */
static int by_id(const void *a, const void *b)
{
	const struct vb_resource_cm_id *x = &((const union vb_resource *)a)->cm_id;
	const struct vb_resource_cm_id *y = &((const union vb_resource *)b)->cm_id;

	if (x->number != y->number)
		return (x->number > y->number) - (x->number < y->number);
	return !strcmp(y->state, "BOUND") - !strcmp(x->state, "BOUND");
}

/* An id whose connection is a stream of TCP is its process's own: verbenad says of it that it has a port. */
static void merge_ids(struct vb_cli_holder *holder)
{
	unsigned count = holder->count[VB_RESOURCE_CM_ID], kept = 0;
	union vb_resource *row = holder->of[VB_RESOURCE_CM_ID];

	if (count < 2)
		return;
	qsort(row, count, sizeof(*row), by_id);
	for (unsigned i = 0; i < count; i++)
		if (i + 1 == count || row[i].cm_id.number == 0 || row[i + 1].cm_id.number != row[i].cm_id.number)
			row[kept++] = row[i];
	holder->count[VB_RESOURCE_CM_ID] = kept;
}

int vb_cli_holders_get(struct vb_daemon_client *daemon, uint32_t pid, struct vb_cli_holders *holders)
{
	struct vb_daemon_message request;
	struct gathering gathering = { .holders = holders };
	int error;

	*holders = (struct vb_cli_holders){ 0 };
	vb_daemon_message_begin(&request, VB_DAEMON_LIST_RESOURCES, 0);
	request.list_resources.pid = pid;
	error = vb_daemon_client_request(daemon, &request, NULL, 0, gather, &gathering);
	if (error == 0)
		error = gathering.error;
	if (error) {
		vb_cli_holders_free(holders);
		return error;
	}
	if (holders->count > 1)
		qsort(holders->row, holders->count, sizeof(*holders->row), by_holder_pid);
	for (unsigned i = 0; i < holders->count; i++) {
		if (holders->row[i].count[VB_RESOURCE_QP] > 1)
			qsort(holders->row[i].of[VB_RESOURCE_QP], holders->row[i].count[VB_RESOURCE_QP],
			      sizeof(union vb_resource), by_qpn);
		merge_ids(&holders->row[i]);
	}
	return 0;
}

void vb_cli_holders_free(struct vb_cli_holders *holders)
{
	for (unsigned i = 0; i < holders->count; i++)
		for (unsigned kind = 0; kind < VB_RESOURCE_KINDS; kind++)
			free(holders->row[i].of[kind]);
	free(holders->row);
	*holders = (struct vb_cli_holders){ 0 };
}

const char *vb_cli_holder_device(const struct vb_cli_holder *holder, uint32_t interface_index)
{
	for (unsigned i = 0; i < holder->count[VB_RESOURCE_DEVICE]; i++)
		if (holder->of[VB_RESOURCE_DEVICE][i].device.interface_index == interface_index)
			return holder->of[VB_RESOURCE_DEVICE][i].device.name;
	return "-";
}
