/* SPDX-License-Identifier: MIT
 *
 * The wheel and the heap of events: see events.h.
 */
#include "sim/events.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { CHILDREN = 4 };

static bool is_earlier(const struct sim_event *a, const struct sim_event *b)
{
	return a->when != b->when ? a->when < b->when : a->sequence < b->sequence;
}

/* ---- the heap: four children each, half the levels of a binary one ---- */

static void heap_add(struct sim_events *events, const struct sim_event *event)
{
	size_t i = events->heap_count++;

	if (events->heap_count > events->heap_room) {
		events->heap_room = events->heap_room ? 2 * events->heap_room : 1024;
		events->heap = realloc(events->heap, events->heap_room * sizeof(*events->heap));
		assert(events->heap);
	}
	for (; i > 0 && is_earlier(event, &events->heap[(i - 1) / CHILDREN]); i = (i - 1) / CHILDREN)
		events->heap[i] = events->heap[(i - 1) / CHILDREN];
	events->heap[i] = *event;
}

static size_t earliest_child(const struct sim_events *events, size_t i)
{
	size_t first = CHILDREN * i + 1, end = first + CHILDREN, best = first;

	if (end > events->heap_count)
		end = events->heap_count;
	for (size_t child = first + 1; child < end; child++)
		if (is_earlier(&events->heap[child], &events->heap[best]))
			best = child;
	return best;
}

static struct sim_event heap_take(struct sim_events *events)
{
	struct sim_event top = events->heap[0], last = events->heap[--events->heap_count];
	size_t i = 0;

	while (CHILDREN * i + 1 < events->heap_count) {
		size_t child = earliest_child(events, i);

		if (!is_earlier(&events->heap[child], &last))
			break;
		events->heap[i] = events->heap[child];
		i = child;
	}
	if (events->heap_count > 0)
		events->heap[i] = last;
	return top;
}

/* ---- the wheel ---- */

static size_t slot_of(vb_time when)
{
	return (size_t)when % SIM_WHEEL_SLOTS;
}

static void mark(struct sim_wheel *wheel, size_t slot)
{
	wheel->used[slot / 64] |= 1ull << slot % 64;
	wheel->used_words[slot / 64 / 64] |= 1ull << slot / 64 % 64;
}

static void unmark(struct sim_wheel *wheel, size_t slot)
{
	wheel->used[slot / 64] &= ~(1ull << slot % 64);
	if (wheel->used[slot / 64] == 0)
		wheel->used_words[slot / 64 / 64] &= ~(1ull << slot / 64 % 64);
}

/* The first used slot from here to the end of the wheel; SIM_WHEEL_SLOTS: none is. */
static size_t first_used(const struct sim_wheel *wheel, size_t from)
{
	uint64_t bits = wheel->used[from / 64] >> from % 64;
	size_t word = from / 64 + 1;

	if (bits != 0)
		return from + (size_t)__builtin_ctzll(bits);
	for (size_t i = word / 64; i < SIM_WHEEL_WORDS / 64; i++, word = i * 64) {
		bits = wheel->used_words[i] >> word % 64;
		if (bits != 0) {
			word += (size_t)__builtin_ctzll(bits);
			return word * 64 + (size_t)__builtin_ctzll(wheel->used[word]);
		}
	}
	return SIM_WHEEL_SLOTS;
}

static uint32_t new_entry(struct sim_wheel *wheel)
{
	uint32_t entry = wheel->free;

	if (entry == 0) {
		uint32_t room = wheel->room ? 2 * wheel->room : 1024;

		wheel->entries = realloc(wheel->entries, room * sizeof(*wheel->entries));
		assert(wheel->entries);
		for (uint32_t i = wheel->room ? wheel->room : 1; i < room; i++)
			wheel->entries[i].next = i + 1 < room ? i + 1 : 0;
		entry = wheel->room ? wheel->room : 1;
		wheel->room = room;
	}
	wheel->free = wheel->entries[entry].next;
	return entry;
}

