/* SPDX-License-Identifier: MIT
 *
 * From a story to a picture's contents, in steps: who the parties are (lanes), what each packet and event says
 * (items), which of them are told as one (folding), where they stand (places).
 *
 * A lane is a process of the capture or, for a peer that is not part of it, a host. A process that talks to itself has
 * a lane for each of its queue pairs, or, when these are many, one for each end of its connections.
 */
#include "capture/ladder.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "capture/ladder_text.h"
#include "capture/names.h"
#include "capture/story.h"
#include "capture/streams.h"

enum { INDEX_BITS = 14, MOST_ENDS = 4096, QUEUE_PAIR_LANES = 4, THIS_END = 1, THAT_END = 2 };
enum { FOLDED_PACKETS = 4, FOLDED_EVENTS = 3, MOST_FLOWS = 256, MOST_NOTES = 4, PSNS = 1 << 24 };

/* Places, in units of the picture. */
enum { TOP = 96, BOX_STEP = 27, ARROW_STEP = 24, ARRIVAL_STEP = 9, SLOPE = 14, GAP_STEP = 30, BOTTOM = 30 };

#define LONG_PAUSE 1000000LL

/* One direction of requests, and the answers to them: they share PSNs. */
struct flow {
	unsigned lane;
	uint32_t qpn;
	uint32_t first_psn;
	bool has_first;
	uint8_t *seen[2];                  /* a bit a PSN: requests, responses */
};

/* A queue pair of a process that talks to itself. */
struct end {
	uint32_t pid, qpn;
	uint64_t host;
	uint32_t which;                    /* THIS_END: the one that begins, THAT_END: its peer */
};

struct builder {
	struct vb_ladder *ladder;
	struct end *end;
	size_t ends;
	const struct vb_story *story;
	const struct vb_ladder_options *options;
	struct flow flow[MOST_FLOWS];
	unsigned flows;
	bool failed;
};

/* ---- lanes ---- */

static bool is_to_itself(const struct vb_capture_record *note)
{
	return (note->flags & VB_CAPTURE_SENT) && (note->flags & VB_CAPTURE_RECEIVED) && note->pid == note->receiver &&
	       note->host == note->receiver_host && note->peer_qpn > 1;
}

static struct end *find_end(const struct builder *b, uint32_t pid, uint64_t host, uint32_t qpn)
{
	for (size_t i = 0; i < b->ends; i++)
		if (b->end[i].pid == pid && b->end[i].host == host && b->end[i].qpn == qpn)
			return &b->end[i];
	return NULL;
}

static void add_end(struct builder *b, const struct vb_capture_record *note, uint32_t qpn, uint32_t which)
{
	if (b->ends < MOST_ENDS)
		b->end[b->ends++] = (struct end){.pid = note->pid, .qpn = qpn, .host = note->host, .which = which};
}

static void find_ends(struct builder *b)
{
	for (size_t i = 0; i < b->story->packets; i++) {
		const struct vb_capture_record *note = &b->story->packet[i].note;
		const struct end *from, *to;

		if (!is_to_itself(note))
			continue;
		to = find_end(b, note->pid, note->host, note->peer_qpn);
		from = find_end(b, note->pid, note->host, note->qpn);
		if (!from) {
			add_end(b, note, note->qpn, to && to->which == THIS_END ? THAT_END : THIS_END);
			from = find_end(b, note->pid, note->host, note->qpn);
		}
		if (!to && from)
			add_end(b, note, note->peer_qpn, from->which == THIS_END ? THAT_END : THIS_END);
	}
}

/* Queue pairs of the process that talk to others of the same process. */
static size_t count_ends(const struct builder *b, uint32_t pid, uint64_t host)
{
	size_t count = 0;

	for (size_t i = 0; i < b->ends; i++)
		count += b->end[i].pid == pid && b->end[i].host == host;
	return count;
}

/* What tells the lanes of one process apart: nothing, the queue pair, or the end of its connections. */
static uint32_t lane_key(const struct builder *b, uint32_t pid, uint64_t host, uint32_t qpn)
{
	size_t ends = count_ends(b, pid, host);
	const struct end *end;

	if (ends <= QUEUE_PAIR_LANES)
		return ends > 0 ? qpn : 0;
	end = find_end(b, pid, host, qpn);
	return end ? end->which : THIS_END;
}

