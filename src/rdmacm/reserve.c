/* SPDX-License-Identifier: MIT */
#include "rdmacm/reserve.h"

#include "rdmacm/address.h"
#include "rdmacm/link.h"
#include "wire/cm_mad.h"

int vb_rdmacm_reserve_port(struct vb_rdmacm_id *id, const struct vb_cm_address *source)
{
	struct vb_cm_command command = {
		.verb = VB_CM_BIND,
		.port_space = id->id.ps,
		.source = *source,
		.interface_index = id->interface_index,
		.reuse_address = id->reuse_address,
		.address_family_only = id->address_family_only,
	};
	struct vb_cm_reply reply;
	int error = vb_rdmacm_link_call(id, &command, &reply);

	if (error != 0)
		return error;
	id->source = *source;
	id->source.port = reply.source.port;
	if (vb_cm_address_is_native(source))
		id->source.service_id = vb_cm_service_id(id->id.ps, reply.source.port);
	vb_rdmacm_address_to(&id->id.route.addr.src_storage, &id->source);
	vb_rdmacm_id_become(id, VB_RDMACM_BOUND);
	return 0;
}
