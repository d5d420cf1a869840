/* SPDX-License-Identifier: MIT
 *
 * Records in a ring that one writes and one reads (threads, or processes through shared memory). Each begins with two words;
 * the first holds its stamp, a number that grows from record to record. There is no index that both would write or read for each
 * record: a message and the word that says it is there come in one cache line.
 *
 *   writer   body ; second word ; no stamp where the next record will be ; first word, with the stamp (vb_stamped_leave)
 *   reader   first word has the stamp that is next ? (vb_stamped_look) second word, body ; released, consumed (vb_stamped_give_back)
 *   writer   consumed, released (vb_stamped_consumed, vb_stamped_released) : may use those bytes again
 *
 * Why that holds, in the C11 model and so on every processor:
 *
 *   - The reader finds the stamp: its acquire load reads from the release store in vb_stamped_leave, so it sees body and second word.
 *   - It then looks where the next record will be: it sees that the stamp there was taken away, or what was stored later. What lies
 *     there from the lap before, and might look like a stamp, it does not see.
 *   - The writer finds that bytes were released, by an acquire load that reads from a release store behind the reader's last look at
 *     them: what it stores there is stored after that look. Each of the two stores in vb_stamped_give_back is a release for that: the
 *     writer may see the first without the second.
 *
 * tests/unit/litmus takes every execution of the first two, with and without each of the steps. (The third is about loads
 * that are done late, which its model has not.)
 *
 * Threads that are not the reader may ask whether there is something (vb_stamped_peek). They may be late: the reader has gone on, the
 * writer has come round, and where a record was to begin there is the middle of a body. What they find means nothing but that it is worth
 * a look as the reader, or not yet.
 */
#ifndef VB_BASE_STAMPED_RING_H
#define VB_BASE_STAMPED_RING_H

#include <stdint.h>

#include "base/inline.h"
#include "base/thread_sanitizer.h"

/* The record at `at`, whose body stands already; `next`: where the one after it will be. */
VB_INLINE void vb_stamped_leave(uint64_t *at, uint64_t first, uint64_t second, uint64_t *next)
{
	__atomic_store_n(&at[1], second, __ATOMIC_RELAXED);
	__atomic_store_n(next, 0, __ATOMIC_RELAXED);
	/* Partner of the load in vb_stamped_look. */
	__atomic_store_n(&at[0], first, __ATOMIC_RELEASE);
}

/* A body is no atomic object, and a peek into it is a data race by the letter of C11. It is a load of one aligned word, whatever may be
 * written there. ThreadSanitizer, which goes by the letter, does not watch it; nor could it be a part of what it watches then. */
#if VB_THREAD_SANITIZER
__attribute__((unused, no_sanitize("thread"))) static
#else
VB_INLINE
#endif
uint64_t vb_stamped_peek(const uint64_t *at)
{
	return __atomic_load_n(&at[0], __ATOMIC_RELAXED);
}

/* The first word of what is at `at`; only if that has the right stamp, the second. */
VB_INLINE uint64_t vb_stamped_look(const uint64_t *at)
{
	return __atomic_load_n(&at[0], __ATOMIC_ACQUIRE);
}

VB_INLINE uint64_t vb_stamped_second(const uint64_t *at)
{
	return __atomic_load_n(&at[1], __ATOMIC_RELAXED);
}

/* All records up to that number were read, and all bytes up to that position. */
VB_INLINE void vb_stamped_give_back(uint64_t *released, uint64_t position, uint64_t *consumed, uint64_t number)
{
	/* Partners of the loads below. */
	__atomic_store_n(released, position, __ATOMIC_RELEASE);
	__atomic_store_n(consumed, number, __ATOMIC_RELEASE);
}

VB_INLINE uint64_t vb_stamped_consumed(const uint64_t *consumed)
{
	return __atomic_load_n(consumed, __ATOMIC_ACQUIRE);
}

VB_INLINE uint64_t vb_stamped_released(const uint64_t *released)
{
	return __atomic_load_n(released, __ATOMIC_ACQUIRE);
}

#endif
