/* SPDX-License-Identifier: MIT
 *
 * Checking daemon messages. The rows of VB_DAEMON_MESSAGES say who may send a type, how long it is and how many
 * descriptors come with it; what is left are the few fields with a range of their own.
 */
#include "wire/daemon_message.h"

#include <errno.h>
#include <string.h>

#include "wire/device_kind.h"
#include "wire/mtu.h"
#include "wire/path.h"

struct row {
	const char *name;
	uint32_t type;
	enum vb_daemon_sender sender;
	uint32_t length;
	unsigned fewest, most;             /* descriptors */
};

static const struct row rows[] = {
#define X(name, value, sender, body, required, allowed) \
	{#name, value, VB_DAEMON_FROM_##sender, sizeof(struct vb_daemon_header) + sizeof(body), required, allowed},
	VB_DAEMON_MESSAGES(X)
#undef X
};

_Static_assert(sizeof(struct vb_daemon_message) <= VB_DAEMON_MAX_MESSAGE, "VB_DAEMON_MAX_MESSAGE is too small");

static const struct row *find_row(uint32_t type)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].type == type)
			return &rows[i];
	return NULL;
}

const char *vb_daemon_message_name(uint32_t type)
{
	const struct row *row = find_row(type);

	return row ? row->name : NULL;
}

void vb_daemon_message_begin(struct vb_daemon_message *message, enum vb_daemon_type type, uint32_t sequence)
{
	const struct row *row = find_row(type);

	memset(message, 0, sizeof(*message));
	message->header = (struct vb_daemon_header){
		.type = type,
		.magic = VB_DAEMON_MAGIC,
		.length = row ? row->length : 0,
		.sequence = sequence,
	};
}

static uint32_t device_length(uint32_t gid_count)
{
	return (uint32_t)(offsetof(struct vb_daemon_message, device.gid) + gid_count * 16);
}

void vb_daemon_message_set_device(struct vb_daemon_message *message, const struct vb_daemon_device *device)
{
	message->device = *device;
	message->header.length = device_length(device->gid_count);
}

/* Is the length what the type (and for devices their number of GIDs) says? */
static bool length_is_right(const struct row *row, const void *bytes, size_t length)
{
	struct vb_daemon_message head;

	if (row->type != VB_DAEMON_DEVICE)
		return length == row->length;
	if (length < device_length(0) || length > row->length)
		return false;
	memcpy(&head, bytes, device_length(0));
	return head.device.gid_count <= VB_DAEMON_GIDS && length == device_length(head.device.gid_count);
}

/* Ends inside its room, is printable, and is all zero behind its end, so that nothing leaks through the padding. */
static bool is_text(const char *text, size_t room)
{
	size_t i = 0;

	while (i < room && text[i] != '\0') {
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
			return false;
		i++;
	}
	if (i == room)
		return false;
	while (i < room)
		if (text[i++] != '\0')
			return false;
	return true;
}

static bool device_is_sound(const struct vb_daemon_device *device)
{
	if (!is_text(device->name, sizeof(device->name)) || device->name[0] == '\0' || strchr(device->name, '/') ||
	    !is_text(device->interface, sizeof(device->interface)) || device->interface[0] == '\0' ||
	    device->interface_index == 0 || device->interface_index > INT32_MAX || device->guid == 0 ||
	    vb_mtu_bytes(device->active_mtu) == 0 || device->active > 1 || device->kind >= VB_DEVICE_KINDS ||
	    device->reserved || device->reserved2 || device->subnet.state > 4 || device->subnet.lmc > 7 || device->subnet.sm_sl > 15)
		return false;
	return true;
}

static bool adapter_is_sound(const struct vb_daemon_adapter *adapter)
{
	return is_text(adapter->name, sizeof(adapter->name)) && adapter->name[0] != '\0' &&
	       is_text(adapter->where, sizeof(adapter->where)) &&
	       is_text(adapter->description, sizeof(adapter->description)) && adapter->port >= 1 && adapter->port <= adapter->ports &&
	       adapter->ports <= 254 && adapter->lid <= 0xffff && adapter->lmc <= 7 && adapter->sm_lid <= 0xffff && adapter->sm_sl <= 15 &&
	       adapter->state >= 1 && adapter->state <= 4 && vb_mtu_bytes(adapter->mtu) != 0;
}

static bool slot_is_sound(const struct vb_daemon_slot *slot, unsigned descriptors)
{
	return slot->slot >= 1 && slot->slot < VB_DAEMON_SLOTS &&
	       (slot->descriptors & ~(uint32_t)VB_DAEMON_FD_ALL) == 0 &&
	       vb_daemon_descriptor_count(slot->descriptors) == descriptors;
}

