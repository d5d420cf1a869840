/* SPDX-License-Identifier: MIT
 *
 * What verbenad says of networks that are to be worse than they are (`verbena shape`): kept, and told to the links.
 */
#include "progress/endpoint_parts.h"

static void tell(struct vb_endpoint *endpoint, unsigned index)
{
	const struct vb_daemon_shape *told = &endpoint->shape[index];
	struct vb_counters *device = vb_endpoint_counters(endpoint, told->interface_index);

	/* First: who connects from now on must have packets. */
	__atomic_store_n(&endpoint->schedule.shaped[index], vb_shape_is_none(&told->shape) ? NULL : device, __ATOMIC_RELAXED);
	for (struct vb_link *link = endpoint->schedule.links; link; link = link->next)
		if (link->driver->shape)
			link->driver->shape(link, device, &told->shape);
}

void vb_endpoint_shape_links(struct vb_endpoint *endpoint)
{
	for (unsigned i = 0; i < VB_DAEMON_PAGE_DEVICES; i++)
		if (endpoint->shape[i].interface_index != 0)
			tell(endpoint, i);
}

void vb_endpoint_take_shape(struct vb_endpoint *endpoint, const struct vb_daemon_shape *shape)
{
	unsigned i = 0;

	while (i < VB_DAEMON_PAGE_DEVICES && endpoint->shape[i].interface_index != 0 &&
	       endpoint->shape[i].interface_index != shape->interface_index)
		i++;
	if (i == VB_DAEMON_PAGE_DEVICES)
		return;
	endpoint->shape[i] = *shape;
	if (endpoint->schedule.links)
		tell(endpoint, i);
}
