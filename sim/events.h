/* SPDX-License-Identifier: MIT
 *
 * What will happen, and when. Events of the same moment happen in the order in which they were planned, so a seed always
 * gives the same run.
 */
#ifndef VB_SIM_EVENTS_H
#define VB_SIM_EVENTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/time.h"

struct sim;

typedef void sim_handler(struct sim *sim, void *object, vb_time when);

struct sim_event {
	vb_time when;
	uint64_t sequence;
	sim_handler *happen;
	void *object;
};

/* A heap of four children each: half the levels of a binary one, and the children share a cache line or two. */
struct sim_events {
	struct sim_event *heap;
	size_t count, room;
	uint64_t sequence;
};

void sim_events_plan(struct sim_events *events, vb_time when, sim_handler *happen, void *object);
/* There is one. */
struct sim_event sim_events_take(struct sim_events *events);
void sim_events_free(struct sim_events *events);

static inline vb_time sim_events_next(const struct sim_events *events)
{
	return events->count > 0 ? events->heap[0].when : VB_TIME_NEVER;
}

#endif