static void name_process(struct builder *b, struct vb_ladder_lane *lane)
{
	char address[INET6_ADDRSTRLEN] = "";

	snprintf(lane->name, sizeof(lane->name), "pid %u", lane->pid);
	for (size_t i = 0; i < b->story->events; i++) {
		const struct vb_capture_record *event = &b->story->event[i];

		if (event->kind == VB_CAPTURE_PROCESS && event->pid == lane->pid && event->host == lane->host)
			snprintf(lane->name, sizeof(lane->name), "%s", event->text);
	}
	vb_ladder_address(lane->address, address, sizeof(address));
	if (lane->qpn == THIS_END || lane->qpn == THAT_END)
		snprintf(lane->detail, sizeof(lane->detail), "%s end of its connections",
			 lane->qpn == THIS_END ? "this" : "the other");
	else if (lane->qpn)
		snprintf(lane->detail, sizeof(lane->detail), "QP 0x%06x, %s", lane->qpn, address);
	else
		snprintf(lane->detail, sizeof(lane->detail), "pid %u, %s", lane->pid, address);
}

static unsigned add_lane(struct builder *b, const struct vb_ladder_lane *lane)
{
	struct vb_ladder *ladder = b->ladder;

	if (ladder->lanes == VB_LADDER_LANES)
		return VB_LADDER_LANES;
	ladder->lane[ladder->lanes] = *lane;
	return ladder->lanes++;
}

/* `address` may be NULL: not known here. VB_LADDER_LANES: there are too many parties. */
static unsigned process_lane(struct builder *b, uint32_t pid, uint64_t host, uint32_t qpn, const uint8_t *address)
{
	struct vb_ladder_lane lane = {.pid = pid, .host = host, .qpn = lane_key(b, pid, host, qpn)};

	for (unsigned i = 0; i < b->ladder->lanes; i++) {
		const struct vb_ladder_lane *other = &b->ladder->lane[i];

		if (other->pid != pid || other->host != host)
			continue;
		/* What belongs to no queue pair (a shared receive queue) stands with the first. */
		if (other->qpn == lane.qpn || qpn <= 1)
			return i;
	}
	if (address)
		memcpy(lane.address, address, sizeof(lane.address));
	name_process(b, &lane);
	return add_lane(b, &lane);
}

static unsigned host_lane(struct builder *b, const uint8_t address[16])
{
	struct vb_ladder_lane lane = {0};

	for (unsigned i = 0; i < b->ladder->lanes; i++)
		if (b->ladder->lane[i].pid == 0 && memcmp(b->ladder->lane[i].address, address, 16) == 0)
			return i;
	memcpy(lane.address, address, 16);
	vb_ladder_address(address, lane.name, sizeof(lane.name));
	snprintf(lane.detail, sizeof(lane.detail), "not part of the capture");
	return add_lane(b, &lane);
}

static unsigned sender_lane(struct builder *b, const struct vb_story_packet *packet)
{
	const struct vb_capture_record *note = &packet->note;

	if ((note->flags & VB_CAPTURE_SENT) && note->pid)
		return process_lane(b, note->pid, note->host, note->qpn, packet->path.source);
	return host_lane(b, packet->path.source);
}

