/* SPDX-License-Identifier: MIT
 *
 * Lists of resources: appending rows, and reading rows that another process appended.
 */
#include "wire/resource.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static size_t body_length(uint32_t kind)
{
	switch (kind) {
#define X(name, value, member, body) case value: return sizeof(body);
	VB_RESOURCES(X)
#undef X
	}
	return 0;
}

void vb_resource_list_init(struct vb_resource_list *list)
{
	*list = (struct vb_resource_list){.length = sizeof(struct vb_resource_head)};
}

void vb_resource_list_fini(struct vb_resource_list *list)
{
	free(list->bytes);
	list->bytes = NULL;
}

static bool make_room(struct vb_resource_list *list, size_t length)
{
	size_t room = list->room ? list->room : 4096;
	uint8_t *larger;

	if (length > VB_RESOURCE_MOST_BYTES - list->length)
		return false;
	while (room < list->length + length)
		room *= 2;
	if (room == list->room)
		return true;
	larger = realloc(list->bytes, room);
	if (!larger)
		return false;
	list->bytes = larger;
	list->room = room;
	return true;
}

void vb_resource_list_add(struct vb_resource_list *list, enum vb_resource_kind kind, const void *body)
{
	size_t length = body_length(kind);
	struct vb_resource_row row = {.kind = kind, .length = (uint32_t)(sizeof(row) + length)};

	if (!make_room(list, row.length)) {
		list->left_out++;
		return;
	}
	memcpy(list->bytes + list->length, &row, sizeof(row));
	memcpy(list->bytes + list->length + sizeof(row), body, length);
	list->length += row.length;
}

const void *vb_resource_list_finish(struct vb_resource_list *list, size_t *length)
{
	struct vb_resource_head head = {
		.magic = VB_RESOURCE_MAGIC,
		.length = (uint32_t)list->length,
		.left_out = list->left_out,
	};

	if (!make_room(list, 0))
		return NULL;
	memcpy(list->bytes, &head, sizeof(head));
	*length = list->length;
	return list->bytes;
}

int vb_resource_begin(const void *bytes, size_t length, size_t *at, uint32_t *left_out)
{
	struct vb_resource_head head;

	if (length < sizeof(head) || length > VB_RESOURCE_MOST_BYTES)
		return -EPROTO;
	memcpy(&head, bytes, sizeof(head));
	if (head.magic != VB_RESOURCE_MAGIC || head.length != length)
		return -EPROTO;
	*at = sizeof(head);
	*left_out = head.left_out;
	return 0;
}

/* A terminal will show it. */
static void make_text(char *text, size_t room)
{
	text[room - 1] = '\0';
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || (unsigned char)*text > '~')
			*text = '?';
}

int vb_resource_next(const void *bytes, size_t length, size_t *at, union vb_resource *resource)
{
	for (;;) {
		struct vb_resource_row row;
		size_t body;

		if (*at == length)
			return VB_RESOURCE_END;
		if (length - *at < sizeof(row))
			return -EPROTO;
		memcpy(&row, (const uint8_t *)bytes + *at, sizeof(row));
		if (row.length < sizeof(row) || row.length > length - *at)
			return -EPROTO;
		body = body_length(row.kind);
		if (body != 0 && row.length != sizeof(row) + body)
			return -EPROTO;
		memcpy(resource, (const uint8_t *)bytes + *at + sizeof(row), body);
		*at += row.length;
		if (body == 0)
			continue;
		if (row.kind == VB_RESOURCE_DEVICE)
			make_text(resource->device.name, sizeof(resource->device.name));
		else if (row.kind == VB_RESOURCE_CM_ID)
			make_text(resource->cm_id.state, sizeof(resource->cm_id.state));
		return (int)row.kind;
	}
}
