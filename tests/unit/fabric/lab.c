/* SPDX-License-Identifier: MIT */
#include "lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fabric/links.h"
#include "fabric/topology.h"

static bool no_cable(void *context, struct vb_fabric_port *port, const uint8_t *bytes, size_t length)
{
	(void)context;
	(void)port;
	(void)bytes;
	(void)length;
	return false;
}

static void deliver(void *context, void *owner, uint32_t agent, int status, const struct vb_mad_address *address, const void *message,
		    size_t length)
{
	struct lab *lab = context;
	struct lab_answer *answer = &lab->answer[lab->answers];

	assert_ptr_equal(owner, &lab->owner);
	assert_true(lab->answers < LAB_ANSWERS);
	*answer = (struct lab_answer){.agent = agent, .status = status, .length = length, .bytes = malloc(length), .address = *address};
	memcpy(answer->bytes, message, length);
	lab->answers++;
}

static const struct vb_fabric_host fabric_host = {.transmit = no_cable};
static const struct vb_agents_host agents_host = {.deliver = deliver};
static const struct vb_fabric_consumer consumer = {.mad = vb_agents_receive};

static void forget_answers(struct lab *lab)
{
	while (lab->answers > 0)
		free(lab->answer[--lab->answers].bytes);
}

void lab_begin(struct lab *lab, const char *topology)
{
	struct vb_topology_error error;

	memset(lab, 0, sizeof(*lab));
	lab->now = VB_SECONDS(1);
	vb_fabric_init(&lab->fabric, &fabric_host, lab);
	if (vb_topology_read(&lab->fabric, topology, strlen(topology), lab->now, &error) != 0)
		fail_msg("line %u, %s: %s", error.line, error.word, error.what);
	lab->manager = vb_fabric_find(&lab->fabric, "SM");
	if (!lab->manager)
		return;
	vb_agents_init(&lab->agents, &lab->manager->port[1], &agents_host, lab);
	lab->manager->consumer = &consumer;
	lab->manager->consumer_context = &lab->agents;
}

void lab_end(struct lab *lab)
{
	forget_answers(lab);
	if (lab->manager)
		vb_agents_fini(&lab->agents);
	vb_fabric_fini(&lab->fabric);
}

int lab_register(struct lab *lab, uint8_t mgmt_class, uint8_t version, uint8_t rmpp, uint64_t methods)
{
	struct vb_agent_registration registration = {
		.mgmt_class = mgmt_class,
		.class_version = version,
		.rmpp_version = rmpp,
		.methods = {methods, 0},
	};

	return vb_agents_register(&lab->agents, lab->now, &lab->owner, &registration);
}

static bool ask(struct lab *lab, const struct vb_mad_address *address, uint8_t method, uint16_t attribute,
	uint32_t modifier, struct vb_mad *mad)
{
	int id = lab_register(lab, mad->mgmt_class, 1, 0, 0);
	bool answered;

	assert_true(id >= 0);
	forget_answers(lab);
	mad->base_version = 1;
	mad->class_version = 1;
	mad->method = method;
	mad->attribute = be16_of(attribute);
	mad->modifier = be32_of(modifier);
	assert_int_equal(vb_agents_send(&lab->agents, lab->now, &lab->owner, (uint32_t)id, address, mad,
		sizeof(*mad), VB_SECONDS(1), 0), 0);
	answered = lab->answers == 1 && lab->answer[0].status == 0;
	if (answered)
		memcpy(mad, lab->answer[0].bytes, sizeof(*mad));
	assert_int_equal(vb_agents_unregister(&lab->agents, lab->now, &lab->owner, (uint32_t)id), 0);
	return answered;
}

bool lab_ask(struct lab *lab, const uint8_t *path, uint8_t hops, uint8_t method, uint16_t attribute, uint32_t modifier, struct vb_mad *mad)
{
	struct vb_smp *smp = (struct vb_smp *)(void *)mad;
	struct vb_mad_address address = {.route = {.dlid = VB_PERMISSIVE_LID}, .pkey = 0xffff};

	mad->mgmt_class = VB_MAD_SMP_DIRECTED;
	mad->status = be16_of(0);
	mad->hop_pointer = 0;
	mad->hop_count = hops;
	smp->dr_slid = smp->dr_dlid = be16_of(VB_PERMISSIVE_LID);
	memset(smp->initial_path, 0, sizeof(smp->initial_path));
	memset(smp->return_path, 0, sizeof(smp->return_path));
	memcpy(smp->initial_path + 1, path, hops);
	return ask(lab, &address, method, attribute, modifier, mad);
}

bool lab_ask_lid(struct lab *lab, uint16_t lid, uint8_t mgmt_class, uint8_t method, uint16_t attribute,
	uint32_t modifier, struct vb_mad *mad)
{
	struct vb_mad_address address = {.route = {.dlid = lid}, .qpn = 1, .qkey = VB_GSI_QKEY, .pkey = 0xffff};

	mad->mgmt_class = mgmt_class;
	mad->status = be16_of(0);
	return ask(lab, &address, method, attribute, modifier, mad);
}

uint16_t lab_status(const struct vb_mad *mad)
{
	return be16_get(mad->status) & 0x7fff;
}

void lab_set_lid(struct vb_fabric_node *node, uint16_t lid)
{
	node->port[node->type == VB_NODE_SWITCH ? 0 : 1].info.lid = be16_of(lid);
}

void lab_activate(struct lab *lab)
{
	for (struct vb_fabric_node *node = lab->fabric.first; node; node = node->next)
		for (unsigned i = 1; i <= node->ports; i++)
			if (vb_fabric_port_state(&node->port[i]) != VB_PORT_DOWN)
				vb_fabric_port_set_state(&node->port[i], VB_PORT_ACTIVE, lab->now);
}
