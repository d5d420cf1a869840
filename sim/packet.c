/* SPDX-License-Identifier: MIT
 *
 * The pool of packets: see packet.h.
 */
#include "sim/packet.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "wire/roce_packet.h"

enum {
	POOLED = (sizeof(struct sim_packet) + SIM_PACKET_HEADERS + SIM_CACHE_LINE - 1) / SIM_CACHE_LINE * SIM_CACHE_LINE,
};

_Static_assert(offsetof(struct sim_packet, to) <= SIM_CACHE_LINE, "one cache line");
_Static_assert((int)SIM_PACKET_HEADERS >= (int)VB_ROCE_MAX_HEADER, "room for headers");

struct sim_packet *sim_packet_new(size_t length)
{
	struct sim_packet *packet = malloc(sizeof(*packet) + length);

	assert(packet);
	memset(packet, 0, sizeof(*packet));
	packet->length = packet->stored = (uint32_t)length;
	return packet;
}

struct sim_packet *sim_packet_new_headers(struct sim_pool *pool)
{
	struct sim_packet *packet = pool->free;

	if (packet) {
		pool->free = packet->next;
	} else {
		packet = aligned_alloc(SIM_CACHE_LINE, POOLED);
		assert(packet);
		pool->made++;
	}
	memset(packet, 0, sizeof(*packet));
	packet->headers_only = true;
	return packet;
}

void sim_packet_free(struct sim_pool *pool, struct sim_packet *packet)
{
	if (!packet->headers_only) {
		free(packet);
		return;
	}
	packet->next = pool->free;
	pool->free = packet;
}

void sim_pool_empty(struct sim_pool *pool)
{
	while (pool->free) {
		struct sim_packet *packet = pool->free;

		pool->free = packet->next;
		free(packet);
	}
}
