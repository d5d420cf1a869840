/* SPDX-License-Identifier: MIT
 *
 * What an owner's communication ids are, for `verbena res`.
 */
#include <stdio.h>

#include "connect/connection.h"
#include "wire/resource.h"

void vb_connect_owner_show(const struct vb_connect_owner *owner, struct vb_resource_list *list)
{
	VB_LIST_FOR_EACH(node, &owner->ids) {
		const struct vb_connection *connection = vb_container_of(node, struct vb_connection, owner_node);
		struct vb_resource_cm_id row = {
			.source = connection->source,
			.destination = connection->destination,
			.number = connection->id,
			.port_space = connection->port_space,
			.qp_type = connection->qp_type,
			.interface_index = connection->device.interface_index,
			.local_qpn = connection->local_qpn,
			.peer_qpn = connection->remote_qpn,
			.backlog = connection->backlog,
			.waiting = connection->waiting,
		};

		snprintf(row.state, sizeof(row.state), "%s", vb_connect_state_name(connection->state));
		vb_resource_list_add(list, VB_RESOURCE_CM_ID, &row);
	}
}
