/* SPDX-License-Identifier: MIT
 *
 * A capture in order. What happened around a packet becomes its comment: the work posted before it was sent, and the
 * completions that followed its arrival. Our own records stay in the file, for the ladder.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture/buffer.h"
#include "capture/frame.h"
#include "capture/names.h"
#include "capture/pcapng.h"
#include "capture/story.h"

enum { COMMENT_ROOM = 1024, NEAR = 32 };

struct comment {
	char text[COMMENT_ROOM];
	size_t used;
};

__attribute__((format(printf, 2, 3)))
static void say(struct comment *comment, const char *format, ...)
{
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(comment->text + comment->used, COMMENT_ROOM - comment->used, format, arguments);
	va_end(arguments);
	if (length > 0)
		comment->used = comment->used + (size_t)length < COMMENT_ROOM ? comment->used + (size_t)length :
			       COMMENT_ROOM - 1;
}

static const char *program(const struct vb_story *story, uint32_t pid, uint64_t host)
{
	for (size_t i = 0; i < story->events; i++)
		if (story->event[i].kind == VB_CAPTURE_PROCESS && story->event[i].pid == pid &&
		    story->event[i].host == host)
			return story->event[i].text;
	return "process";
}

static void describe(struct comment *comment, const struct vb_story *story, const struct vb_capture_record *note)
{
	if (note->flags & VB_CAPTURE_SENT) {
		say(comment, "sent by %s (pid %u), QP 0x%06x", program(story, note->pid, note->host), note->pid, note->qpn);
		if (note->flags & VB_CAPTURE_HAS_WR_ID)
			say(comment, ", wr_id %llu", (unsigned long long)note->wr_id);
	}
	if (note->flags & VB_CAPTURE_RECEIVED) {
		say(comment, "%sreceived by %s (pid %u), QP 0x%06x", comment->used ? "; " : "",
		    program(story, note->receiver, note->receiver_host), note->receiver, note->peer_qpn);
		if (note->flags & VB_CAPTURE_SENT)
			say(comment, ", %.1f us later", (double)(vb_story_elapsed(note->time, note->received)) / 1000);
	}
	if (note->flags & VB_CAPTURE_DROPPED)
		say(comment, "; LOST by fault injection: nobody receives it");
	if (note->flags & VB_CAPTURE_CORRUPTED)
		say(comment, "; DAMAGED by fault injection");
	if (note->flags & VB_CAPTURE_DUPLICATED)
		say(comment, "; a second time, by fault injection");
	if (note->flags & VB_CAPTURE_DELAYED)
		say(comment, "; held back by fault injection");
	if (note->flags & VB_CAPTURE_REFUSED)
		say(comment, "; dropped by the receiver: it is damaged");
}

static void say_event(struct comment *comment, const struct vb_capture_record *event)
{
	unsigned long long wr_id = event->wr_id;

	switch (event->kind) {
	case VB_CAPTURE_POST_SEND:
		say(comment, "\nposted: %s, wr_id %llu, %u bytes", vb_name_of_work(event->opcode), wr_id, event->length);
		break;
	case VB_CAPTURE_COMPLETION:
		say(comment, "\ncompleted: %s, wr_id %llu, QP 0x%06x, %s", event->status ? "work" :
		    vb_name_of_completion(event->opcode), wr_id, event->qpn, vb_name_of_status(event->status));
		break;
	case VB_CAPTURE_EVENT:
		say(comment, "\nevent: %s, QP 0x%06x", vb_name_of_event(event->status), event->qpn);
		break;
	case VB_CAPTURE_CM_EVENT:
		say(comment, "\nevent: %s", vb_name_of_cm_event(event->status));
		break;
	}
}

/* Is the event told with this packet? Posts with the first packet that leaves after them, the rest with the last that
 * arrived before. */
static bool belongs(const struct vb_capture_record *event, const struct vb_story_packet *packet)
{
	const struct vb_capture_record *note = &packet->note;

	if (event->kind == VB_CAPTURE_POST_SEND)
		return (note->flags & VB_CAPTURE_SENT) && note->pid == event->pid && note->qpn == event->qpn &&
		       note->time >= event->time &&
		       (!(note->flags & VB_CAPTURE_HAS_WR_ID) || note->wr_id == event->wr_id);
	return (note->flags & VB_CAPTURE_RECEIVED) && note->receiver == event->pid && note->received <= event->time &&
	       (event->qpn == 0 || note->peer_qpn == event->qpn);
}

