/* SPDX-License-Identifier: MIT */
#include "wire/cable.h"

#include <string.h>

#include "wire/ib_packet.h"

size_t vb_cable_length(enum vb_cable_kind kind)
{
	switch (kind) {
	case VB_CABLE_KEEP_ALIVE:
		return sizeof(struct vb_cable_keep_alive);
	case VB_CABLE_JOIN:
		return sizeof(struct vb_cable_join);
	case VB_CABLE_ACCEPT:
		return sizeof(struct vb_cable_accept);
	case VB_CABLE_REFUSE:
		return sizeof(struct vb_cable_refuse);
	case VB_CABLE_SLOT:
		return sizeof(struct vb_cable_slot);
	case VB_CABLE_FRAME:
	case VB_CABLE_LEAVE:
		break;
	}
	return sizeof(struct vb_cable_header);
}

void vb_cable_begin(union vb_cable_message *message, enum vb_cable_kind kind, uint32_t key)
{
	memset(message, 0, sizeof(*message));
	message->header = (struct vb_cable_header){.key = be32_of(key), .kind = be16_of((uint16_t)kind)};
	if (kind == VB_CABLE_JOIN) {
		message->join.magic = be32_of(VB_CABLE_MAGIC);
		message->join.version = be16_of(VB_CABLE_VERSION);
	}
}

/* Ends inside its room and is printable: it is shown to people. */
static bool is_text(const char *text, size_t room)
{
	size_t length = strnlen(text, room);

	for (size_t i = 0; i < length; i++)
		if ((unsigned char)text[i] < ' ' || (unsigned char)text[i] >= 0x7f)
			return false;
	return length < room;
}

enum vb_cable_kind vb_cable_check(const void *bytes, size_t length)
{
	const union vb_cable_message *message = bytes;
	enum vb_cable_kind kind;

	if (length < sizeof(message->header))
		return 0;
	kind = (enum vb_cable_kind)be16_get(message->header.kind);
	if (kind < VB_CABLE_FRAME || kind > VB_CABLE_SLOT)
		return 0;
	if (kind == VB_CABLE_FRAME)
		return length > VB_CABLE_HEADER_LENGTH + VB_LRH_LENGTH ? kind : 0;
	if (length != vb_cable_length(kind))
		return 0;
	if (kind == VB_CABLE_JOIN)
		return be32_get(message->join.magic) == VB_CABLE_MAGIC && is_text(message->join.description, VB_CABLE_NAME) &&
				       is_text(message->join.wanted, VB_CABLE_NAME) ? kind : 0;
	if (kind == VB_CABLE_ACCEPT)
		return is_text(message->accept.description, VB_CABLE_NAME) && is_text(message->accept.where, VB_CABLE_NAME) &&
				       message->accept.port >= 1 && message->accept.port <= message->accept.ports ? kind : 0;
	if (kind == VB_CABLE_REFUSE)
		return is_text(message->refuse.why, sizeof(message->refuse.why)) ? kind : 0;
	return kind;
}
