/* SPDX-License-Identifier: MIT
 *
 * For the preloaded libraries: a name that programs find here first, and the function behind it.
 */
#ifndef VB_PRELOAD_NEXT_H
#define VB_PRELOAD_NEXT_H

#include <dlfcn.h>
#include <stddef.h>

#define PRELOAD __attribute__((visibility("default")))

/* The function of that name that the program would have called without us. Found at the first call, because
 * libraries call some of these before our constructor has run; that two threads may find it at once does no harm. */
#define NEXT(name)                                                                      \
	({                                                                              \
		static __typeof__(&name) found;                                         \
		__typeof__(&name) it = __atomic_load_n(&found, __ATOMIC_RELAXED);       \
		if (it == NULL) {                                                       \
			*(void **)&it = dlsym(RTLD_NEXT, #name);                        \
			__atomic_store_n(&found, it, __ATOMIC_RELAXED);                 \
		}                                                                       \
		it;                                                                     \
	})

#endif
