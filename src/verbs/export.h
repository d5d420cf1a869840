/* SPDX-License-Identifier: MIT
 *
 * What leaves the library. The version node of each name is in lib/libibverbs.map.in.
 */
#ifndef VB_VERBS_EXPORT_H
#define VB_VERBS_EXPORT_H

#define VB_EXPORT __attribute__((visibility("default")))

/* The same function under its name of the 1.0 node as well, which only binaries older than 2006 ask for. A name
 * with two versions must say so here for both: the map alone gives each name one. */
#define VB_EXPORT_COMPAT(name)                                                                     \
	VB_EXPORT __typeof__(name) vb_compat_##name __attribute__((alias(#name), used));            \
	__asm__(".symver " #name "," #name "@@@IBVERBS_1.1\n\t"                                    \
		".symver vb_compat_" #name "," #name "@IBVERBS_1.0")

#endif
