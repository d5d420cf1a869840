/* SPDX-License-Identifier: MIT
 *
 * The ring behind a send queue. A slot's size follows from what was asked for: its list and its inline bytes share one
 * place, so a queue with one element and no inline data costs about a hundred bytes a slot.
 */
#include "queue/send_queue.h"

#include <errno.h>
#include <string.h>

int vb_send_queue_init(struct vb_send_queue *queue, uint32_t max_wr, uint32_t max_sge, uint32_t max_inline, uint32_t note_size,
		       const struct vb_allocator *allocator)
{
	uint32_t area = max_sge * (uint32_t)sizeof(struct ibv_sge), slots = 1;

	if (area < max_inline)
		area = (max_inline + 7) & ~7u;
	memset(queue, 0, sizeof(*queue));
	queue->stride = note_size + (uint32_t)sizeof(struct vb_send_wqe) + area;
	queue->note_size = note_size;
	queue->max_sge = max_sge;
	queue->max_inline = area;
	if (max_wr == 0)
		return 0;
	while (slots < max_wr)
		slots *= 2;
	if (!vb_allocate(&queue->memory, allocator, VB_ALLOCATED_SEND_QUEUE, slots, queue->stride))
		return -ENOMEM;
	queue->slots = (uint8_t *)queue->memory.bytes + note_size;
	queue->mask = slots - 1;
	queue->max_wr = max_wr;
	return 0;
}

void vb_send_queue_fini(struct vb_send_queue *queue)
{
	vb_release(&queue->memory);
	queue->slots = NULL;
}

struct vb_send_wqe *vb_send_queue_reserve(struct vb_send_queue *queue)
{
	struct vb_send_wqe *wqe;

	if (vb_send_queue_is_full(queue))
		return NULL;
	wqe = vb_send_queue_at(queue, queue->reserved++);
	memset(wqe, 0, sizeof(*wqe));
	return wqe;
}

struct vb_send_wqe *vb_send_list_add(struct vb_send_list *list, const struct vb_send_queue *queue)
{
	uint32_t index = list->first + list->count;
	struct vb_send_wqe *wqe;

	/* Acquire: what the engines read of the slot they have read (vb_send_queue_release). */
	if (index - __atomic_load_n(&queue->released, __ATOMIC_ACQUIRE) >= queue->max_wr)
		return NULL;
	list->count++;
	wqe = vb_send_queue_at(queue, index);
	memset(wqe, 0, sizeof(*wqe));
	return wqe;
}
