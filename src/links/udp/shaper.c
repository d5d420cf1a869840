/* SPDX-License-Identifier: MIT
 *
 * A token bucket without a bucket: each packet takes the time that its bits take at the rate, beginning when the one before has ended.
 * Runs stay runs, so that a shaped network is as cheap as any; a run leaves when its last packet would have, so on a slow network packets
 * come in lumps of a run. What would wait behind more than the queue holds is lost, from the end of its run.
 *
 * A thread sends what is due. It sleeps to the precision of the kernel's timers, some ten microseconds.
 */
#include "links/udp/shaper.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/list.h"
#include "base/mutex.h"
#include "io/clock.h"
#include "io/event.h"
#include "io/random.h"
#include "io/thread.h"
#include "io/udp.h"
#include "links/udp/udp_link.h"
#include "wire/burst.h"

/* UDP, Ethernet with its preamble, checksum and gap; of IPv4 and IPv6. */
enum { OVERHEAD_IPV4 = 8 + 20 + 38, OVERHEAD_IPV6 = 8 + 40 + 38 };

/* What a device without a rate may have on its way: more than any delay holds at the speed of a socket. */
#define MOST_UNDER_WAY (UINT64_C(64) << 20)

struct waiting_run {
	struct vb_list node;
	vb_time due;
	struct vb_path path;
	uint32_t segment_size, packets, bytes;
	uint16_t first_id;
	uint8_t data[];
};

struct shaped_device {
	const struct vb_counters *counters; /* NULL: none */
	struct vb_shape shape;
	vb_time free_at;                   /* when the last packet will have left at the rate */
	vb_time last_due;                  /* no packet overtakes another */
	uint64_t random;
	uint64_t bytes;                    /* that wait */
	struct vb_list waiting;            /* in the order in which they are due */
};

struct vb_shaper {
	struct vb_udp_link *udp;
	struct vb_mutex lock;              /* of what follows, but for `single`, which is the thread's */
	struct shaped_device device[VB_DAEMON_PAGE_DEVICES];
	pthread_cond_t changed;
	pthread_t thread;
	bool stopping;
	struct vb_burst *single;
};

/* ---- chance ---- */