/* Where it would have arrived: at the lane that received or sent another packet as that queue pair at that address. */
static const struct vb_capture_record *find_receiver(const struct vb_story *story, const struct vb_story_packet *lost,
						     bool *as_receiver)
{
	uint32_t qpn = lost->is_decoded ? lost->packet.destination_qpn : 0;

	for (size_t i = 0; i < story->packets; i++) {
		const struct vb_story_packet *packet = &story->packet[i];
		const struct vb_capture_record *note = &packet->note;

		/* Every host's connection manager has the same number: it is not the sender's own that is meant. */
		if (qpn <= 1 && lost->note.pid == (note->flags & VB_CAPTURE_RECEIVED ? note->receiver : note->pid))
			continue;
		*as_receiver = (note->flags & VB_CAPTURE_RECEIVED) && note->peer_qpn == qpn &&
			       memcmp(packet->path.destination, lost->path.destination, 16) == 0;
		if (*as_receiver)
			return note;
		if ((note->flags & VB_CAPTURE_SENT) && note->pid && note->qpn == qpn &&
		    memcmp(packet->path.source, lost->path.destination, 16) == 0)
			return note;
	}
	/* It never sent or received anything: then the one process of the capture that its number belongs to. */
	for (size_t i = 0; i < story->events; i++)
		if (story->event[i].kind == VB_CAPTURE_PROCESS && story->event[i].slot == qpn >> INDEX_BITS &&
		    story->event[i].pid != lost->note.pid)
			return &story->event[i];
	return NULL;
}

static unsigned receiver_lane(struct builder *b, const struct vb_story_packet *packet)
{
	const struct vb_capture_record *note = &packet->note, *other;
	bool as_receiver = false;

	if (note->flags & VB_CAPTURE_RECEIVED)
		return process_lane(b, note->receiver, note->receiver_host, note->peer_qpn, packet->path.destination);
	other = note->pid ? find_receiver(b->story, packet, &as_receiver) : NULL;
	if (!other)
		return host_lane(b, packet->path.destination);
	return process_lane(b, as_receiver ? other->receiver : other->pid,
			    as_receiver ? other->receiver_host : other->host, note->peer_qpn, packet->path.destination);
}

/* ---- PSNs ---- */

static struct flow *find_flow(struct builder *b, unsigned lane, uint32_t qpn)
{
	struct flow *flow;

	for (unsigned i = 0; i < b->flows; i++)
		if (b->flow[i].lane == lane && b->flow[i].qpn == qpn)
			return &b->flow[i];
	if (b->flows == MOST_FLOWS)
		return NULL;
	flow = &b->flow[b->flows++];
	*flow = (struct flow){.lane = lane, .qpn = qpn};
	return flow;
}

/* The requester's queue pair: the sender's of a request, the receiver's of a response. 0: not known. */
static uint32_t requester_of(const struct builder *b, const struct vb_story_packet *packet)
{
	if (!packet->packet.op->is_request)
		return packet->packet.destination_qpn;
	if (packet->note.qpn)
		return packet->note.qpn;
	if (packet->packet.op->headers & VB_HEADER_DETH)
		return packet->packet.deth.source_qpn;
	/* Recorded by the receiver only: whom does that send to? */
	for (size_t i = 0; i < b->story->packets; i++) {
		const struct vb_capture_record *note = &b->story->packet[i].note;

		if ((note->flags & VB_CAPTURE_SENT) && note->pid == packet->note.receiver &&
		    note->qpn == packet->packet.destination_qpn)
			return note->peer_qpn;
	}
	return 0;
}

/* Was a packet like this sent before? And remember it. */
static bool is_again(struct builder *b, struct flow *flow, const struct vb_roce_packet *packet)
{
	uint8_t **seen = &flow->seen[!packet->op->is_request], bit = (uint8_t)(1u << packet->psn.v % 8);
	bool again;

	if (packet->op->kind == VB_KIND_ACKNOWLEDGE || packet->op->kind == VB_KIND_CNP || packet->op->service == VB_SERVICE_VENDOR)
		return false;
	if (!*seen)
		*seen = calloc(PSNS / 8, 1);
	if (!*seen) {
		b->failed = true;
		return false;
	}
	again = (*seen)[packet->psn.v / 8] & bit;
	(*seen)[packet->psn.v / 8] |= bit;
	return again;
}

/* ---- items ---- */

static struct vb_ladder_item *add_item(struct builder *b)
{
	struct vb_ladder *ladder = b->ladder;

	if ((ladder->items & (ladder->items - 1)) == 0) {
		void *grown = realloc(ladder->item, (ladder->items ? ladder->items * 2 : 1) * sizeof(*ladder->item));

		if (!grown) {
			b->failed = true;
			return NULL;
		}
		ladder->item = grown;
	}
	memset(&ladder->item[ladder->items], 0, sizeof(*ladder->item));
	ladder->item[ladder->items].times = 1;
	return &ladder->item[ladder->items++];
}

