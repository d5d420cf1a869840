/* SPDX-License-Identifier: MIT */
#include "fabric/direct.h"

#include <stdlib.h>
#include <string.h>

#include "fabric/switch.h"
#include "wire/daemon_message.h"
#include "wire/roce_packet.h"

enum { MANAGEMENT_QPNS = 2 };

void vb_direct_fini(struct vb_direct *direct)
{
	free(direct->entry);
	direct->entry = NULL;
}

bool vb_direct_announce(struct vb_direct *direct, vb_time now, const struct vb_cable_address *process, const struct vb_cable_slot *slot)
{
	uint16_t number = be16_get(slot->header.slot);
	struct vb_cable_address address = *process;

	/* Slot 0 is verbenad's own. */
	if (number == 0 || number >= VB_DAEMON_SLOTS)
		return false;
	if (!direct->entry)
		direct->entry = calloc(VB_DAEMON_SLOTS, sizeof(*direct->entry));
	if (!direct->entry)
		return false;
	/* A cable of memory is that of a key. */
	address.memory = direct->entry[number].key == be32_get(slot->slot_key) ? direct->entry[number].address.memory : 0;
	direct->entry[number] =
		(struct vb_direct_entry){.address = address, .key = be32_get(slot->slot_key), .until = now + VB_CABLE_PATIENCE};
	return true;
}

static const struct vb_direct_entry *entry_of(const struct vb_direct *direct, vb_time now, uint32_t slot)
{
	return direct->entry && slot < VB_DAEMON_SLOTS && now < direct->entry[slot].until ? &direct->entry[slot] : NULL;
}

const struct vb_direct_entry *vb_direct_plug(struct vb_direct *direct, vb_time now, uint16_t slot, uint32_t key, uint16_t memory)
{
	const struct vb_direct_entry *entry = entry_of(direct, now, slot);

	if (!entry || entry->key != key)
		return NULL;
	direct->entry[slot].address.memory = memory;
	return entry;
}

void vb_direct_unplug(struct vb_direct *direct, uint16_t slot, uint16_t memory)
{
	/* Whether or not it is still renewed: it may be again. */
	if (direct->entry && slot < VB_DAEMON_SLOTS && direct->entry[slot].address.memory == memory)
		direct->entry[slot].address.memory = 0;
}

bool vb_direct_knows(const struct vb_direct *direct, vb_time now, uint16_t slot, uint32_t key, const struct vb_cable_address *from)
{
	const struct vb_direct_entry *entry = entry_of(direct, now, slot);

	return entry && entry->key == key && entry->address.port == from->port && memcmp(entry->address.gid, from->gid, 16) == 0;
}

/* The queue pair of a frame that is for one of an application; 0: it is not, or the frame is not sound. */
static uint32_t qpn_of(const struct vb_ib_frame *frame)
{
	uint32_t qpn = vb_bth_destination_qpn(frame->bth);

	return frame->route.vl == VB_IB_MANAGEMENT_VL || qpn < MANAGEMENT_QPNS ? 0 : qpn;
}

bool vb_direct_may_send(const struct vb_fabric_port *port, const uint8_t *bytes, size_t length)
{
	struct vb_ib_frame frame;

	return vb_ib_frame_decode(&frame, bytes, length) && qpn_of(&frame) != 0 &&
	       vb_switch_unicast(port->node, frame.route.slid) == port->number;
}

const struct vb_direct_entry *vb_direct_find(const struct vb_direct *direct, vb_time now, const uint8_t *bytes, size_t length)
{
	struct vb_ib_frame frame;
	uint32_t qpn;

	if (!direct->entry || !vb_ib_frame_decode(&frame, bytes, length) || frame.route.dlid >= VB_MULTICAST_LID)
		return NULL;
	qpn = qpn_of(&frame);
	return qpn == 0 || qpn == VB_MULTICAST_QPN ? NULL : entry_of(direct, now, qpn >> VB_DAEMON_INDEX_BITS);
}
