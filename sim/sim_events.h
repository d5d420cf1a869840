/* SPDX-License-Identifier: MIT
 *
 * Between the files of the simulator.
 */
#ifndef VB_SIM_EVENTS_H
#define VB_SIM_EVENTS_H

struct sim;

/* Forget everything planned. */
void sim_events_discard(struct sim *sim);

#endif