static enum vb_ladder_style style_of(const struct vb_roce_packet *packet, bool again)
{
	if (packet->op->kind == VB_KIND_ACKNOWLEDGE && (packet->aeth.syndrome & VB_AETH_TYPE_MASK) != VB_AETH_ACK)
		return VB_LADDER_NAK;
	if (packet->destination_qpn == 1)
		return VB_LADDER_CM;
	if (again)
		return VB_LADDER_AGAIN;
	return packet->op->is_request ? VB_LADDER_REQUEST : VB_LADDER_RESPONSE;
}

/* Without the receiver's word, as in another program's capture, it is taken to have arrived. */
static void place_arrow(const struct builder *b, struct vb_ladder_item *item, const struct vb_story_packet *packet, unsigned from,
			unsigned to)
{
	const struct vb_capture_record *note = &packet->note;

	item->is_arrow = true;
	item->from = from;
	item->to = to;
	item->time = vb_story_time(packet);
	item->lost = note->flags & VB_CAPTURE_DROPPED;
	item->damaged = note->flags & (VB_CAPTURE_CORRUPTED | VB_CAPTURE_REFUSED);
	item->arrives = (note->flags & VB_CAPTURE_RECEIVED) || b->ladder->lane[to].pid == 0;
	item->arrival = (note->flags & VB_CAPTURE_RECEIVED) ? note->received : item->time;
}

/* Who is at the other end of a stream of which only one end says when it received. */
static unsigned stream_peer_lane(struct builder *b, const struct vb_story_packet *packet)
{
	for (size_t i = 0; i < b->story->packets; i++) {
		const struct vb_story_packet *other = &b->story->packet[i];

		if (other->kind != VB_STORY_ROCE && other->path.source_port == packet->tcp.destination_port &&
		    other->tcp.destination_port == packet->path.source_port &&
		    memcmp(other->path.source, packet->path.destination, 16) == 0 && (other->note.flags & VB_CAPTURE_SENT) &&
		    other->note.pid)
			return sender_lane(b, other);
	}
	return host_lane(b, packet->path.destination);
}

static unsigned stream_receiver_lane(struct builder *b, const struct vb_story_packet *packet)
{
	return packet->note.flags & VB_CAPTURE_RECEIVED ? receiver_lane(b, packet) : stream_peer_lane(b, packet);
}

static void add_message(struct builder *b, const struct vb_story_packet *packet, bool is_drawn)
{
	unsigned from = sender_lane(b, packet), to = stream_receiver_lane(b, packet);
	struct vb_ladder_item *item;

	if (from == VB_LADDER_LANES || to == VB_LADDER_LANES) {
		b->ladder->left_out += is_drawn;
		return;
	}
	if (!is_drawn || (item = add_item(b)) == NULL)
		return;
	place_arrow(b, item, packet, from, to);
	vb_ladder_stream_text(item, packet);
}

static void add_packet(struct builder *b, const struct vb_story_packet *packet, bool is_drawn)
{
	const struct vb_capture_record *note = &packet->note;
	unsigned from = sender_lane(b, packet), to = receiver_lane(b, packet);
	struct vb_ladder_psn psn = {.absolute = b->options->absolute};
	struct vb_ladder_item *item;
	struct flow *flow = NULL;
	uint32_t requester;
	bool again = false;

	if (from == VB_LADDER_LANES || to == VB_LADDER_LANES || !packet->is_decoded) {
		b->ladder->left_out += is_drawn;
		return;
	}
	requester = requester_of(b, packet);
	if (requester)
		flow = find_flow(b, packet->packet.op->is_request ? from : to, requester);
	if (flow) {
		if (!flow->has_first && packet->packet.op->is_request) {
			flow->first_psn = packet->packet.psn.v;
			flow->has_first = true;
		}
		again = is_again(b, flow, &packet->packet) && !(note->flags & VB_CAPTURE_DUPLICATED);
		psn.first = flow->first_psn;
	}
	psn.absolute |= !flow || !flow->has_first;
	if (!is_drawn || (item = add_item(b)) == NULL)
		return;
	place_arrow(b, item, packet, from, to);
	item->style = style_of(&packet->packet, again);
	item->arrives |= item->style == VB_LADDER_CM;
	vb_ladder_packet_text(item, packet, &psn);
}

