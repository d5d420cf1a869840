/* SPDX-License-Identifier: MIT */
#include "fabric/hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/links.h"
#include "wire/roce_packet.h"

/* How long the place of a host that is silent is kept for it. */
#define ABSENCE VB_SECONDS(60)

static void send_message(struct vb_fabric_hosts *hosts, const struct vb_cable_address *to, const union vb_cable_message *message)
{
	hosts->owner->send(hosts->context, to, message, vb_cable_length((enum vb_cable_kind)be16_get(message->header.kind)), NULL, 0);
}

/* Where a frame goes that leaves by the port's cable, and under which header. */
static const struct vb_cable_address *address_frame(const struct vb_fabric_hosts *hosts, const struct vb_fabric_port *port,
						    const uint8_t *bytes, size_t length, struct vb_cable_header *header)
{
	const struct vb_fabric_joined *joined = vb_container_of(port->cable, struct vb_fabric_joined, cable);
	const struct vb_direct_entry *direct = vb_direct_find(&joined->direct, hosts->now, bytes, length);

	*header = (struct vb_cable_header){.key = be32_of(direct ? direct->key : joined->cable.key), .kind = be16_of(VB_CABLE_FRAME)};
	return direct ? &direct->address : &joined->cable.address;
}

static bool transmit(void *context, struct vb_fabric_port *port, const uint8_t *bytes, size_t length)
{
	struct vb_fabric_hosts *hosts = context;
	const struct vb_cable_address *to;
	struct vb_cable_header header;

	if (!port->cable)
		return false;
	to = address_frame(hosts, port, bytes, length, &header);
	hosts->owner->send(hosts->context, to, &header, sizeof(header), bytes, length);
	return true;
}

/* A train lies as it came: each frame behind the header of the cable that it came by. It leaves from there under that of the other. */
static bool transmit_train(void *context, struct vb_fabric_port *port, const struct vb_fabric_train *train)
{
	struct vb_fabric_hosts *hosts = context;
	const struct vb_cable_address *to;
	struct vb_cable_header header;
	bool together = hosts->owner->send_run && train->stride == sizeof(header) + train->length;

	if (!port->cable)
		return false;
	to = address_frame(hosts, port, train->bytes, train->length, &header);
	for (unsigned i = 0; i < train->count; i++) {
		uint8_t *frame = train->bytes + i * train->stride;

		if (together)
			memcpy(frame - sizeof(header), &header, sizeof(header));
		else
			hosts->owner->send(hosts->context, to, &header, sizeof(header), frame, train->length);
	}
	if (together)
		hosts->owner->send_run(hosts->context, to, train->bytes - sizeof(header), train->stride, train->count);
	return true;
}

static void restarted(void *context, struct vb_fabric_port *port, vb_time now)
{
	(void)context;
	vb_cable_end_restarted(port->cable, now);
}

const struct vb_fabric_host vb_fabric_hosts_carrier = {.transmit = transmit, .transmit_train = transmit_train, .restarted = restarted};

void vb_fabric_hosts_init(struct vb_fabric_hosts *hosts, struct vb_fabric *fabric, const struct vb_fabric_hosts_owner *owner, void *context)
{
	*hosts = (struct vb_fabric_hosts){.fabric = fabric, .owner = owner, .context = context};
	vb_list_init(&hosts->joined);
}

void vb_fabric_hosts_fini(struct vb_fabric_hosts *hosts)
{
	VB_LIST_FOR_EACH(node, &hosts->joined) {
		struct vb_fabric_joined *joined = vb_container_of(node, struct vb_fabric_joined, node);
		union vb_cable_message message;

		vb_cable_begin(&message, VB_CABLE_LEAVE, joined->cable.key);
		send_message(hosts, &joined->cable.address, &message);
		vb_list_remove(node);
		vb_direct_fini(&joined->direct);
		free(joined);
	}
}

/* ---- places ---- */

static bool is_claimed(const struct vb_fabric_hosts *hosts, const struct vb_fabric_node *ghost)
{
	VB_LIST_FOR_EACH(node, &hosts->joined) {
		const struct vb_fabric_joined *joined = vb_container_of(node, struct vb_fabric_joined, node);

		if (joined->ghost && joined->ghost->node == ghost)
			return true;
	}
	return false;
}

/* The first port of an adapter that has a cable to a switch. */
static struct vb_fabric_port *joined_port(const struct vb_fabric_node *node)
{
	for (unsigned i = 1; i <= node->ports; i++)
		if (node->port[i].peer && node->port[i].peer->node->type == VB_NODE_SWITCH)
			return &node->port[i];
	return NULL;
}

