/* SPDX-License-Identifier: MIT
 *
 * Lines and their ends: see port.h.
 */
#include "sim/port.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sim/sim.h"

struct sim_port *sim_port_new(struct sim *sim, uint64_t rate, vb_time delay)
{
	struct sim_port *port = aligned_alloc(SIM_CACHE_LINE, sizeof(*port));

	assert(port);
	memset(port, 0, sizeof(*port));
	port->sim = sim;
	port->rate = rate;
	port->delay = delay;
	for (unsigned i = 0; i < SIM_QUEUES; i++)
		sim_queue_init(&port->of[i].queue);
	sim_queue_init(&port->line);
	vb_list_init(&port->ready);
	return port;
}

static void empty(struct sim_port *port, struct sim_queue *queue)
{
	while (queue->first)
		sim_packet_free(&port->sim->pool, sim_queue_take(queue));
}

void sim_port_free(struct sim_port *port)
{
	for (unsigned i = 0; i < SIM_QUEUES; i++)
		empty(port, &port->of[i].queue);
	empty(port, &port->line);
	free(port);
}

void sim_port_connect(struct sim_port *a, struct sim_port *b)
{
	a->peer = b;
	b->peer = a;
}

/* ---- pause ---- */

bool sim_port_is_paused(const struct sim_port *port, unsigned priority)
{
	return port->of[priority].paused_until > port->sim->now;
}

vb_time sim_port_pause_time(const struct sim_port *port)
{
	return (vb_time)(SIM_PAUSE_QUANTA * 512ull * 1000000000ull / port->rate);
}

static void count_pause(struct sim_port *port, unsigned priority)
{
	vb_time end = vb_time_earlier(port->of[priority].paused_until, port->sim->now);

	if (priority == SIM_DATA && port->of[priority].paused_since != 0)
		port->paused_time += end - port->of[priority].paused_since;
	port->of[priority].paused_since = 0;
}

static void wake(struct sim *sim, void *object, vb_time when)
{
	struct sim_port *port = object;

	(void)sim;
	(void)when;
	port->wake_planned = false;
	sim_port_kick(port);
}

/* A pause that nobody renews is over by itself. */
static void expire(struct sim *sim, void *object, vb_time when)
{
	struct sim_port *port = object;

	(void)sim;
	for (unsigned i = 0; i < SIM_PRIORITIES; i++) {
		if (port->of[i].paused_until != 0 && port->of[i].paused_until <= when) {
			count_pause(port, i);
			port->of[i].paused_until = 0;
		}
	}
	sim_port_kick(port);
}

void sim_port_paused(struct sim_port *port, unsigned priority, bool pause)
{
	struct sim *sim = port->sim;

	if (pause) {
		port->pauses_got++;
		if (!sim_port_is_paused(port, priority)) {
			count_pause(port, priority);
			port->of[priority].paused_since = sim->now;
		}
		port->of[priority].paused_until = sim->now + sim_port_pause_time(port);
		sim_events_plan(&sim->events, port->of[priority].paused_until, expire, port);
		return;
	}
	count_pause(port, priority);
	port->of[priority].paused_until = 0;
	sim_port_kick(port);
}

void sim_port_send_pause(struct sim_port *port, unsigned priority, bool pause)
{
	struct sim_packet *frame = sim_packet_new_headers(&port->sim->pool);

	frame->is_pause = true;
	frame->priority = (uint8_t)priority;
	frame->pause = pause;
	frame->size = SIM_PAUSE_SIZE;
	port->pauses_sent += pause;
	sim_queue_add(&port->of[SIM_PRIORITIES].queue, frame);
	port->of[SIM_PRIORITIES].queued += frame->size;
	port->waiting |= 1u << SIM_PRIORITIES;
	sim_port_kick(port);
}

/* ---- leaving ---- */

void sim_port_add(struct sim_port *port, struct sim_packet *packet)
{
	/* A queue that begins to wait has not moved since now. */
	if (port->of[packet->priority].queued == 0)
		port->of[packet->priority].moved_at = port->sim->now;
	sim_queue_add(&port->of[packet->priority].queue, packet);
	port->of[packet->priority].queued += packet->size;
	port->waiting |= (uint16_t)(1u << packet->priority);
}

static struct sim_packet *take_from(struct sim_port *port, unsigned i)
{
	struct sim_packet *packet = sim_queue_take(&port->of[i].queue);

	port->of[i].queued -= packet->size;
	if (!port->of[i].queue.first)
		port->waiting &= (uint16_t)~(1u << i);
	return packet;
}

/* The highest priority that has something and may send. */
static struct sim_packet *choose(struct sim_port *port)
{
	for (unsigned left = port->waiting; left != 0;) {
		unsigned i = 31u - (unsigned)__builtin_clz(left);

		if (i == SIM_PRIORITIES || !sim_port_is_paused(port, i))
			return take_from(port, i);
		left &= ~(1u << i);
	}
	return NULL;
}

void sim_port_fetch(const struct sim_port *port)
{
	__builtin_prefetch(port->line.first);
	__builtin_prefetch(port->peer);
	__builtin_prefetch(&port->peer->of[SIM_DATA]);
}

void sim_port_fetch_route(const struct sim_port *port)
{
	const struct sim_packet *packet = port->line.first;

	port->peer->owner->expect(port->peer, packet);
}

void sim_port_arrive(struct sim *sim, void *object, vb_time when)
{
	struct sim_port *port = object, *to = port->peer;
	struct sim_packet *packet = sim_queue_take(&port->line);

	(void)when;
	/* The next one is not looked at: it is in no cache. */
	if (port->line.first)
		sim_events_plan(&sim->events, packet->next_arrives, sim_port_arrive, port);
	if (packet->is_pause) {
		sim_port_paused(to, packet->priority, packet->pause);
		sim_packet_free(&sim->pool, packet);
	} else {
		to->owner->receive(to, packet);
	}
}

static void transmit(struct sim_port *port, struct sim_packet *packet)
{
	struct sim *sim = port->sim;
	uint64_t time = packet->size * 8000000000000ull / port->rate + port->rest;
	vb_time arrives;

	port->free_at = sim->now + (vb_time)(time / 1000);
	port->rest = (uint32_t)(time % 1000);
	arrives = port->free_at + port->delay;
	if (!packet->is_pause) {
		port->packets++;
		port->bytes += packet->size;
		port->of[packet->priority].moved_at = sim->now;
		if (port->owner->sent)
			port->owner->sent(port, packet);
	}
	if (!port->line.first)
		sim_events_plan(&sim->events, arrives, sim_port_arrive, port);
	else
		sim_queue_last(&port->line)->next_arrives = arrives;
	sim_queue_add(&port->line, packet);
}

void sim_port_kick(struct sim_port *port)
{
	struct sim *sim = port->sim;
	struct sim_packet *packet;

	if (port->wake_planned)
		return;
	if (sim->now >= port->free_at) {
		if (port->owner->refill)
			port->owner->refill(port);
		packet = choose(port);
		if (!packet)
			return;
		transmit(port, packet);
	}
	if (port->waiting != 0 || !vb_list_is_empty(&port->ready)) {
		port->wake_planned = true;
		sim_events_plan(&sim->events, port->free_at, wake, port);
	}
}

unsigned sim_port_flush(struct sim_port *port, unsigned priority)
{
	unsigned count = 0;

	for (; port->of[priority].queue.first; count++) {
		struct sim_packet *packet = take_from(port, priority);

		if (port->owner->sent)
			port->owner->sent(port, packet);
		sim_packet_free(&port->sim->pool, packet);
	}
	port->drops += count;
	return count;
}
