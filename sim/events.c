/* SPDX-License-Identifier: MIT
 *
 * The heap of events: see events.h.
 */
#include "sim/events.h"

#include <assert.h>
#include <stdlib.h>
#include <stdbool.h>

enum { CHILDREN = 4 };

static bool is_earlier(const struct sim_event *a, const struct sim_event *b)
{
	return a->when != b->when ? a->when < b->when : a->sequence < b->sequence;
}

void sim_events_plan(struct sim_events *events, vb_time when, sim_handler *happen, void *object)
{
	struct sim_event event = {when, events->sequence++, happen, object};
	size_t i = events->count++;

	if (events->count > events->room) {
		events->room = events->room ? 2 * events->room : 1024;
		events->heap = realloc(events->heap, events->room * sizeof(*events->heap));
		assert(events->heap);
	}
	for (; i > 0 && is_earlier(&event, &events->heap[(i - 1) / CHILDREN]); i = (i - 1) / CHILDREN)
		events->heap[i] = events->heap[(i - 1) / CHILDREN];
	events->heap[i] = event;
}

static size_t earliest_child(const struct sim_events *events, size_t i)
{
	size_t first = CHILDREN * i + 1, end = first + CHILDREN, best = first;

	if (end > events->count)
		end = events->count;
	for (size_t child = first + 1; child < end; child++)
		if (is_earlier(&events->heap[child], &events->heap[best]))
			best = child;
	return best;
}

struct sim_event sim_events_take(struct sim_events *events)
{
	struct sim_event top = events->heap[0], last = events->heap[--events->count];
	size_t i = 0;

	while (CHILDREN * i + 1 < events->count) {
		size_t child = earliest_child(events, i);

		if (!is_earlier(&events->heap[child], &last))
			break;
		events->heap[i] = events->heap[child];
		i = child;
	}
	if (events->count > 0)
		events->heap[i] = last;
	return top;
}

void sim_events_free(struct sim_events *events)
{
	free(events->heap);
	*events = (struct sim_events){0};
}
