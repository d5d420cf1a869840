/* SPDX-License-Identifier: MIT
 *
 * What clang is told of locks, so that it finds paths on which one is not given back, given back twice, or missing where a function
 * needs it (-Wthread-safety, the stage clang of tests/run). Other compilers see nothing of it.
 *
 * C has no name for "the lock beside me in this structure" before clang 20: so data within objects is not marked, but the
 * functions that need its lock are. VB_GUARDED_BY is for variables.
 */
#ifndef VB_BASE_THREAD_SAFETY_H
#define VB_BASE_THREAD_SAFETY_H

#ifdef __clang__
#define VB_THREAD_SAFETY(attribute) __attribute__((attribute))
#else
#define VB_THREAD_SAFETY(attribute)
#endif

#define VB_IS_LOCK(kind) VB_THREAD_SAFETY(capability(kind))
#define VB_GUARDED_BY(lock) VB_THREAD_SAFETY(guarded_by(lock))

/* Behind a function's parameters, which may be named. */
#define VB_TAKES(lock) VB_THREAD_SAFETY(acquire_capability(lock))
#define VB_TRIES(lock) VB_THREAD_SAFETY(try_acquire_capability(true, lock))
#define VB_RELEASES(lock) VB_THREAD_SAFETY(release_capability(lock))
#define VB_NEEDS(lock) VB_THREAD_SAFETY(requires_capability(lock))
#define VB_ASSERTS(lock) VB_THREAD_SAFETY(assert_capability(lock))
/* It does what clang cannot follow; the comment beside it says what. */
#define VB_UNCHECKED VB_THREAD_SAFETY(no_thread_safety_analysis)

#endif
