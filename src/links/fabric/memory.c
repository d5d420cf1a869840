/* SPDX-License-Identifier: MIT
 *
 * Past UDP: a cable of memory to the fabric, where that is a process of the same user on this machine (io/frame_ring.h). It is offered
 * once for each generation, when the fabric says in SLOT where it listens; until the fabric has taken it, and wherever it cannot,
 * datagrams go by UDP. It ends with the line (io/memory_cable.h) or the generation. The memory stays mapped, so that threads which look
 * at it need no lock.
 *
 * Who looks at the ring is told by `asleep`, as links/memory/attention.c has it for its segment:
 *
 *   spun        a thread polls an empty CQ: clears it, and kicks the engine thread, which from then on naps instead of sleeping
 *   rise, rest  the engine thread at the beginning and at the end of its work
 *   watched     a CQ was armed, whose user will sleep: sets it at once
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "io/clock.h"
#include "io/descriptor.h"
#include "io/event.h"
#include "io/memory_cable.h"
#include "io/unix_socket.h"
#include "links/fabric/fabric_link.h"
#include "wire/cable.h"

#define NAP VB_MILLISECONDS(1)
#define PATIENCE VB_MILLISECONDS(2)

static bool is_plugged(const struct vb_fabric_memory *memory)
{
	return __atomic_load_n(&memory->state, __ATOMIC_ACQUIRE) == VB_FABRIC_MEMORY_PLUGGED;
}

/* Without verbenad nothing is received: then there is nothing to look for either. */
static bool is_read(const struct vb_fabric_link *fabric)
{
	return is_plugged(&fabric->memory) && vb_fabric_link_udp(fabric) >= 0;
}

/* Of the slot as verbenad has it now? Another verbenad counts generations anew, and has another key. */
static bool is_current(const struct vb_fabric_link *fabric)
{
	const struct vb_fabric_memory *memory = &fabric->memory;

	return __atomic_load_n(&memory->generation, __ATOMIC_RELAXED) == __atomic_load_n(&fabric->page->generation, __ATOMIC_RELAXED) &&
	       __atomic_load_n(&memory->key, __ATOMIC_RELAXED) == __atomic_load_n(&fabric->page->key, __ATOMIC_RELAXED);
}

/* ---- plugging ---- */

void vb_fabric_memory_init(struct vb_fabric_memory *memory)
{
	const char *wanted = secure_getenv("VERBENA_FABRIC");

	memory->line = -1;
	memory->is_refused = wanted && strcmp(wanted, "udp") == 0;
	vb_lock_init(&memory->sending, VB_RANK_FRAME_CABLE);
}

void vb_fabric_memory_fini(struct vb_fabric_memory *memory)
{
	vb_page_unmap(memory->segment, sizeof(*memory->segment));
}

static void unplug(struct vb_fabric_link *fabric)
{
	struct vb_fabric_memory *memory = &fabric->memory;
	int line = memory->line;

	vb_lock_take(&memory->sending);
	__atomic_store_n(&memory->state, VB_FABRIC_MEMORY_NONE, __ATOMIC_RELEASE);
	__atomic_store_n(&memory->line, -1, __ATOMIC_RELAXED);
	vb_lock_release(&memory->sending);
	vb_descriptor_close(line);
	/* The rings are empty pages again: they cost nothing. */
	vb_page_forget(memory->segment, sizeof(*memory->segment));
}

/* Memory, and the rings in it; in the place of what was there. The descriptor, or -errno. */
static int make_segment(struct vb_fabric_memory *memory)
{
	int fd = vb_page_create("verbena-cable", sizeof(*memory->segment));
	void *segment = fd >= 0 ? vb_page_map(fd, sizeof(*memory->segment), true) : NULL;

	if (segment && memory->segment && vb_page_replace(memory->segment, segment, sizeof(*memory->segment)) != 0) {
		vb_page_unmap(segment, sizeof(*memory->segment));
		segment = NULL;
	} else if (segment && !memory->segment) {
		memory->segment = segment;
	}
	if (!segment && fd >= 0) {
		vb_descriptor_close(fd);
		return -1;
	}
	if (fd < 0)
		return fd;
	vb_frame_ring_open(memory->segment, 0, &memory->writer, &memory->reader);
	/* Both sleep until they say otherwise. */
	vb_frame_ring_sleep(&memory->reader);
	__atomic_store_n(&memory->writer.words->asleep, 1, __ATOMIC_RELAXED);
	return fd;
}

