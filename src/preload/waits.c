/* SPDX-License-Identifier: MIT
 *
 * See waits.h.
 */
#include "preload/waits.h"

#include <stdint.h>
#include <string.h>

#include "preload/next.h"
#include "wire/waiting.h"

enum {
	DESCRIPTORS = 1 << 16,             /* of those beyond nothing is known */
	MOST = 256,                        /* of one call */
};

enum mark {
	CHANNEL = 1,
	/* Of a set that was closed it stays. A thread that waits for what has its number then waits for the wire as well, and no less. */
	SET = 2,
};

static uint8_t marks[DESCRIPTORS]; /* atomic */
static struct vb_waiting *waiting; /* atomic; NULL: there is no libibverbs, or it has made no channel */

static uint8_t mark_of(int fd)
{
	return fd >= 0 && fd < DESCRIPTORS ? __atomic_load_n(&marks[fd], __ATOMIC_RELAXED) : 0;
}

static void mark(int fd, uint8_t as)
{
	if (fd >= 0 && fd < DESCRIPTORS)
		__atomic_store_n(&marks[fd], as, __ATOMIC_RELAXED);
}

static void note(int fd, bool is_channel)
{
	mark(fd, is_channel ? CHANNEL : 0);
}

static int kernel_ppoll(struct pollfd *fds, unsigned long count, const struct timespec *timeout, const void *mask)
{
	return NEXT(ppoll)(fds, count, timeout, mask);
}

vb_waiting_function verbena_waiting;

PRELOAD bool verbena_waiting(struct vb_waiting *theirs)
{
	if (theirs->version != VB_WAITING_VERSION)
		return false;
	theirs->note = note;
	theirs->ppoll = kernel_ppoll;
	__atomic_store_n(&waiting, theirs, __ATOMIC_RELEASE);
	return true;
}

bool vb_preload_waits_concern(struct pollfd *fds, nfds_t count)
{
	uint8_t found = 0;

	if (__atomic_load_n(&waiting, __ATOMIC_ACQUIRE) == NULL || fds == NULL || count > MOST)
		return false;
	for (nfds_t i = 0; i < count; i++)
		found |= mark_of(fds[i].fd);
	return found != 0;
}

int vb_preload_wait(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
	struct pollfd all[MOST + 1];
	int result;

	memcpy(all, fds, count * sizeof(*fds));
	result = __atomic_load_n(&waiting, __ATOMIC_ACQUIRE)->sleep(all, count, timeout, mask);
	for (nfds_t i = 0; i < count && result >= 0; i++)
		fds[i].revents = all[i].revents;
	return result;
}

void vb_preload_waits_new_set(int set)
{
	mark(set, 0);
}

void vb_preload_waits_add(int set, int fd)
{
	if (mark_of(fd) != 0)
		mark(set, SET);
}
