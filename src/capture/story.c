/* SPDX-License-Identifier: MIT
 *
 * Reading: every block of the file, then the two halves of each packet become one. A received packet belongs to the
 * earliest packet of the same bytes between the same addresses that was sent before and that was not received yet. Of
 * TCP streams streams.c knows what belongs together.
 */
#include "capture/story.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc.h"
#include "capture/buffer.h"
#include "capture/frame.h"
#include "capture/pcap.h"
#include "capture/pcapng.h"
#include "capture/peers.h"
#include "capture/streams.h"
#include "wire/roce_packet.h"

#define LONGEST_FILE ((size_t)1 << 31)

static int compare_packets(const void *a, const void *b)
{
	const struct vb_story_packet *p = a, *q = b;
	int64_t first = vb_story_time(p), second = vb_story_time(q);

	if (first == second)
		return p->order < q->order ? -1 : p->order > q->order;
	return first < second ? -1 : 1;
}

static int compare_events(const void *a, const void *b)
{
	const struct vb_capture_record *p = a, *q = b;

	return p->time < q->time ? -1 : p->time > q->time;
}

static void *grow(void *array, size_t count, size_t size)
{
	/* Doubles whenever the count is a power of two. */
	if (count & (count - 1))
		return array;
	return realloc(array, (count ? count * 2 : 1) * size);
}

static int add_event(struct vb_story *story, const struct vb_capture_record *record)
{
	void *grown = grow(story->event, story->events, sizeof(*story->event));

	if (!grown)
		return -ENOMEM;
	story->event = grown;
	story->event[story->events++] = *record;
	return 0;
}

static int append(struct vb_story *story, struct vb_story_packet *packet)
{
	void *grown = grow(story->packet, story->packets, sizeof(*packet));

	if (!grown)
		return -ENOMEM;
	packet->order = story->packets;
	story->packet = grown;
	story->packet[story->packets++] = *packet;
	return 0;
}

static int add_datagram(struct vb_story *story, struct vb_story_packet *packet)
{
	packet->is_decoded = vb_roce_packet_decode(&packet->packet, packet->datagram, packet->length, &packet->path, false,
						   0) == VB_PACKET_OK;
	return append(story, packet);
}

/* As far as the packet tells: only datagrams say who sent them. */
static void name_queue_pairs(struct vb_story_packet *packet)
{
	if (!packet->is_decoded)
		return;
	packet->note.peer_qpn = packet->packet.destination_qpn;
	if (packet->packet.op->headers & VB_HEADER_DETH)
		packet->note.qpn = packet->packet.deth.source_qpn;
}

/* A frame that another program captured (tcpdump): nothing is known of it but what it says. */
static int add_foreign_frame(struct vb_story *story, struct vb_story_packet *packet, int64_t time)
{
	const uint8_t *end = packet->datagram + packet->length;
	size_t step = vb_frame_segment(packet->datagram, packet->length);

	packet->note = (struct vb_capture_record){.kind = VB_CAPTURE_PACKET, .flags = VB_CAPTURE_SENT, .time = time};
	story->segmented += step < packet->length;
	while (packet->datagram < end) {
		int error;

		packet->length = (size_t)(end - packet->datagram) < step ? (size_t)(end - packet->datagram) : step;
		error = add_datagram(story, packet);
		if (error != 0)
			return error;
		name_queue_pairs(&story->packet[story->packets - 1]);
		packet->datagram += packet->length;
	}
	return 0;
}

/* What we know of a packet of our own, or what a foreign one says. */
static bool is_noted(const struct vb_capture_record *note)
{
	return note && (note->flags & (VB_CAPTURE_SENT | VB_CAPTURE_RECEIVED));
}

static int add_segment(struct vb_story *story, struct vb_story_packet *packet, const struct vb_frame_tcp *segment, int64_t time,
		       const struct vb_capture_record *note)
{
	packet->kind = VB_STORY_SEGMENT;
	packet->path = segment->path;
	packet->tcp.destination_port = segment->destination_port;
	packet->tcp.sequence = segment->sequence;
	packet->tcp.flags = segment->flags;
	packet->note = is_noted(note) ? *note :
		       (struct vb_capture_record){.kind = VB_CAPTURE_PACKET, .flags = VB_CAPTURE_SENT, .time = time};
	story->segments++;
	return append(story, packet);
}

