/* SPDX-License-Identifier: MIT
 *
 * What will happen, and when. Events of the same moment happen in the order in which they were planned, so a seed always
 * gives the same run.
 *
 * Nearly all events of a busy network are planned for the next microseconds: they are in a wheel with a list for each nanosecond,
 * where planning and taking cost the same whatever their number. The others are in a heap.
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

enum { SIM_WHEEL_SLOTS = 16384, SIM_WHEEL_WORDS = SIM_WHEEL_SLOTS / 64 };

/* Links are numbers of entries; 0 is none. */
struct sim_wheel_entry {
	struct sim_event event;
	uint32_t next;                   /* of the same nanosecond, or of those that are free */
};

struct sim_wheel_slot {
	uint32_t first, last;
};

struct sim_wheel {
	struct sim_wheel_slot *slots;    /* NULL until the first event */
	struct sim_wheel_entry *entries;
	uint32_t room, free;
	size_t count;
	vb_time next;                    /* of the earliest event */
	vb_time begin;                   /* events from here on fit, until begin + SIM_WHEEL_SLOTS */
	uint64_t used[SIM_WHEEL_WORDS];  /* bit i: slot i has events */
	uint64_t used_words[SIM_WHEEL_WORDS / 64];
};

struct sim_events {
	struct sim_event *heap;
	size_t heap_count, heap_room;
	struct sim_wheel wheel;
	uint64_t sequence;
};

void sim_events_plan(struct sim_events *events, vb_time when, sim_handler *happen, void *object);
/* There is one. */
struct sim_event sim_events_take(struct sim_events *events);
void sim_events_free(struct sim_events *events);

static inline size_t sim_events_count(const struct sim_events *events)
{
	return events->heap_count + events->wheel.count;
}

static inline vb_time sim_events_next(const struct sim_events *events)
{
	vb_time next = events->wheel.count > 0 ? events->wheel.next : VB_TIME_NEVER;

	return events->heap_count > 0 && events->heap[0].when < next ? events->heap[0].when : next;
}

/* The wheel's next events, in order: how many, at most `most`. Maybe fewer than there are. */
unsigned sim_events_ahead(const struct sim_events *events, const struct sim_event **ahead, unsigned most);

#endif