static void add_event(struct builder *b, const struct vb_capture_record *event)
{
	struct vb_ladder_item *item;
	unsigned lane;

	if (event->kind == VB_CAPTURE_PROCESS)
		return;
	lane = process_lane(b, event->pid, event->host, event->qpn, NULL);
	if (lane == VB_LADDER_LANES || (item = add_item(b)) == NULL)
		return;
	item->from = item->to = lane;
	item->time = item->arrival = event->time;
	vb_ladder_event_text(item, event);
}

static bool is_wanted(const struct builder *b, uint32_t one, uint32_t other)
{
	return b->options->qpn == 0 || one == b->options->qpn || other == b->options->qpn;
}

static uint32_t peer_of_wanted(const struct builder *b)
{
	for (size_t i = 0; i < b->story->packets && b->options->qpn; i++) {
		const struct vb_capture_record *note = &b->story->packet[i].note;

		if (note->qpn == b->options->qpn)
			return note->peer_qpn;
	}
	return b->options->qpn;
}

/* Packets and events merged by time; drawn are those from the first wanted packet to the last one. */
static void collect(struct builder *b)
{
	const struct vb_story *story = b->story;
	uint32_t peer = peer_of_wanted(b);
	size_t next = 0, number = 0, drawn = 0, first = b->options->first, last;
	int64_t until = INT64_MIN;

	last = b->options->most < SIZE_MAX - first ? first + b->options->most : SIZE_MAX;
	for (size_t i = 0; i <= story->packets; i++) {
		const struct vb_story_packet *packet = i < story->packets ? &story->packet[i] : NULL;
		int64_t now = packet ? vb_story_time(packet) : INT64_MAX;
		bool inside = number >= first && number < last;

		for (; next < story->events && story->event[next].time <= now; next++) {
			const struct vb_capture_record *event = &story->event[next];

			if (!is_wanted(b, event->qpn, event->qpn) && !(peer && event->qpn == peer))
				continue;
			/* Also what follows at once from the last packet drawn, but not what leads to the next. */
			if (inside || (number >= last && event->time <= until && event->kind != VB_CAPTURE_POST_SEND))
				add_event(b, event);
		}
		if (!packet || !is_wanted(b, packet->note.qpn, packet->note.peer_qpn))
			continue;
		inside = number >= first && number < last;
		if (packet->kind == VB_STORY_ROCE)
			add_packet(b, packet, inside);
		else
			add_message(b, packet, inside);
		if (inside) {
			int64_t arrival = packet->note.flags & VB_CAPTURE_RECEIVED ? packet->note.received : now;
			int64_t soon = arrival < INT64_MAX - LONG_PAUSE ? arrival + LONG_PAUSE : INT64_MAX;

			until = soon > until ? soon : until;
			drawn++;
		} else if (number >= last && now < until) {
			until = now;
		}
		number++;
	}
	b->ladder->left_out += number - drawn;
}

/* ---- folding ---- */

static bool packets_fold(const struct vb_ladder_item *a, const struct vb_ladder_item *b)
{
	return a->is_arrow && b->is_arrow && a->from == b->from && a->to == b->to && a->style == b->style &&
	       a->arrives && b->arrives && !a->lost && !b->lost && !a->damaged && !b->damaged &&
	       a->folds && b->folds && strncmp(a->label, b->label, strcspn(a->label, " ") + 1) == 0;
}

static bool events_fold(const struct vb_ladder_item *a, const struct vb_ladder_item *b)
{
	return !a->is_arrow && !b->is_arrow && a->from == b->from && a->style == b->style &&
	       strncmp(a->label, b->label, strcspn(a->label, "#")) == 0 && strchr(a->label, '#') &&
	       strchr(b->label, '#');
}

