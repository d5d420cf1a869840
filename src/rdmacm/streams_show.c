/* SPDX-License-Identifier: MIT
 *
 * What the ids with streams are, for `verbena res`: verbenad knows of one that connects that it has a port, and of a
 * request's id nothing. States are called as those of the CM (connect/states.h), whose messages MPA's frames stand for.
 */
#include <stdio.h>

#include "rdmacm/streams_parts.h"

#define streams vb_rdmacm_streams

static const char *state_of(const struct vb_rdmacm_id *id)
{
	const struct vb_rdmacm_stream *stream = id->stream;

	if (stream == NULL)
		return "CLOSED";
	switch (stream->kind) {
	case VB_STREAM_LISTENER:
		return "LISTENING";
	case VB_STREAM_REFUSED:
	case VB_STREAM_INCOMING:
		return "REQ_RECEIVED";
	case VB_STREAM_OUTGOING:
		return "REQ_SENT";
	case VB_STREAM_ADOPTED:
		break;
	}
	if (vb_rdmacm_id_state(id) == VB_RDMACM_DISCONNECTING)
		return "DREQ_SENT";
	/* With a handshake to remember: the peer has not said yet that it is ready to receive. */
	return stream->mpa != NULL ? "REP_SENT" : "ESTABLISHED";
}

void vb_rdmacm_streams_show(void *list, vb_handover_add_id *add)
{
	vb_mutex_lock(&streams.lock);
	VB_LIST_FOR_EACH(node, &streams.ids) {
		const struct vb_rdmacm_id *id = vb_container_of(node, struct vb_rdmacm_id, stream_node);
		struct vb_resource_cm_id row = {
			.source = id->source,
			.destination = id->destination,
			.number = id->stream_request != 0 ? id->stream_request :
							    __atomic_load_n(&id->handle, __ATOMIC_RELAXED),
			.port_space = id->id.ps,
			.qp_type = id->id.qp_type,
			.interface_index = __atomic_load_n(&id->interface_index, __ATOMIC_ACQUIRE),
			.local_qpn = id->stream != NULL ? id->stream->qpn : 0,
		};

		snprintf(row.state, sizeof(row.state), "%s", state_of(id));
		add(list, &row);
	}
	vb_mutex_unlock(&streams.lock);
}
