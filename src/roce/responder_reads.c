/* SPDX-License-Identifier: MIT
 *
 * Reads and atomics that the peer asked of us. Each takes one of max_dest_rd_atomic resources, in a ring: the
 * requester may not have more outstanding, so when the ring comes round the oldest is answered and acknowledged.
 * Until then it is kept, to be answered again: a read from memory, an atomic from the result kept here, because it
 * must not be executed twice (IBA 9.4.5, C9-150).
 *
 * A response is a snapshot, packet by packet; the application may change the memory at any time, and what it has when each
 * packet is made is what the peer gets.
 */
#include <stdlib.h>
#include <string.h>

#include "roce/engine.h"

static struct vb_roce_resource *resource_at(const struct vb_roce_responder *responder, uint32_t number)
{
	return &responder->resources[number % responder->resource_capacity];
}

/* Made at the first read, as most QPs never see one; and again where SQD allowed max_dest_rd_atomic to be raised. */
static bool enlarge(struct vb_roce_responder *responder, uint32_t capacity)
{
	struct vb_roce_resource *larger = calloc(capacity, sizeof(*larger));

	if (!larger)
		return false;
	for (uint32_t i = 0; i < responder->resource_count; i++)
		larger[i] = *resource_at(responder, responder->resource_head - responder->resource_count + i);
	free(responder->resources);
	responder->resources = larger;
	responder->resource_capacity = capacity;
	responder->resource_head = responder->resource_count;
	responder->owed_from = 0;
	return true;
}

enum vb_roce_room vb_roce_resources_room(struct vb_qp *qp)
{
	struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;
	struct vb_roce_resource *oldest;

	if (qp->attr.max_dest_rd_atomic == 0)
		return VB_ROOM_TOO_MANY;
	if (responder->resource_capacity < qp->attr.max_dest_rd_atomic &&
	    !enlarge(responder, qp->attr.max_dest_rd_atomic))
		return VB_ROOM_NO_MEMORY;
	oldest = resource_at(responder, responder->resource_head);
	/* A repetition that is still owed is moot: the requester would not ask for more if it had not got it. */
	return responder->resource_count == responder->resource_capacity && oldest->owed && !oldest->again ?
		       VB_ROOM_TOO_MANY :
		       VB_ROOM_YES;
}

void vb_roce_resources_clear(struct vb_roce_responder *responder)
{
	free(responder->resources);
	responder->resources = NULL;
	responder->resource_capacity = responder->resource_head = responder->resource_count = 0;
	responder->resources_owed = responder->owed_from = 0;
}

void vb_roce_resources_forget(struct vb_roce_responder *responder, const struct vb_srq *srq)
{
	for (uint32_t i = 1; i <= responder->resource_count; i++) {
		struct vb_roce_resource *resource = resource_at(responder, responder->resource_head - i);

		if (resource->srq != srq)
			continue;
		responder->resources_owed -= resource->owed;
		resource->owed = false;
		resource->packets = 0;
	}
}

/* The oldest that may be owed. 128 may be kept, and to pass over them with each run took a twentieth of a stream's time. */
static uint32_t first_owed(const struct vb_roce_responder *responder)
{
	uint32_t oldest = responder->resource_head - responder->resource_count;

	return (int32_t)(responder->owed_from - oldest) < 0 ? oldest : responder->owed_from;
}

/* That one is about to be. */
static void owe_from(struct vb_roce_responder *responder, uint32_t number)
{
	if (responder->resources_owed == 0 || (int32_t)(number - responder->owed_from) < 0)
		responder->owed_from = number;
}

/* Caller asked for room. */
static struct vb_roce_resource *take(struct vb_roce_responder *responder)
{
	struct vb_roce_resource *resource = resource_at(responder, responder->resource_head);

	if (responder->resource_count == responder->resource_capacity)
		responder->resources_owed -= resource->owed;
	else
		responder->resource_count++;
	owe_from(responder, responder->resource_head);
	responder->resource_head++;
	responder->resources_owed++;
	return resource;
}

