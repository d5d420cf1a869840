/* SPDX-License-Identifier: MIT
 *
 * Runs of packets to the sockets that their paths ask for: one of the pool of UDP sockets, or that of frames.
 */
#include "io/udp.h"
#include "links/udp/frames.h"
#include "links/udp/udp_link.h"
#include "wire/burst.h"

static const struct vb_source_port *port_of(const struct vb_udp_link *udp, const struct vb_burst_run *run)
{
	return run->path.framing == VB_FRAMING_UDP ?
		       vb_source_ports_find(&udp->ports, !vb_path_is_ipv4(&run->path), run->path.source_port) : NULL;
}

static uint32_t send_frames(struct vb_udp_link *udp, const struct vb_burst *burst, uint32_t run)
{
	struct vb_frames *frames = __atomic_load_n(&udp->frames, __ATOMIC_ACQUIRE);

	return frames && burst->run[run].path.framing == VB_FRAMING_ETHERNET ? vb_frames_send(frames, burst, run) :
									       burst->run[run].packets;
}

uint32_t vb_udp_send_all(struct vb_udp_link *udp, const struct vb_burst *burst)
{
	uint32_t lost_in_all = 0;

	for (uint32_t i = 0, next; i < burst->runs; i = next) {
		const struct vb_source_port *port = port_of(udp, &burst->run[i]);

		for (next = i + 1; next < burst->runs && port_of(udp, &burst->run[next]) == port;)
			next++;
		if (port)
			lost_in_all += vb_udp_send_runs(port->fd, &port->own, burst, i, next - i);
		for (uint32_t r = i; !port && r < next; r++)
			lost_in_all += send_frames(udp, burst, r);
	}
	return lost_in_all;
}
