/* SPDX-License-Identifier: MIT
 *
 * A run leaves by the process's own socket (direct.c) or becomes one message of frames to verbenad, with the same headers before
 * each packet of one length. If verbenad is slow the thread waits for it a little, as an adapter would for credits; then the
 * packets are lost.
 */
#include "io/unix_socket.h"
#include "links/fabric/fabric_link.h"
#include "wire/burst.h"

#define PATIENCE VB_MILLISECONDS(20)

static bool send_by_daemon(int fd, const struct vb_burst_run *run)
{
	struct vb_ib_route route = vb_ib_route_of_path(&run->path);
	uint8_t headers[VB_IB_MAX_HEADERS], last_headers[VB_IB_MAX_HEADERS];
	struct iovec parts[2 * VB_BURST_RUN_PACKETS];
	uint32_t last = run->bytes - (run->packets - 1) * run->segment_size;
	size_t length = vb_ib_route_encode(&route, run->segment_size, headers);

	(void)vb_ib_route_encode(&route, last, last_headers);
	for (uint32_t i = 0; i < run->packets; i++) {
		bool is_last = i + 1 == run->packets;

		parts[2 * i] = (struct iovec){is_last ? last_headers : headers, length};
		parts[2 * i + 1] = (struct iovec){(void *)(uintptr_t)(run->data + (size_t)i * run->segment_size),
						  is_last ? last : run->segment_size};
	}
	return vb_unix_send_parts(fd, parts, 2 * run->packets, PATIENCE) == 0;
}

uint32_t vb_fabric_link_send_run(struct vb_fabric_link *fabric, const struct vb_burst_run *run)
{
	int fd = vb_fabric_link_fd(fabric);
	uint32_t lost = 0;

	if (vb_fabric_direct_send(fabric, run, &lost))
		return lost;
	return fd >= 0 && send_by_daemon(fd, run) ? 0 : run->packets;
}
