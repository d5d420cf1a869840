/* SPDX-License-Identifier: MIT
 *
 * A packet on its way through the simulated network: the whole datagram, or its headers alone where nobody looks at payload.
 * Those of the second kind are many and come from a pool.
 */
#ifndef VB_SIM_PACKET_H
#define VB_SIM_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/time.h"
#include "wire/path.h"

struct sim_host;
struct sim_port;

enum {
	SIM_PACKET_HEADERS = 48,         /* room for those of any packet */
	SIM_CACHE_LINE = 64,
};
#define SIM_NOWHERE UINT32_MAX

struct sim_packet {
	/* What each switch looks at: one cache line. */
	struct sim_packet *next;
	struct sim_port *ingress;        /* where it entered the switch that it stands in */
	vb_time next_arrives;            /* the one behind it on the line, if there is one */
	uint32_t to_index;               /* of its host; SIM_NOWHERE */
	uint32_t flow[3];                /* what equal ways are chosen by */
	uint32_t length;                 /* of the datagram: what it says it is */
	uint32_t size;                   /* on a line, with all that Ethernet adds */
	uint8_t priority;
	uint8_t hops;                    /* it may still take */
	bool is_pause;                   /* a PFC frame: `pause` of `priority` */
	bool pause;
	bool headers_only;

	struct sim_host *to;             /* of the network without switches; NULL: no such host */
	struct vb_path path;
	uint32_t stored;                 /* of its bytes */
	uint16_t ip_id;
	uint8_t bytes[];
};

/* Packets that were let go of, to be used again. */
struct sim_pool {
	struct sim_packet *free;
	uint64_t made;
};

/* A whole datagram of exactly that size, so that AddressSanitizer sees who reads beyond it. */
struct sim_packet *sim_packet_new(size_t length);
struct sim_packet *sim_packet_new_headers(struct sim_pool *pool);
void sim_packet_free(struct sim_pool *pool, struct sim_packet *packet);
void sim_pool_empty(struct sim_pool *pool);

/* First in, first out. */
struct sim_queue {
	struct sim_packet *first, **last;
};

static inline void sim_queue_init(struct sim_queue *queue)
{
	queue->first = NULL;
	queue->last = &queue->first;
}

static inline void sim_queue_add(struct sim_queue *queue, struct sim_packet *packet)
{
	packet->next = NULL;
	*queue->last = packet;
	queue->last = &packet->next;
}

/* There is one. */
static inline struct sim_packet *sim_queue_last(const struct sim_queue *queue)
{
	return (struct sim_packet *)(void *)((char *)queue->last - offsetof(struct sim_packet, next));
}

/* There is one. */
static inline struct sim_packet *sim_queue_take(struct sim_queue *queue)
{
	struct sim_packet *packet = queue->first;

	queue->first = packet->next;
	if (!queue->first)
		queue->last = &queue->first;
	return packet;
}

#endif
