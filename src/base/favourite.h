/* SPDX-License-Identifier: MIT
 *
 * A lock that one thread takes without an exchange: what the two sides do. base/lock.h says which thread that is, and for how long.
 *
 *   favourite    inside = 1 ; is it favoured? (vb_favourite_enters) ; ... ; inside = 0
 *   another      favoured = no ; barrier on all processors ; is it inside? (vb_favourite_is_inside) ; ...
 *
 * This is base/sleep_flag.h's argument. Either the favourite's store comes before the fence that the barrier makes it execute, and is seen;
 * or its look comes after that, and finds the favour ended. tests/unit/litmus takes every execution.
 *
 * The others have a lock of their own against each other. `inside` has one writer, for ever: who was the favourite once may be
 * between its first look and its store, and stands there for as long as it has no processor.
 */
#ifndef VB_BASE_FAVOURITE_H
#define VB_BASE_FAVOURITE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/inline.h"

VB_INLINE bool vb_favourite_is_favoured(const uintptr_t *favoured, uintptr_t me)
{
	return __atomic_load_n(favoured, __ATOMIC_RELAXED) == me;
}

VB_INLINE void vb_favourite_leaves(uint32_t *inside)
{
	__atomic_store_n(inside, 0, __ATOMIC_RELEASE);
}

/* Where it is favoured, as far as it knows. */
VB_INLINE bool vb_favourite_enters(uint32_t *inside, const uintptr_t *favoured, uintptr_t me)
{
	__atomic_store_n(inside, 1, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (vb_favourite_is_favoured(favoured, me))
		return true;
	vb_favourite_leaves(inside);
	return false;
}

/* Behind the barrier that follows: was it inside when the favour ended, or does it look in once more? If not, it will not be. */
VB_INLINE bool vb_favourite_is_inside(const uint32_t *inside)
{
	return __atomic_load_n(inside, __ATOMIC_ACQUIRE) != 0;
}

VB_INLINE void vb_favourite_is_no_more(uintptr_t *favoured, uintptr_t nothing)
{
	__atomic_store_n(favoured, nothing, __ATOMIC_SEQ_CST);
}

#endif
