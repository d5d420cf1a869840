/* SPDX-License-Identifier: MIT
 *
 * See discard.h.
 */
#include "rdmacm/discard.h"

#include <stdlib.h>

#include "rdmacm/channel.h"
#include "rdmacm/link.h"
#include "rdmacm/streams.h"

void vb_rdmacm_discard_child(struct vb_rdmacm_id *child)
{
	struct vb_list dropped;

	vb_list_init(&dropped);
	vb_rdmacm_streams_forget(child);
	vb_rdmacm_link_destroy(child);
	vb_rdmacm_channel_remove(vb_rdmacm_channel_of(child->id.channel), child, &dropped);
	VB_LIST_FOR_EACH(node, &dropped)
		free(vb_container_of(node, struct vb_rdmacm_event, node));
	vb_rdmacm_id_free(child);
}

void vb_rdmacm_discard_events(struct vb_rdmacm_id *id)
{
	struct vb_list dropped;

	vb_list_init(&dropped);
	vb_rdmacm_channel_remove(vb_rdmacm_channel_of(id->id.channel), id, &dropped);
	VB_LIST_FOR_EACH(node, &dropped) {
		struct vb_rdmacm_event *event = vb_container_of(node, struct vb_rdmacm_event, node);

		if (event->child != NULL)
			vb_rdmacm_discard_child(event->child);
		free(event);
	}
}