void vb_roce_resources_add_read(struct vb_qp *qp, const struct vb_roce_packet *packet)
{
	struct vb_roce_engine *engine = vb_roce_engine(qp);

	*take(&engine->responder) = (struct vb_roce_resource){
		.owed = true,
		.singly = packet->singly,
		.first = packet->psn,
		.packets = vb_roce_packets(packet->reth.length, engine->mtu),
		.msn = engine->responder.msn,
		.pd = qp->pd,
		.srq = qp->srq,
		.rkey = packet->reth.rkey,
		.length = packet->reth.length,
		.address = packet->reth.address,
		.byte_end = packet->reth.length,
	};
}

void vb_roce_resources_add_atomic(struct vb_qp *qp, const struct vb_roce_packet *packet, uint64_t original)
{
	struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;

	*take(responder) = (struct vb_roce_resource){
		.is_atomic = true,
		.owed = true,
		.first = packet->psn,
		.packets = 1,
		.msn = responder->msn,
		.srq = qp->srq,
		.rkey = packet->atomic.rkey,
		.address = packet->atomic.address,
		.original = original,
	};
}

void vb_roce_resources_add_atomic_write(struct vb_qp *qp, const struct vb_roce_packet *packet)
{
	struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;

	*take(responder) = (struct vb_roce_resource){
		.is_atomic = true,
		.is_write = true,
		.owed = true,
		.first = packet->psn,
		.packets = 1,
		.msn = responder->msn,
		.rkey = packet->reth.rkey,
		.address = packet->reth.address,
	};
}

/* Newest first: of two that a wrapped PSN could mean, the newer is meant. */
static struct vb_roce_resource *find(struct vb_roce_responder *responder, struct psn psn, uint32_t *number)
{
	for (uint32_t i = 1; i <= responder->resource_count; i++) {
		struct vb_roce_resource *resource = resource_at(responder, responder->resource_head - i);

		*number = responder->resource_head - i;
		if (psn_ahead(psn, resource->first) < resource->packets)
			return resource;
	}
	return NULL;
}

/* C9-149: the repetition must lie within the original and mean the same bytes. */
static bool is_part_of(const struct vb_roce_resource *resource, const struct vb_roce_packet *packet, uint32_t mtu)
{
	uint64_t start = (uint64_t)psn_ahead(packet->psn, resource->first) * mtu;

	if (packet->op->kind == VB_KIND_ATOMIC_WRITE)
		return resource->is_write && packet->reth.address == resource->address && packet->reth.rkey == resource->rkey;
	if (packet->op->kind != VB_KIND_READ_REQUEST)
		return resource->is_atomic && !resource->is_write && packet->atomic.address == resource->address &&
		       packet->atomic.rkey == resource->rkey;
	return !resource->is_atomic && packet->reth.rkey == resource->rkey &&
	       packet->reth.address == resource->address + start && start <= resource->length &&
	       packet->reth.length <= resource->length - start &&
	       (packet->reth.length > 0 || resource->length == 0);
}

/* Behind those that lie before it. False: there is no room, or it overlaps with one. */
static bool add_part(struct vb_roce_resource *resource, uint32_t begin, uint32_t byte_end, uint32_t mtu)
{
	uint32_t at = 0;

	if (resource->parts == VB_ROCE_PARTS)
		return false;
	while (at < resource->parts && resource->part[at].begin < begin)
		at++;
	if ((at > 0 && resource->part[at - 1].byte_end > begin * mtu) ||
	    (at < resource->parts && resource->part[at].begin * mtu < byte_end))
		return false;
	memmove(&resource->part[at + 1], &resource->part[at], (resource->parts - at) * sizeof(resource->part[0]));
	resource->part[at].begin = begin;
	resource->part[at].byte_end = byte_end;
	resource->parts++;
	return true;
}

static bool is_to_come(const struct vb_roce_resource *resource, uint32_t begin, uint32_t byte_end)
{
	if (begin >= resource->next && byte_end <= resource->byte_end)
		return true;
	for (uint32_t i = 0; i < resource->parts; i++)
		if (begin >= resource->part[i].begin && byte_end <= resource->part[i].byte_end)
			return true;
	return false;
}

