/* SPDX-License-Identifier: MIT */
#include "cli/fabric_cables.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "fabric/hosts.h"
#include "io/descriptor.h"
#include "io/event.h"
#include "io/frame_ring.h"
#include "io/host.h"
#include "io/memory_cable.h"
#include "io/unix_socket.h"

enum {
	MOST = 4096,
	RECORDS_PER_TURN = 16,             /* of one cable; then others have their turn */
};

struct cable {
	struct vb_list node;               /* of those that are looked at, or of the others */
	int line;
	uint16_t number, slot;
	struct vb_cable_address from;      /* whom it is plugged in for */
	struct vb_frame_ring_segment *segment; /* NULL: it is not plugged in yet */
	struct vb_frame_ring_writer writer;
	struct vb_frame_ring_reader reader;
	bool is_closed;
};

struct vb_fabric_cables {
	int poller, listener;
	struct vb_fabric_hosts *hosts;
	void (*sent)(void *context);
	void *context;
	struct vb_list active, asleep;
	unsigned count;
	struct cable *cable[MOST + 1];     /* by number, from 1 on */
	uint8_t bytes[VB_FRAME_RING_RECORD]; /* of the record under way: a copy, which its sender cannot change */
};

/* The same for a fabric that comes after us: it finds our path, and takes it over. */
static void name_meeting(uint8_t name[VB_MEMORY_CABLE_NAME], uint16_t port)
{
	struct be64 seed = be64_of(vb_host_seed());
	struct be16 number = be16_of(port);

	memcpy(name, &seed, sizeof(seed));
	memcpy(name + sizeof(seed), &number, sizeof(number));
}

struct vb_fabric_cables *vb_fabric_cables_open(int poller, struct vb_fabric_hosts *hosts, uint16_t port, void (*sent)(void *context),
					       void *context)
{
	struct vb_fabric_cables *cables = calloc(1, sizeof(*cables));

	if (!cables)
		return NULL;
	cables->poller = poller;
	cables->hosts = hosts;
	cables->sent = sent;
	cables->context = context;
	vb_list_init(&cables->active);
	vb_list_init(&cables->asleep);
	name_meeting(hosts->meeting, port);
	cables->listener = vb_memory_cable_listen(hosts->meeting);
	if (cables->listener >= 0 && vb_poller_add(poller, cables->listener, &cables->listener) == 0)
		return cables;
	if (cables->listener >= 0)
		vb_descriptor_close(cables->listener);
	memset(hosts->meeting, 0, sizeof(hosts->meeting));
	free(cables);
	return NULL;
}

static void drop(struct vb_fabric_cables *cables, struct cable *cable)
{
	vb_fabric_hosts_unplug(cables->hosts, cable->slot, cable->number);
	vb_list_remove(&cable->node);
	vb_poller_remove(cables->poller, cable->line);
	vb_descriptor_close(cable->line);
	vb_page_unmap(cable->segment, sizeof(*cable->segment));
	cables->cable[cable->number] = NULL;
	cables->count--;
	free(cable);
}

void vb_fabric_cables_close(struct vb_fabric_cables *cables)
{
	if (!cables)
		return;
	vb_memory_cable_hide(cables->hosts->meeting);
	vb_poller_remove(cables->poller, cables->listener);
	vb_descriptor_close(cables->listener);
	for (unsigned i = 1; i <= MOST; i++)
		if (cables->cable[i])
			drop(cables, cables->cable[i]);
	free(cables);
}

/* ---- plugging ---- */

static void accept_line(struct vb_fabric_cables *cables)
{
	int line = vb_unix_accept(cables->listener);
	struct cable *cable = line >= 0 && cables->count < MOST && vb_memory_cable_is_ours(line) ? calloc(1, sizeof(*cable)) : NULL;
	uint16_t number = 1;

	while (cable && cables->cable[number])
		number++;
	if (!cable || vb_poller_add(cables->poller, line, &cables->cable[number]) != 0) {
		if (line >= 0)
			vb_descriptor_close(line);
		free(cable);
		return;
	}
	cable->line = line;
	cable->number = number;
	cables->cable[number] = cable;
	cables->count++;
	vb_list_append(&cables->asleep, &cable->node);
}

static bool read_plug(int line, struct vb_cable_plug *plug, int *memory)
{
	unsigned count;
	ssize_t length = vb_unix_receive(line, plug, sizeof(*plug), memory, 1, &count, 0);

	if (length == sizeof(*plug) && count == 1 && be32_get(plug->magic) == VB_CABLE_MAGIC &&
	    be16_get(plug->version) == VB_CABLE_VERSION)
		return true;
	if (count == 1)
		vb_descriptor_close(*memory);
	return false;
}

