/* SPDX-License-Identifier: MIT
 *
 * Datagrams of any bytes at both ends of a cable: from strangers, and from who knows the key. An input is the
 * datagram; its first byte says to which end, and whether the key and the kind are right.
 */
#include <string.h>

#include "fabric/adapter.h"
#include "fabric/hosts.h"
#include "fabric/topology.h"
#include "target.h"

static struct vb_fabric fabric;
static struct vb_fabric_hosts hosts;
static struct vb_adapter adapter;
static uint8_t answer[512];
static size_t answer_length;

static void keep(void *context, const struct vb_cable_address *to, const void *head, size_t head_length, const void *body,
		 size_t body_length)
{
	(void)context;
	(void)to;
	(void)body;
	if (body_length == 0 && head_length <= sizeof(answer)) {
		memcpy(answer, head, head_length);
		answer_length = head_length;
	}
}

static uint32_t key(void *context)
{
	(void)context;
	return 0x11223344;
}

static void ignore_joined(void *context, int error, const char *text)
{
	(void)context;
	(void)error;
	FUZZ_CHECK(strlen(text) < 200);
}

static void ignore_changed(void *context, unsigned what)
{
	(void)context;
	(void)what;
}

static void ignore_mad(void *context, void *owner, uint32_t agent, int status, const struct vb_mad_address *address, const void *message,
		       size_t length)
{
	(void)context;
	(void)owner;
	(void)agent;
	(void)status;
	(void)address;
	(void)message;
	(void)length;
}

static const struct vb_adapter_host adapter_host = {
	.send = keep,
	.joined = ignore_joined,
	.changed = ignore_changed,
	.agents = {.deliver = ignore_mad},
};
static const struct vb_fabric_hosts_owner owner = {.send = keep, .random = key};
static const struct vb_cable_address there = {.gid = {1}, .port = 1}, here = {.gid = {2}, .port = 2};

static void begin(void)
{
	static const char topology[] = "Switch 3 \"S1\"\n[1] \"H1\"[1]\nCa 1 \"H1\"\n";
	struct vb_topology_error error;

	vb_fabric_init(&fabric, &vb_fabric_hosts_carrier, &hosts);
	vb_fabric_hosts_init(&hosts, &fabric, &owner, NULL);
	FUZZ_CHECK(vb_topology_read(&fabric, topology, sizeof(topology) - 1, 0, &error) == 0);
	vb_adapter_init(&adapter, &adapter_host, &adapter);
	FUZZ_CHECK(vb_adapter_join(&adapter, 1, &there, 0x100, 77, 5, "host", "") == 0);
	vb_fabric_hosts_receive(&hosts, 1, &here, answer, answer_length);
	vb_adapter_receive(&adapter, 1, &there, answer, answer_length);
	FUZZ_CHECK(adapter.state == VB_ADAPTER_JOINED && hosts.count == 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length)
{
	uint8_t bytes[4400];
	struct vb_cable_header header;

	if (length < 2)
		return 0;
	begin();
	length = length - 1 < sizeof(bytes) ? length - 1 : sizeof(bytes);
	memcpy(bytes, input + 1, length);
	if (length >= sizeof(header)) {
		memcpy(&header, bytes, sizeof(header));
		if (input[0] & 2)
			header.key = be32_of(0x11223344);
		if (input[0] & 4)
			header.kind = be16_of(1 + be16_get(header.kind) % 7);
		memcpy(bytes, &header, sizeof(header));
		/* Lengths that fit, so that what is inside is looked at. */
		if (input[0] & 8 && be16_get(header.kind) >= VB_CABLE_KEEP_ALIVE && be16_get(header.kind) <= VB_CABLE_SLOT) {
			size_t right = vb_cable_length((enum vb_cable_kind)be16_get(header.kind));

			memset(bytes + length, 0, length < right ? right - length : 0);
			length = right;
			if (be16_get(header.kind) == VB_CABLE_SLOT)
				memcpy(bytes + offsetof(struct vb_cable_slot, gid), here.gid, sizeof(here.gid));
		}
	}
	/* One datagram, or a bundle of some. */
	if (input[0] & 1 && input[0] & 32)
		vb_fabric_hosts_receive_bundle(&hosts, 2, input[0] & 16 ? &there : &here, bytes, length, 32 + 4 * (input[0] >> 6));
	else if (input[0] & 1)
		vb_fabric_hosts_receive(&hosts, 2, input[0] & 16 ? &there : &here, bytes, length);
	else
		vb_adapter_receive(&adapter, 2, &there, bytes, length);
	for (vb_time now = VB_SECONDS(1); now < VB_SECONDS(70); now += VB_SECONDS(4)) {
		vb_fabric_hosts_expire(&hosts, now);
		vb_adapter_expire(&adapter, now);
	}
	FUZZ_CHECK(hosts.count <= 2 && fabric.waiting_count == 0);
	vb_adapter_fini(&adapter);
	vb_fabric_hosts_fini(&hosts);
	vb_fabric_fini(&fabric);
	return 0;
}