/* Runs of neighbours that say the same become one item that says how many. */
static void fold(struct vb_ladder *ladder)
{
	size_t kept = 0;

	for (size_t i = 0, run; i < ladder->items; i += run) {
		const struct vb_ladder_item *first = &ladder->item[i];
		bool arrow = first->is_arrow;

		run = 1;
		while (i + run < ladder->items && (arrow ? packets_fold(first, &ladder->item[i + run]) :
							   events_fold(first, &ladder->item[i + run])))
			run++;
		if (run < (arrow ? FOLDED_PACKETS : FOLDED_EVENTS))
			run = 1;
		if (kept != i)
			ladder->item[kept] = ladder->item[i];
		if (run > 1) {
			struct vb_ladder_item *item = &ladder->item[kept], last = ladder->item[i + run - 1];

			item->times = (unsigned)run;
			item->arrival = last.arrival > item->arrival ? last.arrival : item->arrival;
			vb_ladder_fold_text(item, &last);
		}
		kept++;
	}
	ladder->items = kept;
	for (size_t i = 0; i < kept; i++)
		for (char *mark = ladder->item[i].label; (mark = strchr(mark, '#')) != NULL;)
			memmove(mark, mark + 1, strlen(mark));
}

/* ---- places ---- */

struct instant {
	int64_t time;
	size_t item;
	bool arrival;
};

static int compare_instants(const void *a, const void *b)
{
	const struct instant *p = a, *q = b;

	if (p->time != q->time)
		return p->time < q->time ? -1 : 1;
	if (p->item != q->item)
		return p->item < q->item ? -1 : 1;
	return p->arrival - q->arrival;
}

static double larger(double a, double b)
{
	return a > b ? a : b;
}

/* A lost packet's arrow is parallel to the one before it. */
static double would_arrive(const struct vb_ladder *ladder, size_t index)
{
	const struct vb_ladder_item *lost = &ladder->item[index];

	for (size_t i = index; i-- > 0;) {
		const struct vb_ladder_item *item = &ladder->item[i];

		if (item->is_arrow && item->from == lost->from && item->to == lost->to && item->arrives)
			return larger(lost->y + SLOPE, item->arrival_y + ARRIVAL_STEP);
	}
	return lost->y + SLOPE;
}

static void place_instants(struct vb_ladder *ladder, const struct instant *instant, size_t count)
{
	double y = TOP, box[VB_LADDER_LANES], sent[VB_LADDER_LANES], arrived[VB_LADDER_LANES];

	for (unsigned i = 0; i < VB_LADDER_LANES; i++)
		box[i] = sent[i] = arrived[i] = -1000;
	for (size_t i = 0; i < count; i++) {
		struct vb_ladder_item *item = &ladder->item[instant[i].item];
		unsigned lane = instant[i].arrival ? item->to : item->from;
		int64_t pause = i > 0 ? vb_story_elapsed(instant[i - 1].time, instant[i].time) : 0;

		if (pause >= LONG_PAUSE) {
			ladder->gap[ladder->gaps].y = y + GAP_STEP / 2 + 6;
			ladder->gap[ladder->gaps++].length = pause;
			y += GAP_STEP + 14;
		}
		if (instant[i].arrival) {
			y = larger(larger(y, arrived[lane] + ARRIVAL_STEP), item->y + SLOPE);
			item->arrival_y = arrived[lane] = y;
		} else if (item->is_arrow) {
			y = larger(larger(y + 1, sent[lane] + ARROW_STEP), box[lane] + ARRIVAL_STEP);
			y = larger(y, arrived[lane] + SLOPE);
			item->y = item->arrival_y = sent[lane] = y;
		} else {
			y = larger(larger(y + 1, box[lane] + BOX_STEP), arrived[lane] + ARRIVAL_STEP);
			item->y = item->arrival_y = box[lane] = y;
		}
	}
	for (size_t i = 0; i < ladder->items; i++)
		if (ladder->item[i].is_arrow && !ladder->item[i].arrives)
			ladder->item[i].arrival_y = would_arrive(ladder, i);
	ladder->height = y + BOTTOM;
}

