/* SPDX-License-Identifier: MIT
 *
 * See rss.h.
 */
#include "queue/rss.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "queue/qp.h"
#include "queue/wq.h"
#include "wire/flow_key.h"

static bool is_among(struct vb_wq *const *queues, uint32_t count, const struct vb_wq *wq)
{
	for (uint32_t i = 0; i < count; i++)
		if (queues[i] == wq)
			return true;
	return false;
}

struct vb_rss_table *vb_rss_table_create(struct vb_wq *const *entries, uint32_t size)
{
	struct vb_rss_table *table = calloc(1, sizeof(*table) + 2 * size * sizeof(table->entries[0]));
	struct vb_wq **queues;

	if (!table)
		return NULL;
	table->size = size;
	queues = table->entries + size;
	for (uint32_t i = 0; i < size; i++) {
		table->entries[i] = entries[i];
		if (!is_among(queues, table->queues, entries[i]))
			queues[table->queues++] = entries[i];
		__atomic_fetch_add(&entries[i]->receives.users, 1, __ATOMIC_RELAXED);
	}
	return table;
}

void vb_rss_table_destroy(struct vb_rss_table *table)
{
	for (uint32_t i = 0; i < table->size; i++)
		__atomic_fetch_sub(&table->entries[i]->receives.users, 1, __ATOMIC_RELEASE);
	free(table);
}

int vb_rss_parse(struct vb_rss *rss, const struct ibv_rx_hash_conf *conf, struct vb_rss_table *table)
{
	if (conf->rx_hash_function != IBV_RX_HASH_FUNC_TOEPLITZ || (conf->rx_hash_fields_mask & ~VB_RSS_FIELDS) != 0)
		return -EOPNOTSUPP;
	if (conf->rx_hash_key_len != VB_TOEPLITZ_KEY || !conf->rx_hash_key || (conf->rx_hash_fields_mask == 0 && table->size > 1))
		return -EINVAL;
	*rss = (struct vb_rss){.table = table, .fields = conf->rx_hash_fields_mask};
	memcpy(rss->key, conf->rx_hash_key, sizeof(rss->key));
	return 0;
}

struct input {
	uint8_t bytes[VB_TOEPLITZ_INPUT];
	size_t length;
};

static void add(struct input *input, bool is_chosen, const void *field, size_t length)
{
	if (!is_chosen)
		return;
	memcpy(input->bytes + input->length, field, length);
	input->length += length;
}

static void add_addresses(struct input *input, uint64_t fields, const struct vb_flow_key *frame)
{
	if (frame->ip_version == 4) {
		add(input, fields & IBV_RX_HASH_SRC_IPV4, frame->source_ip, 4);
		add(input, fields & IBV_RX_HASH_DST_IPV4, frame->destination_ip, 4);
	} else if (frame->ip_version == 6) {
		add(input, fields & IBV_RX_HASH_SRC_IPV6, frame->source_ip, 16);
		add(input, fields & IBV_RX_HASH_DST_IPV6, frame->destination_ip, 16);
	}
}

static void add_ports(struct input *input, uint64_t fields, const struct vb_flow_key *frame)
{
	bool is_tcp = frame->protocol == VB_PROTOCOL_TCP;

	if (!frame->has_ports || frame->is_fragment)
		return;
	add(input, fields & (is_tcp ? IBV_RX_HASH_SRC_PORT_TCP : IBV_RX_HASH_SRC_PORT_UDP), &frame->source_port, 2);
	add(input, fields & (is_tcp ? IBV_RX_HASH_DST_PORT_TCP : IBV_RX_HASH_DST_PORT_UDP), &frame->destination_port, 2);
}

uint32_t vb_rss_hash(const struct vb_rss *rss, const struct vb_flow_key *frame)
{
	struct input input = {.length = 0};

	add_addresses(&input, rss->fields, frame);
	add_ports(&input, rss->fields, frame);
	return vb_toeplitz(rss->key, input.bytes, input.length);
}

void vb_rss_choose(struct vb_qp *qp, const struct vb_flow_key *frame)
{
	const struct vb_rss_table *table = qp->rss->table;

	vb_lock_assert_held(&qp->lock);
	qp->srq = &table->entries[vb_rss_hash(qp->rss, frame) & (table->size - 1)]->receives;
	qp->receive_pd = qp->srq->pd;
	qp->recv_cq = qp->srq->cq;
}

uint32_t vb_rss_room(const struct vb_rss *rss)
{
	struct vb_wq *const *queues = rss->table->entries + rss->table->size;
	uint32_t room = 0;

	for (uint32_t i = 0; i < rss->table->queues; i++) {
		struct vb_srq *receives = &queues[i]->receives;
		uint32_t count;

		vb_lock_take(&receives->lock);
		count = vb_receive_queue_count(&receives->queue);
		vb_lock_release(&receives->lock);
		if (count > 0 && (room == 0 || count < room))
			room = count;
	}
	return room;
}
