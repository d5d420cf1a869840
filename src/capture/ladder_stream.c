/* SPDX-License-Identifier: MIT
 *
 * What a ladder says of iWARP: MPA frames, FPDUs by what RDMAP calls them, the ends of a stream. One arrow is one FPDU; of a message of
 * several the last says so by having nothing to add.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "capture/ladder.h"
#include "capture/ladder_text.h"
#include "capture/story.h"
#include "wire/ddp.h"
#include "wire/fpdu.h"
#include "wire/mpa_frame.h"
#include "wire/rdmap_opcode.h"
#include "wire/terminate.h"

enum { TEXT = VB_LADDER_LABEL - 20, MORE = 88 };

/* A label, and what the details add to it. */
struct words {
	char text[TEXT], more[MORE];
};

static void frame_words(struct words *words, const struct vb_story_packet *packet)
{
	enum vb_mpa_kind kind = packet->kind == VB_STORY_MPA_REQUEST ? VB_MPA_REQUEST : VB_MPA_REPLY;
	struct vb_mpa_frame frame;
	char depths[40] = "";

	if (!vb_mpa_frame_decode(&frame, kind, packet->datagram, packet->length)) {
		snprintf(words->text, TEXT, "MPA %s", kind == VB_MPA_REQUEST ? "request" : "reply");
		return;
	}
	if (frame.enhanced)
		snprintf(depths, sizeof(depths), ", IRD %u, ORD %u", frame.ird, frame.ord);
	snprintf(words->text, TEXT, "MPA %s%s%s%s", kind == VB_MPA_REQUEST ? "request" : "reply", frame.reject ? ", rejected" : "", depths,
		 frame.crc ? ", CRC" : "");
	snprintf(words->more, MORE, ", revision %u%s%s%s, %u B of private data", frame.revision, frame.markers ? ", markers" : "",
		 frame.large ? ", long FPDUs welcome" : "", frame.peer_to_peer ? ", peer to peer" : "", frame.private_length);
}

static void terminate_words(struct words *words, const uint8_t *body, size_t length)
{
	struct vb_terminate terminate;

	if (!vb_terminate_decode(&terminate, body, length, false)) {
		snprintf(words->text, TEXT, "TERMINATE");
		return;
	}
	snprintf(words->text, TEXT, "TERMINATE %u/%u/%02x: %s", vb_terminate_layer(terminate.cause), vb_terminate_type(terminate.cause),
		 vb_terminate_code(terminate.cause), vb_terminate_code_name(terminate.cause));
	snprintf(words->more, MORE, ", %s: %s", vb_terminate_layer_name(terminate.cause), vb_terminate_type_name(terminate.cause));
}

/* The headers are there: op->header_length bytes at least. */
static void message_words(struct words *words, const struct vb_ddp_header *header, const struct vb_rdmap_opcode *op, const uint8_t *ulpdu,
			  size_t length)
{
	const uint8_t *body = ulpdu + vb_ddp_header_length(header);
	size_t payload = length - op->header_length;
	const char *rest = header->last ? "" : ", more to come";
	struct vb_rdmap_read read;

	if (op->kind == VB_RDMAP_KIND_TERMINATE)
		terminate_words(words, body, length - vb_ddp_header_length(header));
	else if (op->kind == VB_RDMAP_KIND_READ_REQUEST) {
		vb_rdmap_read_decode(&read, body);
		snprintf(words->text, TEXT, "%s MSN %u, for %u B", op->name, header->msn, read.size);
		snprintf(words->more, MORE, ", from STag 0x%x at 0x%llx, to STag 0x%x at 0x%llx", read.source_stag,
			 (unsigned long long)read.source_offset, read.sink_stag, (unsigned long long)read.sink_offset);
	} else if (op->tagged) {
		snprintf(words->text, TEXT, "%s %zu B%s", op->name, payload, rest);
		snprintf(words->more, MORE, ", STag 0x%x, tagged offset 0x%llx", header->stag, (unsigned long long)header->offset);
	} else {
		snprintf(words->text, TEXT, op->carries_payload ? "%s MSN %u, %zu B%s" : "%s MSN %u", op->name, header->msn, payload, rest);
		snprintf(words->more, MORE, ", queue %u, message offset %u", header->queue, header->mo);
	}
}

static void fpdu_words(struct vb_ladder_item *item, struct words *words, const struct vb_story_packet *packet)
{
	const uint8_t *ulpdu = packet->datagram + VB_FPDU_LENGTH_FIELD;
	size_t length = vb_fpdu_get_length(packet->datagram);
	struct vb_ddp_header header;
	const struct vb_rdmap_opcode *op;

	if (!vb_ddp_decode(&header, ulpdu, length)) {
		snprintf(words->text, TEXT, "FPDU of %zu B", length);
		return;
	}
	op = vb_rdmap_opcode(header.opcode);
	if (!op->name || op->tagged != header.tagged || length < op->header_length) {
		snprintf(words->text, TEXT, "FPDU of %zu B, RDMAP opcode %u", length, header.opcode);
		return;
	}
	item->folds = !header.last;
	if (op->kind == VB_RDMAP_KIND_TERMINATE)
		item->style = VB_LADDER_NAK;
	else if (op->kind == VB_RDMAP_KIND_READ_RESPONSE || op->kind == VB_RDMAP_KIND_ATOMIC_RESPONSE)
		item->style = VB_LADDER_RESPONSE;
	message_words(words, &header, op, ulpdu, length);
}

void vb_ladder_stream_text(struct vb_ladder_item *item, const struct vb_story_packet *packet)
{
	const struct vb_capture_record *note = &packet->note;
	char from[INET6_ADDRSTRLEN], to[INET6_ADDRSTRLEN], way[48] = "";
	struct words words = {"", ""};

	item->style = VB_LADDER_CM;
	switch (packet->kind) {
	case VB_STORY_MPA_REQUEST:
	case VB_STORY_MPA_REPLY:
		frame_words(&words, packet);
		break;
	case VB_STORY_FPDU:
		item->style = VB_LADDER_REQUEST;
		fpdu_words(item, &words, packet);
		break;
	default:
		snprintf(words.text, TEXT, "%s", packet->kind == VB_STORY_RST ? "TCP RST" : "TCP FIN");
	}
	snprintf(item->label, sizeof(item->label), "%s%s", words.text, item->damaged ? " (damaged)" : "");
	vb_ladder_address(packet->path.source, from, sizeof(from));
	vb_ladder_address(packet->path.destination, to, sizeof(to));
	if ((note->flags & VB_CAPTURE_SENT) && (note->flags & VB_CAPTURE_RECEIVED))
		snprintf(way, sizeof(way), ", %.1f us under way", (double)(vb_story_elapsed(note->time, note->received)) / 1000);
	snprintf(item->detail, sizeof(item->detail), "%s, from %s port %u to %s port %u%.87s%.30s", words.text, from,
		 packet->path.source_port, to, packet->tcp.destination_port, words.more, way);
}