void vb_fabric_memory_offer(struct vb_fabric_link *fabric, const struct vb_cable_slot *slot)
{
	static const uint8_t nowhere[sizeof(slot->gid)];
	struct vb_fabric_memory *memory = &fabric->memory;
	struct vb_cable_plug plug = {
		.magic = be32_of(VB_CABLE_MAGIC),
		.version = be16_of(VB_CABLE_VERSION),
		.slot = be16_of((uint16_t)fabric->schedule->slot),
		.slot_key = slot->slot_key,
	};
	uint32_t generation = be32_get(slot->generation), key = be32_get(slot->slot_key);
	int line, fd;

	if (memory->is_refused || (memory->generation == generation && memory->key == key) ||
	    memcmp(slot->gid, nowhere, sizeof(nowhere)) == 0)
		return;
	if (memory->state != VB_FABRIC_MEMORY_NONE)
		unplug(fabric);
	__atomic_store_n(&memory->generation, generation, __ATOMIC_RELAXED);
	__atomic_store_n(&memory->key, key, __ATOMIC_RELAXED);
	line = vb_memory_cable_connect(slot->gid);
	if (line < 0)
		return;
	fd = make_segment(memory);
	if (fd < 0 || vb_unix_send(line, &plug, sizeof(plug), &fd, 1, false) != 0) {
		vb_descriptor_close(line);
	} else {
		line = vb_descriptor_lift(line);
		__atomic_store_n(&memory->line, line, __ATOMIC_RELAXED);
		__atomic_store_n(&memory->state, VB_FABRIC_MEMORY_OFFERED, __ATOMIC_RELEASE);
	}
	if (fd >= 0)
		vb_descriptor_close(fd);
}

void vb_fabric_memory_listen(struct vb_fabric_link *fabric)
{
	struct vb_fabric_memory *memory = &fabric->memory;
	bool rang;

	if (memory->state == VB_FABRIC_MEMORY_NONE)
		return;
	if (!is_current(fabric) || !vb_memory_cable_heard(memory->line, &rang)) {
		unplug(fabric);
		return;
	}
	if (rang && memory->state == VB_FABRIC_MEMORY_OFFERED) {
		__atomic_store_n(&memory->state, VB_FABRIC_MEMORY_PLUGGED, __ATOMIC_RELEASE);
		vb_log(VB_LOG_INFO, "InfiniBand: packets go to the fabric and come from it through memory");
	}
	/* We may have taken from the engine thread what was to wake it: the fabric rings no more until that thread says again that
	 * it sleeps. */
	if (rang)
		vb_schedule_kick(fabric->schedule);
}

/* ---- sending ---- */

bool vb_fabric_memory_is_there(const struct vb_fabric_link *fabric)
{
	return is_plugged(&fabric->memory) && is_current(fabric);
}

/* Caller holds memory->sending. A full cable is waited for a little, and once: then not until it has moved. */
static uint8_t *wait_for_room(struct vb_fabric_memory *memory, size_t length)
{
	uint8_t *to = vb_frame_ring_reserve(&memory->writer, length);
	vb_time until;

	if (to) {
		memory->is_stuck = false;
		return to;
	}
	if (memory->is_stuck)
		return NULL;
	until = vb_clock_now() + PATIENCE;
	do {
		vb_thread_yield();
		to = vb_frame_ring_reserve(&memory->writer, length);
	} while (!to && vb_clock_now() < until);
	memory->is_stuck = !to;
	return to;
}

bool vb_fabric_memory_send(struct vb_fabric_link *fabric, const struct iovec *parts, unsigned count, size_t segment)
{
	struct vb_fabric_memory *memory = &fabric->memory;
	size_t length = 0;
	bool wake = false;
	uint8_t *to;

	for (unsigned i = 0; i < count; i++)
		length += parts[i].iov_len;
	vb_lock_take(&memory->sending);
	to = is_plugged(memory) ? wait_for_room(memory, length) : NULL;
	if (to) {
		uint8_t *at = to;

		for (unsigned i = 0; i < count; i++) {
			memcpy(at, parts[i].iov_base, parts[i].iov_len);
			at += parts[i].iov_len;
		}
		wake = vb_frame_ring_publish(&memory->writer, length, segment < length ? segment : length);
	}
	if (wake)
		vb_memory_cable_ring(memory->line);
	vb_lock_release(&memory->sending);
	return to != NULL;
}

