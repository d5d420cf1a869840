/* SPDX-License-Identifier: MIT
 *
 * Something in shared memory that ends and begins anew at the same place, while others still know it from before: a
 * queue pair from one RTR to the next, a registration under a key that comes again. Each time is a generation, with a
 * number that no other has.
 *
 * One word says which generation stands, with flags below the number that may change meanwhile:
 *
 *   owner    vb_generation_begin: nothing of the one before stands ; store the fields ; vb_generation_show: this one stands, with flags
 *   reader   w = word (vb_generation_read) ; load the fields ; the same number still (vb_generation_stands) ? they are of that generation
 *
 * That is a sequence lock (base/sequence_lock.h) of whose word the number alone counts. Numbers grow, so that none comes again
 * between a reader's two looks; the first follows from something that no process before had at this place (vb_generation_next).
 *
 * Two that work together each name the generation of the other with which they do (`partner`). What one of them then
 * shows of that work, and changes all the time, is about the other only if both names fit:
 *
 *   owner    begins: partner and counts are cleared with the fields ; vb_generation_join: works with that generation ; counts
 *   reader   load the counts, each with acquire order ; vb_generation_goes_with ? they are about us
 *
 *   - The reader loaded a count that was stored in a later generation of the owner: that store comes after the release fence in
 *     vb_generation_begin, and the load is an acquire. The two synchronize (C11 7.17.4), so the look at the word that follows finds the
 *     later number.
 *   - The count is of an earlier generation: the reader has seen the word of this one before it loaded the count, and all fields
 *     with it, by its acquire load.
 *   - Within a generation the owner takes another partner only while all counts are as they were when it began.
 *
 * Where the word is a name that comes again, and has no room for a number, the number is one of the fields:
 *
 *   owner    vb_sequence_begin ; store the fields and the number ; vb_sequence_end: the name
 *   reader   knows number and fields from an earlier look ; vb_generation_is_named ? they stand
 *
 *   - The reader's acquire load finds the name as some generation R has stored it, so it sees the number of R or a later one. It finds
 *     the number that it knows: that generation is not older than R; nor is R older, for the reader has seen the name that stands
 *     with the number before.
 *
 * tests/unit/litmus takes every execution of all three, with and without each of the steps.
 */
#ifndef VB_BASE_GENERATION_H
#define VB_BASE_GENERATION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/inline.h"
#include "base/sequence_lock.h"

/* Lower bits of a word. */
enum { VB_GENERATION_FLAGS = 8 };

VB_INLINE uint64_t vb_generation_of(uint64_t word)
{
	return word >> VB_GENERATION_FLAGS;
}

VB_INLINE uint64_t vb_generation_word(uint64_t number, uint64_t flags)
{
	return number << VB_GENERATION_FLAGS | flags;
}

/* The number after that of a word. The word is 0, there was none: `first`, cut to what fits. Never 0, which stands for none. */
VB_INLINE uint64_t vb_generation_next(uint64_t word, uint64_t first)
{
	uint64_t number = (word == 0 ? first : vb_generation_of(word) + 1) & UINT64_MAX >> VB_GENERATION_FLAGS;

	return number != 0 ? number : 1;
}

/* What stood stands no more: the fields may change. */
VB_INLINE void vb_generation_begin(uint64_t *word, uint64_t number)
{
	vb_sequence_begin(word, vb_generation_word(number, 0));
}

/* It stands; or it stands already, and the flags change. */
VB_INLINE void vb_generation_show(uint64_t *word, uint64_t number, uint64_t flags)
{
	vb_sequence_end(word, vb_generation_word(number, flags));
}

VB_INLINE uint64_t vb_generation_read(const uint64_t *word)
{
	return vb_sequence_read(word);
}

/* The fields were loaded: are they of that generation? */
VB_INLINE bool vb_generation_stands(const uint64_t *word, uint64_t number)
{
	return vb_generation_of(vb_sequence_read_again(word)) == number;
}

/* 0: with none. */
VB_INLINE void vb_generation_join(uint64_t *partner, uint64_t number)
{
	__atomic_store_n(partner, number, __ATOMIC_SEQ_CST);
}

/* The counts were loaded, with acquire order: are they about the work of these two generations? */
VB_INLINE bool vb_generation_goes_with(const uint64_t *partner, uint64_t ours, const uint64_t *word, uint64_t theirs)
{
	return __atomic_load_n(partner, __ATOMIC_ACQUIRE) == ours && vb_generation_of(__atomic_load_n(word, __ATOMIC_RELAXED)) == theirs;
}

/* Does the generation of that number stand, under that name? Sequentially consistent in the look at the name, for the sake of
 * owners that take it away and then look who uses it. */
VB_INLINE bool vb_generation_is_named(const uint64_t *word, uint64_t name, const uint64_t *at, uint64_t number)
{
	return vb_sequence_read(word) == name && VB_SEQUENCE_GET(*at) == number;
}

#endif
