/* SPDX-License-Identifier: MIT
 *
 * A direction is one way of one connection: the segments between two addresses and ports, in the order of the story. Ports may be used
 * again, so another SYN begins another connection. Who sends and who receives write it down each for itself, and cut the bytes as it
 * suits them: what was sent and what was received are compared by their places in the stream (position), not one by one.
 *
 *   position    0     1 ...                    the first byte of the stream has 1
 *               SYN   MPA frame | FPDU | ...   FIN
 */
#include "capture/streams.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "capture/frame.h"
#include "capture/story.h"
#include "wire/fpdu.h"
#include "wire/mpa_frame.h"

enum { KEY = 16 };

struct place {
	struct vb_story_packet *packet;
	uint32_t connection;               /* of those with these addresses and ports */
	uint32_t position;                 /* of its first byte in the stream */
};

struct direction {
	struct place *at;
	size_t count;
	struct direction *other;           /* the way back; NULL: not captured */
	uint32_t first;                    /* sequence number of position 0 */
	/* resolve: the bytes in order, as far as there is no hole. */
	uint8_t *bytes;
	size_t length;
};

struct directions {
	struct place *place;
	size_t places;
	struct direction *list;
	size_t count;
};

/* ---- which segments belong together ---- */

static int compare_ends(const struct vb_story_packet *p, const struct vb_story_packet *q)
{
	int order = memcmp(p->path.source, q->path.source, sizeof(p->path.source));

	if (order == 0)
		order = memcmp(p->path.destination, q->path.destination, sizeof(p->path.destination));
	if (order == 0)
		order = (int)p->path.source_port - q->path.source_port;
	return order != 0 ? order : (int)p->tcp.destination_port - q->tcp.destination_port;
}

static int compare_places(const void *a, const void *b)
{
	const struct place *p = a, *q = b;
	int order = compare_ends(p->packet, q->packet);

	if (order == 0 && p->connection != q->connection)
		order = p->connection < q->connection ? -1 : 1;
	return order != 0 ? order : p->packet < q->packet ? -1 : p->packet > q->packet;
}

/* Those of the sender and those of the receiver are counted apart: the one's SYN may be later than the other's first bytes. */
static void number_connections(struct directions *all)
{
	uint32_t number[2] = {0, 0};
	bool data[2] = {false, false};

	for (size_t i = 0; i < all->places; i++) {
		struct vb_story_packet *packet = all->place[i].packet;
		bool received = !(packet->note.flags & VB_CAPTURE_SENT);

		if (i > 0 && compare_ends(all->place[i - 1].packet, packet) != 0)
			number[0] = number[1] = data[0] = data[1] = 0;
		if ((packet->tcp.flags & VB_FRAME_TCP_SYN) && data[received]) {
			number[received]++;
			data[received] = false;
		}
		data[received] |= packet->length > 0;
		all->place[i].connection = number[received];
	}
}

static struct direction *find_other(const struct directions *all, const struct direction *direction)
{
	struct vb_story_packet back = *direction->at->packet;
	struct direction *low = all->list, *high = all->list + all->count;