static int add_packet(struct vb_story *story, const struct vb_pcapng_item *item, const struct vb_capture_record *note)
{
	struct vb_story_packet packet = {0};
	struct vb_frame_tcp segment;
	int skip = vb_frame_link_length(item->frame, item->length, item->link_type);

	if (skip < 0 || item->cut) {
		story->foreign++;
		return 0;
	}
	packet.link_type = VB_FRAME_RAW;
	packet.frame = item->frame + skip;
	packet.frame_length = item->length - (size_t)skip;
	if (item->link_type != VB_FRAME_ERF &&
	    vb_frame_tcp_parse(packet.frame, packet.frame_length, &segment, &packet.datagram, &packet.length) == 0)
		return add_segment(story, &packet, &segment, item->time, note);
	if (vb_frame_parse(item->frame, item->length, item->link_type, &packet.path, &packet.datagram, &packet.length) != 0) {
		story->foreign++;
		return 0;
	}
	if (item->link_type == VB_FRAME_ERF || (item->link_type == VB_FRAME_ETHERNET && packet.path.framing == VB_FRAMING_ETHERNET)) {
		packet.link_type = (uint16_t)item->link_type;
		packet.frame = item->frame;
		packet.frame_length = item->length;
	}
	if (!is_noted(note))
		return add_foreign_frame(story, &packet, item->time);
	packet.note = *note;
	return add_datagram(story, &packet);
}

/* ---- two halves ---- */

/* Without the ICRC at its end: the CRC of anything and its own CRC is the same for all. */
uint32_t vb_story_packet_hash(const struct vb_story_packet *packet)
{
	uint32_t crc = vb_crc32(packet->path.source_port + packet->path.dlid, packet->path.source, 32);

	return vb_crc32(crc, packet->datagram, packet->length > VB_ICRC_LENGTH ? packet->length - VB_ICRC_LENGTH : packet->length);
}

static bool are_halves(const struct vb_story_packet *sent, const struct vb_story_packet *received)
{
	return (sent->note.flags & (VB_CAPTURE_RECEIVED | VB_CAPTURE_DROPPED)) == 0 &&
	       sent->note.time <= received->note.received && sent->length == received->length &&
	       sent->path.source_port == received->path.source_port && sent->path.slid == received->path.slid &&
	       sent->path.dlid == received->path.dlid &&
	       memcmp(sent->path.source, received->path.source, sizeof(sent->path.source)) == 0 &&
	       memcmp(sent->path.destination, received->path.destination, sizeof(sent->path.destination)) == 0 &&
	       memcmp(sent->datagram, received->datagram, sent->length) == 0;
}

/* Chains of sent packets by hash, oldest first; `received` ones look for theirs. Packets are in order. */
static int join_halves(struct vb_story *story)
{
	size_t buckets = 1, kept = 0;
	size_t *first, *last, *next;

	while (buckets < story->packets)
		buckets *= 2;
	first = calloc(buckets, sizeof(*first)); /* indices plus one */
	last = calloc(buckets, sizeof(*last));
	next = calloc(story->packets + 1, sizeof(*next));
	if (!first || !last || !next) {
		free(first);
		free(last);
		free(next);
		return -ENOMEM;
	}
	for (size_t i = 0; i < story->packets; i++) {
		struct vb_story_packet *packet = &story->packet[i];
		size_t bucket, *at;

		if (packet->kind != VB_STORY_ROCE)
			continue;
		bucket = vb_story_packet_hash(packet) & (buckets - 1);
		if (packet->note.flags & VB_CAPTURE_SENT) {
			*(last[bucket] ? &next[last[bucket] - 1] : &first[bucket]) = i + 1;
			last[bucket] = i + 1;
			continue;
		}
		for (at = &first[bucket]; *at && !are_halves(&story->packet[*at - 1], packet); at = &next[*at - 1])
			;
		if (*at) {
			struct vb_capture_record *note = &story->packet[*at - 1].note;

			note->flags |= packet->note.flags;
			note->received = packet->note.received;
			note->receiver = packet->note.receiver;
			note->receiver_host = packet->note.receiver_host;
			packet->length = 0; /* gone */
		}
	}
	for (size_t i = 0; i < story->packets; i++)
		if (story->packet[i].length > 0 || story->packet[i].kind != VB_STORY_ROCE)
			story->packet[kept++] = story->packet[i];
	story->packets = kept;
	free(first);
	free(last);
	free(next);
	return 0;
}

/* ---- reading ---- */

/* A file of either format. */
struct reader {
	bool is_old;
	struct vb_pcap_reader pcap;
	struct vb_pcapng_reader pcapng;
};

static enum vb_pcapng_item_kind next_item(struct reader *reader, struct vb_pcapng_item *item)
{
	return reader->is_old ? vb_pcap_next(&reader->pcap, item) : vb_pcapng_next(&reader->pcapng, item);
}

