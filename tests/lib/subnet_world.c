/* SPDX-License-Identifier: MIT */
#include "lib/subnet_world.h"

#include <string.h>

#include "fabric/links.h"
#include "wire/cable.h"
#include "wire/ib_packet.h"

enum { KEY = 5, NONCE = 7 };

static const struct vb_cable_address far_end = {.gid = {[10] = 0xff, [11] = 0xff, 10, 0, 0, 9}, .port = VB_CABLE_PORT};

static void take_frame(struct subnet_world *world, const void *bytes, size_t length)
{
	struct vb_mad_address address;
	struct vb_ib_frame frame;
	struct vb_mad mad;

	if (!vb_ib_frame_decode(&frame, bytes, length) || !vb_mad_frame_decode(&address, &mad, &frame, bytes, length))
		return;
	if (mad.mgmt_class == VB_MAD_SA)
		memcpy(&world->sent[world->sent_count++ % SUBNET_WORLD_MADS], &mad, sizeof(mad));
}

static void send(void *context, const struct vb_cable_address *to, const void *head, size_t head_length, const void *body,
		 size_t body_length)
{
	struct vb_cable_header header;

	(void)to;
	(void)head_length;
	memcpy(&header, head, sizeof(header));
	if (be16_get(header.kind) == VB_CABLE_FRAME)
		take_frame(context, body, body_length);
}

static void joined(void *context, int error, const char *text)
{
	(void)context;
	(void)error;
	(void)text;
}

/* As verbenad does (daemon/adapter_service.c). */
static void changed(void *context, unsigned what)
{
	struct subnet_world *world = context;

	if (what & (VB_FABRIC_STATE_CHANGED | VB_FABRIC_LID_CHANGED | VB_FABRIC_SM_CHANGED | VB_FABRIC_REREGISTER))
		vb_subnet_client_register(&world->client);
}

static void deliver(void *context, void *owner, uint32_t agent, int status, const struct vb_mad_address *address, const void *message,
		    size_t length)
{
	struct subnet_world *world = context;

	vb_subnet_client_deliver(owner, world->now, agent, status, address, message, length);
}

static void answered(void *context, const struct vb_subnet_answer *answer)
{
	struct subnet_world *world = context;

	world->answer = *answer;
	world->answers++;
}

static void connection_mad(void *context, vb_time now, const struct vb_path *from, const void *mad, size_t length)
{
	(void)now;
	(void)from;
	(void)mad;
	(void)length;
	((struct subnet_world *)context)->connection_mads++;
}

static unsigned addresses(void *context, uint8_t address[VB_SUBNET_ADDRESSES][16])
{
	static const uint8_t ours[2][16] = {{[10] = 0xff, [11] = 0xff, 10, 0, 0, 1}, {0xfd, 0x77, [15] = 1}};

	(void)context;
	memcpy(address, ours, sizeof(ours));
	return 2;
}

static const struct vb_adapter_host adapter_host = {
	.send = send, .joined = joined, .changed = changed, .agents = {.deliver = deliver}};

static void receive(struct subnet_world *world, void *bytes, size_t length)
{
	vb_adapter_receive(&world->adapter, world->now, &far_end, bytes, length);
}

void subnet_world_receive(struct subnet_world *world, const struct vb_sa_mad *sa)
{
	struct vb_mad_address address = {
		.route = {.dlid = SUBNET_WORLD_LID, .slid = SUBNET_WORLD_SM_LID},
		.qpn = 1,
		.source_qpn = 1,
		.qkey = VB_GSI_QKEY,
		.pkey = 0xffff,
	};
	uint8_t bytes[sizeof(struct vb_cable_header) + VB_IB_MAD_FRAME];
	struct vb_cable_header header = {.key = be32_of(KEY), .kind = be16_of(VB_CABLE_FRAME)};
	struct vb_mad mad;

	memcpy(&mad, sa, sizeof(mad));
	memcpy(bytes, &header, sizeof(header));
	receive(world, bytes, sizeof(header) + vb_mad_frame_encode(&address, &mad, bytes + sizeof(header)));
}

static void plug_in(struct subnet_world *world)
{
	union vb_cable_message message;

	(void)vb_adapter_join(&world->adapter, world->now, &far_end, 0x1234, NONCE, 5, "host", "");
	vb_cable_begin(&message, VB_CABLE_ACCEPT, KEY);
	message.accept.nonce = be64_of(NONCE);
	message.accept.system_guid = message.accept.node_guid = message.accept.port_guid = be64_of(0x1234);
	message.accept.width = 2;
	message.accept.speed = 4;
	message.accept.ports = message.accept.port = 1;
	receive(world, &message, sizeof(message.accept));
	vb_cable_begin(&message, VB_CABLE_KEEP_ALIVE, KEY);
	receive(world, &message, sizeof(message.keep_alive));
}

void subnet_world_begin(struct subnet_world *world)
{
	static struct vb_subnet_host host = {.answered = answered, .connection_mad = connection_mad, .addresses = addresses};

	memset(world, 0, sizeof(*world));
	world->now = VB_SECONDS(1);
	host.context = world;
	vb_adapter_init(&world->adapter, &adapter_host, world);
	vb_subnet_client_init(&world->client, &world->adapter, &host);
	plug_in(world);
	vb_subnet_client_node_changed(&world->client, world->now);
	world->adapter.port->info.lid = be16_of(SUBNET_WORLD_LID);
	world->adapter.port->info.sm_lid = be16_of(SUBNET_WORLD_SM_LID);
	vb_fabric_port_set_state(world->adapter.port, VB_PORT_ACTIVE, world->now);
	vb_subnet_client_register(&world->client);
}

void subnet_world_end(struct subnet_world *world)
{
	vb_subnet_client_fini(&world->client);
	vb_adapter_fini(&world->adapter);
}

void subnet_world_run(struct subnet_world *world, vb_time until)
{
	union vb_cable_message message;

	for (;;) {
		vb_time next = vb_time_earlier(vb_adapter_deadline(&world->adapter), vb_subnet_client_deadline(&world->client));

		if (next > until)
			break;
		world->now = next > world->now ? next : world->now;
		/* The other end is alive. */
		vb_cable_begin(&message, VB_CABLE_KEEP_ALIVE, KEY);
		receive(world, &message, sizeof(message.keep_alive));
		vb_adapter_expire(&world->adapter, world->now);
		vb_subnet_client_run(&world->client, world->now);
		vb_fabric_run(&world->adapter.fabric, world->now);
	}
	world->now = until;
}

const struct vb_sa_mad *subnet_world_sent(const struct subnet_world *world, enum vb_sa_attribute attribute)
{
	unsigned least = world->sent_count > SUBNET_WORLD_MADS ? world->sent_count - SUBNET_WORLD_MADS : 0;

	for (unsigned i = world->sent_count; i-- > least;)
		if (be16_get(world->sent[i % SUBNET_WORLD_MADS].header.attribute) == attribute)
			return &world->sent[i % SUBNET_WORLD_MADS];
	return NULL;
}
