/* SPDX-License-Identifier: MIT
 *
 * Two hosts, a wire between them (and from each to itself), virtual time. Every MAD meets a fate: by a mask given for
 * the first few, or by seeded chance. Processes are owners with a log of the events they were told.
 */
#ifndef VB_TESTS_CONNECT_SIM_H
#define VB_TESTS_CONNECT_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "connect/connect.h"
#include "wire/cm_mad.h"

enum { SIM_EVENTS = 64, SIM_HOSTS = 2, SIM_PROCESSES = 3 };

enum sim_fate { SIM_DELIVER, SIM_LOSE, SIM_DUPLICATE, SIM_DELAY, SIM_FATES };

struct sim_process {
	struct vb_connect_owner owner;
	struct sim_host *host;
	struct vb_cm_event *events;      /* SIM_EVENTS */
	unsigned told, read;
};

struct sim_host {
	struct sim *sim;
	struct vb_connect *connect;
	uint8_t gid[16];
	uint64_t guid;
	struct sim_process process[SIM_PROCESSES];
};

struct sim_packet {
	vb_time when;
	uint64_t order;
	struct vb_path path;
	uint8_t mad[VB_CM_MAD_LENGTH];
};

struct sim {
	vb_time now;
	uint64_t seed, order;
	struct sim_host host[SIM_HOSTS];
	struct sim_packet *packets;
	unsigned packet_count, packet_room;
	unsigned sent[VB_CM_ATTRIBUTE_END - VB_CM_REQ];
	struct vb_cm_mad last;           /* the last message sent, whatever became of it */
	/* Fates: two bits each for the first `masked` packets, then by chance (parts of 1000). */
	uint64_t mask;
	unsigned masked;
	unsigned lose, duplicate, delay;
	bool unplugged;                  /* everything is lost */
	/* Called for each event after the engine has returned; may give commands. */
	void (*react)(struct sim *sim, struct sim_process *process, const struct vb_cm_event *event);
	void *context;
};

void sim_begin(struct sim *sim, uint64_t seed);
/* Fails the test unless nothing is left: ids, ports, timers. */
void sim_end_clean(struct sim *sim);
void sim_free(struct sim *sim);

uint32_t sim_draw(struct sim *sim);

/* Run until `when`, or until nothing is left to happen before it. */
void sim_run(struct sim *sim, vb_time when);

struct vb_cm_address sim_address(const struct sim *sim, unsigned host, uint16_t port);

/* Commands; each returns the errno of the reply. */
int sim_command(struct sim_process *process, struct vb_cm_command *command, struct vb_cm_reply *reply);
uint32_t sim_create(struct sim_process *process, uint32_t port_space);
uint32_t sim_listen(struct sim_process *process, uint32_t port_space, uint16_t port, uint32_t backlog);
int sim_connect(struct sim_process *process, uint32_t id, unsigned host, uint16_t port, uint32_t qpn);
int sim_accept(struct sim_process *process, uint32_t id, uint32_t qpn);
int sim_order(struct sim_process *process, uint32_t verb, uint32_t id); /* verbs that need an id only */

/* The next event the process was told: it must be of this kind. */
const struct vb_cm_event *sim_expect(struct sim_process *process, enum vb_cm_event_kind kind);
void sim_expect_none(struct sim_process *process);

/* A MAD as if it had come from `from` to `to`. */
void sim_inject(struct sim *sim, unsigned from, unsigned to, const struct vb_cm_mad *mad);

#endif
