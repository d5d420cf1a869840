/* SPDX-License-Identifier: MIT
 *
 * Fabrics for tests: topologies from text, and a subnet manager's hand that sends MADs and takes the answers.
 */
#ifndef VB_TESTS_FABRIC_LAB_H
#define VB_TESTS_FABRIC_LAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/agents.h"
#include "fabric/fabric.h"

enum { LAB_ANSWERS = 256 };

struct lab_answer {
	uint32_t agent;
	int status;
	size_t length;
	uint8_t *bytes;
	struct vb_mad_address address;
};

struct lab {
	struct vb_fabric fabric;
	struct vb_fabric_node *manager;    /* the adapter named "SM" */
	struct vb_agents agents;
	vb_time now;
	int owner;
	struct lab_answer answer[LAB_ANSWERS];
	unsigned answers;
};

/* Fails the test if the text is not sound. */
void lab_begin(struct lab *lab, const char *topology);
void lab_end(struct lab *lab);

int lab_register(struct lab *lab, uint8_t mgmt_class, uint8_t version, uint8_t rmpp, uint64_t methods);
/* An SMP by that path ("" is the adapter itself); true: it was answered, and is the answer now. */
bool lab_ask(struct lab *lab, const uint8_t *path, uint8_t hops, uint8_t method, uint16_t attribute, uint32_t modifier, struct vb_mad *mad);
/* The same by LID, of any class. */
bool lab_ask_lid(struct lab *lab, uint16_t lid, uint8_t mgmt_class, uint8_t method, uint16_t attribute,
	uint32_t modifier, struct vb_mad *mad);
uint16_t lab_status(const struct vb_mad *mad);
/* LIDs by hand: of the node's base port (or port 1 of an adapter), and all ports of all nodes active. */
void lab_set_lid(struct vb_fabric_node *node, uint16_t lid);
void lab_activate(struct lab *lab);

#endif