static bool lane_is_sound(const struct vb_daemon_lane *lane, unsigned descriptors)
{
	return lane->slot >= 1 && lane->slot < VB_DAEMON_SLOTS && lane->lane >= 1 && lane->lane < VB_DAEMON_LANES && lane->reserved == 0 &&
	       (lane->descriptors & ~(uint32_t)(VB_DAEMON_FD_IPV4 | VB_DAEMON_FD_IPV6)) == 0 &&
	       vb_daemon_descriptor_count(lane->descriptors) == descriptors;
}

static bool flow_is_sound(const struct vb_daemon_dedicated *flow)
{
	return flow->lane < VB_DAEMON_LANES && flow->port >= 1 && flow->port <= 0xffff &&
	       vb_gid_is_ipv4(flow->peer) == vb_gid_is_ipv4(flow->own) && !vb_gid_is_multicast(flow->peer) &&
	       !vb_gid_is_multicast(flow->own);
}

static bool shape_is_sound(const struct vb_daemon_shape *shape)
{
	return shape->interface_index != 0 && shape->interface_index <= INT32_MAX && vb_shape_is_sound(&shape->shape);
}

static bool body_is_sound(const struct vb_daemon_message *m, unsigned descriptors)
{
	switch ((enum vb_daemon_type)m->header.type) {
	case VB_DAEMON_LIST_DEVICES:
	case VB_DAEMON_WATCH_DEVICES:
	case VB_DAEMON_CLOSE_SLOT:
	case VB_DAEMON_LIST_PROCESSES:
	case VB_DAEMON_LIST_SHAPES:
	case VB_DAEMON_RESOURCES:
	case VB_DAEMON_SHOW_RESOURCES:
	case VB_DAEMON_GROUP:
	case VB_DAEMON_OPEN_FRAMES:
	case VB_DAEMON_FRAMES:
	case VB_DAEMON_LEAVE_FABRIC:
	case VB_DAEMON_LIST_ADAPTERS:
	case VB_DAEMON_OPEN_MAD_PORT:
	case VB_DAEMON_MAD_PORT:
	case VB_DAEMON_FRAME_PORT:
	case VB_DAEMON_OPEN_MAD_TAP:
	case VB_DAEMON_MAD_TAP:
		return m->empty.reserved[0] == 0 && m->empty.reserved[1] == 0;
	case VB_DAEMON_HELLO:
		return is_text(m->hello.program, sizeof(m->hello.program)) && m->hello.reserved[0] == 0 &&
		       m->hello.reserved[1] == 0;
	case VB_DAEMON_OPEN_SLOT:
		return m->open_slot.port < VB_DAEMON_PORT_WISHES && m->open_slot.reserved == 0;
	case VB_DAEMON_ADOPT_SLOT:
		/* With a receive socket, or with none of any port. */
		return slot_is_sound(&m->slot, descriptors) &&
		       ((m->slot.descriptors & (VB_DAEMON_FD_IPV4 | VB_DAEMON_FD_IPV6)) != 0 ||
			(m->slot.descriptors & ~(uint32_t)(VB_DAEMON_FD_PAGE | VB_DAEMON_FD_CLAIM)) == 0);
	case VB_DAEMON_SLOT:
		return slot_is_sound(&m->slot, descriptors);
	case VB_DAEMON_OPEN_LANE:
	case VB_DAEMON_ADOPT_LANE:
	case VB_DAEMON_CLOSE_LANE:
	case VB_DAEMON_LANE:
		return lane_is_sound(&m->lane, descriptors);
	case VB_DAEMON_OPEN_DEDICATED:
	case VB_DAEMON_DEDICATED:
		return flow_is_sound(&m->dedicated);
	case VB_DAEMON_PROBE_SEEN:
		return m->probe_seen.lane < VB_DAEMON_LANES && m->probe_seen.reserved == 0;
	case VB_DAEMON_COUNTERS:
		return true;
	case VB_DAEMON_ASK_COUNTERS:
		return is_text(m->ask_counters.device, sizeof(m->ask_counters.device)) && m->ask_counters.device[0] != '\0';
	case VB_DAEMON_WELCOME:
		return (m->welcome.flags & ~(uint32_t)VB_DAEMON_IS_SYSTEM) == 0 && m->welcome.reserved == 0 &&
		       is_text(m->welcome.version, sizeof(m->welcome.version));
	case VB_DAEMON_ERROR:
		return m->error.error > 0 && m->error.error < 4096 && m->error.reserved == 0 &&
		       is_text(m->error.text, sizeof(m->error.text));
	case VB_DAEMON_END:
		return m->end.reserved == 0;
	case VB_DAEMON_DEVICE:
		return device_is_sound(&m->device);
	case VB_DAEMON_DEVICE_GONE:
		return m->device_gone.interface_index != 0 && m->device_gone.interface_index <= INT32_MAX &&
		       m->device_gone.reserved == 0;
	case VB_DAEMON_PROCESS:
		return m->process.slot < VB_DAEMON_SLOTS && is_text(m->process.program, sizeof(m->process.program));
	case VB_DAEMON_PROCESS_DEVICE:
		return m->process_device.interface_index != 0 &&
		       is_text(m->process_device.device, sizeof(m->process_device.device));
	case VB_DAEMON_LIST_RESOURCES:
		return m->list_resources.reserved == 0;
	case VB_DAEMON_PROCESS_RESOURCES:
		return m->process_resources.error >= 0 && m->process_resources.error < 4096 &&
		       m->process_resources.reserved == 0 && descriptors == (m->process_resources.error == 0) &&
		       is_text(m->process_resources.program, sizeof(m->process_resources.program));
	case VB_DAEMON_SHOW_SEGMENT:
		return m->segment.id != 0 && m->segment.pid == 0 && m->segment.slot >= 1 && m->segment.slot < VB_DAEMON_SLOTS;
	case VB_DAEMON_ASK_SEGMENT:
		return m->ask_segment.slot >= 1 && m->ask_segment.slot < VB_DAEMON_SLOTS && m->ask_segment.reserved == 0;
	case VB_DAEMON_SET_SHAPE:
		return m->shape.uid == 0 && shape_is_sound(&m->shape);
	case VB_DAEMON_SHAPE:
		return shape_is_sound(&m->shape);
	case VB_DAEMON_JOIN_GROUP:
		return m->join_group.interface_index != 0 && m->join_group.interface_index <= INT32_MAX &&
		       m->join_group.reserved == 0;
	case VB_DAEMON_OPEN_FRAME_PORT:
		return m->frame_port.slot >= 1 && m->frame_port.slot < VB_DAEMON_SLOTS && m->frame_port.reserved == 0;
	case VB_DAEMON_JOIN_FABRIC:
		return m->join_fabric.port >= 1 && m->join_fabric.port <= 0xffff &&
		       is_text(m->join_fabric.description, sizeof(m->join_fabric.description)) &&
		       is_text(m->join_fabric.wanted, sizeof(m->join_fabric.wanted));
	case VB_DAEMON_ADAPTER:
		return adapter_is_sound(&m->adapter);
	case VB_DAEMON_REGISTER_AGENT:
		return m->register_agent.rmpp_version <= 1 && m->register_agent.user_rmpp <= 1 && m->register_agent.oui <= 0xffffff;
	case VB_DAEMON_UNREGISTER_AGENT:
	case VB_DAEMON_AGENT:
		return m->agent.id < 32 && m->agent.reserved == 0;
	case VB_DAEMON_SEGMENT:
		return m->segment.id != 0 && m->segment.pid != 0 && m->segment.slot >= 1 && m->segment.slot < VB_DAEMON_SLOTS &&
		       descriptors != 1;
	}
	return false;
}

int vb_daemon_message_check(const void *bytes, size_t length, unsigned descriptors, enum vb_daemon_sender sender)
{
	struct vb_daemon_header header;
	const struct row *row;

	if (length < sizeof(header))
		return -EPROTO;
	memcpy(&header, bytes, sizeof(header));
	if (header.magic != VB_DAEMON_MAGIC)
		return header.magic >> 16 == VB_DAEMON_MAGIC >> 16 ? -EPROTONOSUPPORT : -EPROTO;
	row = find_row(header.type);
	if (!row || row->sender != sender || header.length != length ||
	    !length_is_right(row, bytes, length) || descriptors < row->fewest ||
	    descriptors > row->most)
		return -EPROTO;
	/* Only a daemon's unasked news have no number. */
	if (header.sequence == 0 && header.type != VB_DAEMON_DEVICE && header.type != VB_DAEMON_DEVICE_GONE &&
	    header.type != VB_DAEMON_PROBE_SEEN && header.type != VB_DAEMON_SHOW_RESOURCES && header.type != VB_DAEMON_SHAPE &&
	    header.type != VB_DAEMON_DEDICATED)
		return -EPROTO;
	return body_is_sound(bytes, descriptors) ? 0 : -EPROTO;
}