static struct vb_fabric_port *free_port(const struct vb_fabric *fabric)
{
	for (struct vb_fabric_node *node = fabric->first; node; node = node->next)
		for (unsigned i = 1; node->type == VB_NODE_SWITCH && i <= node->ports; i++)
			if (!node->port[i].peer && !node->port[i].cable)
				return &node->port[i];
	return NULL;
}

/* A place for a host: a ghost's port, or a free port of a switch. NULL and why not. */
static struct vb_fabric_port *find_place(const struct vb_fabric_hosts *hosts, const char *wanted, struct vb_fabric_port **ghost,
					 const char **why)
{
	struct vb_fabric_port *port;

	*ghost = NULL;
	for (struct vb_fabric_node *node = hosts->fabric->first; node; node = node->next) {
		if (node->type == VB_NODE_SWITCH || (wanted[0] && strcmp(node->id, wanted) != 0))
			continue;
		if (is_claimed(hosts, node)) {
			*why = "another host stands in for this node already";
			if (wanted[0])
				return NULL;
			continue;
		}
		*ghost = joined_port(node);
		if (*ghost)
			return (*ghost)->peer;
	}
	if (wanted[0]) {
		*why = "no adapter of this name is in the fabric, joined to a switch";
		return NULL;
	}
	port = free_port(hosts->fabric);
	*why = "no port of a switch is free";
	return port;
}

static void say(struct vb_fabric_hosts *hosts, const struct vb_fabric_joined *joined, const char *what)
{
	const struct vb_fabric_port *port = joined->cable.port;
	char text[192];

	if (!hosts->owner->news)
		return;
	snprintf(text, sizeof(text), "%s %s %s[%u]", joined->description, what, port->node->id, port->number);
	hosts->owner->news(hosts->context, text);
}

static void release(struct vb_fabric_hosts *hosts, struct vb_fabric_joined *joined, vb_time now)
{
	struct vb_fabric_port *port = joined->cable.port;

	say(hosts, joined, "has left");
	vb_fabric_detach(port, now);
	if (joined->ghost)
		vb_fabric_join(port, joined->ghost, now);
	vb_list_remove(&joined->node);
	hosts->count--;
	if (hosts->last == joined)
		hosts->last = NULL;
	vb_direct_fini(&joined->direct);
	free(joined);
}

/* ---- joining ---- */

static void refuse(struct vb_fabric_hosts *hosts, const struct vb_cable_address *to, uint64_t nonce, const char *why)
{
	union vb_cable_message message;

	vb_cable_begin(&message, VB_CABLE_REFUSE, 0);
	message.refuse.nonce = be64_of(nonce);
	memcpy(message.refuse.why, why, strnlen(why, sizeof(message.refuse.why) - 1));
	send_message(hosts, to, &message);
}

static void accept(struct vb_fabric_hosts *hosts, const struct vb_fabric_joined *joined)
{
	const struct vb_fabric_port *port = joined->cable.port, *ghost = joined->ghost;
	union vb_cable_message message;
	struct vb_cable_accept *out = &message.accept;

	vb_cable_begin(&message, VB_CABLE_ACCEPT, joined->cable.key);
	out->nonce = be64_of(joined->nonce);
	out->node_guid = out->system_guid = be64_of(joined->guid);
	out->port_guid = be64_of(joined->guid + 1);
	out->ports = out->port = 1;
	out->vendor = be32_of(0x5642);
	out->device = be32_of(2);
	out->revision = be32_of(1);
	memcpy(out->description, joined->description, sizeof(out->description));
	if (ghost) {
		const struct vb_fabric_node *node = ghost->node;

		out->node_guid = be64_of(node->guid);
		out->system_guid = be64_of(node->system_guid);
		out->port_guid = be64_of(ghost->guids[0]);
		out->ports = node->ports;
		out->port = ghost->number;
		out->vendor = be32_of(node->vendor);
		out->device = be32_of(node->device);
		out->revision = be32_of(node->revision);
		memcpy(out->description, node->description, sizeof(out->description) - 1);
	}
	out->width = port->rate.width;
	out->speed = port->rate.speed;
	out->extended = port->rate.extended;
	snprintf(out->where, sizeof(out->where), "%.56s[%u]", port->node->id, port->number);
	send_message(hosts, &joined->cable.address, &message);
}

