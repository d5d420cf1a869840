/* SPDX-License-Identifier: MIT
 *
 * A host's client of the subnet administration, its adapter, and its cable in the hands of a test, which plays all that is at the other
 * end: it sees each MAD that the host sends and answers what it likes. Virtual time.
 */
#ifndef VB_TESTS_SUBNET_WORLD_H
#define VB_TESTS_SUBNET_WORLD_H

#include "daemon/subnet_client.h"
#include "fabric/adapter.h"
#include "wire/sa_records.h"

enum { SUBNET_WORLD_MADS = 64, SUBNET_WORLD_LID = 3, SUBNET_WORLD_SM_LID = 1 };

struct subnet_world {
	struct vb_adapter adapter;
	struct vb_subnet_client client;
	vb_time now;
	struct vb_sa_mad sent[SUBNET_WORLD_MADS]; /* the last ones to the subnet administration */
	unsigned sent_count;
	struct vb_subnet_answer answer;    /* the last that was given to its asker */
	unsigned answers;
	unsigned connection_mads;
};

/* The host has joined, its port is active, and it has two addresses. */
void subnet_world_begin(struct subnet_world *world);
void subnet_world_end(struct subnet_world *world);
/* Time passes. */
void subnet_world_run(struct subnet_world *world, vb_time until);
/* The last request of that attribute; NULL: none. */
const struct vb_sa_mad *subnet_world_sent(const struct subnet_world *world, enum vb_sa_attribute attribute);
/* A MAD comes from the subnet administration's LID. */
void subnet_world_receive(struct subnet_world *world, const struct vb_sa_mad *mad);

#endif
