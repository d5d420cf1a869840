/* SPDX-License-Identifier: MIT
 *
 * See segments.h.
 */
#include "daemon/segments.h"

#include <errno.h>
#include <string.h>

#include "daemon/client.h"
#include "daemon/device_table.h"
#include "io/descriptor.h"

void vb_segments_show(struct vb_client *client, const struct vb_daemon_message *message, const int *fds)
{
	struct vb_daemon_message answer;

	if (client->slot == 0 || client->slot != message->segment.slot) {
		vb_client_refuse(client, message->header.sequence, EINVAL, "this slot is not the process's");
		return;
	}
	vb_client_forget_segment(client);
	client->segment_fd = vb_descriptor_duplicate(fds[0]);
	client->wake_fd = vb_descriptor_duplicate(fds[1]);
	if (client->segment_fd < 0 || client->wake_fd < 0) {
		vb_client_forget_segment(client);
		vb_client_refuse(client, message->header.sequence, EMFILE, "verbenad has no descriptors left");
		return;
	}
	client->segment_id = message->segment.id;
	vb_daemon_message_begin(&answer, VB_DAEMON_END, message->header.sequence);
	vb_client_send(client, &answer);
}

static bool is_of_this_host(const struct vb_device_table *devices, const uint8_t gid[16])
{
	static const uint8_t hole[16];

	if (memcmp(gid, hole, sizeof(hole)) == 0)
		return false;
	for (unsigned i = 0; i < devices->count; i++)
		for (uint32_t g = 0; g < devices->device[i].gid_count; g++)
			if (memcmp(devices->device[i].gid[g], gid, 16) == 0)
				return true;
	return false;
}

static const struct vb_client *find_slot(struct vb_list *client_list, uint32_t slot)
{
	VB_LIST_FOR_EACH(node, client_list) {
		const struct vb_client *client = vb_container_of(node, struct vb_client, node);

		if (client->slot == slot)
			return client;
	}
	return NULL;
}

void vb_segments_ask(struct vb_list *client_list, const struct vb_device_table *devices, struct vb_client *asker,
		   const struct vb_daemon_message *message)
{
	const struct vb_daemon_ask_segment *ask = &message->ask_segment;
	const struct vb_client *owner = find_slot(client_list, ask->slot);
	uint32_t sequence = message->header.sequence;
	struct vb_daemon_message answer;

	/* EHOSTUNREACH tells the asker that no process here can be meant. */
	if (!is_of_this_host(devices, ask->gid)) {
		vb_client_refuse(asker, sequence, EHOSTUNREACH, "this GID is not of this host");
	} else if (!owner) {
		vb_client_refuse(asker, sequence, ESRCH, "no process has this slot");
	} else if (owner->peer.uid != asker->peer.uid) {
		vb_client_refuse(asker, sequence, EACCES, "the process is another user's");
	} else if (owner->segment_id == 0) {
		vb_client_refuse(asker, sequence, ENOENT, "the process shows no shared segment");
	} else {
		const int fds[] = {owner->segment_fd, owner->wake_fd};

		vb_daemon_message_begin(&answer, VB_DAEMON_SEGMENT, sequence);
		answer.segment.id = owner->segment_id;
		answer.segment.pid = (uint32_t)owner->peer.pid;
		answer.segment.slot = owner->slot;
		vb_client_send_descriptors(asker, &answer, fds, owner->segment_id == ask->known ? 0 : 2);
	}
}
