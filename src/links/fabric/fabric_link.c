/* SPDX-License-Identifier: MIT
 *
 * Opening and closing the link of InfiniBand. See fabric_link.h.
 */
#include "links/fabric/fabric_link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "io/daemon_client.h"
#include "io/datagram_batch.h"
#include "io/descriptor.h"
#include "links/fabric/tap.h"
#include "profiles/profile.h"
#include "queue/qp.h"
#include "roce/roce.h"

static void close_descriptors(struct vb_fabric_link *fabric)
{
	if (fabric->fd >= 0)
		vb_descriptor_close(fabric->fd);
	if (fabric->udp >= 0)
		vb_descriptor_close(fabric->udp);
	if (fabric->memory.line >= 0)
		vb_descriptor_close(fabric->memory.line);
}

static void close_link(struct vb_link *link)
{
	struct vb_fabric_link *fabric = vb_fabric_link_of(link);

	/* First: what faults have held back leaves by the descriptors and the page. */
	vb_fabric_tap_close(fabric->tap);
	close_descriptors(fabric);
	vb_fabric_memory_fini(&fabric->memory);
	vb_page_unmap(fabric->page, VB_FRAME_PAGE);
	vb_datagram_batch_destroy(fabric->batch);
	vb_burst_pool_fini(&fabric->bursts);
	vb_mutex_fini(&fabric->opening);
	free(fabric->group);
	free(fabric);
}

static void abandon(struct vb_link *link)
{
	struct vb_fabric_link *fabric = vb_fabric_link_of(link);

	vb_fabric_tap_abandon(fabric->tap);
	close_descriptors(fabric);
}

/* As daemon/frame_ports.h numbers them. */
enum { SOCKET, UDP, PAGE, DESCRIPTORS };

static bool take_descriptors(void *context, const struct vb_daemon_message *message, const int *fds, unsigned count)
{
	int *fd = context;

	for (unsigned i = 0; message->header.type == VB_DAEMON_FRAME_PORT && i < count && i < DESCRIPTORS; i++)
		fd[i] = vb_descriptor_duplicate(fds[i]);
	return true;
}

/* Those of a former verbenad keep their numbers and places: other threads use them. */
static void replace_descriptor(int *own, int by)
{
	if (*own < 0)
		__atomic_store_n(own, by, __ATOMIC_RELEASE);
	else
		vb_descriptor_replace(*own, by);
}

/* The way past verbenad. Without both of them there is none: no generation is known then. */
static void adopt_direct(struct vb_fabric_link *fabric, int udp, int page)
{
	void *memory = udp >= 0 && page >= 0 ? vb_page_map(page, VB_FRAME_PAGE, true) : NULL;

	__atomic_store_n(&fabric->known_generation, 0, __ATOMIC_RELAXED);
	if (memory && fabric->page && vb_page_replace(fabric->page, memory, VB_FRAME_PAGE) != 0) {
		vb_page_unmap(memory, VB_FRAME_PAGE);
		memory = NULL;
	} else if (memory && !fabric->page) {
		__atomic_store_n(&fabric->page, memory, __ATOMIC_RELEASE);
	}
	if (memory)
		replace_descriptor(&fabric->udp, udp);
	else if (udp >= 0)
		vb_descriptor_close(udp);
	if (page >= 0)
		vb_descriptor_close(page);
}

/* On a connection of its own: that of the process is the engine thread's. Caller holds fabric->opening. */
static void open_port(struct vb_fabric_link *fabric)
{
	struct vb_daemon_client daemon;
	struct vb_daemon_message request;
	int fd[DESCRIPTORS] = {-1, -1, -1}, error = vb_daemon_client_connect(&daemon, false);

	if (error == 0) {
		vb_daemon_message_begin(&request, VB_DAEMON_OPEN_FRAME_PORT, 0);
		request.frame_port.slot = fabric->schedule->slot;
		error = vb_daemon_client_request(&daemon, &request, NULL, 0, take_descriptors, fd);
		vb_daemon_client_close(&daemon);
	}
	if (error != 0 || fd[SOCKET] < 0) {
		vb_log(VB_LOG_WARN, "no packets of InfiniBand queue pairs can be sent: %s", strerror(error != 0 ? -error : EPROTO));
		for (unsigned i = 0; i < DESCRIPTORS; i++)
			if (fd[i] >= 0)
				vb_descriptor_close(fd[i]);
		return;
	}
	adopt_direct(fabric, fd[UDP], fd[PAGE]);
	replace_descriptor(&fabric->fd, fd[SOCKET]);
	__atomic_store_n(&fabric->is_closed, false, __ATOMIC_RELEASE);
	vb_schedule_kick(fabric->schedule);
}

