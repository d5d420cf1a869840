/* SPDX-License-Identifier: MIT
 *
 * Connection management in a capture (VERBENA_CAPTURE): the daemon sends its MADs, so it is asked to tell of those that
 * concern this process, and here they are written down, as are the events that the program takes, and the MPA frames of
 * connections of iWARP. Likewise it is asked to lose some of them (VERBENA_FAULTS).
 */
#ifndef VB_RDMACM_TRACE_H
#define VB_RDMACM_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/time.h"

/* A new connection to the daemon: ask it, if there is a capture or something to be lost. */
void vb_rdmacm_trace_ask(int fd);
/* A message of type VB_CM_TRACE. False: it makes no sense. */
bool vb_rdmacm_trace_packet(const void *bytes, size_t length);
struct vb_mpa;
/* So many bytes of the MPA frame have left, no earlier than then, which vb_mpa_sent has not been told of yet; the peer's frame has come. */
void vb_rdmacm_trace_sent(int fd, const struct vb_mpa *mpa, size_t length, vb_time when);
void vb_rdmacm_trace_received(int fd, const struct vb_mpa *mpa);
/* The program has taken an event: enum rdma_cm_event_type. */
void vb_rdmacm_trace_event(uint32_t event);

#endif
