/* SPDX-License-Identifier: MIT */
#include "fabric/cable.h"

#include "fabric/fabric.h"
#include "fabric/links.h"

void vb_cable_end_init(struct vb_cable_end *end, const struct vb_cable_address *address, uint32_t key, struct vb_fabric_port *port,
		       vb_time now)
{
	*end = (struct vb_cable_end){
		.address = *address,
		.key = key,
		.port = port,
		.next_sign = now,
		.lost_at = now + VB_CABLE_PATIENCE,
	};
	vb_fabric_attach(port, end, now);
}

bool vb_cable_end_speaks(const struct vb_cable_end *end)
{
	return !end->port->cut && end->port->info.physical_default >> 4 != VB_PHYSICAL_DISABLED;
}

void vb_cable_end_heard(struct vb_cable_end *end, vb_time now, const struct vb_cable_keep_alive *sign)
{
	uint32_t training = be32_get(sign->training);
	bool restarted = end->has_seen && training != end->seen_training;

	if (!vb_cable_end_speaks(end))
		return;
	end->lost_at = now + VB_CABLE_PATIENCE;
	end->seen_training = training;
	end->has_seen = true;
	vb_fabric_cable_is(end->port, true, now);
	if (restarted)
		vb_fabric_link_restart(end->port, now);
}

bool vb_cable_end_doubt(struct vb_cable_end *end, vb_time now)
{
	if (end->doubted_at == 0 || now - end->doubted_at > VB_CABLE_PATIENCE) {
		end->doubted_at = now;
		end->lost_at = vb_time_earlier(end->lost_at, now + VB_CABLE_DOUBT);
	}
	/* If it is there still by then, it was heard since. */
	return now - end->doubted_at < VB_CABLE_DOUBT;
}

void vb_cable_end_restarted(struct vb_cable_end *end, vb_time now)
{
	end->training++;
	end->next_sign = now;
}

vb_time vb_cable_end_deadline(const struct vb_cable_end *end)
{
	return end->port->cable_is_alive ? vb_time_earlier(end->next_sign, end->lost_at) : end->next_sign;
}

bool vb_cable_end_expire(struct vb_cable_end *end, vb_time now, union vb_cable_message *out)
{
	if (now >= end->lost_at && end->port->cable_is_alive)
		vb_fabric_cable_is(end->port, false, now);
	if (now < end->next_sign)
		return false;
	end->next_sign = now + VB_CABLE_INTERVAL;
	vb_cable_begin(out, VB_CABLE_KEEP_ALIVE, end->key);
	out->keep_alive.training = be32_of(end->training);
	return vb_cable_end_speaks(end);
}
