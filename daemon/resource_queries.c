/* SPDX-License-Identifier: MIT
 *
 * A query waits for a set of slots. Communication ids need no asking: they are the connection manager's, here.
 *
 * A process is asked once at a time, however many wait for its answer: one that is stopped has one message in its
 * socket, not a heap of them.
 */
#include "daemon/resource_queries.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "connect/connect.h"
#include "daemon/client.h"
#include "io/descriptor.h"
#include "wire/daemon_message.h"
#include "wire/resource.h"

/* The engine thread of a process answers within a millisecond, unless the process is stopped or the machine is busy. */
#define PATIENCE VB_MILLISECONDS(1000)

struct query {
	struct vb_list node;
	struct vb_client *asker;
	uint32_t sequence;
	uint32_t told;
	vb_time deadline;
	unsigned awaited_count;
	bool awaited[VB_DAEMON_SLOTS];
};

void vb_resource_queries_init(struct vb_resource_queries *queries)
{
	vb_list_init(&queries->list);
}

static void forget(struct query *query)
{
	vb_list_remove(&query->node);
	free(query);
}

void vb_resource_queries_fini(struct vb_resource_queries *queries)
{
	VB_LIST_FOR_EACH(node, &queries->list)
		forget(vb_container_of(node, struct query, node));
}

bool vb_resource_may_see(const struct vb_client *asker, const struct vb_client *process)
{
	return asker->peer.uid == 0 || asker->peer.uid == process->peer.uid;
}

/* `fd` -1: `error` says why there is nothing to see. An asker who does not read fast enough for a descriptor gets the
 * name alone. */
static void tell(struct query *query, const struct vb_client *process, int fd, int error)
{
	struct vb_daemon_message message;

	if (query->asker->failed)
		return;
	vb_daemon_message_begin(&message, VB_DAEMON_PROCESS_RESOURCES, query->sequence);
	message.process_resources.pid = (uint32_t)process->peer.pid;
	message.process_resources.uid = process->peer.uid;
	memcpy(message.process_resources.program, process->program, sizeof(message.process_resources.program));
	query->told++;
	if (fd >= 0 && vb_client_try_send_descriptor(query->asker, &message, fd))
		return;
	message.process_resources.error = fd >= 0 ? EAGAIN : error;
	vb_client_send(query->asker, &message);
}

static void end(struct query *query)
{
	struct vb_daemon_message message;

	vb_daemon_message_begin(&message, VB_DAEMON_END, query->sequence);
	message.end.count = query->told;
	vb_client_send(query->asker, &message);
	forget(query);
}

static void tell_communication_ids(struct query *query, const struct vb_client *process)
{
	struct vb_resource_list list;
	const void *bytes;
	size_t length;
	int fd = -1;

	vb_resource_list_init(&list);
	vb_connect_owner_show(&process->cm_ids, &list);
	bytes = vb_resource_list_finish(&list, &length);
	if (bytes)
		fd = vb_page_create_filled("verbena-cm-ids", bytes, length);
	vb_resource_list_fini(&list);
	tell(query, process, fd, ENOMEM);
	if (fd >= 0)
		vb_descriptor_close(fd);
}

static void ask(struct query *query, struct vb_client *process)
{
	struct vb_daemon_message message;

	query->awaited[process->slot] = true;
	query->awaited_count++;
	if (process->resources_asked)
		return;
	process->resources_asked = true;
	vb_daemon_message_begin(&message, VB_DAEMON_SHOW_RESOURCES, 0);
	vb_client_send(process, &message);
}

static bool has_query(const struct vb_resource_queries *queries, const struct vb_client *asker)
{
	VB_LIST_FOR_EACH(node, &queries->list)
		if (vb_container_of(node, struct query, node)->asker == asker)
			return true;
	return false;
}

void vb_resource_queries_begin(struct vb_resource_queries *queries, vb_time now, struct vb_list *client_list,
			       struct vb_client *asker, uint32_t sequence, uint32_t pid)
{
	struct query *query;

	if (has_query(queries, asker)) {
		vb_client_refuse(asker, sequence, EALREADY, "the answer to the same question is under way");
		return;
	}
	query = calloc(1, sizeof(*query));
	if (!query) {
		vb_client_refuse(asker, sequence, ENOMEM, "verbenad is out of memory");
		return;
	}
	query->asker = asker;
	query->sequence = sequence;
	query->deadline = now + PATIENCE;
	vb_list_append(&queries->list, &query->node);
	VB_LIST_FOR_EACH(node, client_list) {
		struct vb_client *process = vb_container_of(node, struct vb_client, node);

		if (process->failed || !vb_resource_may_see(asker, process) ||
		    (pid != 0 && pid != (uint32_t)process->peer.pid))
			continue;
		if (process->cm_ids.count > 0)
			tell_communication_ids(query, process);
		if (process->slot != 0)
			ask(query, process);
	}
	if (query->awaited_count == 0)
		end(query);
}

/* Nothing more is to be expected of that slot. */
static void settle(struct query *query, uint32_t slot)
{
	query->awaited[slot] = false;
	if (--query->awaited_count == 0)
		end(query);
}

void vb_resource_queries_answer(struct vb_resource_queries *queries, struct vb_client *process, int fd)
{
	if (!process->resources_asked || process->slot == 0) {
		process->failed = true;
		return;
	}
	process->resources_asked = false;
	VB_LIST_FOR_EACH(node, &queries->list) {
		struct query *query = vb_container_of(node, struct query, node);

		if (!query->awaited[process->slot])
			continue;
		tell(query, process, fd, ENOMEM);
		settle(query, process->slot);
	}
}

void vb_resource_queries_slot_gone(struct vb_resource_queries *queries, struct vb_client *process)
{
	VB_LIST_FOR_EACH(node, &queries->list) {
		struct query *query = vb_container_of(node, struct query, node);

		if (query->awaited[process->slot])
			settle(query, process->slot);
	}
}

void vb_resource_queries_client_gone(struct vb_resource_queries *queries, struct vb_client *client)
{
	VB_LIST_FOR_EACH(node, &queries->list) {
		struct query *query = vb_container_of(node, struct query, node);

		if (query->asker == client)
			forget(query);
	}
}

vb_time vb_resource_queries_deadline(const struct vb_resource_queries *queries)
{
	/* All wait equally long, so the first is due first. */
	if (vb_list_is_empty(&queries->list))
		return VB_TIME_NEVER;
	return vb_container_of(queries->list.next, struct query, node)->deadline;
}

void vb_resource_queries_expire(struct vb_resource_queries *queries, vb_time now, struct vb_list *client_list)
{
	VB_LIST_FOR_EACH(node, &queries->list) {
		struct query *query = vb_container_of(node, struct query, node);

		if (now < query->deadline)
			return;
		VB_LIST_FOR_EACH(client_node, client_list) {
			const struct vb_client *process = vb_container_of(client_node, struct vb_client, node);

			if (process->slot != 0 && query->awaited[process->slot])
				tell(query, process, -1, ETIMEDOUT);
		}
		end(query);
	}
}