static uint32_t new_key(struct vb_fabric_hosts *hosts)
{
	for (;;) {
		uint32_t key = hosts->owner->random(hosts->context);
		bool taken = key == 0;

		VB_LIST_FOR_EACH(node, &hosts->joined)
			taken |= vb_container_of(node, struct vb_fabric_joined, node)->cable.key == key;
		if (!taken)
			return key;
	}
}

static struct vb_fabric_joined *find_nonce(const struct vb_fabric_hosts *hosts, uint64_t nonce)
{
	VB_LIST_FOR_EACH(node, &hosts->joined) {
		struct vb_fabric_joined *joined = vb_container_of(node, struct vb_fabric_joined, node);

		if (joined->nonce == nonce)
			return joined;
	}
	return NULL;
}

/* It has joined before and asks again: our answer was lost, or either of us was. The nonce is its own secret. */
static void welcome_back(struct vb_fabric_hosts *hosts, vb_time now, struct vb_fabric_joined *joined, const struct vb_cable_address *from)
{
	struct vb_fabric_port *port = joined->cable.port;

	if (port->cut)
		return;
	/* Its port is down: it has not heard us, though we have heard it. So ours begins anew, too, and the subnet manager is told. */
	if (vb_fabric_port_state(port) > VB_PORT_INIT)
		vb_fabric_link_restart(port, now);
	joined->cable.address = *from;
	joined->cable.has_seen = false;
	joined->cable.lost_at = now + VB_CABLE_PATIENCE;
	joined->cable.next_sign = now;
	accept(hosts, joined);
}

/* The adapter that was here under this GUID and is silent: its daemon has ended, and this is the next. False: whether it is silent is not
 * known yet; this one asks again. */
static bool forget_former(struct vb_fabric_hosts *hosts, vb_time now, uint64_t guid)
{
	bool known = true;

	VB_LIST_FOR_EACH(node, &hosts->joined) {
		struct vb_fabric_joined *joined = vb_container_of(node, struct vb_fabric_joined, node);

		if (joined->guid != guid)
			continue;
		if (!joined->cable.port->cable_is_alive)
			release(hosts, joined, now);
		else
			known &= !vb_cable_end_doubt(&joined->cable, now);
	}
	return known;
}

static void on_join(struct vb_fabric_hosts *hosts, vb_time now, const struct vb_cable_address *from, const struct vb_cable_join *join)
{
	struct vb_fabric_joined *joined = find_nonce(hosts, be64_get(join->nonce));
	struct vb_fabric_port *place, *ghost;
	const char *why = "";

	if (joined) {
		welcome_back(hosts, now, joined, from);
		return;
	}
	if (be16_get(join->version) != VB_CABLE_VERSION) {
		refuse(hosts, from, be64_get(join->nonce),
			"the fabric speaks another version of the protocol: use the same release at both ends");
		return;
	}
	if (!forget_former(hosts, now, be64_get(join->guid)))
		return;
	place = hosts->count < VB_FABRIC_MOST_HOSTS ? find_place(hosts, join->wanted, &ghost, &why) : NULL;
	joined = place ? calloc(1, sizeof(*joined)) : NULL;
	if (!joined) {
		refuse(hosts, from, be64_get(join->nonce), place ? "out of memory" : why);
		return;
	}
	joined->nonce = be64_get(join->nonce);
	joined->guid = be64_get(join->guid);
	joined->ghost = ghost;
	joined->forget_at = VB_TIME_NEVER;
	memcpy(joined->description, join->description, sizeof(joined->description));
	if (ghost) {
		/* The ghost keeps what it is, and has no cable until the host leaves. */
		ghost->peer = NULL;
		place->peer = NULL;
		vb_fabric_detach(ghost, now);
		vb_fabric_detach(place, now);
	}
	vb_cable_end_init(&joined->cable, from, new_key(hosts), place, now);
	vb_list_append(&hosts->joined, &joined->node);
	hosts->count++;
	accept(hosts, joined);
	say(hosts, joined, "has joined at");
}

static struct vb_fabric_joined *find_key(const struct vb_fabric_hosts *hosts, uint32_t key, const struct vb_cable_address *from)
{
	VB_LIST_FOR_EACH(node, &hosts->joined) {
		struct vb_fabric_joined *joined = vb_container_of(node, struct vb_fabric_joined, node);

		if (joined->cable.key == key && joined->cable.address.port == from->port &&
		    memcmp(joined->cable.address.gid, from->gid, 16) == 0)
			return joined;
	}
	return NULL;
}

