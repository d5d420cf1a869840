/* SPDX-License-Identifier: MIT
 *
 * Words of the specification, without the prefixes that are the same throughout a picture.
 */
#include "capture/ladder_text.h"

#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

#include "capture/frame.h"
#include "capture/ladder.h"
#include "capture/names.h"
#include "capture/record.h"
#include "capture/story.h"
#include "wire/cm_mad.h"
#include "wire/mad.h"
#include "wire/mad_attributes.h"
#include "wire/rnr_timer.h"

void vb_ladder_address(const uint8_t gid[16], char *out, size_t room)
{
	static const uint8_t none[16];

	if (memcmp(gid, none, sizeof(none)) == 0)
		snprintf(out, room, "?");
	else if (vb_frame_address_to_lid(gid) != 0)
		snprintf(out, room, "lid %u", vb_frame_address_to_lid(gid));
	else if (vb_gid_is_ipv4(gid))
		inet_ntop(AF_INET, gid + 12, out, (socklen_t)room);
	else
		inet_ntop(AF_INET6, gid, out, (socklen_t)room);
}

static const char *const nak_names[] = {
	"PSN sequence error", "invalid request", "remote access error", "remote operational error",
	"invalid RD request",
};

static void put_psn(char *out, size_t room, uint32_t psn, const struct vb_ladder_psn *how)
{
	if (how->absolute)
		snprintf(out, room, "0x%06x", psn);
	else
		snprintf(out, room, "%u", (psn - how->first) & 0xffffff);
}

static void acknowledge_text(char *out, size_t room, const struct vb_roce_packet *packet, const char *psn)
{
	unsigned value = packet->aeth.syndrome & VB_AETH_VALUE_MASK;

	switch (packet->aeth.syndrome & VB_AETH_TYPE_MASK) {
	case VB_AETH_ACK:
		snprintf(out, room, "ACK PSN %s, MSN %u", psn, packet->aeth.msn);
		break;
	case VB_AETH_RNR_NAK:
		snprintf(out, room, "RNR NAK PSN %s, wait %.2f ms", psn, (double)vb_rnr_timer_delay((uint8_t)value) / 1e6);
		break;
	default:
		snprintf(out, room, "NAK PSN %s: %s", psn,
			 value < sizeof(nak_names) / sizeof(nak_names[0]) ? nak_names[value] : "?");
	}
}

/* Of management: what is done to which attribute. */
static void mad_text(char *out, size_t room, const struct vb_roce_packet *packet)
{
	static const char *const methods[] = {[VB_MAD_GET] = "Get", [VB_MAD_SET] = "Set", [VB_MAD_SEND] = "Send", [VB_MAD_TRAP] = "Trap",
		[VB_MAD_REPORT] = "Report", [VB_MAD_TRAP_REPRESS] = "TrapRepress", [0x12] = "GetTable", [0x15] = "Delete"};
	struct vb_mad mad;
	const struct vb_attribute_row *row;
	enum vb_attribute attribute;
	uint8_t method;

	if (packet->payload_length < sizeof(mad)) {
		snprintf(out, room, "MAD, %u B", packet->payload_length);
		return;
	}
	memcpy(&mad, packet->payload, sizeof(mad));
	method = mad.method & 0x7f;
	attribute = vb_attribute_find(mad.mgmt_class, be16_get(mad.attribute));
	row = attribute != VB_ATTRIBUTE_UNKNOWN ? &vb_attributes[attribute] : NULL;
	snprintf(out, room, "%s%s %s%s", method < sizeof(methods) / sizeof(methods[0]) && methods[method] ? methods[method] : "MAD",
		 mad.method & VB_MAD_RESPONSE ? "Resp" : "", row ? row->name : mad.mgmt_class == VB_MAD_SA ? "of the SA" : "MAD",
		 mad.mgmt_class == VB_MAD_SMP_DIRECTED ? ", directed" : "");
}

