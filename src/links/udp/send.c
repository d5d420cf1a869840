/* SPDX-License-Identifier: MIT
 *
 * Runs of packets to the sockets that their paths ask for: one of the pool of UDP sockets, or that of frames. Datagrams to a process of
 * this host past them, where there is a shortcut.
 */
#include "io/udp.h"
#include "links/shortcut.h"
#include "links/udp/frames.h"
#include "links/udp/udp_link.h"
#include "wire/burst.h"

static struct vb_source_port *port_of(struct vb_udp_link *udp, const struct vb_burst_run *run)
{
	return run->path.framing == VB_FRAMING_UDP ?
		       vb_source_ports_find(&udp->ports, !vb_path_is_ipv4(&run->path), run->path.source_port) : NULL;
}

static uint32_t send_frames(struct vb_udp_link *udp, struct vb_burst *burst, uint32_t run)
{
	struct vb_frames *frames = __atomic_load_n(&udp->frames, __ATOMIC_ACQUIRE);

	return frames && burst->run[run].path.framing == VB_FRAMING_ETHERNET ? vb_frames_send(frames, burst, run) :
									       burst->run[run].packets;
}

/* Which of them: a bit each. */
static uint64_t find_short(struct vb_udp_link *udp, struct vb_burst *burst)
{
	struct vb_shortcut *shortcut = udp->schedule->shortcut;
	uint64_t found = 0;

	_Static_assert(VB_BURST_RUNS <= 64, "a bit each");
	for (uint32_t i = 0; shortcut && i < burst->runs; i++)
		if (burst->run[i].datagrams && shortcut->leads_to(shortcut, &burst->run[i].path, burst->run[i].slot))
			found |= UINT64_C(1) << i;
	return found;
}

/* Those that are not left out. */
static uint32_t send_by_wire(struct vb_udp_link *udp, struct vb_burst *burst, uint64_t left_out)
{
	uint32_t lost_in_all = 0;

	for (uint32_t i = 0, next; i < burst->runs; i = next) {
		struct vb_source_port *port = port_of(udp, &burst->run[i]);

		next = i + 1;
		if (left_out >> i & 1)
			continue;
		while (next < burst->runs && !(left_out >> next & 1) && port_of(udp, &burst->run[next]) == port)
			next++;
		if (port)
			lost_in_all += vb_counted_send(port, burst, i, next - i);
		for (uint32_t r = i; !port && r < next; r++)
			lost_in_all += send_frames(udp, burst, r);
	}
	return lost_in_all;
}

/* There no socket counts. */
static void take_number(struct vb_udp_link *udp, struct vb_burst *burst, uint32_t run)
{
	struct vb_source_port *port = burst->run[run].counted ? port_of(udp, &burst->run[run]) : NULL;

	vb_burst_renumber(burst, run, 0);
	if (port)
		vb_counted_pass_by(&port->counted);
}

/* What does not fit goes by wire after all. */
static uint32_t send_short(struct vb_udp_link *udp, struct vb_burst *burst, uint64_t which)
{
	struct vb_shortcut *shortcut = udp->schedule->shortcut;
	uint64_t fit = ~which;
	uint32_t lost;

	for (uint32_t i = 0; i < burst->runs; i++) {
		if (!(which >> i & 1))
			continue;
		take_number(udp, burst, i);
		if (shortcut->put(shortcut, &burst->run[i]))
			fit |= UINT64_C(1) << i;
	}
	if (fit == ~UINT64_C(0))
		return 0;
	lost = send_by_wire(udp, burst, fit);
	for (uint32_t i = 0; i < burst->runs; i++)
		if (!(fit >> i & 1))
			shortcut->sent(shortcut, &burst->run[i]);
	return lost;
}

uint32_t vb_udp_send_all(struct vb_udp_link *udp, struct vb_burst *burst)
{
	uint64_t shortened = find_short(udp, burst);
	uint32_t lost_in_all = send_by_wire(udp, burst, shortened);

	/* Last: a process that is about to come to know of the shortcut reads its sockets first. */
	return shortened ? lost_in_all + send_short(udp, burst, shortened) : lost_in_all;
}