static int read_items(struct vb_story *story, struct reader *reader)
{
	struct vb_capture_record note;
	bool noted = false;

	for (;;) {
		struct vb_pcapng_item item;
		int error = 0;

		switch (next_item(reader, &item)) {
		case VB_PCAPNG_END:
			return 0;
		case VB_PCAPNG_FAULT:
			return -EPROTO;
		case VB_PCAPNG_RECORD:
			noted = item.record.kind == VB_CAPTURE_PACKET;
			if (noted)
				note = item.record;
			else
				error = add_event(story, &item.record);
			break;
		case VB_PCAPNG_PACKET:
			error = add_packet(story, &item, noted ? &note : NULL);
			noted = false;
			break;
		}
		if (error != 0)
			return error;
	}
}

int vb_story_read(struct vb_story *story, uint8_t *bytes, size_t length, char *why, size_t room)
{
	struct reader reader = {.is_old = vb_pcap_is_one(bytes, length)};
	int error;

	memset(story, 0, sizeof(*story));
	story->bytes = bytes;
	vb_pcap_read(&reader.pcap, bytes, length);
	vb_pcapng_read(&reader.pcapng, bytes, length);
	error = length > 0 ? read_items(story, &reader) : -ENODATA;
	if (error == 0 && story->packets > 0) {
		qsort(story->packet, story->packets, sizeof(*story->packet), compare_packets);
		error = join_halves(story);
	}
	if (error == 0 && story->segments > 0)
		error = vb_streams_join(story);
	if (error == 0 && story->segments > 0)
		qsort(story->packet, story->packets, sizeof(*story->packet), compare_packets);
	if (error == 0)
		error = vb_story_find_peers(story);
	if (error == 0 && story->events > 0)
		qsort(story->event, story->events, sizeof(*story->event), compare_events);
	if (error == 0) {
		(void)vb_pcapng_is_ours(bytes, length, &story->clock);
		return 0;
	}
	if (error == -EPROTO)
		snprintf(why, room, "%s (at byte %zu of %zu)", reader.is_old ? reader.pcap.fault : reader.pcapng.fault,
			 reader.is_old ? reader.pcap.at : reader.pcapng.at, length);
	else
		snprintf(why, room, "%s", error == -ENODATA ? "it is empty" : strerror(-error));
	vb_story_free(story);
	return error;
}

static int read_file(int fd, uint8_t **out, size_t *length)
{
	struct stat status;
	size_t used = 0;
	uint8_t *bytes;

	if (fstat(fd, &status) != 0)
		return -errno;
	if (!S_ISREG(status.st_mode))
		return -EINVAL;
	if ((uint64_t)status.st_size > LONGEST_FILE)
		return -EFBIG;
	bytes = malloc((size_t)status.st_size + 1);
	if (!bytes)
		return -ENOMEM;
	while (used < (size_t)status.st_size) {
		ssize_t got = pread(fd, bytes + used, (size_t)status.st_size - used, (off_t)used);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		used += (size_t)got;
	}
	*out = bytes;
	*length = used;
	return 0;
}

static int load_from(struct vb_story *story, int fd, char *why, size_t room)
{
	uint8_t *bytes = NULL;
	size_t length = 0;
	int error = read_file(fd, &bytes, &length);

	if (error == 0)
		return vb_story_read(story, bytes, length, why, room);
	snprintf(why, room, "%s", error == -EINVAL ? "it is no regular file" : strerror(-error));
	return error;
}

int vb_story_load(struct vb_story *story, const char *path, char *why, size_t room)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), error;

	if (fd < 0) {
		error = -errno;
		snprintf(why, room, "%s", strerror(-error));
		return error;
	}
	error = load_from(story, fd, why, room);
	close(fd);
	return error;
}

void vb_story_free(struct vb_story *story)
{
	free(story->bytes);
	free(story->packet);
	free(story->event);
	memset(story, 0, sizeof(*story));
}

int vb_story_tidy(const char *path, char *why, size_t room)
{
	struct vb_story story;
	int fd = open(path, O_RDWR | O_CLOEXEC), error = 0;

	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) != 0) {
		error = errno == EWOULDBLOCK ? -EBUSY : -errno;
		snprintf(why, room, "%s", error == -EBUSY ? "others still write to it" : strerror(-error));
	}
	if (error == 0)
		error = load_from(&story, fd, why, room);
	/* No process used RDMA. It is an empty capture from now on, which other programs can read. */
	if (error == -ENODATA) {
		memset(&story, 0, sizeof(story));
		error = 0;
	}
	if (error == 0) {
		error = vb_story_save(&story, path);
		if (error != 0)
			snprintf(why, room, "%s", strerror(-error));
		vb_story_free(&story);
	}
	if (fd >= 0)
		close(fd);
	return error;
}
