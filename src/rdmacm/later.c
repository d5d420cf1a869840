/* SPDX-License-Identifier: MIT
 *
 * What librdmacm has got since rdma-core 44: events that a program writes for itself, addresses that are resolved behind its back,
 * epoll of rsockets. None of it is here; the names are, since programs of newer distributions bind to them, and each call says so, as
 * an older kernel makes rdma-core's say. They have names of our own in C, which later headers do not disagree with.
 */
#include <errno.h>

#include "rdmacm/export.h"

#define X(name)                                                                                                  \
	int vb_rdmacm_refused_##name(void) __asm__(#name);                                                       \
	VB_EXPORT int vb_rdmacm_refused_##name(void)                                                             \
	{                                                                                                        \
		errno = ENOSYS;                                                                                  \
		return -1;                                                                                       \
	}
X(rdma_query_addrinfo) X(rdma_resolve_addrinfo) X(rdma_write_cm_event) X(repoll_create) X(repoll_ctl) X(repoll_wait)
#undef X