	memcpy(back.path.source, direction->at->packet->path.destination, sizeof(back.path.source));
	memcpy(back.path.destination, direction->at->packet->path.source, sizeof(back.path.source));
	back.path.source_port = direction->at->packet->tcp.destination_port;
	back.tcp.destination_port = direction->at->packet->path.source_port;
	while (low < high) {
		struct direction *middle = low + (high - low) / 2;
		int order = compare_ends(middle->at->packet, &back);

		if (order == 0 && middle->at->connection != direction->at->connection)
			order = middle->at->connection < direction->at->connection ? -1 : 1;
		if (order == 0)
			return middle;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

static uint32_t sequence_of_first(const struct direction *direction)
{
	const struct vb_story_packet *data = NULL;

	for (size_t i = 0; i < direction->count; i++) {
		const struct vb_story_packet *packet = direction->at[i].packet;

		if (packet->tcp.flags & VB_FRAME_TCP_SYN)
			return packet->tcp.sequence;
		if (!data && packet->length > 0)
			data = packet;
	}
	return (data ? data : direction->at->packet)->tcp.sequence - 1;
}

static void forget_directions(struct directions *all)
{
	free(all->place);
	free(all->list);
}

static int find_directions(struct directions *all, const struct vb_story *story)
{
	memset(all, 0, sizeof(*all));
	all->place = calloc(story->segments + 1, sizeof(*all->place));
	all->list = calloc(story->segments + 1, sizeof(*all->list));
	if (!all->place || !all->list) {
		forget_directions(all);
		return -ENOMEM;
	}
	for (size_t i = 0; i < story->packets; i++)
		if (story->packet[i].kind == VB_STORY_SEGMENT)
			all->place[all->places++].packet = &story->packet[i];
	qsort(all->place, all->places, sizeof(*all->place), compare_places);
	number_connections(all);
	qsort(all->place, all->places, sizeof(*all->place), compare_places);
	for (size_t i = 0; i < all->places; i++) {
		const struct place *before = i > 0 ? &all->place[i - 1] : NULL;

		if (!before || before->connection != all->place[i].connection || compare_ends(before->packet, all->place[i].packet) != 0)
			all->list[all->count++].at = &all->place[i];
		all->list[all->count - 1].count++;
	}
	for (size_t i = 0; i < all->count; i++) {
		all->list[i].first = sequence_of_first(&all->list[i]);
		all->list[i].other = find_other(all, &all->list[i]);
	}
	return 0;
}

/* ---- two halves ---- */

static uint32_t begin_of(const struct direction *direction, const struct vb_story_packet *packet)
{
	return packet->tcp.sequence - direction->first;
}

static uint32_t end_of(const struct direction *direction, const struct vb_story_packet *packet)
{
	return begin_of(direction, packet) + (uint32_t)packet->length + !!(packet->tcp.flags & VB_FRAME_TCP_SYN) +
	       !!(packet->tcp.flags & VB_FRAME_TCP_FIN);
}

static bool is_sent(const struct vb_story_packet *packet)
{
	return packet->note.flags & VB_CAPTURE_SENT;
}

static bool has_arrived_with(const struct direction *direction, const struct vb_story_packet *sent, const struct vb_story_packet *received)
{
	if (sent->tcp.flags & VB_FRAME_TCP_RST)
		return received->tcp.flags & VB_FRAME_TCP_RST;
	return end_of(direction, received) >= end_of(direction, sent) && received->note.received >= sent->note.time;
}

/* Who is connected to learns of it late: the kernel has answered before. The one who connects knows when. */
static void find_answer(const struct direction *direction)
{
	struct vb_story_packet *sent = NULL;
	const struct vb_story_packet *received = NULL;

	for (size_t i = 0; i < direction->count; i++) {
		struct vb_story_packet *packet = direction->at[i].packet;

		if (!(packet->tcp.flags & VB_FRAME_TCP_SYN))
			continue;
		if (is_sent(packet))
			sent = packet;
		else
			received = packet;
	}
	if (sent && received && received->note.received < sent->note.time) {
		sent->note.time = received->note.received;
		sent->order = received->order;
	}
}

/* What has come is in order: each segment looks on where the one before it was found. */
static void find_arrivals(const struct direction *direction)
{
	size_t next = 0;

	for (size_t i = 0; i < direction->count; i++) {
		struct vb_story_packet *sent = direction->at[i].packet;
		const struct vb_capture_record *note;

		if (!is_sent(sent) || (sent->note.flags & VB_CAPTURE_RECEIVED))
			continue;
		while (next < direction->count && (is_sent(direction->at[next].packet) ||
						   !has_arrived_with(direction, sent, direction->at[next].packet)))
			next++;
		if (next == direction->count)
			return;
		note = &direction->at[next].packet->note;
		sent->note.flags |= note->flags;
		sent->note.received = note->received;
		sent->note.receiver = note->receiver;
		sent->note.receiver_host = note->receiver_host;
	}
}

/* Received segments all of which was sent are told by those. */
static void drop_received(const struct direction *direction)
{
	uint32_t sent = 0;
	bool reset = false;

	for (size_t i = 0; i < direction->count; i++) {
		const struct vb_story_packet *packet = direction->at[i].packet;

		if (!is_sent(packet))
			continue;
		sent = end_of(direction, packet) > sent ? end_of(direction, packet) : sent;
		reset |= packet->tcp.flags & VB_FRAME_TCP_RST;
	}
	for (size_t i = 0; i < direction->count; i++) {
		struct vb_story_packet *packet = direction->at[i].packet;

		if (!is_sent(packet) && end_of(direction, packet) <= sent && (reset || !(packet->tcp.flags & VB_FRAME_TCP_RST)))
			packet->frame = NULL; /* gone */
	}
}

/* Who has said it knows the number of its own queue pair: the sender of this direction, the receiver of the other. */
static void learn(const struct direction *direction, uint32_t *sender, uint32_t *receiver)
{
	for (size_t i = 0; i < direction->count; i++) {
		const struct vb_capture_record *note = &direction->at[i].packet->note;

		if (*sender == 0)
			*sender = note->qpn;
		if (*receiver == 0)
			*receiver = note->peer_qpn;
	}
}

static void name_queue_pairs(const struct direction *direction)
{
	uint32_t sender = 0, receiver = 0;

	learn(direction, &sender, &receiver);
	if (direction->other)
		learn(direction->other, &receiver, &sender);
	for (size_t i = 0; i < direction->count; i++) {
		direction->at[i].packet->note.qpn = sender;
		direction->at[i].packet->note.peer_qpn = receiver;
	}
}

static bool begins_as_mpa(const struct direction *direction)
{
	for (size_t i = 0; i < direction->count; i++) {
		const struct vb_story_packet *packet = direction->at[i].packet;

		if (packet->length > 0 && begin_of(direction, packet) == 1)
			return packet->length >= KEY && (memcmp(packet->datagram, "MPA ID Req Frame", KEY) == 0 ||
							 memcmp(packet->datagram, "MPA ID Rep Frame", KEY) == 0);
	}
	return false;
}

static void leave_out(struct vb_story *story, const struct direction *direction)
{
	for (size_t i = 0; i < direction->count; i++)
		direction->at[i].packet->frame = NULL;
	story->foreign += direction->count;
}

int vb_streams_join(struct vb_story *story)
{
	struct directions all;
	size_t kept = 0;
	int error = find_directions(&all, story);

	if (error != 0)
		return error;
	for (size_t i = 0; i < all.count; i++) {
		const struct direction *direction = &all.list[i];

		if (!begins_as_mpa(direction) && !(direction->other && begins_as_mpa(direction->other))) {
			leave_out(story, direction);
			continue;
		}
		name_queue_pairs(direction);
		find_answer(direction);
		find_arrivals(direction);
		drop_received(direction);
	}
	forget_directions(&all);
	story->segments = 0;
	for (size_t i = 0; i < story->packets; i++) {
		if (!story->packet[i].frame)
			continue;
		story->segments += story->packet[i].kind == VB_STORY_SEGMENT;
		story->packet[kept++] = story->packet[i];
	}
	story->packets = kept;
	return 0;
}

/* ---- what they say ---- */

/* What is being made of a direction. */
struct resolving {
	struct vb_story *story;
	const struct direction *direction;
	size_t piece;                      /* the segment that has the next byte */
	bool crc;                          /* it is in use */
};

static int compare_positions(const void *a, const void *b)
{
	const struct place *p = a, *q = b;

	if (p->position != q->position)
		return p->position < q->position ? -1 : 1;
	return p->packet < q->packet ? -1 : p->packet > q->packet;
}

/* In order of their positions, up to the first hole. Returns the end of what was written. */
static uint8_t *assemble(struct direction *direction, uint8_t *to)
{
	uint32_t next = 1;

	for (size_t i = 0; i < direction->count; i++)
		direction->at[i].position = begin_of(direction, direction->at[i].packet);
	qsort(direction->at, direction->count, sizeof(*direction->at), compare_positions);
	direction->bytes = to;
	for (size_t i = 0; i < direction->count; i++) {
		const struct vb_story_packet *packet = direction->at[i].packet;
		uint32_t begin = begin_of(direction, packet), end = begin + (uint32_t)packet->length;

		/* Before the stream (a probe), there already, or nothing. */
		if (packet->length == 0 || begin > INT32_MAX || end <= next)
			continue;
		if (begin > next)
			break;
		memcpy(to, packet->datagram + (next - begin), end - next);
		to += end - next;
		next = end;
	}
	direction->length = (size_t)(to - direction->bytes);
	return to;
}

static struct vb_story_packet *add(struct vb_story *story, const struct vb_story_packet *like, enum vb_story_kind kind)
{
	struct vb_story_packet *added;

	if ((story->packets & (story->packets - 1)) == 0) {
		void *grown = realloc(story->packet, (story->packets ? story->packets * 2 : 1) * sizeof(*story->packet));

		if (!grown)
			return NULL;
		story->packet = grown;
	}
	added = &story->packet[story->packets];
	*added = *like;
	added->kind = kind;
	added->order = story->packets++;
	return added;
}

/* The segment with the byte at that place of the stream, behind the one that was found last. */
static struct vb_story_packet *segment_at(struct resolving *resolving, size_t offset)
{
	const struct direction *direction = resolving->direction;
	uint32_t position = (uint32_t)offset + 1;

	while (resolving->piece + 1 < direction->count) {
		const struct vb_story_packet *packet = direction->at[resolving->piece].packet;
		uint32_t begin = begin_of(direction, packet);

		if (begin <= position && position - begin < packet->length)
			break;
		resolving->piece++;
	}
	return direction->at[resolving->piece].packet;
}

/* It is sent with its first byte and received with its last. */
static int add_message(struct resolving *resolving, enum vb_story_kind kind, size_t offset, size_t length)
{
	const struct vb_story_packet *first = segment_at(resolving, offset), *last = segment_at(resolving, offset + length - 1);
	struct vb_story_packet *added = add(resolving->story, first, kind);
	struct vb_capture_record *note;

	if (!added)
		return -ENOMEM;
	added->datagram = resolving->direction->bytes + offset;
	added->length = length;
	note = &added->note;
	note->flags &= ~(uint32_t)VB_CAPTURE_RECEIVED;
	note->flags |= last->note.flags & (VB_CAPTURE_RECEIVED | VB_CAPTURE_CORRUPTED);
	note->received = last->note.received;
	note->receiver = last->note.receiver;
	note->receiver_host = last->note.receiver_host;
	if (kind == VB_STORY_FPDU && resolving->crc &&
	    vb_crc32c(0, added->datagram, length - VB_FPDU_CRC_LENGTH) != vb_fpdu_get_crc(added->datagram + length - VB_FPDU_CRC_LENGTH))
		note->flags |= VB_CAPTURE_CORRUPTED;
	return 0;
}

/* The frame at the beginning; 0: none, or not all of it. */
static size_t read_frame(const struct direction *direction, struct vb_mpa_frame *frame)
{
	static const enum vb_mpa_kind kinds[] = {VB_MPA_REQUEST, VB_MPA_REPLY};

	for (unsigned i = 0; i < 2; i++) {
		size_t length = 0;

		if (direction->length >= VB_MPA_HEADER)
			length = vb_mpa_frame_length(kinds[i], direction->bytes, direction->length);
		if (length >= VB_MPA_HEADER && length <= direction->length &&
		    vb_mpa_frame_decode(frame, kinds[i], direction->bytes, length))
			return length;
	}
	return 0;
}

static int add_ends(struct resolving *resolving)
{
	bool finished = false, reset = false;

	for (size_t i = 0; i < resolving->direction->count; i++) {
		const struct vb_story_packet *packet = resolving->direction->at[i].packet;

		if ((packet->tcp.flags & VB_FRAME_TCP_RST) && !reset) {
			reset = true;
			if (!add(resolving->story, packet, VB_STORY_RST))
				return -ENOMEM;
		} else if ((packet->tcp.flags & VB_FRAME_TCP_FIN) && !finished) {
			finished = true;
			if (!add(resolving->story, packet, VB_STORY_FIN))
				return -ENOMEM;
		}
	}
	return 0;
}

static int resolve_direction(struct vb_story *story, const struct direction *direction)
{
	struct resolving resolving = {.story = story, .direction = direction};
	struct vb_mpa_frame frame, other = {0};
	size_t at = read_frame(direction, &frame);
	int error = 0;

	if (at == 0)
		return add_ends(&resolving);
	if (direction->other)
		(void)read_frame(direction->other, &other);
	resolving.crc = frame.crc || other.crc;
	error = add_message(&resolving, frame.kind == VB_MPA_REQUEST ? VB_STORY_MPA_REQUEST : VB_STORY_MPA_REPLY, 0, at);
	/* With markers in it (RFC 5044 4.3) the stream is not for us to read. */
	while (error == 0 && !frame.markers && !other.markers && direction->length - at >= VB_FPDU_LENGTH_FIELD) {
		size_t length = vb_fpdu_length(vb_fpdu_get_length(direction->bytes + at));

		if (direction->length - at < length)
			break;
		error = add_message(&resolving, VB_STORY_FPDU, at, length);
		at += length;
	}
	return error != 0 ? error : add_ends(&resolving);
}

static int compare_times(const void *a, const void *b)
{
	const struct vb_story_packet *p = a, *q = b;
	int64_t first = vb_story_time(p), second = vb_story_time(q);

	if (first != second)
		return first < second ? -1 : 1;
	return p->order < q->order ? -1 : p->order > q->order;
}

int vb_streams_resolve(const struct vb_story *story, struct vb_story *resolved)
{
	struct directions all;
	size_t room = 1;
	uint8_t *to;
	int error = find_directions(&all, story);

	*resolved = *story;
	resolved->packet = NULL;
	resolved->packets = resolved->segments = 0;
	resolved->bytes = NULL;
	if (error != 0)
		return error;
	for (size_t i = 0; i < all.places; i++)
		room += all.place[i].packet->length;
	to = resolved->bytes = malloc(room);
	if (!to)
		error = -ENOMEM;
	for (size_t i = 0; i < all.count && error == 0; i++)
		to = assemble(&all.list[i], to);
	for (size_t i = 0; i < story->packets && error == 0; i++)
		if (story->packet[i].kind != VB_STORY_SEGMENT && !add(resolved, &story->packet[i], story->packet[i].kind))
			error = -ENOMEM;
	for (size_t i = 0; i < all.count && error == 0; i++)
		error = resolve_direction(resolved, &all.list[i]);
	forget_directions(&all);
	if (error == 0 && resolved->packets > 0)
		qsort(resolved->packet, resolved->packets, sizeof(*resolved->packet), compare_times);
	else if (error != 0)
		vb_streams_release(resolved);
	return error;
}

void vb_streams_release(struct vb_story *resolved)
{
	free(resolved->bytes);
	free(resolved->packet);
	resolved->bytes = NULL;
	resolved->packet = NULL;
}