/* From packet `begin` on. */
static void answer_again(struct vb_roce_responder *responder, struct vb_roce_resource *resource, uint32_t begin,
			 uint32_t length, uint32_t mtu)
{
	uint32_t byte_end = begin * mtu + length;

	/* The answer is still under way and has not come there yet. */
	if (resource->owed && is_to_come(resource, begin, byte_end))
		return;
	/* A part of what was sent: then the answer goes on where it is. */
	if (resource->owed && byte_end <= resource->next * mtu && add_part(resource, resource->next, resource->byte_end, mtu)) {
		resource->begin = resource->next = begin;
		resource->byte_end = byte_end;
		resource->again = true;
		return;
	}
	/* Another part, behind the one that is being sent again. */
	if (resource->owed && resource->again && begin * mtu >= resource->byte_end && add_part(resource, begin, byte_end, mtu))
		return;
	/* One answer for all. */
	for (uint32_t i = 0; resource->owed && i < resource->parts; i++)
		if (resource->part[i].byte_end > byte_end)
			byte_end = resource->part[i].byte_end;
	resource->parts = 0;
	if (!resource->owed || byte_end > resource->byte_end)
		resource->byte_end = byte_end;
	if (!resource->owed || begin < resource->next)
		resource->begin = resource->next = begin;
	responder->resources_owed += !resource->owed;
	resource->owed = resource->again = true;
}

bool vb_roce_resources_repeat(struct vb_qp *qp, const struct vb_roce_packet *packet)
{
	struct vb_roce_engine *engine = vb_roce_engine(qp);
	struct vb_roce_responder *responder = &engine->responder;
	uint32_t number;
	struct vb_roce_resource *resource = find(responder, packet->psn, &number);

	if (!resource || !is_part_of(resource, packet, engine->mtu))
		return false;
	owe_from(responder, number);
	if (resource->is_atomic) {
		responder->resources_owed += !resource->owed;
		resource->owed = resource->again = true;
	} else {
		answer_again(responder, resource, psn_ahead(packet->psn, resource->first), packet->reth.length,
			     engine->mtu);
	}
	return true;
}

static bool send_atomic(struct vb_qp *qp, struct vb_roce_resource *resource, struct vb_burst *out)
{
	enum vb_roce_kind kind = resource->is_write ? VB_KIND_READ_RESPONSE : VB_KIND_ATOMIC_ACKNOWLEDGE;
	int opcode = vb_roce_opcode_find(vb_roce_service(qp), kind, VB_POSITION_ONLY, 0);
	struct vb_roce_packet packet;

	if (!vb_burst_has_room(out, 0))
		return false;
	vb_roce_prepare(qp, &packet, opcode, resource->first);
	packet.aeth.syndrome = vb_roce_acknowledge_syndrome(qp);
	packet.aeth.msn = resource->msn;
	packet.atomic_original = resource->original;
	vb_burst_append(out, &qp->path, &packet, NULL, 0);
	resource->owed = false;
	return true;
}

/* The memory was taken away after the request was accepted. */
static void refuse(struct vb_qp *qp, vb_time now, struct psn psn, struct vb_fault_record *why)
{
	int opcode = vb_roce_opcode_find(vb_roce_service(qp), VB_KIND_READ_REQUEST, VB_POSITION_ONLY, 0);
	struct vb_roce_packet packet;

	vb_roce_prepare(qp, &packet, opcode, psn);
	packet.reth.rkey = why->key;
	packet.reth.address = why->address;
	packet.reth.length = (uint32_t)why->length;
	vb_roce_responder_refuse(qp, now, &packet, VB_NAK_REMOTE_ACCESS_ERROR, why, IBV_WC_SUCCESS);
}

enum fetched { FETCHED, FETCH_NEEDS_ROOM, FETCH_FAILED };

static enum fetched fetch(struct vb_qp *qp, const struct vb_roce_resource *resource, uint32_t length,
			  struct vb_burst *out, struct iovec *span, struct vb_fault_record *why)
{
	struct vb_accessor who = {
		.pd = resource->pd,
		.qpn = qp->qpn,
		.key = resource->rkey,
		.rights = IBV_ACCESS_REMOTE_READ,
		.remote = true,
	};
	uint64_t address = resource->address + (uint64_t)resource->next * vb_roce_engine(qp)->mtu;
	struct vb_roce_range whole = {resource->pd, resource->address, resource->rkey, resource->length};

