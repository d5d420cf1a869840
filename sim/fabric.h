/* SPDX-License-Identifier: MIT
 *
 * Hosts and switches joined by lines, and the routes between them: all shortest ways, equal ones shared by a hash.
 */
#ifndef VB_SIM_FABRIC_H
#define VB_SIM_FABRIC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"
#include "sim/switch.h"

struct sim;
struct sim_host;
struct sim_port;

struct sim_line {
	uint64_t rate;                   /* bits a second */
	vb_time delay;
};

struct sim_fabric {
	struct sim *sim;
	struct sim_switch_settings settings;
	struct sim_switch **switches;
	unsigned switch_count, switch_room;
};

struct sim_fabric *sim_fabric_new(struct sim *sim, const struct sim_switch_settings *settings);
/* Ports and switches; before the sim is destroyed. */
void sim_fabric_free(struct sim_fabric *fabric);
struct sim_switch *sim_fabric_switch(struct sim_fabric *fabric, const char *name, unsigned tier);
/* NULL: there is none of that name. */
struct sim_switch *sim_fabric_find(const struct sim_fabric *fabric, const char *name);
void sim_fabric_link_host(struct sim_fabric *fabric, struct sim_host *host, struct sim_switch *at, struct sim_line line);
void sim_fabric_link(struct sim_fabric *fabric, struct sim_switch *a, struct sim_switch *b, struct sim_line line);
/* Everything is joined: find routes, and begin. */
void sim_fabric_start(struct sim_fabric *fabric);
/* Afterwards: at `at`, what is for `to` leaves for the neighbour `by`. False: they are not neighbours. */
bool sim_fabric_set_route(struct sim_fabric *fabric, struct sim_switch *at, const struct sim_host *to,
			  const struct sim_switch *by);
/* The port of `at` that leads to the host, or to the switch; NULL: none does. */
struct sim_port *sim_fabric_port_to_host(const struct sim_switch *at, const struct sim_host *host);
struct sim_port *sim_fabric_port_to(const struct sim_switch *at, const struct sim_switch *neighbour);

/* Whole networks, with hosts. */
/* k ports a switch: k^3 / 4 hosts if `hosts` is 0, or as many, spread over the pods. */
void sim_fabric_fat_tree(struct sim_fabric *fabric, unsigned k, unsigned hosts, struct sim_line line);
void sim_fabric_leaf_spine(struct sim_fabric *fabric, unsigned leaves, unsigned spines, unsigned hosts_each, struct sim_line host_line,
			   struct sim_line line);

#endif