/* For each event the packet with which it is told, or the number of packets: none. */
static size_t find_packet(const struct vb_story *story, const struct vb_capture_record *event)
{
	size_t low = 0, high = story->packets;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (vb_story_time(&story->packet[middle]) < event->time)
			low = middle + 1;
		else
			high = middle;
	}
	for (size_t i = 0; i < NEAR; i++) {
		size_t at = event->kind == VB_CAPTURE_POST_SEND ? low + i : low - 1 - i;

		if (at >= story->packets)
			break;
		if (belongs(event, &story->packet[at]))
			return at;
	}
	return story->packets;
}

/* Link types in the order of the file's interfaces. */
struct interfaces {
	uint16_t link_type[3];
	unsigned count;
};

static uint32_t interface_of(const struct interfaces *interfaces, uint16_t link_type)
{
	uint32_t i = 0;

	while (i < interfaces->count && interfaces->link_type[i] != link_type)
		i++;
	return i;
}

/* Raw IP is there from the beginning; others where there is a frame of theirs: some programs read files of one link type only. */
static void put_interfaces(const struct vb_story *story, struct vb_capture_buffer *buffer, struct interfaces *interfaces)
{
	*interfaces = (struct interfaces){{VB_FRAME_RAW}, 1};
	for (size_t i = 0; i < story->packets; i++) {
		uint16_t link_type = story->packet[i].link_type;

		if (interface_of(interfaces, link_type) < interfaces->count)
			continue;
		vb_pcapng_interface(buffer, link_type);
		interfaces->link_type[interfaces->count++] = link_type;
	}
}

static void put_all(const struct vb_story *story, struct vb_capture_buffer *buffer, const struct interfaces *interfaces, size_t *told)
{
	size_t next = 0;

	for (size_t i = 0; i < story->events; i++)
		told[i] = story->event[i].kind == VB_CAPTURE_POST_RECEIVE ||
			  story->event[i].kind == VB_CAPTURE_PROCESS ? story->packets :
			  find_packet(story, &story->event[i]);
	for (size_t i = 0; i < story->packets && !buffer->failed; i++) {
		const struct vb_story_packet *packet = &story->packet[i];
		struct comment comment = {.used = 0};
		int64_t time = vb_story_time(packet);

		for (; next < story->events && story->event[next].time <= time; next++)
			vb_pcapng_record(buffer, &story->event[next]);
		describe(&comment, story, &packet->note);
		/* Those told with it are near it in time: look some way to both sides. */
		for (size_t j = next > NEAR ? next - NEAR : 0; j < story->events && j < next + NEAR; j++)
			if (told[j] == i)
				say_event(&comment, &story->event[j]);
		vb_pcapng_record(buffer, &packet->note);
		vb_pcapng_packet(buffer, interface_of(interfaces, packet->link_type), time, packet->note.flags, packet->frame,
				 packet->frame_length, NULL, 0, comment.text);
	}
	for (; next < story->events; next++)
		vb_pcapng_record(buffer, &story->event[next]);
}

static int replace_file(const char *path, const struct vb_capture_buffer *buffer)
{
	char name[4096];
	size_t done = 0;
	int fd, error = 0;

	if (snprintf(name, sizeof(name), "%s.XXXXXX", path) >= (int)sizeof(name))
		return -ENAMETOOLONG;
	fd = mkostemp(name, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	while (error == 0 && done < buffer->used) {
		ssize_t written = write(fd, buffer->bytes + done, buffer->used - done);

		if (written < 0 && errno != EINTR)
			error = -errno;
		else if (written > 0)
			done += (size_t)written;
	}
	if (close(fd) != 0 && error == 0)
		error = -errno;
	if (error == 0 && rename(name, path) != 0)
		error = -errno;
	if (error != 0)
		unlink(name);
	return error;
}

int vb_story_encode(const struct vb_story *story, struct vb_capture_buffer *buffer)
{
	size_t *told = calloc(story->events + 1, sizeof(*told));
	struct interfaces interfaces;

	if (!told)
		return -ENOMEM;
	vb_pcapng_begin(buffer, story->clock);
	put_interfaces(story, buffer, &interfaces);
	put_all(story, buffer, &interfaces, told);
	free(told);
	return buffer->failed ? -ENOMEM : 0;
}

int vb_story_save(const struct vb_story *story, const char *path)
{
	struct vb_capture_buffer buffer = {0};
	int error = vb_story_encode(story, &buffer);

	if (error == 0)
		error = replace_file(path, &buffer);
	vb_capture_buffer_free(&buffer);
	return error;
}