	if (!vb_burst_has_room(out, length))
		return FETCH_NEEDS_ROOM;
	*span = (struct iovec){out->scratch, length};
	if (length == 0)
		return FETCHED;
	/* A hold keeps the region until the packet is made, which a span would not: the copy is made from a plain pointer. */
	span->iov_base = vb_roce_hold_remote(qp, &vb_roce_engine(qp)->sending, &whole,
					     (uint32_t)(address - resource->address), length, who.rights);
	if (span->iov_base)
		return FETCHED;
	span->iov_base = out->scratch;
	return vb_memory_fetch(qp->host->memory, &who, address, span->iov_base, length, why) ? FETCHED : FETCH_FAILED;
}

VB_RARE static uint32_t append_staged(struct vb_qp *qp, const struct vb_roce_resource *resource, uint32_t count,
				      struct vb_roce_packet *packet, struct vb_burst *out)
{
	const struct vb_accessor who = {
		.pd = resource->pd,
		.qpn = qp->qpn,
		.key = resource->rkey,
		.rights = IBV_ACCESS_REMOTE_READ,
		.remote = true,
	};
	uint32_t mtu = vb_roce_engine(qp)->mtu, most = VB_ROCE_STAGED / mtu;
	struct vb_fault_record ignored;
	uint8_t bytes[VB_ROCE_STAGED];

	if (!vb_memory_has_gpu(qp->host->memory))
		return 0;
	if (count > most)
		count = most;
	/* What is refused is refused again, one by one. */
	if (!vb_memory_fetch(qp->host->memory, &who, resource->address + (uint64_t)resource->next * mtu, bytes, count * mtu, &ignored))
		return 0;
	return vb_burst_append_many(out, &qp->path, packet, bytes, mtu, count);
}

/* The answer has come as far as `next`. */
static void went_on(struct vb_roce_resource *resource, uint32_t mtu)
{
	if ((uint64_t)resource->next * mtu < resource->byte_end)
		return;
	resource->owed = resource->parts > 0;
	if (!resource->owed)
		return;
	resource->begin = resource->next = resource->part[0].begin;
	resource->byte_end = resource->part[0].byte_end;
	resource->parts--;
	memmove(&resource->part[0], &resource->part[1], resource->parts * sizeof(resource->part[0]));
}

static enum vb_roce_position position_of(const struct vb_roce_resource *resource, bool last)
{
	return resource->singly ? VB_POSITION_ONLY : vb_roce_position(resource->next == resource->begin, last);
}

/* How many packets there are from the next on that are all alike: those between the first and the last, or all whole ones. */
static uint32_t count_alike(const struct vb_roce_resource *resource, uint32_t mtu)
{
	uint32_t packets = vb_roce_packets(resource->byte_end, mtu);

	if (resource->singly)
		return resource->byte_end / mtu - resource->next;
	return resource->next == resource->begin || resource->next + 1 >= packets ? 0 : packets - 1 - resource->next;
}

/* Of the packets of a response that are alike as many as possible at once. Returns how many were sent; 0: they must be tried one by
 * one. */
static uint32_t send_read_alike(struct vb_qp *qp, struct vb_roce_resource *resource, struct vb_burst *out)
{
	uint32_t mtu = vb_roce_engine(qp)->mtu, count = count_alike(resource, mtu);
	struct vb_roce_range whole = {resource->pd, resource->address, resource->rkey, resource->length};
	struct vb_roce_packet packet;
	const uint8_t *bytes;
	uint32_t room;

	if (count == 0)
		return 0;
	room = vb_burst_run_room(out, resource->singly ? mtu + VB_AETH_LENGTH : mtu);
	/* What does not fill a run leaves with what follows it. */
	if (room == 0 && resource->singly)
		room = vb_burst_run_limit(mtu + VB_AETH_LENGTH);
	if (room > 0 && count > room)
		count = room;
	bytes = vb_roce_hold_remote(qp, &vb_roce_engine(qp)->sending, &whole, resource->next * mtu, count * mtu,
				    IBV_ACCESS_REMOTE_READ);
	vb_roce_prepare(qp, &packet,
			vb_roce_opcode_find(vb_roce_service(qp), VB_KIND_READ_RESPONSE, position_of(resource, false), 0),
			psn_add(resource->first, resource->next));
	packet.aeth.syndrome = vb_roce_acknowledge_syndrome(qp);
	packet.aeth.msn = resource->msn;
	count = bytes ? vb_burst_append_many(out, &qp->path, &packet, bytes, mtu, count) :
			append_staged(qp, resource, count, &packet, out);
	resource->next += count;
	went_on(resource, mtu);
	return count;
}