static void plug_in(struct vb_fabric_cables *cables, vb_time now, struct cable *cable)
{
	const struct vb_cable_address *from;
	struct vb_cable_plug plug;
	int memory;

	cable->is_closed = true;
	if (!read_plug(cable->line, &plug, &memory))
		return;
	cable->segment = vb_page_map(memory, sizeof(*cable->segment), true);
	vb_descriptor_close(memory);
	if (!cable->segment)
		return;
	cable->slot = be16_get(plug.slot);
	from = vb_fabric_hosts_plug(cables->hosts, now, cable->slot, be32_get(plug.slot_key), cable->number);
	if (!from)
		return;
	cable->from = *from;
	vb_frame_ring_open(cable->segment, 1, &cable->writer, &cable->reader);
	vb_memory_cable_ring(cable->line);
	cable->is_closed = false;
}

static void look_at(struct vb_fabric_cables *cables, struct cable *cable)
{
	vb_list_remove(&cable->node);
	vb_list_append(&cables->active, &cable->node);
	vb_frame_ring_wake(&cable->reader);
}

/* ---- receiving ---- */

/* Returns how many records there were. */
static unsigned drain(struct vb_fabric_cables *cables, vb_time now, struct cable *cable)
{
	unsigned count = 0;

	for (; count < RECORDS_PER_TURN; count++) {
		struct vb_frame_ring_record record;
		enum vb_frame_ring_look look = vb_frame_ring_look(&cable->reader, &record);

		if (look == VB_FRAME_RING_IS_BROKEN)
			cable->is_closed = true;
		if (look != VB_FRAME_RING_HAS_RECORD)
			break;
		memcpy(cables->bytes, record.bytes, record.length);
		vb_frame_ring_done(&cable->reader, &record);
		vb_fabric_hosts_receive_bundle(cables->hosts, now, &cable->from, cables->bytes, record.length, record.segment);
		cables->sent(cables->context);
	}
	return count;
}

bool vb_fabric_cables_drain(struct vb_fabric_cables *cables, vb_time now)
{
	VB_LIST_FOR_EACH(node, &cables->active) {
		struct cable *cable = vb_container_of(node, struct cable, node);
		bool any = drain(cables, now, cable) > 0;

		if (cable->is_closed) {
			drop(cables, cable);
		} else if (!any) {
			vb_frame_ring_sleep(&cable->reader);
			if (vb_frame_ring_has_more(&cable->reader)) {
				vb_frame_ring_wake(&cable->reader);
				continue;
			}
			vb_list_remove(&cable->node);
			vb_list_append(&cables->asleep, &cable->node);
		}
	}
	return !vb_list_is_empty(&cables->active);
}

/* ---- what the poller reports ---- */

/* A process has ended. What it had sent before, its last acknowledgement perhaps, goes on, as with UDP; no more than a ring holds. */
static void take_the_rest(struct vb_fabric_cables *cables, vb_time now, struct cable *cable)
{
	for (unsigned i = 0; i < VB_FRAME_RING / VB_FRAME_RING_LINE && drain(cables, now, cable) > 0; i += RECORDS_PER_TURN)
		;
	cable->is_closed = true;
}

void vb_fabric_cables_serve(struct vb_fabric_cables *cables, vb_time now, const void *tag)
{
	struct cable *cable;
	bool rang;

	if (tag == &cables->listener) {
		accept_line(cables);
		return;
	}
	cable = *(struct cable *const *)tag;
	if (!cable->segment)
		plug_in(cables, now, cable);
	else if (!vb_memory_cable_heard(cable->line, &rang))
		take_the_rest(cables, now, cable);
	else if (rang)
		look_at(cables, cable);
	if (cable->is_closed)
		drop(cables, cable);
}

/* ---- sending ---- */

void vb_fabric_cables_send(struct vb_fabric_cables *cables, uint16_t number, const void *head, size_t head_length, const void *body,
			   size_t body_length)
{
	struct cable *cable = number <= MOST ? cables->cable[number] : NULL;
	uint8_t *to = cable && cable->segment ? vb_frame_ring_reserve(&cable->writer, head_length + body_length) : NULL;

	if (!to)
		return;
	memcpy(to, head, head_length);
	if (body_length > 0)
		memcpy(to + head_length, body, body_length);
	if (vb_frame_ring_publish(&cable->writer, head_length + body_length, head_length + body_length))
		vb_memory_cable_ring(cable->line);
}

void vb_fabric_cables_send_run(struct vb_fabric_cables *cables, uint16_t number, const uint8_t *bytes, size_t segment, unsigned count)
{
	struct cable *cable = number <= MOST ? cables->cable[number] : NULL;
	uint8_t *to = cable && cable->segment ? vb_frame_ring_reserve(&cable->writer, segment * count) : NULL;

	if (!to)
		return;
	memcpy(to, bytes, segment * count);
	if (vb_frame_ring_publish(&cable->writer, segment * count, segment))
		vb_memory_cable_ring(cable->line);
}