/* splitmix64: enough for losses. */
static uint64_t draw(struct shaped_device *device)
{
	uint64_t x = device->random += 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static uint64_t draw_below(struct shaped_device *device, uint64_t limit)
{
	return limit == 0 ? 0 : (uint64_t)((unsigned __int128)draw(device) * limit >> 64);
}

/* ---- one run ---- */

static uint64_t choose_lost(struct shaped_device *device, uint32_t packets)
{
	uint64_t lost = 0;

	for (uint32_t i = 0; i < packets; i++)
		if (draw_below(device, VB_SHAPE_BILLION) < device->shape.loss)
			lost |= UINT64_C(1) << i;
	return lost;
}

static uint64_t wire_bytes(const struct vb_burst_run *run, uint32_t packets)
{
	uint64_t overhead = vb_path_is_ipv4(&run->path) ? OVERHEAD_IPV4 : OVERHEAD_IPV6;
	uint64_t payload = packets == run->packets ? run->bytes : (uint64_t)packets * run->segment_size;

	return payload + packets * overhead;
}

static vb_time transmission_time(const struct shaped_device *device, uint64_t bytes)
{
	return device->shape.rate == 0 ? 0 : (vb_time)((unsigned __int128)bytes * 8 * 1000000000u / device->shape.rate);
}

/* How many packets of the run the queue still takes. */
static uint32_t count_admitted(const struct shaped_device *device, const struct vb_burst_run *run, vb_time now)
{
	uint64_t limit = device->shape.queue ? device->shape.queue : VB_SHAPE_QUEUE, waiting;
	uint64_t each = wire_bytes(run, 1);

	if (device->shape.rate == 0)
		return device->bytes + run->bytes <= MOST_UNDER_WAY ? run->packets : 0;
	waiting = device->free_at > now ?
			  (uint64_t)((unsigned __int128)(device->free_at - now) * device->shape.rate / 8 / 1000000000u) : 0;
	if (waiting >= limit)
		return 0;
	/* One packet always fits an empty queue, however short that is. */
	limit = (limit - waiting) / each + (waiting == 0 && limit < each);
	return limit < run->packets ? (uint32_t)limit : run->packets;
}

/* Caller holds shaper->lock. False: no memory, so it is lost. */
static bool enqueue(struct shaped_device *device, const struct vb_burst_run *run, vb_time now)
{
	struct waiting_run *waiting = malloc(sizeof(*waiting) + run->bytes);

	if (!waiting)
		return false;
	device->free_at = (device->free_at > now ? device->free_at : now) + transmission_time(device, wire_bytes(run, run->packets));
	waiting->due = device->free_at + (vb_time)device->shape.delay + (vb_time)draw_below(device, device->shape.jitter);
	if (waiting->due < device->last_due)
		waiting->due = device->last_due;
	device->last_due = waiting->due;
	waiting->path = run->path;
	waiting->segment_size = run->segment_size;
	waiting->packets = run->packets;
	waiting->bytes = run->bytes;
	waiting->first_id = run->first_id;
	memcpy(waiting->data, run->data, run->bytes);
	device->bytes += run->bytes;
	vb_list_append(&device->waiting, &waiting->node);
	return true;
}

static uint64_t bits_from(uint32_t first)
{
	return first < 64 ? ~UINT64_C(0) << first : 0;
}

/* Caller holds shaper->lock. */
static bool shape_burst(struct shaped_device *device, struct vb_burst *burst, vb_time now)
{
	bool waits = device->shape.rate != 0 || device->shape.delay != 0 || device->shape.jitter != 0;

	for (uint32_t run = 0; run < burst->runs;) {
		uint64_t lost = choose_lost(device, burst->run[run].packets);

		if (lost != 0 && !vb_burst_remove(burst, run, lost))
			continue;
		if (waits) {
			uint32_t admitted = count_admitted(device, &burst->run[run], now);

			if (admitted < burst->run[run].packets && !vb_burst_remove(burst, run, bits_from(admitted)))
				continue;
			(void)enqueue(device, &burst->run[run], now);
		}
		run++;
	}
	return waits;
}

static struct shaped_device *find_device(struct vb_shaper *shaper, const struct vb_counters *counters)
{
	for (unsigned i = 0; i < VB_DAEMON_PAGE_DEVICES; i++)
		if (shaper->device[i].counters == counters)
			return &shaper->device[i];
	return NULL;
}

bool vb_shaper_take(struct vb_shaper *shaper, const struct vb_counters *counters, struct vb_burst *burst)
{
	struct shaped_device *device;
	bool taken = false;

	vb_mutex_lock(&shaper->lock);
	device = find_device(shaper, counters);
	/* Unshaped meanwhile, but what waits goes first. */
	if (device && (!vb_shape_is_none(&device->shape) || !vb_list_is_empty(&device->waiting))) {
		taken = shape_burst(device, burst, vb_clock_now());
		if (!taken && !vb_list_is_empty(&device->waiting)) {
			for (uint32_t run = 0; run < burst->runs; run++)
				(void)enqueue(device, &burst->run[run], vb_clock_now());
			taken = true;
		}
		if (taken)
			pthread_cond_signal(&shaper->changed);
	}
	vb_mutex_unlock(&shaper->lock);
	return taken;
}

/* ---- the thread ---- */

/* Caller holds shaper->lock. NULL: none waits. */
static struct shaped_device *find_next(struct vb_shaper *shaper, struct waiting_run **next)
{
	struct shaped_device *found = NULL;

	for (unsigned i = 0; i < VB_DAEMON_PAGE_DEVICES; i++) {
		struct shaped_device *device = &shaper->device[i];
		struct waiting_run *first;

		if (!device->counters || vb_list_is_empty(&device->waiting))
			continue;
		first = vb_container_of(device->waiting.next, struct waiting_run, node);
		if (found && (*next)->due <= first->due)
			continue;
		found = device;
		*next = first;
	}
	return found;
}

static void send_run(struct vb_shaper *shaper, const struct waiting_run *run)
{
	struct vb_burst *burst = shaper->single;

	vb_burst_reset(burst);
	burst->runs = 1;
	burst->packets = run->packets;
	burst->run[0] = (struct vb_burst_run){
		.path = run->path,
		.segment_size = run->segment_size,
		.packets = run->packets,
		.data = run->data,
		.bytes = run->bytes,
		.first_id = run->first_id,
	};
	/* What the kernel does not take is lost, as on any wire. */
	(void)vb_udp_send_all(shaper->udp, burst);
}

/* Caller holds shaper->lock, which is let go while the system sends. */
static void send_first(struct vb_shaper *shaper, struct shaped_device *device, struct waiting_run *run)
	VB_NEEDS(shaper->lock)
{
	vb_list_remove(&run->node);
	device->bytes -= run->bytes;
	vb_mutex_unlock(&shaper->lock);
	send_run(shaper, run);
	free(run);
	vb_mutex_lock(&shaper->lock);
}

static void *run_thread(void *context)
{
	struct vb_shaper *shaper = context;

	vb_thread_prepare("verbena-shape");
	vb_mutex_lock(&shaper->lock);
	for (;;) {
		struct waiting_run *run = NULL;
		struct shaped_device *device = find_next(shaper, &run);
		struct timespec until;

		if (!device && shaper->stopping)
			break;
		if (!device) {
			vb_mutex_wait(&shaper->lock, &shaper->changed);
		} else if (shaper->stopping || run->due <= vb_clock_now()) {
			send_first(shaper, device, run);
		} else {
			until = (struct timespec){.tv_sec = (time_t)(run->due / 1000000000), .tv_nsec = (long)(run->due % 1000000000)};
			vb_mutex_wait_until(&shaper->lock, &shaper->changed, &until);
		}
	}
	vb_mutex_unlock(&shaper->lock);
	return NULL;
}

/* ---- as a whole ---- */

int vb_shaper_open(struct vb_shaper **out, struct vb_udp_link *udp)
{
	struct vb_shaper *shaper = calloc(1, sizeof(*shaper));
	pthread_condattr_t attributes;
	int error = -ENOMEM;

	if (!shaper)
		return -ENOMEM;
	shaper->udp = udp;
	vb_mutex_init(&shaper->lock, VB_RANK_SHAPER);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&shaper->changed, &attributes);
	pthread_condattr_destroy(&attributes);
	shaper->single = malloc(sizeof(*shaper->single));
	if (shaper->single)
		error = vb_thread_start(&shaper->thread, run_thread, shaper);
	if (error) {
		pthread_cond_destroy(&shaper->changed);
		vb_mutex_fini(&shaper->lock);
		free(shaper->single);
		free(shaper);
		return error;
	}
	*out = shaper;
	return 0;
}

void vb_shaper_close(struct vb_shaper *shaper)
{
	if (!shaper)
		return;
	vb_mutex_lock(&shaper->lock);
	shaper->stopping = true;
	pthread_cond_signal(&shaper->changed);
	vb_mutex_unlock(&shaper->lock);
	pthread_join(shaper->thread, NULL);
	pthread_cond_destroy(&shaper->changed);
	vb_mutex_fini(&shaper->lock);
	free(shaper->single);
	free(shaper);
}

void vb_shaper_set(struct vb_shaper *shaper, const struct vb_counters *counters, const struct vb_shape *shape)
{
	struct shaped_device *device;

	vb_mutex_lock(&shaper->lock);
	device = find_device(shaper, counters);
	if (!device) {
		device = find_device(shaper, NULL);
		if (device) {
			*device = (struct shaped_device){.counters = counters, .random = vb_random_u64()};
			vb_list_init(&device->waiting);
		}
	}
	if (device)
		device->shape = *shape;
	vb_mutex_unlock(&shaper->lock);
}