static void cm_text(char *out, size_t room, const struct vb_roce_packet *packet)
{
	struct vb_cm_mad mad;

	if (vb_cm_mad_decode(&mad, packet->payload, packet->payload_length) != 0)
		mad_text(out, room, packet);
	else if (mad.attribute == VB_CM_REJ)
		snprintf(out, room, "CM REJ, reason %u", mad.rej.reason);
	else if (mad.attribute == VB_CM_REQ)
		snprintf(out, room, "CM REQ, QP 0x%06x, starting PSN 0x%06x", mad.req.local_qpn, mad.req.starting_psn);
	else if (mad.attribute == VB_CM_REP)
		snprintf(out, room, "CM REP, QP 0x%06x, starting PSN 0x%06x", mad.rep.local_qpn, mad.rep.starting_psn);
	else
		snprintf(out, room, "CM %s", vb_cm_attribute_name(mad.attribute));
}

/* "RC_" and the like: the same in the whole picture. */
static const char *without_service(const char *name)
{
	const char *rest = strchr(name, '_');

	return rest ? rest + 1 : name;
}

static void operation_text(char *out, size_t room, const struct vb_roce_packet *packet, const char *psn)
{
	const char *name = without_service(packet->op->name);

	switch (packet->op->kind) {
	case VB_KIND_READ_REQUEST:
		snprintf(out, room, "%s PSN %s, for %u B", name, psn, packet->reth.length);
		break;
	case VB_KIND_ATOMIC_CMP_SWP:
	case VB_KIND_ATOMIC_FETCH_ADD:
	case VB_KIND_ATOMIC_ACKNOWLEDGE:
		snprintf(out, room, "%s PSN %s", name, psn);
		break;
	default:
		snprintf(out, room, "%s PSN %s, %u B%s", name, psn, packet->payload_length, packet->piggybacks ? ", with an ACK" : "");
	}
}

static void detail_text(struct vb_ladder_item *item, const struct vb_story_packet *packet)
{
	const struct vb_capture_record *note = &packet->note;
	const struct vb_roce_packet *p = &packet->packet;
	char from[INET6_ADDRSTRLEN], to[INET6_ADDRSTRLEN], more[96] = "", with[40] = "", work[40] = "", way[48] = "";

	vb_ladder_address(packet->path.source, from, sizeof(from));
	vb_ladder_address(packet->path.destination, to, sizeof(to));
	if (p->op->headers & VB_HEADER_RETH)
		snprintf(more, sizeof(more), ", address 0x%llx, rkey 0x%x, length %u", (unsigned long long)p->reth.address,
			 p->reth.rkey, p->reth.length);
	if (p->piggybacks)
		snprintf(with, sizeof(with), ", acknowledges PSN 0x%06x", p->acknowledged.v);
	if (note->flags & VB_CAPTURE_HAS_WR_ID)
		snprintf(work, sizeof(work), ", wr_id %llu", (unsigned long long)note->wr_id);
	if ((note->flags & VB_CAPTURE_SENT) && (note->flags & VB_CAPTURE_RECEIVED))
		snprintf(way, sizeof(way), ", %.1f us under way", (double)(vb_story_elapsed(note->time, note->received)) / 1000);
	snprintf(item->detail, sizeof(item->detail), "%s, PSN 0x%06x, from %s to %s QP 0x%06x%s%s%s%s%s", p->op->name, p->psn.v,
		 from, to, p->destination_qpn, p->ack_request ? ", acknowledgement asked for" : "", more, with, work, way);
}

