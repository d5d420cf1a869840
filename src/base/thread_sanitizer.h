/* SPDX-License-Identifier: MIT
 *
 * VB_THREAD_SANITIZER: 1 where this is built for ThreadSanitizer, which gcc and clang say in ways of their own.
 */
#ifndef VB_BASE_THREAD_SANITIZER_H
#define VB_BASE_THREAD_SANITIZER_H

#ifdef __SANITIZE_THREAD__
#define VB_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define VB_THREAD_SANITIZER 1
#endif
#endif
#ifndef VB_THREAD_SANITIZER
#define VB_THREAD_SANITIZER 0
#endif

#endif
