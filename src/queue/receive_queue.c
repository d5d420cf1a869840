/* SPDX-License-Identifier: MIT
 *
 * Receives in a ring of slots whose size follows from the scatter elements asked for: most queues have one.
 */
#include "queue/receive_queue.h"

#include <errno.h>
#include <string.h>

static uint32_t slots_for(uint32_t max_wr)
{
	uint32_t slots = 1;

	while (slots < max_wr)
		slots *= 2;
	return slots;
}

int vb_receive_queue_init(struct vb_receive_queue *queue, uint32_t max_wr, uint32_t max_sge, const struct vb_allocator *allocator,
			  enum vb_allocated what)
{
	memset(queue, 0, sizeof(*queue));
	queue->memory = (struct vb_allocation){.allocator = allocator, .what = what};
	queue->stride = (uint32_t)(sizeof(struct vb_receive_wqe) + max_sge * sizeof(struct ibv_sge));
	queue->max_sge = max_sge;
	if (max_wr == 0)
		return 0;
	if (!vb_allocate(&queue->memory, allocator, what, slots_for(max_wr), queue->stride))
		return -ENOMEM;
	queue->slots = queue->memory.bytes;
	queue->mask = slots_for(max_wr) - 1;
	queue->max_wr = max_wr;
	return 0;
}

void vb_receive_queue_fini(struct vb_receive_queue *queue)
{
	vb_release(&queue->memory);
	queue->slots = NULL;
}

int vb_receive_queue_post(struct vb_receive_queue *queue, const struct ibv_recv_wr *wr)
{
	struct vb_receive_wqe *wqe;

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > queue->max_sge)
		return -EINVAL;
	if (vb_receive_queue_count(queue) >= queue->max_wr)
		return -ENOMEM;
	wqe = vb_receive_queue_at(queue, queue->head);
	wqe->wr_id = wr->wr_id;
	wqe->length = 0;
	wqe->sge_count = (uint32_t)wr->num_sge;
	for (uint32_t i = 0; i < wqe->sge_count; i++) {
		wqe->list[i] = wr->sg_list[i];
		wqe->length += wr->sg_list[i].length;
	}
	queue->head++;
	return 0;
}

bool vb_receive_queue_take(struct vb_receive_queue *queue, struct vb_taken_receive *taken)
{
	const struct vb_receive_wqe *wqe;

	if (vb_receive_queue_count(queue) == 0)
		return false;
	wqe = vb_receive_queue_at(queue, queue->tail);
	taken->wr_id = wqe->wr_id;
	taken->length = wqe->length;
	taken->sge_count = wqe->sge_count;
	if (wqe->sge_count > 0)
		memcpy(taken->list, wqe->list, wqe->sge_count * sizeof(wqe->list[0]));
	queue->tail++;
	return true;
}

int vb_receive_queue_resize(struct vb_receive_queue *queue, uint32_t max_wr)
{
	struct vb_receive_queue wider;
	uint32_t count = vb_receive_queue_count(queue);

	if (max_wr < 1 || max_wr < count)
		return -EINVAL;
	if (vb_receive_queue_init(&wider, max_wr, queue->max_sge, queue->memory.allocator, queue->memory.what) != 0)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		memcpy(vb_receive_queue_at(&wider, i), vb_receive_queue_at(queue, queue->tail + i), queue->stride);
	wider.head = count;
	vb_release(&queue->memory);
	*queue = wider;
	return 0;
}