static int place(struct vb_ladder *ladder)
{
	struct instant *instant = calloc(2 * ladder->items + 1, sizeof(*instant));
	size_t count = 0;

	ladder->gap = calloc(2 * ladder->items + 1, sizeof(*ladder->gap));
	if (!instant || !ladder->gap) {
		free(instant);
		return -ENOMEM;
	}
	for (size_t i = 0; i < ladder->items; i++) {
		const struct vb_ladder_item *item = &ladder->item[i];

		instant[count++] = (struct instant){item->time, i, false};
		if (item->is_arrow && item->arrives)
			instant[count++] = (struct instant){item->arrival, i, true};
	}
	qsort(instant, count, sizeof(*instant), compare_instants);
	ladder->start = count > 0 ? instant[0].time : 0;
	place_instants(ladder, instant, count);
	free(instant);
	return 0;
}

/* Boxes stand on the side of their lane that has fewer arrows. */
static void choose_sides(struct vb_ladder *ladder)
{
	int balance[VB_LADDER_LANES] = {0};

	for (size_t i = 0; i < ladder->items; i++) {
		const struct vb_ladder_item *item = &ladder->item[i];

		if (item->is_arrow && item->from != item->to) {
			balance[item->from] += item->from < item->to ? 1 : -1;
			balance[item->to] += item->to < item->from ? 1 : -1;
		}
	}
	for (unsigned i = 0; i < ladder->lanes; i++)
		ladder->lane[i].boxes_left = i == 0 || (i + 1 < ladder->lanes && balance[i] > 0);
}

/* ---- as a whole ---- */

static void note_psns(struct builder *b)
{
	char *out = b->ladder->psn_note;
	size_t used = 0, room = sizeof(b->ladder->psn_note);
	unsigned told = 0;

	for (unsigned i = 0; i < b->flows && !b->options->absolute; i++) {
		const struct flow *flow = &b->flow[i];

		if (!flow->has_first || flow->qpn <= 1)
			continue;
		if (told++ == MOST_NOTES) {
			snprintf(out + used, room - used, "; ...");
			break;
		}
		used += (size_t)snprintf(out + used, room - used, "%sQP 0x%06x from 0x%06x",
					 used ? "; " : "PSNs are counted: ", flow->qpn, flow->first_psn);
	}
}

static int build(struct vb_ladder *ladder, const struct vb_story *story, const struct vb_ladder_options *options)
{
	struct builder b = {.ladder = ladder, .story = story, .options = options};
	int error = 0;

	memset(ladder, 0, sizeof(*ladder));
	ladder->title = options->title;
	b.end = calloc(MOST_ENDS, sizeof(*b.end));
	if (!b.end)
		return -ENOMEM;
	find_ends(&b);
	/* Lanes in the order in which the parties first send: the one who begins stands left. */
	for (size_t i = 0; i < story->packets; i++)
		if (is_wanted(&b, story->packet[i].note.qpn, story->packet[i].note.peer_qpn)) {
			(void)sender_lane(&b, &story->packet[i]);
			(void)(story->packet[i].kind == VB_STORY_ROCE ? receiver_lane : stream_receiver_lane)(&b, &story->packet[i]);
		}
	collect(&b);
	if (!b.failed)
		fold(ladder);
	note_psns(&b);
	for (unsigned i = 0; i < b.flows; i++) {
		free(b.flow[i].seen[0]);
		free(b.flow[i].seen[1]);
	}
	free(b.end);
	choose_sides(ladder);
	if (b.failed)
		error = -ENOMEM;
	if (error == 0)
		error = place(ladder);
	if (error != 0)
		vb_ladder_free(ladder);
	return error;
}

int vb_ladder_build(struct vb_ladder *ladder, const struct vb_story *story, const struct vb_ladder_options *options)
{
	struct vb_story resolved;
	int error;

	if (story->segments == 0)
		return build(ladder, story, options);
	error = vb_streams_resolve(story, &resolved);
	if (error != 0)
		return error;
	error = build(ladder, &resolved, options);
	vb_streams_release(&resolved);
	return error;
}

void vb_ladder_free(struct vb_ladder *ladder)
{
	free(ladder->item);
	free(ladder->gap);
	memset(ladder, 0, sizeof(*ladder));
}