/* ---- receiving ---- */

bool vb_fabric_memory_look(struct vb_fabric_link *fabric, struct vb_frame_ring_record *record)
{
	struct vb_fabric_memory *memory = &fabric->memory;
	enum vb_frame_ring_look look;

	if (memory->state != VB_FABRIC_MEMORY_PLUGGED)
		return false;
	look = vb_frame_ring_look(&memory->reader, record);
	if (look == VB_FRAME_RING_IS_BROKEN) {
		vb_log(VB_LOG_WARN, "InfiniBand: the fabric has written nonsense to our cable of memory: on by UDP");
		unplug(fabric);
	}
	return look == VB_FRAME_RING_HAS_RECORD;
}

void vb_fabric_memory_done(struct vb_fabric_link *fabric, const struct vb_frame_ring_record *record)
{
	vb_frame_ring_done(&fabric->memory.reader, record);
}

/* ---- who looks ---- */

static bool has_members(const struct vb_fabric_link *fabric)
{
	return __atomic_load_n(&fabric->link.members, __ATOMIC_RELAXED) != 0;
}

bool vb_fabric_memory_has_work(struct vb_link *link)
{
	struct vb_fabric_link *fabric = vb_fabric_link_of(link);

	return is_read(fabric) && vb_frame_ring_has_more(&fabric->memory.reader);
}

void vb_fabric_memory_spun(struct vb_link *link)
{
	struct vb_fabric_link *fabric = vb_fabric_link_of(link);

	if (!is_read(fabric) || !vb_frame_ring_is_asleep(&fabric->memory.reader) || !has_members(fabric))
		return;
	vb_frame_ring_wake(&fabric->memory.reader);
	vb_schedule_kick(fabric->schedule);
}

void vb_fabric_memory_watched(struct vb_link *link)
{
	struct vb_fabric_link *fabric = vb_fabric_link_of(link);
	struct vb_schedule *schedule = link->schedule;
	bool kick = true;

	/* Where it was set already, the fabric has rung since it left something, or the engine thread will look. */
	if (!is_read(fabric) || vb_frame_ring_is_asleep(&fabric->memory.reader))
		return;
	vb_frame_ring_sleep(&fabric->memory.reader);
	/* In the middle of another's pass we cannot look; the engine thread will. */
	if (vb_lock_try(&schedule->progress)) {
		kick = vb_frame_ring_has_more(&fabric->memory.reader);
		vb_lock_release(&schedule->progress);
	}
	if (kick)
		vb_schedule_kick(schedule);
}

void vb_fabric_memory_rise(struct vb_link *link)
{
	struct vb_fabric_link *fabric = vb_fabric_link_of(link);

	if (is_read(fabric) && has_members(fabric))
		vb_frame_ring_wake(&fabric->memory.reader);
}

vb_time vb_fabric_memory_rest(struct vb_link *link, vb_time until)
{
	struct vb_fabric_link *fabric = vb_fabric_link_of(link);
	struct vb_schedule *schedule = link->schedule;
	struct vb_frame_ring_reader *reader = &fabric->memory.reader;
	vb_time now = vb_clock_now(), stamp = __atomic_load_n(&schedule->spinner.stamp, __ATOMIC_RELAXED);
	bool has_more;

	if (!is_read(fabric))
		return until;
	if (!vb_frame_ring_is_asleep(reader)) {
		if (stamp != 0 && now - stamp < NAP && !__atomic_load_n(&schedule->spinner.watched, __ATOMIC_SEQ_CST) &&
		    has_members(fabric))
			return vb_time_earlier(until, now + NAP);
		vb_frame_ring_sleep(reader);
	}
	vb_lock_take(&schedule->progress);
	has_more = is_read(fabric) && vb_frame_ring_has_more(reader);
	vb_lock_release(&schedule->progress);
	return has_more ? 0 : until;
}
