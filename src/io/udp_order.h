/* SPDX-License-Identifier: MIT
 *
 * What a thread does before it sends happens before what another does with the packet: the kernel's sockets see to it. ThreadSanitizer
 * knows that of one descriptor, but packets leave by one and come in by another, and it would take an application that fills
 * memory and then lets it be written by RDMA for a data race. So it is told.
 */
#ifndef VB_IO_UDP_ORDER_H
#define VB_IO_UDP_ORDER_H

#include "base/thread_sanitizer.h"

#if VB_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>

extern char vb_udp_order;              /* stands for all packets: they are what is between */

static inline void vb_udp_before_sending(void)
{
	__tsan_release(&vb_udp_order);
}

static inline void vb_udp_after_receiving(void)
{
	__tsan_acquire(&vb_udp_order);
}
#else
static inline void vb_udp_before_sending(void)
{
}

static inline void vb_udp_after_receiving(void)
{
}
#endif

#endif
