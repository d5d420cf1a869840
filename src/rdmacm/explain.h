/* SPDX-License-Identifier: MIT
 *
 * Why a connection did not come about, told when the program takes the event, and why a call failed at once
 * (VERBENA_EXPLAIN).
 */
#ifndef VB_RDMACM_EXPLAIN_H
#define VB_RDMACM_EXPLAIN_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>

/* Does nothing for events that are no failure, and unless explanations are asked for. May wait for the peer's answer
 * for 1.6 seconds. Caller holds no lock. */
void vb_rdmacm_explain(const struct rdma_cm_event *event, bool datagram, bool fabric);

/* rdma_destroy_id waits: of so many events that the program took, these were not acknowledged. */
void vb_rdmacm_explain_unacknowledged(unsigned taken, unsigned missing);

struct vb_rdmacm_id;

/* A call fails: -1 with errno, explained by the state of the id (NULL: none), else by `why`, else by the error. */
int vb_rdmacm_refuse(const char *call, const struct vb_rdmacm_id *id, int error, const char *why);
/* 0 or -errno from inside -> 0, or that. */
int vb_rdmacm_outcome(const char *call, const struct vb_rdmacm_id *id, int error);
/* rdma_bind_addr and those that take an address of another: that address instead of the id's. */
struct vb_cm_address;
int vb_rdmacm_refuse_address(const char *call, const struct vb_rdmacm_id *id, const struct vb_cm_address *address,
			     int error, const char *why);

#endif
