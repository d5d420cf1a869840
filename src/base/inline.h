/* SPDX-License-Identifier: MIT
 *
 * What becomes one piece of code. A message of eight bytes through memory takes some hundred nanoseconds, in which it passes through
 * thirty small functions of a dozen files. Whether the compiler puts those into one it decides anew with every change anywhere in the
 * library, and it folds functions of headers that look alike (-fipa-icf) before it asks: a SEND took 15 % more instructions than a version
 * before, with no change on its way. So the few functions that are that way say what they want.
 */
#ifndef VB_BASE_INLINE_H
#define VB_BASE_INLINE_H

/* Always a part of its caller. */
#define VB_INLINE static inline __attribute__((always_inline))
/* All that it calls is a part of it, as far as the compiler sees that. */
#define VB_FLAT __attribute__((flatten))
/* Not a part of what calls it, not even of those. */
#define VB_APART __attribute__((noinline))
/* Nor that: errors and other rare things. */
#define VB_RARE __attribute__((cold, noinline))

/* A thread's own, for what every message looks at: found by an offset that is known when the library is loaded, not by a call. Programs
 * that load us late have some hundred bytes for such variables in all (the initial-exec model), so for few and small ones. */
#define VB_THREAD_LOCAL __thread __attribute__((tls_model("initial-exec")))

#endif