static void wheel_add(struct sim_wheel *wheel, const struct sim_event *event)
{
	size_t slot = slot_of(event->when);
	uint32_t entry;

	if (wheel->slots == NULL) {
		wheel->slots = calloc(SIM_WHEEL_SLOTS, sizeof(*wheel->slots));
		assert(wheel->slots);
	}
	entry = new_entry(wheel);
	wheel->entries[entry] = (struct sim_wheel_entry){.event = *event};
	if (wheel->slots[slot].first == 0) {
		wheel->slots[slot].first = entry;
		mark(wheel, slot);
	} else {
		wheel->entries[wheel->slots[slot].last].next = entry;
	}
	wheel->slots[slot].last = entry;
	if (wheel->count++ == 0 || event->when < wheel->next)
		wheel->next = event->when;
}

/* The wheel turns: slots before `next` belong to the time after those behind it. */
static vb_time next_used(const struct sim_wheel *wheel)
{
	size_t from = slot_of(wheel->next), slot = first_used(wheel, from);

	if (slot == SIM_WHEEL_SLOTS)
		slot = first_used(wheel, 0) + SIM_WHEEL_SLOTS;
	return wheel->next + (vb_time)(slot - from);
}

static struct sim_event wheel_take(struct sim_wheel *wheel)
{
	struct sim_wheel_slot *slot = &wheel->slots[slot_of(wheel->next)];
	uint32_t taken = slot->first;
	struct sim_wheel_entry *entry = &wheel->entries[taken];
	struct sim_event event = entry->event;

	slot->first = entry->next;
	entry->next = wheel->free;
	wheel->free = taken;
	wheel->count--;
	wheel->begin = wheel->next;
	if (slot->first == 0) {
		unmark(wheel, slot_of(wheel->next));
		if (wheel->count > 0)
			wheel->next = next_used(wheel);
	}
	return event;
}

/* ---- both ---- */

void sim_events_plan(struct sim_events *events, vb_time when, sim_handler *happen, void *object)
{
	struct sim_event event = {when, events->sequence++, happen, object};

	if (when >= events->wheel.begin && when - events->wheel.begin < SIM_WHEEL_SLOTS)
		wheel_add(&events->wheel, &event);
	else
		heap_add(events, &event);
}

/* The wheel's next one, or NULL. */
static const struct sim_event *wheel_first(const struct sim_wheel *wheel)
{
	return wheel->count > 0 ? &wheel->entries[wheel->slots[wheel->next % SIM_WHEEL_SLOTS].first].event : NULL;
}

struct sim_event sim_events_take(struct sim_events *events)
{
	const struct sim_event *of_wheel = wheel_first(&events->wheel);
	struct sim_event event;

	if (of_wheel != NULL && (events->heap_count == 0 || is_earlier(of_wheel, &events->heap[0])))
		return wheel_take(&events->wheel);
	event = heap_take(events);
	if (event.when > events->wheel.begin)
		events->wheel.begin = event.when;
	return event;
}

unsigned sim_events_ahead(const struct sim_events *events, const struct sim_event **ahead, unsigned most)
{
	const struct sim_wheel *wheel = &events->wheel;
	unsigned count = 0;
	size_t slot;

	if (wheel->count == 0)
		return 0;
	slot = slot_of(wheel->next);
	do {
		for (uint32_t i = wheel->slots[slot].first; i != 0 && count < most; i = wheel->entries[i].next)
			ahead[count++] = &wheel->entries[i].event;
		slot = slot + 1 < SIM_WHEEL_SLOTS ? first_used(wheel, slot + 1) : SIM_WHEEL_SLOTS;
	} while (count < most && slot < SIM_WHEEL_SLOTS);
	return count;
}

void sim_events_free(struct sim_events *events)
{
	free(events->heap);
	free(events->wheel.slots);
	free(events->wheel.entries);
	memset(events, 0, sizeof(*events));
}
