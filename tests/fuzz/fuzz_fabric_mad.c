/* SPDX-License-Identifier: MIT
 *
 * Frames and MADs against a switch with an adapter on each side: any bytes as a frame, or as a MAD of a class that
 * somebody answers. Whatever is asked, nothing stays behind, and the states of ports are those that there are.
 */
#include <string.h>

#include "fabric/fabric.h"
#include "fabric/topology.h"
#include "target.h"

static const char topology[] =
	"Switch 20 \"S1\"\n[1] \"H1\"[1]\n[2] \"H2\"[1]\n[3] \"S2\"[3]\n[4] \"S2\"[4]\n"
	"Switch 4 \"S2\"\nCa 1 \"H1\"\nCa 2 \"H2\"\n";

static bool transmit(void *context, struct vb_fabric_port *port, const uint8_t *bytes, size_t length)
{
	(void)context;
	(void)port;
	(void)bytes;
	(void)length;
	return true;
}

static void check(const struct vb_fabric *fabric)
{
	FUZZ_CHECK(fabric->waiting_count == 0);
	for (const struct vb_fabric_node *node = fabric->first; node; node = node->next)
		for (unsigned i = node->type == VB_NODE_SWITCH ? 0 : 1; i <= node->ports; i++) {
			enum vb_port_state state = vb_fabric_port_state(&node->port[i]);
			const struct vb_fabric_port *peer = node->port[i].peer;

			FUZZ_CHECK(state >= VB_PORT_DOWN && state <= VB_PORT_ACTIVE);
			FUZZ_CHECK(node->port[i].info.mtu_sm_sl >> 4 <= 5);
			/* Both ends of a cable are down, or neither. */
			FUZZ_CHECK(!peer || (state == VB_PORT_DOWN) == (vb_fabric_port_state(peer) == VB_PORT_DOWN));
		}
}

/* The input as a MAD that comes in by port 1; its first byte says of which class and by which way. */
static size_t make_mad(uint8_t choice, const uint8_t *input, size_t length, uint8_t *frame)
{
	static const uint8_t classes[] = {VB_MAD_SMP_DIRECTED, VB_MAD_SMP_LID, VB_MAD_PERFORMANCE, VB_MAD_SMP_DIRECTED};
	static const uint16_t attributes[] = {0x10, 0x11, 0x12, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19,
		 0x1b, 0x20, 0x1d, 0x01, 0x02, 0x15, 0x12};
	struct vb_mad_address address = {.route = {.dlid = choice & 4 ? 5 : VB_PERMISSIVE_LID, .slid = 9, .vl = 15}, .pkey = 0xffff};
	struct vb_mad mad = {0};
	struct vb_smp *smp = (struct vb_smp *)(void *)&mad;

	memcpy(&mad, input, length < sizeof(mad) ? length : sizeof(mad));
	mad.base_version = 1;
	mad.class_version = 1;
	mad.mgmt_class = classes[choice & 3];
	mad.method = choice & 8 ? VB_MAD_SET : VB_MAD_GET;
	mad.attribute = be16_of(attributes[choice >> 4]);
	mad.modifier = be32_of(be32_get(mad.modifier) & 0x8007001f);
	if (mad.mgmt_class == VB_MAD_PERFORMANCE) {
		address.route.vl = 0;
		address.qpn = 1;
		address.qkey = VB_GSI_QKEY;
	} else if (choice & 1) {
		/* Mostly a path that leads somewhere. */
		mad.hop_count = 1 + (mad.hop_count & 3);
		mad.hop_pointer = 1;
		mad.status = be16_of(0);
		smp->dr_slid = smp->dr_dlid = be16_of(VB_PERMISSIVE_LID);
		for (unsigned i = 0; i < VB_SMP_PATH; i++)
			smp->initial_path[i] &= 7;
	}
	return vb_mad_frame_encode(&address, &mad, frame);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length)
{
	static const struct vb_fabric_host host = {.transmit = transmit};
	struct vb_topology_error error;
	struct vb_fabric fabric;
	struct vb_fabric_node *node;
	uint8_t frame[VB_IB_MAX_FRAME];
	size_t frame_length;

	if (length < 2)
		return 0;
	vb_fabric_init(&fabric, &host, NULL);
	FUZZ_CHECK(vb_topology_read(&fabric, topology, sizeof(topology) - 1, 0, &error) == 0);
	node = fabric.first;
	node->port[0].info.lid = be16_of(5);
	/* Two switches with two cables between them: any table that leads to one of them is a loop. */
	for (unsigned lid = 0; lid < 256; lid++)
		node->linear[lid] = (uint8_t)(lid % 6);
	node->switch_info.linear_top = be16_of(255);
	if (input[0] < 64) {
		frame_length = length - 1 < sizeof(frame) ? length - 1 : sizeof(frame);
		memcpy(frame, input + 1, frame_length);
	} else {
		frame_length = make_mad(input[1], input + 2, length - 2, frame);
	}
	vb_fabric_receive(&fabric, 1, &node->port[1], frame, frame_length);
	check(&fabric);
	vb_fabric_expire(&fabric, VB_SECONDS(100));
	check(&fabric);
	vb_fabric_fini(&fabric);
	return 0;
}
