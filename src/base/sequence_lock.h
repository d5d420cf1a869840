/* SPDX-License-Identifier: MIT
 *
 * Contents that one writer changes now and then, and that others (threads, or processes through shared memory) copy
 * out without a lock: one word says which contents stand. The writer has a lock of its own, or is alone.
 *
 *   writer   word = not what stood (vb_sequence_begin) ; store the fields ; word = what stands now (vb_sequence_end)
 *   reader   w = word (vb_sequence_read) ; load the fields ; word == w still ? (vb_sequence_stands) they belong together, and to w
 *
 * A word must not come again with other contents while a reader may be between its two looks: it holds a number that
 * grows.
 *
 * Why that holds, in the C11 model and so on every processor:
 *
 *   - The reader finds w: its acquire load reads from the release store of vb_sequence_end, so it sees the fields of
 *     w, or later ones.
 *   - It sees a field that was stored after w went: that store comes after the release fence in vb_sequence_begin,
 *     and the reader's load before its acquire fence in vb_sequence_read_again. The two fences synchronize (C11
 *     7.17.4), so that the second look at the word finds the store that stands before the first fence, or a later
 *     one: not w.
 *
 * Without the fence in vb_sequence_begin the second step does not hold, however strong the store of the word is: a
 * store orders what comes before it, not what comes after. A processor of the ARM family may let the fields be seen
 * before it. tests/unit/litmus takes every execution that the model allows, with and without it.
 *
 * Both stores of the word and the first load are sequentially consistent besides: each can be one half of Dekker's
 * argument ("I show that I am there, then look at the word" against "I change the word, then look who is there").
 */
#ifndef VB_BASE_SEQUENCE_LOCK_H
#define VB_BASE_SEQUENCE_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/inline.h"

/* The fields: any size that the processor loads and stores at once. */
#define VB_SEQUENCE_SET(field, value) __atomic_store_n(&(field), (value), __ATOMIC_RELAXED)
#define VB_SEQUENCE_GET(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)

/* What stood stands no more: the fields may change. */
VB_INLINE void vb_sequence_begin(uint64_t *word, uint64_t meanwhile)
{
	__atomic_store_n(word, meanwhile, __ATOMIC_SEQ_CST);
	/* Partner of the fence in vb_sequence_read_again. */
	__atomic_thread_fence(__ATOMIC_RELEASE);
}

VB_INLINE void vb_sequence_end(uint64_t *word, uint64_t now)
{
	/* Partner of the load in vb_sequence_read. */
	__atomic_store_n(word, now, __ATOMIC_SEQ_CST);
}

VB_INLINE uint64_t vb_sequence_read(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_SEQ_CST);
}

/* The fields were loaded: what does the word say now? (For words of which only a part says which contents stand.) */
VB_INLINE uint64_t vb_sequence_read_again(const uint64_t *word)
{
	/* Partner of the fence in vb_sequence_begin. */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

/* Do they belong to `read`? */
VB_INLINE bool vb_sequence_stands(const uint64_t *word, uint64_t read)
{
	return vb_sequence_read_again(word) == read;
}

#endif
