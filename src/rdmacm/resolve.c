/* SPDX-License-Identifier: MIT
 *
 * As in the kernel (addr.c): an address is resolved when the next hop's is known on its link, and an address for which
 * no host answers within the time that rdma_resolve_addr was given is RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT.
 */
#include "rdmacm/resolve.h"

#include <errno.h>
#include <string.h>

#include "io/clock.h"
#include "io/neighbour.h"
#include "io/route.h"
#include "rdmacm/address.h"
#include "rdmacm/channel.h"
#include "rdmacm/device.h"

/* A neighbour answers in a fraction of a millisecond, or is in no hurry. */
#define FIRST_LOOK VB_MICROSECONDS(200)
#define LAST_LOOK VB_MILLISECONDS(50)
#define LEAST_PATIENCE VB_MILLISECONDS(10)

static struct vb_path path_to(const struct vb_rdmacm_id *id)
{
	struct vb_path path = {.interface_index = id->resolving.interface_index};

	memcpy(path.source, id->source.gid, 16);
	memcpy(path.destination, id->destination.gid, 16);
	return path;
}

/* No more is known than that the packet left: where the kernel keeps no neighbours (point to point), none is needed. */
static bool is_known(enum vb_neighbour neighbour)
{
	return neighbour == VB_NEIGHBOUR_KNOWN || neighbour == VB_NEIGHBOUR_UNASKED;
}

bool vb_rdmacm_resolve_begin(struct vb_rdmacm_id *id, const struct vb_route *route, int timeout_ms)
{
	struct vb_rdmacm_resolving *resolving = &id->resolving;
	vb_time patience = VB_MILLISECONDS(timeout_ms);
	struct vb_path path;

	if (route->local || vb_gid_is_multicast(route->next_hop) ||
	    vb_neighbour_look(route->next_hop, route->interface_index) == VB_NEIGHBOUR_KNOWN)
		return false;
	memcpy(resolving->next_hop, route->next_hop, 16);
	resolving->interface_index = route->interface_index;
	path = path_to(id);
	vb_neighbour_solicit(&path);
	if (is_known(vb_neighbour_look(route->next_hop, route->interface_index)))
		return false;
	resolving->deadline = vb_clock_now() + (patience < LEAST_PATIENCE ? LEAST_PATIENCE : patience);
	resolving->pause = FIRST_LOOK;
	resolving->look_at = vb_clock_now() + FIRST_LOOK;
	return true;
}

/* The state before the event: the program may act on it at once. */
static void finish(struct vb_rdmacm_id *id, int error)
{
	vb_list_remove(&id->resolving.node);
	vb_rdmacm_id_become(id, error == 0 ? VB_RDMACM_ADDRESS_RESOLVED : VB_RDMACM_BOUND);
	(void)vb_rdmacm_channel_tell(id, error == 0 ? RDMA_CM_EVENT_ADDR_RESOLVED : RDMA_CM_EVENT_ADDR_ERROR, error);
}

static void look(struct vb_rdmacm_id *id, vb_time now)
{
	struct vb_rdmacm_resolving *resolving = &id->resolving;
	enum vb_neighbour neighbour = vb_neighbour_look(resolving->next_hop, resolving->interface_index);
	struct vb_path path = path_to(id);

	if (is_known(neighbour)) {
		finish(id, 0);
		return;
	}
	if (now >= resolving->deadline) {
		finish(id, -ETIMEDOUT);
		return;
	}
	if (neighbour == VB_NEIGHBOUR_SILENT)
		vb_neighbour_solicit(&path); /* the kernel has given up, the program has not */
	resolving->pause = 2 * resolving->pause < LAST_LOOK ? 2 * resolving->pause : LAST_LOOK;
	resolving->look_at = vb_time_earlier(now + resolving->pause, resolving->deadline);
}

static struct vb_rdmacm_id *id_at(const struct vb_list *node)
{
	return vb_container_of(node, struct vb_rdmacm_id, resolving.node);
}

void vb_rdmacm_resolve_look(struct vb_list *resolving)
{
	vb_time now = vb_clock_now();

	VB_LIST_FOR_EACH(node, resolving)
		if (id_at(node)->resolving.look_at <= now)
			look(id_at(node), now);
}

vb_time vb_rdmacm_resolve_deadline(const struct vb_list *resolving)
{
	vb_time when = VB_TIME_NEVER;

	VB_LIST_FOR_EACH(node, resolving)
		when = vb_time_earlier(when, id_at(node)->resolving.look_at);
	return when;
}

/* The next attempt begins as the first did, but for the port, which stays. */
void vb_rdmacm_resolve_undo(struct vb_rdmacm_id *id)
{
	if (id->source_by_route) {
		memset(id->source.gid, 0, sizeof(id->source.gid));
		id->source.scope = 0;
		vb_rdmacm_address_to(&id->id.route.addr.src_storage, &id->source);
	}
	if (id->device_by_route)
		vb_rdmacm_device_unbind(id);
	id->source_by_route = id->device_by_route = false;
}