/* A host that had joined a fabric which was here before us: so it need not wait to find out. */
static void disown(struct vb_fabric_hosts *hosts, const struct vb_cable_address *from, uint32_t key)
{
	union vb_cable_message message;

	vb_cable_begin(&message, VB_CABLE_LEAVE, key);
	send_message(hosts, from, &message);
}

/* ---- processes with sockets of their own ---- */

/* From verbenad alone, which has the cable's key and its address. Who cannot be reached where verbenad says gets his frames from it. */
static void on_slot(struct vb_fabric_hosts *hosts, vb_time now, const struct vb_cable_address *from, const struct vb_cable_slot *slot)
{
	struct vb_fabric_joined *joined = find_key(hosts, be32_get(slot->header.key), from);
	struct vb_cable_address process = *from;
	union vb_cable_message message;

	process.port = be16_get(slot->port);
	if (!joined || joined->cable.port->cut || process.port == 0 || memcmp(slot->gid, from->gid, sizeof(slot->gid)) != 0 ||
	    !vb_direct_announce(&joined->direct, now, &process, slot))
		return;
	vb_cable_begin(&message, VB_CABLE_SLOT, be32_get(slot->slot_key));
	message.slot.header.slot = slot->header.slot;
	message.slot.slot_key = slot->slot_key;
	message.slot.generation = slot->generation;
	memcpy(message.slot.gid, hosts->meeting, sizeof(message.slot.gid));
	send_message(hosts, &process, &message);
}

const struct vb_cable_address *vb_fabric_hosts_plug(struct vb_fabric_hosts *hosts, vb_time now, uint16_t slot, uint32_t key,
						    uint16_t memory)
{
	VB_LIST_FOR_EACH(node, &hosts->joined) {
		struct vb_fabric_joined *joined = vb_container_of(node, struct vb_fabric_joined, node);
		const struct vb_direct_entry *entry = vb_direct_plug(&joined->direct, now, slot, key, memory);

		if (entry)
			return &entry->address;
	}
	return NULL;
}

void vb_fabric_hosts_unplug(struct vb_fabric_hosts *hosts, uint16_t slot, uint16_t memory)
{
	VB_LIST_FOR_EACH(node, &hosts->joined)
		vb_direct_unplug(&vb_container_of(node, struct vb_fabric_joined, node)->direct, slot, memory);
}

static bool is_of(const struct vb_fabric_joined *joined, vb_time now, const struct vb_cable_header *header,
		  const struct vb_cable_address *from)
{
	return vb_direct_knows(&joined->direct, now, be16_get(header->slot), be32_get(header->key), from);
}

static struct vb_fabric_joined *find_process(struct vb_fabric_hosts *hosts, vb_time now, const struct vb_cable_header *header,
					     const struct vb_cable_address *from)
{
	if (hosts->last && is_of(hosts->last, now, header, from))
		return hosts->last;
	VB_LIST_FOR_EACH(node, &hosts->joined) {
		struct vb_fabric_joined *joined = vb_container_of(node, struct vb_fabric_joined, node);

		if (is_of(joined, now, header, from)) {
			hosts->last = joined;
			return joined;
		}
	}
	return NULL;
}

static void receive_directly(struct vb_fabric_hosts *hosts, vb_time now, const struct vb_cable_header *header,
			     const struct vb_cable_address *from, const struct vb_fabric_train *train)
{
	struct vb_fabric_joined *joined = find_process(hosts, now, header, from);
	struct vb_fabric_port *port = joined ? joined->cable.port : NULL;

	if (!port || port->cut)
		return;
	if (!vb_direct_may_send(port, train->bytes, train->length))
		port->counters.receive_constraints += train->count;
	else if (train->count > 1)
		vb_fabric_receive_train(hosts->fabric, now, port, train);
	else
		vb_fabric_receive(hosts->fabric, now, port, train->bytes, train->length);
}