void vb_ladder_packet_text(struct vb_ladder_item *item, const struct vb_story_packet *packet,
			   const struct vb_ladder_psn *psn)
{
	const struct vb_roce_packet *p = &packet->packet;
	char number[16], text[VB_LADDER_LABEL - 20];
	const char *fate = "";

	put_psn(number, sizeof(number), p->psn.v, psn);
	if (p->destination_qpn == 0)
		mad_text(text, sizeof(text), p);
	else if (p->destination_qpn == 1)
		cm_text(text, sizeof(text), p);
	else if (p->op->kind == VB_KIND_ACKNOWLEDGE)
		acknowledge_text(text, sizeof(text), p, number);
	else
		operation_text(text, sizeof(text), p, number);
	if (item->lost)
		fate = " (lost)";
	else if (item->damaged)
		fate = " (damaged)";
	else if (packet->note.flags & VB_CAPTURE_DUPLICATED)
		fate = " (doubled)";
	else if (item->style == VB_LADDER_AGAIN)
		fate = " (again)";
	snprintf(item->label, sizeof(item->label), "%s%s", text, fate);
	item->folds = strstr(text, "_MIDDLE ") != NULL;
	detail_text(item, packet);
}

void vb_ladder_event_text(struct vb_ladder_item *item, const struct vb_capture_record *event)
{
	unsigned long long wr_id = event->wr_id;
	char *out = item->label;
	size_t room = sizeof(item->label);

	switch (event->kind) {
	case VB_CAPTURE_POST_SEND:
		item->style = VB_LADDER_POST;
		snprintf(out, room, "post %s, %u B, #wr_id %llu", vb_name_of_work(event->opcode), event->length, wr_id);
		break;
	case VB_CAPTURE_POST_RECEIVE:
		item->style = VB_LADDER_POST;
		snprintf(out, room, "post RECV, %u B, #wr_id %llu", event->length, wr_id);
		break;
	case VB_CAPTURE_COMPLETION:
		item->style = event->status == IBV_WC_SUCCESS ? VB_LADDER_DONE : VB_LADDER_ERROR;
		if (event->status == IBV_WC_SUCCESS)
			snprintf(out, room, "\xe2\x9c\x93 %s, #wr_id %llu", vb_name_of_completion(event->opcode), wr_id);
		else
			snprintf(out, room, "\xe2\x9c\x97 %s, #wr_id %llu", vb_name_of_status(event->status), wr_id);
		break;
	case VB_CAPTURE_CM_EVENT:
		item->style = VB_LADDER_NEWS;
		snprintf(out, room, "%s", vb_name_of_cm_event(event->status));
		break;
	default:
		item->style = event->status == IBV_EVENT_COMM_EST || event->status == IBV_EVENT_SQ_DRAINED ?
			      VB_LADDER_NEWS : VB_LADDER_ERROR;
		snprintf(out, room, "%s", vb_name_of_event(event->status));
	}
	if (event->kind == VB_CAPTURE_CM_EVENT)
		snprintf(item->detail, sizeof(item->detail), "RDMA_CM_EVENT_%s", vb_name_of_cm_event(event->status));
	else
		snprintf(item->detail, sizeof(item->detail), "QP 0x%06x, wr_id %llu (0x%llx), status %s", event->qpn, wr_id,
			 wr_id, event->kind == VB_CAPTURE_COMPLETION ? vb_name_of_status(event->status) : "-");
}

void vb_ladder_fold_text(struct vb_ladder_item *item, const struct vb_ladder_item *last)
{
	char before[VB_LADDER_LABEL];
	const char *psn;
	size_t head;

	memcpy(before, item->label, sizeof(before));
	if (!item->is_arrow) {
		head = strcspn(before, "#");
		snprintf(item->label, sizeof(item->label), "%.*s%u times", (int)head, before, item->times);
		return;
	}
	psn = strstr(last->label, "PSN ");
	if (!psn) {
		snprintf(item->label, sizeof(item->label), "%u \xc3\x97 %.80s", item->times, before);
		return;
	}
	/* "WRITE_MIDDLE PSN 1, 1024 B" and "WRITE_MIDDLE PSN 62, 1024 B": first to last. */
	before[strcspn(before, ",")] = '\0';
	snprintf(item->label, sizeof(item->label), "%u \xc3\x97 %.36s \xe2\x80\xa6 %.36s", item->times,
		 before, psn + 4);
}
