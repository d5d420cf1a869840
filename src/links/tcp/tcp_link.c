/* SPDX-License-Identifier: MIT
 *
 * Opening and closing the link of iWARP. See tcp_link.h.
 */
#include "links/tcp/tcp_link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "io/descriptor.h"
#include "io/event.h"
#include "io/tcp.h"
#include "iwarp/iwarp.h"
#include "links/tcp/tap.h"

static void close_link(struct vb_link *link)
{
	struct vb_tcp_link *tcp = vb_tcp_link_of(link);

	vb_tcp_streams_free(tcp);
	vb_tcp_tap_close(tcp->tap);
	vb_tcp_free_outs(tcp);
	if (tcp->poller >= 0)
		vb_descriptor_close(tcp->poller);
	if (tcp->report_fd >= 0)
		vb_descriptor_close(tcp->report_fd);
	vb_mutex_fini(&tcp->report_lock);
	free(tcp->staging);
	free(tcp);
}

/* A child that kept them would keep the connections from ending with its parent. */
static void abandon(struct vb_link *link)
{
	struct vb_tcp_link *tcp = vb_tcp_link_of(link);

	for (unsigned i = 0; i < VB_DAEMON_INDICES; i++)
		if (tcp->stream[i])
			vb_descriptor_close(tcp->stream[i]->fd);
	vb_descriptor_close(tcp->poller);
	vb_descriptor_close(tcp->report_fd);
	vb_tcp_tap_abandon(tcp->tap);
}

static unsigned descriptors(const struct vb_link *link, int fd[VB_LINK_DESCRIPTORS])
{
	fd[0] = ((const struct vb_tcp_link *)link)->poller;
	return 1;
}

static int report_fd(const struct vb_link *link)
{
	return ((const struct vb_tcp_link *)link)->report_fd;
}

static bool addresses(struct vb_link *link, const struct vb_qp *qp, uint8_t local[16], uint8_t peer[16])
{
	const struct vb_tcp_stream *stream = vb_tcp_stream_of(vb_tcp_link_of(link), qp);
	struct vb_tcp_address ours, theirs;

	if (!stream || vb_tcp_local(stream->fd, &ours) != 0 || vb_tcp_remote(stream->fd, &theirs) != 0)
		return false;
	memcpy(local, ours.gid, sizeof(ours.gid));
	memcpy(peer, theirs.gid, sizeof(theirs.gid));
	return true;
}

static void addresses_changed(struct vb_link *link)
{
	__atomic_store_n(&vb_tcp_link_of(link)->foreign_stands, false, __ATOMIC_SEQ_CST);
}

static const struct vb_link_driver driver = {
	.name = "tcp",
	.engine = &vb_iwarp_transport,
	.close = close_link,
	.abandon = abandon,
	.withdraw = vb_tcp_withdraw,
	.modified = vb_tcp_modified,
	.addresses_changed = addresses_changed,
	.addresses = addresses,
	.transmit = vb_tcp_transmit,
	.transmit_in_pass = vb_tcp_transmit_in_pass,
	.posted = vb_tcp_posted,
	.received = vb_tcp_received,
	.drain = vb_tcp_drain,
	.expire = vb_tcp_expire,
	.descriptors = descriptors,
	.has_work = vb_tcp_has_work,
	.rest = vb_tcp_rest,
	.lingers = vb_tcp_lingers,
	.replenished = vb_tcp_replenished,
	.adopt = vb_tcp_adopt,
	.report = vb_tcp_report,
	.report_fd = report_fd,
};

int vb_tcp_link_open(struct vb_link **link, struct vb_schedule *schedule)
{
	struct vb_tcp_link *tcp = calloc(1, sizeof(*tcp));
	int error = 0;

	if (!tcp)
		return -ENOMEM;
	tcp->link = (struct vb_link){.driver = &driver, .schedule = schedule};
	tcp->schedule = schedule;
	tcp->leftover = VB_TIME_NEVER;
	vb_list_init(&tcp->streams);
	vb_list_init(&tcp->reports);
	vb_mutex_init(&tcp->report_lock, VB_RANK_STREAM_REPORTS);
	tcp->poller = vb_poller_open();
	tcp->report_fd = vb_event_open();
	if (tcp->poller < 0)
		error = tcp->poller;
	else if (tcp->report_fd < 0)
		error = tcp->report_fd;
	if (error == 0)
		error = vb_tcp_tap_open(&tcp->tap, schedule);
	if (error != 0) {
		close_link(&tcp->link);
		return error;
	}
	*link = &tcp->link;
	return 0;
}