/* One packet of a read response, or several. Returns false when the burst is full. */
static bool send_read(struct vb_qp *qp, struct vb_roce_resource *resource, vb_time now, struct vb_burst *out)
{
	uint32_t mtu = vb_roce_engine(qp)->mtu;
	uint32_t length = vb_roce_payload(resource->byte_end, mtu, resource->next);
	bool last = (uint64_t)(resource->next + 1) * mtu >= resource->byte_end;
	struct psn psn = psn_add(resource->first, resource->next);
	struct vb_fault_record why = {0};
	struct vb_roce_packet packet;
	struct iovec span;

	/* The first and the last are longer than the others. The last best begins a burst, and a run with the first of the next
	 * response, if that was asked for meanwhile. */
	if (vb_burst_has_enough(out, resource->singly || resource->next == resource->begin || last ? length + VB_AETH_LENGTH : mtu))
		return false;
	if (send_read_alike(qp, resource, out) > 0)
		return true;
	switch (fetch(qp, resource, length, out, &span, &why)) {
	case FETCH_NEEDS_ROOM:
		return false;
	case FETCH_FAILED:
		resource->owed = false;
		refuse(qp, now, psn, &why);
		return true;
	case FETCHED:
		break;
	}
	vb_roce_prepare(qp, &packet,
			vb_roce_opcode_find(vb_roce_service(qp), VB_KIND_READ_RESPONSE,
					    position_of(resource, last), 0),
			psn);
	packet.aeth.syndrome = vb_roce_acknowledge_syndrome(qp);
	packet.aeth.msn = resource->msn;
	vb_burst_append(out, &qp->path, &packet, &span, length > 0);
	resource->next++;
	went_on(resource, mtu);
	return true;
}

bool vb_roce_resources_fill_run(const struct vb_roce_responder *responder, uint32_t mtu)
{
	uint32_t limit = vb_burst_run_limit(mtu + VB_AETH_LENGTH), packets = 0;

	for (uint32_t number = responder->resource_head; number != first_owed(responder) && packets < limit; number--) {
		const struct vb_roce_resource *resource = resource_at(responder, number - 1);

		if (resource->owed && !resource->singly)
			return false;
		if (resource->owed)
			packets += resource->byte_end / mtu - resource->next;
	}
	return packets >= limit;
}

bool vb_roce_resources_send(struct vb_qp *qp, vb_time now, struct vb_burst *out)
{
	struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;

	/* Oldest first: a requester takes responses in the order of their PSNs and no other. */
	for (uint32_t number = first_owed(responder); number != responder->resource_head && responder->resources_owed > 0; number++) {
		struct vb_roce_resource *resource = resource_at(responder, number);

		responder->owed_from = number;
		if (!resource->owed)
			continue;
		/* The response says that what came before was executed. */
		if (psn_before(responder->ack_psn, resource->first))
			responder->ack_owed = false;
		while (resource->owed) {
			if (!(resource->is_atomic ? send_atomic(qp, resource, out) : send_read(qp, resource, now, out)))
				return true;
		}
		responder->resources_owed--;
		/* Its memory is gone: the NAK is the last thing to be sent. */
		if (responder->fatal && psn_before(responder->nak_psn, psn_add(resource->first, resource->packets)) &&
		    !psn_before(responder->nak_psn, resource->first)) {
			responder->resources_owed = 0;
			break;
		}
	}
	return false;
}
