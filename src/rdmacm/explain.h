/* SPDX-License-Identifier: MIT
 *
 * Why a connection did not come about, told when the program takes the event (VERBENA_EXPLAIN).
 */
#ifndef VB_RDMACM_EXPLAIN_H
#define VB_RDMACM_EXPLAIN_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>

/* Does nothing for events that are no failure, and unless explanations are asked for. May wait for the peer's answer
 * for 1.6 seconds. Caller holds no lock. */
void vb_rdmacm_explain(const struct rdma_cm_event *event, bool datagram);

#endif
