/* SPDX-License-Identifier: MIT */
#include "fabric/port_info.h"

#include "fabric/links.h"

/* 0: no change; all ones: whatever is supported; else some of what is. */
static bool subset_is_sound(uint8_t wanted, uint8_t supported, uint8_t all)
{
	return wanted == 0 || wanted == all || (wanted & ~supported) == 0;
}

static void set_subset(uint8_t *field, uint8_t wanted, uint8_t supported, uint8_t all)
{
	if (wanted != 0)
		*field = wanted == all ? supported : wanted;
}

static bool lid_is_sound(const struct vb_fabric_port *port, struct be16 wanted)
{
	uint16_t lid = be16_get(wanted);

	/* External ports of a switch have none. */
	return vb_fabric_port_base((struct vb_fabric_port *)(uintptr_t)port) != port || lid == vb_fabric_port_lid(port) ||
	       (lid != 0 && lid < VB_MULTICAST_LID);
}

static bool is_sound(const struct vb_fabric_port *port, const struct vb_port_info *wanted)
{
	const struct vb_port_info *own = &port->info;
	uint8_t mtu = wanted->mtu_sm_sl >> 4, vls = wanted->vls_enforcement >> 4, physical = wanted->physical_default >> 4;

	return vb_fabric_port_may_become(port, wanted->speed_state & 0x0f) && physical <= VB_PHYSICAL_DISABLED &&
	       (physical == 0 || port->number != 0) && (wanted->physical_default & 0x0f) <= VB_PHYSICAL_POLLING &&
	       lid_is_sound(port, wanted->lid) && be16_get(wanted->sm_lid) < VB_MULTICAST_LID &&
	       subset_is_sound(wanted->width_enabled, own->width_supported, 0xff) &&
	       subset_is_sound(wanted->speed_active_enabled & 0x0f, own->speed_state >> 4, 0x0f) &&
	       (wanted->ext_enabled & 0x1f) != 0x1e && mtu <= (own->init_reply_mtu_cap & 0x0f) && vls <= own->vl_cap_init >> 4;
}

/* Fields that only the port with the LIDs has. Returns what programs are told of. */
static unsigned set_base(struct vb_fabric_port *port, const struct vb_port_info *wanted)
{
	struct vb_port_info *own = &port->info;
	unsigned what = 0;
	uint8_t lmc = wanted->protect_lmc & 7;

	if (be16_get(wanted->lid) != vb_fabric_port_lid(port) || lmc != (own->protect_lmc & 7))
		what |= VB_FABRIC_LID_CHANGED;
	if (be16_get(wanted->sm_lid) != be16_get(own->sm_lid) || (wanted->mtu_sm_sl & 0x0f) != (own->mtu_sm_sl & 0x0f))
		what |= VB_FABRIC_SM_CHANGED;
	if (be64_get(wanted->gid_prefix) != be64_get(own->gid_prefix))
		what |= VB_FABRIC_PREFIX_CHANGED;
	if (wanted->reregister_timeout & 0x80)
		what |= VB_FABRIC_REREGISTER;
	own->m_key = wanted->m_key;
	own->gid_prefix = wanted->gid_prefix;
	own->lid = wanted->lid;
	own->sm_lid = wanted->sm_lid;
	own->m_key_lease = wanted->m_key_lease;
	own->protect_lmc = (uint8_t)((wanted->protect_lmc & 0xc0) | lmc);
	own->mtu_sm_sl = (uint8_t)((own->mtu_sm_sl & 0xf0) | (wanted->mtu_sm_sl & 0x0f));
	own->m_key_violations = wanted->m_key_violations;
	own->pkey_violations = wanted->pkey_violations;
	own->qkey_violations = wanted->qkey_violations;
	own->reregister_timeout = wanted->reregister_timeout & 0x7f;
	return what;
}

static void set_link(struct vb_fabric_port *port, const struct vb_port_info *wanted)
{
	struct vb_port_info *own = &port->info;
	uint8_t enabled = own->speed_active_enabled & 0x0f, mtu = wanted->mtu_sm_sl >> 4, vls = wanted->vls_enforcement >> 4;

	set_subset(&own->width_enabled, wanted->width_enabled, own->width_supported, 0xff);
	set_subset(&enabled, wanted->speed_active_enabled & 0x0f, own->speed_state >> 4, 0x0f);
	own->speed_active_enabled = (uint8_t)((own->speed_active_enabled & 0xf0) | enabled);
	if (mtu != 0)
		own->mtu_sm_sl = (uint8_t)(mtu << 4 | (own->mtu_sm_sl & 0x0f));
	if (vls == 0)
		vls = own->vls_enforcement >> 4;
	own->vls_enforcement = (uint8_t)(vls << 4 | (wanted->vls_enforcement & 0x0f));
	own->vl_high_limit = wanted->vl_high_limit;
	own->stall_hoq = wanted->stall_hoq;
	own->error_thresholds = wanted->error_thresholds;
	if (wanted->physical_default & 0x0f)
		own->physical_default = (uint8_t)((own->physical_default & 0xf0) | (wanted->physical_default & 0x0f));
}

static void set_physical(struct vb_fabric_port *port, uint8_t physical, vb_time now)
{
	bool was_disabled = port->info.physical_default >> 4 == VB_PHYSICAL_DISABLED;

	if (physical == VB_PHYSICAL_DISABLED || was_disabled) {
		port->info.physical_default = (uint8_t)(physical << 4 | (port->info.physical_default & 0x0f));
		vb_fabric_link_update(port, now);
	} else {
		/* Polling: the link is trained anew. */
		vb_fabric_link_restart_both(port, now);
	}
}

uint16_t vb_port_info_set(struct vb_fabric_port *port, const struct vb_port_info *wanted, vb_time now)
{
	unsigned state = wanted->speed_state & 0x0f, what = 0;
	uint8_t physical = wanted->physical_default >> 4;

	if (!is_sound(port, wanted))
		return VB_MAD_BAD_VALUE;
	if (vb_fabric_port_base(port) == port)
		what = set_base(port, wanted);
	set_link(port, wanted);
	if (what)
		vb_fabric_port_tell(port, what, now);
	if (physical != VB_PHYSICAL_NO_CHANGE)
		set_physical(port, physical, now);
	else if (state == VB_PORT_DOWN && port->number != 0)
		vb_fabric_link_restart_both(port, now);
	else if (state == VB_PORT_ARMED || state == VB_PORT_ACTIVE)
		vb_fabric_port_set_state(port, (enum vb_port_state)state, now);
	return VB_MAD_OK;
}
