/* SPDX-License-Identifier: MIT
 *
 * See peers.h. A request from B to A's queue pair X and an answer from A to B's queue pair Y that have the same PSN: X
 * and Y are connected. Every packet to the one was sent by the other.
 */
#include "capture/peers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "capture/story.h"

/* An answer comes soon: so many packets back is what it answers. And so many connections are told apart. */
enum { REACH = 4096, MOST_CONNECTIONS = 1024 };

struct end {
	uint8_t address[16];
	uint32_t qpn;
};

struct connection {
	struct end end[2];
};

struct connections {
	struct connection *list;
	size_t count;
};

static bool is_foreign(const struct vb_story_packet *packet)
{
	return packet->note.pid == 0 && packet->is_decoded && packet->note.qpn == 0;
}

static bool is_at(const struct end *end, const uint8_t address[16], uint32_t qpn)
{
	return end->qpn == qpn && memcmp(end->address, address, 16) == 0;
}

/* The queue pair that sends to this packet's receiver, or 0. */
static uint32_t sender_of(const struct connections *known, const struct vb_story_packet *packet)
{
	for (size_t i = 0; i < known->count; i++)
		for (unsigned to = 0; to < 2; to++)
			if (is_at(&known->list[i].end[to], packet->path.destination, packet->packet.destination_qpn) &&
			    memcmp(known->list[i].end[!to].address, packet->path.source, 16) == 0)
				return known->list[i].end[!to].qpn;
	return 0;
}

static const struct vb_story_packet *find_request(const struct vb_story *story, const struct connections *known,
						  size_t answer)
{
	const struct vb_story_packet *packet = &story->packet[answer];

	for (size_t i = answer; i-- > 0 && answer - i <= REACH;) {
		const struct vb_story_packet *request = &story->packet[i];

		if (is_foreign(request) && request->packet.op->is_request &&
		    request->packet.psn.v == packet->packet.psn.v &&
		    memcmp(request->path.source, packet->path.destination, 16) == 0 &&
		    memcmp(request->path.destination, packet->path.source, 16) == 0 && sender_of(known, request) == 0)
			return request;
	}
	return NULL;
}

static void learn(struct connections *known, const struct vb_story_packet *request,
		  const struct vb_story_packet *answer)
{
	struct connection *connection = &known->list[known->count++];

	memcpy(connection->end[0].address, request->path.destination, 16);
	connection->end[0].qpn = request->packet.destination_qpn;
	memcpy(connection->end[1].address, answer->path.destination, 16);
	connection->end[1].qpn = answer->packet.destination_qpn;
}

int vb_story_find_peers(struct vb_story *story)
{
	struct connections known = {.list = calloc(MOST_CONNECTIONS, sizeof(struct connection))};

	if (!known.list)
		return -ENOMEM;
	for (size_t i = 0; i < story->packets && known.count < MOST_CONNECTIONS; i++) {
		const struct vb_story_packet *packet = &story->packet[i], *request;

		/* A congestion notification answers nothing (A17.9.3): its PSN is 0. Nor do the packets of flow control. */
		if (!is_foreign(packet) || packet->packet.op->is_request || packet->packet.op->kind == VB_KIND_CNP ||
		    packet->packet.op->service == VB_SERVICE_VENDOR ||
		    sender_of(&known, packet) != 0)
			continue;
		request = find_request(story, &known, i);
		if (request)
			learn(&known, request, packet);
	}
	for (size_t i = 0; i < story->packets; i++)
		if (is_foreign(&story->packet[i]))
			story->packet[i].note.qpn = sender_of(&known, &story->packet[i]);
	free(known.list);
	return 0;
}