void vb_fabric_hosts_receive(struct vb_fabric_hosts *hosts, vb_time now, const struct vb_cable_address *from, uint8_t *bytes, size_t length)
{
	enum vb_cable_kind kind = vb_cable_check(bytes, length);
	struct vb_fabric_joined *joined;
	union vb_cable_message message;
	struct vb_cable_header header;

	if (kind == 0)
		return;
	hosts->now = now;
	memcpy(&header, bytes, sizeof(header));
	if (kind == VB_CABLE_FRAME && be16_get(header.slot) != 0) {
		struct vb_fabric_train train = {
			.bytes = bytes + sizeof(header), .length = length - sizeof(header), .stride = length, .count = 1};

		receive_directly(hosts, now, &header, from, &train);
		return;
	}
	if (kind == VB_CABLE_SLOT) {
		memcpy(&message, bytes, length);
		on_slot(hosts, now, from, &message.slot);
		return;
	}
	if (kind == VB_CABLE_JOIN) {
		memcpy(&message, bytes, length);
		on_join(hosts, now, from, &message.join);
		return;
	}
	joined = find_key(hosts, be32_get(header.key), from);
	if (!joined) {
		if (kind == VB_CABLE_KEEP_ALIVE)
			disown(hosts, from, be32_get(header.key));
		return;
	}
	joined->forget_at = VB_TIME_NEVER;
	if (kind == VB_CABLE_FRAME) {
		if (!joined->cable.port->cut)
			vb_fabric_receive(hosts->fabric, now, joined->cable.port, bytes + sizeof(header), length - sizeof(header));
	} else if (kind == VB_CABLE_KEEP_ALIVE) {
		memcpy(&message, bytes, length);
		vb_cable_end_heard(&joined->cable, now, &message.keep_alive);
	} else if (kind == VB_CABLE_LEAVE) {
		release(hosts, joined, now);
	}
}

/* How many datagrams, of `segment` bytes and from the first on, are a train: of one process, for one queue pair of an application's. */
static unsigned count_train(const uint8_t *bytes, size_t length, size_t segment)
{
	const size_t header = VB_CABLE_HEADER_LENGTH;
	struct vb_ib_frame frame;
	struct vb_cable_header cable;
	unsigned count = 1;
	size_t alike;

	if (2 * segment > length || vb_cable_check(bytes, segment) != VB_CABLE_FRAME ||
	    !vb_ib_frame_decode(&frame, bytes + header, segment - header))
		return 1;
	memcpy(&cable, bytes, sizeof(cable));
	if (be16_get(cable.slot) == 0)
		return 1;
	alike = (size_t)(frame.bth - bytes);
	while ((count + 1) * segment <= length && memcmp(bytes + count * segment, bytes, alike) == 0 &&
	       vb_bth_destination_qpn(frame.bth + count * segment) == vb_bth_destination_qpn(frame.bth))
		count++;
	return count;
}

void vb_fabric_hosts_receive_bundle(struct vb_fabric_hosts *hosts, vb_time now, const struct vb_cable_address *from, uint8_t *bytes,
				    size_t length, size_t segment)
{
	for (size_t at = 0; at < length;) {
		size_t own = length - at < segment ? length - at : segment;
		unsigned count = count_train(bytes + at, length - at, own);
		struct vb_cable_header header;

		if (count == 1) {
			vb_fabric_hosts_receive(hosts, now, from, bytes + at, own);
		} else {
			struct vb_fabric_train train = {
				.bytes = bytes + at + sizeof(header), .length = own - sizeof(header), .stride = own, .count = count};

			hosts->now = now;
			memcpy(&header, bytes + at, sizeof(header));
			receive_directly(hosts, now, &header, from, &train);
		}
		at += count * own;
	}
}

/* ---- time ---- */

vb_time vb_fabric_hosts_deadline(const struct vb_fabric_hosts *hosts)
{
	vb_time deadline = VB_TIME_NEVER;

	VB_LIST_FOR_EACH(node, &hosts->joined) {
		const struct vb_fabric_joined *joined = vb_container_of(node, struct vb_fabric_joined, node);

		deadline = vb_time_earlier(deadline, vb_cable_end_deadline(&joined->cable));
		deadline = vb_time_earlier(deadline, joined->forget_at);
	}
	return deadline;
}

void vb_fabric_hosts_expire(struct vb_fabric_hosts *hosts, vb_time now)
{
	hosts->now = now;
	VB_LIST_FOR_EACH(node, &hosts->joined) {
		struct vb_fabric_joined *joined = vb_container_of(node, struct vb_fabric_joined, node);
		union vb_cable_message message;

		if (vb_cable_end_expire(&joined->cable, now, &message))
			send_message(hosts, &joined->cable.address, &message);
		if (joined->cable.port->cable_is_alive || joined->cable.port->cut)
			joined->forget_at = VB_TIME_NEVER;
		else if (joined->forget_at == VB_TIME_NEVER)
			joined->forget_at = now + ABSENCE;
		else if (now >= joined->forget_at)
			release(hosts, joined, now);
	}
}
