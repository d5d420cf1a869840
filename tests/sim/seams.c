/* SPDX-License-Identifier: MIT
 *
 * See seams.h.
 */
#include "sim/seams.h"

#include <stdlib.h>

#include "io/clock.h"
#include "io/event.h"
#include "io/random.h"
#include "io/udp.h"
#include "wire/burst.h"
#include "wire/icrc.h"

struct seam seam;

/* ---- in place of io/clock.c ---- */

vb_time vb_clock_now(void)
{
	return seam.now;
}

vb_time vb_clock_coarse(void)
{
	return seam.now;
}

vb_time vb_clock_wall(void)
{
	return seam.now;
}

void vb_clock_sleep(vb_time duration)
{
	seam.now += duration;
}

/* ---- in place of io/random.c ---- */

uint32_t vb_random_u32(void)
{
	return seam.draw(UINT32_MAX);
}

uint64_t vb_random_u64(void)
{
	return (uint64_t)seam.draw(UINT32_MAX) << 32 | seam.draw(UINT32_MAX);
}

void vb_random_bytes(void *out, size_t length)
{
	for (size_t i = 0; i < length; i++)
		((uint8_t *)out)[i] = (uint8_t)seam.draw(256);
}

/* ---- waits take time of the world's ---- */

void __real_vb_wait(struct vb_wait_item *items, unsigned count, vb_time deadline);
void __wrap_vb_wait(struct vb_wait_item *items, unsigned count, vb_time deadline);
unsigned __real_vb_poller_wait(int poller, void **tags, unsigned room, vb_time deadline);
unsigned __wrap_vb_poller_wait(int poller, void **tags, unsigned room, vb_time deadline);

/* What was sent over loopback is there, or a moment later. */
void __wrap_vb_wait(struct vb_wait_item *items, unsigned count, vb_time deadline)
{
	bool readable = false, only_looks = count == 0 || (seam.is_patient && deadline <= seam.now);

	if (seam.arrive && !only_looks)
		seam.arrive();
	only_looks |= seam.arrive != NULL;
	__real_vb_wait(items, count, seam.now + VB_MILLISECONDS(!only_looks));
	for (unsigned i = 0; i < count; i++)
		readable |= items[i].readable;
	if (!readable && deadline != VB_TIME_NEVER && deadline > seam.now)
		seam.now = deadline;
}

unsigned __wrap_vb_poller_wait(int poller, void **tags, unsigned room, vb_time deadline)
{
	if (!seam.is_patient)
		return __real_vb_poller_wait(poller, tags, room, deadline);
	seam.deadline = deadline;
	seam.ready = __real_vb_poller_wait(poller, tags, room, seam.now);
	return seam.ready;
}

/* ---- the network ---- */

int __real_vb_udp_send_run(int fd, const struct vb_burst *burst, uint32_t run, uint32_t *lost);
int __wrap_vb_udp_send_run(int fd, const struct vb_burst *burst, uint32_t run, uint32_t *lost);

/* One by one, as where runs cannot be segmented (io/udp_send.c). */
int __wrap_vb_udp_send_run(int fd, const struct vb_burst *burst, uint32_t run, uint32_t *lost)
{
	const struct vb_burst_run *from = &burst->run[run];
	uint8_t *datagram;

	if (!seam.send)
		return __real_vb_udp_send_run(fd, burst, run, lost);
	datagram = malloc(from->segment_size);
	if (!datagram)
		abort();
	for (uint32_t i = 0; i < from->packets; i++) {
		size_t length = vb_burst_flatten(burst, run, i, datagram, from->segment_size);
		uint32_t crc = vb_icrc_begin(&from->path, 0, length);

		vb_icrc_store(vb_icrc_headers(crc, datagram, length - VB_ICRC_LENGTH), datagram + length - VB_ICRC_LENGTH);
		seam.send(&from->path, datagram, length);
	}
	free(datagram);
	*lost = 0;
	return 0;
}
