/* SPDX-License-Identifier: MIT
 *
 * What a stream is made of: a queue pair whose both queues complete into one CQ, three registered pieces of memory, and receives.
 * Receives carry no buffer: they only catch the immediate data.
 */
#include <errno.h>
#include <fcntl.h>
#include <rdma/rdma_verbs.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rdmacm/device.h"
#include "rdmacm/id.h"
#include "rdmacm/rsocket/limits.h"
#include "rdmacm/rsocket/rsocket.h"

static uint32_t within(uint32_t value, uint32_t least, uint32_t most)
{
	return value < least ? least : value > most ? most : value;
}

static int create_queue_pair(struct vb_rsocket *rs)
{
	struct rdma_cm_id *id = rs->id;
	struct ibv_qp_init_attr attr = {.qp_context = rs, .qp_type = IBV_QPT_RC, .sq_sig_all = 1};
	uint32_t most = vb_rdmacm_id_of(id)->device->max_qp_wr;

	if (most > VB_RSOCKET_LARGEST_QUEUE)
		most = VB_RSOCKET_LARGEST_QUEUE;
	rs->send_queue = within(rs->send_queue, VB_RSOCKET_SMALLEST_QUEUE, most);
	rs->receive_queue = within(rs->receive_queue, VB_RSOCKET_SMALLEST_QUEUE, most);

	id->recv_cq_channel = id->send_cq_channel = ibv_create_comp_channel(id->verbs);
	if (id->recv_cq_channel == NULL)
		return -errno;
	if (fcntl(id->recv_cq_channel->fd, F_SETFL, O_NONBLOCK) != 0)
		return -errno;
	id->recv_cq = id->send_cq = ibv_create_cq(id->verbs, (int)(rs->send_queue + rs->receive_queue), rs, id->recv_cq_channel, 0);
	if (id->recv_cq == NULL)
		return -errno;
	attr.send_cq = attr.recv_cq = id->recv_cq;
	attr.cap.max_send_wr = rs->send_queue;
	attr.cap.max_recv_wr = rs->receive_queue;
	attr.cap.max_send_sge = 2;
	attr.cap.max_recv_sge = 1;
	/* Table entries are always written inline. */
	attr.cap.max_inline_data = rs->inline_size > sizeof(struct vb_rsocket_iomap) ? rs->inline_size :
											  sizeof(struct vb_rsocket_iomap);
	if (rdma_create_qp(id, NULL, &attr) != 0)
		return -errno;
	rs->inline_size = attr.cap.max_inline_data;
	return 0;
}

static int create_memory(struct vb_rsocket *rs, uint8_t **memory, struct ibv_mr **mr, size_t length, int access)
{
	void *found = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (found == MAP_FAILED)
		return -errno;
	*memory = found;
	*mr = ibv_reg_mr(rs->id->pd, found, length, access);
	if (*mr == NULL) {
		int error = -errno;

		munmap(found, length);
		*memory = NULL;
		return error;
	}
	return 0;
}

static void destroy_memory(uint8_t **memory, struct ibv_mr **mr)
{
	size_t length;

	if (*mr == NULL)
		return;
	length = (*mr)->length;
	ibv_dereg_mr(*mr);
	munmap(*memory, length);
	*memory = NULL;
	*mr = NULL;
}

static size_t targets_length(const struct vb_rsocket *rs)
{
	return sizeof(struct vb_rsocket_span) * VB_RSOCKET_TARGETS + sizeof(struct vb_rsocket_iomap) * rs->iomap_size;
}

static int create_buffers(struct vb_rsocket *rs)
{
	int error;

	rs->messages = calloc(rs->receive_queue + 1, sizeof(*rs->messages));
	if (rs->messages == NULL)
		return -ENOMEM;
	error = create_memory(rs, &rs->send_buffer, &rs->send_mr, rs->send_size, IBV_ACCESS_LOCAL_WRITE);
	if (error == 0)
		error = create_memory(rs, &rs->target_memory, &rs->target_mr, targets_length(rs),
				      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (error == 0)
		error = create_memory(rs, &rs->receive_buffer, &rs->receive_mr, rs->receive_size,
				      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (error != 0)
		return error;
	rs->targets = (volatile struct vb_rsocket_span *)(void *)rs->target_memory;
	rs->iomap = (volatile struct vb_rsocket_iomap *)(void *)(rs->target_memory +
								 sizeof(struct vb_rsocket_span) * VB_RSOCKET_TARGETS);
	rs->send_free = rs->send_size;
	rs->control_slots = VB_RSOCKET_CONTROL_SLOTS;
	rs->send_slots = rs->send_queue - VB_RSOCKET_CONTROL_SLOTS;
	/* The greeting offers the first half; the second is offered as soon as we are connected. */
	rs->next_offer = rs->receive_size / 2;
	rs->returned = rs->receive_size / 2;
	rs->credit_at = (uint16_t)(rs->receive_queue / 2);
	return 0;
}

int vb_rsocket_resources_create(struct vb_rsocket *rs)
{
	struct ibv_recv_wr wr = {.wr_id = VB_RSOCKET_RECEIVED}, *bad;
	int error;

	error = create_queue_pair(rs);
	if (error == 0)
		error = create_buffers(rs);
	for (uint32_t i = 0; error == 0 && i < rs->receive_queue; i++)
		error = -ibv_post_recv(rs->id->qp, &wr, &bad);
	return error;
}

void vb_rsocket_resources_destroy(struct vb_rsocket *rs)
{
	if (rs->id != NULL && rs->id->recv_cq != NULL && rs->cq_events != 0)
		ibv_ack_cq_events(rs->id->recv_cq, rs->cq_events);
	rs->cq_events = 0;
	if (rs->id != NULL)
		rdma_destroy_qp(rs->id);
	vb_rsocket_drop_mappings(rs);
	destroy_memory(&rs->send_buffer, &rs->send_mr);
	destroy_memory(&rs->target_memory, &rs->target_mr);
	destroy_memory(&rs->receive_buffer, &rs->receive_mr);
	free(rs->messages);
	rs->messages = NULL;
}
