/* SPDX-License-Identifier: MIT
 *
 * See dedicated.h.
 */
#include "links/udp/dedicated.h"

#include <string.h>

#include "io/descriptor.h"
#include "io/udp.h"
#include "links/udp/source_ports.h"

enum {
	ENOUGH = 512,
	LATEST_ENOUGH = 1 << 20,           /* each that goes makes the next one wait twice as long, up to that */
	/* Each time that another socket brings something counts so much, each time that this one does takes away 1. */
	OTHER = 8,
	CROWDED = 4096,
	LOOK_BEYOND = 16,                  /* every so many passes, where nothing else comes */
};

void vb_dedicated_init(struct vb_dedicated *dedicated)
{
	*dedicated = (struct vb_dedicated){.fd = -1, .enough = ENOUGH};
}

void vb_dedicated_fini(struct vb_dedicated *dedicated)
{
	if (dedicated->fd >= 0)
		vb_descriptor_close(dedicated->fd);
	dedicated->fd = -1;
}

/* ---- passes ---- */

static bool is_of(const struct vb_path *flow, const struct vb_path *from)
{
	return flow->source_port == from->source_port && memcmp(flow->source, from->source, sizeof(flow->source)) == 0 &&
	       memcmp(flow->destination, from->destination, sizeof(flow->destination)) == 0;
}

bool vb_dedicated_note(struct vb_dedicated *dedicated, const struct vb_path *from)
{
	if (dedicated->state != VB_DEDICATED_NONE || dedicated->forbidden)
		return false;
	if (!from || !is_of(&dedicated->flow, from)) {
		dedicated->in_a_row = 0;
		if (from)
			dedicated->flow = *from;
		return false;
	}
	if (++dedicated->in_a_row < dedicated->enough)
		return false;
	dedicated->in_a_row = 0;
	return true;
}

/* Without an interface these say nothing. */
static bool is_link_local(const uint8_t gid[16])
{
	return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

bool vb_dedicated_suits(const struct vb_path *flow)
{
	return flow->framing == VB_FRAMING_UDP && !vb_gid_is_multicast(flow->destination) && !is_link_local(flow->source) &&
	       vb_source_port_has_one_destination(flow->source_port);
}

bool vb_dedicated_want(struct vb_dedicated *dedicated, uint32_t qpn)
{
	dedicated->state = VB_DEDICATED_WANTED;
	dedicated->qpn = qpn;
	return true;
}

bool vb_dedicated_end(struct vb_dedicated *dedicated)
{
	dedicated->qpn = 0;
	if (dedicated->state == VB_DEDICATED_WANTED)
		dedicated->state = VB_DEDICATED_NONE;
	if (dedicated->state != VB_DEDICATED_OPEN)
		return false;
	dedicated->state = VB_DEDICATED_UNWANTED;
	return true;
}

bool vb_dedicated_forbid(struct vb_dedicated *dedicated)
{
	dedicated->forbidden = true;
	return vb_dedicated_end(dedicated);
}

bool vb_dedicated_caught_up(struct vb_dedicated *dedicated, vb_time now)
{
	if (dedicated->state != VB_DEDICATED_LEFT) {
		dedicated->state = VB_DEDICATED_OPEN;
		return dedicated->qpn == 0 && vb_dedicated_end(dedicated);
	}
	/* Passes come when they come: until then a packet that is late wakes a thread. */
	if (dedicated->left == 0)
		dedicated->left = now;
	if (now - dedicated->left < VB_MILLISECONDS(VB_DEDICATED_LINGERS_MS))
		return false;
	dedicated->state = VB_DEDICATED_EMPTY;
	return true;
}

void vb_dedicated_came(struct vb_dedicated *dedicated)
{
	if (dedicated->others > 0)
		dedicated->others--;
}

bool vb_dedicated_others_came(struct vb_dedicated *dedicated)
{
	if (dedicated->state != VB_DEDICATED_OPEN)
		return false;
	dedicated->others += OTHER;
	if (dedicated->others < CROWDED)
		return false;
	if (dedicated->enough < LATEST_ENOUGH)
		dedicated->enough *= 2;
	return vb_dedicated_end(dedicated);
}

bool vb_dedicated_looks_beyond(struct vb_dedicated *dedicated)
{
	return dedicated->others > 0 || ++dedicated->passes % LOOK_BEYOND == 0;
}

/* ---- the engine thread ---- */

bool vb_dedicated_tend(struct vb_dedicated *dedicated, bool connected, struct vb_path *flow)
{
	if (!connected) {
		vb_dedicated_end(dedicated);
		/* There will be no answer. */
		if (dedicated->state == VB_DEDICATED_ASKED)
			dedicated->state = VB_DEDICATED_NONE;
	}
	switch (dedicated->state) {
	case VB_DEDICATED_WANTED:
		dedicated->state = VB_DEDICATED_ASKED;
		*flow = dedicated->flow;
		return true;
	case VB_DEDICATED_UNWANTED:
		/* Where that fails it is read as before. */
		if (vb_udp_leave_flow(dedicated->fd) == 0) {
			dedicated->state = VB_DEDICATED_LEFT;
			dedicated->left = 0;
		}
		return false;
	case VB_DEDICATED_EMPTY:
		vb_dedicated_fini(dedicated);
		dedicated->state = VB_DEDICATED_NONE;
		return false;
	default:
		return false;
	}
}

void vb_dedicated_take(struct vb_dedicated *dedicated, const struct vb_path *flow, int fd)
{
	if (dedicated->state != VB_DEDICATED_ASKED || !is_of(&dedicated->flow, flow)) {
		/* verbenad has it, too: to be closed is not enough. */
		if (fd >= 0) {
			(void)vb_udp_leave_flow(fd);
			vb_descriptor_close(fd);
		}
		return;
	}
	if (fd < 0 && dedicated->enough < LATEST_ENOUGH)
		dedicated->enough *= 2;
	dedicated->fd = fd;
	dedicated->others = 0;
	dedicated->state = fd >= 0 ? VB_DEDICATED_NEW : VB_DEDICATED_NONE;
}
