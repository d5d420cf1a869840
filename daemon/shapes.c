/* SPDX-License-Identifier: MIT
 *
 * A list: there are as many as a user has typed.
 */
#include "daemon/shapes.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/client.h"

/* Of one user. A network namespace with more interfaces than that is not shaped by hand. */
enum { MOST_OF_A_USER = 256 };

struct kept {
	struct vb_list node;
	struct vb_daemon_shape shape;
};

void vb_shapes_init(struct vb_shapes *shapes)
{
	vb_list_init(&shapes->list);
	shapes->count = 0;
}

static void forget(struct vb_shapes *shapes, struct kept *kept)
{
	vb_list_remove(&kept->node);
	free(kept);
	shapes->count--;
}

void vb_shapes_fini(struct vb_shapes *shapes)
{
	VB_LIST_FOR_EACH(node, &shapes->list)
		forget(shapes, vb_container_of(node, struct kept, node));
}

void vb_shapes_forget(struct vb_shapes *shapes, uint32_t interface_index)
{
	VB_LIST_FOR_EACH(node, &shapes->list) {
		struct kept *kept = vb_container_of(node, struct kept, node);

		if (kept->shape.interface_index == interface_index)
			forget(shapes, kept);
	}
}

static struct kept *find(const struct vb_shapes *shapes, uint32_t uid, uint32_t interface_index)
{
	VB_LIST_FOR_EACH(node, &shapes->list) {
		struct kept *kept = vb_container_of(node, struct kept, node);

		if (kept->shape.uid == uid && kept->shape.interface_index == interface_index)
			return kept;
	}
	return NULL;
}

/* What is in force for the user: its own, else root's, else none. */
static struct vb_daemon_shape in_force(const struct vb_shapes *shapes, uint32_t uid, uint32_t interface_index)
{
	const struct kept *kept = find(shapes, uid, interface_index);

	if (!kept)
		kept = find(shapes, 0, interface_index);
	return kept ? kept->shape : (struct vb_daemon_shape){.interface_index = interface_index};
}

static void send_shape(struct vb_client *client, const struct vb_daemon_shape *shape, uint32_t sequence)
{
	struct vb_daemon_message message;

	vb_daemon_message_begin(&message, VB_DAEMON_SHAPE, sequence);
	message.shape = *shape;
	vb_client_send(client, &message);
}

static unsigned count_of_user(const struct vb_shapes *shapes, uint32_t uid)
{
	unsigned count = 0;

	VB_LIST_FOR_EACH(node, &shapes->list)
		count += vb_container_of(node, struct kept, node)->shape.uid == uid;
	return count;
}

/* 0 or an errno. */
static int keep(struct vb_shapes *shapes, const struct vb_daemon_shape *shape)
{
	struct kept *kept = find(shapes, shape->uid, shape->interface_index);

	if (vb_shape_is_none(&shape->shape)) {
		if (kept)
			forget(shapes, kept);
		return 0;
	}
	if (!kept) {
		kept = count_of_user(shapes, shape->uid) < MOST_OF_A_USER ? malloc(sizeof(*kept)) : NULL;
		if (!kept)
			return ENOMEM;
		vb_list_append(&shapes->list, &kept->node);
		shapes->count++;
	}
	kept->shape = *shape;
	return 0;
}

void vb_shapes_set(struct vb_shapes *shapes, struct vb_list *client_list, struct vb_client *asker, const struct vb_daemon_message *m)
{
	struct vb_daemon_shape wanted = m->shape;
	struct vb_daemon_message answer;
	int error;

	wanted.uid = asker->peer.uid;
	error = keep(shapes, &wanted);
	if (error) {
		vb_client_refuse(asker, m->header.sequence, error, "too many devices are shaped");
		return;
	}
	VB_LIST_FOR_EACH(node, client_list) {
		struct vb_client *process = vb_container_of(node, struct vb_client, node);
		struct vb_daemon_shape shape;

		if (!process->watching || process->failed || (wanted.uid != 0 && process->peer.uid != wanted.uid))
			continue;
		shape = in_force(shapes, process->peer.uid, wanted.interface_index);
		send_shape(process, &shape, 0);
	}
	vb_daemon_message_begin(&answer, VB_DAEMON_END, m->header.sequence);
	vb_client_send(asker, &answer);
}

void vb_shapes_list(const struct vb_shapes *shapes, struct vb_client *asker, uint32_t sequence)
{
	struct vb_daemon_message end;
	uint32_t count = 0;

	VB_LIST_FOR_EACH(node, &shapes->list) {
		const struct kept *kept = vb_container_of(node, struct kept, node);

		if (asker->peer.uid != 0 && kept->shape.uid != asker->peer.uid && kept->shape.uid != 0)
			continue;
		send_shape(asker, &kept->shape, sequence);
		count++;
	}
	vb_daemon_message_begin(&end, VB_DAEMON_END, sequence);
	end.end.count = count;
	vb_client_send(asker, &end);
}

void vb_shapes_tell(const struct vb_shapes *shapes, struct vb_client *process)
{
	VB_LIST_FOR_EACH(node, &shapes->list) {
		const struct kept *kept = vb_container_of(node, struct kept, node);

		/* Root's only where the user has none of its own. */
		if (kept->shape.uid == process->peer.uid ||
		    (kept->shape.uid == 0 && !find(shapes, process->peer.uid, kept->shape.interface_index)))
			send_shape(process, &kept->shape, 0);
	}
}
