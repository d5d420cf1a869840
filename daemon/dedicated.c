/* SPDX-License-Identifier: MIT
 *
 * See dedicated.h.
 */
#include "daemon/dedicated.h"

#include <errno.h>
#include <string.h>

#include "daemon/client.h"
#include "daemon/slots.h"
#include "daemon/users.h"
#include "io/descriptor.h"
#include "io/udp.h"

static void close_one(struct vb_client *client, unsigned lane)
{
	if (client->dedicated_fd[lane] < 0)
		return;
	(void)vb_udp_leave_flow(client->dedicated_fd[lane]);
	vb_descriptor_close(client->dedicated_fd[lane]);
	client->dedicated_fd[lane] = -1;
	vb_user_give_back(client->user, VB_USER_DEDICATED);
}

void vb_dedicated_close(struct vb_client *client)
{
	for (unsigned lane = 0; lane < VB_DAEMON_LANES; lane++)
		close_one(client, lane);
}

/* 0 or -errno. */
static int open_one(struct vb_client *client, const struct vb_daemon_dedicated *asked)
{
	struct vb_path flow = {.source_port = (uint16_t)asked->port};
	int fd;

	close_one(client, asked->lane);
	if (client->slot == 0 || !client->group)
		return -EAGAIN;
	if (!vb_user_take(client->user, VB_USER_DEDICATED))
		return -EUSERS;
	memcpy(flow.source, asked->peer, sizeof(flow.source));
	memcpy(flow.destination, asked->own, sizeof(flow.destination));
	fd = vb_udp_open_dedicated(&flow, client->group->port.port);
	if (fd < 0) {
		vb_user_give_back(client->user, VB_USER_DEDICATED);
		return fd;
	}
	client->dedicated_fd[asked->lane] = fd;
	return 0;
}

void vb_dedicated_open(struct vb_client *client, const struct vb_daemon_message *m)
{
	unsigned lane = m->dedicated.lane;
	struct vb_daemon_message answer;

	vb_daemon_message_begin(&answer, VB_DAEMON_DEDICATED, 0);
	answer.dedicated = m->dedicated;
	if (open_one(client, &m->dedicated) != 0) {
		vb_client_send(client, &answer);
		return;
	}
	/* What comes there would be read by no thread. */
	if (!vb_client_try_send_descriptor(client, &answer, client->dedicated_fd[lane]))
		close_one(client, lane);
}