/* Another verbenad: what the former gave us leads nowhere. */
static int introduce(struct vb_link *link, struct vb_daemon_client *daemon, vb_daemon_take *news, void *context)
{
	struct vb_fabric_link *fabric = vb_fabric_link_of(link);

	(void)daemon;
	(void)news;
	(void)context;
	vb_mutex_lock(&fabric->opening);
	if (fabric->fd >= 0)
		open_port(fabric);
	vb_mutex_unlock(&fabric->opening);
	return 0;
}

static void publish(struct vb_link *link, const struct vb_qp *qp)
{
	struct vb_fabric_link *fabric = vb_fabric_link_of(link);

	if (qp->host->profile->addressing != VB_ADDRESS_LID || vb_fabric_link_fd(fabric) >= 0)
		return;
	vb_mutex_lock(&fabric->opening);
	if (vb_fabric_link_fd(fabric) < 0)
		open_port(fabric);
	vb_mutex_unlock(&fabric->opening);
}

static void withdraw(struct vb_link *link, struct vb_qp *qp)
{
	vb_fabric_link_forget_qp(vb_fabric_link_of(link), qp);
}

static unsigned descriptors(const struct vb_link *link, int fd[VB_LINK_DESCRIPTORS])
{
	const struct vb_fabric_link *fabric = (const struct vb_fabric_link *)link;
	unsigned count = 0;

	fd[count] = vb_fabric_link_fd(fabric);
	count += fd[count] >= 0;
	fd[count] = vb_fabric_link_udp(fabric);
	count += fd[count] >= 0;
	fd[count] = vb_fabric_link_udp(fabric) < 0 ? -1 : __atomic_load_n(&fabric->memory.line, __ATOMIC_RELAXED);
	count += fd[count] >= 0;
	return count;
}

static const struct vb_link_driver driver = {
	.name = "fabric",
	.engine = &vb_roce_transport,
	.close = close_link,
	.abandon = abandon,
	.introduce = introduce,
	.publish = publish,
	.withdraw = withdraw,
	.transmit = vb_fabric_link_transmit,
	.transmit_in_pass = vb_fabric_link_transmit_in_pass,
	.posted = vb_fabric_link_transmit,
	.hurry = vb_roce_hurry,
	.drain = vb_fabric_link_drain,
	.expire = vb_fabric_link_expire,
	.descriptors = descriptors,
	.has_work = vb_fabric_memory_has_work,
	.spun = vb_fabric_memory_spun,
	.watched = vb_fabric_memory_watched,
	.rise = vb_fabric_memory_rise,
	.rest = vb_fabric_memory_rest,
	.join = vb_fabric_link_join_group,
	.leave = vb_fabric_link_leave_group,
};

int vb_fabric_link_open(struct vb_link **link, struct vb_schedule *schedule)
{
	struct vb_fabric_link *fabric = calloc(1, sizeof(*fabric));
	int error;

	if (!fabric)
		return -ENOMEM;
	error = vb_fabric_tap_open(&fabric->tap, fabric, schedule->slot);
	if (error != 0) {
		free(fabric);
		return error;
	}
	fabric->link = (struct vb_link){.driver = &driver, .schedule = schedule};
	fabric->schedule = schedule;
	fabric->fd = fabric->udp = -1;
	vb_mutex_init(&fabric->opening, VB_RANK_FRAME_PORT);
	vb_fabric_memory_init(&fabric->memory);
	*link = &fabric->link;
	return 0;
}
